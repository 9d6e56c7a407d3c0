// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of AVR's instructions, for which the disassembler's library has nothing. Names are those of the AVR Instruction Set
//! Manual, DS40002198; the targets of jumps are left to the caller.

/// Names of the branches by the bit of the status register that they test, where it is set and where it is clear.
const BRANCHES: [[&str; 8]; 2] = [
    ["brcs", "breq", "brmi", "brvs", "brlt", "brhs", "brts", "brie"],
    ["brcc", "brne", "brpl", "brvc", "brge", "brhc", "brtc", "brid"],
];

/// Letters of the status register's bits.
const FLAGS: [char; 8] = ['c', 'z', 'n', 'v', 's', 'h', 't', 'i'];

/// Mnemonic and operands of an instruction: its first word and the second one, if it has one. None: it is not one.
pub(super) fn text(insn: u16, second: Option<u16>) -> Option<(String, String)> {
    let (d, r) = (insn >> 4 & 0x1f, insn >> 5 & 0x10 | insn & 0xf);
    let two = |name: &str| Some((name.to_owned(), format!("r{d}, r{r}")));
    let named = |name: &str| Some((name.to_owned(), String::new()));
    match insn >> 12 {
        0x0..=0x2 if insn >= 0x0400 => {
            let names = ["cpc", "sbc", "add", "cpse", "cp", "sub", "adc", "and", "eor", "or", "mov"];
            two(names[usize::from(insn >> 10) - 1])
        }
        0x0 => multiplication(insn),
        0x3..=0x7 | 0xe => {
            let name = match insn >> 12 {
                0x3 => "cpi",
                0x4 => "sbci",
                0x5 => "subi",
                0x6 => "ori",
                0x7 => "andi",
                _ => "ldi",
            };
            Some((name.to_owned(), format!("r{}, 0x{:02x}", 16 + (insn >> 4 & 0xf), insn >> 4 & 0xf0 | insn & 0xf)))
        }
        0x8 | 0xa => {
            let q = insn >> 8 & 0x20 | insn >> 7 & 0x18 | insn & 7;
            let place = format!("{}+{q}", if insn & 8 == 0 { 'Z' } else { 'Y' });
            Some(if insn & 0x0200 == 0 {
                ("ldd".to_owned(), format!("r{d}, {place}"))
            } else {
                ("std".to_owned(), format!("{place}, r{d}"))
            })
        }
        0x9 => group_9(insn, second),
        0xb => {
            let io = insn >> 5 & 0x30 | insn & 0xf;
            Some(if insn & 0x0800 == 0 {
                ("in".to_owned(), format!("r{d}, 0x{io:02x}"))
            } else {
                ("out".to_owned(), format!("0x{io:02x}, r{d}"))
            })
        }
        0xc => named("rjmp"),
        0xd => named("rcall"),
        _ if insn & 0x0800 == 0 => named(BRANCHES[usize::from(insn >> 10 & 1)][usize::from(insn & 7)]),
        _ if insn & 8 == 0 => {
            let name = ["bld", "bst", "sbrc", "sbrs"][usize::from(insn >> 9 & 3)];
            Some((name.to_owned(), format!("r{d}, {}", insn & 7)))
        }
        _ => None,
    }
}

fn multiplication(insn: u16) -> Option<(String, String)> {
    let (high, low) = (insn >> 4 & 0xf, insn & 0xf);
    let short = |name: &str| Some((name.to_owned(), format!("r{}, r{}", 16 + (high & 7), 16 + (low & 7))));
    match insn >> 8 {
        0x0 if insn == 0 => Some(("nop".to_owned(), String::new())),
        0x1 => Some(("movw".to_owned(), format!("r{}, r{}", 2 * high, 2 * low))),
        0x2 => Some(("muls".to_owned(), format!("r{}, r{}", 16 + high, 16 + low))),
        0x3 => short(match (high >> 3, low >> 3) {
            (0, 0) => "mulsu",
            (0, _) => "fmul",
            (_, 0) => "fmuls",
            _ => "fmulsu",
        }),
        _ => None,
    }
}

fn group_9(insn: u16, second: Option<u16>) -> Option<(String, String)> {
    let d = insn >> 4 & 0x1f;
    match insn >> 8 & 0xf {
        0x0..=0x3 => access(insn, second),
        0x4 | 0x5 => group_94(insn),
        word @ (0x6 | 0x7) => {
            let name = if word == 6 { "adiw" } else { "sbiw" };
            Some((name.to_owned(), format!("r{}, {}", 24 + 2 * (insn >> 4 & 3), insn >> 2 & 0x30 | insn & 0xf)))
        }
        bit @ 0x8..=0xb => {
            let name = ["cbi", "sbic", "sbi", "sbis"][usize::from(bit - 8)];
            Some((name.to_owned(), format!("0x{:02x}, {}", insn >> 3 & 0x1f, insn & 7)))
        }
        _ => Some(("mul".to_owned(), format!("r{d}, r{}", insn >> 5 & 0x10 | insn & 0xf))),
    }
}

/// Loads and stores of a register, by a pointer or by the second word.
fn access(insn: u16, second: Option<u16>) -> Option<(String, String)> {
    let register = format!("r{}", insn >> 4 & 0x1f);
    let is_store = insn & 0x0200 != 0;
    let place = match insn & 0xf {
        0x0 => format!("0x{:04x}", second?),
        0x1 => "Z+".to_owned(),
        0x2 => "-Z".to_owned(),
        0x9 => "Y+".to_owned(),
        0xa => "-Y".to_owned(),
        0xc => "X".to_owned(),
        0xd => "X+".to_owned(),
        0xe => "-X".to_owned(),
        0xf => return Some((if is_store { "push" } else { "pop" }.to_owned(), register)),
        of_flash @ 4..=7 if !is_store => {
            let name = if of_flash < 6 { "lpm" } else { "elpm" };
            let place = if of_flash & 1 == 0 { "Z" } else { "Z+" };
            return Some((name.to_owned(), format!("{register}, {place}")));
        }
        _ => return None,
    };
    let is_direct = insn & 0xf == 0;
    Some(match (is_store, is_direct) {
        (false, false) => ("ld".to_owned(), format!("{register}, {place}")),
        (false, true) => ("lds".to_owned(), format!("{register}, {place}")),
        (true, false) => ("st".to_owned(), format!("{place}, {register}")),
        (true, true) => ("sts".to_owned(), format!("{place}, {register}")),
    })
}

fn group_94(insn: u16) -> Option<(String, String)> {
    let named = |name: &str| Some((name.to_owned(), String::new()));
    let one = |name: &str| Some((name.to_owned(), format!("r{}", insn >> 4 & 0x1f)));
    match (insn & 0xf, insn) {
        (0x8, _) if insn & 0x0100 == 0 => {
            let name = if insn & 0x80 == 0 { "se" } else { "cl" };
            Some((format!("{name}{}", FLAGS[usize::from(insn >> 4 & 7)]), String::new()))
        }
        (_, 0x9409) => named("ijmp"),
        (_, 0x9419) => named("eijmp"),
        (_, 0x9509) => named("icall"),
        (_, 0x9519) => named("eicall"),
        (_, 0x9508) => named("ret"),
        (_, 0x9518) => named("reti"),
        (_, 0x9588) => named("sleep"),
        (_, 0x9598) => named("break"),
        (_, 0x95a8) => named("wdr"),
        (_, 0x95c8) => named("lpm"),
        (_, 0x95d8) => named("elpm"),
        (_, 0x95e8) => named("spm"),
        (0x0, _) => one("com"),
        (0x1, _) => one("neg"),
        (0x2, _) => one("swap"),
        (0x3, _) => one("inc"),
        (0x5, _) => one("asr"),
        (0x6, _) => one("lsr"),
        (0x7, _) => one("ror"),
        (0xa, _) => one("dec"),
        (0xc | 0xd, _) => named("jmp"),
        (0xe | 0xf, _) => named("call"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_read_as_in_the_manual() {
        for (insn, second, expected) in [
            (0x0000, None, "nop "),
            (0x01fc, None, "movw r30, r24"),
            (0x0e94, None, "add r9, r20"),
            (0x1311, None, "cpse r17, r17"),
            (0x2411, None, "eor r1, r1"),
            (0x3a2f, None, "cpi r18, 0xaf"),
            (0x81e9, None, "ldd r30, Y+1"),
            (0xaf8f, None, "std Y+63, r24"),
            (0x9180, Some(0x00c0), "lds r24, 0x00c0"),
            (0x9380, Some(0x00c6), "sts 0x00c6, r24"),
            (0x900d, None, "ld r0, X+"),
            (0x93df, None, "push r29"),
            (0x9005, None, "lpm r0, Z+"),
            (0x97ec, None, "sbiw r28, 60"),
            (0x9a2d, None, "sbi 0x05, 5"),
            (0x9f89, None, "mul r24, r25"),
            (0xb7cd, None, "in r28, 0x3d"),
            (0xbfde, None, "out 0x3e, r29"),
            (0x94f8, None, "cli "),
            (0x9478, None, "sei "),
            (0x9518, None, "reti "),
            (0xf409, None, "brne "),
            (0xff80, None, "sbrs r24, 0"),
        ] {
            let (mnemonic, operands) = text(insn, second).unwrap();
            assert_eq!(format!("{mnemonic} {operands}"), expected, "{insn:#06x}");
        }
        assert_eq!(text(0x0001, None), None);
        assert_eq!(text(0x9180, None), None, "cut short");
    }
}
