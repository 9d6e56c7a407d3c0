// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a window that ended without progress: in one handler, or polling one register.

use serde::{Deserialize, Serialize};

/// Instructions without other activity after which it counts as permanent; or a tenth of the window, if that is less.
const LONG_INSNS: u64 = 1_000_000;

/// Activity that the firmware was stuck in at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Only {
    /// Exception handler that ran alone.
    pub handler: Option<OnlyHandler>,
    /// Device register that was read over and over.
    pub poll: Option<OnlyPoll>,
    /// One loop that waits took most of the window, and nothing new executed in its second half, whatever interrupts did.
    pub standstill: Option<Standstill>,
    /// Whether no enabled interrupt could interrupt the code at which the window ended.
    pub is_final: bool,
    /// Whether the firmware held back interrupts there that it had enabled.
    pub is_masked: bool,
}

/// A loop that waits without end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standstill {
    /// First instruction of the loop, in the function that executed throughout the second half of the window.
    pub pc: u64,
    /// Instructions of the window in the loop and in the functions that it calls.
    pub insns: u64,
    /// Device register that the loop reads.
    pub register: OnlyPoll,
}

/// Exception handler that was entered and not left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyHandler {
    /// Exception number, or cause with bit 63 set for interrupts.
    pub number: u64,
    /// First address of the handler.
    pub handler: u64,
    /// Address of the instruction that the exception came at.
    pub pc: u64,
    /// Return address register at that instruction: if it is not code, the address after the call that led there.
    pub return_addr: u64,
    /// Stack pointer of the interrupted code, if it had left the memory.
    pub left_sp: Option<u64>,
    /// Instructions of the window before the exception.
    pub since_insns: u64,
    /// Times that the exception came: the code it returns to faults again, or the handler itself does.
    pub times: u64,
    /// Fault in words, if it is a fault and the processor says more than its number.
    pub fault: Option<String>,
    /// Device at the address that the fault is about.
    pub device: Option<Device>,
    /// Whether the exception is a fault; otherwise its handler is an endless loop.
    pub is_fault: bool,
    /// Whether an enabled interrupt could still interrupt the loop: firmware may idle so.
    pub yields: bool,
}

/// Device register that was read over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlyPoll {
    /// Address of the reading instruction.
    pub pc: u64,
    /// Address of the register.
    pub address: u64,
    /// Value of each read.
    pub value: u64,
    /// Number of reads.
    pub times: u64,
    /// Instructions of the window up to the first of these reads.
    pub since_insns: u64,
    /// Device at the address.
    pub device: Option<Device>,
}

/// The stores of one instruction to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStore {
    /// Address of the instruction.
    pub pc: u64,
    /// Address of the register, at the last store.
    pub address: u64,
    /// Instructions of the window up to the last store.
    pub last_insns: u64,
    /// Instructions of the window up to the last store that differed from the one before.
    pub changed_insns: u64,
}

/// Device that the machine has at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// No device.
    None,
    /// Region of that name, which stands in for a device that QEMU does not emulate.
    Stub(String),
    /// Emulated device of that name.
    Named(String),
}

/// Words in the names of devices that firmware reads its console from.
const SERIAL: [&str; 4] = ["uart", "usart", "serial", "pl011"];

impl Device {
    /// Whether its name says that it is a serial interface.
    pub fn is_serial(&self) -> bool {
        let Device::Named(name) = self else { return false };
        let name = name.to_ascii_lowercase();
        SERIAL.iter().any(|word| name.contains(word))
    }
}

/// Whether an activity that began after `since_insns` lasted long enough, up to the end of a window of
/// `window_insns`.
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
