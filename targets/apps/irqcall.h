/* Calls of every kind under a storm of timer interrupts, which fall between a call and its target's first
   instruction thousands of times. Each function of irqcall-riscv.S and irqcall-arm.S counts its own
   entries in memory; in R = IRQCALL_ROUNDS rounds (round i from 0) irqcall_rounds makes these calls:

       leaf_direct                     R      direct call
       leaf_pointer0 … leaf_pointer3   R/4    one indirect call site, target i & 3
       tail_direct → leaf_tail         R, R   direct tail call
       tail_pointer → leaf_tail_pointer R, R  indirect tail call
       tail_if → leaf_even, leaf_odd   R, R/2, R/2   conditional tail call, else direct tail call
       tail_if_pointer → leaf_if       R, R/2 indirect tail call under a condition (Thumb: bx in an IT
                                              block), when i is odd
       loop_at_entry                   R      its first instruction runs 3 R times
       recurse                         3 R    R from irqcall_rounds, 2 R from itself

   In H interrupts the handler makes these: irq_direct H; irq_pointer0 and irq_pointer1 by turns, through a
   pointer; and it ends in a tail call to irq_tail, H (main makes one more, to arm the timer).
   Above shift 5 the next interrupt comes before the handler has returned, and nothing else ever runs. */
#define IRQCALL_ROUNDS 100000

/* Indices into the array of counters. */
#define LEAF_DIRECT 0
#define LEAF_POINTER 1 /* to 4 */
#define TAIL_DIRECT 5
#define LEAF_TAIL 6
#define TAIL_POINTER 7
#define LEAF_TAIL_POINTER 8
#define TAIL_IF 9
#define LEAF_EVEN 10
#define LEAF_ODD 11
#define TAIL_IF_POINTER 12
#define LEAF_IF 13
#define LOOP_AT_ENTRY 14
#define RECURSE 15
#define COUNTERS 16
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
