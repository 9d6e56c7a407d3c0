# Interpreters and a database that nobody here wrote, compiled from the sources that packages carry (Cargo.toml) with
# Debian's picolibc: for ci/bench, and no part of `all`. The programs that drive them, and their work, are ours
# (../apps/foreign).

FOREIGN_LINK := $(shell foreign/link || echo failed)
ifneq ($(FOREIGN_LINK),)
$(error the sources of the foreign benches were not found)
endif
F = build/foreign

define foreign_variant
$(call variant,$(1),-foreign,--specs=picolibc.specs -w)
$(1)-foreign.without = -ffreestanding -Ilib/include -fno-tree-loop-distribute-patterns
$(1)-foreign.ld = $$($(1).prefix)gcc $$($(1).cpu) --specs=picolibc.specs --crt0=semihost --oslib=semihost -static \
    -Wl,--build-id=none -Wl,--gc-sections
$(1)-foreign.script = ports/foreign/$(2).ld
$(1)-foreign.port =
$(1)-foreign.lib = no
$$(eval $$(call board_rules,$(1)-foreign))
endef
$(eval $(call foreign_variant,riscv64-virt,virt))
$(eval $(call foreign_variant,mps2-an385,mps2-an385))

# $(call foreign,name,sources): on both boards.
foreign = $(eval $(call image,bench/riscv64-$(1),riscv64-virt-foreign,$(2))) \
    $(eval $(call image,bench/cortex-m3-$(1),mps2-an385-foreign,$(2))) \
    $(eval build/bench/riscv64-$(1).elf build/bench/cortex-m3-$(1).elf: LIBS = -lm)

# Of Lua, what needs no files and no host.
LUA = $(filter-out $(addprefix $F/lua/,liolib.c loslib.c loadlib.c linit.c ldblib.c lutf8lib.c),$(wildcard $F/lua/*.c))
$(call foreign,lua,apps/foreign/lua.c $(LUA))
build/obj/%-foreign/apps/foreign/lua.o: FLAGS = -I$F/lua
build/obj/riscv64-virt-foreign/apps/foreign/lua.o build/obj/mps2-an385-foreign/apps/foreign/lua.o: apps/foreign/lua-work.lua

$(call foreign,sqlite,apps/foreign/sqlite.c $F/sqlite/sqlite3.c)
build/obj/%-foreign/apps/foreign/sqlite.o build/obj/%-foreign/$F/sqlite/sqlite3.o: FLAGS = -I$F/sqlite -DSQLITE_OS_OTHER=1 \
    -DSQLITE_THREADSAFE=0 -DSQLITE_TEMP_STORE=3 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_WAL -DSQLITE_OMIT_LOCALTIME

# Without threads and atomics, as it is built for DOS.
$(call foreign,quickjs,apps/foreign/quickjs.c $(addprefix $F/quickjs/,quickjs.c dtoa.c libregexp.c libunicode.c))
build/obj/%-foreign/apps/foreign/quickjs.o: FLAGS = -I$F/quickjs -D__DJGPP
build/obj/riscv64-virt-foreign/$F/quickjs/%.o build/obj/mps2-an385-foreign/$F/quickjs/%.o: FLAGS = -D__DJGPP
build/obj/riscv64-virt-foreign/apps/foreign/quickjs.o build/obj/mps2-an385-foreign/apps/foreign/quickjs.o: \
    apps/foreign/quickjs-work.js
# SPDX-License-Identifier: MIT OR Apache-2.0
