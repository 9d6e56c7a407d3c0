// SPDX-License-Identifier: MIT OR Apache-2.0
//! Base machines: machines of QEMU that have a chip's core, and to which the plugin adds the rest of the chip.

use std::ops::Range;

/// Processors that a chip may have, each with a machine of QEMU that has the processor. The plugin lays the chip's
/// memory and registers over that machine.
pub(crate) const BASES: [(&str, &str); 11] = [
    ("cortex-m0", "microbit"),
    ("cortex-m3", "mps2-an385"),
    ("cortex-m4", "mps2-an386"),
    ("cortex-m7", "mps2-an500"),
    // It starts in the secure state, in which all memory is secure until the firmware divides it.
    ("cortex-m33", "mps2-an505"),
    // QEMU's machine that has nothing but a processor.
    ("rv32imac", "none"),
    ("rv32imc", "none"),
    ("rv32ec", "none"),
    ("avr5", "uno"),
    ("avr51", "mega"),
    ("avr6", "mega2560"),
];

/// Whether a processor's machine keeps its memory and its own devices, to which a chip file adds those that QEMU lacks.
pub(crate) fn is_addition(cpu: &str) -> bool {
    cpu.starts_with("avr")
}

/// A chip's RISC-V processor.
pub(crate) struct RiscvCore {
    /// Name in a chip file.
    pub(crate) name: &'static str,
    /// Argument of `-cpu`.
    pub(crate) cpu: &'static str,
    /// Extensions that it executes, as an ISA string.
    pub(crate) extensions: &'static str,
}

const RISCV: [RiscvCore; 3] = [
    RiscvCore {
        name: "rv32imac",
        cpu: "rv32i,m=true,a=true,c=true,u=true,pmp=true,sv32=false,zicsr=true,zifencei=true,zicntr=true,zihpm=true",
        extensions: "imac_zicsr_zifencei_zicntr_zihpm",
    },
    RiscvCore {
        name: "rv32imc",
        cpu: "rv32i,m=true,c=true,u=true,pmp=true,sv32=false,zicsr=true,zifencei=true,zicntr=true,zihpm=true",
        extensions: "imc_zicsr_zifencei_zicntr_zihpm",
    },
    RiscvCore {
        name: "rv32ec",
        cpu: "rv32e,c=true,sv32=false,zicsr=true,zifencei=true",
        extensions: "ec_zicsr_zifencei",
    },
];

/// The RISC-V processor of a name; None: there is none, or it is another processor.
pub(crate) fn riscv(cpu: &str) -> Option<&'static RiscvCore> {
    RISCV.iter().find(|core| core.name == cpu)
}

/// Address up to which a processor's addresses are the chip's; those above are a Cortex-M's own registers.
pub(crate) fn own_end(cpu: &str) -> u64 {
    if riscv(cpu).is_some() { 1 << 32 } else { 0xe000_0000 }
}

/// Addresses at which Cortex-M3 and M4 have each bit of the peripherals as a word, and the first such peripheral
/// (Armv7-M ARM, B3.1).
const BIT_BAND: Range<u64> = 0x4200_0000..0x4400_0000;
const BITS_START: u64 = 0x4000_0000;

/// Word and number of the bit that an address of a processor's bit band stands for; None: the address is not in a bit
/// band.
pub(crate) fn bit_alias(cpu: &str, address: u64) -> Option<(u64, u32)> {
    let has_bit_band = matches!(cpu, "cortex-m3" | "cortex-m4");
    if !has_bit_band || !BIT_BAND.contains(&address) {
        return None;
    }
    let bit = (address - BIT_BAND.start) / 4;
    Some((BITS_START + bit / 32 * 4, (bit % 32) as u32))
}
