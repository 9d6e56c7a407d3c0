// SPDX-License-Identifier: GPL-2.0-or-later
//! The running program's table of functions, in which the dynamic linker has written the addresses of library
//! functions that the program calls. An entry can be replaced by a function of ours.

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ops::Range;

/// Types of relocations that write a function's address into the table.
#[cfg(target_arch = "x86_64")]
const OF_FUNCTIONS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const OF_FUNCTIONS: [u32; 2] = [1025, 1026];

/// Entries of a program's dynamic section (System V ABI, chapter 5).
const DT_PLTRELSZ: usize = 2;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_JMPREL: usize = 23;

/// The running program, as the dynamic linker loaded it.
pub(super) struct Program {
    base: usize,
    dynamic: [usize; 24],
    /// Range that is read-only by now.
    relro: Range<usize>,
}

impl Program {
    pub(super) fn find() -> Option<Program> {
        extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
            // SAFETY: the linker's description of the program, which comes first, and the memory below.
            unsafe { found.cast::<libc::dl_phdr_info>().write(*info) };
            1
        }
        // SAFETY: all zero is a valid, empty description.
        let mut info: libc::dl_phdr_info = unsafe { mem::zeroed() };
        // SAFETY: the callback gets the memory above, and is not called after this has returned.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut info).cast()) };
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let base = info.dlpi_addr as usize;
        // SAFETY: the program's own headers, which are never moved.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let segment = |kind| headers.iter().find(|header| header.p_type == kind);
        let relro = segment(libc::PT_GNU_RELRO).map_or(0..0, |header| {
            let start = base + header.p_vaddr as usize;
            start..start + header.p_memsz as usize
        });
        let mut program = Program { base, dynamic: [0; 24], relro };
        let mut entry = (base + segment(libc::PT_DYNAMIC)?.p_vaddr as usize) as *const [usize; 2];
        // SAFETY: pairs of tag and value, the last one with tag 0.
        while let [tag, value] = unsafe { *entry }
            && tag != 0
        {
            if let Some(known) = program.dynamic.get_mut(tag) {
                *known = value;
            }
            entry = entry.wrapping_add(1);
        }
        Some(program)
    }

    /// Address in an entry of the dynamic section, with the program's base added.
    fn address(&self, tag: usize) -> Option<usize> {
        let value = self.dynamic[tag];
        (value != 0).then(|| if value < self.base { self.base + value } else { value })
    }

    /// Addresses of the table's entries for a function.
    pub(super) fn slots(&self, name: &CStr) -> Vec<usize> {
        let (Some(symbols), Some(names)) = (self.address(DT_SYMTAB), self.address(DT_STRTAB)) else {
            return Vec::new();
        };
        let mut slots = Vec::new();
        for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            let Some(table) = self.address(table) else { continue };
            let count = self.dynamic[size] / size_of::<libc::Elf64_Rela>();
            // SAFETY: the linker's own table, with that many bytes.
            for relocation in unsafe { std::slice::from_raw_parts(table as *const libc::Elf64_Rela, count) } {
                let (symbol, kind) = ((relocation.r_info >> 32) as usize, relocation.r_info as u32);
                if !OF_FUNCTIONS.contains(&kind) {
                    continue;
                }
                // SAFETY: the relocation's symbol lies in the table of symbols, its name in that of names.
                let is_it = unsafe {
                    let symbol = &*(symbols as *const libc::Elf64_Sym).add(symbol);
                    CStr::from_ptr((names + symbol.st_name as usize) as *const _) == name
                };
                if is_it {
                    slots.push(self.base + relocation.r_offset as usize);
                }
            }
        }
        slots
    }

    /// Writes an address into an entry.
    pub(super) fn set(&self, slot: usize, address: usize) -> bool {
        // SAFETY: no precondition.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let page = (slot & !(page_bytes - 1)) as *mut c_void;
        // SAFETY: the page is the program's own data; only this word of it is changed, in one piece. It has no code.
        // It was writable until the linker had filled it in; its protection is restored.
        unsafe {
            if libc::mprotect(page, page_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return false;
            }
            (slot as *mut usize).write_volatile(address);
            if self.relro.contains(&slot) {
                libc::mprotect(page, page_bytes, libc::PROT_READ);
            }
        }
        true
    }
}
