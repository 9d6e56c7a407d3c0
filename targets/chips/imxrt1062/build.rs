//! The chip's memory as teensy4-bsp lays it out, in a linker script of the name that all packages here are linked with.

use imxrt_rt::{Family, FlexRamBanks, Memory, RuntimeBuilder};

fn main() {
    RuntimeBuilder::from_flexspi(Family::Imxrt1060, 1984 * 1024)
        .flexram_banks(FlexRamBanks { ocram: 0, itcm: 6, dtcm: 10 })
        .heap(Memory::Ocram)
        .heap_size(16 * 1024)
        .stack(Memory::Dtcm)
        .stack_size(16 * 1024)
        .vectors(Memory::Dtcm)
        .text(Memory::Itcm)
        .data(Memory::Dtcm)
        .bss(Memory::Dtcm)
        .uninit(Memory::Ocram)
        .linker_script_name("link.x")
        .build()
        .expect("the memory is enough");
}
// SPDX-License-Identifier: MIT OR Apache-2.0
