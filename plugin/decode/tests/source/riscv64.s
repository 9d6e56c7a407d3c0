/* SPDX-License-Identifier: MIT OR Apache-2.0 */
# RV64 only. Read by tests/disassembler.rs.
        .globl  _start
_start: c.addiw a0, 1
        c.addw  a0, a1
        c.subw  a0, a1
        addiw   a0, a1, 1000
        slliw   a0, a1, 3
        sraiw   a0, a1, 3
        addw    a0, a1, a2
        sllw    a0, a1, a2
        mulw    a0, a1, a2
        divw    a0, a1, a2
        remuw   a0, a1, a2
        slli    a0, a1, 40
        c.slli  a0, 40
        c.srai  a0, 40
        add.uw  a0, a1, a2
        clzw    a0, a1
        roriw   a0, a1, 3
        ld      a0, 8(a1)
        sd      a0, 8(sp)
        lwu     a0, 4(a1)
        lr.d    a0, (a1)
        ret
