// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of the machines that QEMU emulates, one row each.
//!
//! These facts were read from QEMU 10.0.2, and `tests/image/machine.rs` reads them again:
//! - memory, by which a machine is chosen: `qemu-system-arm -M NAME -display none -S -monitor stdio <<< 'info mtree
//!   -f'`, the view `cpu-memory-0` (mirrors of the same memory are left out if no firmware uses them). Before a run
//!   reads memory, the machine itself is asked (`run/qemu/memory.rs`);
//! - processors: `info qom-tree`; instructions that their FPU executes were found by trying one of each kind;
//! - AVR: `qemu-system-avr -M NAME -display none -S -monitor stdio <<< 'info mtree -f'`;
//! - RISC-V extensions: `riscv,isa-extensions` of `qemu-system-riscv64 -M virt,dumpdtb=FILE`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use crate::image::{Arch, ArmLevel, Fpu, Image, show_range};

/// Use of a stretch of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Loaded before the start and read-only afterwards.
    Rom,
    /// Everything: code, data, stack.
    Ram,
    /// The Non-secure alias of memory on a machine with TrustZone. A part of an image may be loaded here. But the
    /// processor starts in the Secure state and can neither run from it nor (until the firmware allows it) store to
    /// it.
    NonSecure,
    /// Settings that a programmer writes beside the code. QEMU has a device there, which begins erased, or nothing, so
    /// the image's bytes for it are left out.
    Settings,
    /// Contents of a device's memory, which no instruction reaches by an address. The machine's chip file has the device, and gives
    /// it the image's bytes.
    Contents,
}

/// Stretch of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Use: code, data, both, or the Non-secure view of them.
    pub kind: MemoryKind,
    /// Name in the machine's documentation.
    pub name: &'static str,
}

impl Region {
    /// Range from the first address to the one after the last.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    /// Whether the firmware can write to it.
    pub fn is_writable(&self) -> bool {
        matches!(self.kind, MemoryKind::Ram | MemoryKind::NonSecure)
    }

    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start + self.bytes
    }
}

/// QEMU's option that passes the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOption {
    /// `-bios FILE`: the boot ROM jumps to the ELF's entry (with `-kernel` it would jump to the start
    /// of RAM whatever the ELF says).
    Bios,
    /// `-kernel FILE`: the image is loaded, and the processor starts from the vector table.
    Kernel,
    /// `-device loader,file=FILE`: the image is loaded, and the first processor starts at the ELF's entry.
    Loader,
}

/// The processor of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// M-profile Arm.
    Arm {
        /// QEMU's name for the processor.
        cpu: &'static str,
        /// Newest architecture that it executes.
        level: ArmLevel,
        /// Its floating-point unit.
        fpu: Fpu,
        /// Address of the vector table at reset.
        vector_table: u64,
        /// Other address of the same memory, for which images may be linked instead.
        vector_table_alias: Option<u64>,
    },
    /// Configurable RISC-V.
    Riscv,
    /// RISC-V with fixed extensions.
    RiscvChip {
        /// QEMU's name for the processor.
        cpu: &'static str,
        /// Extensions that it executes, as an ISA string.
        extensions: &'static str,
        /// Address at which it starts, whatever the ELF says; None: where the ELF says.
        start: Option<u64>,
    },
    /// AVR.
    Avr {
        /// The device.
        device: &'static str,
        /// Its family of cores, as ELF files number it.
        family: u32,
    },
    /// Unknown processor of a machine that is not in the table.
    Unknown,
}

/// Machine that QEMU emulates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The argument of QEMU's `-M`.
    pub name: Cow<'static, str>,
    /// The emulator's command.
    pub qemu: &'static str,
    /// The processor family.
    pub arch: Arch,
    /// The processor.
    pub core: Core,
    /// The instruction set, as [`decode::Isa`] names it.
    pub isa: &'static str,
    /// `-icount shift=`: an instruction takes 2^shift ns of virtual time, nearest the real clock.
    pub shift: u8,
    /// Option that passes the image.
    pub load: LoadOption,
    /// The largest `-smp`.
    pub max_cpus: u32,
    /// Number of CPUs up to which each is in a cluster of its own, and executes only what QEMU has translated for it
    /// alone. Generated code can then count. With more CPUs, all are counted by callbacks.
    pub unshared_cpus: u32,
    /// Whether the machine joined the table later. It is chosen only if no earlier machine fits, so that no image
    /// changes its machine, and with it its numbers.
    pub is_late: bool,
    /// Addresses of the machine's boot ROM, if that executes before the firmware.
    pub boot_rom: Option<RangeInclusive<u64>>,
    /// Address of a device by which firmware ends the run: a store of 0x5555 (pass) or 0x3333 (fail) in its low half.
    pub finisher: Option<u64>,
    /// Address of the image's `_exit`, where the firmware's status is an argument.
    pub exit: Option<u64>,
    /// All memory of the machine, main RAM first; empty for a machine that is not in the table.
    pub memory: Cow<'static, [Region]>,
    /// Chip to which the machine is completed, by its name for messages.
    pub chip: Option<String>,
    /// Built-in chip file with the devices that QEMU's machine lacks, and that every run adds.
    pub added: Option<&'static str>,
}

/// Nanoseconds per instruction as a power of two, if the real clock is unknown (125 MHz).
pub(super) const DEFAULT_SHIFT: u8 = 3;
const K: u64 = 1024;
const M: u64 = 1024 * K;

const fn region(start: u64, bytes: u64, kind: MemoryKind, name: &'static str) -> Region {
    Region { start, bytes, kind, name }
}

const VIRT_MEMORY: &[Region] = &[
    region(0x8000_0000, 128 * M, MemoryKind::Ram, "RAM"),
    region(0x2000_0000, 32 * M, MemoryKind::Rom, "flash 0"),
    region(0x2200_0000, 32 * M, MemoryKind::Rom, "flash 1"),
];
const AN385_MEMORY: &[Region] = &[
    region(0x2000_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x0000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x0100_0000, 16 * K, MemoryKind::Ram, "block RAM"),
    region(0x2100_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
];
const AN500_MEMORY: &[Region] = &[
    region(0x2000_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x0000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x6000_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
];
// The SSRAMs are behind protection controllers; `info mtree -f` shows them as `tz-mpc-upstream`.
const AN505_MEMORY: &[Region] = &[
    region(0x3800_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x1000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x3000_0000, 32 * K, MemoryKind::Ram, "SRAM"),
    region(0x8000_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
    region(0x0000_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 1"),
    region(0x2000_0000, 32 * K, MemoryKind::NonSecure, "SRAM"),
    region(0x2800_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 2/3"),
];

// Each tightly coupled memory has two addresses, neither of them protected.
const AN547_MEMORY: &[Region] = &[
    region(0x3000_0000, 512 * K, MemoryKind::Ram, "DTCM"),
    region(0x2000_0000, 512 * K, MemoryKind::Ram, "DTCM"),
    region(0x0000_0000, 512 * K, MemoryKind::Ram, "ITCM"),
    region(0x1000_0000, 512 * K, MemoryKind::Ram, "ITCM"),
    region(0x1100_0000, 2 * M, MemoryKind::Ram, "SRAM"),
    region(0x3100_0000, 4 * M, MemoryKind::Ram, "internal SRAM"),
    region(0x3800_0000, 8 * M, MemoryKind::Rom, "QSPI flash"),
    region(0x7000_0000, 256 * M, MemoryKind::Ram, "DDR4"),
    region(0x0100_0000, 2 * M, MemoryKind::NonSecure, "SRAM"),
    region(0x2100_0000, 4 * M, MemoryKind::NonSecure, "internal SRAM"),
    region(0x2800_0000, 8 * M, MemoryKind::NonSecure, "QSPI flash"),
    region(0x6000_0000, 256 * M, MemoryKind::NonSecure, "DDR4"),
];

const fn virt(arch: Arch, qemu: &'static str, isa: &'static str) -> Machine {
    Machine {
        name: Cow::Borrowed("virt"),
        qemu,
        arch,
        core: Core::Riscv,
        isa,
        shift: 3,
        load: LoadOption::Bios,
        max_cpus: 512,
        unshared_cpus: 1,
        is_late: false,
        // hw/riscv/virt.c, VIRT_MROM and VIRT_TEST.
        boot_rom: Some(0x1000..=0xffff),
        finisher: Some(0x10_0000),
        exit: None,
        memory: Cow::Borrowed(VIRT_MEMORY),
        chip: None,
        added: None,
    }
}

const fn cortex_m(
    name: &'static str,
    core: Core,
    isa: &'static str,
    shift: u8,
    memory: &'static [Region],
) -> Machine {
    arm(name, core, isa, shift, memory, false)
}

/// Machine that joined the table later.
const fn late(name: &'static str, core: Core, isa: &'static str, shift: u8, memory: &'static [Region]) -> Machine {
    arm(name, core, isa, shift, memory, true)
}

const fn arm(
    name: &'static str,
    core: Core,
    isa: &'static str,
    shift: u8,
    memory: &'static [Region],
    is_late: bool,
) -> Machine {
    Machine {
        name: Cow::Borrowed(name),
        qemu: "qemu-system-arm",
        arch: Arch::CortexM,
        core,
        isa,
        shift,
        load: LoadOption::Kernel,
        max_cpus: 1,
        unshared_cpus: 1,
        is_late,
        boot_rom: None,
        finisher: None,
        exit: None,
        memory: Cow::Borrowed(memory),
        chip: None,
        added: None,
    }
}

/// Microcontroller of ST's: flash at 0x08000000, and also at 0.
const fn stm32(cpu: &'static str, level: ArmLevel, fpu: Fpu) -> Core {
    Core::Arm { cpu, level, fpu, vector_table: 0, vector_table_alias: Some(0x0800_0000) }
}

const E_MEMORY: &[Region] =
    &[region(0x8000_0000, 16 * K, MemoryKind::Ram, "RAM"), region(0x2000_0000, 512 * M, MemoryKind::Rom, "flash")];
/// Row of SiFive's board (hw/riscv/sifive_e.c): `-kernel` loads the image, and the boot ROM jumps to the address
/// after the bootloader.
const fn sifive_e(arch: Arch, qemu: &'static str, isa: &'static str, cpu: &'static str) -> Machine {
    Machine {
        name: Cow::Borrowed("sifive_e"),
        qemu,
        arch,
        core: Core::RiscvChip { cpu, extensions: "imac_zicsr_zifencei_zicntr_zihpm", start: Some(0x2040_0000) },
        isa,
        shift: 6,
        load: LoadOption::Kernel,
        max_cpus: 1,
        unshared_cpus: 1,
        is_late: false,
        boot_rom: Some(0x1000..=0x2fff),
        finisher: None,
        exit: None,
        memory: Cow::Borrowed(E_MEMORY),
        chip: None,
        added: None,
    }
}

/// QEMU's machine with nothing but a processor, which a RISC-V chip is added to. It is chosen for chips alone.
pub(super) const NONE: Machine = Machine {
    name: Cow::Borrowed("none"),
    qemu: "qemu-system-riscv32",
    arch: Arch::Riscv32,
    core: Core::Unknown,
    isa: "riscv32",
    shift: DEFAULT_SHIFT,
    load: LoadOption::Loader,
    max_cpus: 1,
    unshared_cpus: 1,
    is_late: false,
    boot_rom: None,
    finisher: None,
    exit: None,
    memory: Cow::Borrowed(&[]),
    chip: None,
    added: None,
};

const fn core(cpu: &'static str, level: ArmLevel, fpu: Fpu) -> Core {
    Core::Arm { cpu, level, fpu, vector_table: 0, vector_table_alias: None }
}

// Memory as the AN505's, with four banks of SRAM, and SSRAM 1 in one piece.
const AN521_MEMORY: &[Region] = &[
    region(0x3800_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x1000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x3000_0000, 128 * K, MemoryKind::Ram, "SRAM"),
    region(0x8000_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
    region(0x0000_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 1"),
    region(0x2000_0000, 128 * K, MemoryKind::NonSecure, "SRAM"),
    region(0x2800_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 2/3"),
];
/// Row with two Cortex-M33. The second waits until the first releases it (CPUWAIT). The first, which starts, has no
/// FPU; the second has one (hw/arm/armsse.c, CPU0_FPU).
const AN521: Machine = Machine {
    name: Cow::Borrowed("mps2-an521"),
    qemu: "qemu-system-arm",
    arch: Arch::CortexM,
    core: Core::Arm {
        cpu: "cortex-m33",
        level: ArmLevel::V8MMain,
        fpu: Fpu::None,
        vector_table: 0x1000_0000,
        vector_table_alias: None,
    },
    isa: "thumb-v8m",
    shift: 5,
    load: LoadOption::Kernel,
    max_cpus: 2,
    unshared_cpus: 2,
    is_late: true,
    boot_rom: None,
    finisher: None,
    exit: None,
    memory: Cow::Borrowed(AN521_MEMORY),
    chip: None,
    added: None,
};

const UNO_MEMORY: &[Region] = &avr_memory(0x100, 2 * K, 32 * K, K);
const A2009_MEMORY: &[Region] = &avr_memory(0x100, K, 16 * K, 512);
const MEGA_MEMORY: &[Region] = &avr_memory(0x200, 8 * K, 128 * K, 4 * K);
const MEGA2560_MEMORY: &[Region] = &avr_memory(0x200, 8 * K, 256 * K, 4 * K);

/// Memory of an AVR, from the offset of its RAM in the data space and the sizes. EEPROM and fuses have addresses in ELF files
/// alone (avr-libc's <avr/eeprom.h> and <avr/fuse.h>).
const fn avr_memory(ram_start: u64, ram_bytes: u64, flash_bytes: u64, eeprom_bytes: u64) -> [Region; 5] {
    [
        region(DATA + ram_start, ram_bytes, MemoryKind::Ram, "SRAM"),
        region(0, flash_bytes, MemoryKind::Rom, "flash"),
        region(DATA + 0x1_0000, eeprom_bytes, MemoryKind::Contents, "EEPROM"),
        region(DATA + 0x2_0000, 16, MemoryKind::Settings, "fuses"),
        region(DATA + 0x3_0000, 16, MemoryKind::Settings, "lock bits"),
    ]
}

/// Family of AVR cores with a program counter of 22 bits.
const AVR6: u32 = 6;

/// First address of AVR's data space.
const DATA: u64 = wire::chip::AVR_DATA.start;

/// Instruction set of a family of AVR cores.
pub(super) const fn avr_isa(family: u32) -> &'static str {
    if family == AVR6 { "avr-pc22" } else { "avr" }
}

/// Row of an Arduino board (hw/avr/arduino.c, hw/avr/atmega.c), at 16 MHz.
const fn avr(
    name: &'static str,
    device: &'static str,
    family: u32,
    memory: &'static [Region],
    added: &'static str,
) -> Machine {
    Machine {
        name: Cow::Borrowed(name),
        qemu: "qemu-system-avr",
        arch: Arch::Avr,
        core: Core::Avr { device, family },
        isa: avr_isa(family),
        shift: 6,
        load: LoadOption::Bios,
        max_cpus: 1,
        unshared_cpus: 1,
        is_late: false,
        boot_rom: None,
        finisher: None,
        exit: None,
        memory: Cow::Borrowed(memory),
        chip: None,
        added: Some(added),
    }
}

/// All machines that can be chosen, in the order of preference.
pub const MACHINES: &[Machine] = &[
    virt(Arch::Riscv64, "qemu-system-riscv64", "riscv64"),
    virt(Arch::Riscv32, "qemu-system-riscv32", "riscv32"),
    cortex_m(
        "microbit",
        core("cortex-m0", ArmLevel::V6M, Fpu::None),
        "thumb-v6m",
        6,
        &[
            region(0x2000_0000, 16 * K, MemoryKind::Ram, "RAM"),
            region(0x0000_0000, 256 * K, MemoryKind::Rom, "flash"),
            region(0x1000_1000, 256, MemoryKind::Settings, "UICR"),
        ],
    ),
    cortex_m("mps2-an385", core("cortex-m3", ArmLevel::V7M, Fpu::None), "thumb-v7m", 5, AN385_MEMORY),
    cortex_m(
        "lm3s6965evb",
        core("cortex-m3", ArmLevel::V7M, Fpu::None),
        "thumb-v7m",
        4,
        &[
            region(0x2000_0000, 64 * K, MemoryKind::Ram, "RAM"),
            region(0x0000_0000, 256 * K, MemoryKind::Rom, "flash"),
        ],
    ),
    cortex_m("mps2-an386", core("cortex-m4", ArmLevel::V7EM, Fpu::V4Single), "thumb-v7m", 5, AN385_MEMORY),
    cortex_m(
        "netduinoplus2",
        Core::Arm {
            cpu: "cortex-m4",
            level: ArmLevel::V7EM,
            fpu: Fpu::V4Single,
            vector_table: 0,
            vector_table_alias: Some(0x0800_0000),
        },
        "thumb-v7m",
        3,
        &[
            region(0x2000_0000, 128 * K, MemoryKind::Ram, "RAM"),
            region(0x0800_0000, M, MemoryKind::Rom, "flash"),
            region(0x0000_0000, M, MemoryKind::Rom, "flash"),
            region(0x1000_0000, 64 * K, MemoryKind::Ram, "CCM"),
        ],
    ),
    cortex_m("mps2-an500", core("cortex-m7", ArmLevel::V7EM, Fpu::V5Double), "thumb-v7m", 5, AN500_MEMORY),
    cortex_m(
        "mps2-an505",
        Core::Arm {
            cpu: "cortex-m33",
            level: ArmLevel::V8MMain,
            fpu: Fpu::V5Single,
            vector_table: 0x1000_0000,
            vector_table_alias: None,
        },
        "thumb-v8m",
        5,
        AN505_MEMORY,
    ),
    late(
        "stm32vldiscovery",
        stm32("cortex-m3", ArmLevel::V7M, Fpu::None),
        "thumb-v7m",
        5,
        &[
            region(0x2000_0000, 8 * K, MemoryKind::Ram, "RAM"),
            region(0x0800_0000, 128 * K, MemoryKind::Rom, "flash"),
            region(0x0000_0000, 128 * K, MemoryKind::Rom, "flash"),
        ],
    ),
    late(
        "netduino2",
        stm32("cortex-m3", ArmLevel::V7M, Fpu::None),
        "thumb-v7m",
        3,
        &[
            region(0x2000_0000, 128 * K, MemoryKind::Ram, "RAM"),
            region(0x0800_0000, M, MemoryKind::Rom, "flash"),
            region(0x0000_0000, M, MemoryKind::Rom, "flash"),
        ],
    ),
    late(
        "olimex-stm32-h405",
        stm32("cortex-m4", ArmLevel::V7EM, Fpu::V4Single),
        "thumb-v7m",
        3,
        &[
            region(0x2000_0000, 128 * K, MemoryKind::Ram, "RAM"),
            region(0x0800_0000, M, MemoryKind::Rom, "flash"),
            region(0x0000_0000, M, MemoryKind::Rom, "flash"),
            region(0x1000_0000, 64 * K, MemoryKind::Ram, "CCM"),
        ],
    ),
    late(
        "b-l475e-iot01a",
        stm32("cortex-m4", ArmLevel::V7EM, Fpu::V4Single),
        "thumb-v7m",
        4,
        &[
            region(0x2000_0000, 96 * K, MemoryKind::Ram, "SRAM1"),
            region(0x1000_0000, 32 * K, MemoryKind::Ram, "SRAM2"),
            region(0x0800_0000, M, MemoryKind::Rom, "flash"),
            region(0x0000_0000, M, MemoryKind::Rom, "flash"),
        ],
    ),
    late(
        "mps3-an547",
        Core::Arm {
            cpu: "cortex-m55",
            level: ArmLevel::V81MMain,
            fpu: Fpu::V5Double,
            vector_table: 0,
            vector_table_alias: Some(0x1000_0000),
        },
        "thumb-v8m",
        5,
        AN547_MEMORY,
    ),
    sifive_e(Arch::Riscv32, "qemu-system-riscv32", "riscv32", "sifive-e31"),
    sifive_e(Arch::Riscv64, "qemu-system-riscv64", "riscv64", "sifive-e51"),
    AN521,
    avr("uno", "atmega328p", 5, UNO_MEMORY, "atmega328p"),
    avr("2009", "atmega168", 5, A2009_MEMORY, "atmega328p"),
    avr("mega", "atmega1280", 51, MEGA_MEMORY, "atmega1280"),
    avr("mega2560", "atmega2560", AVR6, MEGA2560_MEMORY, "atmega2560"),
];

/// Registers by which an image's machine is told from others with the same memory: it contains an address in each of
/// these ranges. Stellaris: system control, which sets its clocks, and the UARTs (hw/arm/stellaris.c).
const OWN_REGISTERS: [(&str, [RangeInclusive<u32>; 2]); 1] =
    [("lm3s6965evb", [0x400f_e000..=0x400f_e2ff, 0x4000_c000..=0x4000_efff])];

impl Machine {
    /// Whether an image names this machine's own registers: aligned words of what it loads are their addresses.
    pub fn is_named_by(&self, image: &Image) -> bool {
        let Some((_, ranges)) = OWN_REGISTERS.iter().find(|(name, _)| *name == self.name) else { return false };
        let words = || {
            image.segments.iter().flat_map(|segment| {
                let unaligned = (segment.load_addr.wrapping_neg() % 4) as usize;
                let words = segment.data.get(unaligned..).unwrap_or_default().chunks_exact(4);
                words.filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)))
            })
        };
        ranges.iter().all(|range| words().any(|word| range.contains(&word)))
    }
}

/// Finds a machine's row by the name that QEMU was given (options may follow: `virt,aia=aplic`) and its instruction
/// set.
pub fn find(name: &str, isa: &str) -> Option<&'static Machine> {
    let name = name.split(',').next()?;
    MACHINES.iter().find(|machine| machine.name == name && machine.isa == isa)
}

/// Commands of the emulators, sorted.
pub fn emulators() -> BTreeSet<&'static str> {
    MACHINES.iter().map(|machine| machine.qemu).collect()
}

/// Machines that are boards with a chip that harness describes, too (hw/arm/netduinoplus2.c, olimex-stm32-h405.c, microbit.c).
const MODELS: [(&str, &str); 3] =
    [("netduinoplus2", "stm32f405"), ("olimex-stm32-h405", "stm32f405"), ("microbit", "nrf51822")];

impl Machine {
    /// Built-in chip of which the machine is QEMU's own model.
    pub fn model(&self) -> Option<&'static str> {
        MODELS.iter().find(|(name, _)| *name == self.name).map(|(_, chip)| *chip)
    }

    /// Processor of the machine, if it has a single known one.
    pub(super) fn cpu(&self) -> Option<&'static str> {
        match self.core {
            Core::Arm { cpu, .. } | Core::RiscvChip { cpu, .. } => Some(cpu),
            Core::Riscv | Core::Avr { .. } | Core::Unknown => None,
        }
    }

    /// Name with the detail that tells it from others: `riscv64 virt`, `mps2-an385 (cortex-m3)`.
    pub fn title(&self) -> String {
        if let (Some(chip), Core::Arm { cpu, .. } | Core::RiscvChip { cpu, .. }) = (&self.chip, self.core) {
            return format!("{chip} ({cpu} of QEMU's {})", self.name);
        }
        match self.core {
            Core::Arm { cpu, .. } => format!("{} ({cpu})", self.name),
            Core::Riscv | Core::RiscvChip { .. } => format!("{} {}", self.arch, self.name),
            Core::Avr { device, .. } => format!("{} ({device})", self.name),
            Core::Unknown => format!("{} ({})", self.name, self.qemu),
        }
    }

    /// The memory where an image without fixed addresses is placed: the main RAM.
    pub(super) fn main_ram(&self) -> Option<&Region> {
        self.memory.first()
    }

    pub(super) fn list_memory(&self) -> String {
        let mut regions: Vec<&Region> = self.memory.iter().collect();
        regions.sort_by_key(|region| region.start);
        let regions: Vec<String> = regions
            .iter()
            .map(|region| {
                let alias = match region.kind {
                    MemoryKind::NonSecure => "Non-secure ",
                    MemoryKind::Rom | MemoryKind::Ram | MemoryKind::Settings | MemoryKind::Contents => "",
                };
                format!("{alias}{} {}", region.name, show_range(&region.range()))
            })
            .collect();
        regions.join(", ")
    }
}
