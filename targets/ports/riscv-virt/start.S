/* Reset, trap entry and the semihosting call of QEMU's `virt`. Everything is addressed relative to pc
   (lla), so that the same file serves the position-independent image, which also relocates itself. */

#include "word.h"
#define STACK 16384

        .section .text.start, "ax"
        .globl _start
        .type _start, @function
_start:
        .option push
        .option norelax
        lla     gp, __global_pointer$
        .option pop
        lla     t0, trap_entry
        csrw    mtvec, t0
        csrr    a0, mhartid
        lla     sp, __stack_top
        bnez    a0, 3f
#ifdef __pie__
        /* R_RISCV_RELATIVE only: *(base + offset) = base + addend. */
        lla     t0, __rela_start
        lla     t1, __rela_end
        lla     t2, __image_start
        bgeu    t0, t1, 2f
1:      LOAD    t3, 0(t0)
        LOAD    t4, 2*REG(t0)
        add     t3, t3, t2
        add     t4, t4, t2
        STORE   t4, 0(t3)
        addi    t0, t0, 3*REG
        bltu    t0, t1, 1b
2:
#endif
        lla     t0, __bss_start
        lla     t1, __bss_end
        bgeu    t0, t1, 5f
4:      STORE   zero, 0(t0)
        addi    t0, t0, REG
        bltu    t0, t1, 4b
5:      call    port_main
        /* Other harts: a stack each, below the first one's. */
3:      li      t1, STACK
        mul     t1, t1, a0
        sub     sp, sp, t1
        call    secondary_main
6:      wfi
        j       6b
        .size _start, . - _start

        .text
        .globl trap_entry
        .type trap_entry, @function
        .balign 4
trap_entry:
        addi    sp, sp, -16*REG
        STORE   ra,  0*REG(sp)
        STORE   t0,  1*REG(sp)
        STORE   t1,  2*REG(sp)
        STORE   t2,  3*REG(sp)
        STORE   a0,  4*REG(sp)
        STORE   a1,  5*REG(sp)
        STORE   a2,  6*REG(sp)
        STORE   a3,  7*REG(sp)
        STORE   a4,  8*REG(sp)
        STORE   a5,  9*REG(sp)
        STORE   a6, 10*REG(sp)
        STORE   a7, 11*REG(sp)
        STORE   t3, 12*REG(sp)
        STORE   t4, 13*REG(sp)
        STORE   t5, 14*REG(sp)
        STORE   t6, 15*REG(sp)
        csrr    a0, mcause
        csrr    a1, mepc
        call    trap
        csrw    mepc, a0
        LOAD    ra,  0*REG(sp)
        LOAD    t0,  1*REG(sp)
        LOAD    t1,  2*REG(sp)
        LOAD    t2,  3*REG(sp)
        LOAD    a0,  4*REG(sp)
        LOAD    a1,  5*REG(sp)
        LOAD    a2,  6*REG(sp)
        LOAD    a3,  7*REG(sp)
        LOAD    a4,  8*REG(sp)
        LOAD    a5,  9*REG(sp)
        LOAD    a6, 10*REG(sp)
        LOAD    a7, 11*REG(sp)
        LOAD    t3, 12*REG(sp)
        LOAD    t4, 13*REG(sp)
        LOAD    t5, 14*REG(sp)
        LOAD    t6, 15*REG(sp)
        addi    sp, sp, 16*REG
        mret
        .size trap_entry, . - trap_entry

        /* long semihost(long operation, const void *block): the three instructions must be
           uncompressed and on one page. */
        .globl semihost
        .type semihost, @function
        .balign 16
        .option push
        .option norvc
semihost:
        slli    zero, zero, 0x1f
        ebreak
        srai    zero, zero, 7
        ret
        .option pop
        .size semihost, . - semihost
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
