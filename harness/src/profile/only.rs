//! What alone firmware did up to the end of its window, where that is nothing that it was built to do.

use serde::{Deserialize, Serialize};

/// Instructions for which nothing else must have run before it is taken to be so for ever, or a tenth of the window.
const LONG_INSNS: u64 = 1_000_000;

/// What alone the firmware did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Only {
    /// An exception's handler ran, and nothing else.
    pub handler: Option<OnlyHandler>,
    /// One register of a device was read over and over.
    pub poll: Option<OnlyPoll>,
    /// One loop took most of the window, and nothing new executed in its second half, whatever interrupts did.
    pub standstill: Option<Standstill>,
}

/// A loop that waits for what does not come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standstill {
    /// Its first instruction, in the function that went on in the whole second half of the window.
    pub pc: u64,
    /// Instructions of the window that it took, with what it calls.
    pub insns: u64,
    /// The register of a device that it reads; None: it has no end.
    pub register: Option<OnlyPoll>,
    /// Where the call is that led to an endless loop and was to return.
    pub call: Option<u64>,
}

/// A handler that was entered and not left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyHandler {
    /// Exception number, or cause with the highest of 64 bits for interrupts.
    pub number: u64,
    /// First address of the handler.
    pub handler: u64,
    /// Address of the instruction that it came at.
    pub pc: u64,
    /// Instructions of the window before it.
    pub since_insns: u64,
    /// How often it came: what it returns to faults again, or the handler does.
    pub times: u64,
    /// The fault in words, if it is one and the processor says more than its number.
    pub fault: Option<String>,
    /// What answers at the address that the fault is about.
    pub device: Option<Device>,
    /// Whether it is a fault; otherwise its handler is an endless loop.
    pub is_fault: bool,
    /// Whether an interrupt that is enabled could still interrupt the loop: firmware may idle so.
    pub yields: bool,
}

/// A register of a device that was read over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyPoll {
    /// Address of the instruction that reads it.
    pub pc: u64,
    /// Address of the register.
    pub address: u64,
    /// What it read each time.
    pub value: u64,
    /// How often.
    pub times: u64,
    /// Instructions of the window up to the first of these reads.
    pub since_insns: u64,
    /// What answers at the address.
    pub device: Option<Device>,
}

/// What the machine has at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// Nothing.
    None,
    /// A region of that name, which stands in for a device that QEMU does not emulate.
    Stub(String),
    /// One of that name.
    Named(String),
}

/// Whether what began there lasted long enough, up to the end of a window of so many instructions.
pub fn is_long(since_insns: u64, window_insns: u64) -> bool {
    window_insns.saturating_sub(since_insns) >= LONG_INSNS.min((window_insns / 10).max(1))
}

#[cfg(test)]
mod tests {
    use super::is_long;

    #[test]
    fn long_is_a_million_instructions_or_a_tenth_of_the_window() {
        assert!(is_long(1_000_000, 2_000_000) && is_long(99_000_000, 100_000_000));
        assert!(is_long(900, 1_000) && !is_long(901, 1_000));
        assert!(!is_long(99_000_001, 100_000_000));
        assert!(!is_long(0, 0) && !is_long(5, 5));
    }
}
