/* In R = IT_ROUNDS rounds (round i from 0) it_rounds of it-arm.S calls:
       it_even   R/2  last of an IT block of one, when i is even
       it_odd    R/2  last of an IT block of four, when i is odd
       it_third  R/4  through a pointer (blx) in an IT block, when i & 3 is 3
       it_far    R    behind a literal pool in the middle of the function
       it_case0 to it_case3  R/4 each, by tbb and tbh in turns */
#define IT_ROUNDS 20000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
