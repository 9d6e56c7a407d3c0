/* See forgets.c. The first has a far call at its end and no unwind information, the second a near call in its middle, and has; that
   information is also about the third, which its symbol makes a function of its own. */
    .text
    .globl checked
    .type checked, @function
checked:
    sltiu a1, a0, 8
    beqz a1, 1f
    slli a0, a0, 1
    ret
1:  addi sp, sp, -32
    sw a0, 0(sp)
    .option push
    .option norelax
    call fail
    .option pop
    .size checked, . - checked

    .globl checked_middle
    .type checked_middle, @function
checked_middle:
    .cfi_startproc
    sltiu a1, a0, 8
    bnez a1, 1f
    addi sp, sp, -16
    .cfi_def_cfa_offset 16
    jal fail
1:  .cfi_def_cfa_offset 0
    slli a0, a0, 2
    ret
    .size checked_middle, . - checked_middle

    .globl checked_inner
    .type checked_inner, @function
checked_inner:
    sltiu a1, a0, 8
    beqz a1, 1f
    slli a0, a0, 3
    ret
1:  addi sp, sp, -16
    .cfi_def_cfa_offset 16
    jal fail
    .cfi_endproc
    .size checked_inner, . - checked_inner
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
