// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information that an ELF file has in another file, or that cannot be found in it: each is a sentence, so that
//! nothing is missing without a word.

use gimli::SectionId;
use object::read::elf::{ElfFile, FileHeader};
use object::{File, Object as _, ObjectSection as _};

use crate::text::printable::printable;

/// Names that the table of section names has for itself: GNU's and LLVM's linkers, and files with one table of strings.
const NAME_TABLES: [&[u8]; 2] = [b".shstrtab", b".strtab"];

/// Advice for a file without symbols, which ends its warning.
pub(super) fn unstripped(file: &File<'_>) -> String {
    match linked(file) {
        Some(name) => format!("give the file that it names, {name} (.gnu_debuglink), with --symbols"),
        None => "give the unstripped file with --symbols".to_owned(),
    }
}

/// Warnings about debug information that is missing.
pub(super) fn warnings(file: &File<'_>, has_functions: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_lines = file.section_by_name(SectionId::DebugInfo.name()).is_some();
    if !has_lines && !has_section_names(file) {
        warnings.push(
            "the names of the ELF file's sections cannot be read (the header of their table is damaged): its debug \
             information is not found, so there are no lines and no inlined functions; build or copy the file again"
                .to_owned(),
        );
    }
    if let Some(name) = linked(file).filter(|_| !has_lines && has_functions) {
        warnings.push(format!(
            "the ELF file's debug information is in another file, {name} (.gnu_debuglink): there are no lines and no \
             inlined functions; give that file with --symbols"
        ));
    }
    if let Ok(Some((name, _))) = file.gnu_debugaltlink() {
        warnings.push(format!(
            "the debug information shares names with other images in {} (.gnu_debugaltlink), which is not read: some \
             inlined functions have no name; give the file as it was before `dwz -m` with --symbols",
            shown(name)
        ));
    }
    warnings
}

/// Name of the file that has the debug information, as the image names it.
fn linked(file: &File<'_>) -> Option<String> {
    let (name, _) = file.gnu_debuglink().ok()??;
    Some(shown(name)).filter(|name| !name.is_empty())
}

fn shown(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name)).into_owned()
}

/// Whether the table of section names is one: it names itself.
fn has_section_names(file: &File<'_>) -> bool {
    let index = match file {
        File::Elf32(elf) => name_table(elf),
        File::Elf64(elf) => name_table(elf),
        // No other file is an image.
        _ => return true,
    };
    let Some(index) = index else { return true };
    let table = file.section_by_index(object::SectionIndex(index));
    table.is_ok_and(|table| table.name_bytes().is_ok_and(|name| NAME_TABLES.contains(&name)))
}

/// Index of the section with the sections' names; None: there are no sections.
fn name_table<'data, Elf: FileHeader>(elf: &ElfFile<'data, Elf>) -> Option<usize> {
    let (header, endian) = (elf.elf_header(), elf.endian());
    let index = header.shstrndx(endian, elf.data()).ok()?;
    (header.shnum(endian, elf.data()).ok()? > 0).then_some(index as usize)
}
