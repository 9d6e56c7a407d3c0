/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The boot ROM of lpc1768.toml, of our own: In-Application Programming at 0x1fff1ff0 (UM10360, 32.8), by the two registers of
   lpc17-flash, which are not the chip's. `words` has what this assembles to from 0x1f00 on:
   arm-none-eabi-as lpc1768-rom.S -o rom.o && arm-none-eabi-objcopy -O binary rom.o rom.bin */
    .syntax unified
    .cpu cortex-m3
    .thumb
    .text
    .equ CONTROLLER, 0x40084000  @ PROGRAM, SECTOR
iap:  @ r0: command and its parameters, r1: status and its results
    push {r4, r5, r6, lr}
    mov r12, r0
    ldr r0, [r0]
    ldr r2, =CONTROLLER
    movs r3, #0
    subs r0, #50
    cmp r0, #8
    bhi unknown
    tbb [pc, r0]
table:
    .byte (done - table) / 2, (copy - table) / 2, (erase - table) / 2, (blank - table) / 2, (part - table) / 2
    .byte (version - table) / 2, (compare - table) / 2, (stay - table) / 2, (serial - table) / 2, 0
unknown:
    movs r3, #1
done:
    str r3, [r1]
    pop {r4, r5, r6, pc}
copy:  @ r4: to, r5: from, r6: bytes, a multiple of 256
    ldrd r4, r5, [r12, #4]
    ldr r6, [r12, #12]
    movs r0, #1
    str r0, [r2]
1:  ldr r0, [r5], #4
    str r0, [r4], #4
    subs r6, #4
    bhi 1b
    str r3, [r2]
    b done
erase:  @ r4: the first sector, r5: the last
    ldrd r4, r5, [r12, #4]
1:  str r4, [r2, #4]
    adds r4, #1
    cmp r4, r5
    bls 1b
    b done
blank:  @ the same; the addresses of a sector and of the one behind the last
    ldrd r4, r5, [r12, #4]
    adds r5, #1
    mov r0, r4
    bl address
    mov r4, r0
    mov r0, r5
    bl address
1:  ldr r6, [r4]
    adds r6, #1
    bne 2f
    adds r4, #4
    cmp r4, r0
    bne 1b
    b done
2:  subs r6, #1
    movs r3, #8
    str r4, [r1, #4]
    str r6, [r1, #8]
    b done
address:  @ sixteen sectors of 4 KiB, and then of 32 KiB
    cmp r0, #16
    ite ls
    lslls r0, r0, #12
    lslhi r0, r0, #15
    it hi
    subhi r0, #0x70000
    bx lr
compare:  @ r4 and r5: addresses, r6: bytes
    ldrd r4, r5, [r12, #4]
    ldr r6, [r12, #12]
    movs r0, #0
1:  ldr r2, [r4, r0]
    ldr r12, [r5, r0]
    cmp r2, r12
    bne 2f
    adds r0, #4
    cmp r0, r6
    bcc 1b
    b done
2:  movs r3, #10
    str r0, [r1, #4]
    b done
part:
    ldr r0, =0x26013f37
    str r0, [r1, #4]
    b done
version:
    movw r0, #0x0402
    str r0, [r1, #4]
    b done
serial:
    movs r0, #1
    str r0, [r1, #4]
    str r3, [r1, #8]
    str r3, [r1, #12]
    str r3, [r1, #16]
    b done
stay:  @ the boot loader waits for its host
    b .
    .ltorg
    .org 0xf0
    b.w iap
