/* The jumps of landing.h for Cortex-M. r0: what is summed up, r1: memory, r2: memory or nothing. */
        .syntax unified
        .thumb
        .text
        .globl  land, below, before

        .type   land, %function
        .balign 4
land:   adr     r3, 1f
        adds    r3, #1
        tst     r0, #1
        beq     3f
        adr     r3, 2f
        adds    r3, #1
3:      bx      r3
        .balign 4
1:      ldr     r3, =tick
        ldr     r12, [r1]
        add     r0, r12
        movs    r1, #7
        ldr.w   r1, [r2]
        add     r0, r1
        cmp     r0, r0
        bne.w   never
        bx      lr
        .balign 4
2:      ldr     r3, =never
        ldr     r12, [r1]
        add     r0, r12
        ldr.w   r12, [r2]
        add     r0, r0, #1
        .size   land, . - land

        .type   below, %function
below:  mov     r12, #9
        ldr.w   r12, [r2]
        add     r0, r12
        ldr.w   r12, [r1, #4]
        add     r0, r12
        bx      lr
        .size   below, . - below

        .type   before, %function
        .balign 4
before: ldr     r3, =again
        bx      r3
        .size   before, . - before
        .ltorg
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
