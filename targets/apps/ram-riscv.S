/* The code that ram.c copies, for RISC-V. */
        .section .rodata
        .option norelax
        .globl  ram_add1, ram_add1_end, ram_add5, ram_add5_end, ram_mix, ram_mix_end
        .balign 4
ram_add1:
        addi    a0, a0, 1
        ret
ram_add1_end:
        .balign 4
ram_add5:
        addi    a0, a0, 5
        ret
ram_add5_end:
        .balign 4
ram_mix:
        slliw   a1, a0, 3
        xor     a0, a0, a1
        addiw   a0, a0, 9
        ret
ram_mix_end:
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
