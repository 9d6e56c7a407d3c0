// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads ELF files: the header, the program headers, and from the sections only the required processor and the
//! presence of symbols. Damage in the sections costs names, never the run.
//!
//! "System V Application Binary Interface", chapters 4 and 5; the structures are the object crate's.

use std::fmt;
use std::path::Path;

use object::LittleEndian;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{AttributesSection, FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _};

use super::attributes::{self, Profile};
use super::{Arch, AvrNeeds, CpuNeeds, Segment};
use crate::error::InputError;
use crate::text::number::Hex;

/// Purpose of opening the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Execution: the file must have something to load.
    Run,
    /// Symbols only; a file with nothing but debug information is enough.
    Symbols,
}

/// Facts that an ELF file states.
pub(super) struct Facts {
    pub(super) arch: Option<Arch>,
    pub(super) needs: CpuNeeds,
    pub(super) segments: Vec<Segment>,
    pub(super) entry: u64,
    pub(super) position_independent: bool,
    pub(super) has_symbols: bool,
}

/// Bits of an AVR file's flags that have the core's family (`EF_AVR_MACH`).
const AVR_FAMILY: u32 = 0x7f;

const SUPPORTED: &str = "riscv64, riscv32, Arm Cortex-M and AVR are supported";

/// Reads an ELF file.
pub(super) fn parse(path: &Path, bytes: &[u8], purpose: Purpose) -> Result<Facts, InputError> {
    let fail = |message: fmt::Arguments<'_>| InputError::about(path, message);
    if !bytes.starts_with(b"\x7fELF") {
        return Err(fail(format_args!("this is not an ELF file, and symbols are read from ELF only")));
    }
    // Class, byte order, type and machine are at the same place in every ELF file.
    let (Some(&class), Some(&order), Some(half_words)) = (bytes.get(4), bytes.get(5), bytes.get(16..20)) else {
        return Err(truncated(path, "its header", 52, bytes.len() as u64));
    };
    let big_endian = order == elf::ELFDATA2MSB.0;
    let half = |at: usize| {
        let pair = [half_words[at], half_words[at + 1]];
        if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    };
    let (kind, machine) = (half(0), half(2));
    let is_64 = match class {
        1 => false,
        2 => true,
        _ => {
            return Err(fail(format_args!(
                "this ELF file is damaged: its class is {class}, not 32-bit (1) or 64-bit (2)"
            )));
        }
    };
    let arch = match (machine, is_64) {
        (243, true) => Arch::Riscv64,
        (243, false) => Arch::Riscv32,
        (40, false) => Arch::CortexM,
        (83, false) => Arch::Avr,
        _ => {
            return Err(fail(format_args!(
                "this is an ELF file for {}; {SUPPORTED}: give the firmware, not a program of the \
                 host",
                machine_name(machine)
            )));
        }
    };
    if big_endian {
        return Err(fail(format_args!(
            "this is a big-endian {} ELF file; only little-endian firmware is supported ({SUPPORTED})",
            machine_name(machine)
        )));
    }
    if order != elf::ELFDATA2LSB.0 {
        return Err(fail(format_args!("this ELF file is damaged: its byte order is {order}, not little-endian (1)")));
    }
    match kind {
        2 | 3 => {}
        1 => {
            return Err(fail(format_args!("this is a relocatable object, without addresses; link it first")));
        }
        4 => {
            return Err(fail(format_args!("this is a core dump; give the firmware it is from")));
        }
        _ => {
            return Err(fail(format_args!("this ELF file is of type {kind}, not an executable (2 or 3)")));
        }
    }
    let position_independent = kind == 3;
    if is_64 {
        Reader::<FileHeader64<LittleEndian>>::new(path, bytes)?.facts(arch, position_independent, purpose)
    } else {
        Reader::<FileHeader32<LittleEndian>>::new(path, bytes)?.facts(arch, position_independent, purpose)
    }
}

fn truncated(path: &Path, what: &str, needed_bytes: u64, file_bytes: u64) -> InputError {
    InputError::about(
        path,
        format_args!(
            "this ELF file is truncated: {what} should reach to byte {needed_bytes}, but the file \
             ends at {file_bytes}; build or copy it again"
        ),
    )
}

struct Reader<'a, E: FileHeader<Endian = LittleEndian>> {
    path: &'a Path,
    bytes: &'a [u8],
    header: &'a E,
}

impl<'a, E: FileHeader<Endian = LittleEndian>> Reader<'a, E> {
    fn new(path: &'a Path, bytes: &'a [u8]) -> Result<Self, InputError> {
        let header_bytes = size_of::<E>() as u64;
        if (bytes.len() as u64) < header_bytes {
            return Err(truncated(path, "its header", header_bytes, bytes.len() as u64));
        }
        let header = E::parse(bytes)
            .map_err(|error| InputError::about(path, format_args!("this ELF file is damaged: {error}")))?;
        Ok(Self { path, bytes, header })
    }

    fn damaged(&self, message: impl fmt::Display) -> InputError {
        InputError::about(self.path, format_args!("this ELF file is damaged: {message}; build or copy it again"))
    }

    fn facts(&self, arch: Arch, position_independent: bool, purpose: Purpose) -> Result<Facts, InputError> {
        self.check_tables()?;
        let segments = self.segments(purpose)?;
        let mut needs = CpuNeeds::default();
        if arch == Arch::Avr {
            needs.avr = Some(self.avr_needs());
        }
        match (arch, self.attributes(arch)) {
            (_, None) => {}
            (Arch::CortexM, Some(section)) => match attributes::arm(&section).profile() {
                Profile::Microcontroller(arm) => needs.arm = Some(arm),
                Profile::Unsaid => {}
                Profile::Other(what) => {
                    return Err(InputError::about(
                        self.path,
                        format_args!(
                            "this is code for an Arm processor that is not a microcontroller \
                             ({what}); of 32-bit Arm, only the M profile is supported"
                        ),
                    ));
                }
            },
            (_, Some(section)) => needs.riscv = attributes::riscv(&section),
        }
        Ok(Facts {
            arch: Some(arch),
            needs,
            segments,
            entry: self.header.e_entry(LittleEndian).into(),
            position_independent,
            has_symbols: self.has_symbols(),
        })
    }

    /// Checks that both header tables lie inside the file. The section table is usually the file's last part, so this
    /// also detects a copy that was cut short.
    fn check_tables(&self) -> Result<(), InputError> {
        let file_bytes = self.bytes.len() as u64;
        let e = LittleEndian;
        // Counts that do not fit in the header are in section 0; the object crate reads them there.
        let tables = [
            (
                "its program headers",
                self.header.e_phoff(e).into(),
                self.header.phnum(e, self.bytes).map(u64::from),
                u64::from(self.header.e_phentsize(e)),
            ),
            (
                "its section headers",
                self.header.e_shoff(e).into(),
                self.header.shnum(e, self.bytes).map(u64::from),
                u64::from(self.header.e_shentsize(e)),
            ),
        ];
        for (what, offset, count, entry_bytes) in tables {
            if offset == 0 {
                continue;
            }
            let end = count
                .ok()
                .and_then(|count| count.checked_mul(entry_bytes)?.checked_add(offset))
                .ok_or_else(|| truncated(self.path, what, offset, file_bytes))?;
            if end > file_bytes {
                return Err(truncated(self.path, what, end, file_bytes));
            }
        }
        Ok(())
    }

    fn segments(&self, purpose: Purpose) -> Result<Vec<Segment>, InputError> {
        let e = LittleEndian;
        let headers = self.header.program_headers(e, self.bytes).map_err(|error| self.damaged(error))?;
        let last_address = if self.header.is_type_64() { u64::MAX } else { u64::from(u32::MAX) };
        let mut segments = Vec::new();
        for (index, header) in headers.iter().enumerate() {
            if purpose == Purpose::Run {
                self.refuse_linux(header)?;
            }
            let (file_bytes, mem_bytes): (u64, u64) = (header.p_filesz(e).into(), header.p_memsz(e).into());
            if header.p_type(e) != elf::PT_LOAD || mem_bytes == 0 {
                continue;
            }
            if file_bytes > mem_bytes {
                return Err(self.damaged(format_args!(
                    "segment {index} has {file_bytes} bytes in the file and room for {mem_bytes}"
                )));
            }
            let (load_addr, run_addr): (u64, u64) = (header.p_paddr(e).into(), header.p_vaddr(e).into());
            for address in [load_addr, run_addr] {
                if address.checked_add(mem_bytes - 1).is_none_or(|last| last > last_address) {
                    return Err(self.damaged(format_args!(
                        "segment {index} at {} is {mem_bytes} bytes long and ends beyond the last \
                         address",
                        Hex(address)
                    )));
                }
            }
            let offset: u64 = header.p_offset(e).into();
            let begins_with_headers = offset == 0 && file_bytes > 0;
            let data = match header.data(e, self.bytes) {
                Ok(data) => data.to_vec(),
                // Debug information split off by `objcopy --only-keep-debug` keeps the headers without their bytes.
                Err(()) if purpose == Purpose::Symbols => Vec::new(),
                Err(()) => {
                    return Err(truncated(
                        self.path,
                        &format!("the segment that loads at {}", Hex(load_addr)),
                        offset.saturating_add(file_bytes),
                        self.bytes.len() as u64,
                    ));
                }
            };
            let flags = header.p_flags(e).0;
            // ld puts the headers below the code unless its script says otherwise; a microcontroller has no memory
            // there.
            let dropped = if begins_with_headers { self.header_bytes(data.len() as u64) } else { 0 };
            if dropped == mem_bytes {
                continue;
            }
            segments.push(Segment {
                load_addr: load_addr + dropped,
                run_addr: run_addr + dropped,
                data: data[dropped as usize..].to_vec(),
                mem_bytes: mem_bytes - dropped,
                executable: flags & elf::PF_X.0 != 0,
                writable: flags & elf::PF_W.0 != 0,
            });
        }
        if purpose == Purpose::Run && segments.iter().all(|segment| segment.data.is_empty()) {
            return Err(InputError::about(
                self.path,
                "this ELF file has nothing to load (no PT_LOAD segment with bytes); is it only the \
                 debug information, split off with --only-keep-debug?",
            ));
        }
        Ok(segments)
    }

    /// Bytes at the beginning of the file that hold its headers and the padding up to the first loaded section. 0 if
    /// the sections do not say, or if the firmware reads its headers.
    fn header_bytes(&self, file_bytes: u64) -> u64 {
        let e = LittleEndian;
        let Ok(sections) = self.header.sections(e, self.bytes) else { return 0 };
        let is_read = sections.symbols(e, self.bytes, elf::SHT_SYMTAB).is_ok_and(|symbols| {
            symbols.iter().any(|symbol| symbol.name(e, symbols.strings()).is_ok_and(|name| name == b"__ehdr_start"))
        });
        let first = sections
            .iter()
            .filter(|section| section.sh_flags(e).contains(elf::SHF_ALLOC) && section.sh_type(e) != elf::SHT_NOBITS)
            .map(|section| section.sh_offset(e).into())
            .min();
        first.filter(|_| !is_read).map_or(0, |first| first.min(file_bytes))
    }

    /// Refuses a Linux program, which needs a kernel. Such a program names its loader, or has its kernel version in a
    /// note.
    fn refuse_linux(&self, header: &E::ProgramHeader) -> Result<(), InputError> {
        let e = LittleEndian;
        let needs = if header.p_type(e) == elf::PT_INTERP {
            let name = header.data(e, self.bytes).unwrap_or(&[]);
            let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
            format!("its loader ({})", String::from_utf8_lossy(name))
        } else if header
            .notes(e, self.bytes)
            .ok()
            .flatten()
            .into_iter()
            .flat_map(|notes| notes.map_while(Result::ok))
            .any(|note| note.name() == b"GNU" && note.n_type(e).0 == 1)
        {
            "a kernel".to_owned()
        } else {
            return Ok(());
        };
        Err(InputError::about(
            self.path,
            format_args!(
                "this is a Linux program, which needs {needs}; give bare-metal firmware, linked with \
                 a linker script of its own"
            ),
        ))
    }

    fn attributes(&self, arch: Arch) -> Option<AttributesSection<'a, E>> {
        let e = LittleEndian;
        let wanted = match arch {
            Arch::CortexM => elf::SHT_ARM_ATTRIBUTES,
            Arch::Riscv64 | Arch::Riscv32 => elf::SHT_RISCV_ATTRIBUTES,
            Arch::Avr => return None,
        };
        let headers = self.header.section_headers(e, self.bytes).ok()?;
        let section = headers.iter().find(|section| section.sh_type(e) == wanted)?;
        AttributesSection::new(e, section.data(e, self.bytes).ok()?).ok()
    }

    /// The core from the header, and the device from the note that avr-gcc's start-up code has, or from simavr's section.
    fn avr_needs(&self) -> AvrNeeds {
        let e = LittleEndian;
        let sections = self.header.sections(e, self.bytes).ok();
        let section = |name: &[u8]| {
            let (_, section) = sections.as_ref()?.section_by_name(e, name)?;
            section.data(e, self.bytes).ok()
        };
        AvrNeeds {
            family: self.header.e_flags(e).0 & AVR_FAMILY,
            device: section(b".note.gnu.avr.deviceinfo")
                .and_then(attributes::avr_device)
                .or_else(|| section(b".mmcu").and_then(attributes::simavr_device)),
            vectors: None,
        }
    }

    /// Whether the symbol table names at least one function or label, apart from mapping symbols (`$t`).
    fn has_symbols(&self) -> bool {
        let e = LittleEndian;
        let Ok(sections) = self.header.sections(e, self.bytes) else {
            return false;
        };
        let Ok(symbols) = sections.symbols(e, self.bytes, elf::SHT_SYMTAB) else {
            return false;
        };
        symbols.iter().any(|symbol| {
            matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_NOTYPE)
                && symbol.st_shndx(e) != elf::SHN_UNDEF
                && symbol.name(e, symbols.strings()).is_ok_and(|name| !name.is_empty() && !name.starts_with(b"$"))
        })
    }
}

/// Size of an ELF file's first bytes up to the end of `e_machine`.
pub(super) const MACHINE_END: usize = 20;

/// Whether the first bytes of an ELF file say that it is for an AVR.
pub(super) fn is_avr(start: &[u8; MACHINE_END]) -> bool {
    u16::from_le_bytes([start[18], start[19]]) == elf::EM_AVR.0
}

/// Name of an `e_machine` value.
fn machine_name(machine: u16) -> String {
    let name = match machine {
        2 | 18 | 43 => "SPARC",
        3 => "x86 (32-bit)",
        4 => "m68k",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "64-bit PowerPC",
        22 => "s390",
        40 => "Arm",
        42 => "SuperH",
        62 => "x86-64",
        83 => "AVR",
        94 => "Xtensa",
        105 => "MSP430",
        183 => "AArch64 (64-bit Arm)",
        243 => "RISC-V",
        247 => "eBPF",
        258 => "LoongArch",
        _ => return format!("machine number {machine}"),
    };
    name.to_owned()
}

/// Bytes with their load address.
pub(super) struct Load<'a> {
    pub(super) address: u64,
    pub(super) data: &'a [u8],
}

/// Writes an executable with nothing but these segments; `flags` are those of its header.
pub(super) fn write(arch: Arch, flags: u32, entry: u64, loads: &[Load<'_>]) -> Vec<u8> {
    let is_64 = arch.is_64_bit();
    let (header_bytes, program_header_bytes) = if is_64 { (64_u16, 56_u16) } else { (52, 32) };
    let machine = match arch {
        Arch::Riscv64 | Arch::Riscv32 => elf::EM_RISCV,
        Arch::CortexM => elf::EM_ARM,
        Arch::Avr => elf::EM_AVR,
    };
    let mut out = Vec::new();
    let word = |out: &mut Vec<u8>, value: u64| {
        if is_64 {
            out.extend(value.to_le_bytes());
        } else {
            out.extend((value as u32).to_le_bytes());
        }
    };

    out.extend(b"\x7fELF");
    out.extend([if is_64 { 2 } else { 1 }, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(2_u16.to_le_bytes()); // ET_EXEC
    out.extend(machine.0.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    word(&mut out, entry);
    word(&mut out, header_bytes.into()); // e_phoff
    word(&mut out, 0); // e_shoff
    out.extend(flags.to_le_bytes());
    for half in [header_bytes, program_header_bytes, loads.len() as u16, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }

    let mut offset = u64::from(header_bytes) + u64::from(program_header_bytes) * loads.len() as u64;
    for load in loads {
        let bytes = load.data.len() as u64;
        out.extend(1_u32.to_le_bytes()); // PT_LOAD
        if is_64 {
            out.extend(7_u32.to_le_bytes());
        }
        for value in [offset, load.address, load.address, bytes, bytes] {
            word(&mut out, value);
        }
        if !is_64 {
            out.extend(7_u32.to_le_bytes());
        }
        word(&mut out, 1); // p_align
        offset += bytes;
    }
    for load in loads {
        out.extend(load.data);
    }
    out
}
