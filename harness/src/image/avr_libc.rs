// SPDX-License-Identifier: MIT OR Apache-2.0
//! The beginning and the end of a program in avr-libc. It begins with pieces that run into each other (`.init0` to `.init9`),
//! the last of which calls `main` and jumps to `exit`. `exit` masks the interrupts and loops for ever: AVR has no other way
//! to say that a program has ended.

use std::ops::Range;

use decode::{Flow, Isa, decode};
use object::{Object as _, ObjectSymbol as _};

/// Label of the loop.
const LOOP: &str = "__stop_program";

/// Label of `exit` itself. From there to the loop come the destructors of C++'s static objects, which change the registers.
pub const EXIT: &str = "_exit";

/// Address of the loop in an ELF file. None: there is none, or the file has no symbols.
pub fn exit_loop(elf: Option<&[u8]>) -> Option<u64> {
    address(elf, LOOP)
}

/// Address of `exit` in an ELF file, as [`exit_loop`].
pub fn exit(elf: Option<&[u8]>) -> Option<u64> {
    address(elf, EXIT)
}

/// Code of `exit` and its loop, which is one function, by the addresses of both. The symbols leave out what lies between.
/// None: they are not near each other.
pub fn whole_exit(exit: u64, exit_loop: u64) -> Option<Range<u64>> {
    let bytes = exit_loop.checked_sub(exit)?;
    (bytes <= MAX_EXIT_BYTES).then(|| exit..exit_loop + JUMP_BYTES)
}

fn address(elf: Option<&[u8]>, label: &str) -> Option<u64> {
    let file = object::File::parse(elf?).ok()?;
    file.symbols().find(|symbol| symbol.name() == Ok(label)).map(|symbol| symbol.address())
}

/// Address of the loop in code without symbols: the start-up code, which begins at `entry`, jumps to `exit`, which runs the
/// destructors' code before it. None: it is not there.
pub fn exit_loop_in_code<'a>(entry: u64, code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Option<u64> {
    let (_, first) = leaving_start_up(entry, &code_at)?;
    let mut pc = first;
    while pc - first <= MAX_EXIT_BYTES {
        let code = code_at(pc)?;
        let insn = decode(Isa::AvrPc16, pc, code);
        let next = pc + u64::from(insn.len_bytes);
        if code.starts_with(&CLI) && decode(Isa::AvrPc16, next, code_at(next)?).flow == (Flow::Jump { target: next })
        {
            return Some(next);
        }
        pc = next;
    }
    None
}

/// Name of the start-up code's first piece.
pub const START_UP: &str = "__init";

/// The start-up code, which begins at `entry`. It is one function: nothing has called its pieces, and stacks begin in it.
/// None: no call of `main` is there.
pub fn start_up<'a>(entry: u64, code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Option<Range<u64>> {
    leaving_start_up(entry, code_at).map(|(end, _)| entry..end)
}

/// End of the start-up code, and the address that it jumps to after `main`.
fn leaving_start_up<'a>(entry: u64, code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Option<(u64, u64)> {
    let mut was_call = false;
    let mut pc = entry;
    while pc - entry <= MAX_START_UP_BYTES {
        let insn = decode(Isa::AvrPc16, pc, code_at(pc)?);
        pc += u64::from(insn.len_bytes);
        if was_call && let Flow::Jump { target } = insn.flow {
            return Some((pc, target));
        }
        was_call = insn.flow.is_call();
    }
    None
}

/// More than the start-up code of any program: constructors, and copies of data and of nothing else.
const MAX_START_UP_BYTES: u64 = 512;

/// More than the code of any program between `exit` and its loop: the call of destructors.
const MAX_EXIT_BYTES: u64 = 256;

/// Size of the jump that is the loop.
const JUMP_BYTES: u64 = 2;

/// Code of `cli`.
const CLI: [u8; 2] = 0x94f8_u16.to_le_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_code_ends_behind_the_call_of_main() {
        // eor r1, r1; rjmp .+2; nop; nop; rcall .+8 (main); rjmp .+8 (exit); nop
        let code: Vec<u8> =
            [0x2411_u16, 0xc001, 0, 0, 0xd004, 0xc004, 0].iter().flat_map(|insn| insn.to_le_bytes()).collect();
        let code_at = |address: u64| code.get((address - 0x68) as usize..).filter(|code| !code.is_empty());
        assert_eq!(start_up(0x68, code_at), Some(0x68..0x74));
        assert_eq!(start_up(0x74, code_at), None, "no call of main");
    }

    #[test]
    fn exit_is_one_function_with_its_loop() {
        assert_eq!(whole_exit(0x8ca, 0x8e2), Some(0x8ca..0x8e4));
        assert_eq!((whole_exit(0x8e2, 0x8ca), whole_exit(0, u64::MAX)), (None, None));
    }

    #[test]
    fn the_loop_of_exit_is_found_by_its_code() {
        // rcall .+6 (main); rjmp .+6 (exit); nop; nop; ret; nop (of a destructor); cli; rjmp .-2
        let mut insns = [0xd003_u16, 0xc003, 0, 0, 0x9508, 0, 0x94f8, 0xcfff];
        let found = |insns: &[u16]| {
            let code: Vec<u8> = insns.iter().flat_map(|insn| insn.to_le_bytes()).collect();
            exit_loop_in_code(0x68, |address| code.get((address - 0x68) as usize..).filter(|code| !code.is_empty()))
        };
        assert_eq!(found(&insns), Some(0x68 + 14));
        // rjmp .-4: a loop of the firmware's own, of two instructions.
        insns[7] = 0xcffe;
        assert_eq!(found(&insns), None);
    }
}
