// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placement: an image's position in a machine's memory, and its start.

use std::ops::Range;

use super::table::{Core, Machine, MemoryKind, Region};
use crate::image::{Arch, ArmLevel, Image, Segment, VECTOR_TABLE_ALIGN, VectorTable, show_range};
use crate::text::number::Hex;

/// Position and start of an image on a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    pub(super) load_bias: u64,
    pub(super) entry: u64,
    pub(super) initial_sp: Option<u64>,
    /// Address of the vector table, if the machine must be told.
    pub(super) vectors: Option<u64>,
}

/// Places an image in a machine's memory, or returns the reason why it does not fit.
pub(super) fn place(machine: &Machine, image: &Image) -> Result<Placement, String> {
    let mut reasons: Vec<String> = Vec::new();
    for bias in biases(machine, image) {
        match fit(machine, image, bias) {
            Ok(placement) => return Ok(placement),
            Err(reason) if bias == 0 => reasons.push(reason),
            Err(reason) => reasons.push(format!("moved by {}: {reason}", Hex(bias))),
        }
    }
    Err(reasons.join("; "))
}

/// Biases to try for the image's addresses, in order; never empty.
pub(super) fn biases(machine: &Machine, image: &Image) -> Vec<u64> {
    match (image.position_independent, image.load_bias) {
        (false, _) => vec![0],
        (true, Some(bias)) => vec![bias],
        // First as linked, then from the start of the RAM: the image keeps its offset there, and with it its
        // alignment.
        (true, None) => [0].into_iter().chain(machine.main_ram().map(|ram| ram.start)).collect(),
    }
}

/// Moves a range by the bias, saturating: a range that leaves the address space fits nowhere.
pub(super) fn shift(range: &Range<u64>, bias: u64) -> Range<u64> {
    range.start.saturating_add(bias)..range.end.saturating_add(bias)
}

pub(super) fn fit(machine: &Machine, image: &Image, bias: u64) -> Result<Placement, String> {
    for segment in &image.segments {
        fit_segment(machine, segment, bias)?;
    }
    match machine.core {
        Core::Arm { .. } => fit_vector_table(machine, image, bias)?,
        Core::RiscvChip { start: Some(start), .. } if elf_entry(image, bias) != start => {
            return Err(format!("it starts at {}, and the image at {}", Hex(start), Hex(elf_entry(image, bias))));
        }
        Core::Riscv | Core::RiscvChip { .. } | Core::Avr { .. } => {
            let entry = elf_entry(image, bias);
            if !image.segments.iter().any(|segment| shift(&segment.load_range(), bias).contains(&entry)) {
                return Err(format!(
                    "the image starts at {}, where it loads nothing (is the entry symbol _start \
                     missing?)",
                    Hex(entry)
                ));
            }
        }
        Core::Unknown => {}
    }
    Ok(start(machine, image, bias))
}

/// Region that holds a whole range, or the reason why there is none.
pub(super) fn home<'a>(machine: &'a Machine, range: &Range<u64>, what: &str) -> Result<&'a Region, String> {
    if let Some(region) = machine.memory.iter().find(|region| region.holds(range)) {
        return Ok(region);
    }
    match machine.memory.iter().find(|region| region.range().contains(&range.start)) {
        Some(region) => Err(format!(
            "{what} {} does not fit: {} ends at {}",
            show_range(range),
            region.name,
            Hex(region.range().end)
        )),
        None => Err(format!("{what} {} is outside its memory ({})", show_range(range), machine.list_memory())),
    }
}

pub(super) fn fit_segment(machine: &Machine, segment: &Segment, bias: u64) -> Result<(), String> {
    let (load, run) = (shift(&segment.load_range(), bias), shift(&segment.run_range(), bias));
    if !segment.data.is_empty() {
        let what = if load == run { "segment" } else { "load address" };
        home(machine, &load, what)?;
    }
    // A linker script keeps addresses free by a section without contents, which nobody writes: code is laid out behind the data
    // of the same flash (ESP32-C3).
    if load == run || (segment.data.is_empty() && !segment.writable) {
        return Ok(());
    }
    // armlink's one segment counts what start-up code clears elsewhere, in RAM, as memory behind the bytes.
    let is_flash = |region: &&Region| region.holds(&load) && !region.is_writable();
    if load.start == run.start && !segment.data.is_empty() && machine.memory.iter().any(|region| is_flash(&region)) {
        return Ok(());
    }
    // The memory is written (copied to or cleared) before its use, so it must be writable.
    let what = if segment.data.is_empty() { "zero-initialised memory" } else { "run address" };
    let region = home(machine, &run, what)?;
    // A section without contents in a chip's flash is kept for what the firmware programs there: it begins erased.
    if segment.data.is_empty() && machine.chip.is_some() && region.kind == MemoryKind::Rom {
        return Ok(());
    }
    if !region.is_writable() {
        return Err(format!("{what} {} lies in {}, which cannot be written", show_range(&run), region.name));
    }
    Ok(())
}

/// Vector table that the processor starts from, and its address if the machine must be told. The table is the one of
/// `--vectors`, else the one where this machine looks at reset, else the image's own (as behind a bootloader).
pub(super) fn table_seen(machine: &Machine, image: &Image, bias: u64) -> Option<(VectorTable, Option<u64>)> {
    let Core::Arm { vector_table, vector_table_alias, .. } = machine.core else {
        return image.vector_table.map(|table| (table, image.vectors));
    };
    let own = [Some(vector_table), vector_table_alias];
    let seen = || own.into_iter().flatten().find_map(|address| image.vector_table_at(address.wrapping_sub(bias)));
    if let Some(table) = if image.vectors.is_none() { seen() } else { None } {
        return Some((table, None));
    }
    let table = image.vector_table?;
    let address = table.address.wrapping_add(bias);
    Some((table, (!own.contains(&Some(address))).then_some(address)))
}

pub(super) fn fit_vector_table(machine: &Machine, image: &Image, bias: u64) -> Result<(), String> {
    let Core::Arm { vector_table, level, .. } = machine.core else {
        return Ok(());
    };
    let nothing_there =
        || format!("it takes its vector table from {}, where the image loads nothing", Hex(vector_table));
    let Some((table, elsewhere)) = table_seen(machine, image, bias) else {
        return Err(nothing_there());
    };
    if let Some(address) = elsewhere {
        if level >= ArmLevel::V8MBase {
            return Err(format!("{}, and QEMU cannot start it from another one ({})", nothing_there(), Hex(address)));
        }
        if !address.is_multiple_of(VECTOR_TABLE_ALIGN) {
            return Err(format!("{}; the one at {} lies at no multiple of 128", nothing_there(), Hex(address)));
        }
    }
    if table.initial_sp == u64::from(u32::from_le_bytes(*b"\x7fELF")) {
        return Err(format!(
            "it takes its vector table from {}, where the linker put the ELF file's own headers; \
             link with -z max-page-size=4096",
            Hex(vector_table)
        ));
    }
    let (sp, reset) = (table.initial_sp, table.reset_vector & !1);
    let is_in = |region: &Region| region.start < sp && sp <= region.range().end;
    let is_ram = |region: &Region| region.kind == MemoryKind::Ram && is_in(region);
    // A chip's boot code may set its own stack before it uses any: SoftDevices of Nordic's begin with one in flash.
    let may_set_its_own = machine.chip.is_some() && machine.memory.iter().any(is_in);
    if !machine.memory.iter().any(is_ram) && !may_set_its_own {
        return Err(format!("initial stack pointer {} is outside its RAM ({})", Hex(sp), machine.list_memory()));
    }
    if table.reset_vector & 1 == 0 {
        return Err(format!("the reset vector {} has bit 0 clear, which is not Thumb code", Hex(reset)));
    }
    match machine.memory.iter().find(|region| region.range().contains(&reset)) {
        Some(region) if region.kind == MemoryKind::NonSecure => Err(format!(
            "the reset vector {} points to Non-secure memory, and the processor starts Secure",
            Hex(reset)
        )),
        Some(_) => Ok(()),
        None => Err(format!("the reset vector {} is outside its memory ({})", Hex(reset), machine.list_memory())),
    }
}

/// Determines where execution starts, without any check.
pub(super) fn start(machine: &Machine, image: &Image, bias: u64) -> Placement {
    let (entry, initial_sp, vectors) = match (machine.arch, machine.core) {
        (Arch::CortexM, _) => {
            let seen = table_seen(machine, image, bias);
            let table = seen.map(|(table, _)| table);
            let starts_elsewhere = !matches!(machine.core, Core::Arm { level, .. } if level >= ArmLevel::V8MBase);
            let vectors = seen.and_then(|(_, elsewhere)| elsewhere).filter(|_| starts_elsewhere);
            (table.map(|table| table.reset_vector), table.map(|table| table.initial_sp), vectors)
        }
        (_, Core::RiscvChip { start, .. }) => (start, None, None),
        // The words of a vector table are absolute, so its entry needs no bias; an ELF's entry does.
        (Arch::Riscv64 | Arch::Riscv32, _) => (None, None, None),
        // Reset is the first vector, a jump to the start-up code.
        (Arch::Avr, _) => {
            let code = image.code_at(0).unwrap_or_default();
            let start = match decode::decode(decode::Isa::AvrPc16, 0, code).flow {
                decode::Flow::Jump { target } => target,
                _ => 0,
            };
            (Some(start), None, None)
        }
    };
    let entry = entry.unwrap_or_else(|| elf_entry(image, bias));
    Placement {
        load_bias: bias,
        entry: match machine.arch {
            Arch::CortexM => entry & !1,
            Arch::Riscv64 | Arch::Riscv32 | Arch::Avr => entry,
        },
        initial_sp,
        vectors,
    }
}

/// Load address of the stated entry, or of the start of the image if none is stated. An image that turns on address
/// translation states its entry as a virtual address.
pub(super) fn elf_entry(image: &Image, bias: u64) -> u64 {
    let entry = image.entry.unwrap_or_else(|| image.link_range().start);
    let loaded = |segment: &Segment| segment.load_range().contains(&entry);
    let address = match image.segments.iter().find(|s| s.run_range().contains(&entry)) {
        Some(segment) if !image.segments.iter().any(loaded) => {
            (entry - segment.run_addr).saturating_add(segment.load_addr)
        }
        _ => entry,
    };
    address.wrapping_add(bias)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::table::MACHINES;

    #[test]
    fn an_image_that_is_moved_out_of_the_address_space_fits_nowhere() {
        let machine = MACHINES.iter().find(|machine| machine.name == "mps2-an385").unwrap();
        let ram = machine.main_ram().unwrap();
        let fits = |range: Range<u64>, bias: u64| home(machine, &shift(&range, bias), "segment").is_ok();
        assert!(fits(0x10..0x20, ram.start));
        // Modulo 2^64 these would lie in RAM: as a whole, and with their end.
        let first = u64::MAX - 0xf;
        assert!(!fits(first..u64::MAX, ram.start + 0x10));
        assert!(!fits(first - 0x10..u64::MAX, ram.start + 0x10));
    }
}
