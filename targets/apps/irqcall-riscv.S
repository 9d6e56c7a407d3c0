/* The calls of irqcall.h for RISC-V. s1: the counters. */
#include "irqcall.h"

        .macro  function name
        .globl  \name
        .type   \name, @function
        .balign 4
\name:
        .endm
        .macro  end name
        .size   \name, . - \name
        .endm
        .macro  count index
        lw      t0, 4*(\index)(s1)
        addi    t0, t0, 1
        sw      t0, 4*(\index)(s1)
        .endm
        .macro  leaf name, index
        function \name
        count   \index
        ret
        end     \name
        .endm

        .section .rodata
        .balign 8
pointers:
        .dword  leaf_pointer0, leaf_pointer1, leaf_pointer2, leaf_pointer3

        .text
        function irqcall_rounds
        addi    sp, sp, -48
        sd      ra, 40(sp)
        sd      s0, 32(sp)
        sd      s1, 24(sp)
        sd      s2, 16(sp)
        sd      s3, 8(sp)
        mv      s0, a0
        mv      s1, a1
        li      s2, 0
        la      s3, pointers
1:      call    leaf_direct
        andi    t1, s2, 3
        slli    t1, t1, 3
        add     t1, t1, s3
        ld      t1, 0(t1)
        jalr    t1
        call    tail_direct
        call    tail_pointer
        andi    a0, s2, 1
        call    tail_if
        andi    a0, s2, 1
        call    tail_if_pointer
        count   LOOP_AT_ENTRY
        li      a0, 3
        call    loop_at_entry
        li      a0, 2
        call    recurse
        addi    s2, s2, 1
        bne     s2, s0, 1b
        ld      ra, 40(sp)
        ld      s0, 32(sp)
        ld      s1, 24(sp)
        ld      s2, 16(sp)
        ld      s3, 8(sp)
        addi    sp, sp, 48
        ret
        end     irqcall_rounds

        leaf    leaf_direct, LEAF_DIRECT
        leaf    leaf_pointer0, LEAF_POINTER
        leaf    leaf_pointer1, LEAF_POINTER + 1
        leaf    leaf_pointer2, LEAF_POINTER + 2
        leaf    leaf_pointer3, LEAF_POINTER + 3

        function tail_direct
        count   TAIL_DIRECT
        j       leaf_tail
        end     tail_direct
        leaf    leaf_tail, LEAF_TAIL

        function tail_pointer
        count   TAIL_POINTER
        la      t1, leaf_tail_pointer
        jr      t1
        end     tail_pointer
        leaf    leaf_tail_pointer, LEAF_TAIL_POINTER

        function tail_if
        count   TAIL_IF
        beqz    a0, leaf_even
        j       leaf_odd
        end     tail_if
        leaf    leaf_even, LEAF_EVEN
        leaf    leaf_odd, LEAF_ODD

        function tail_if_pointer
        count   TAIL_IF_POINTER
        la      t1, leaf_if
        beqz    a0, 1f
        jr      t1
1:      ret
        end     tail_if_pointer
        leaf    leaf_if, LEAF_IF

        function loop_at_entry
        addi    a0, a0, -1
        bnez    a0, loop_at_entry
        ret
        end     loop_at_entry

        function recurse
        addi    sp, sp, -16
        sd      ra, 8(sp)
        count   RECURSE
        beqz    a0, 1f
        addi    a0, a0, -1
        call    recurse
1:      ld      ra, 8(sp)
        addi    sp, sp, 16
        ret
        end     recurse
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
