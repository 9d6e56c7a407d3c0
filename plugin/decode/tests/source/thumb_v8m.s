/* SPDX-License-Identifier: MIT OR Apache-2.0 */
@ What Armv8-M and Armv8.1-M add. Read by tests/disassembler.rs for v8-M.
        .syntax unified
        .thumb
start:  sg
        tt      r0, r1
        bxns    lr
        bxns    r3
        blxns   r3
        lda     r0, [r1]
        stl     r0, [r1]
        vlstm   r0
        vlldm   r0
        dls     lr, r0
        wls     lr, r0, after
loop:   adds    r1, #1
        le      lr, loop
        le      loop
after:  wlstp.8 lr, r0, end
vloop:  vadd.i8 q0, q0, q1
        letp    lr, vloop
end:    bx      lr
