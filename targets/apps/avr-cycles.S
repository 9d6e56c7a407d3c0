/* AVR: every instruction whose cycles depend on what it finds, and each that a skip can come before. 256 rounds, in which
   the bits of r18 decide. Ends by a return from main with status 0. */
#include <avr/io.h>

    .text
    .global main
    .type main, @function
main:
    ldi r28, lo8(cell)
    ldi r29, hi8(cell)
    clr r18
round:
    movw r26, r28
    /* Each instruction that a skip's cost depends on, skipped or not. */
    sbrc r18, 0
    ldd r19, Y+1
    sbrs r18, 1
    st X+, r19
    sbrc r18, 2
    lds r19, cell
    sbrs r18, 3
    sts cell, r19
    ldi r30, 0
    ldi r31, 0
    sbrc r18, 4
    lpm r19, Z
    sbrs r18, 5
    lpm
    sbrc r18, 6
    adiw r30, 1
    sbrs r18, 7
    mul r18, r19
    sbrc r18, 0
    fmulsu r18, r19
    sbrs r18, 1
    sbi _SFR_IO_ADDR(PORTB), 0
    sbrc r18, 2
    rcall leaf
    sbrs r18, 3
    call leaf
    ldi r30, pm_lo8(leaf)
    ldi r31, pm_hi8(leaf)
    sbrc r18, 4
    icall
    sbrs r18, 5
    rjmp 1f
    nop
1:  sbrc r18, 6
    jmp 2f
    nop
2:  push r18
    sbrs r18, 7
    rjmp 3f
    pop r19
    push r19
3:  pop r19
    /* A skip that is skipped skips nothing, and a branch that is skipped is not taken. */
    sbrc r18, 0
    sbrs r18, 1
    adiw r26, 1
    sec
    sbrs r18, 2
    brcs 4f
    nop
4:  cpse r18, r19
    rjmp round
    ldi r19, 64
    cpse r18, r19
    sbiw r26, 1
    /* What would end the run, and what would read flash in place of the cell, if it were not skipped. */
    clr r1
    sbrc r1, 0
    sleep
    sbrc r1, 0
    spm
#ifdef __AVR_HAVE_ELPM__
    ldi r19, 1
    out _SFR_IO_ADDR(RAMPZ), r19
    ldi r30, lo8(cell)
    ldi r31, hi8(cell)
    ldi r19, 0x5a
    st Z, r19
    sbrc r1, 0
    elpm r20, Z
    ld r20, Z
    cpse r19, r20
    rjmp main
#endif
    /* A port's bit: nothing is connected, and reads are 0. */
    sbis _SFR_IO_ADDR(PIND), 0
    call leaf
    sbic _SFR_IO_ADDR(PIND), 1
    jmp main
    ldi r30, pm_lo8(5f)
    ldi r31, pm_hi8(5f)
    rcall returns_early
    ijmp
    nop
5:  call paged
    inc r18
    breq 6f
    jmp round
6:  clr r24
    clr r25
    clr r1
    ret
    .size main, . - main

    .type leaf, @function
leaf:
    ret
    .size leaf, . - leaf

    .type returns_early, @function
returns_early:
    sbrc r18, 0
    ret
    cp r18, r28
    brlo 7f
    swap r19
7:  ret
    .size returns_early, . - returns_early

    /* Skips at the end of QEMU's pages of 256 bytes: what they skip begins a block, which begins so with a skip and without. */
    .p2align 8
    .fill 125, 2, 0
    .type paged, @function
paged:
    rjmp 8f
8:  inc r18
    sbrc r18, 0
    brne 9f
9:  dec r18
    rjmp paged_on
    .size paged, . - paged
    .p2align 8
    .fill 127, 2, 0
    .type paged_on, @function
paged_on:
    sbrs r18, 7
    mov r19, r18
    rjmp 11f
    .p2align 8
    .fill 126, 2, 0
11: cp r18, r19
    cpse r18, r19
    sbrc r18, 5
    rjmp 12f
12: ret
    .size paged_on, . - paged_on

    .section .bss
cell:
    .space 8
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
