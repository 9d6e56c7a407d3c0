/* Lua, from a package's sources, runs the script of ours in lua-work.lua. */
#include <stdio.h>
#include <string.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static const char EXPECTED[] = "881924584";

extern const char script[], script_end[];
__asm__(".section .rodata\n.global script, script_end\nscript: .incbin \"apps/foreign/lua-work.lua\"\nscript_end: .byte 0\n"
        ".text\n");

int main(void)
{
    lua_State *lua = luaL_newstate();
    if (!lua)
        return 2;
    static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},      {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},
                                         {LUA_COLIBNAME, luaopen_coroutine}};
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        luaL_requiref(lua, libraries[i].name, libraries[i].func, 1);
        lua_pop(lua, 1);
    }
    if (luaL_loadbuffer(lua, script, (size_t)(script_end - script), "=work") || lua_pcall(lua, 0, 1, 0)) {
        printf("%s\n", lua_tostring(lua, -1));
        return 1;
    }
    const char *answer = lua_tostring(lua, -1);
    printf("%s\n", answer);
    return strcmp(answer, EXPECTED) != 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
