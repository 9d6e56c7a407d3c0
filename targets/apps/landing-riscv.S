/* The jumps of landing.h for RISC-V. a0: what is summed up, a1: memory, a2: memory or nothing. */
        .text
        .globl  land, below, before, other_entry

        .type   land, @function
        .balign 4
land:   la      a5, 1f
        andi    t1, a0, 1
        beqz    t1, 3f
        la      a5, 2f
3:      jr      a5
1:      la      a5, trap_entry
        lw      t1, 0(a1)
        li      t2, 7
        lw      t2, 0(a2)
        add     a0, a0, t1
        add     a0, a0, t2
        lw      t1, 4(a1)
        bnez    zero, never
        add     a0, a0, t1
        ret
2:      la      a5, never
        lw      t1, 0(a1)
        li      t2, 7
        lw      t2, 0(a2)
        add     a0, a0, t2
        .size   land, . - land

        .type   below, @function
below:  lw      t1, 0(a2)
        add     a0, a0, t1
        lw      t1, 4(a1)
        add     a0, a0, t1
        ret
        .size   below, . - below

        .type   before, @function
        .balign 4
before: la      a5, again
        jr      a5
        .size   before, . - before

        .type   other_entry, @function
        .balign 4
other_entry:
        j       trap_entry
        .size   other_entry, . - other_entry
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
