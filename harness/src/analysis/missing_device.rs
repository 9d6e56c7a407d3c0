// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a run that may have failed because its machine lacks a device: only then do other machines and chips help.
//!
//! A wild pointer also leads to an address without a device. So the address must be one where chips have registers.

use crate::chip::{self, Chip};
use crate::profile::no_progress::Device;
use crate::profile::{End, Facts, Profile};

/// Part of a Cortex-M's address space that belongs to the vendor's peripherals (ARM DDI 0403E B3.1).
const ARM_PERIPHERALS: std::ops::Range<u64> = 0x4000_0000..0x6000_0000;

/// Part of a Cortex-M's address space for RAM within the chip: a stack that overflows leads to its edges.
const ARM_RAM: std::ops::Range<u64> = 0x2000_0000..0x4000_0000;

/// Bytes from address 0 on that a null pointer leads to, with an offset.
const NULL_BYTES: u64 = 0x1000;

/// Part of the address space that has the devices of QEMU's RISC-V machines and of the known chips: from the CLINT at
/// 0x02000000 to the peripherals of an ESP32-C3 at 0x60000000. RISC-V itself reserves none.
const RISCV_DEVICES: std::ops::Range<u64> = 0x0200_0000..0x6100_0000;

/// Address of the register that the run waited for, or faulted at, and that another machine or chip may have. None: the
/// end of the run has another reason.
pub fn address(profile: &Profile) -> Option<u64> {
    let Facts { end, only, .. } = &profile.facts;
    if let Some(poll) = &only.poll {
        return Some(poll.address);
    }
    let handler = only.handler.as_ref().filter(|handler| handler.is_fault);
    if let Some(Device::Named(_)) = handler.and_then(|handler| handler.device.as_ref()) {
        return None;
    }
    let words = match end {
        End::LockUp { fault, .. } => Some(fault.as_str()),
        End::Faulting { .. } => handler.and_then(|handler| handler.fault.as_deref()),
        _ => None,
    };
    accessed(words?).filter(|&address| may_have_register(profile, address))
}

/// Whether chips have registers, or memory for the vendor's data, at an address.
pub fn may_have_register(profile: &Profile, address: u64) -> bool {
    let is_arm = profile.facts.is_arm();
    if address < NULL_BYTES || is_arm && ARM_RAM.contains(&address) {
        return false;
    }
    let devices = if is_arm { ARM_PERIPHERALS } else { RISCV_DEVICES };
    let is_alike = |chip: &Chip| chip.cpu.starts_with("cortex-") == is_arm;
    devices.contains(&address) || chip::built_in().iter().any(|chip| is_alike(chip) && chip.holds(address))
}

/// Address in the words of a fault: `BusFault: data access at address 0x40034000`.
fn accessed(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once("at address 0x")?;
    let digits = rest.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(rest.len());
    u64::from_str_radix(&rest[..digits], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    fn locked_up(fault: &str) -> Profile {
        let mut profile = empty();
        profile.facts.end = End::LockUp { pc: 0x40, fault: fault.to_owned() };
        profile
    }

    #[test]
    fn a_fault_at_a_register_may_come_from_the_wrong_machine() {
        let at =
            |address: u64| super::address(&locked_up(&format!("BusFault: data access at address {address:#010x}")));
        for address in [0x4003_4000, 0x5000_0000] {
            assert_eq!(at(address), Some(address), "{address:#x}");
        }
        // The nRF52's factory information, and the RP2040's SIO.
        assert_eq!([at(0x1000_0130), at(0xd000_0000)], [Some(0x1000_0130), Some(0xd000_0000)]);
        // A wild pointer, a stack that has left the RAM, and a fault without an address.
        assert_eq!([at(0xdead_bef3), at(0x1ffe_fffc), at(0x2040_0000), at(0xffff_fff0)], [None; 4]);
        assert_eq!(address(&locked_up("UsageFault: undefined instruction")), None);
    }

    #[test]
    fn only_a_fault_or_a_poll_is_about_a_device() {
        let mut profile = empty();
        let reset = End::Reset { pc: None, is_expected: false };
        for end in [End::Exit { status: 1, pc: 0x40 }, End::For, reset, End::Asleep { pc: 0x40 }] {
            profile.facts.end = end;
            assert_eq!(address(&profile), None);
        }
        let riscv = |address: u64| {
            let profile = locked_up(&format!("at address {address:#x}")).on_virt();
            super::address(&profile)
        };
        assert_eq!((riscv(0x1001_3000), riscv(0xf000_0000), riscv(0)), (Some(0x1001_3000), None, None));
    }
}
