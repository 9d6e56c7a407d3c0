// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds pages that hold both code and written data. QEMU takes its slow path at each store to such a page, since the
//! store may change code that it has translated.

use std::collections::BTreeSet;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SectionFlags, SectionKind, elf};

use super::Arch;

/// Bytes of a page in QEMU: TARGET_PAGE_BITS, which target/arm/cpu.c sets to 10 for Cortex-M.
fn page_bytes(arch: Arch) -> u64 {
    match arch {
        Arch::CortexM => 1024,
        Arch::Riscv32 | Arch::Riscv64 => 4096,
        // Flash and data are apart, whatever the size.
        Arch::Avr => 256,
    }
}

/// Largest section, in bytes, that counts as mere padding: a section without contents that only aligns its end.
fn padding(kind: SectionKind) -> u64 {
    if kind == SectionKind::UninitializedData { 7 } else { 0 }
}

/// Lists of constructors and destructors: marked writable, but not written by the firmware.
const LISTS: [&str; 3] = [".preinit_array", ".init_array", ".fini_array"];

/// Describes the first section of an ELF with written data on a page that also holds executed code; `executed` has
/// the code's addresses.
pub fn describe_shared(elf: &[u8], arch: Arch, load_bias: u64, executed: &BTreeSet<u64>) -> Option<String> {
    let file = object::File::parse(elf).ok()?;
    let bytes = page_bytes(arch);
    let is_copied = match &file {
        object::File::Elf32(file) => copies_data(file),
        object::File::Elf64(file) => copies_data(file),
        _ => return None,
    };
    let page = |address: u64| address & !(bytes - 1);
    file.sections().find_map(|section| {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
        let is_list = section.name().is_ok_and(|name| LISTS.contains(&name));
        let is_written = !is_list
            && sh_flags.contains(elf::SHF_ALLOC)
            && sh_flags.contains(elf::SHF_WRITE)
            && !sh_flags.contains(elf::SHF_EXECINSTR)
            && section.size() > padding(section.kind());
        let start = section.address().wrapping_add(load_bias);
        let last = start.checked_add(section.size().checked_sub(1)?)?;
        let pc = executed.range(page(start)..=page(last) | (bytes - 1)).next().filter(|_| is_written)?;
        if is_copied && shares_segment(&file, section.address(), pc.wrapping_sub(load_bias)) {
            return None;
        }
        Some(format!(
            "{} at {start:#x} shares a page of {bytes} bytes with code (at {pc:#x}): QEMU is slow at each store to it, up \
             to 60 times; begin it at a multiple of {bytes} in the linker script",
            section.name().ok().filter(|name| !name.is_empty()).unwrap_or("data"),
        ))
    })
}

/// Whether firmware copies its data before it uses them: some data have different addresses for loading and for use.
/// Data that stay with the code are then in read-only memory, even if their section is marked as writable (Zephyr's
/// `sw_isr_table`).
fn copies_data<E: FileHeader>(file: &ElfFile<'_, E>) -> bool {
    let endian = file.endian();
    file.elf_program_headers().iter().any(|header| {
        let (loaded, used): (u64, u64) = (header.p_paddr(endian).into(), header.p_vaddr(endian).into());
        header.p_type(endian) == elf::PT_LOAD && header.p_filesz(endian).into() > 0 && loaded != used
    })
}

/// Whether a segment of the file has the contents of both addresses.
fn shares_segment(file: &object::File<'_>, one: u64, other: u64) -> bool {
    file.segments().any(|segment| {
        let bytes = segment.data().map_or(0, |data| data.len() as u64);
        let range = segment.address()..segment.address().saturating_add(bytes);
        range.contains(&one) && range.contains(&other)
    })
}
