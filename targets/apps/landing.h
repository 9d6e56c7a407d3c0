/* Where jumps land, and what comes in between: R = LANDING_ROUNDS rounds under a storm of timer interrupts.

   `land` jumps through a register into its own middle. Each landing loads the address of a function or of a handler into
   that very register and then loads from memory, in every fourth round from where nothing is: a fault in the middle of
   its block, whose handler skips it. One landing ends in a conditional jump to `never`, which is never taken; the other
   falls through into the function behind it, `below`, in the middle of a block.

       land     R        through a pointer
       below    R        by name; R/2 more times it is fallen into
       never    0        only prepared for
       again    R        a tail call through a register, from `before`, R times

   The handlers change places every 64 rounds, and main calls those of Cortex-M through a pointer, too: then they are
   functions like others. They return through the register that `before` jumps by. */
#define LANDING_ROUNDS 20000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
