/* SPDX-License-Identifier: MIT OR Apache-2.0 */
# Read by tests/disassembler.rs for RV32 and RV64. The assembler compresses what it can.
        .option norelax
        .globl  _start
_start: nop
        addi    a0, a1, 1000
        slti    a0, a1, 1
        sltiu   a0, a1, 1
        xori    a0, a1, -1
        ori     a0, a1, 1
        andi    a0, a1, 1
        slli    a0, a1, 3
        srli    a0, a1, 3
        srai    a0, a1, 3
        add     a0, a1, a2
        sub     a0, a1, a2
        sll     a0, a1, a2
        slt     a0, a1, a2
        sltu    a0, a1, a2
        xor     a0, a1, a2
        srl     a0, a1, a2
        sra     a0, a1, a2
        or      a0, a1, a2
        and     a0, a1, a2
        lui     a0, 0x12345
        auipc   a0, 0x12345
        mul     a0, a1, a2
        mulh    a0, a1, a2
        mulhsu  a0, a1, a2
        mulhu   a0, a1, a2
        div     a0, a1, a2
        divu    a0, a1, a2
        rem     a0, a1, a2
        remu    a0, a1, a2
        sh1add  a0, a1, a2
        andn    a0, a1, a2
        clz     a0, a1
        cpop    a0, a1
        max     a0, a1, a2
        rol     a0, a1, a2
        rori    a0, a1, 3
        orc.b   a0, a1
        rev8    a0, a1
        zext.h  a0, a1
        bset    a0, a1, a2
        bexti   a0, a1, 3
        c.nop
        c.addi  a0, 1
        c.addi16sp sp, -64
        c.addi4spn a0, sp, 8
        c.li    a0, 1
        c.lui   a0, 1
        c.srli  a0, 1
        c.srai  a0, 1
        c.andi  a0, 1
        c.sub   a0, a1
        c.xor   a0, a1
        c.or    a0, a1
        c.and   a0, a1
        c.slli  a0, 1
        c.mv    a0, a1
        c.add   a0, a1
        lw      a0, 4(a1)
        lbu     a0, 4(a1)
        sw      a0, 4(a1)
        sh      a0, 4(a1)
        lw      a0, 4(sp)
        sw      a0, 4(sp)
        flw     fa0, 4(a1)
        fsd     fa0, 8(a1)
        fld     fa0, 8(sp)
        fadd.d  fa0, fa1, fa2
        fmadd.s fa0, fa1, fa2, fa3
        fmv.x.w a0, fa0
        fcvt.w.s a0, fa0
        lr.w    a0, (a1)
        sc.w    a0, a1, (a2)
        amoswap.w.aq a0, a1, (a2)
        fence
        fence.i
        ecall
        .option push
        .option norvc
        slli    x0, x0, 0x1f
        ebreak
        srai    x0, x0, 7
        .option pop
        c.ebreak
        wfi
        sfence.vma
        csrr    a0, mtvec
        csrw    mtvec, a0
        csrw    stvec, a0
        csrwi   mtvec, 0
        csrsi   mtvec, 1
        csrc    mtvec, zero
        csrrs   a0, stvec, a1
        csrw    mie, a0
        csrr    a0, mcycle
        mret
        sret
back:   beq     a0, a1, back
        bne     a0, a1, ahead
        blt     a0, a1, back
        bge     a0, a1, ahead
        bltu    a0, a1, back
        bgeu    a0, a1, ahead
        beq     a0, a1, far
        c.beqz  a0, back
        c.bnez  a0, ahead
        c.j     back
        c.j     ahead
        .option push
        .option norvc
        j       ahead
        j       very_far
        jal     ra, ahead
        jal     ra, very_far
        jal     t0, ahead
        jal     t1, ahead
        jalr    ra, 0(a5)
        jalr    ra, -4(a5)
        jalr    ra, 8(ra)
        jalr    t0, 16(a5)
        jalr    t1, 16(a5)
        jalr    t1, 16(ra)
        jr      a5
        jr      12(a5)
        jr      t0
        ret
        .option pop
ahead:  c.jr    a5
        c.jr    ra
        c.jr    t0
        c.jalr  a5
        c.jalr  ra
        call    very_far
        tail    very_far
        call    t0, very_far
        .space  0x700
far:    ret
        .space  0xf0000
very_far:
        auipc   ra, 0x10
        jalr    ra, -16(ra)
        jal     ra, _start
        ret
