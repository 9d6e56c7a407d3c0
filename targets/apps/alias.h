/* A loop of exactly 10,007 instructions, the default sampling period: a periodic sampler meets the same
   instruction in every round and reports 100 % of one function, where the truth is 30 % and 70 %.

   One round of alias_rounds (alias-riscv.S, alias-arm.S; the same numbers in both):
       alias_rounds   4                         two calls, the decrement, the branch back
       alias_short    1 + 2 * ALIAS_SHORT + 1   constant; decrement and branch each time; return
       alias_long     2 + 2 * ALIAS_LONG + 1    constant in two; decrement and branch each time; return
   4 + 2 + 3 + 2 * (1499 + 3500) = 10,007. */
#define ALIAS_SHORT 1499
#define ALIAS_LONG 3500
#define ALIAS_ROUNDS 3000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
