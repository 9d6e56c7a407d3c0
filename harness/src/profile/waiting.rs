// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that only waits, such as `delay()` of Arduino's core: the instructions that it takes, with all that it calls.

use serde::{Deserialize, Serialize};

/// Code that only waits, and the instructions of what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Names of its functions, sorted; empty: the image has none.
    pub functions: Vec<String>,
    /// Code of these functions, inlined or not; sorted, without overlap.
    pub code: Vec<WaitingCode>,
    /// Addresses of the calls in that code, sorted.
    pub calls: Vec<u64>,
    /// Instructions from such a call, included, to its return, without those of interrupts in between.
    pub called_insns: u64,
    /// Number of findings by which the instructions are only a bound: calls whose return was not seen, or that came within
    /// another such call, which are counted twice, and code that may leave a function without a return.
    pub unsure: u64,
}

/// Range of code that only waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingCode {
    /// First address, load bias included.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Index of the function in [`Waiting::functions`].
    pub function: u32,
}

impl Waiting {
    /// Function whose code an address is in; None: it is in no code that waits.
    pub fn function_at(&self, pc: u64) -> Option<&str> {
        let after = self.code.partition_point(|code| code.start <= pc);
        let code = self.code.get(after.checked_sub(1)?).filter(|code| pc < code.end)?;
        self.functions.get(code.function as usize).map(String::as_str)
    }

    /// Instructions of code with these executions by address, and of what it called.
    pub fn insns(&self, executions: impl Iterator<Item = (u64, u64)>, called_insns: u64) -> u64 {
        if self.code.is_empty() {
            return 0;
        }
        // A call's own instruction is among those of the call.
        let is_own = |pc: u64| self.function_at(pc).is_some() && self.calls.binary_search(&pc).is_err();
        let own = executions.filter(|&(pc, _)| is_own(pc)).map(|(_, count)| count);
        own.fold(called_insns, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_with_what_it_calls_and_code_beside_it_not_at_all() {
        let code = |start, end, function| WaitingCode { start, end, function };
        let waiting = Waiting {
            functions: vec!["delay".to_owned(), "delayMicroseconds".to_owned()],
            code: vec![code(0x10, 0x18, 0), code(0x20, 0x24, 1)],
            calls: vec![0x14],
            called_insns: 0,
            unsure: 0,
        };
        let executions = [(0xe, 1), (0x10, 10), (0x14, 100), (0x16, 1_000), (0x18, 7), (0x22, 10_000), (0x24, 9)];
        assert_eq!(waiting.insns(executions.into_iter(), 500), 10 + 1_000 + 10_000 + 500);
        assert_eq!(Waiting::default().insns(executions.into_iter(), 0), 0);
        assert_eq!((waiting.function_at(0x17), waiting.function_at(0x18)), (Some("delay"), None));
    }
}
