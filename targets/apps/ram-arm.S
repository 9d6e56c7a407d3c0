/* The code that ram.c copies, for Thumb-2. */
        .syntax unified
        .thumb
        .section .rodata
        .globl  ram_add1, ram_add1_end, ram_add5, ram_add5_end, ram_mix, ram_mix_end
        .balign 4
ram_add1:
        adds    r0, r0, #1
        bx      lr
ram_add1_end:
        .balign 4
ram_add5:
        adds    r0, r0, #5
        bx      lr
ram_add5_end:
        .balign 4
ram_mix:
        lsls    r1, r0, #3
        eors    r0, r0, r1
        adds    r0, r0, #9
        bx      lr
ram_mix_end:
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
