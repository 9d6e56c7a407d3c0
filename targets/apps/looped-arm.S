/* See looped.c. r0: how many turns; r1: not 0 where it does not return. */
        .syntax unified
        .text
        .globl  turns
        .type   turns, %function
        .thumb_func
turns:  subs    r0, r0, #1
        bne     turns
        cmp     r1, #0
        bne     1f
        bx      lr
1:      b       leave
        .size   turns, . - turns
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
