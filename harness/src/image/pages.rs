//! Finds pages that hold both code and written data. QEMU takes its slow path at each store to such a page, since the
//! store may change code that it has translated.

use std::collections::BTreeSet;

use object::{Object as _, ObjectSection as _, SectionFlags, SectionKind, elf};

use super::Arch;

/// Bytes of a page in QEMU: TARGET_PAGE_BITS, which target/arm/cpu.c sets to 10 for Cortex-M.
fn page_bytes(arch: Arch) -> u64 {
    match arch {
        Arch::CortexM => 1024,
        Arch::Riscv32 | Arch::Riscv64 => 4096,
    }
}

/// Largest section that may be nothing but padding: one without contents that only aligns its end.
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
