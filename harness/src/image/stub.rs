// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stubs: code that returns at once, written over a function's first instructions in the loaded bytes.
//!
//! A real chip's firmware waits for hardware that QEMU's machine lacks: a clock that becomes ready, a radio. `--stub`
//! replaces such functions. Loading, decoding, listings and unwinding all get the changed bytes.
//!
//! "ARMv7-M Architecture Reference Manual", A7.7; "The RISC-V Instruction Set Manual, Volume I", RV32I, RV64I and C.

use std::collections::BTreeMap;
use std::ops::Range;

use decode::Isa;

use crate::error::InputError;
use crate::image::sorted_ranges::holding;
use crate::image::symbols::{Found, Symbols};
use crate::image::{ArmLevel, Image, Segment};
use crate::profile::Stub;
use crate::text::number::{Hex, parse_number};

/// Stub as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name of a function, or a pattern of names with `*` and `?`.
    pub pattern: String,
    /// Return value; None: the function returns nothing. Then no register changes, since a compiler may know that the
    /// function does not change any.
    pub value: Option<Value>,
}

/// Return value of a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Value of at most 32 bits, in one register. RV64 extends the value in that register by its sign, whether its
    /// type is signed or not ("RISC-V ABIs Specification", integer calling convention). A pointer above 2 GiB is
    /// therefore not such a value.
    Word(i32),
    /// Value of 64 bits, in one register on RV64 and otherwise in two, the lower half first.
    Double(i64),
}

impl Value {
    /// Number as requested.
    fn number(self) -> i64 {
        match self {
            Value::Word(value) => value.into(),
            Value::Double(value) => value,
        }
    }
}

/// Stubs of an image.
#[derive(Debug, Default)]
pub struct Stubs {
    /// Replaced functions, by address.
    pub list: Vec<Stub>,
    /// Addresses of the functions, load bias included, in the same order.
    pub functions: Vec<Range<u64>>,
    /// Addresses of the written bytes, in the same order.
    pub code: Vec<Range<u64>>,
    /// Addresses of the written bytes that are numbers, not instructions.
    pub data: Vec<Range<u64>>,
    /// Sentences about other names of the same functions.
    pub warnings: Vec<String>,
}

/// Processor and place of the code.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Instruction set of the machine.
    pub isa: Isa,
    /// Whether a RISC-V image may have 16-bit instructions.
    pub has_compressed: bool,
    /// Bias added to the image's addresses.
    pub load_bias: u64,
}

/// Largest number of other names that a warning lists.
const MAX_NAMES: usize = 5;

/// Instructions that return a value, and the position of the value in them.
struct Code {
    bytes: Vec<u8>,
    data: Range<usize>,
}

impl Wanted {
    /// Reads `FUNC` or `FUNC=VALUE`.
    ///
    /// # Errors
    /// [`InputError`] if the name is empty or VALUE is not a number of at most 64 bits.
    pub fn parse(text: &str) -> Result<Wanted, InputError> {
        // `operator==` contains `=`; the text after its last one is not a number.
        let is_operator = |name: &str| name.contains("operator");
        let (pattern, value) = match text.rsplit_once('=') {
            Some((pattern, value)) => match read_value(value) {
                Some(value) => (pattern, Some(value)),
                None if is_operator(pattern) => (text, None),
                None => {
                    return Err(InputError::new(format!(
                        "--stub {text}: {value:?} is not a value to return; write a number, such as 0, -1 or 0x2000"
                    )));
                }
            },
            None => (text, None),
        };
        Wanted::new(pattern, value).ok_or_else(|| {
            InputError::new(format!("--stub {text}: no function; write FUNC or FUNC=VALUE, such as 'HAL_RCC_*=0'"))
        })
    }

    /// Makes a stub for the functions of this name. None: the name is empty.
    fn new(pattern: &str, value: Option<Value>) -> Option<Wanted> {
        let pattern = pattern.trim();
        (!pattern.is_empty()).then(|| Wanted { pattern: pattern.to_owned(), value })
    }

    fn error(&self, what: impl std::fmt::Display) -> InputError {
        InputError::new(format!("--stub {}: {what}", self.pattern))
    }

    /// Finds the functions.
    fn find(&self, symbols: &Symbols<'_>) -> Result<Vec<Found>, InputError> {
        // A name may contain a star itself: `send(char*)`.
        let by_name = symbols.find(&self.pattern);
        if by_name.is_err() && self.pattern.contains(['*', '?']) {
            let found = symbols.matching(&self.pattern).map_err(|error| self.error(error))?;
            if found.is_empty() {
                return Err(self.error("no function's name matches; `harness top` on a profile shows their names"));
            }
            return Ok(found);
        }
        by_name.map_err(|error| self.error(error))
    }
}

/// Hexadecimal digits of a 32-bit number.
const WORD_DIGITS: usize = 8;

/// Parses a value. It has 64 bits if 32 cannot hold it, signed or unsigned, or if it has more hexadecimal digits.
fn read_value(text: &str) -> Option<Value> {
    let text = text.trim();
    let (digits, is_negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
    let size = i128::from(parse_number("--stub", digits).ok()?);
    let value = if is_negative { -size } else { size };
    let is_long =
        digits.strip_prefix("0x").is_some_and(|hex| hex.bytes().filter(u8::is_ascii_hexdigit).count() > WORD_DIGITS);
    // An unsigned number gives the same register contents.
    if !is_long && (i128::from(i32::MIN)..1 << 32).contains(&value) {
        return Some(Value::Word(value as i32));
    }
    (value >= i128::from(i64::MIN)).then_some(Value::Double(value as i64))
}

/// Writes the stubs into the image's segments. If several stubs name the same function, the last one counts, and a
/// name wins over a pattern.
///
/// # Errors
/// [`InputError`] if a name matches nothing, or a function has no room or no bytes.
pub fn apply(
    image: &mut Image,
    symbols: &Symbols<'_>,
    target: Target,
    wanted: &[Wanted],
) -> Result<Stubs, InputError> {
    let Target { isa, has_compressed, load_bias } = target;
    let mut meant: BTreeMap<u64, (&Wanted, Found)> = BTreeMap::new();
    let (patterns, named): (Vec<&Wanted>, Vec<&Wanted>) =
        wanted.iter().partition(|one| symbols.find(&one.pattern).is_err());
    for one in patterns.into_iter().chain(named) {
        for found in one.find(symbols)? {
            meant.insert(found.address, (one, found));
        }
    }
    // If the image does not name its architecture, use only instructions that every processor of the family has.
    let isa = match &image.needs.arm {
        _ if !isa.is_thumb() => isa,
        Some(needs) if needs.level > ArmLevel::V6M => isa,
        _ => Isa::ThumbV6m,
    };
    let functions = symbols.ranges();
    let mut stubs = Stubs::default();
    for (address, (one, found)) in meant {
        // An address inside a function means the whole function.
        let function = holding(&functions, address)
            .map(|index| functions[index].clone())
            .ok_or_else(|| one.error(format_args!("{} at {} has no code in the image", found.name, Hex(address))))?;
        let start = function.start;
        let code = encode(isa, start, one.value, has_compressed);
        // Use the name that tables show, which may be another name of the function.
        let mut names = symbols.names_at(start);
        let name = if names.is_empty() { found.name } else { names.remove(0) };
        let segment = segment_of(&mut image.segments, start.wrapping_sub(load_bias));
        let Some((segment, offset)) = segment else {
            return Err(one.error(format_args!("{name} at {} has no bytes in the image", Hex(start))));
        };
        let room = usize::try_from(function.end - start).unwrap_or(usize::MAX).min(segment.data.len() - offset);
        let own = &segment.data[offset..offset + room];
        if isa.is_riscv() && returns_from_trap(own) {
            return Err(one.error(format_args!(
                "{name} is a trap handler, which ends in mret: to return from it at once is to be trapped again; \
                 leave it out"
            )));
        }
        let Some(patched) = segment.data[offset..offset + room].get_mut(..code.bytes.len()) else {
            let what =
                one.value.map_or_else(|| "to return".to_owned(), |value| format!("to return {}", value.number()));
            return Err(one.error(format_args!(
                "{name} at {} has {room} bytes, and {what} takes {}; give --stub '{name}' behind, which only returns, or \
                 stub what calls it",
                Hex(start),
                code.bytes.len()
            )));
        };
        patched.copy_from_slice(&code.bytes);
        stubs.data.push(start + code.data.start as u64..start + code.data.end as u64);
        stubs.code.push(start..start + code.bytes.len() as u64);
        if !names.is_empty() {
            let more = if names.len() > MAX_NAMES { ", …" } else { "" };
            let shown = names[..names.len().min(MAX_NAMES)].join(", ");
            stubs.warnings.push(format!("--stub {name}: the same code is {shown}{more}, which return at once too"));
        }
        let is_double = matches!(one.value, Some(Value::Double(_)));
        stubs.list.push(Stub { name, address: start, returns: one.value.map(Value::number), is_double });
        stubs.functions.push(function);
    }
    Ok(stubs)
}

/// Segment that holds a run address, and the byte's index in it.
fn segment_of(segments: &mut [Segment], address: u64) -> Option<(&mut Segment, usize)> {
    segments.iter_mut().find_map(|segment| {
        let offset = usize::try_from(address.checked_sub(segment.run_addr)?).ok()?;
        (offset < segment.data.len()).then_some((segment, offset))
    })
}

/// Encodings of `bx lr`, `c.jr ra`, `jalr x0, 0(ra)`, and of AVR's `ret`.
const BX_LR: u16 = 0x4770;
const C_RET: u16 = 0x8082;
const RET: u32 = 0x0000_8067;
const AVR_RET: u16 = 0x9508;
const MRET: [u8; 4] = 0x3020_0073_u32.to_le_bytes();

fn returns_from_trap(code: &[u8]) -> bool {
    code.chunks_exact(2).zip(code.chunks_exact(2).skip(1)).any(|(low, high)| [low, high].concat() == MRET)
}

fn encode(isa: Isa, address: u64, value: Option<Value>, has_compressed: bool) -> Code {
    let ret: Vec<u8> = match isa {
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => BX_LR.to_le_bytes().to_vec(),
        Isa::AvrPc16 | Isa::AvrPc22 => AVR_RET.to_le_bytes().to_vec(),
        _ if has_compressed => C_RET.to_le_bytes().to_vec(),
        _ => RET.to_le_bytes().to_vec(),
    };
    match (isa, value) {
        (_, None) => Code { bytes: ret, data: 0..0 },
        (Isa::Riscv64 | Isa::Riscv64Zc, Some(value)) => riscv(isa, address, value.number(), &ret),
        (Isa::Riscv32 | Isa::Riscv32Zc, Some(Value::Word(value))) => riscv(isa, address, value.into(), &ret),
        (Isa::Riscv32 | Isa::Riscv32Zc, Some(Value::Double(value))) => riscv_pair(isa, value, &ret),
        (Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m, Some(Value::Word(value))) => {
            thumb(isa, address, value as u32)
        }
        (Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m, Some(Value::Double(value))) => thumb_pair(address, value),
        // An `int` has 16 bits, and a value that needs more is returned as a `long`.
        (Isa::AvrPc16 | Isa::AvrPc22, Some(Value::Word(value))) => {
            avr(&value.to_le_bytes()[..if (-0x8000..=0xffff).contains(&value) { 2 } else { 4 }])
        }
        (Isa::AvrPc16 | Isa::AvrPc22, Some(Value::Double(value))) => avr(&value.to_le_bytes()),
    }
}

/// `ldi` for each byte, the last of which goes to r25, and `ret` (avr-gcc's ABI, "Calling convention").
fn avr(value: &[u8]) -> Code {
    let first = 26 - value.len() as u16;
    let load = |(register, &byte): (u16, &u8)| {
        let byte = u16::from(byte);
        0xe000 | (byte & 0xf0) << 4 | (register - 16) << 4 | byte & 0xf
    };
    halves(&(first..).zip(value).map(load).chain([AVR_RET]).collect::<Vec<u16>>())
}

fn halves(halves: &[u16]) -> Code {
    Code { bytes: halves.iter().flat_map(|half| half.to_le_bytes()).collect(), data: 0..0 }
}

fn thumb(isa: Isa, address: u64, value: u32) -> Code {
    let movs = |byte: u32| 0x2000 | byte as u16;
    if value <= 0xff {
        return halves(&[movs(value), BX_LR]);
    }
    if !value <= 0xff {
        const MVNS: u16 = 0x43c0;
        return halves(&[movs(!value), MVNS, BX_LR]);
    }
    let shift = value.trailing_zeros();
    if value >> shift <= 0xff {
        let lsls = (shift as u16) << 6;
        return halves(&[movs(value >> shift), lsls, BX_LR]);
    }
    if isa == Isa::ThumbV6m {
        // A literal must lie at a multiple of 4, relative to the instruction's own address + 4.
        let is_aligned = address.is_multiple_of(4);
        let mut code = if is_aligned { halves(&[0x4800, BX_LR]) } else { halves(&[0x4801, BX_LR, BX_LR]) };
        let literal = code.bytes.len();
        code.bytes.extend(value.to_le_bytes());
        code.data = literal..literal + 4;
        return code;
    }
    let wide = |opcode: u16, half: u32| {
        let (imm4, i, imm3, imm8) = (half >> 12, half >> 11 & 1, half >> 8 & 7, half & 0xff);
        [opcode | (i << 10 | imm4) as u16, (imm3 << 12 | imm8) as u16]
    };
    let [low, high] = [wide(0xf240, value & 0xffff), wide(0xf2c0, value >> 16)];
    if value <= 0xffff {
        halves(&[low[0], low[1], BX_LR])
    } else {
        halves(&[low[0], low[1], high[0], high[1], BX_LR])
    }
}

/// Loads both halves of a number from literals after the code, into r0 and r1.
fn thumb_pair(address: u64, value: i64) -> Code {
    // The first literal lies 8 or 6 bytes further, for the same reason as in `thumb`.
    let is_aligned = address.is_multiple_of(4);
    let mut code =
        if is_aligned { halves(&[0x4801, 0x4902, BX_LR, BX_LR]) } else { halves(&[0x4801, 0x4901, BX_LR]) };
    let literal = code.bytes.len();
    code.bytes.extend(value.to_le_bytes());
    code.data = literal..literal + 8;
    code
}

const A0: u32 = 10;

/// Encodes `lui` and `addi` or `addiw`, as far as a number of 32 bits needs them.
fn load_immediate(isa: Isa, register: u32, value: i32) -> Vec<u8> {
    if (-2048..2048).contains(&value) {
        let addi = 0x13 | register << 7 | (value as u32 & 0xfff) << 20;
        return addi.to_le_bytes().to_vec();
    }
    let value = value as u32;
    let lui = 0x37 | register << 7 | value.wrapping_add(0x800) & 0xffff_f000;
    // `addiw` cuts the sum to 32 bits if `lui` has exceeded them.
    let opcode = if isa.is_riscv64() { 0x1b } else { 0x13 };
    let add = opcode | register << 7 | register << 15 | (value & 0xfff) << 20;
    let mut bytes = lui.to_le_bytes().to_vec();
    if value & 0xfff != 0 {
        bytes.extend(add.to_le_bytes());
    }
    bytes
}

/// Loads both halves of a number into a0 and a1.
fn riscv_pair(isa: Isa, value: i64, ret: &[u8]) -> Code {
    let half = |register, value: i64| load_immediate(isa, register, value as i32);
    let bytes = [&half(A0, value)[..], &half(A0 + 1, value >> 32), ret].concat();
    Code { bytes, data: 0..0 }
}

fn riscv(isa: Isa, address: u64, value: i64, ret: &[u8]) -> Code {
    let mut bytes: Vec<u8> = Vec::new();
    if ret.len() == 2 && (-32..32).contains(&value) {
        let bits = value as u16;
        let c_li = 0x4001 | (bits >> 5 & 1) << 12 | (A0 as u16) << 7 | (bits & 0x1f) << 2;
        bytes.extend(c_li.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        bytes.extend(load_immediate(isa, A0, value));
    } else {
        let before = 8 + ret.len() as u64;
        let literal = before + (address + before).wrapping_neg() % 8;
        let auipc = 0x17 | A0 << 7;
        let ld = 0x3003 | A0 << 7 | A0 << 15 | (literal as u32) << 20;
        bytes.extend(auipc.to_le_bytes());
        bytes.extend(ld.to_le_bytes());
        bytes.extend(ret);
        bytes.resize(literal as usize, 0);
        bytes.extend(value.to_le_bytes());
        return Code { bytes, data: before as usize..literal as usize + 8 };
    }
    bytes.extend(ret);
    Code { bytes, data: 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(isa: Isa, address: u64, value: Option<i64>, has_compressed: bool) -> String {
        let value = value.map(|value| i32::try_from(value).map_or(Value::Double(value), Value::Word));
        let code = encode(isa, address, value, has_compressed);
        code.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Expected bytes come from GNU as: each line was assembled and read back with objdump.
    #[test]
    fn values_are_made_by_the_shortest_code_that_the_processor_has() {
        let thumb = |isa, address, value| code(isa, address, Some(value), false);
        for isa in [Isa::ThumbV6m, Isa::ThumbV7m, Isa::ThumbV8m] {
            assert_eq!(code(isa, 0, None, false), "7047");
            assert_eq!(thumb(isa, 0, 255), "ff207047", "movs r0, #255; bx lr");
            assert_eq!(thumb(isa, 0, -1), "0020c0437047", "movs r0, #0; mvns r0, r0; bx lr");
            assert_eq!(thumb(isa, 0, -256), "ff20c0437047", "movs r0, #255; mvns r0, r0; bx lr");
            assert_eq!(thumb(isa, 0, 0x2000_0000), "012040077047", "movs r0, #1; lsls r0, r0, #29; bx lr");
        }
        assert_eq!(thumb(Isa::ThumbV7m, 0, 0xabcd), "4af6cd307047", "movw r0, #0xabcd; bx lr");
        let wide = "45f27860c1f234207047";
        assert_eq!(thumb(Isa::ThumbV8m, 2, 0x1234_5678), wide, "movw r0, #0x5678; movt r0, #0x1234; bx lr");
        assert_eq!(thumb(Isa::ThumbV6m, 0, 0x1234_5678), "0048704778563412", "ldr r0, [pc]; bx lr; .word");
        assert_eq!(
            thumb(Isa::ThumbV6m, 2, 0x1234_5678),
            "01487047704778563412",
            "ldr r0, [pc, #4]; bx lr; bx lr; .word"
        );
        let riscv = |isa, value, has_compressed| code(isa, 0x8000_0002, Some(value), has_compressed);
        assert_eq!(code(Isa::Riscv32, 0, None, true), "8280");
        assert_eq!(code(Isa::Riscv32, 0, None, false), "67800000");
        assert_eq!(riscv(Isa::Riscv64, -1, true), "7d558280", "c.li a0, -1; c.jr ra");
        assert_eq!(riscv(Isa::Riscv64, 31, true), "7d458280", "c.li a0, 31; c.jr ra");
        assert_eq!(riscv(Isa::Riscv32, 5, false), "1305500067800000", "li a0, 5; ret");
        assert_eq!(riscv(Isa::Riscv32, -2048, true), "130500808280", "li a0, -2048; ret");
        assert_eq!(
            riscv(Isa::Riscv32, 0x1234_5fff, true),
            "376534121305f5ff8280",
            "lui a0, 0x12346; addi a0, a0, -1"
        );
        assert_eq!(
            riscv(Isa::Riscv64, 0x7fff_ffff, true),
            "370500801b05f5ff8280",
            "lui a0, 0x80000; addiw a0, a0, -1"
        );
        assert_eq!(
            riscv(Isa::Riscv64, 0x1122_3344_5566_7788, true),
            "170500000335e5008280000000008877665544332211",
            "auipc a0, 0; ld a0, 14(a0); ret; fill; .dword"
        );
    }

    /// Expected bytes come from GNU as, as above.
    #[test]
    fn a_value_of_two_registers_fills_both() {
        let pair = |isa, address, value| {
            let code = encode(isa, address, Some(Value::Double(value)), true);
            code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let value = 0x1122_3344_5566_7788;
        for isa in [Isa::ThumbV6m, Isa::ThumbV7m] {
            let words = "8877665544332211";
            assert_eq!(
                pair(isa, 0, value),
                format!("0148024970477047{words}"),
                "ldr r0, 8; ldr r1, 12; bx lr; bx lr"
            );
            assert_eq!(pair(isa, 2, value), format!("014801497047{words}"), "ldr r0, 8; ldr r1, 12; bx lr");
        }
        let li = "3775665513058578b735221193854534";
        assert_eq!(pair(Isa::Riscv32, 0, value), format!("{li}8280"), "lui a0; addi a0; lui a1; addi a1; c.jr ra");
        assert_eq!(pair(Isa::Riscv32, 0, 5), "13055000930500008280", "li a0, 5; li a1, 0; c.jr ra");
        // A value of 32 bits with the same bits would be extended by its sign.
        assert_eq!(pair(Isa::Riscv64, 0, 5), "15458280", "c.li a0, 5; c.jr ra");
        assert!(pair(Isa::Riscv64, 0, 0xffff_ffff).ends_with("ffffffff00000000"), "a literal");
    }

    #[test]
    fn what_is_asked_for_is_a_name_and_perhaps_a_number() {
        let parse = |text| Wanted::parse(text).map(|Wanted { pattern, value }| (pattern, value)).ok();
        let some = |pattern: &str, value| Some((pattern.to_owned(), value));
        assert_eq!(parse("HAL_Init"), some("HAL_Init", None));
        let word = |value| Some(Value::Word(value));
        let double = |value| Some(Value::Double(value));
        assert_eq!(parse("HAL_RCC_*=0"), some("HAL_RCC_*", word(0)));
        assert_eq!(parse("f(int) = -0x10"), some("f(int)", word(-16)));
        assert_eq!(parse("f=18446744073709551615"), some("f", double(-1)));
        for value in ["0xffffffff", "4294967295", "-1", "0xffff_ffff"] {
            let text = format!("f={value}");
            assert_eq!(Wanted::parse(&text).ok().and_then(|wanted| wanted.value), word(-1), "{value}");
        }
        assert_eq!(parse("f=0x00000000ffffffff"), some("f", double(0xffff_ffff)));
        assert_eq!(parse("f=0x0_8000_0000"), some("f", double(0x8000_0000)));
        assert_eq!(parse("f=4294967296"), some("f", double(1 << 32)));
        assert_eq!(parse("A::operator==(A const&)"), some("A::operator==(A const&)", None));
        assert_eq!(parse("A::operator===1"), some("A::operator==", word(1)));
        for text in ["", "=1", "f=", "f=x", "f=18446744073709551616", "f=-9223372036854775809"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
