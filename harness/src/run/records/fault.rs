// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of faults, from the fault registers that the plugin read.

/// Describes an Armv7-M fault status (ARM DDI 0403E B3.2.15 to B3.2.18).
pub(crate) fn describe_fault(cfsr: u64, hfsr: u64, mmfar: u64, bfar: u64) -> Option<String> {
    let bit = |register: u64, bit: u32| register >> bit & 1 == 1;
    let mut faults = Vec::new();
    for (number, text) in [
        (0, "MemManage: instruction fetch from memory that may not be executed"),
        (1, "MemManage: data access violation"),
        (3, "MemManage: unstacking for an exception return failed"),
        (4, "MemManage: stacking for an exception failed"),
        (8, "BusFault: instruction fetch"),
        (9, "BusFault: data access"),
        (10, "BusFault: imprecise data access"),
        (11, "BusFault: unstacking for an exception return failed"),
        (12, "BusFault: stacking for an exception failed"),
        (16, "UsageFault: undefined instruction"),
        (17, "UsageFault: invalid state (Thumb bit clear)"),
        (18, "UsageFault: invalid EXC_RETURN"),
        (19, "UsageFault: no coprocessor (FPU off)"),
        (20, "UsageFault: stack overflow (below the stack limit)"),
        (24, "UsageFault: unaligned access"),
        (25, "UsageFault: division by zero"),
    ] {
        if bit(cfsr, number) {
            let address = match number {
                1 if bit(cfsr, 7) => format!(" at address {mmfar:#010x}"),
                9 if bit(cfsr, 15) => format!(" at address {bfar:#010x}"),
                _ => String::new(),
            };
            faults.push(format!("{text}{address}"));
        }
    }
    if bit(hfsr, 1) {
        faults.push("HardFault: the vector table could not be read".to_owned());
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Address of the access that the bus refused (CFSR's BFARVALID, MMARVALID).
pub(in crate::run) fn fault_address(cfsr: u64, mmfar: u64, bfar: u64) -> Option<u64> {
    let bit = |bit: u32| cfsr >> bit & 1 == 1;
    if bit(15) { Some(bfar) } else { bit(7).then_some(mmfar) }
}

/// Meaning of mtval or stval for a cause (RISC-V Privileged Architecture, "Machine Trap Value (mtval) Register"), and
/// the address of the access.
pub(crate) fn riscv_fault(cause: u64, value: u64) -> (Option<String>, Option<u64>) {
    match cause {
        0 | 1 | 4..=7 | 12 | 13 | 15 => {
            let access = matches!(cause, 1 | 5 | 7).then_some(value);
            (Some(format!("at address {value:#x}")), access)
        }
        2 if value != 0 => (Some(format!("{value:#x}")), None),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_said_in_words() {
        let fault = describe_fault(1 << 9 | 1 << 15, 1 << 30, 0, 0xf000_0000).unwrap();
        assert_eq!(fault, "BusFault: data access at address 0xf0000000");
        assert_eq!(describe_fault(0, 0, 0, 0), None);
    }
}
