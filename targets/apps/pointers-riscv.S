/* A function that is the trap vector, too: see pointers.c. An interrupt's cause is negative, and the handler sets it to
   zero again. */
        .text
        .globl  dual
        .type   dual, @function
        .balign 4
dual:
        csrw    mscratch, t0
        csrr    t0, mcause
        bltz    t0, 1f
        csrr    t0, mscratch
        addi    a0, a0, 7
        ret
1:      csrr    t0, mscratch
        j       trap_entry
        .size   dual, . - dual
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
