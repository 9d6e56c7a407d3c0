/* The port of ThreadX for RISC-V, in what it does with stacks and threads: a thread that gives up the processor saves few
   registers and goes on by a plain return, also out of a trap; one that a trap has interrupted goes on by mret. While no
   thread is ready the scheduler waits in a loop, to which traps jump. Nothing describes this code to an unwinder. */
#include "word.h"

/* Members of a thread. */
#define RUN_COUNT 4
#define STACK_PTR 8

    .macro each_preserved op
    \op s11, 1*REG(sp)
    \op s10, 2*REG(sp)
    \op s9, 3*REG(sp)
    \op s8, 4*REG(sp)
    \op s7, 5*REG(sp)
    \op s6, 6*REG(sp)
    \op s5, 7*REG(sp)
    \op s4, 8*REG(sp)
    \op s3, 9*REG(sp)
    \op s2, 10*REG(sp)
    \op s1, 11*REG(sp)
    .endm
    .macro each_other op
    \op s0, 12*REG(sp)
    \op t6, 13*REG(sp)
    \op t5, 14*REG(sp)
    \op t4, 15*REG(sp)
    \op t3, 16*REG(sp)
    \op t2, 17*REG(sp)
    \op t1, 18*REG(sp)
    \op a7, 20*REG(sp)
    \op a6, 21*REG(sp)
    \op a5, 22*REG(sp)
    \op a4, 23*REG(sp)
    \op a3, 24*REG(sp)
    \op a2, 25*REG(sp)
    \op a1, 26*REG(sp)
    \op a0, 27*REG(sp)
    .endm
    .macro return_from_trap
    LOAD t0, 30*REG(sp)
    csrw mepc, t0
    li t0, 0x1880
    csrw mstatus, t0
    each_other LOAD
    LOAD ra, 28*REG(sp)
    LOAD t0, 19*REG(sp)
    addi sp, sp, 32*REG
    mret
    .endm

    .text
    .align 4
    .global threadx_trap_entry
threadx_trap_entry:
    addi sp, sp, -32*REG
    STORE ra, 28*REG(sp)
    call _tx_thread_context_save
    csrr a0, mcause
    csrr a1, mepc
    addi sp, sp, -16
    STORE ra, 0(sp)
    call trap
    LOAD ra, 0(sp)
    addi sp, sp, 16
    call _tx_thread_context_restore

    .global _tx_thread_context_save
_tx_thread_context_save:
    STORE t0, 19*REG(sp)
    each_other STORE
    csrr t0, mepc
    STORE t0, 30*REG(sp)
    LOAD t1, _tx_thread_current_ptr
    beqz t1, idle_system_save
    STORE sp, STACK_PTR(t1)
    LOAD sp, _tx_thread_system_stack_ptr
    ret
idle_system_save:
    addi sp, sp, 32*REG
    ret

    .global _tx_thread_context_restore
_tx_thread_context_restore:
    csrci mstatus, 8
    LOAD t1, _tx_thread_current_ptr
    beqz t1, idle_system_restore
    LOAD t2, _tx_thread_execute_ptr
    bne t1, t2, preempt_restore
    LOAD sp, STACK_PTR(t1)
    return_from_trap
preempt_restore:
    LOAD sp, STACK_PTR(t1)
    li t3, 1
    STORE t3, 0(sp)
    each_preserved STORE
    LOAD sp, _tx_thread_system_stack_ptr
    la t0, _tx_thread_current_ptr
    STORE zero, 0(t0)
idle_system_restore:
    j _tx_thread_schedule

    .global _tx_thread_schedule
_tx_thread_schedule:
    csrsi mstatus, 8
    la t0, _tx_thread_execute_ptr
_tx_thread_schedule_loop:
    LOAD t1, 0(t0)
    beqz t1, _tx_thread_schedule_loop
    csrci mstatus, 8
    la t0, _tx_thread_current_ptr
    STORE t1, 0(t0)
    lw t2, RUN_COUNT(t1)
    addi t2, t2, 1
    sw t2, RUN_COUNT(t1)
    LOAD sp, STACK_PTR(t1)
    LOAD t2, 0(sp)
    beqz t2, _tx_thread_synch_return
    each_preserved LOAD
    return_from_trap
_tx_thread_synch_return:
    each_preserved LOAD
    LOAD s0, 12*REG(sp)
    LOAD ra, 13*REG(sp)
    LOAD t0, 14*REG(sp)
    csrw mstatus, t0
    addi sp, sp, 16*REG
    ret

    .global _tx_thread_system_return
_tx_thread_system_return:
    addi sp, sp, -16*REG
    STORE zero, 0(sp)
    each_preserved STORE
    STORE s0, 12*REG(sp)
    STORE ra, 13*REG(sp)
    csrr t0, mstatus
    STORE t0, 14*REG(sp)
    csrci mstatus, 15
    la t0, _tx_thread_current_ptr
    LOAD t1, 0(t0)
    STORE sp, STACK_PTR(t1)
    LOAD sp, _tx_thread_system_stack_ptr
    la t2, _tx_thread_schedule
    STORE zero, 0(t0)
    jr t2
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
