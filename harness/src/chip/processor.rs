// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the processor's own registers (Armv7-M ARM, B3), which belong to every Cortex-M.

/// Registers by address.
const REGISTERS: [(u64, &str); 33] = [
    (0xe000_1000, "DWT.CTRL"),
    (0xe000_1004, "DWT.CYCCNT"),
    (0xe000_e004, "SCB.ICTR"),
    (0xe000_e008, "SCB.ACTLR"),
    (0xe000_e010, "SysTick.CTRL"),
    (0xe000_e014, "SysTick.LOAD"),
    (0xe000_e018, "SysTick.VAL"),
    (0xe000_e01c, "SysTick.CALIB"),
    (0xe000_ed00, "SCB.CPUID"),
    (0xe000_ed04, "SCB.ICSR"),
    (0xe000_ed08, "SCB.VTOR"),
    (0xe000_ed0c, "SCB.AIRCR"),
    (0xe000_ed10, "SCB.SCR"),
    (0xe000_ed14, "SCB.CCR"),
    (0xe000_ed18, "SCB.SHPR1"),
    (0xe000_ed1c, "SCB.SHPR2"),
    (0xe000_ed20, "SCB.SHPR3"),
    (0xe000_ed24, "SCB.SHCSR"),
    (0xe000_ed28, "SCB.CFSR"),
    (0xe000_ed2c, "SCB.HFSR"),
    (0xe000_ed34, "SCB.MMFAR"),
    (0xe000_ed38, "SCB.BFAR"),
    (0xe000_ed88, "SCB.CPACR"),
    (0xe000_ed90, "MPU.TYPE"),
    (0xe000_ed94, "MPU.CTRL"),
    (0xe000_ed98, "MPU.RNR"),
    (0xe000_ed9c, "MPU.RBAR"),
    (0xe000_eda0, "MPU.RASR"),
    (0xe000_edf0, "DCB.DHCSR"),
    (0xe000_edfc, "DCB.DEMCR"),
    (0xe000_ef00, "NVIC.STIR"),
    (0xe000_ef34, "FPU.FPCCR"),
    (0xe000_ef38, "FPU.FPCAR"),
];

/// Bits of SysTick.CTRL, which firmware polls.
const SYSTICK_CTRL: (u64, [(&str, u32); 4]) =
    (0xe000_e010, [("ENABLE", 1), ("TICKINT", 1 << 1), ("CLKSOURCE", 1 << 2), ("COUNTFLAG", 1 << 16)]);

/// First addresses of NVIC's arrays, the addresses behind them, and their names.
const ARRAYS: [(u64, u64, &str); 6] = [
    (0xe000_e100, 0xe000_e140, "NVIC.ISER"),
    (0xe000_e180, 0xe000_e1c0, "NVIC.ICER"),
    (0xe000_e200, 0xe000_e240, "NVIC.ISPR"),
    (0xe000_e280, 0xe000_e2c0, "NVIC.ICPR"),
    (0xe000_e300, 0xe000_e340, "NVIC.IABR"),
    (0xe000_e400, 0xe000_e5f0, "NVIC.IPR"),
];

/// Name of the register at an address; None: the processor has none there that is known by name.
pub(super) fn name_of(address: u64) -> Option<String> {
    let word = address & !3;
    if let Ok(index) = REGISTERS.binary_search_by_key(&word, |(address, _)| *address) {
        return Some(REGISTERS[index].1.to_owned());
    }
    let (start, _, name) = ARRAYS.iter().find(|(start, end, _)| (*start..*end).contains(&word))?;
    Some(format!("{name}{}", (word - start) / 4))
}

/// Fields of the register at an address, as far as firmware polls them.
pub(super) fn fields_of(address: u64) -> &'static [(&'static str, u32)] {
    if address == SYSTICK_CTRL.0 { &SYSTICK_CTRL.1 } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_in_order_and_found() {
        assert!(REGISTERS.is_sorted());
        assert_eq!(name_of(0xe000_e010).as_deref(), Some("SysTick.CTRL"));
        assert_eq!(name_of(0xe000_e40d).as_deref(), Some("NVIC.IPR3"));
        assert_eq!(name_of(0xe000_e500 - 0x100 + 0x1f0), None);
    }
}
