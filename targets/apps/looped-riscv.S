/* See looped.c. a0: how many turns; a1: not 0 where it does not return. */
        .text
        .globl  turns
        .type   turns, @function
        .balign 4
turns:  addi    a0, a0, -1
        bnez    a0, turns
        bnez    a1, 1f
        ret
1:      tail    leave
        .size   turns, . - turns
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
