/* The calls of irqcall.h for Thumb-2. r5: the counters. */
#include "irqcall.h"

        .syntax unified
        .thumb

        .macro  function name
        .globl  \name
        .type   \name, %function
        .balign 4
\name:
        .endm
        .macro  end name
        .size   \name, . - \name
        .endm
        .macro  count index
        ldr     r3, [r5, #4*(\index)]
        adds    r3, r3, #1
        str     r3, [r5, #4*(\index)]
        .endm
        .macro  leaf name, index
        function \name
        count   \index
        bx      lr
        end     \name
        .endm

        .section .rodata
        .balign 4
pointers:
        .word   leaf_pointer0, leaf_pointer1, leaf_pointer2, leaf_pointer3

        .text
        function irqcall_rounds
        push    {r4, r5, r6, r7, r8, lr}
        mov     r4, r0
        mov     r5, r1
        movs    r6, #0
        ldr     r7, =pointers
1:      bl      leaf_direct
        and     r1, r6, #3
        ldr     r1, [r7, r1, lsl #2]
        blx     r1
        bl      tail_direct
        bl      tail_pointer
        and     r0, r6, #1
        bl      tail_if
        and     r0, r6, #1
        bl      tail_if_pointer
        count   LOOP_AT_ENTRY
        movs    r0, #3
        bl      loop_at_entry
        movs    r0, #2
        bl      recurse
        adds    r6, r6, #1
        cmp     r6, r4
        bne     1b
        pop     {r4, r5, r6, r7, r8, pc}
        .ltorg
        end     irqcall_rounds

        leaf    leaf_direct, LEAF_DIRECT
        leaf    leaf_pointer0, LEAF_POINTER
        leaf    leaf_pointer1, LEAF_POINTER + 1
        leaf    leaf_pointer2, LEAF_POINTER + 2
        leaf    leaf_pointer3, LEAF_POINTER + 3

        function tail_direct
        count   TAIL_DIRECT
        b       leaf_tail
        end     tail_direct
        leaf    leaf_tail, LEAF_TAIL

        function tail_pointer
        count   TAIL_POINTER
        ldr     r1, =leaf_tail_pointer
        bx      r1
        .ltorg
        end     tail_pointer
        leaf    leaf_tail_pointer, LEAF_TAIL_POINTER

        function tail_if
        count   TAIL_IF
        cmp     r0, #0
        beq     leaf_even
        b       leaf_odd
        end     tail_if
        leaf    leaf_even, LEAF_EVEN
        leaf    leaf_odd, LEAF_ODD

        function tail_if_pointer
        count   TAIL_IF_POINTER
        ldr     r1, =leaf_if
        cmp     r0, #0
        it      ne
        bxne    r1
        bx      lr
        .ltorg
        end     tail_if_pointer
        leaf    leaf_if, LEAF_IF

        function loop_at_entry
        subs    r0, r0, #1
        bne     loop_at_entry
        bx      lr
        end     loop_at_entry

        function recurse
        push    {r4, lr}
        count   RECURSE
        cbz     r0, 1f
        subs    r0, r0, #1
        bl      recurse
1:      pop     {r4, pc}
        end     recurse
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
