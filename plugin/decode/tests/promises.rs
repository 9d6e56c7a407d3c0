// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-picked encodings, one promise per test: traps, returns, registers, helpers. Facts that an assembler and a
//! disassembler can check in bulk are in `disassembler.rs`.

use decode::{Flow, Insn, Isa, decode};

const THUMB: [Isa; 3] = [Isa::ThumbV6m, Isa::ThumbV7m, Isa::ThumbV8m];
const RISCV: [Isa; 2] = [Isa::Riscv32, Isa::Riscv64];
const PC: u64 = 0x1000;

/// Thumb bytes: one or two halfwords, written as the manual does (0xf000_f800 is f000 then f800).
fn thumb(insn: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if insn > 0xffff {
        bytes.extend(((insn >> 16) as u16).to_le_bytes());
    }
    bytes.extend((insn as u16).to_le_bytes());
    bytes
}

/// RISC-V bytes: a compressed instruction is at most 16 bits and its low two are not both set.
fn riscv(insn: u32) -> Vec<u8> {
    if insn & 3 == 3 { insn.to_le_bytes().to_vec() } else { (insn as u16).to_le_bytes().to_vec() }
}

fn t(isa: Isa, insn: u32) -> Insn {
    decode(isa, PC, &thumb(insn))
}

fn r(isa: Isa, insn: u32) -> Insn {
    decode(isa, PC, &riscv(insn))
}

#[test]
fn thumb_integer_operations_on_registers_are_pure() {
    for isa in THUMB {
        for insn in [
            0x2001,      // movs r0, #1
            0x0040,      // lsls r0, r0, #1
            0x1840,      // adds r0, r0, r1
            0x2801,      // cmp r0, #1
            0x4348,      // muls r0, r1
            0x4448,      // add r0, r9
            0x45c8,      // cmp r8, r9
            0x4668,      // mov r0, sp
            0xa001,      // adr r0, ..
            0xa801,      // add r0, sp, #4
            0xb2c0,      // uxtb r0, r0
            0xba00,      // rev r0, r0
            0xbf00,      // nop
            0xf3af_8000, // nop.w
            0xf04f_0001, // mov.w r0, #1
            0xf110_0f01, // cmn.w r0, #1
            0xea4f_0041, // lsl.w r0, r1, #1
            0xea90_0f01, // teq r0, r1
            0xf240_0001, // movw r0, #1
            0xf360_0007, // bfi r0, r0, #0, #8
            0xfa00_f001, // lsl.w r0, r0, r1
            0xfab0_f080, // clz r0, r0
            0xfb00_f001, // mul r0, r0, r1
            0xfba0_1e02, // umull r1, lr, r0, r2
        ] {
            let decoded = t(isa, insn);
            assert!(!decoded.may_leave, "{isa} {insn:#x}");
            assert_eq!(decoded.flow, Flow::Next, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn thumb_memory_system_float_and_division_may_leave() {
    for isa in THUMB {
        for insn in [
            0x4801,      // ldr r0, [pc, #4]
            0x6800,      // ldr r0, [r0]
            0x9001,      // str r0, [sp, #4]
            0xb501,      // push {r0, lr}
            0xbc01,      // pop {r0}
            0xc801,      // ldmia r0!, {r0}
            0xb672,      // cpsid i
            0xbe00,      // bkpt 0
            0xbeab,      // bkpt 0xab
            0xbf10,      // yield
            0xbf20,      // wfe
            0xbf30,      // wfi
            0xbf40,      // sev
            0xba80,      // hlt
            0xde00,      // udf
            0xdf00,      // svc
            0xf3bf_8f5f, // dmb
            0xf3bf_8f6f, // isb
            0xf3ef_8009, // mrs r0, psp
            0xf380_8809, // msr psp, r0
            0xf7f0_a000, // udf.w
            0xe850_0f00, // ldrex r0, [r0]
            0xe97f_e97f, // sg
            0xe840_f000, // tt r0, r0
            0xee30_0a00, // vadd.f32 s0, s0, s0
            0xee10_0a10, // vmov r0, s0
            0xeef1_fa10, // vmrs APSR_nzcv, fpscr
            0xed90_0a00, // vldr s0, [r0]
            0xfe00_0a00, // vseleq.f32 s0, s0, s0
            0xfb90_f0f1, // sdiv r0, r0, r1
            0xfbb0_f0f1, // udiv r0, r0, r1
            0xf890_f000, // pld [r0]
            0xea51_8002, // csel r0, r1, r2, eq
            0xea50_01cf, // lsll r0, r1, #3
            0xe89f_8001, // clrm {r0, apsr}
        ] {
            assert!(t(isa, insn).may_leave, "{isa} {insn:#x}");
            assert_eq!(t(isa, insn).flow, Flow::Next, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn a_write_to_sp_may_leave_only_where_a_stack_limit_is_checked() {
    for insn in [
        0xb082,      // sub sp, #8
        0xb002,      // add sp, #8
        0x4685,      // mov sp, r0
        0x4485,      // add sp, r0
        0xf1ad_0d08, // sub.w sp, sp, #8
        0xf5ad_7d00, // sub.w sp, sp, #512
        0xf2ad_0d08, // subw sp, sp, #8
        0xea4f_0d00, // mov.w sp, r0
        0xebad_0d00, // sub.w sp, sp, r0
        0xf020_0d07, // bic sp, r0, #7
    ] {
        assert!(!t(Isa::ThumbV6m, insn).may_leave, "{insn:#x}");
        assert!(!t(Isa::ThumbV7m, insn).may_leave, "{insn:#x}");
        assert!(t(Isa::ThumbV8m, insn).may_leave, "{insn:#x}");
    }
}

#[test]
fn thumb_returns_are_told_from_other_jumps() {
    let indirect = |reg| Flow::IndirectJump { reg, offset: 0 };
    for (insn, flow) in [
        (0x4770, Flow::Return),            // bx lr
        (0x46f7, Flow::Return),            // mov pc, lr
        (0xbd10, Flow::Return),            // pop {r4, pc}
        (0xe8bd_8ff0, Flow::Return),       // pop.w {r4-r11, pc}
        (0xf85d_fb04, Flow::Return),       // ldr.w pc, [sp], #4
        (0xf85d_fb08, Flow::Return),       // ldr.w pc, [sp], #8
        (0xf8dd_f004, Flow::ComputedJump), // ldr.w pc, [sp, #4]
        (0xf85d_f904, Flow::ComputedJump), // ldr.w pc, [sp], #-4
        (0xf85d_fd04, Flow::ComputedJump), // ldr.w pc, [sp, #-4]!
        (0xf8df_f000, Flow::ComputedJump), // ldr.w pc, [pc]
        (0xf851_f020, Flow::ComputedJump), // ldr.w pc, [r1, r0, lsl #2]
        (0xe8b0_8010, Flow::ComputedJump), // ldmia.w r0!, {r4, pc}
        (0xe930_8010, Flow::ComputedJump), // ldmdb r0!, {r4, pc}
        (0xe8df_f001, Flow::ComputedJump), // tbb [pc, r1]
        (0xe8df_f011, Flow::ComputedJump), // tbh [pc, r1, lsl #1]
        (0x448f, Flow::ComputedJump),      // add pc, r1
        (0x4718, indirect(3)),             // bx r3
        (0x4760, indirect(12)),            // bx r12
        (0x469f, indirect(3)),             // mov pc, r3
    ] {
        for isa in THUMB {
            assert_eq!(t(isa, insn).flow, flow, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn secure_state_branches_exist_on_v8m_only() {
    assert_eq!(t(Isa::ThumbV8m, 0x4774).flow, Flow::Return); // bxns lr
    assert_eq!(t(Isa::ThumbV7m, 0x4774).flow, Flow::Next);
    let call = Flow::IndirectCall { reg: 3, offset: 0, clobbered: false };
    assert_eq!(t(Isa::ThumbV8m, 0x479c).flow, call); // blxns r3
    assert!(t(Isa::ThumbV8m, 0x479c).may_leave);
    assert_eq!(t(Isa::ThumbV7m, 0x479c).flow, Flow::Next);
}

#[test]
fn a_call_through_the_link_register_is_marked_clobbered() {
    for (reg, insn) in [(3, 0x4798), (14, 0x47f0)] {
        let flow = Flow::IndirectCall { reg, offset: 0, clobbered: reg == 14 };
        assert_eq!(t(Isa::ThumbV7m, insn).flow, flow);
    }
    for isa in RISCV {
        for (insn, reg, offset, clobbered) in [
            (0x0007_80e7, 15, 0, false),      // jalr ra, 0(a5)
            (0xffc0_80e7, 1, -4, true),       // jalr ra, -4(ra)
            (0x0102_82e7, 5, 16, true),       // jalr t0, 16(t0)
            (0x0002_80e7, 5, 0, false),       // jalr ra, 0(t0)
            (0x0000_0000_9782, 15, 0, false), // c.jalr a5
            (0x0000_0000_9082, 1, 0, true),   // c.jalr ra
        ] {
            let flow = Flow::IndirectCall { reg, offset, clobbered };
            assert_eq!(r(isa, insn).flow, flow, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn it_covers_one_to_four_instructions() {
    for (insn, count) in [(0xbf08, 1), (0xbf04, 2), (0xbf0c, 2), (0xbf02, 3), (0xbf01, 4), (0xbfe1, 4)] {
        let it = t(Isa::ThumbV7m, insn);
        assert_eq!(it.flow, Flow::It { count }, "{insn:#x}");
        assert!(!it.may_leave);
    }
}

#[test]
fn riscv_link_registers_tell_calls_jumps_and_returns_apart() {
    let indirect = |reg, offset| Flow::IndirectJump { reg, offset };
    let target = PC + 0x800;
    for isa in RISCV {
        for (insn, flow) in [
            (0x0010_00ef, Flow::Call { target }), // jal ra
            (0x0010_02ef, Flow::Call { target }), // jal t0
            (0x0010_006f, Flow::Jump { target }), // j
            (0x0010_036f, Flow::Jump { target }), // jal t1
            (0x0000_8067, Flow::Return),          // ret
            (0x0002_8067, Flow::Return),          // jr t0
            (0x0040_8067, Flow::Return),          // jr 4(ra)
            (0x0000_8367, Flow::Return),          // jalr t1, 0(ra)
            (0x8082, Flow::Return),               // c.jr ra
            (0x8282, Flow::Return),               // c.jr t0
            (0x0007_8067, indirect(15, 0)),       // jr a5
            (0xff07_8067, indirect(15, -16)),     // jr -16(a5)
            (0x0007_8367, indirect(15, 0)),       // jalr t1, 0(a5)
            (0x8782, indirect(15, 0)),            // c.jr a5
        ] {
            assert_eq!(r(isa, insn).flow, flow, "{isa} {insn:#x}");
            assert!(!r(isa, insn).may_leave);
        }
        for insn in [0x3020_0073, 0x1020_0073, 0x0020_0073, 0x7020_0073] {
            let ret = Insn { len_bytes: 4, may_leave: true, flow: Flow::Return };
            assert_eq!(r(isa, insn), ret, "{isa} {insn:#x}"); // mret sret uret mnret
        }
    }
}

#[test]
fn riscv_integer_operations_on_registers_are_pure() {
    for isa in RISCV {
        for insn in [
            0x0000_0013, // nop
            0x0015_0513, // addi a0, a0, 1
            0x0000_1537, // lui a0, 1
            0x0000_1517, // auipc a0, 1
            0x02b5_0533, // mul a0, a0, a1
            0x02b5_4533, // div a0, a0, a1
            0x02b5_7533, // remu a0, a0, a1
            0x20b5_2533, // sh1add a0, a0, a1
            0x6005_1513, // clz a0, a0
            0x0001,      // c.nop
            0x0505,      // c.addi a0, 1
            0x1141,      // c.addi sp, -16
            0x7139,      // c.addi16sp -64
            0x0028,      // c.addi4spn a0, 8
            0x6505,      // c.lui a0, 1
            0x4505,      // c.li a0, 1
            0x852e,      // c.mv a0, a1
            0x952e,      // c.add a0, a1
            0x8d0d,      // c.sub a0, a1
            0x9d4d,      // c.mul a0, a1
        ] {
            let decoded = r(isa, insn);
            assert!(!decoded.may_leave, "{isa} {insn:#x}");
            assert_eq!(decoded.flow, Flow::Next, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn riscv_memory_system_float_and_reserved_encodings_may_leave() {
    for isa in RISCV {
        for insn in [
            0x0000_0000,     // illegal
            0xffff_ffff,     // illegal
            0x0005_2503,     // lw a0, 0(a0)
            0x00a5_2023,     // sw a0, 0(a0)
            0x1005_252f,     // lr.w a0, (a0)
            0x00a5_252f,     // amoadd.w a0, a0, (a0)
            0x0000_000f,     // fence
            0x0000_100f,     // fence.i
            0x0100_000f,     // pause
            0x0000_0073,     // ecall
            0x0010_0073,     // ebreak
            0x1050_0073,     // wfi
            0x1200_0073,     // sfence.vma
            0x3004_7073,     // csrci mstatus, 8
            0xc000_2573,     // rdcycle a0
            0x0205_7007,     // vle8.v v0, (a0)
            0x00a5_7553,     // fadd.s fa0, fa0, fa0
            0x0000_0017,     // lpad (auipc x0)
            0x8067 | 0x1000, // jalr with a reserved funct3
            0x0000_2063,     // branch with a reserved funct3
            0x0000_000b,     // custom-0
            0x6081,          // c.mop.1 (c.sspush ra)
            0x9002,          // c.ebreak
            0x8002,          // c.jr x0, reserved
            0x4502,          // c.lwsp a0, 0(sp)
            0xc02a,          // c.swsp a0, 0(sp)
            0x4108,          // c.lw a0, 0(a0)
            0xc108,          // c.sw a0, 0(a0)
            0x2108,          // c.fld fa0, 0(a0)
            0xa02a,          // c.fsdsp fa0, 0(sp)
            0x6108,          // c.ld / c.flw
            0x8108,          // c.lbu a0, 0(a0)
        ] {
            assert!(r(isa, insn).may_leave, "{isa} {insn:#x}");
            assert_eq!(r(isa, insn).flow, Flow::Next, "{isa} {insn:#x}");
        }
    }
}

#[test]
fn one_encoding_is_c_jal_on_rv32_and_c_addiw_on_rv64() {
    let target = PC + 0x10;
    assert_eq!(r(Isa::Riscv32, 0x2801).flow, Flow::Call { target });
    let addiw = Insn { len_bytes: 2, may_leave: false, flow: Flow::Next };
    assert_eq!(r(Isa::Riscv64, 0x2805), addiw);
    // c.addiw x0 is reserved.
    assert!(r(Isa::Riscv64, 0x2001).may_leave);
}

#[test]
fn targets_wrap_at_the_width_of_pc() {
    // b . - 4; j . - 4; jal ra, . - 4
    let back = |isa, bytes: &[u8]| match decode(isa, 0, bytes).flow {
        Flow::Jump { target } => target,
        other => panic!("{other:?}"),
    };
    assert_eq!(back(Isa::ThumbV7m, &thumb(0xe7fc)), 0xffff_fffc);
    assert_eq!(back(Isa::Riscv32, &riscv(0xffdf_f06f)), 0xffff_fffc);
    assert_eq!(back(Isa::Riscv64, &riscv(0xffdf_f06f)), u64::MAX - 3);
    let forward = decode(Isa::Riscv32, 0xffff_fffe, &riscv(0x0040_006f)).flow;
    assert_eq!(forward, Flow::Jump { target: 2 });
}

#[test]
fn auipc_gives_the_register_and_the_value() {
    let of = |isa, pc, insn: u32| decode::auipc(isa, pc, &insn.to_le_bytes());
    assert_eq!(of(Isa::Riscv64, 0x8000_0000, 0x0000_1517), Some((10, 0x8000_1000)));
    assert_eq!(of(Isa::Riscv64, 0x8000_0000, 0xffff_f317), Some((6, 0x7fff_f000)));
    assert_eq!(of(Isa::Riscv64, 0x8000_0000, 0x8000_0317), Some((6, 0)));
    assert_eq!(of(Isa::Riscv64, 0, 0x8000_0317), Some((6, 0xffff_ffff_8000_0000)));
    assert_eq!(of(Isa::Riscv32, 0x8000_0000, 0x8000_0317), Some((6, 0)));
    assert_eq!(of(Isa::Riscv32, 0x8000_0000, 0x0000_1537), None);
    assert_eq!(of(Isa::ThumbV7m, 0x8000_0000, 0x0000_1517), None);
}

#[test]
fn too_few_bytes_never_prove_anything() {
    for isa in Isa::ALL {
        // On Thumb, 0xf013 begins a 32-bit instruction; on AVR, 0x940e.
        let cut: &[u8] = if isa.is_avr() { &[0x0e, 0x94, 0x00] } else { &[0x13, 0xf0, 0x00] };
        for bytes in [&[][..], &[0x13], cut] {
            let decoded = decode(isa, PC, bytes);
            assert!(decoded.may_leave && decoded.flow == Flow::Next, "{isa} {bytes:x?}");
        }
    }
    assert_eq!(decode(Isa::ThumbV7m, PC, &[0x00, 0xf0]).len_bytes, 4);
    assert_eq!(decode(Isa::Riscv32, PC, &[0x13, 0x00]).len_bytes, 4);
    assert_eq!(decode(Isa::Riscv32, PC, &[]).len_bytes, 2);
}

#[test]
fn bytes_after_the_instruction_are_ignored() {
    let mut bytes = thumb(0x4770);
    bytes.extend([0xff; 6]);
    assert_eq!(decode(Isa::ThumbV7m, PC, &bytes), t(Isa::ThumbV7m, 0x4770));
    let mut bytes = riscv(0x8082);
    bytes.extend([0xff; 6]);
    assert_eq!(decode(Isa::Riscv32, PC, &bytes), r(Isa::Riscv32, 0x8082));
    bytes.truncate(4);
    assert!(!decode::is_breakpoint(Isa::Riscv32, &bytes));
}

#[test]
fn semihosting_needs_its_exact_words() {
    for isa in Isa::ALL {
        let (riscv, thumb_isa) = (isa.is_riscv(), isa.is_thumb());
        let word = |insn: u32| insn.to_le_bytes();
        assert_eq!(decode::is_semihosting_prefix(isa, &word(0x01f0_1013)), riscv);
        assert_eq!(decode::is_semihosting_suffix(isa, &word(0x4070_5013)), riscv);
        assert_eq!(decode::is_breakpoint(isa, &word(0x0010_0073)), riscv);
        assert_eq!(decode::is_breakpoint(isa, &thumb(0xbeab)), thumb_isa);
        assert_eq!(decode::is_breakpoint(isa, &thumb(0xbabc)), thumb_isa); // hlt 0x3c
        // bkpt 0, hlt 0x3d, svc 0xab
        assert!([0xbe00, 0xbabd, 0xdfab].iter().all(|&insn| !decode::is_breakpoint(isa, &thumb(insn))));
        assert!(!decode::is_breakpoint(isa, &[0x02, 0x90])); // c.ebreak
        assert!(!decode::is_semihosting_prefix(isa, &word(0x4070_5013)));
        assert!(!decode::is_semihosting_suffix(isa, &word(0x01f0_1013)));
        assert!(!decode::is_breakpoint(isa, &[]));
    }
}

#[test]
fn wfi_is_known_in_every_encoding() {
    for isa in THUMB {
        assert!(decode::is_wfi(isa, &thumb(0xbf30)));
        assert!(decode::is_wfi(isa, &thumb(0xf3af_8003)));
        assert!(!decode::is_wfi(isa, &thumb(0xf3af_8002)));
        assert!(!decode::is_wfi(isa, &thumb(0xbf20)));
        assert!(!decode::is_wfi(isa, &[0xaf, 0xf3]));
        assert!(!decode::is_wfi(isa, &[]));
    }
    for (is_it, number) in [(decode::is_wfe as fn(Isa, &[u8]) -> bool, 2), (decode::is_sev, 4)] {
        for isa in THUMB {
            for other in 0..16 {
                let [narrow, wide] = [thumb(0xbf00 | other << 4), thumb(0xf3af_8000 | other)];
                assert_eq!([is_it(isa, &narrow), is_it(isa, &wide)], [other == number; 2], "{number} {other}");
            }
            assert!(!is_it(isa, &[0xaf, 0xf3]));
            assert!(!is_it(isa, &[]));
        }
        assert!(RISCV.iter().all(|&isa| !is_it(isa, &thumb(0xbf00 | number << 4))));
    }
    for isa in RISCV {
        assert!(decode::is_wfi(isa, &0x1050_0073_u32.to_le_bytes()));
        assert!(!decode::is_wfi(isa, &thumb(0xbf30)));
    }
}

#[test]
fn only_avr_pushes_return_addresses() {
    let sizes = Isa::ALL.map(Isa::call_bytes);
    assert_eq!(sizes, [0, 0, 0, 0, 0, 0, 0, 2, 3]);
}

#[test]
fn names_read_back() {
    for isa in Isa::ALL {
        assert_eq!(isa.to_string().parse(), Ok(isa));
    }
    let error = "thumb".parse::<Isa>().unwrap_err().to_string();
    assert!(error.contains("\"thumb\"") && error.contains("thumb-v7m"), "{error}");
}

#[test]
fn what_makes_a_stack_deeper_moves_sp() {
    let thumb = |halves: &[u16]| {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        decode::moves_sp(Isa::ThumbV7m, &bytes)
    };
    // push {r4, lr}; push {r4}; sub sp, #8; mov sp, r7; add sp, r7; stmdb sp!, {r4, lr}; str lr, [sp, #-4]!;
    // strd r4, r5, [sp, #-8]!; sub.w sp, sp, #256; subw sp, sp, #1000; vpush {d8}
    let moving: [&[u16]; 11] = [
        &[0xb510],
        &[0xb410],
        &[0xb082],
        &[0x46bd],
        &[0x44bd],
        &[0xe92d, 0x4010],
        &[0xf84d, 0xed04],
        &[0xe96d, 0x4502],
        &[0xf5ad, 0x7d80],
        &[0xf2ad, 0x3de8],
        &[0xed2d, 0x8b02],
    ];
    // pop {r4, pc}; add sp, #8; add r7, sp, #8; mov r7, sp; nop; ldr lr, [sp], #4; sub.w r0, sp, #256; str r0, [sp, #4]
    let still: [&[u16]; 8] =
        [&[0xbd10], &[0xb002], &[0xaf02], &[0x466f], &[0xbf00], &[0xf85d, 0xeb04], &[0xf5ad, 0x7080], &[0x9001]];
    for halves in moving {
        assert!(thumb(halves), "{halves:x?}");
    }
    for halves in still {
        assert!(!thumb(halves), "{halves:x?}");
    }
}

#[test]
fn an_array_of_a_length_that_code_is_told_is_taken_off_the_stack_pointer() {
    // sub.w sp, sp, r3; sub.w r3, sp, r3; sub sp, #8; mov sp, r3.
    let thumb = [[0xad, 0xeb, 0x03, 0x0d], [0xad, 0xeb, 0x03, 0x03], [0x82, 0xb0, 0, 0], [0x9d, 0x46, 0, 0]];
    assert_eq!(thumb.map(|bytes| decode::subtracts_from_sp(Isa::ThumbV7m, &bytes)), [true, false, false, false]);
    // sub sp, sp, a5; sub a5, sp, a5; addi sp, sp, -16; add sp, sp, a5.
    let riscv = [0x40f1_0133_u32, 0x40f1_07b3, 0xff01_0113, 0x00f1_0133];
    let found = riscv.map(|insn| decode::subtracts_from_sp(Isa::Riscv32, &insn.to_le_bytes()));
    assert_eq!(found, [true, false, false, false]);
    assert!(!decode::subtracts_from_sp(Isa::AvrPc16, &thumb[0]));
}

#[test]
fn thumb_takes_off_the_stack_pointer_what_its_registers_or_its_immediate_need() {
    let taken = |first: u32, second: u32| decode::taken_from_sp(Isa::ThumbV7m, &thumb(first << 16 | second));
    let narrow = |insn: u32| decode::taken_from_sp(Isa::ThumbV7m, &thumb(insn));
    let bytes = |list: u32, each: u64| Some((0..16).filter(|bit| list >> bit & 1 == 1).count() as u64 * each);
    for list in 0..0x200 {
        assert_eq!(narrow(0xb400 | list), bytes(list, 4), "push {list:x}");
        assert_eq!(narrow(0xbc00 | list), None, "pop {list:x}");
    }
    for words in 0..0x80 {
        assert_eq!(narrow(0xb080 | words), Some(4 * u64::from(words)), "sub sp, #{words}");
        assert_eq!(narrow(0xb000 | words), None, "add sp, #{words}");
    }
    for low in 0..0x100 {
        assert_eq!(taken(0xe92d, 0x4000 | low), bytes(0x4000 | low, 4), "push.w {low:x}");
        assert_eq!(taken(0xf84d, 0xed00 | low), Some(low.into()), "str lr, [sp, #-{low}]!");
        assert_eq!(taken(0xe96d, 0x4500 | low), Some(4 * u64::from(low)), "strd r4, r5, [sp, #-{low}]!");
        assert_eq!(taken(0xf1ad, 0x0d00 | low), Some(low.into()), "sub.w sp, sp, #{low}");
        // A5.3.2: the byte once or twice in each halfword.
        let low = u64::from(low);
        for (pattern, value) in [(1, low << 16 | low), (2, low << 24 | low << 8), (3, low * 0x0101_0101)] {
            assert_eq!(taken(0xf1ad, pattern << 12 | 0xd00 | low as u32), Some(value), "{pattern} {low:x}");
        }
    }
    for (first, second, expected) in [
        (0xf5ad, 0x7d00, Some(512)),         // sub.w sp, sp, #512
        (0xf5ad, 0x5d80, Some(4096)),        // sub.w sp, sp, #4096
        (0xf5ad, 0x4d81, Some(0x4080)),      // sub.w sp, sp, #0x4080
        (0xf1ad, 0x4d7f, Some(0xff00_0000)), // sub.w sp, sp, #0xff000000
        (0xf2ad, 0x3de8, Some(1000)),        // subw sp, sp, #1000
        (0xf6ad, 0x7dff, Some(4095)),        // subw sp, sp, #4095
        (0xed2d, 0x8b02, Some(8)),           // vpush {d8}
        (0xed2d, 0x8b10, Some(64)),          // vpush {d8-d15}
        (0xed6d, 0x8a03, Some(12)),          // vpush {s17-s19}
        (0xebad, 0x0d03, None),              // sub.w sp, sp, r3
        (0xe8bd, 0x4010, None),              // pop.w {r4, lr}
        (0xe8fd, 0x4502, None),              // ldrd r4, r5, [sp], #8
        (0xf85d, 0xeb04, None),              // ldr lr, [sp], #4
        (0xf85d, 0xef04, None),              // ldr lr, [sp, #4]!
        (0xf85d, 0xec04, Some(0)),           // ldr lr, [sp, #-4]
        (0xf85d, 0x0023, Some(0)),           // ldr r0, [sp, r3, lsl #2]
        (0xf50d, 0x7d80, None),              // add.w sp, sp, #256
        (0xf20d, 0x3de8, None),              // addw sp, sp, #1000
        (0xf20d, 0x30e8, Some(0)),           // addw r0, sp, #1000
        (0xeb0d, 0x0d03, None),              // add.w sp, sp, r3
        (0xecbd, 0x8b02, None),              // vpop {d8}
        (0xf380, 0x8808, None),              // msr MSP, r0
        (0xf8d0, 0xd000, None),              // ldr.w sp, [r0]
        (0xf84d, 0x0c04, Some(0)),           // str r0, [sp, #-4]
        (0xf84d, 0x0904, None),              // str r0, [sp], #-4
        (0xf84d, 0x0b04, None),              // str r0, [sp], #4
        (0xf82d, 0x0f04, None),              // strh r0, [sp, #4]!
        (0xf91d, 0x0b01, None),              // ldrsb r0, [sp], #1
        (0xe86d, 0x4502, None),              // strd r4, r5, [sp], #-8
        (0xe8ed, 0x4502, None),              // strd r4, r5, [sp], #8
        (0xe9cd, 0x4502, Some(0)),           // strd r4, r5, [sp, #8]
        (0xe8ad, 0x4010, None),              // stmia sp!, {r4, lr}
        (0xe88d, 0x4010, Some(0)),           // stmia sp, {r4, lr}
        (0xecad, 0x8b02, None),              // vstmia sp!, {d8}
        (0xea4f, 0x0d03, None),              // mov.w sp, r3
        (0xeb0d, 0x0f03, Some(0)),           // cmn.w sp, r3
        (0xf10d, 0x0f08, Some(0)),           // cmn.w sp, #8
        (0xf5ad, 0x7080, Some(0)),           // sub.w r0, sp, #256
        (0xf000, 0xf800, Some(0)),           // bl
    ] {
        assert_eq!(taken(first, second), expected, "{first:x} {second:x}");
    }
    assert_eq!(decode::taken_from_sp(Isa::ThumbV7m, &[0x4f, 0xea]), None, "half of mov.w sp, r3");
    // mov sp, r7; mov sp, r0; add sp, r4.
    assert_eq!([0x46bd, 0x4685, 0x44a5].map(narrow), [None; 3]);
    // mov r1, sp; nop; str r0, [sp, #4]; add r0, sp, #4; mov r7, sp.
    assert_eq!([0x4669, 0xbf00, 0x9001, 0xa801, 0x466f].map(narrow), [Some(0); 5]);
}

#[test]
fn risc_v_takes_off_the_stack_pointer_what_its_immediate_says() {
    for isa in RISCV {
        let taken = |insn: u32| decode::taken_from_sp(isa, &riscv(insn));
        let lowered = |bytes: i32| (bytes <= 0).then_some(u64::from(bytes.unsigned_abs()));
        for bytes in -2048..2048 {
            assert_eq!(taken((bytes as u32) << 20 | 0x0001_0113), lowered(bytes), "addi sp, sp, {bytes}");
        }
        for bytes in -32..32 {
            let imm = bytes as u32;
            let insn = 0x0101 | (imm >> 5 & 1) << 12 | (imm & 0x1f) << 2;
            assert_eq!(taken(insn), lowered(bytes), "c.addi sp, {bytes}");
        }
        // nzimm[9] in bit 12, nzimm[4|6|8:7|5] in bits 6:2; zero is reserved.
        for bytes in (-512..512).step_by(16).filter(|&bytes| bytes != 0) {
            let bit = |from: u32, to: u32| (bytes as u32 >> from & 1) << to;
            let insn = 0x6101 | bit(9, 12) | bit(4, 6) | bit(6, 5) | bit(8, 4) | bit(7, 3) | bit(5, 2);
            assert_eq!(taken(insn), lowered(bytes), "c.addi16sp {bytes}");
        }
        // sub sp, sp, a5; add sp, sp, t0; c.add sp, a0; addi sp, s0, -16; mv sp, a0 in both lengths; lw sp, 0(a0); lui sp, 1;
        // andi sp, sp, -16, which aligns it; and sp, sp, a0.
        let otherwise = [
            0x40f1_0133,
            0x0051_0133,
            0x912a,
            0xff04_0113,
            0x0005_0113,
            0x812a,
            0x0005_2103,
            0x0000_1137,
            0xff01_7113,
            0x00a1_7133,
        ];
        for insn in otherwise {
            assert_eq!(taken(insn), None, "{isa} {insn:x}");
        }
        // nop in both lengths; addi a0, sp, 8; c.addi4spn a0, 8; c.swsp a0, 0(sp); andi a0, sp, -16; c.fsdsp; beq sp, a0.
        for insn in [0x0000_0013, 0x0001, 0x0081_0513, 0x0028, 0xc02a, 0xff01_7513, 0xb8f2, 0x00a1_0263] {
            assert_eq!(taken(insn), Some(0), "{isa} {insn:x}");
        }
    }
    // cm.push {ra, s0-s11}, -64; cm.pop; cm.popret; cm.mva01s; cm.jt.
    let zcmp = [0xb8f2, 0xbaf2, 0xbef2, 0xac7e, 0xa00e];
    let of = |isa| zcmp.map(|insn| decode::taken_from_sp(isa, &riscv(insn)));
    assert_eq!(of(Isa::Riscv32Zc), [Some(64), None, None, Some(0), Some(0)]);
    assert_eq!(of(Isa::Riscv64Zc), [Some(112), None, None, Some(0), Some(0)]);
    // AVR's pushes and outputs are not named.
    assert_eq!(decode::taken_from_sp(Isa::AvrPc16, &[0xdf, 0xbf]), None);
}

#[test]
fn what_goes_over_to_another_stack_sets_sp() {
    let thumb = |halves: &[u16]| {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        decode::sets_sp(Isa::ThumbV7m, &bytes)
    };
    // mov sp, r1; msr MSP, r0; msr PSP, r3; msr PSP_NS, r0; ldr.w sp, [r0]
    let setting: [&[u16]; 5] =
        [&[0x468d], &[0xf380, 0x8808], &[0xf383, 0x8809], &[0xf380, 0x8889], &[0xf8d0, 0xd000]];
    // mov sp, r7; add sp, #8; add sp, r4; push {r4, lr}; pop {r4, pc}; mov r1, sp; msr PRIMASK, r0; ldr.w lr, [r0]
    let keeping: [&[u16]; 8] =
        [&[0x46bd], &[0xb002], &[0x44a5], &[0xb510], &[0xbd10], &[0x4669], &[0xf380, 0x8810], &[0xf8d0, 0xe000]];
    // mv sp, a1; c.mv sp, a1; ld sp, 8(a0); c.ldsp sp, 8(sp); auipc sp, 1; lui sp, 1; csrrw sp, mscratch, sp; add sp,
    // a0, a1
    let setting_riscv: [u32; 8] =
        [0x0005_8113, 0x812e, 0x0085_3103, 0x6122, 0x0000_1117, 0x0000_1137, 0x3401_1173, 0x00b5_0133];
    // addi sp, sp, -16; c.addi16sp sp, -32; addi sp, s0, -16; c.mv sp, s0; add sp, sp, t0; mv s0, sp; ld ra, 8(sp);
    // sd sp, 8(a0); beq sp, a0, +4
    let keeping_riscv: [u32; 9] =
        [0xff01_0113, 0x1101, 0xff04_0113, 0x8122, 0x0051_0133, 0x0001_0413, 0x0081_3083, 0x0025_3423, 0x00a1_0263];
    for (expected, list) in [(true, &setting[..]), (false, &keeping[..])] {
        for halves in list {
            assert_eq!(thumb(halves), expected, "{halves:x?}");
        }
    }
    for (expected, list) in [(true, &setting_riscv[..]), (false, &keeping_riscv[..])] {
        for insn in list {
            assert_eq!(decode::sets_sp(Isa::Riscv64, &insn.to_le_bytes()), expected, "{insn:x}");
        }
    }
}

#[test]
fn only_bx_exchanges_and_only_calls_by_t0_link_to_t0() {
    // bx r3; bx lr; blx r3; mov pc, r3
    for (half, expected) in [(0x4718_u16, true), (0x4770, true), (0x4798, false), (0x469f, false)] {
        assert_eq!(decode::is_exchange(Isa::ThumbV6m, &half.to_le_bytes()), expected, "{half:#x}");
        assert!(!decode::is_exchange(Isa::Riscv64, &half.to_le_bytes()));
    }
    // jal t0, .; jalr t0, 0(t1); jal ra, .; jalr ra, 0(t0); jal x0, .; jr t0; c.jr t0; c.jalr t0
    let words = [0x0000_02ef_u32, 0x0003_02e7, 0x0000_00ef, 0x0002_80e7, 0x0000_006f, 0x0002_8067, 0x8282, 0x9282];
    for (insn, expected) in words.into_iter().zip([true, true, false, false, false, false, false, false]) {
        assert_eq!(decode::links_to_t0(Isa::Riscv64, &insn.to_le_bytes()), expected, "{insn:x}");
        assert!(!decode::links_to_t0(Isa::ThumbV7m, &insn.to_le_bytes()));
    }
}

#[test]
fn only_an_exchange_can_be_an_exceptions_return_by_a_jump_through_a_register() {
    // bx r3; bx lr; blx r3; mov pc, r3; add pc, r3
    for (half, expected) in [(0x4718_u16, true), (0x4770, true), (0x4798, false), (0x469f, false), (0x449f, false)] {
        assert_eq!(decode::is_exchange(Isa::ThumbV7m, &half.to_le_bytes()), expected, "{half:#x}");
        assert!(!decode::is_exchange(Isa::Riscv64, &half.to_le_bytes()));
    }
}

#[test]
fn what_writes_a_trap_vector_moves_it() {
    for isa in RISCV {
        // csrw mtvec, t0; csrrwi t0, stvec, 4; csrs mtvec, a0; csrw stvec, a5
        for insn in [0x3052_9073, 0x1052_52f3, 0x3055_2073, 0x1057_9073] {
            assert!(decode::moves_trap_vector(isa, &riscv(insn)), "{insn:#x}");
        }
        // csrr t0, mtvec; csrw mepc, t0; ecall; nop
        for insn in [0x3050_22f3, 0x3412_9073, 0x73, 0x13] {
            assert!(!decode::moves_trap_vector(isa, &riscv(insn)), "{insn:#x}");
        }
    }
    assert!(THUMB.iter().all(|&isa| !decode::moves_trap_vector(isa, &thumb(0xf380_8810))));
}

#[test]
fn what_may_mask_interrupts_changes_the_mask() {
    // cpsid i; cpsie i; cpsid f; cpsie if; msr PRIMASK, r0; msr BASEPRI, r3; msr BASEPRI_MAX, r0;
    // msr FAULTMASK, r1; msr PRIMASK_NS, r0
    let masking = [0xb672, 0xb662, 0xb671, 0xb663, 0xf380_8810, 0xf383_8811, 0xf380_8812, 0xf381_8813, 0xf380_8890];
    // nop; setend; push {r4, lr}; msr PSP, r0; msr CONTROL, r0; msr APSR_nzcvq, r0; mrs r0, PRIMASK; isb; bl
    let other =
        [0xbf00, 0xb650, 0xb510, 0xf380_8809, 0xf380_8814, 0xf380_8800, 0xf3ef_8010, 0xf3bf_8f6f, 0xf380_f810];
    for isa in THUMB {
        assert!(masking.iter().all(|&insn| decode::changes_mask(isa, &thumb(insn))));
        for insn in other {
            assert!(!decode::changes_mask(isa, &thumb(insn)), "{insn:#x}");
        }
        assert!(!decode::changes_mask(isa, &[0x80, 0xf3]), "cut short");
    }
    // csrci mstatus, 8; csrsi mstatus, 8; csrw mstatus, t0; csrrc t1, mstatus, t0; csrwi mstatus, 0; mret; sret
    let masking = [0x3004_7073, 0x3004_6073, 0x3002_9073, 0x3002_b373, 0x3000_5073, 0x3020_0073, 0x1020_0073];
    // csrr t0, mstatus; csrrci t0, mstatus, 0; csrw mie, t0; csrw mepc, t0; ecall; wfi; c.nop; nop
    let other = [0x3000_22f3, 0x3000_72f3, 0x3042_9073, 0x3412_9073, 0x73, 0x1050_0073, 0x0001, 0x13];
    for isa in RISCV {
        for insn in masking {
            assert!(decode::changes_mask(isa, &riscv(insn)), "{insn:#x}");
        }
        for insn in other {
            assert!(!decode::changes_mask(isa, &riscv(insn)), "{insn:#x}");
        }
    }
}

#[test]
fn auipc_and_the_jump_behind_it_name_one_target() {
    let upper = |isa| decode::auipc(isa, PC, &riscv(0x0000_2317)).unwrap(); // auipc t1, 2
    for isa in RISCV {
        assert_eq!(upper(isa), (6, PC + 0x2000));
        let call = r(isa, 0x0043_00e7).flow; // jalr ra, 4(t1)
        assert_eq!(call.after_upper(isa, upper(isa)), Flow::Call { target: PC + 0x2004 });
        let jump = r(isa, 0xffd3_0067).flow; // jr -3(t1)
        assert_eq!(jump.after_upper(isa, upper(isa)), Flow::Jump { target: PC + 0x1ffc });
        // Through another register, or no jump at all.
        for insn in [0x0043_80e7, 0xffd3_8067, 0x0000_0013] {
            assert_eq!(r(isa, insn).flow.after_upper(isa, upper(isa)), r(isa, insn).flow);
        }
    }
    // RV32 has no addresses beyond 32 bits.
    let wrapped = r(Isa::Riscv32, 0x0043_00e7).flow.after_upper(Isa::Riscv32, (6, 0xffff_fffe));
    assert_eq!(wrapped, Flow::Call { target: 2 });
}

#[test]
fn first_half_of_the_semihosting_suffix_may_be_it() {
    let suffix = 0x4070_5013_u32.to_le_bytes();
    for isa in RISCV {
        assert!(decode::is_semihosting_suffix(isa, &suffix));
        assert!(decode::may_be_semihosting_suffix(isa, [suffix[0], suffix[1]]));
        assert!(!decode::may_be_semihosting_suffix(isa, [suffix[2], suffix[3]]));
    }
    assert!(THUMB.iter().all(|&isa| !decode::may_be_semihosting_suffix(isa, [suffix[0], suffix[1]])));
}

#[test]
fn nops_are_what_assemblers_put_between_code_and_data() {
    let nops: [(&[Isa], &[u32]); 2] = [(&THUMB, &[0xbf00, 0xf3af_8000, 0x46c0]), (&RISCV, &[0x0001, 0x0000_0013])];
    let bytes = |isa: Isa, insn| if isa.is_thumb() { thumb(insn) } else { riscv(insn) };
    for (isas, insns) in nops {
        for &isa in isas {
            assert!(insns.iter().all(|&insn| decode::is_nop(isa, &bytes(isa, insn))), "{isa:?}");
            // What follows does not matter; half of one, and other code, are none.
            assert!(decode::is_nop(isa, &[bytes(isa, insns[0]), vec![0xff]].concat()));
            assert!(!decode::is_nop(isa, &bytes(isa, insns[0])[..1]) && !decode::is_nop(isa, &[0xff, 0xff]));
        }
    }
    for isa in [Isa::AvrPc16, Isa::AvrPc22] {
        assert!(decode::is_nop(isa, &[0, 0]) && !decode::is_nop(isa, &[0, 1]));
    }
    assert!(THUMB.iter().chain(&RISCV).all(|&isa| !decode::is_nop(isa, &[0, 0])));
}

#[test]
fn table_of_a_switch_ends_where_its_first_target_begins() {
    let tables =
        [(0xe8df_f001, Some(1)), (0xe8df_f012, Some(2)), (0xe8d1_f001, None), (0xe8d1_f011, None), (0xbf00, None)];
    for isa in THUMB {
        for (insn, bytes) in tables {
            assert_eq!(decode::table_entry_bytes(isa, &thumb(insn)), bytes, "{insn:x}");
        }
        assert_eq!(decode::table_entry_bytes(isa, &[0xdf]), None);
        // Four entries of a byte, the last one of which is padding; the code behind it is not the table's.
        let code = [2, 5, 2, 0, 9, 9];
        assert_eq!(decode::table_targets(isa, PC, 1, &code, 8), [4, 10, 4].map(|offset| PC + offset));
        assert_eq!(decode::table_targets(isa, PC, 1, &code, 2), [4, 10].map(|offset| PC + offset));
        // Entries of two bytes, which need not be whole.
        let code = [3, 0, 0, 1, 4, 0, 7];
        assert_eq!(decode::table_targets(isa, PC, 2, &code, 8), [6, 0x200, 8].map(|offset| PC + offset));
    }
    assert!(RISCV.iter().all(|&isa| decode::table_entry_bytes(isa, &thumb(0xe8df_f001)).is_none()));
}

#[test]
fn flash_of_an_avr_is_read_by_its_own_instructions() {
    let reads = |isa, insn: u16| decode::reads_avr_flash(isa, &insn.to_le_bytes());
    for isa in [Isa::AvrPc16, Isa::AvrPc22] {
        // lpm, elpm, and both with a register, with and without Z+.
        assert!([0x95c8, 0x95d8, 0x9004, 0x9005, 0x91f6, 0x91f7].into_iter().all(|insn| reads(isa, insn)));
        // ld from Z+, X and the stack; spm.
        assert!([0x9001, 0x900c, 0x900f, 0x95e8].into_iter().all(|insn| !reads(isa, insn)));
        assert!(!decode::reads_avr_flash(isa, &[0xc8]));
    }
    assert!(THUMB.iter().chain(&RISCV).all(|&isa| !reads(isa, 0x95c8)));
    let none = |isa| {
        let bytes = 0x95d8_u16.to_le_bytes();
        !decode::is_elpm(isa, &bytes)
            && !decode::accesses_avr_data(isa, &bytes)
            && !decode::avr_may_unmask(isa, &[0x78, 0x94])
    };
    assert!(THUMB.into_iter().chain(RISCV).all(none));
}

#[test]
fn bits_of_an_avrs_io_registers_are_set_and_cleared_by_their_number() {
    for isa in [Isa::AvrPc16, Isa::AvrPc22] {
        for bit in 0..8_u8 {
            // sbi 0x05, bit; cbi 0x05, bit; sbic, sbis, which only read; in r0, 0x35.
            let low = 0x28 | bit;
            let bits = [0x9a, 0x98, 0x99, 0x9b, 0xb6].map(|high| decode::avr_io_bit(isa, &[low, high]));
            assert_eq!(bits, [Some(1 << bit), Some(1 << bit), None, None, None]);
        }
        assert_eq!(decode::avr_io_bit(isa, &[0x28]), None, "cut short");
        // wdr; sleep.
        assert!(decode::is_wdr(isa, &[0xa8, 0x95]) && !decode::is_wdr(isa, &[0x88, 0x95]));
    }
    for isa in THUMB.into_iter().chain(RISCV) {
        assert!(decode::avr_io_bit(isa, &[0x28, 0x9a]).is_none() && !decode::is_wdr(isa, &[0xa8, 0x95]));
    }
}

#[test]
fn instruction_that_is_cut_off_is_nothing_of_what_it_might_be() {
    for (isa, whole) in [
        (Isa::ThumbV7m, thumb(0xb580)),      // push {r7, lr}
        (Isa::ThumbV7m, thumb(0xe92d_4000)), // push.w {lr}
        (Isa::ThumbV7m, thumb(0x4685)),      // mov sp, r0
        (Isa::ThumbV7m, thumb(0xf380_8808)), // msr msp, r0
        (Isa::ThumbV7m, thumb(0xb672)),      // cpsid i
        (Isa::ThumbV7m, thumb(0xf380_8810)), // msr primask, r0
        (Isa::Riscv32, riscv(0xff01_0113)),  // addi sp, sp, -16
        (Isa::Riscv32, riscv(0x1141)),       // addi sp, sp, -16
        (Isa::Riscv32, riscv(0x0005_0113)),  // mv sp, a0
        (Isa::Riscv32, riscv(0x812a)),       // mv sp, a0
    ] {
        let facts = |bytes: &[u8]| {
            [decode::moves_sp(isa, bytes), decode::sets_sp(isa, bytes), decode::changes_mask(isa, bytes)]
        };
        assert!(facts(&whole).contains(&true), "{whole:x?}");
        for length in 0..whole.len() {
            assert_eq!(facts(&whole[..length]), [false; 3], "{whole:x?} {length}");
        }
    }
    assert!(!decode::sets_sp(Isa::AvrPc16, &[0xdf, 0xbf]));
    assert!(THUMB.iter().all(|&isa| !decode::is_trap_return(isa, &thumb(0x4770))));
}

#[test]
fn stack_pointer_of_risc_v_is_set_only_by_what_does_not_depend_on_it() {
    for isa in RISCV {
        let sets = |insn| decode::sets_sp(isa, &riscv(insn));
        // mv sp, a0; mv sp, s0 (the frame pointer); jr sp, whose source is none; add sp, sp, a0 in both lengths.
        assert_eq!([0x812a, 0x8122, 0x8102, 0x912a].map(sets), [true, false, false, false]);
        assert_eq!([0x00a1_0133, 0x0025_0133, 0x00b5_0133].map(sets), [false, false, true]);
        // lw sp, 0(a0); lui sp, 1; jal sp.
        assert_eq!([0x0005_2103, 0x0000_1137, 0x0000_016f].map(sets), [true, true, false]);
        // c.addi4spn does not even write it.
        assert!(!sets(0x0808));
    }
}

#[test]
fn zcmps_instructions_return_call_and_jump_where_the_processor_has_them() {
    let call = Flow::IndirectCall { reg: 1, offset: 0, clobbered: true };
    for (insn, flow, may_leave, moves_sp) in [
        (0xb8f2_u16, Flow::Next, true, true),      // cm.push {ra, s0-s11}, -64
        (0xbaf2, Flow::Next, true, false),         // cm.pop
        (0xbef2, Flow::Return, true, false),       // cm.popret
        (0xbcf2, Flow::Return, true, false),       // cm.popretz
        (0xac7e, Flow::Next, false, false),        // cm.mva01s s0, s7
        (0xa00e, Flow::ComputedJump, true, false), // cm.jt 3
        (0xa082, call, true, false),               // cm.jalt 32
    ] {
        let bytes = insn.to_le_bytes();
        for isa in [Isa::Riscv32Zc, Isa::Riscv64Zc] {
            let expected = Insn { len_bytes: 2, may_leave, flow };
            assert_eq!((decode(isa, PC, &bytes), decode::moves_sp(isa, &bytes)), (expected, moves_sp), "{insn:x}");
            assert!(decode::is_known(isa, &bytes) && isa.with_zcmp() == isa);
        }
        // Elsewhere it is c.fsdsp.
        for isa in RISCV {
            let expected = Insn { len_bytes: 2, may_leave: true, flow: Flow::Next };
            assert_eq!((decode(isa, PC, &bytes), decode::zcmp(isa, &bytes)), (expected, None), "{insn:x}");
            assert!(isa.with_zcmp().has_zcmp() && isa.is_riscv64() == isa.with_zcmp().is_riscv64());
        }
    }
    assert!(!decode::is_known(Isa::Riscv32Zc, &0xb832_u16.to_le_bytes()), "a list without ra");
}

fn zcmp_text(isa: Isa, insn: u32) -> Option<String> {
    decode::zcmp(isa, &riscv(insn)).map(|known| {
        let (name, operands) = known.text();
        format!("{name} {operands}")
    })
}

#[test]
fn every_form_of_zcmp_has_its_registers_and_bytes() {
    for (insn, short, long) in [
        (0xb842, "cm.push {ra}, -16", "cm.push {ra}, -16"),
        (0xb852, "cm.push {ra, s0}, -16", "cm.push {ra, s0}, -16"),
        (0xb866, "cm.push {ra, s0-s1}, -32", "cm.push {ra, s0-s1}, -48"),
        (0xb872, "cm.push {ra, s0-s2}, -16", "cm.push {ra, s0-s2}, -32"),
        (0xb882, "cm.push {ra, s0-s3}, -32", "cm.push {ra, s0-s3}, -48"),
        (0xb8ce, "cm.push {ra, s0-s7}, -96", "cm.push {ra, s0-s7}, -128"),
        (0xb8e2, "cm.push {ra, s0-s9}, -48", "cm.push {ra, s0-s9}, -96"),
        (0xb8f2, "cm.push {ra, s0-s11}, -64", "cm.push {ra, s0-s11}, -112"),
        (0xbaf2, "cm.pop {ra, s0-s11}, 64", "cm.pop {ra, s0-s11}, 112"),
        (0xbc42, "cm.popretz {ra}, 16", "cm.popretz {ra}, 16"),
        (0xbe62, "cm.popret {ra, s0-s1}, 16", "cm.popret {ra, s0-s1}, 32"),
        (0xaca2, "cm.mvsa01 s1, s0", "cm.mvsa01 s1, s0"),
        (0xac7e, "cm.mva01s s0, s7", "cm.mva01s s0, s7"),
        (0xa002, "cm.jt 0", "cm.jt 0"),
        (0xa07e, "cm.jt 31", "cm.jt 31"),
        (0xa082, "cm.jalt 32", "cm.jalt 32"),
        (0xa3fe, "cm.jalt 255", "cm.jalt 255"),
    ] {
        assert_eq!(zcmp_text(Isa::Riscv32Zc, insn).as_deref(), Some(short), "{insn:#x}");
        assert_eq!(zcmp_text(Isa::Riscv64Zc, insn).as_deref(), Some(long), "{insn:#x}");
    }
    // Reserved: less than ra, one register from both, other kinds. c.swsp.
    for insn in [0xb832, 0xac22, 0xb942, 0xb042, 0xc042] {
        assert_eq!(zcmp_text(Isa::Riscv32Zc, insn), None, "{insn:#x}");
    }
}

#[test]
fn registers_that_zcmp_stores_are_in_the_order_of_their_addresses() {
    let numbers = |saved| decode::Registers { saved }.numbers().collect::<Vec<u8>>();
    assert_eq!(numbers(0), [1]);
    assert_eq!(numbers(3), [1, 8, 9, 18]);
    assert_eq!(numbers(12), [1, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27]);
}

#[test]
fn encodings_of_vendors_and_reserved_ones_are_not_known() {
    let known = |isa: Isa, word: u32| decode::is_known(isa, &word.to_le_bytes());
    for isa in RISCV {
        // custom-0 to custom-3, a branch and a jalr with a reserved function, Zcb's reserved fields.
        for word in [0x0b, 0x2b, 0x5b, 0x7b, 0x0000_2063, 0x0000_10e7, 0x9000, 0x9c79 | 0x1c] {
            assert!(!known(isa, word), "{isa} {word:x}");
        }
        // addi, an atomic, a vector, a trap of 48 bits, the illegal instruction, c.zext.b.
        for word in [0x13, 0x1000_202f, 0x57, 0xffff_ffff, 0, 0x9c61] {
            assert!(known(isa, word), "{isa} {word:x}");
        }
        // c.addw is RV64's; c.mul and c.sub; c.addi4spn without an immediate is reserved.
        assert_eq!(known(isa, 0x9d2d), isa.is_riscv64());
        assert!(known(isa, 0x9d4d) && known(isa, 0x8d0d) && known(isa, 0x0028) && !known(isa, 0x0008));
        // Half of an instruction is none.
        assert!(!decode::is_known(isa, &[0x13]) && !decode::is_known(isa, &[0x13, 0, 0]));
    }
    // bf of Armv8.1-M, bxaut; bl, and pop.
    let word = |first: u32, second: u32| first | second << 16;
    for (first, second, expected) in
        [(0xf040, 0xe001, false), (0xfb5e, 0xcf1d, false), (0xf000, 0xf800, true), (0xbd10, 0, true)]
    {
        assert_eq!(known(Isa::ThumbV8m, word(first, second)), expected, "{first:x}");
        assert!(known(Isa::ThumbV7m, word(first, second)));
    }
    assert!(known(Isa::AvrPc16, 0xffff));
}
