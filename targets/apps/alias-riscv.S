/* The loop of alias.h for RISC-V. */
#include "alias.h"

        .text
        .option norelax
        .globl  alias_rounds, alias_short, alias_long
        .type   alias_rounds, @function
alias_rounds:
        addi    sp, sp, -16
        sd      ra, 8(sp)
        sd      s0, 0(sp)
        mv      s0, a0
1:      jal     ra, alias_short
        jal     ra, alias_long
        addi    s0, s0, -1
        bnez    s0, 1b
        ld      ra, 8(sp)
        ld      s0, 0(sp)
        addi    sp, sp, 16
        ret
        .size   alias_rounds, . - alias_rounds

        .type   alias_short, @function
alias_short:
        addi    t0, zero, ALIAS_SHORT
1:      addi    t0, t0, -1
        bnez    t0, 1b
        ret
        .size   alias_short, . - alias_short

        .type   alias_long, @function
alias_long:
        lui     t0, %hi(ALIAS_LONG)
        addi    t0, t0, %lo(ALIAS_LONG)
1:      addi    t0, t0, -1
        bnez    t0, 1b
        ret
        .size   alias_long, . - alias_long
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
