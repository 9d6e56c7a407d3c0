/* SPDX-License-Identifier: MIT OR Apache-2.0 */
# RV32 only. Read by tests/disassembler.rs.
        .globl  _start
_start: c.jal   _start
        c.jal   ahead
        c.flw   fa0, 4(a1)
        c.fswsp fa0, 4(sp)
ahead:  zext.h  a0, a1
        ret
