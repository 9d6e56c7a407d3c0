// Functions whose cycles on a core with a short pipeline depend on the order of instructions, on where jumps lead, and on
// operands. Each is called once at `measure`, where the core's counters are read around the call. The end prints a line for
// each: cycles and instructions by the counters. On the RTL of a core that is what it takes; on QEMU both are instructions.
//
// Memory begins at 0x80000000, where execution does, a UART is at 0x10000000, and a store to 0x100000 ends the run.

    .option norelax

    // Begins a function at a multiple of four, or in the middle of one if `by` is 2.
    .macro function name, by=0
    .balign 16
    .if \by
    .2byte 0x0001
    .endif
    .globl \name
    .type \name, @function
\name:
    .endm

    .macro end name
    ret
    .size \name, . - \name
    .endm

    .text
    .globl _start
    .type _start, @function
_start:
    j begin
    .balign 128
    // Ibex begins here.
    j begin
begin:
    la sp, stack_top
    csrw mcountinhibit, zero
    la s0, functions
    la s1, results
next:
    lw t1, 0(s0)
    beqz t1, print
    addi s0, s0, 4
    j measure

    .option push
    .option norvc
    .balign 16
measure:
    nop
    nop
    csrr s3, minstret
    csrr s2, mcycle
    jalr ra, 0(t1)
    csrr s4, mcycle
    csrr s5, minstret
    nop
    .option pop
    // Keeps the counters' values.
    sub s4, s4, s2
    sub s5, s5, s3
    sw s4, 0(s1)
    sw s5, 4(s1)
    addi s1, s1, 8
    j next

print:
    la s0, results
1:  beq s0, s1, 2f
    lw a0, 0(s0)
    li a2, ' '
    call hex
    lw a0, 4(s0)
    li a2, '\n'
    call hex
    addi s0, s0, 8
    j 1b
2:  li a0, 0x5555
    li a1, 0x100000
    sw a0, 0(a1)
3:  j 3b
    .size _start, . - _start

    // Prints eight digits and a letter.
    .globl hex
    .type hex, @function
hex:
    li a3, 28
    li a1, 0x10000000
    li a5, 10
1:  srl a4, a0, a3
    andi a4, a4, 15
    blt a4, a5, 2f
    addi a4, a4, 'a' - '0' - 10
2:  addi a4, a4, '0'
    sb a4, 0(a1)
    addi a3, a3, -4
    bgez a3, 1b
    sb a2, 0(a1)
    ret
    .size hex, . - hex

    function nothing
    end nothing

    // What is loaded is needed at once, one instruction later, as a value and as an address.
    function loads
    la a0, data
    lw a1, 0(a0)
    addi a2, a1, 1
    lw a1, 4(a0)
    nop
    addi a2, a1, 1
    lw a3, 8(a0)
    lw a4, 0(a3)
    lw a3, 8(a0)
    sw a4, 0(a3)
    lw a5, 0(a0)
    sw a5, 4(a0)
    lbu a5, 0(a0)
    beq a5, zero, 1f
    addi a5, a5, 1
1:  lh a5, 2(a0)
    mul a5, a5, a5
    end loads

    // Branches forward, taken and not, to targets in both halves of a word.
    function forward
    li a0, 1
    bnez a0, 1f
    nop
1:  beqz a0, 2f
    addi a1, a0, 1
2:  bnez a0, 3f
    nop
    .if RVC
    c.nop
    .endif
3:  add a1, a1, a0
    j 4f
    nop
4:  xor a1, a1, a0
    end forward

    // Loops: of one instruction and the branch, of many, and left in the middle.
    function loops
    li a0, 9
1:  addi a0, a0, -1
    bnez a0, 1b
    li a0, 7
2:  addi a1, a0, 3
    slli a1, a1, 2
    xor a1, a1, a0
    sub a1, a1, a0
    addi a0, a0, -1
    bgtz a0, 2b
    li a0, 20
    li a2, 4
3:  addi a0, a0, -1
    beq a0, a2, 4f
    addi a1, a1, 1
    bnez a0, 3b
4:  end loops

    // The same with a beginning in the middle of a word, where that is possible.
    function unaligned, RVC * 2
    li a0, 9
1:  addi a0, a0, -1
    bnez a0, 1b
    li a0, 7
2:  mv a1, a0
    slli a1, a1, 2
    add a1, a1, a0
    addi a0, a0, -1
    bgtz a0, 2b
    li a0, 5
3:  lui a1, 0x12345
    addi a0, a0, -1
    bnez a0, 3b
    end unaligned

    // A branch that goes one way and the other in turn, in a loop: the loop's branch and it drive each other out.
    function turns
    li a0, 12
1:  andi a1, a0, 1
    beqz a1, 2f
    addi a2, a2, 1
2:  addi a0, a0, -1
    blt a1, a0, 1b
    addi a0, a0, 3
    bgtz a1, 3f
    bnez a0, 2b
3:  end turns

    // Divisions of all signs and by zero, and products.
    function divides
    li a0, -100
    li a1, 7
    div a2, a0, a1
    rem a2, a0, a1
    divu a2, a0, a1
    remu a2, a0, a1
    div a2, a1, a0
    rem a2, a1, a0
    div a2, a0, a0
    div a2, a0, zero
    rem a2, a1, zero
    divu a2, a0, zero
    li a3, 0x80000000
    li a4, -1
    div a2, a3, a4
    rem a2, a3, a4
    mul a2, a0, a1
    mulh a2, a0, a1
    mulhu a2, a0, a1
    mulhsu a2, a0, a1
    add a2, a2, a2
    end divides

    // Calls, direct and through a register, and what returns.
    function calls
    mv t0, ra
    li a0, 3
    call leaf
    la a1, leaf
    jalr a1
    call leaf_in_the_middle
    la a1, tail
    jr a1
tail:
    mv ra, t0
    end calls

    function leaf
    addi a0, a0, 1
    end leaf

    function leaf_in_the_middle, RVC * 2
    slli a0, a0, 1
    addi a0, a0, 1
    end leaf_in_the_middle

#if SYSTEM
    // Control registers that decide on interrupts, and others.
    function registers
    csrr a0, mscratch
    csrw mscratch, a0
    csrr a0, mstatus
    csrw mstatus, a0
    csrw mstatus, a0
    csrsi mstatus, 0
    nop
    csrci mstatus, 8
    csrw mepc, a0
    csrwi mie, 0
    end registers

    function fences
    fence
    fence.i
    addi a0, zero, 1
    fence.i
    end fences

    // Traps that go on behind.
    function traps
    la a0, handler
    csrw mtvec, a0
    ecall
    addi a0, a0, 1
    ecall
    nop
    end traps

    // Ibex takes no other alignment.
    .balign 256
    .globl handler
    .type handler, @function
handler:
    csrr t2, mepc
    addi t2, t2, 4
    csrw mepc, t2
    mret
    .size handler, . - handler
#endif

#if __riscv_atomic
    // Accesses that are one, and pairs of which the second needs the first.
    function atomics
    la a1, data
    li a2, 1
    amoadd.w a0, a2, (a1)
    amoadd.w a0, a2, (a1)
    add a0, a0, a0
    lr.w a0, (a1)
    sc.w a2, a0, (a1)
    add a3, a2, a2
    lr.w a0, (a1)
    add a3, a0, a0
    sc.w a2, a0, (a1)
    nop
    add a3, a2, a2
    lr.w a0, (a1)
    nop
    sc.w a2, a0, (a1)
    amoadd.w a0, a2, (a1)
    sw a0, 0(a1)
    lr.w a0, (a1)
    sw a0, 0(a1)
    end atomics
#endif

    .section .rodata
    .balign 4
functions:
    .word nothing, loads, forward, loops, unaligned, turns, divides, calls
#if SYSTEM
    .word registers, fences, traps
#endif
#if __riscv_atomic
    .word atomics
#endif
    .word 0

    .data
    .balign 4
data:
    .word 5, -6, data, 0x12345678

    .bss
    .balign 16
results:
    .space 256
    .space 1024
stack_top:
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
