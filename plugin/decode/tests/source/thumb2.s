/* SPDX-License-Identifier: MIT OR Apache-2.0 */
@ What Armv7-M adds. Read by tests/disassembler.rs for v7-M and v8-M.
        .syntax unified
        .thumb
        .thumb_func
start:  nop.w
        mov.w   r0, #0x100
        movw    r0, #0x1234
        movt    r0, #0x1234
        mvn     r0, #1
        add.w   r0, r1, #0xff00
        addw    r0, r1, #0xabc
        subw    r0, r1, #0xabc
        adc     r0, r1, #1
        sbc     r0, r1, #1
        rsb     r0, r1, #1
        and     r0, r1, #1
        orr     r0, r1, #1
        orn     r0, r1, #1
        eor     r0, r1, #1
        bic     r0, r1, #1
        tst     r8, #1
        teq     r8, #1
        cmp.w   r8, #1
        cmn.w   r8, #1
        adds.w  r0, r1, r2, lsl #3
        subs.w  r0, r1, r2, asr #3
        and.w   r0, r1, r2
        orn     r0, r1, r2
        teq     r0, r1
        pkhbt   r0, r1, r2
        rrx     r0, r1
        ror.w   r0, r1, #3
        lsl.w   r0, r1, r2
        asr.w   r0, r1, r2
        sxtb.w  r0, r1, ror #8
        uxtah   r0, r1, r2
        uxtb16  r0, r1
        sadd8   r0, r1, r2
        uhsub16 r0, r1, r2
        qadd    r0, r1, r2
        qdsub   r0, r1, r2
        sel     r0, r1, r2
        rbit    r0, r1
        rev.w   r0, r1
        clz     r0, r1
        ssat    r0, #8, r1
        usat16  r0, #7, r1
        sbfx    r0, r1, #3, #4
        ubfx    r0, r1, #3, #4
        bfi     r0, r1, #3, #4
        bfc     r0, #3, #4
        mul     r0, r1, r2
        mla     r0, r1, r2, r3
        mls     r0, r1, r2, r3
        smulbb  r0, r1, r2
        smlad   r0, r1, r2, r3
        smmul   r0, r1, r2
        usad8   r0, r1, r2
        smull   r0, r1, r2, r3
        umlal   r0, lr, r2, r3
        umaal   r0, r1, r2, r3
        smlald  r0, r1, r2, r3
        sdiv    r0, r1, r2
        udiv    r0, r1, r2
        sub.w   sp, sp, #0x200
        addw    sp, sp, #0x201
        mov.w   sp, r0
        ldr.w   r0, [r1, #0x100]
        ldr.w   r0, [r1, r2, lsl #2]
        ldrd    r0, r1, [r2]
        strd    r0, r1, [r2]
        ldrex   r0, [r1]
        strex   r0, r1, [r2]
        clrex
        pld     [r0]
        ldmia.w r0!, {r4-r8}
        stmdb   sp!, {r4-r8, lr}
        msr     basepri, r0
        cpsie   f
        wfi.w
        udf.w   #0
        vadd.f32 s0, s1, s2
        vmov    r0, s0
        vmov.f32 s0, #1.0
        vldr    s0, [r1]
        vpush   {s16-s19}
        vmrs    APSR_nzcv, fpscr
back:   b.w     start
        b.w     far
        beq.w   start
        bne.w   far
        bgt.w   start
        cbz     r0, ahead
        cbnz    r7, ahead
        tbb     [pc, r0]
        tbh     [pc, r0, lsl #1]
        .space  64
ahead:  ldr.w   pc, [r0]
        ldr.w   pc, [r0, #4]
        ldr.w   pc, [r0, r1, lsl #2]
        ldr.w   pc, start
        ldr.w   pc, [sp], #4
        ldr.w   pc, [sp, #4]
        pop.w   {r4-r11, pc}
        ldmia.w sp!, {r4, pc}
        ldmia.w r0!, {r4, pc}
        ldmdb   r0!, {r4, pc}
        it      eq
        bxeq    lr
        itt     ne
        addne   r0, r1
        popne   {r4, pc}
        it      cs
        blcs    far
        itt     cc
        addcc   r0, #1
        bcc     start
        ittt    eq
        moveq   r0, r1
        udiveq  r0, r1, r2
        blxeq   r3
        itete   eq
        moveq   r0, #1
        movne   r0, #2
        ldreq   r0, [r1]
        bxne    r3
        .space  0x80000
        .thumb_func
far:    bl      start
        bx      lr
