/* A RISC-V chip, from its reset on: control and status registers of its own, cycles at its frequency, USART0 of the GD32VF103, an
   address at which there is nothing. Prints what is right; `wrong` and the number of the check otherwise. */

        .equ    USART, 0x40013800
        .equ    PROBE, 0x7f0            /* begins with 0x1234 */
        .equ    COUNT, 0x7f1            /* counts cycles */
        .equ    NOWHERE, 0x90000000

        .section .text.start, "ax"
        .globl _start
        .type _start, @function
_start:
        la      sp, 0x20008000
        li      t0, USART
        li      t1, 0x200c              /* UE, TE, RE */
        sw      t1, 0x0c(t0)
        la      t0, trap
        csrw    mtvec, t0
        call    registers
        call    cycles
        call    nowhere
        li      a0, 0
        call    exit
        .size _start, . - _start

        .macro  check number, message
        li      a1, \number
        bnez    a0, wrong
        la      a0, 9f
        call    print
        .pushsection .rodata
9:      .asciz "\message\n"
        .popsection
        .endm

        .type registers, @function
registers:
        addi    sp, sp, -16
        sw      ra, 12(sp)
        csrr    a0, PROBE
        li      t0, 0x1234
        sub     a0, a0, t0
        check   1, "right a register begins with its value"
        li      t0, 0xdeadbeef
        csrrw   a0, PROBE, t0
        csrr    t1, PROBE
        sub     a0, t1, t0
        check   2, "right a register holds what is written"
        li      t0, 0xdeadbeef
        csrrsi  a0, PROBE, 16
        sub     a0, a0, t0
        csrrci  t1, PROBE, 1
        addi    t0, t0, 16
        sub     t1, t1, t0
        or      a0, a0, t1
        check   3, "right bits are set and cleared"
        lw      ra, 12(sp)
        addi    sp, sp, 16
        ret
        .size registers, . - registers

/* 1,000 turns of 8 ns each, of two instructions: 1,728 cycles at 108 MHz, and what is around. */
        .type cycles, @function
cycles:
        addi    sp, sp, -16
        sw      ra, 12(sp)
        csrw    COUNT, x0
        csrr    t0, mcycle
        li      t2, 1000
1:      addi    t2, t2, -1
        bnez    t2, 1b
        csrr    s1, mcycle
        csrr    s2, COUNT
        sub     s1, s1, t0
        li      t2, 1728
        sub     a0, s1, t2
        sltiu   a0, a0, 8
        xori    a0, a0, 1
        check   4, "right the standard's counter has the chip's cycles"
        sub     a0, s2, s1
        sltiu   a0, a0, 8
        xori    a0, a0, 1
        check   5, "right a counter of its own has them, too"
        csrw    mcycle, x0
        csrwi   mcycleh, 3
        csrr    t0, mcycle
        sltiu   t0, t0, 16
        xori    t0, t0, 1
        csrr    a0, mcycleh
        addi    a0, a0, -3
        or      a0, a0, t0
        check   6, "right its halves are written apart"
        lw      ra, 12(sp)
        addi    sp, sp, 16
        ret
        .size cycles, . - cycles

        .type nowhere, @function
nowhere:
        addi    sp, sp, -16
        sw      ra, 12(sp)
        li      a0, 1
        li      t0, NOWHERE
        lw      t0, 0(t0)
        check   7, "right where there is nothing a load faults"
        lw      ra, 12(sp)
        addi    sp, sp, 16
        ret
        .size nowhere, . - nowhere

/* Passes the load that has failed; a0 is 0 if it was one. */
        .align  2
        .type trap, @function
trap:
        csrr    a0, mcause
        addi    a0, a0, -5
        csrr    t0, mepc
        lhu     t1, 0(t0)
        andi    t1, t1, 3
        addi    t0, t0, 2
        addi    t1, t1, -3
        bnez    t1, 1f
        addi    t0, t0, 2
1:      csrw    mepc, t0
        mret
        .size trap, . - trap

        .type print, @function
print:
        li      t0, USART
1:      lbu     t1, 0(a0)
        beqz    t1, 3f
2:      lw      t2, 0(t0)
        andi    t2, t2, 0x80            /* TXE */
        beqz    t2, 2b
        sw      t1, 4(t0)
        addi    a0, a0, 1
        j       1b
3:      ret
        .size print, . - print

        .type wrong, @function
wrong:
        mv      s0, a1
        la      a0, 9f
        call    print
        mv      a0, s0
        call    exit
        .pushsection .rodata
9:      .asciz "wrong\n"
        .popsection
        .size wrong, . - wrong

/* Semihosting's SYS_EXIT_EXTENDED. */
        .type exit, @function
exit:
        addi    sp, sp, -16
        li      t0, 0x20026
        sw      t0, 0(sp)
        sw      a0, 4(sp)
        mv      a1, sp
        li      a0, 0x20
        .balign 16
        .option push
        .option norvc
        slli    x0, x0, 0x1f
        ebreak
        srai    x0, x0, 7
        .option pop
1:      j       1b
        .size exit, . - exit
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
