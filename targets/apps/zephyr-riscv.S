/* The port of Zephyr for RISC-V, in what it does with stacks and threads: a switch is a call that returns in another
   thread, also within a trap. So a thread that gave up the processor itself goes on by a plain return, even after a trap
   has interrupted another; one that a trap has interrupted goes on in its trap's code, which returns by mret. */
#include "word.h"

/* Offset of the registers in a thread, in pointers: zephyr.c checks it. */
#define CALLEE_SAVED 5

    .macro callee_saved op, at
    \op sp, CALLEE_SAVED*REG(\at)
    \op ra, (CALLEE_SAVED+1)*REG(\at)
    \op s0, (CALLEE_SAVED+2)*REG(\at)
    \op s1, (CALLEE_SAVED+3)*REG(\at)
    \op s2, (CALLEE_SAVED+4)*REG(\at)
    \op s3, (CALLEE_SAVED+5)*REG(\at)
    \op s4, (CALLEE_SAVED+6)*REG(\at)
    \op s5, (CALLEE_SAVED+7)*REG(\at)
    \op s6, (CALLEE_SAVED+8)*REG(\at)
    \op s7, (CALLEE_SAVED+9)*REG(\at)
    \op s8, (CALLEE_SAVED+10)*REG(\at)
    \op s9, (CALLEE_SAVED+11)*REG(\at)
    \op s10, (CALLEE_SAVED+12)*REG(\at)
    \op s11, (CALLEE_SAVED+13)*REG(\at)
    .endm
    .macro caller_saved op
    \op ra, 0*REG(sp)
    \op t0, 1*REG(sp)
    \op t1, 2*REG(sp)
    \op t2, 3*REG(sp)
    \op t3, 4*REG(sp)
    \op t4, 5*REG(sp)
    \op t5, 6*REG(sp)
    \op t6, 7*REG(sp)
    \op a0, 8*REG(sp)
    \op a1, 9*REG(sp)
    \op a2, 10*REG(sp)
    \op a3, 11*REG(sp)
    \op a4, 12*REG(sp)
    \op a5, 13*REG(sp)
    \op a6, 14*REG(sp)
    \op a7, 15*REG(sp)
    \op s0, 18*REG(sp)
    .endm

    .text
    .align 4
    .global _isr_wrapper
    .type _isr_wrapper, @function
_isr_wrapper:
    addi sp, sp, -20*REG
    caller_saved STORE
    csrr t0, mepc
    STORE t0, 16*REG(sp)
    csrr t0, mstatus
    STORE t0, 17*REG(sp)
    mv s0, sp
    la sp, irq_stack_top
    csrr a0, mcause
    csrr a1, mepc
    call trap
    mv sp, s0
    call z_get_next_switch_handle
    beqz a0, might_have_rescheduled
    call z_riscv_switch
might_have_rescheduled:
    LOAD t0, 16*REG(sp)
    csrw mepc, t0
    LOAD t0, 17*REG(sp)
    csrw mstatus, t0
    caller_saved LOAD
    addi sp, sp, 20*REG
    mret
    .size _isr_wrapper, . - _isr_wrapper

    .global z_riscv_switch
    .type z_riscv_switch, @function
z_riscv_switch:
    callee_saved STORE, a1
    callee_saved LOAD, a0
    ret
    .size z_riscv_switch, . - z_riscv_switch

    .global z_riscv_thread_start
    .type z_riscv_thread_start, @function
z_riscv_thread_start:
    j might_have_rescheduled
    .size z_riscv_thread_start, . - z_riscv_thread_start

    .bss
    .align 4
    .space 2048
irq_stack_top:
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
