/* Calls in IT blocks, behind literal pools and by branch tables: see it.h. */
#include "it.h"

        .syntax unified
        .thumb
        .text
        .globl  it_rounds
        .type   it_rounds, %function
        .balign 4
it_rounds:
        push    {r4, r5, r6, lr}
        mov     r4, r0
        movs    r5, #0          /* i */
        movs    r0, #1          /* the sum */
1:      tst     r5, #1
        it      eq
        bleq    it_even
        tst     r5, #1
        itttt   ne
        addne   r0, r0, #3
        eorne   r0, r0, r5
        movne   r6, r0
        blne    it_odd
        and     r1, r5, #3
        ldr     r2, =it_third
        cmp     r1, #3
        it      eq
        blxeq   r2
        b       2f
        .ltorg
2:      bl      it_far
        and     r1, r5, #3
        tst     r5, #4
        bne     3f
        tbb     [pc, r1]
4:      .byte   (10f - 4b) / 2, (11f - 4b) / 2, (12f - 4b) / 2, (13f - 4b) / 2
3:      tbh     [pc, r1, lsl #1]
5:      .hword  (10f - 5b) / 2, (11f - 5b) / 2, (12f - 5b) / 2, (13f - 5b) / 2
10:     bl      it_case0
        b       6f
11:     bl      it_case1
        b       6f
12:     bl      it_case2
        b       6f
13:     bl      it_case3
6:      adds    r5, r5, #1
        cmp     r5, r4
        bne     1b
        pop     {r4, r5, r6, pc}
        .ltorg
        .size   it_rounds, . - it_rounds
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
