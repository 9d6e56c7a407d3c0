//! Pages that hold both code and data that is written: QEMU takes its slow path at each store to one, since the store
//! may change code that it has translated.

use std::collections::BTreeSet;

use object::{Object as _, ObjectSection as _, SectionFlags, SectionKind, elf};

use super::Arch;

/// Bytes of a page of QEMU's: TARGET_PAGE_BITS, which target/arm/cpu.c sets to 10 for Cortex-M.
fn page_bytes(arch: Arch) -> u64 {
    match arch {
        Arch::CortexM => 1024,
        Arch::Riscv32 | Arch::Riscv64 => 4096,
    }
}

/// Bytes of a section in which there may be nothing: without contents, and as long as it takes to reach its end's
/// alignment.
fn padding(kind: SectionKind) -> u64 {
    if kind == SectionKind::UninitializedData { 7 } else { 0 }
}

/// Lists of constructors and destructors: called writable, and written by nothing here.
const LISTS: [&str; 3] = [".preinit_array", ".init_array", ".fini_array"];

/// What to say of the first section of an ELF whose data is written and shares a page with code that has executed, at
/// these addresses.
pub fn describe_shared(elf: &[u8], arch: Arch, load_bias: u64, executed: &BTreeSet<u64>) -> Option<String> {
    let file = object::File::parse(elf).ok()?;
    let bytes = page_bytes(arch);
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
        Some(format!(
            "{} at {start:#x} shares a page of {bytes} bytes with code (at {pc:#x}): QEMU is slow at each store to it, up \
             to 60 times; begin it at a multiple of {bytes} in the linker script",
            section.name().ok().filter(|name| !name.is_empty()).unwrap_or("data"),
        ))
    })
}
