//! The beginning and the end of a program in avr-libc. It begins with pieces that run into each other (`.init0` to `.init9`),
//! the last of which calls `main` and jumps to `exit`. `exit` masks the interrupts and loops for ever: AVR has no other way
//! to say that a program has ended.

use std::ops::Range;

use decode::{Flow, Isa, decode};
use object::{Object as _, ObjectSymbol as _};

/// Label of the loop.
const LABEL: &str = "__stop_program";

/// Address of the loop in an ELF file. None: there is none, or the file has no symbols.
pub fn exit_loop(elf: Option<&[u8]>) -> Option<u64> {
    let file = object::File::parse(elf?).ok()?;
    file.symbols().find(|symbol| symbol.name() == Ok(LABEL)).map(|symbol| symbol.address())
}

/// Name of the start-up code's first piece.
pub const START_UP: &str = "__init";

/// The start-up code, which begins at `entry`. It is one function: nothing has called its pieces, and stacks begin in it.
/// None: no call of `main` is there.
pub fn start_up<'a>(entry: u64, code_at: impl Fn(u64) -> Option<&'a [u8]>) -> Option<Range<u64>> {
    let mut was_call = false;
    let mut pc = entry;
    while pc - entry <= MAX_START_UP_BYTES {
        let insn = decode(Isa::Avr, pc, code_at(pc)?);
        pc += u64::from(insn.len_bytes);
        if was_call && matches!(insn.flow, Flow::Jump { .. }) {
            return Some(entry..pc);
        }
        was_call = insn.flow.is_call();
    }
    None
}

/// More than the start-up code of any program: constructors, and copies of data and of nothing else.
const MAX_START_UP_BYTES: u64 = 512;

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
}
