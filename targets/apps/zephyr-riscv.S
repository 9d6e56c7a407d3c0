/* The port of Zephyr for RISC-V, in what it does with stacks and threads: a switch is a call that returns in another
   thread, also within a trap. So a thread that gave up the processor itself goes on by a plain return, even after a trap
   has interrupted another; one that a trap has interrupted goes on in its trap's code, which returns by mret. */
#if __riscv_xlen == 64
#define R 8
#define L ld
#define S sd
#else
#define R 4
#define L lw
#define S sw
#endif

/* Offset of the registers in a thread, in pointers: zephyr.c checks it. */
#define CALLEE_SAVED 5

    .macro callee_saved op, at
    \op sp, CALLEE_SAVED*R(\at)
    \op ra, (CALLEE_SAVED+1)*R(\at)
    \op s0, (CALLEE_SAVED+2)*R(\at)
    \op s1, (CALLEE_SAVED+3)*R(\at)
    \op s2, (CALLEE_SAVED+4)*R(\at)
    \op s3, (CALLEE_SAVED+5)*R(\at)
    \op s4, (CALLEE_SAVED+6)*R(\at)
    \op s5, (CALLEE_SAVED+7)*R(\at)
    \op s6, (CALLEE_SAVED+8)*R(\at)
    \op s7, (CALLEE_SAVED+9)*R(\at)
    \op s8, (CALLEE_SAVED+10)*R(\at)
    \op s9, (CALLEE_SAVED+11)*R(\at)
    \op s10, (CALLEE_SAVED+12)*R(\at)
    \op s11, (CALLEE_SAVED+13)*R(\at)
    .endm
    .macro caller_saved op
    \op ra, 0*R(sp)
    \op t0, 1*R(sp)
    \op t1, 2*R(sp)
    \op t2, 3*R(sp)
    \op t3, 4*R(sp)
    \op t4, 5*R(sp)
    \op t5, 6*R(sp)
    \op t6, 7*R(sp)
    \op a0, 8*R(sp)
    \op a1, 9*R(sp)
    \op a2, 10*R(sp)
    \op a3, 11*R(sp)
    \op a4, 12*R(sp)
    \op a5, 13*R(sp)
    \op a6, 14*R(sp)
    \op a7, 15*R(sp)
    \op s0, 18*R(sp)
    .endm

    .text
    .align 4
    .global _isr_wrapper
    .type _isr_wrapper, @function
_isr_wrapper:
    addi sp, sp, -20*R
    caller_saved S
    csrr t0, mepc
    S t0, 16*R(sp)
    csrr t0, mstatus
    S t0, 17*R(sp)
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
    L t0, 16*R(sp)
    csrw mepc, t0
    L t0, 17*R(sp)
    csrw mstatus, t0
    caller_saved L
    addi sp, sp, 20*R
    mret
    .size _isr_wrapper, . - _isr_wrapper

    .global z_riscv_switch
    .type z_riscv_switch, @function
z_riscv_switch:
    callee_saved S, a1
    callee_saved L, a0
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
