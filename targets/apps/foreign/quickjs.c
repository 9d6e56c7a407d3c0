/* QuickJS, from a package's sources, runs the script of ours in quickjs-work.js. */
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "quickjs.h"

static const char EXPECTED[] = "19663";

extern const char script[], script_end[];
__asm__(".section .rodata\n.global script, script_end\nscript: .incbin \"apps/foreign/quickjs-work.js\"\n"
        "script_end: .byte 0\n.text\n");

/* The seed of Math.random and the dates, which the script does not use. */
int gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    now->tv_sec = 0;
    now->tv_usec = 0;
    return 0;
}

int main(void)
{
    JSRuntime *runtime = JS_NewRuntime();
    JSContext *context = runtime ? JS_NewContext(runtime) : NULL;
    if (!context)
        return 2;
    /* The boards' stacks have no bound that it knows. */
    JS_SetMaxStackSize(runtime, 0);
    JSValue value = JS_Eval(context, script, (size_t)(script_end - script), "work", JS_EVAL_TYPE_GLOBAL);
    int failed = JS_IsException(value);
    const char *answer = JS_ToCString(context, failed ? JS_GetException(context) : value);
    if (!answer)
        return 2;
    printf("%s\n", answer);
    return failed || strcmp(answer, EXPECTED) != 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
