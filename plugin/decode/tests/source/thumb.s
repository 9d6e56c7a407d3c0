/* SPDX-License-Identifier: MIT OR Apache-2.0 */
@ What every M-profile core has. Read by tests/disassembler.rs for each Thumb instruction set.
        .syntax unified
        .thumb
        .thumb_func
start:  nop
        movs    r0, #1
        mov     r8, r0
        mov     r0, sp
        adds    r0, r0, r1
        add     r0, r9
        subs    r0, #3
        rsbs    r0, r1, #0
        muls    r0, r1, r0
        lsls    r0, r1, #3
        asrs    r0, r1
        ands    r0, r1
        bics    r0, r1
        mvns    r0, r1
        cmp     r0, #1
        cmp     r8, r9
        cmn     r0, r1
        tst     r0, r1
        adr     r0, table
        add     r0, sp, #8
        uxtb    r0, r1
        sxth    r0, r1
        rev     r0, r1
        rev16   r0, r1
        revsh   r0, r1
        sub     sp, #16
        add     sp, #16
        mov     sp, r0
        add     sp, r1
        ldr     r0, table
        ldr     r0, [r1]
        ldrb    r0, [r1, r2]
        str     r0, [sp, #4]
        push    {r4, lr}
        pop     {r4}
        ldm     r0!, {r1, r2}
        stm     r0!, {r1, r2}
        cpsid   i
        mrs     r0, primask
        msr     primask, r0
        dmb
        dsb
        isb
        svc     #1
        bkpt    #0xab
        udf     #0
        wfi
        wfe
        sev
        yield
back:   b       start
        b       ahead
        b       far
        beq     back
        bne     ahead
        bcs     back
        bcc     ahead
        bmi     back
        bpl     ahead
        bvs     back
        bvc     ahead
        bhi     back
        bls     ahead
        bge     back
        blt     ahead
        bgt     back
        ble     ahead
ahead:  bl      start
        bl      far
        bl      very_far
        blx     r3
        blx     r12
        blx     lr
        bx      lr
        bx      r3
        mov     pc, lr
        mov     pc, r3
        add     pc, r0
        pop     {pc}
        pop     {r0-r7, pc}
        .balign 4
table:  .inst.n 0xbf00
        .inst.n 0xbf00
        .space  0x300
        .thumb_func
far:    bx      lr
        .space  0x1fff00
        .thumb_func
very_far:
        bl      start
        bx      lr
