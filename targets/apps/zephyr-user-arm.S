/* User mode as Zephyr's port for Cortex-M does it: a system call is an SVC whose handler leaves the thread, with
   privileges, in z_arm_do_syscall; that function exchanges the stack of the thread's own code for a second one, calls the
   kernel there, and goes back to the instruction after the SVC. Nothing describes these frames for a debugger. */
    .syntax unified
    .cpu cortex-m3
    .thumb

    /* Offsets: zephyr-user.c checks them. */
    .equ CURRENT, 8
    .equ MODE, 56
    .equ PRIV_STACK, 60
    .equ STACK_START, 76
    .equ STACK_SIZE, 80
    .equ PRIV_STACK_BYTES, 1024

    .macro function name
    .section .text.\name, "ax", %progbits
    .global \name
    .type \name, %function
\name:
    .endm

    function z_arm_svc
    .global SVC_Handler
    .thumb_set SVC_Handler, z_arm_svc
    mrs r0, psp
    ldr r8, [r0, #24]
    ldr r1, =z_arm_do_syscall
    bic r1, r1, #1
    str r1, [r0, #24]
    ldr r1, =_kernel
    ldr r1, [r1, #CURRENT]
    movs r2, #0
    str r2, [r1, #MODE]
    mrs r2, control
    bic r2, r2, #1
    msr control, r2
    bx lr
    .ltorg

    /* r0: argument, r6: number of the call, r8: address after the SVC. The thread's lr is as it was afterwards. */
    function z_arm_do_syscall
    ldr r12, =_kernel
    ldr r12, [r12, #CURRENT]
    ldr r12, [r12, #PRIV_STACK]
    add r12, r12, #PRIV_STACK_BYTES - 8
    str sp, [r12]
    str lr, [r12, #4]
    msr psp, r12
    cmp r6, #4
    blo known_call
    movs r6, #0
known_call:
    ldr r12, =_k_syscall_table
    ldr r12, [r12, r6, lsl #2]
    blx r12
    ldrd r12, lr, [sp]
    msr psp, r12
    ldr r1, =_kernel
    ldr r1, [r1, #CURRENT]
    movs r2, #1
    str r2, [r1, #MODE]
    mrs r2, control
    orr r2, r2, #1
    msr control, r2
    isb
    orr r12, r8, #1
    bx r12
    .ltorg

    /* r0: the thread's function, r1 to r3: its arguments. The thread has no way back. */
    function z_arm_userspace_enter
    ldr r4, =_kernel
    ldr r4, [r4, #CURRENT]
    ldr r5, [r4, #PRIV_STACK]
    add r5, r5, #PRIV_STACK_BYTES
    msr psp, r5
    push {r0-r3}
    mov r0, r4
    bl z_arm_configure_dynamic_mpu_regions
    pop {r0-r3}
    ldr r5, [r4, #STACK_START]
    ldr r6, [r4, #STACK_SIZE]
    add r5, r5, r6
    mov lr, r0
    msr psp, r5
    movs r6, #1
    str r6, [r4, #MODE]
    mrs r6, control
    orr r6, r6, #1
    msr control, r6
    isb
    ldr r12, =z_thread_entry
    bx r12
    .ltorg
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
