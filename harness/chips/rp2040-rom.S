/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The boot ROM of rp2040.toml, of our own: the table of functions at 0x14, of data at 0x16, and the function at 0x18 that looks
   both up (RP2040 datasheet, 2.8.3). `words` has what this assembles to:
   arm-none-eabi-as rp2040-rom.S -o rom.o && arm-none-eabi-objcopy -O binary rom.o rom.bin */
    .syntax unified
    .cpu cortex-m0
    .thumb
    .text
start:
    .word 0x20042000, spin + 1, spin + 1, spin + 1
    .byte 'M', 'u', 1, 3
    .hword functions, data
    .hword lookup + 1, 0
lookup:  @ r0: table, r1: code
    ldrh r2, [r0]
    cmp r2, #0
    beq 2f
    cmp r2, r1
    beq 1f
    adds r0, #4
    b lookup
1:  ldrh r0, [r0, #2]
    bx lr
2:  movs r0, #0
    bx lr
nothing:
    bx lr
spin:
    b .
float:  @ arithmetic of floats is not there
    udf #0
memset:  @ r0: to, r1: byte, r2: count
    mov r3, r0
1:  subs r2, #1
    bcc 2f
    strb r1, [r3]
    adds r3, #1
    b 1b
2:  bx lr
memset4:  @ aligned
    uxtb r1, r1
    lsls r3, r1, #8
    orrs r1, r3
    lsls r3, r1, #16
    orrs r1, r3
    mov r3, r0
1:  subs r2, #4
    bcc 2f
    str r1, [r3]
    adds r3, #4
    b 1b
2:  adds r2, #4
    mov r12, r0
    mov r0, r3
1:  subs r2, #1
    bcc 2f
    strb r1, [r0]
    adds r0, #1
    b 1b
2:  mov r0, r12
    bx lr
memcpy:  @ r0: to, r1: from, r2: count
    push {r4, lr}
    mov r4, r0
1:  subs r2, #1
    bcc 2f
    ldrb r3, [r1]
    strb r3, [r0]
    adds r1, #1
    adds r0, #1
    b 1b
2:  mov r0, r4
    pop {r4, pc}
popcount:
    movs r1, #0
1:  cmp r0, #0
    beq 2f
    subs r2, r0, #1
    ands r0, r2
    adds r1, #1
    b 1b
2:  mov r0, r1
    bx lr
reverse:
    movs r1, #0
    movs r2, #32
1:  lsrs r0, r0, #1
    adcs r1, r1
    subs r2, #1
    bne 1b
    mov r0, r1
    bx lr
clz:
    movs r1, #0
    cmp r0, #0
    beq 2f
1:  cmp r0, #0
    bmi 3f
    lsls r0, r0, #1
    adds r1, #1
    b 1b
2:  movs r1, #32
3:  mov r0, r1
    bx lr
ctz:
    movs r1, #0
    cmp r0, #0
    beq 2f
1:  lsrs r0, r0, #1
    bcs 3f
    adds r1, #1
    b 1b
2:  movs r1, #32
3:  mov r0, r1
    bx lr
    .align 2
functions:
    .macro entry a, b, f
    .byte \a, \b
    .hword \f + 1
    .endm
    entry 'P', '3', popcount
    entry 'R', '3', reverse
    entry 'L', '3', clz
    entry 'T', '3', ctz
    entry 'M', 'S', memset
    entry 'S', '4', memset4
    entry 'M', 'C', memcpy
    entry 'C', '4', memcpy
    entry 'I', 'F', nothing
    entry 'E', 'X', nothing
    entry 'F', 'C', nothing
    entry 'C', 'X', nothing
    entry 'R', 'E', nothing
    entry 'R', 'P', nothing
    entry 'U', 'B', spin
    .word 0
data:
    .byte 'S', 'F'
    .hword table
    .byte 'S', 'D'
    .hword table
    .word 0
    .hword 0, 32
table:
    .rept 32
    .word float + 1
    .endr
