/* The loop of alias.h for Thumb-2. */
#include "alias.h"

        .syntax unified
        .thumb
        .text
        .globl  alias_rounds, alias_short, alias_long
        .type   alias_rounds, %function
alias_rounds:
        push    {r4, lr}
        mov     r4, r0
1:      bl      alias_short
        bl      alias_long
        subs    r4, r4, #1
        bne     1b
        pop     {r4, pc}
        .size   alias_rounds, . - alias_rounds

        .type   alias_short, %function
alias_short:
        movw    r0, #ALIAS_SHORT
1:      subs    r0, r0, #1
        bne     1b
        bx      lr
        .size   alias_short, . - alias_short

        .type   alias_long, %function
alias_long:
        nop     /* RISC-V needs two instructions for the constant */
        movw    r0, #ALIAS_LONG
1:      subs    r0, r0, #1
        bne     1b
        bx      lr
        .size   alias_long, . - alias_long
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
