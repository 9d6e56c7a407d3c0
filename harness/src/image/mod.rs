// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware files: their processor, the bytes that they load and at which addresses, their start, and their symbols.
//! This module knows nothing of QEMU; [`crate::machine`] decides from these facts which machine can run the file.
//!
//! Every unusable file gives an [`InputError`] that says what is wrong, where, and what to do next. No input causes a
//! panic.

mod argument;
mod attributes;
pub mod avr_libc;
mod avr_vectors;
pub mod beside;
pub mod bounded_read;
pub mod defmt;
mod dfu;
mod elf;
pub mod heap;
mod hex;
pub mod kernel;
pub mod layout;
pub mod linker_map;
pub mod linker_memory;
pub mod mcount;
mod opened;
pub mod pages;
pub mod rooms;
mod section;
mod sorted_ranges;
pub mod stub;
pub mod symbols;
pub mod targets;
pub mod trace_patterns;
mod uf2;
pub mod unwind;
pub mod waiting;
pub mod ways;
pub mod zone;
pub mod zone_call;

use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use sha2::{Digest, Sha256};

pub use avr_vectors::Vectors as AvrVectors;
pub use hex::Board;
pub use opened::Opened;
pub use uf2::Family;

use crate::error::InputError;
use crate::text::number::Hex;

/// Supported processor family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// 64-bit RISC-V.
    Riscv64,
    /// 32-bit RISC-V.
    Riscv32,
    /// Arm's M-profile (Thumb only).
    CortexM,
    /// AVR, 8 bits.
    Avr,
}

impl Arch {
    /// Whether an address is 64 bits wide.
    pub fn is_64_bit(self) -> bool {
        self == Arch::Riscv64
    }

    /// Whether the family is RISC-V, of either width.
    pub fn is_riscv(self) -> bool {
        matches!(self, Arch::Riscv64 | Arch::Riscv32)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::Riscv64 => "riscv64",
            Arch::Riscv32 => "riscv32",
            Arch::CortexM => "Cortex-M",
            Arch::Avr => "AVR",
        })
    }
}

/// Format of a firmware file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// ELF executable.
    Elf,
    /// Intel HEX.
    IntelHex,
    /// UF2: blocks with addresses, for a family of chips.
    Uf2,
    /// DFU: what bootloaders take by USB.
    Dfu,
    /// Bytes without a header, placed by `--load-addr`.
    Raw,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Elf => "ELF",
            Format::IntelHex => "Intel HEX",
            Format::Uf2 => "UF2",
            Format::Dfu => "DFU",
            Format::Raw => "raw binary",
        })
    }
}

/// M-profile architecture, least capable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArmLevel {
    /// Cortex-M0, M0+, M1.
    V6M,
    /// Cortex-M3.
    V7M,
    /// Cortex-M4, M7.
    V7EM,
    /// Cortex-M23.
    V8MBase,
    /// Cortex-M33, M35P.
    V8MMain,
    /// Cortex-M55, M85.
    V81MMain,
}

impl ArmLevel {
    /// Whether a processor of this level executes code that was built for `needed`.
    pub fn runs(self, needed: ArmLevel) -> bool {
        match needed {
            // v8-M baseline adds instructions to v6-M that the v7 levels lack; v8-M mainline has all of them.
            ArmLevel::V8MBase => self >= ArmLevel::V8MBase,
            ArmLevel::V7M | ArmLevel::V7EM if self == ArmLevel::V8MBase => false,
            _ => self >= needed,
        }
    }
}

impl fmt::Display for ArmLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArmLevel::V6M => "v6-M",
            ArmLevel::V7M => "v7-M",
            ArmLevel::V7EM => "v7E-M",
            ArmLevel::V8MBase => "v8-M baseline",
            ArmLevel::V8MMain => "v8-M mainline",
            ArmLevel::V81MMain => "v8.1-M mainline",
        })
    }
}

/// Floating-point unit, least capable first: each executes the code for those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fpu {
    /// No floating-point instructions.
    None,
    /// FPv4, single precision (Cortex-M4).
    V4Single,
    /// FPv5, single precision (Cortex-M33, some M7).
    V5Single,
    /// FPv5, single and double precision (Cortex-M7).
    V5Double,
}

impl fmt::Display for Fpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fpu::None => "no FPU",
            Fpu::V4Single => "a single-precision FPU (FPv4)",
            Fpu::V5Single => "a single-precision FPU (FPv5)",
            Fpu::V5Double => "a double-precision FPU",
        })
    }
}

/// Demands of `.ARM.attributes` on the processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmNeeds {
    /// Architecture that the code was built for.
    pub level: ArmLevel,
    /// Floating-point instructions that the code may contain.
    pub fpu: Fpu,
    /// Whether DSP instructions were allowed (always on v7E-M).
    pub dsp: bool,
    /// `Tag_CPU_name`, as the compiler wrote it: `7E-M`, `cortex-m55`.
    pub name: Option<String>,
}

/// Demands of the file on the processor, if it states any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuNeeds {
    /// Demands in `.ARM.attributes`.
    pub arm: Option<ArmNeeds>,
    /// `Tag_RISCV_arch` from `.riscv.attributes`, such as `rv64i2p1_m2p0_a2p1_c2p0`.
    pub riscv: Option<String>,
    /// Family and device of an AVR.
    pub avr: Option<AvrNeeds>,
}

/// Family of AVR cores that a file without a statement is taken for: that of the Arduino Uno.
pub(crate) const AVR5: u32 = 5;

/// Demands of AVR code on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AvrNeeds {
    /// Family of cores, from the ELF header: 5 for `avr5` (ATmega328P), 51 for `avr51` (ATmega1280), 6 for `avr6`.
    pub family: u32,
    /// Device that the firmware was built for, such as `atmega328p`, if the file names it.
    pub device: Option<String>,
    /// Vectors from which the family is known, if the file does not state it.
    pub vectors: Option<AvrVectors>,
}

/// Stretch of bytes that is loaded, or of memory that starts as zero.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    /// Address at which the bytes are loaded (ELF: `p_paddr`).
    pub load_addr: u64,
    /// Address at which the firmware expects the bytes while it runs (ELF: `p_vaddr`). If the two addresses differ,
    /// the startup code copies the bytes.
    pub run_addr: u64,
    /// Bytes in the file.
    pub data: Vec<u8>,
    /// Size of the memory at `run_addr`; bytes beyond `data` start as zero.
    pub mem_bytes: u64,
    /// Whether the firmware may execute from it.
    pub executable: bool,
    /// Whether the firmware may write to it.
    pub writable: bool,
}

impl Segment {
    /// Addresses that the file's bytes occupy when loaded; empty for memory that only starts as zero.
    pub fn load_range(&self) -> Range<u64> {
        self.load_addr..self.load_addr.saturating_add(self.data.len() as u64)
    }

    /// Addresses that the segment occupies while the firmware runs.
    pub fn run_range(&self) -> Range<u64> {
        self.run_addr..self.run_addr.saturating_add(self.mem_bytes)
    }

    /// Appends bytes at an address: to the last segment if that ends there, or else as a segment of their own. Nothing is
    /// known of what the bytes are.
    fn append(segments: &mut Vec<Segment>, address: u64, mut data: Vec<u8>) {
        match segments.last_mut() {
            Some(last) if last.load_range().end == address => {
                last.data.append(&mut data);
                last.mem_bytes = last.data.len() as u64;
            }
            _ => segments.push(Segment {
                load_addr: address,
                run_addr: address,
                mem_bytes: data.len() as u64,
                data,
                executable: true,
                writable: true,
            }),
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("load_range", &self.load_range())
            .field("run_range", &self.run_range())
            .field("executable", &self.executable)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

/// Least alignment of a vector table's address ("ARMv7-M Architecture Reference Manual", B3.2.5, VTOR).
pub(crate) const VECTOR_TABLE_ALIGN: u64 = 128;

/// First two words of a vector table, which a Cortex-M reads at reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorTable {
    /// Load address of the table.
    pub address: u64,
    /// First word: the stack pointer.
    pub initial_sp: u64,
    /// Second word, unchanged: the address of the first instruction, with bit 0 set.
    pub reset_vector: u64,
}

/// Facts that the user states, since the file may lack them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// `--load-addr`: load address of a raw binary.
    pub load_addr: Option<u64>,
    /// `--load-bias`: bytes added to the addresses of a position-independent ELF.
    pub load_bias: Option<u64>,
    /// `--vectors`: load address of a Cortex-M's vector table.
    pub vectors: Option<u64>,
    /// `--symbols`: ELF file that describes this image.
    pub symbols: Option<&'a Path>,
    /// Board whose part of a Universal Hex is wanted, as the machine or chip says.
    pub board: Option<Board>,
    /// Name of the chip that is meant, where a UF2 is for several.
    pub chip: Option<&'a str>,
}

/// Result of comparing a symbol file's code with an image's.
struct Compared {
    /// Size of the symbol file's code.
    code_bytes: u64,
    /// Bytes of it that the image has, too.
    bytes: u64,
    /// Bytes among these that differ, and the first one's address.
    different: u64,
    first: Option<u64>,
}

/// Facts of one firmware file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Path of the file, as given.
    pub path: PathBuf,
    /// File name without directory and without a firmware extension; never empty.
    pub stem: String,
    /// Format of the file.
    pub format: Format,
    /// SHA-256 of the file in lower-case hexadecimal.
    pub sha256: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Processor family; unknown for a HEX or raw file without symbols that does not begin with a vector table.
    pub arch: Option<Arch>,
    /// Demands on the processor.
    pub needs: CpuNeeds,
    /// Family of chips that a UF2 is for.
    pub family: Option<Family>,
    /// Segments by load address. At least one has bytes.
    pub segments: Vec<Segment>,
    /// Entry address that the file states (bit 0 set: Thumb). A Cortex-M starts from its vector table and ignores it.
    pub entry: Option<u64>,
    /// Cortex-M: vector table that the file seems to start from. The machine decides which table is really used, see
    /// [`Image::vector_table_at`].
    pub vector_table: Option<VectorTable>,
    /// AVR's vectors at address 0 of a file that states no processor.
    pub avr_vectors: Option<AvrVectors>,
    /// Whether addresses are only relative to each other (`ET_DYN`); they get a bias when loaded.
    pub position_independent: bool,
    /// `--load-bias`, kept for the choice of the machine.
    pub load_bias: Option<u64>,
    /// `--vectors`, kept for the choice of the machine: the processor starts from the table at this address.
    pub vectors: Option<u64>,
    /// ELF file to read symbols and DWARF from, if any.
    pub symbols_from: Option<PathBuf>,
    /// Whether the symbol file names functions.
    pub has_symbols: bool,
    /// Facts that were found in the file although it does not state them, each one sentence.
    pub found: Vec<String>,
    /// Oddities that do not prevent a run, each one sentence.
    pub warnings: Vec<String>,
}

/// Extensions that are not part of an image's stem.
const FIRMWARE_EXTENSIONS: [&str; 10] = ["elf", "axf", "out", "hex", "ihex", "ihx", "uf2", "dfu", "bin", "img"];
const HEX_EXTENSIONS: [&str; 3] = ["hex", "ihex", "ihx"];
const UF2_EXTENSION: &str = "uf2";
const DFU_EXTENSION: &str = "dfu";
const RAW_EXTENSIONS: [&str; 2] = ["bin", "img"];

impl Image {
    /// Bytes of the instruction at `address`, a run address without load bias: up to 4, fewer at the end of a
    /// segment.
    pub fn code_at(&self, address: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            let offset = usize::try_from(address.checked_sub(segment.run_addr)?).ok()?;
            let code = segment.data.get(offset..segment.data.len().min(offset + 4))?;
            // Another segment may begin at the end of this one.
            (!code.is_empty()).then_some(code)
        })
    }

    /// Bytes in a range of run addresses (load bias not included), as sorted pieces without overlap. Addresses in no
    /// segment are left out.
    pub fn bytes_in(&self, range: Range<u64>) -> Vec<(u64, &[u8])> {
        let mut segments: Vec<&Segment> = self.segments.iter().collect();
        // The sort is stable: among overlays the first one counts, as in `code_at`.
        segments.sort_by_key(|segment| segment.run_addr);
        let mut pieces = Vec::new();
        let mut next = range.start;
        for segment in segments {
            let start = next.max(segment.run_addr);
            let end = range.end.min(segment.run_addr.saturating_add(segment.data.len() as u64));
            if start < end {
                let offset = (start - segment.run_addr) as usize;
                pieces.push((start, &segment.data[offset..offset + (end - start) as usize]));
                next = end;
            }
        }
        pieces
    }

    /// Reads a firmware file.
    ///
    /// # Errors
    /// [`InputError`] when the file cannot be read, or holds nothing that a supported processor runs.
    pub fn open(path: &Path, options: &LoadOptions<'_>) -> Result<Image, InputError> {
        Opened::open(path, options).map(|opened| opened.image)
    }

    /// Whether a firmware file is for an AVR; not if it cannot be read.
    pub fn is_avr(path: &Path, options: &LoadOptions<'_>) -> bool {
        if !fs::metadata(path).is_ok_and(|kind| kind.is_file()) {
            return false;
        }
        // An ELF says it in its first bytes, and may have megabytes.
        let mut start = [0; elf::MACHINE_END];
        let is_read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
        if is_read && start.starts_with(ELF_MAGIC) {
            return elf::is_avr(&start);
        }
        let unnamed = LoadOptions { symbols: None, ..*options };
        Image::open(path, &unnamed).is_ok_and(|image| image.arch == Some(Arch::Avr))
    }

    /// Reads a firmware file from its bytes; `symbols` is the file of `options.symbols`.
    ///
    /// # Errors
    /// See [`Image::open`].
    pub fn from_bytes(
        path: &Path,
        bytes: &[u8],
        options: &LoadOptions<'_>,
        symbols: Option<(&Path, &[u8])>,
    ) -> Result<Image, InputError> {
        if bytes.is_empty() {
            return Err(InputError::about(path, "the file is empty; did the build that writes it fail?"));
        }
        let format = detect_format(path, bytes, options)?;
        let is_unplaced = format == Format::Raw || (format == Format::Dfu && !dfu::says_addresses(bytes));
        if !is_unplaced && options.load_addr.is_some() {
            return Err(InputError::about(
                path,
                format_args!(
                    "--load-addr places a raw binary, but this is {format}, which says its own \
                     addresses; leave --load-addr out"
                ),
            ));
        }

        let symbols = match symbols {
            Some((path, bytes)) => Some((path, elf::parse(path, bytes, elf::Purpose::Symbols)?)),
            None => None,
        };

        let mut image = Image {
            path: path.to_path_buf(),
            stem: stem(path),
            format,
            sha256: sha256_hex(bytes),
            file_bytes: bytes.len() as u64,
            arch: None,
            needs: CpuNeeds::default(),
            family: None,
            segments: Vec::new(),
            entry: None,
            vector_table: None,
            avr_vectors: None,
            position_independent: false,
            load_bias: options.load_bias,
            vectors: options.vectors,
            symbols_from: None,
            has_symbols: false,
            found: Vec::new(),
            warnings: Vec::new(),
        };
        image.load(bytes, options)?;
        image.check_is_movable()?;
        sort_segments(path, &mut image.segments)?;
        image.check_bias()?;
        if let Some((symbols_path, facts)) = symbols {
            image.adopt_symbols(symbols_path, facts)?;
        }
        image.vector_table = image.find_vector_table();
        if image.format == Format::Raw && image.vector_table.is_none() && options.vectors.is_none() {
            image.search_vector_table();
        }
        if let Some(address) = options.vectors {
            image.vector_table = Some(image.said_vector_table(address)?);
        }
        image.settle_arch()?;
        Ok(image)
    }

    /// Takes the segments of the file, and the facts that its format states.
    fn load(&mut self, bytes: &[u8], options: &LoadOptions<'_>) -> Result<(), InputError> {
        match self.format {
            Format::Elf => {
                let facts = elf::parse(&self.path, bytes, elf::Purpose::Run)?;
                self.arch = facts.arch;
                self.needs = facts.needs;
                self.segments = facts.segments;
                self.entry = Some(facts.entry);
                self.position_independent = facts.position_independent;
                self.symbols_from = Some(self.path.clone());
                self.has_symbols = facts.has_symbols;
            }
            Format::IntelHex => {
                let contents = hex::parse(&self.path, bytes, options.board)?;
                self.segments = contents.segments;
                self.entry = contents.entry;
                self.found.extend(contents.board.map(|(board, others)| {
                    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                    let also = if others.is_empty() {
                        String::new()
                    } else {
                        format!("; it also has {}", others.join(", "))
                    };
                    format!("of the Universal Hex the part for {board}{also}")
                }));
            }
            Format::Uf2 => {
                let contents = uf2::parse(&self.path, bytes, options.chip)?;
                self.segments = contents.segments;
                self.family = contents.family;
                self.found.extend(contents.family.map(|family| format!("a UF2 file for {family}")));
            }
            Format::Dfu => self.segments = dfu::parse(&self.path, bytes, options.load_addr)?,
            Format::Raw => {
                // detect_format has checked that the address is given.
                let load_addr = options.load_addr.unwrap_or(0);
                if load_addr.checked_add(bytes.len() as u64).is_none() {
                    return Err(InputError::about(
                        &self.path,
                        format_args!(
                            "{} bytes from --load-addr {} on end beyond the last address",
                            bytes.len(),
                            Hex(load_addr)
                        ),
                    ));
                }
                self.segments.push(Segment {
                    load_addr,
                    run_addr: load_addr,
                    data: bytes.to_vec(),
                    mem_bytes: bytes.len() as u64,
                    executable: true,
                    writable: true,
                });
            }
        }
        Ok(())
    }

    /// Refuses a bias for an image of fixed addresses.
    fn check_is_movable(&self) -> Result<(), InputError> {
        if self.load_bias.is_some() && !self.position_independent {
            return Err(InputError::about(
                &self.path,
                "--load-bias moves a position-independent ELF (linked with -static-pie), and this \
                 file has fixed addresses; leave --load-bias out",
            ));
        }
        Ok(())
    }

    /// Refuses a bias that moves a segment beyond the last address.
    fn check_bias(&self) -> Result<(), InputError> {
        let Some(bias) = self.load_bias else { return Ok(()) };
        let last = if self.arch.is_some_and(Arch::is_64_bit) { u64::MAX } else { u64::from(u32::MAX) };
        let end = self.link_range().end;
        if end.checked_add(bias).is_none_or(|end| end > last) {
            return Err(InputError::about(
                &self.path,
                format_args!(
                    "--load-bias {} moves the image's end ({}) beyond the last address",
                    Hex(bias),
                    Hex(end)
                ),
            ));
        }
        Ok(())
    }

    /// Stack pointer at reset, if the file states it.
    pub fn initial_sp(&self) -> Option<u64> {
        self.vector_table.map(|table| table.initial_sp)
    }

    /// Address of the first instruction, if the file states it; bit 0 is clear.
    pub fn reset_pc(&self) -> Option<u64> {
        match self.arch {
            Some(Arch::CortexM) => self.vector_table.map(|table| table.reset_vector & !1),
            _ => self.entry,
        }
    }

    /// Range from the lowest run address to the end of the highest.
    pub fn link_range(&self) -> Range<u64> {
        let ranges = || self.segments.iter().map(Segment::run_range);
        let start = ranges().map(|range| range.start).min().unwrap_or(0);
        let end = ranges().map(|range| range.end).max().unwrap_or(0);
        start..end
    }

    /// Little-endian word that is loaded at `address`; None unless all its bytes are loaded.
    pub fn loaded_u32(&self, address: u64) -> Option<u32> {
        let segment = self.segments.iter().find(|segment| {
            let range = segment.load_range();
            range.contains(&address) && range.end - address >= 4
        })?;
        let offset = usize::try_from(address - segment.load_addr).ok()?;
        let word = segment.data.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    }

    /// Reads the two words at `address` as a Cortex-M vector table, plausible or not; None when the image loads
    /// nothing there.
    pub fn vector_table_at(&self, address: u64) -> Option<VectorTable> {
        Some(VectorTable {
            address,
            initial_sp: self.loaded_u32(address)?.into(),
            reset_vector: self.loaded_u32(address.checked_add(4)?)?.into(),
        })
    }

    /// Makes a minimal ELF file that loads the same bytes, `bias` higher, and starts at `entry` (already biased), with the
    /// header's `flags`. It depends only on the image's contents, so every format, file name and position-independent image reaches the
    /// emulator in the same way. Memory beyond the bytes is left out: an emulator's memory starts as zero.
    pub fn loadable_elf(&self, arch: Arch, flags: u32, bias: u64, entry: u64) -> Vec<u8> {
        let loads: Vec<elf::Load<'_>> = self
            .segments
            .iter()
            .filter(|segment| !segment.data.is_empty())
            .map(|segment| elf::Load { address: segment.load_addr.wrapping_add(bias), data: &segment.data })
            .collect();
        elf::write(arch, flags, entry, &loads)
    }

    /// Adopts facts from a symbol file, if the image itself does not state them.
    fn adopt_symbols(&mut self, path: &Path, facts: elf::Facts) -> Result<(), InputError> {
        if let (Some(own), Some(theirs)) = (self.arch, facts.arch)
            && own != theirs
        {
            return Err(InputError::about(
                path,
                format_args!(
                    "--symbols is a {theirs} file, but {} is {own}; give the ELF that the image was \
                     made from",
                    self.path.display()
                ),
            ));
        }
        self.compare_code(path, &facts.segments)?;
        if self.format != Format::Elf {
            self.arch = facts.arch;
            self.needs = facts.needs;
            self.entry = self.entry.or(Some(facts.entry));
        }
        self.symbols_from = Some(path.to_path_buf());
        self.has_symbols = facts.has_symbols;
        Ok(())
    }

    /// Compares the code of image and symbol file.
    fn compared(&self, theirs: &[Segment]) -> Compared {
        let mut found = Compared { code_bytes: 0, bytes: 0, different: 0, first: None };
        for code in theirs.iter().filter(|segment| segment.executable) {
            found.code_bytes += code.data.len() as u64;
            for own in &self.segments {
                let (a, b) = (code.load_range(), own.load_range());
                let (start, end) = (a.start.max(b.start), a.end.min(b.end));
                if start >= end {
                    continue;
                }
                let len = (end - start) as usize;
                let a = &code.data[(start - a.start) as usize..][..len];
                let b = &own.data[(start - b.start) as usize..][..len];
                found.bytes += len as u64;
                for (offset, _) in a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b) {
                    found.different += 1;
                    found.first.get_or_insert(start + offset as u64);
                }
            }
        }
        found
    }

    /// Checks that image and symbol file have the same code: symbols of another build would give wrong names without notice.
    /// A file with debug information only has no bytes to compare.
    fn compare_code(&mut self, path: &Path, theirs: &[Segment]) -> Result<(), InputError> {
        let Compared { code_bytes, bytes, different, first } = self.compared(theirs);
        if code_bytes > 0 && bytes == 0 {
            let hint = match self.format {
                Format::Raw => "check --load-addr, and that the ELF is the one it was made from",
                _ => "give the ELF that the image was made from",
            };
            return Err(InputError::about(
                path,
                format_args!(
                    "--symbols has no code at any address that {} loads (its segments: {}); {hint}",
                    self.path.display(),
                    list_segments(&self.segments)
                ),
            ));
        }
        if let Some(first) = first {
            self.warnings.push(format!(
                "{different} of {bytes} bytes of code differ between {} and {}, the first at {}: \
                 if they are of different builds, functions are named wrongly",
                self.path.display(),
                path.display(),
                Hex(first)
            ));
        } else if bytes > 0 && self.format != Format::Elf {
            self.found.push(format!(
                "{} has the same code: it names the functions, and says for which processor they are",
                path.display()
            ));
        }
        Ok(())
    }

    /// Finds the vector table: at the lowest load address, or else at the start of the first segment that begins like
    /// one.
    fn find_vector_table(&self) -> Option<VectorTable> {
        if self.arch.is_some_and(|arch| arch != Arch::CortexM) {
            return None;
        }
        self.segments
            .iter()
            .filter_map(|segment| self.vector_table_at(segment.load_addr))
            .find(|table| self.is_plausible(table))
    }

    /// Searches a raw binary for a vector table after a header. Takes the first table whose reset, NMI and HardFault
    /// handlers lie in the image and whose reserved words are 0 (Armv7-M ARM, B1.5.3).
    fn search_vector_table(&mut self) {
        if self.arch.is_some_and(|arch| arch != Arch::CortexM) {
            return;
        }
        let Some(range) = self.segments.first().map(Segment::load_range) else { return };
        let first = range.start.next_multiple_of(VECTOR_TABLE_ALIGN);
        let is_table = |table: &VectorTable| {
            let word = |index: u64| self.loaded_u32(table.address + 4 * index).map(u64::from);
            let is_handler = |index| word(index).is_some_and(|handler| handler & 1 == 1 && range.contains(&handler));
            self.is_plausible(table) && (1..4).all(is_handler) && (8..11).all(|index| word(index) == Some(0))
        };
        let addresses = (first..range.end).step_by(VECTOR_TABLE_ALIGN as usize);
        let mut tables = addresses.filter_map(|address| self.vector_table_at(address)).filter(is_table);
        let Some(table) = tables.next() else { return };
        let others: Vec<String> = tables.take(3).map(|table| Hex(table.address).to_string()).collect();
        let VectorTable { address, initial_sp, reset_vector } = table;
        let also = if others.is_empty() { String::new() } else { format!("; others at {}", others.join(", ")) };
        self.found.push(format!(
            "vector table at {}, {} bytes behind the file's start: stack {}, reset {} (--vectors names another one{also})",
            Hex(address),
            address - range.start,
            Hex(initial_sp),
            Hex(reset_vector)
        ));
        self.vector_table = Some(table);
        self.vectors = Some(address);
    }

    /// Describes how to start a raw binary that has no vector table at its load address; None: nothing was found.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let segment = self.segments.first().filter(|_| self.format == Format::Raw)?;
        let bytes = segment.data.len() as u64;
        let words = |offset: u64, index: u64| self.loaded_u32(segment.load_addr + offset + 4 * index).map(u64::from);
        let offset = (0..bytes).step_by(VECTOR_TABLE_ALIGN as usize).find(|&offset| {
            let sp = words(offset, 0).unwrap_or(0);
            let handlers: Option<Vec<u64>> = (1..4).map(|index| words(offset, index)).collect();
            let is_near = |handlers: Vec<u64>| {
                let (low, high) = (handlers.iter().min().copied(), handlers.iter().max().copied());
                let is_near = low.zip(high).is_some_and(|(low, high)| low > 0 && high - low < bytes);
                is_near && handlers.iter().all(|handler| handler & 1 == 1)
            };
            let is_stack = (0x1000_0000..=0x4000_0000).contains(&sp) && sp.is_multiple_of(4);
            is_stack && handlers.is_some_and(is_near) && (8..11).all(|index| words(offset, index) == Some(0))
        })?;
        let low = (1..4).filter_map(|index| words(offset, index)).min()?;
        let load = (low & !0xfff).checked_sub(offset)?;
        Some(format!(
            "at offset {offset:#x} it has a vector table with handlers from {} on, which the file does not reach from {}: \
             it may be meant for --load-addr {}",
            Hex(low & !1),
            Hex(segment.load_addr),
            Hex(load)
        ))
    }

    /// Reads the vector table at `--vectors`.
    fn said_vector_table(&self, address: u64) -> Result<VectorTable, InputError> {
        let fail = |what: &str| {
            let segments = list_segments(&self.segments);
            InputError::about(&self.path, format_args!("--vectors {}: {what}; it loads {segments}", Hex(address)))
        };
        if let Some(arch) = self.arch.filter(|&arch| arch != Arch::CortexM) {
            let family = if arch.is_riscv() { "a RISC-V" } else { "an AVR" };
            return Err(fail(&format!(
                "only a Cortex-M starts from a table of addresses, and this is {family} image"
            )));
        }
        if !address.is_multiple_of(VECTOR_TABLE_ALIGN) {
            return Err(fail("a vector table lies at a multiple of 128 bytes"));
        }
        let table = self.vector_table_at(address).ok_or_else(|| fail("the image loads nothing there"))?;
        // All other conditions depend on the machine.
        if table.reset_vector & 1 == 0 {
            return Err(fail("there is no vector table (a stack pointer, then an odd reset address)"));
        }
        Ok(table)
    }

    /// Whether the stack pointer is where microcontrollers have memory, and the reset vector a Thumb address inside
    /// the image.
    fn is_plausible(&self, table: &VectorTable) -> bool {
        let sp = table.initial_sp;
        let in_ram = (0x1000_0000..=0x4000_0000).contains(&sp) || (0x6000_0000..=0xa000_0000).contains(&sp);
        let reset = table.reset_vector;
        in_ram
            && sp.is_multiple_of(4)
            && reset & 1 == 1
            && self.segments.iter().any(|segment| segment.run_range().contains(&(reset & !1)))
    }

    /// Determines the family from the contents, for HEX and raw files without symbols and for Arm ELF files without
    /// attributes.
    fn settle_arch(&mut self) -> Result<(), InputError> {
        if self.arch.is_none() {
            self.avr_vectors = AvrVectors::read(|address| self.code_at(address));
        }
        match self.arch {
            None if self.avr_vectors.is_some() => {
                // A file with both tables says nothing.
                let vectors = self.avr_vectors.as_ref().filter(|_| self.vector_table.is_none());
                if let Some(needs) = vectors.and_then(AvrVectors::needs) {
                    self.arch = Some(Arch::Avr);
                    self.needs.avr = Some(needs);
                }
            }
            None if self.vector_table.is_some() => self.arch = Some(Arch::CortexM),
            Some(Arch::CortexM)
                if self.needs.arm.is_none()
                    && self.vector_table.is_none()
                    && self.entry.is_some_and(|entry| entry & 1 == 0) =>
            {
                return Err(InputError::about(
                    &self.path,
                    "32-bit Arm code that does not look like a Cortex-M's: it has no \
                     .ARM.attributes, no vector table (stack pointer, then an odd reset address) at \
                     the start of a segment, and its entry is not Thumb code; only the M profile is \
                     supported",
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Formats the addresses of segments that have bytes, for a message: `0x00000000..0x00004000, …`.
pub(crate) fn list_segments(segments: &[Segment]) -> String {
    let ranges: Vec<String> = segments
        .iter()
        .filter(|segment| !segment.data.is_empty())
        .map(|segment| show_range(&segment.load_range()))
        .collect();
    ranges.join(", ")
}

/// Formats a range for a message: `0x00000000..0x00004000`, its end not included.
pub(crate) fn show_range(range: &Range<u64>) -> String {
    format!("{}..{}", Hex(range.start), Hex(range.end))
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, InputError> {
    let fail = |error: io::Error| {
        InputError::about(
            path,
            match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("there is no such file; build the {what} first?")
                }
                io::ErrorKind::PermissionDenied => "the file is not readable (permission denied)".to_owned(),
                _ => format!("the {what} cannot be read: {error}"),
            },
        )
    };
    let kind = fs::metadata(path).map_err(fail)?;
    if kind.is_dir() {
        return Err(InputError::about(path, format_args!("this is a directory; give the {what} inside it")));
    }
    if !kind.is_file() {
        return Err(InputError::about(path, "this is not a regular file (a pipe or device); give a file on disk"));
    }
    bounded_read::read(path).map_err(fail)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extensions.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

/// Whether a file is called a UF2.
pub fn is_uf2(path: &Path) -> bool {
    has_extension(path, &[UF2_EXTENSION])
}

/// Stem of an image: its file name, without a firmware extension.
pub fn stem(path: &Path) -> String {
    let name = if has_extension(path, &FIRMWARE_EXTENSIONS) { path.file_stem() } else { path.file_name() };
    match name.map(|name| name.to_string_lossy().into_owned()) {
        Some(name) if !name.is_empty() => name,
        _ => "firmware".to_owned(),
    }
}

/// Default name of an image's profile. The name keeps the file's extension unless that is an ELF's, because a build
/// leaves `fw.elf`, `fw.hex` and `fw.bin` side by side.
pub fn profile_name(path: &Path) -> String {
    let is_other = [&HEX_EXTENSIONS[..], &[UF2_EXTENSION, DFU_EXTENSION], &RAW_EXTENSIONS]
        .into_iter()
        .any(|known| has_extension(path, known));
    let ending = path.extension().filter(|_| is_other).map(|ending| ending.to_string_lossy().to_lowercase());
    format!("{}{}.profile", stem(path), ending.map(|ending| format!(".{ending}")).unwrap_or_default())
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// First bytes of an ELF file.
const ELF_MAGIC: &[u8] = b"\x7fELF";

fn detect_format(path: &Path, bytes: &[u8], options: &LoadOptions<'_>) -> Result<Format, InputError> {
    if bytes.starts_with(ELF_MAGIC) {
        return Ok(Format::Elf);
    }
    if has_extension(path, &HEX_EXTENSIONS) || hex::looks_like(bytes) {
        return Ok(Format::IntelHex);
    }
    if is_uf2(path) || bytes.starts_with(uf2::MAGIC) {
        return Ok(Format::Uf2);
    }
    if has_extension(path, &[DFU_EXTENSION]) || dfu::looks_like(bytes) {
        return Ok(Format::Dfu);
    }
    if options.load_addr.is_some() {
        return Ok(Format::Raw);
    }
    const KNOWN: [(&[u8], &str); 5] = [
        (b"!<arch>\n", "a static library; link it into an executable"),
        (
            b"S0",
            "a Motorola S-record file; give the ELF that it was made from, or convert it: \
                 objcopy -I srec -O ihex",
        ),
        (b"MZ", "a Windows executable; give the firmware's ELF"),
        (b"\xcf\xfa\xed\xfe", "a macOS executable; build the firmware for its own target"),
        (b"#!", "a script; give the firmware's ELF"),
    ];
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ino")) {
        let what = "this is a sketch's source; give the ELF that it is compiled to: the Arduino IDE's verbose output has its \
                    path, `arduino-cli compile --output-dir build` makes build/NAME.ino.elf, PlatformIO \
                    .pio/build/uno/firmware.elf";
        return Err(InputError::about(path, what));
    }
    let message = match KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, what)) => format!("this is {what}"),
        None if bytes.starts_with(b"\x7f") && bytes.len() < 4 => {
            "this ELF file is truncated: only its first bytes are there".to_owned()
        }
        None => "this is neither ELF nor Intel HEX, UF2 or DFU; if it is a raw binary, say where it is loaded: \
                 --load-addr ADDRESS (and --symbols FILE.elf for names)"
            .to_owned(),
    };
    Err(InputError::about(path, message))
}

/// Sorts by load address and refuses bytes that are loaded twice.
fn sort_segments(path: &Path, segments: &mut [Segment]) -> Result<(), InputError> {
    segments.sort_by_key(|segment| (segment.load_addr, segment.run_addr, segment.mem_bytes));
    const MAX_PIECES: usize = 60_000; // an ELF header counts to 65,534
    if segments.len() > MAX_PIECES {
        return Err(InputError::about(
            path,
            format_args!("it loads {} separate pieces; is it firmware?", segments.len()),
        ));
    }
    let mut previous: Option<Range<u64>> = None;
    for segment in segments.iter().filter(|segment| !segment.data.is_empty()) {
        let range = segment.load_range();
        if let Some(previous) = &previous
            && range.start < previous.end
        {
            return Err(InputError::about(
                path,
                format_args!(
                    "two of its segments load bytes at the same addresses ({} and {}); check the \
                     linker script's load addresses (AT, LMA)",
                    show_range(previous),
                    show_range(&range)
                ),
            ));
        }
        previous = Some(range);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_build_leaves_side_by_side_have_a_profile_each() {
        for (path, expected) in [
            ("a/fw.elf", "fw.profile"),
            ("a/fw", "fw.profile"),
            ("fw.out", "fw.profile"),
            ("a/fw.bin", "fw.bin.profile"),
            ("a/fw.HEX", "fw.hex.profile"),
            ("fw-1.2", "fw-1.2.profile"),
        ] {
            assert_eq!(profile_name(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn the_stem_loses_only_a_firmware_extension() {
        for (path, expected) in [
            ("a/b.elf", "b"),
            ("a/riscv64-freertos.ELF", "riscv64-freertos"),
            ("target/thumbv7m-none-eabi/debug/app", "app"),
            ("app-1.2", "app-1.2"),
            (".elf", ".elf"),
            ("with space, comma.hex", "with space, comma"),
            ("..", "firmware"),
        ] {
            assert_eq!(stem(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_core_runs_what_lower_levels_run() {
        use ArmLevel::*;
        assert!(V7M.runs(V6M) && V7EM.runs(V7M) && V8MMain.runs(V7EM) && V81MMain.runs(V8MBase));
        assert!(!V6M.runs(V7M) && !V7EM.runs(V8MBase) && !V8MBase.runs(V7M) && V8MBase.runs(V6M));
    }

    #[test]
    fn the_hash_is_sha256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
