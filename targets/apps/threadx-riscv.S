/* The port of ThreadX for RISC-V, in what it does with stacks and threads: a thread that gives up the processor saves few
   registers and goes on by a plain return, also out of a trap; one that a trap has interrupted goes on by mret. While no
   thread is ready the scheduler waits in a loop, to which traps jump. Nothing describes this code to an unwinder. */
#if __riscv_xlen == 64
#define R 8
#define L ld
#define S sd
#else
#define R 4
#define L lw
#define S sw
#endif

/* Members of a thread. */
#define RUN_COUNT 4
#define STACK_PTR 8

    .macro each_preserved op
    \op s11, 1*R(sp)
    \op s10, 2*R(sp)
    \op s9, 3*R(sp)
    \op s8, 4*R(sp)
    \op s7, 5*R(sp)
    \op s6, 6*R(sp)
    \op s5, 7*R(sp)
    \op s4, 8*R(sp)
    \op s3, 9*R(sp)
    \op s2, 10*R(sp)
    \op s1, 11*R(sp)
    .endm
    .macro each_other op
    \op s0, 12*R(sp)
    \op t6, 13*R(sp)
    \op t5, 14*R(sp)
    \op t4, 15*R(sp)
    \op t3, 16*R(sp)
    \op t2, 17*R(sp)
    \op t1, 18*R(sp)
    \op a7, 20*R(sp)
    \op a6, 21*R(sp)
    \op a5, 22*R(sp)
    \op a4, 23*R(sp)
    \op a3, 24*R(sp)
    \op a2, 25*R(sp)
    \op a1, 26*R(sp)
    \op a0, 27*R(sp)
    .endm
    .macro return_from_trap
    L t0, 30*R(sp)
    csrw mepc, t0
    li t0, 0x1880
    csrw mstatus, t0
    each_other L
    L ra, 28*R(sp)
    L t0, 19*R(sp)
    addi sp, sp, 32*R
    mret
    .endm

    .text
    .align 4
    .global threadx_trap_entry
threadx_trap_entry:
    addi sp, sp, -32*R
    S ra, 28*R(sp)
    call _tx_thread_context_save
    csrr a0, mcause
    csrr a1, mepc
    addi sp, sp, -16
    S ra, 0(sp)
    call trap
    L ra, 0(sp)
    addi sp, sp, 16
    call _tx_thread_context_restore

    .global _tx_thread_context_save
_tx_thread_context_save:
    S t0, 19*R(sp)
    each_other S
    csrr t0, mepc
    S t0, 30*R(sp)
    L t1, _tx_thread_current_ptr
    beqz t1, idle_system_save
    S sp, STACK_PTR(t1)
    L sp, _tx_thread_system_stack_ptr
    ret
idle_system_save:
    addi sp, sp, 32*R
    ret

    .global _tx_thread_context_restore
_tx_thread_context_restore:
    csrci mstatus, 8
    L t1, _tx_thread_current_ptr
    beqz t1, idle_system_restore
    L t2, _tx_thread_execute_ptr
    bne t1, t2, preempt_restore
    L sp, STACK_PTR(t1)
    return_from_trap
preempt_restore:
    L sp, STACK_PTR(t1)
    li t3, 1
    S t3, 0(sp)
    each_preserved S
    L sp, _tx_thread_system_stack_ptr
    la t0, _tx_thread_current_ptr
    S zero, 0(t0)
idle_system_restore:
    j _tx_thread_schedule

    .global _tx_thread_schedule
_tx_thread_schedule:
    csrsi mstatus, 8
    la t0, _tx_thread_execute_ptr
_tx_thread_schedule_loop:
    L t1, 0(t0)
    beqz t1, _tx_thread_schedule_loop
    csrci mstatus, 8
    la t0, _tx_thread_current_ptr
    S t1, 0(t0)
    lw t2, RUN_COUNT(t1)
    addi t2, t2, 1
    sw t2, RUN_COUNT(t1)
    L sp, STACK_PTR(t1)
    L t2, 0(sp)
    beqz t2, _tx_thread_synch_return
    each_preserved L
    return_from_trap
_tx_thread_synch_return:
    each_preserved L
    L s0, 12*R(sp)
    L ra, 13*R(sp)
    L t0, 14*R(sp)
    csrw mstatus, t0
    addi sp, sp, 16*R
    ret

    .global _tx_thread_system_return
_tx_thread_system_return:
    addi sp, sp, -16*R
    S zero, 0(sp)
    each_preserved S
    S s0, 12*R(sp)
    S ra, 13*R(sp)
    csrr t0, mstatus
    S t0, 14*R(sp)
    csrci mstatus, 15
    la t0, _tx_thread_current_ptr
    L t1, 0(t0)
    S sp, STACK_PTR(t1)
    L sp, _tx_thread_system_stack_ptr
    la t2, _tx_thread_schedule
    S zero, 0(t0)
    jr t2
