// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the decoder with binutils: objdump's mnemonic decides the flow and the purity that the decoder must
//! report. First, assembled sources: the decoder must report an instruction as pure exactly if it only uses
//! registers. Second, all 16-bit encodings and many 32-bit ones: the decoder may report purity only for mnemonics on
//! the list, and must find every transfer.
//!
//! Needs arm-none-eabi, riscv64-unknown-elf and avr binutils (ci/setup --tests installs them).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use decode::{AvrCondition as Condition, AvrStore, Flow, Isa, decode};

/// Line of `objdump -d`.
struct Line {
    pc: u64,
    bytes: Vec<u8>,
    mnemonic: String,
    /// Operands without objdump's comment.
    operands: String,
    /// Whether objdump itself says that the encoding has no meaning.
    undefined: bool,
}

impl Line {
    /// Parses `    8000:\tf85d fb04 \tldr.w\tpc, [sp], #4`.
    fn parse(isa: Isa, text: &str) -> Option<Self> {
        let mut fields = text.splitn(4, '\t');
        let pc = fields.next()?.trim().strip_suffix(':')?;
        let pc = u64::from_str_radix(pc, 16).ok()?;
        let bytes: Vec<u8> = fields.next()?.split_whitespace().flat_map(|group| little_endian(isa, group)).collect();
        let mnemonic = fields.next()?.trim().to_owned();
        let rest = fields.next().unwrap_or_default();
        let undefined = ["UNDEFINED", "UNPREDICTABLE"].iter().any(|mark| text.contains(mark))
            || mnemonic.starts_with('.')
            || mnemonic == "c.unimp"
            || should_be_zero(isa, &bytes)
            || (isa.is_avr() && is_of_other_cores(&mnemonic));
        let comment: &[char] = if isa.is_riscv() { &['#'] } else { &['@', ';'] };
        let operands = rest.split(comment).next().unwrap_or_default();
        Some(Self { pc, bytes, mnemonic, operands: operands.trim().to_owned(), undefined })
    }

    /// Address in the last operand: `beq x1,x2,8000 <label>`; AVR's `breq .-12` counts from the next instruction.
    fn target(&self, isa: Isa) -> u64 {
        let text = self.operands.split('<').next().unwrap_or_default().trim();
        if let Some(offset) = text.strip_prefix('.') {
            let offset: i64 = offset.parse().unwrap_or_else(|_| panic!("no distance in {}", self.describe(isa)));
            return (self.pc + 2).wrapping_add_signed(offset) & 0xffff_ffff;
        }
        let address = text.rsplit([',', ' ']).next().unwrap_or_default();
        let address = address.trim_start_matches("0x");
        let value = u64::from_str_radix(address, 16)
            .unwrap_or_else(|_| panic!("no address in {} {}", self.mnemonic, self.operands));
        if isa == Isa::Riscv64 { value } else { value & 0xffff_ffff }
    }

    fn describe(&self, isa: Isa) -> String {
        format!("{isa} {:#x}: {:02x?} {} {}", self.pc, self.bytes, self.mnemonic, self.operands)
    }
}

/// Whether the encoding is `bx` or `blx` with bits set that should be zero: objdump decodes it, QEMU raises an
/// exception. Bit 2 belongs to v8-M.
fn should_be_zero(isa: Isa, bytes: &[u8]) -> bool {
    let mask = if isa == Isa::ThumbV8m { 3 } else { 7 };
    isa.is_thumb() && bytes.len() == 2 && bytes[1] == 0x47 && bytes[0] & mask != 0
}

/// Bytes of one group in memory order. objdump prints groups as numbers: halfwords for Thumb, whole instructions for
/// RISC-V.
fn little_endian(isa: Isa, group: &str) -> Vec<u8> {
    let value = u32::from_str_radix(group, 16).unwrap_or_else(|_| panic!("{isa}: {group:?} is not an encoding"));
    value.to_le_bytes()[..group.len() / 2].to_vec()
}

/// Runs a binutils program; its absence or failure fails the test.
fn run(program: &str, args: &[&str], paths: &[&Path]) -> String {
    let output = Command::new(program)
        .args(args)
        .args(paths)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error} (ci/setup --tests installs it)"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Assembles, links and disassembles one source.
fn disassemble(isa: Isa, name: &str, source: &str) -> Vec<Line> {
    let (prefix, march, text, emulation) = match isa {
        Isa::Riscv32 | Isa::Riscv32Zc => {
            ("riscv64-unknown-elf", "-march=rv32gc_zba_zbb_zbs", "-Ttext=0x80000000", "-melf32lriscv")
        }
        Isa::Riscv64 | Isa::Riscv64Zc => {
            ("riscv64-unknown-elf", "-march=rv64gc_zba_zbb_zbs", "-Ttext=0x80000000", "-melf64lriscv")
        }
        Isa::ThumbV6m => ("arm-none-eabi", "-march=armv6s-m", "-Ttext=0x8000", "-marmelf"),
        Isa::ThumbV7m => ("arm-none-eabi", "-march=armv7e-m+fp", "-Ttext=0x8000", "-marmelf"),
        Isa::ThumbV8m => ("arm-none-eabi", "-march=armv8.1-m.main+mve.fp+fp.dp", "-Ttext=0x8000", "-marmelf"),
        Isa::AvrPc16 | Isa::AvrPc22 => ("avr", "-mmcu=avr6", "-Ttext=0x8000", "-mavr6"),
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = |extension| folder.join(format!("{isa}-{name}.{extension}"));
    let (assembly, object, image) = (path("s"), path("o"), path("elf"));
    std::fs::write(&assembly, source).expect("the temporary folder is writable");
    let tool = |tool: &str| format!("{prefix}-{tool}");
    run(&tool("as"), &[march], &[&assembly, Path::new("-o"), &object]);
    run(&tool("ld"), &[emulation, text, "--entry=0", "--no-relax"], &[&object, Path::new("-o"), &image]);
    let options: &[&str] = if isa.is_riscv() { &["-d", "-M", "no-aliases,numeric"] } else { &["-d"] };
    let lines: Vec<Line> =
        run(&tool("objdump"), options, &[&image]).lines().filter_map(|line| Line::parse(isa, line)).collect();
    assert!(lines.len() > 5, "objdump gave no listing of {}", image.display());
    lines
}

/// Flow and purity that an instruction's text promises.
struct Promise {
    flow: Flow,
    /// Whether it uses registers only and cannot trap.
    pure: bool,
}

const CONDITIONS: [&str; 14] = ["eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"];

/// Thumb mnemonics of register-only operations, without the `s` that sets flags.
const THUMB_PURE: &str = "adc add addw adr and asr bfc bfi bic clz cmn cmp eor lsl lsr mla mls mov \
    movt movw mul mvn neg nop orn orr pkhbt pkhtb qadd qadd16 qadd8 qasx qdadd qdsub qsax qsub \
    qsub16 qsub8 rbit rev rev16 revsh ror rrx rsb sadd16 sadd8 sasx sbc sbfx sel shadd16 shadd8 \
    shasx shsax shsub16 shsub8 smlabb smlabt smlatb smlatt smlad smladx smlal smlalbb smlalbt \
    smlaltb smlaltt smlald smlaldx smlawb smlawt smlsd smlsdx smlsld smlsldx smmla smmlar smmls \
    smmlsr smmul smmulr smuad smuadx smulbb smulbt smultb smultt smull smulwb smulwt smusd smusdx \
    ssat ssat16 ssax ssub16 ssub8 sub subw sxtab sxtab16 sxtah sxtb sxtb16 sxth teq tst uadd16 \
    uadd8 uasx ubfx uhadd16 uhadd8 uhasx uhsax uhsub16 uhsub8 umaal umlal umull uqadd16 uqadd8 \
    uqasx uqsax uqsub16 uqsub8 usad8 usada8 usat usat16 usax usub16 usub8 uxtab uxtab16 uxtah uxtb \
    uxtb16 uxth crc32b crc32h crc32w crc32cb crc32ch crc32cw";

fn listed(list: &str, mnemonic: &str) -> bool {
    list.split_whitespace().any(|entry| entry == mnemonic)
}

fn thumb_register(name: &str) -> u8 {
    match name.trim() {
        "sl" => 10,
        "fp" => 11,
        "ip" => 12,
        "sp" => 13,
        "lr" => 14,
        "pc" => 15,
        other => other.trim_start_matches('r').parse().unwrap_or_else(|_| panic!("register {other}")),
    }
}

/// Promise of a Thumb instruction. `base` is the mnemonic without width, type, and the condition that an IT block
/// gave it.
fn thumb_promise(isa: Isa, line: &Line, base: &str) -> Promise {
    let operands = line.operands.as_str();
    let first = operands.split(',').next().unwrap_or_default().trim();
    let target = || line.target(isa);
    let exchange = |name: &str| match thumb_register(name) {
        14 => Flow::Return,
        15 => Flow::ComputedJump,
        reg => Flow::IndirectJump { reg, offset: 0 },
    };
    let pure_name = listed(THUMB_PURE, base) || base.strip_suffix('s').is_some_and(|base| listed(THUMB_PURE, base));
    let writes_first = pure_name && !matches!(base, "cmp" | "cmn" | "tst" | "teq");
    let loads_pc = operands.split('{').nth(1).is_some_and(|list| list.contains("pc"));
    let flow = match base {
        "b" => Flow::Jump { target: target() },
        "bl" => Flow::Call { target: target() },
        "bx" | "bxns" => exchange(first),
        "blx" | "blxns" if first == "pc" => Flow::ComputedJump,
        "blx" | "blxns" if !first.contains('<') => {
            Flow::IndirectCall { reg: thumb_register(first), offset: 0, clobbered: first == "lr" }
        }
        "cbz" | "cbnz" => Flow::Branch { target: target() },
        // objdump decodes these for every core; only v8.1-M has them.
        "wls" | "wlstp" | "le" | "letp" if isa != Isa::ThumbV8m => Flow::Next,
        "wls" | "wlstp" | "letp" => Flow::Branch { target: target() },
        "le" if first == "lr" => Flow::Branch { target: target() },
        "le" => Flow::Jump { target: target() },
        "it" | "itt" | "ite" | "ittt" | "itte" | "itet" | "itee" => it_block(base),
        _ if base.len() == 5 && base.starts_with("it") => it_block(base),
        "pop" if loads_pc => Flow::Return,
        "ldm" | "ldmia" if loads_pc && first.starts_with("sp") => Flow::Return,
        "ldm" | "ldmia" | "ldmdb" if loads_pc && !first.starts_with("pc") => Flow::ComputedJump,
        // ldrt to pc is unpredictable, but it is a load to pc.
        "ldr" | "ldrt" if first == "pc" => {
            let popped = operands.contains("[sp], #") && !operands.contains("#-");
            if popped { Flow::Return } else { Flow::ComputedJump }
        }
        "tbb" | "tbh" => Flow::ComputedJump,
        "mov" if first == "pc" && line.bytes.len() == 2 => exchange(operands.split(',').nth(1).unwrap_or_default()),
        "add" if first == "pc" && line.bytes.len() == 2 => Flow::ComputedJump,
        _ if base.strip_prefix('b').is_some_and(|condition| CONDITIONS.contains(&condition)) => {
            Flow::Branch { target: target() }
        }
        _ => Flow::Next,
    };
    // A write to pc is unpredictable, and objdump does not always say so.
    let writes_pc = writes_first && first == "pc";
    let checked_sp = isa == Isa::ThumbV8m && writes_first && first == "sp";
    let pure = match flow {
        Flow::Next => pure_name && !checked_sp && !writes_pc,
        _ => false,
    };
    Promise { flow, pure }
}

fn it_block(mnemonic: &str) -> Flow {
    Flow::It { count: mnemonic.len() as u8 - 1 }
}

/// RISC-V mnemonics of register-only operations, without `c.`.
const RISCV_PURE: &str = "add addi addi16sp addi4spn addiw addw and andi auipc div divu divuw divw \
    li lui mul mulh mulhsu mulhu mulw mv nop or ori rem remu remuw remw sext.w sll slli slli64 slliw \
    sllw slt slti sltiu sltu sra srai srai64 sraiw sraw srl srli srli64 srliw srlw sub subw xor xori \
    add.uw sh1add sh1add.uw sh2add sh2add.uw sh3add sh3add.uw slli.uw \
    andn orn xnor clz clzw ctz ctzw cpop cpopw max maxu min minu sext.b sext.h zext.h zext.b zext.w \
    not rol rolw ror rori roriw rorw orc.b rev8 bclr bclri bext bexti binv binvi bset bseti \
    prefetch.i prefetch.r prefetch.w ntl.p1 ntl.pall ntl.s1 ntl.all pack packh packw zip unzip brev8";

fn riscv_register(name: &str) -> u8 {
    name.trim().strip_prefix('x').and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("register {name}"))
}

fn riscv_promise(isa: Isa, line: &Line) -> Promise {
    let base = line.mnemonic.strip_prefix("c.").unwrap_or(&line.mnemonic);
    let mut operands = line.operands.split(',');
    let (first, second) = (operands.next().unwrap_or_default(), operands.next());
    let jalr = |rd: u8, reg: u8, offset: i32| match (rd, reg) {
        (1 | 5, _) => Flow::IndirectCall { reg, offset, clobbered: rd == reg },
        (_, 1 | 5) => Flow::Return,
        _ => Flow::IndirectJump { reg, offset },
    };
    let flow = match (line.mnemonic.as_str(), base) {
        ("c.j", _) => Flow::Jump { target: line.target(isa) },
        ("c.jal", _) => Flow::Call { target: line.target(isa) },
        ("c.jr", _) => jalr(0, riscv_register(first), 0),
        ("c.jalr", _) => jalr(1, riscv_register(first), 0),
        ("jal", _) => match riscv_register(first) {
            1 | 5 => Flow::Call { target: line.target(isa) },
            _ => Flow::Jump { target: line.target(isa) },
        },
        ("jalr", _) => {
            // `jalr x1,-4(x15)`
            let (offset, reg) = second
                .and_then(|operand| operand.strip_suffix(')')?.split_once('('))
                .unwrap_or_else(|| panic!("{}", line.describe(isa)));
            let offset = offset.parse().expect("a decimal offset");
            jalr(riscv_register(first), riscv_register(reg), offset)
        }
        (_, "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "beqz" | "bnez") => {
            Flow::Branch { target: line.target(isa) }
        }
        (_, "mret" | "sret" | "uret" | "mnret") => Flow::Return,
        _ => Flow::Next,
    };
    let lpad = base == "lpad" || (base == "auipc" && first == "x0");
    Promise { flow, pure: flow == Flow::Next && listed(RISCV_PURE, base) && !lpad }
}

/// AVR mnemonics of register-only operations.
const AVR_PURE: &str = "nop movw muls mulsu fmul fmuls fmulsu mul cpc sbc add lsl cp sub adc rol and tst eor clr or \
    mov cpi sbci subi ori sbr andi ldi ser com neg swap inc asr lsr ror dec adiw sbiw bld bst \
    sec sez sen sev ses seh set clc clz cln clv cls clh clt";

/// Instructions that objdump decodes although AVRe+ lacks them.
fn is_of_other_cores(mnemonic: &str) -> bool {
    listed("xch las lac lat des", mnemonic)
}

fn avr_promise(isa: Isa, line: &Line) -> Promise {
    let mnemonic = line.mnemonic.as_str();
    let flow = match mnemonic {
        "cpse" | "sbrc" | "sbrs" | "sbic" | "sbis" => Flow::It { count: 1 },
        "rjmp" | "jmp" => Flow::Jump { target: line.target(isa) },
        "rcall" | "call" => Flow::Call { target: line.target(isa) },
        "ijmp" | "eijmp" => Flow::ComputedJump,
        "icall" | "eicall" => Flow::IndirectCall { reg: 30, offset: 0, clobbered: true },
        "ret" | "reti" => Flow::Return,
        "break" => Flow::Next,
        _ if mnemonic.starts_with("br") => Flow::Branch { target: line.target(isa) },
        _ => Flow::Next,
    };
    Promise { flow, pure: listed(AVR_PURE, mnemonic) }
}

fn check_avr_predicates(isa: Isa, line: &Line) {
    let (what, mnemonic) = (line.describe(isa), line.mnemonic.as_str());
    assert_eq!(decode::is_wfi(isa, &line.bytes), mnemonic == "sleep", "{what}");
    assert_eq!(decode::is_trap_return(isa, &line.bytes), mnemonic == "reti", "{what}");
    let writes = |register: &str| mnemonic == "out" && line.operands.starts_with(register);
    let masks = matches!(mnemonic, "sei" | "cli" | "reti") || writes("0x3f");
    assert_eq!(decode::changes_mask(isa, &line.bytes), masks, "{what}");
    let deepens = mnemonic == "push" || writes("0x3d") || writes("0x3e") || line.bytes == [0x00, 0xd0];
    assert_eq!(decode::moves_sp(isa, &line.bytes), deepens, "{what}");
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let operands: Vec<&str> = line.operands.split(", ").collect();
    let io = match mnemonic {
        "in" => operands.get(1).and_then(|text| number(text.split(' ').next()?.split('\t').next()?)),
        "out" | "sbi" | "cbi" | "sbis" | "sbic" => number(operands[0]),
        _ => None,
    };
    assert_eq!(decode::avr_io(isa, &line.bytes), io, "{what}");
    let value = operands.last().and_then(|text| text.trim_start_matches('r').parse().ok());
    let out = io.filter(|_| mnemonic == "out").zip(value);
    assert_eq!(decode::avr_out(isa, &line.bytes), out, "{what}");
    let unmasks = mnemonic == "sei" || out.is_some_and(|(port, _)| port == decode::AVR_STATUS);
    assert_eq!(decode::avr_may_unmask(isa, &line.bytes), unmasks, "{what}");
    assert_eq!(decode::is_elpm(isa, &line.bytes), mnemonic == "elpm", "{what}");
    let accesses = listed("ld ldd lds st std sts push pop", mnemonic);
    assert_eq!(decode::accesses_avr_data(isa, &line.bytes), accesses, "{what}");
    if line.bytes.len() == 2 || listed("lds sts jmp call", mnemonic) {
        let cycles = |pc_bytes| decode::avr_cycles(&line.bytes, pc_bytes);
        let [short, long] = avr_cycles_of(line);
        assert_eq!([cycles(2), cycles(3)], [short, long], "{what}");
    }
    check_avr_conditions(line);
    assert_eq!(AvrStore::of(&line.bytes), avr_store(&operands, mnemonic).filter(|_| !line.undefined), "{what}");
}

/// The store that a line is.
fn avr_store(operands: &[&str], mnemonic: &str) -> Option<AvrStore> {
    if !listed("st std sts", mnemonic) {
        return None;
    }
    let [place, value] = operands else { panic!("{operands:?}") };
    let register = value.trim_start_matches('r').parse().expect("a register");
    let pair = [("X", 26), ("Y", 28), ("Z", 30)].iter().find(|(name, _)| place.contains(name)).map(|&(_, pair)| pair);
    let offset = match place.trim_start_matches(['X', 'Y', 'Z']) {
        _ if place.starts_with('-') => -1,
        "" | "+" => 0,
        text if pair.is_some() => text.trim_start_matches('+').parse().expect("a distance"),
        text => i32::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address"),
    };
    Some(AvrStore { register, pair, offset })
}

/// Cycles by mnemonic, with return addresses of two and of three bytes, as the datasheets of ATmega328P and ATmega2560
/// have them.
fn avr_cycles_of(line: &Line) -> [Option<u64>; 2] {
    let cycles = match line.mnemonic.as_str() {
        _ if line.undefined => return [None; 2],
        "spm" | "break" => return [None; 2],
        "rcall" | "icall" => [3, 4],
        "call" | "ret" | "reti" => [4, 5],
        "eicall" => [4, 4],
        "jmp" | "lpm" | "elpm" => [3, 3],
        "adiw" | "sbiw" | "mul" | "muls" | "mulsu" | "fmul" | "fmuls" | "fmulsu" | "rjmp" | "ijmp" | "eijmp"
        | "sbi" | "cbi" | "push" | "pop" | "ld" | "ldd" | "lds" | "st" | "std" | "sts" => [2, 2],
        _ => [1, 1],
    };
    cycles.map(Some)
}

fn check_avr_conditions(line: &Line) {
    let what = line.describe(Isa::AvrPc16);
    let mnemonic = line.mnemonic.as_str();
    let operands: Vec<&str> = line.operands.split(',').map(str::trim).collect();
    let number = |at: usize| {
        let text = operands[at].split_whitespace().next().unwrap_or_default().trim_start_matches('r');
        let hex = text.strip_prefix("0x").map(|text| u8::from_str_radix(text, 16));
        hex.unwrap_or_else(|| text.parse()).unwrap_or_else(|_| panic!("{what}: no number"))
    };
    let is_set = mnemonic.ends_with('s');
    let skip = match mnemonic {
        "cpse" => Some(Condition::Equal(number(0), number(1))),
        "sbrc" | "sbrs" => Some(Condition::Register { register: number(0), bit: number(1), is_set }),
        "sbic" | "sbis" => Some(Condition::Port { port: number(0), bit: number(1), is_set }),
        _ => None,
    };
    // By the flags C, Z, N, V, S, H, T, I.
    let branches = [
        ("brcs brlo", "brcc brsh"),
        ("breq", "brne"),
        ("brmi", "brpl"),
        ("brvs", "brvc"),
        ("brlt", "brge"),
        ("brhs", "brhc"),
        ("brts", "brtc"),
        ("brie", "brid"),
    ];
    let branch = (0..).zip(branches).find_map(|(bit, (set, clear))| match mnemonic {
        _ if listed(set, mnemonic) => Some(Condition::Flag { bit, is_set: true }),
        _ if listed(clear, mnemonic) => Some(Condition::Flag { bit, is_set: false }),
        _ => None,
    });
    assert_eq!(Condition::of_skip(&line.bytes), skip.filter(|_| !line.undefined), "{what}");
    assert_eq!(Condition::of_branch(&line.bytes), branch, "{what}");
}

#[derive(Clone, Copy, PartialEq)]
enum Input {
    /// Text from an assembler: the promise of purity is exact.
    Assembled,
    /// Arbitrary bits: the decoder need not report purity. It may report an encoding that objdump calls undefined as
    /// pure only in the encoding spaces that raise at translation.
    Arbitrary,
}

/// Checks a listing; returns the number of instructions compared.
fn check(isa: Isa, lines: &[Line], input: Input) -> usize {
    let mut in_it_block = 0;
    let mut compared = 0;
    for line in lines {
        let decoded = decode(isa, line.pc, &line.bytes);
        let what = line.describe(isa);
        // objdump may show data, or an unknown instruction, in pieces.
        if line.bytes.len() != 2 && line.bytes.len() != 4 {
            continue;
        }
        let mut base = line.mnemonic.split('.').next().unwrap_or_default();
        if isa.is_riscv() {
            check_riscv_predicates(isa, line);
        } else if isa.is_avr() {
            check_avr_predicates(isa, line);
        } else if in_it_block > 0 {
            in_it_block -= 1;
            base = CONDITIONS
                .iter()
                .chain(&["al", "<und>"])
                .find_map(|condition| base.strip_suffix(condition))
                .unwrap_or(base);
        }
        if let (Some(taken), Input::Assembled) = (told_taken(isa, line), input) {
            assert_eq!(decode::taken_from_sp(isa, &line.bytes), taken, "{what}");
        }
        if line.undefined {
            assert!(input == Input::Arbitrary, "{what}: the source holds an undefined instruction");
            assert!(decoded.may_leave || raises_at_translation(isa, line), "{what}: {decoded:?}");
            continue;
        }
        assert_eq!(usize::from(decoded.len_bytes), line.bytes.len(), "{what}");
        let promise = match isa {
            Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => riscv_promise(isa, line),
            Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => thumb_promise(isa, line, base),
            Isa::AvrPc16 | Isa::AvrPc22 => avr_promise(isa, line),
        };
        assert_eq!(decoded.flow, promise.flow, "{what}");
        if decoded.flow == Flow::Next {
            let right = match input {
                Input::Assembled => decoded.may_leave != promise.pure,
                Input::Arbitrary => decoded.may_leave || promise.pure,
            };
            assert!(right, "{what}: {decoded:?}, but pure is {}", promise.pure);
        }
        if let Flow::It { count } = promise.flow {
            in_it_block = count;
        }
        compared += 1;
    }
    compared
}

/// Bytes that an instruction takes off the stack pointer, by its text. None: the text is not of a kind that tells.
fn told_taken(isa: Isa, line: &Line) -> Option<Option<u64>> {
    let operands = line.operands.split([';', '@', '<']).next()?.trim();
    let words: Vec<&str> = operands.split([' ', ',', '{', '}', '[', ']', '!', '(', ')']).collect();
    let named = |word: &str| words.contains(&word);
    let negative = || operands.rsplit(',').next()?.trim().strip_prefix('-')?.parse().ok();
    if isa.is_avr() {
        return Some(None);
    }
    if isa.is_riscv() {
        return match line.mnemonic.as_str() {
            "addi" | "c.addi" | "c.addi16sp" if operands.starts_with("x2,x2,-") || operands.starts_with("x2,-") => {
                Some(negative())
            }
            mnemonic if mnemonic.starts_with("cm.") => None,
            _ => (!named("x2") && !named("sp")).then_some(Some(0)),
        };
    }
    let registers = |bytes: u64| {
        let list = operands.split_once('{')?.1.trim_end_matches('}');
        let number = |name: &str| match name {
            "sp" => Some(13),
            "lr" => Some(14),
            "pc" => Some(15),
            "sl" => Some(10),
            "fp" => Some(11),
            "ip" => Some(12),
            _ => name.trim_start_matches(['r', 'd', 's']).parse::<u64>().ok(),
        };
        let count = list.split(',').map(|part| match part.trim().split_once('-') {
            Some((from, to)) => Some(number(to)? - number(from)? + 1),
            None => number(part.trim()).map(|_| 1),
        });
        count.sum::<Option<u64>>().map(|count| count * bytes)
    };
    let immediate = || operands.rsplit('#').next()?.parse::<u64>().ok();
    match line.mnemonic.trim_end_matches(".w") {
        "push" | "stmdb" if line.mnemonic == "push" || operands.starts_with("sp!") => registers(4).map(Some),
        "vpush" => registers(if operands.contains('d') { 8 } else { 4 }).map(Some),
        "sub" | "subw" if operands.starts_with("sp, #") || operands.starts_with("sp, sp, #") => immediate().map(Some),
        mnemonic if mnemonic.starts_with("pop") || mnemonic.starts_with("vpop") => Some(None),
        mnemonic if mnemonic.contains("push") || mnemonic.starts_with("vscc") => None,
        _ => (!named("sp") && !named("r13")).then_some(Some(0)),
    }
}

fn check_riscv_predicates(isa: Isa, line: &Line) {
    let what = line.describe(isa);
    let operands: Vec<&str> = line.operands.split(',').collect();
    assert_eq!(decode::is_wfi(isa, &line.bytes), line.mnemonic == "wfi", "{what}");
    assert_eq!(decode::is_breakpoint(isa, &line.bytes), line.mnemonic == "ebreak", "{what}");
    assert_eq!(decode::is_trap_return(isa, &line.bytes), matches!(&*line.mnemonic, "mret" | "sret"), "{what}");
    let moves = ["add", "addi", "c.addi", "c.addi16sp", "c.add", "c.mv", "mv", "sub"].contains(&&*line.mnemonic);
    assert_eq!(decode::moves_sp(isa, &line.bytes), moves && operands[0] == "x2", "{what}");
    let value = (line.mnemonic == "auipc").then(|| {
        let hi = u64::from_str_radix(operands[1].trim_start_matches("0x"), 16).expect("hex");
        let hi = (hi << 12) as i32;
        let value = line.pc.wrapping_add_signed(i64::from(hi));
        let mask = if isa == Isa::Riscv64 { u64::MAX } else { 0xffff_ffff };
        (riscv_register(operands[0]), value & mask)
    });
    assert_eq!(decode::auipc(isa, line.pc, &line.bytes), value, "{what}");
}

/// Whether the undefined encoding lies in the spaces that compute on registers and nothing else.
fn raises_at_translation(isa: Isa, line: &Line) -> bool {
    let half = u16::from_le_bytes([line.bytes[0], line.bytes[1]]);
    match (isa.is_riscv(), line.bytes.len()) {
        // OP-IMM, OP-IMM-32, OP, OP-32; Zcb's arithmetic, which binutils knows from 2.42.
        (true, 4) => matches!(half & 0x7f, 0x13 | 0x1b | 0x33 | 0x3b),
        (true, _) => half & 0xfc03 == 0x9c01,
        // objdump's UNPREDICTABLE: an IT condition, an operand that should be zero, Rd = sp.
        (false, 2) => true,
        (false, _) => matches!(half >> 8, 0xea | 0xeb | 0xf0..=0xf7 | 0xfa | 0xfb),
    }
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/source").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn assembled_sources_decode_as_objdump_reads_them() {
    for (isa, names) in [
        (Isa::ThumbV6m, &["thumb.s"][..]),
        (Isa::ThumbV7m, &["thumb.s", "thumb2.s"]),
        (Isa::ThumbV8m, &["thumb.s", "thumb2.s", "thumb_v8m.s"]),
        (Isa::Riscv32, &["riscv.s", "riscv32.s"]),
        (Isa::Riscv64, &["riscv.s", "riscv64.s"]),
        (Isa::AvrPc16, &["avr.s"]),
    ] {
        for name in names {
            let text = source(name);
            let compared = check(isa, &disassemble(isa, name, &text), Input::Assembled);
            assert!(compared > 5, "{isa} {name}: only {compared} compared");
        }
    }
}

#[test]
fn every_16_bit_thumb_encoding() {
    for isa in [Isa::ThumbV7m, Isa::ThumbV8m] {
        let mut text = String::from(".syntax unified\n.thumb\n");
        for half in 0..0xe800_u32 {
            let _ = writeln!(text, ".inst.n {half:#x}");
            // An IT block would apply its condition to the encodings after it.
            if half >> 8 == 0xbf && half & 15 != 0 {
                text.push_str(".inst.n 0xbf00\n.inst.n 0xbf00\n.inst.n 0xbf00\n.inst.n 0xbf00\n");
            }
        }
        let compared = check(isa, &disassemble(isa, "all16", &text), Input::Arbitrary);
        assert!(compared > 0xd000, "{isa}: only {compared} compared");
    }
}

#[test]
fn every_16_bit_riscv_encoding() {
    for isa in [Isa::Riscv32, Isa::Riscv64] {
        let mut text = String::new();
        for half in (0..=0xffff_u32).filter(|half| half & 3 != 3) {
            let _ = writeln!(text, ".insn 2, {half:#x}");
        }
        let compared = check(isa, &disassemble(isa, "all16", &text), Input::Arbitrary);
        assert!(compared > 0x9000, "{isa}: only {compared} compared");
    }
}

#[test]
fn every_first_word_of_avr() {
    let isa = Isa::AvrPc16;
    let mut text = String::new();
    for word in 0..=0xffff_u32 {
        // A second word for those that have one; for the others a nop, which is skipped or not.
        let _ = writeln!(text, ".word {word:#x}, 0");
    }
    let compared = check(isa, &disassemble(isa, "all16", &text), Input::Arbitrary);
    assert!(compared > 0xf000, "only {compared} compared");
}

/// xorshift32: produces the same bits on every machine.
fn scramble(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

#[test]
fn many_32_bit_thumb_encodings() {
    for isa in [Isa::ThumbV7m, Isa::ThumbV8m] {
        let mut state = 0x2545_f491;
        let mut text = String::from(".syntax unified\n.thumb\n");
        for first in 0xe800..=0xffff_u32 {
            for round in 0..14 {
                // Some second halfwords have pc in the places of Rt and Rd, where transfers hide.
                let second = match (round, scramble(&mut state) & 0xffff) {
                    (0..3, random) => random | 0xf000,
                    (3..6, random) => random | 0x0f00,
                    (6..8, random) => random & 0x0fff,
                    (_, random) => random,
                };
                let _ = writeln!(text, ".inst.w {:#x}", (first << 16) | second);
            }
        }
        let compared = check(isa, &disassemble(isa, "many32", &text), Input::Arbitrary);
        assert!(compared > 50_000, "{isa}: only {compared} compared");
    }
}

#[test]
fn many_32_bit_riscv_encodings() {
    for isa in [Isa::Riscv32, Isa::Riscv64] {
        let mut state = 0x2545_f491;
        let mut text = String::new();
        for opcode in (0..0x80_u32).filter(|opcode| opcode & 3 == 3 && opcode & 0x1c != 0x1c) {
            for round in 0..4096 {
                let random = scramble(&mut state) & !0x7f;
                let insn = opcode
                    | match round % 4 {
                        // The CSRs that hold trap vectors, and a source of zero.
                        0 => (random & 0x0000_7f80) | 0x3050_0000,
                        1 => (random & 0x000f_ff80) | 0x1050_0000,
                        // The register-register operations that exist: few bits set in funct7.
                        2 => random & 0x61ff_ff80,
                        _ => random,
                    };
                let _ = writeln!(text, ".insn 4, {insn:#x}");
            }
        }
        let compared = check(isa, &disassemble(isa, "many32", &text), Input::Arbitrary);
        assert!(compared > 30_000, "{isa}: only {compared} compared");
    }
}
