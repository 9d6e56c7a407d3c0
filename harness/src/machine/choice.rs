// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice of a machine: the machines that fit, the best of them, and the reasons against the others.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::placement::{Placement, biases, home, place, shift, start};
use super::processor::{Processor, is_of_family, isa_with, processor};
use super::table::{self, Core, DEFAULT_SHIFT, LoadOption, MACHINES, Machine, MemoryKind, NONE, Region};
use crate::chip::base::{self, BASES};
use crate::chip::{self, Chip};
use crate::error::InputError;
use crate::image::{AVR5, Arch, Format, Image, list_segments, show_range};
use crate::text::near::nearest;
use crate::text::number::Hex;
use crate::text::shell::quoted;

/// Machine that was chosen for an image, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Chosen machine.
    pub machine: Machine,
    /// Argument of `-cpu`, if the machine's own CPU will not do.
    pub cpu: Option<String>,
    /// Reason for the choice, in one clause: `its memory fits, and cortex-m3 is what v7-M code was built for`.
    pub because: String,
    /// Other machines that fit, the next best first: title and reason against it.
    pub runners_up: Vec<(String, String)>,
    /// Machines of the same family that do not fit: title and reason.
    pub rejected: Vec<(String, String)>,
    /// Oddities of the user's own choice, each one sentence.
    pub warnings: Vec<String>,
    /// Bias added to all addresses of the image; 0 unless it is position-independent.
    pub load_bias: u64,
    /// Address of the image's first instruction (bit 0 clear), bias included.
    pub entry: u64,
    /// Stack pointer at reset, if the hardware sets it.
    pub initial_sp: Option<u64>,
    /// Address of the vector table that the processor starts from, if the machine must be told.
    pub vectors: Option<u64>,
}

impl Choice {
    /// Memory that can be read without a side effect and can hold a stack or data, in ascending order, neighbours
    /// joined. Empty when the machine's memory is unknown: then read nothing.
    pub fn ram(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.machine.memory.iter().filter(|region| region.is_writable()).map(Region::range).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, previous| {
            let touches = previous.end == next.start;
            if touches {
                previous.end = next.end;
            }
            touches
        });
        ranges
    }

    /// File to pass to the emulator: see [`Image::loadable_elf`].
    pub fn loadable_elf(&self, image: &Image) -> Vec<u8> {
        let entry = match self.machine.arch {
            // The entry does not matter for a Cortex-M, but QEMU requires its bit 0.
            Arch::CortexM => self.entry | 1,
            Arch::Riscv64 | Arch::Riscv32 => self.entry,
            // QEMU requires the first vector, which jumps to the start-up code.
            Arch::Avr => 0,
        };
        // QEMU loads a file for the machine's own core only.
        let flags = match (self.machine.arch, self.machine.core) {
            (Arch::CortexM, _) => 0x0500_0000, // EABI 5
            (Arch::Riscv64 | Arch::Riscv32, _) => 0,
            (Arch::Avr, Core::Avr { family, .. }) => family,
            (Arch::Avr, _) => avr_family(image),
        };
        image.loadable_elf(self.machine.arch, flags, self.load_bias, entry)
    }
}

/// Chooses the machine for an image.
///
/// `forced_machine` (`--machine`) is a name of the table or any other name that QEMU knows, which is passed on
/// unchecked. `riscv64:virt`, `riscv32:virt`, `arm:NAME` and `avr:NAME` name the emulator as well, for files that do not.
/// `forced_cpu` (`--cpu`) is passed on unchanged; the table then offers only Arm machines that have this processor.
///
/// # Errors
/// [`InputError`] when nothing fits; it lists every machine considered, with the reason.
pub fn choose(image: &Image, forced_machine: Option<&str>, forced_cpu: Option<&str>) -> Result<Choice, InputError> {
    if let Some(name) = forced_machine {
        return force(image, name, forced_cpu);
    }
    let arch = known_arch(image)?;
    known_cpu(image, arch, forced_cpu)?;

    let mut fits: Vec<Fit<'_>> = Vec::new();
    let mut rejected: Vec<(String, String)> = Vec::new();
    for machine in MACHINES.iter().filter(|machine| machine.arch == arch) {
        let verdict = match processor(machine, image, forced_cpu) {
            Ok(processor) => place(machine, image).map(|placement| Fit { machine, processor, placement }),
            Err(reason) => Err(reason),
        };
        match verdict {
            Ok(fit) => fits.push(fit),
            Err(reason) => rejected.push((machine.title(), reason)),
        }
    }
    // A stable sort: equals stay in the table's order. A start from a vector table that is not the machine's own is a
    // makeshift, so it comes last. A chip that always starts where the image does comes first, and before it one
    // whose registers the image names: the image was linked for it.
    fits.sort_by_key(|fit| {
        let starts_there = matches!(fit.machine.core, Core::RiscvChip { .. });
        let is_named = fit.machine.is_named_by(image);
        (fit.placement.vectors.is_some(), !is_named, fit.machine.is_late, !starts_there, fit.processor.distance)
    });
    let mut fits = fits.into_iter();
    let Some(best) = fits.next() else {
        return Err(none_fits(image, arch, &rejected));
    };
    let is_named = best.machine.is_named_by(image);
    let registers = if is_named { ", the image has addresses of its registers" } else { "" };
    let mut because = format!("its memory fits{registers}, and {}", best.processor.because);
    if let Some(address) = best.placement.vectors {
        because.push_str(&format!("; it starts from the vector table at {}", Hex(address)));
    }
    let mut runners_up: Vec<(String, String)> = Vec::new();
    for fit in fits {
        let reason = if is_named && !fit.machine.is_named_by(image) {
            format!("fits as well, but the image has addresses of {}'s registers", best.machine.name)
        } else if fit.processor.distance > best.processor.distance {
            fit.processor.because
        } else if fit.processor.distance < best.processor.distance && fit.machine.is_late {
            format!(
                "{}, but others that fit come before it in the table: --machine chooses it",
                fit.processor.because
            )
        } else {
            if runners_up.is_empty() {
                because.push_str("; the first such machine of the table");
            }
            "fits as well, but comes later in the table".to_owned()
        };
        runners_up.push((fit.machine.title(), reason));
    }
    let cpu = forced_cpu.map(str::to_owned).or(best.processor.cpu);
    Ok(Choice {
        machine: with_processor(best.machine.clone(), cpu.as_deref()),
        cpu,
        because,
        runners_up,
        rejected,
        warnings: oddities(best.machine, image, best.placement.load_bias),
        load_bias: best.placement.load_bias,
        entry: best.placement.entry,
        initial_sp: best.placement.initial_sp,
        vectors: best.placement.vectors,
    })
}

/// A machine with the instruction set of its processor.
fn with_processor(machine: Machine, cpu: Option<&str>) -> Machine {
    Machine { isa: isa_with(machine.isa, cpu), ..machine }
}

/// Places an image on a chip that the user has named, using the chip's base machine. Which processor the image says it was
/// built for is a claim then, and a warning where the chip has another.
///
/// # Errors
/// [`InputError`] when it does not fit: the address, and the chip's memory.
pub fn choose_chip(image: &Image, chip: &Chip) -> Result<Choice, InputError> {
    let base = BASES.iter().find(|(cpu, _)| *cpu == chip.cpu).map_or("", |(_, base)| base);
    let about = |reason: String| InputError::about(&image.path, format_args!("--chip {}: {reason}", chip.name));
    let Some(base) = MACHINES.iter().chain([&NONE]).find(|machine| machine.name == base) else {
        return Err(about(format!("no machine has a {}", chip.cpu)));
    };
    if let Some(arch) = image.arch.filter(|&arch| arch != base.arch) {
        return Err(about(format!("this is an image for {arch}, and the chip is of {}", base.arch)));
    }
    let regions = |kind| {
        let memory = chip.wire.memory.iter().filter(move |memory| memory.is_flash == (kind == MemoryKind::Rom));
        let name = if kind == MemoryKind::Rom { "flash" } else { "RAM" };
        memory.map(move |memory| Region { start: memory.start, bytes: memory.bytes, kind, name })
    };
    let memory: Vec<Region> = regions(MemoryKind::Ram).chain(regions(MemoryKind::Rom)).collect();
    let mut machine = Machine {
        shift: chip_shift(chip.hz),
        is_late: false,
        boot_rom: None,
        finisher: None,
        exit: None,
        memory: if chip.wire.is_addition { base.memory.clone() } else { memory.into() },
        chip: Some(chip.name.clone()),
        ..base.clone()
    };
    if let Core::Arm { vector_table, vector_table_alias, .. } = &mut machine.core {
        (*vector_table, *vector_table_alias) = (chip.vectors, None);
    }
    let riscv = base::riscv(&chip.cpu);
    if let Some(riscv) = riscv {
        machine.core = Core::RiscvChip { cpu: riscv.name, extensions: riscv.extensions, start: None };
    }
    let (cpu, warning) = match processor(&machine, image, None) {
        Ok(processor) => (processor.cpu, None),
        // QEMU refuses code of another family.
        Err(reason) if machine.arch == Arch::Avr => return Err(about(reason)),
        Err(reason) => (None, Some(reason)),
    };
    let placement = place(&machine, image).map_err(|reason| {
        let way_out = match image.format {
            Format::Raw => "; --load-addr says where the file lies, --vectors where its vector table",
            Format::Elf | Format::IntelHex | Format::Uf2 | Format::Dfu => "",
        };
        about(format!("{reason}{}{way_out}", elsewhere(image)))
    })?;
    let no_stack = placement.initial_sp.filter(|sp| !machine.memory.iter().any(|region| is_stack_top(region, *sp)));
    let no_stack = no_stack.map(|sp| format!("initial stack pointer {} is in no RAM", Hex(sp)));
    let warnings = warning.into_iter().chain(no_stack);
    Ok(Choice {
        // QEMU reads the vector table at 0 unless it gets another address.
        vectors: placement.vectors.or((chip.vectors != 0).then_some(chip.vectors)),
        machine,
        cpu: riscv.map_or(cpu, |core| Some(core.cpu.to_owned())),
        because: "--chip asks for it".to_owned(),
        runners_up: Vec::new(),
        rejected: Vec::new(),
        warnings: warnings.map(|reason| format!("--chip {}: {reason}; it starts all the same", chip.name)).collect(),
        load_bias: placement.load_bias,
        entry: placement.entry,
        initial_sp: placement.initial_sp,
    })
}

/// Places an image on a chip that nobody has named.
///
/// # Errors
/// [`InputError`] as for [`choose_chip`], and where that would warn.
pub fn fit_chip(image: &Image, chip: &Chip) -> Result<Choice, InputError> {
    let choice = choose_chip(image, chip)?;
    match choice.warnings.first() {
        Some(warning) => Err(InputError::about(&image.path, warning)),
        None => Ok(choice),
    }
}

/// Whether a stack that begins at an address grows into a RAM.
fn is_stack_top(region: &Region, sp: u64) -> bool {
    region.is_writable() && region.start < sp && sp <= region.range().end
}

/// Built-in chips whose memory fits an image. Suggested for an image that waits for a device that the machine lacks.
pub fn chips_for(image: &Image) -> Vec<&'static str> {
    let fit = chip::built_in().iter().filter(|chip| fit_chip(image, chip).is_ok());
    fit.map(|chip| chip.name.as_str()).collect()
}

/// Nanoseconds per instruction at a frequency, as the nearest power of 2.
fn chip_shift(hz: u64) -> u8 {
    let ns = 1e9 / hz.max(1) as f64;
    ns.log2().round().clamp(0.0, 10.0) as u8
}

/// Describes the parts of the image that the machine does not take, each in one sentence.
fn oddities(machine: &Machine, image: &Image, bias: u64) -> Vec<String> {
    let mut sentences = Vec::new();
    for segment in image.segments.iter().filter(|segment| segment.data.iter().any(|&byte| byte != 0xff)) {
        let range = shift(&segment.load_range(), bias);
        let region = machine.memory.iter().find(|region| region.kind == MemoryKind::Settings && region.holds(&range));
        if let Some(region) = region {
            sentences.push(format!(
                "the settings in {} ({}) are not loaded: QEMU's {} begins with {0} erased",
                region.name,
                show_range(&range),
                machine.name
            ));
        }
    }
    sentences
}

struct Fit<'a> {
    machine: &'a Machine,
    processor: Processor,
    placement: Placement,
}

/// Refuses a processor that no machine of the table has, where each has one only: a typo would rule out all of them.
fn known_cpu(image: &Image, arch: Arch, forced_cpu: Option<&str>) -> Result<(), InputError> {
    let cpus: BTreeSet<&str> =
        MACHINES.iter().filter(|machine| machine.arch == arch).filter_map(Machine::cpu).collect();
    let Some(name) = forced_cpu.and_then(|cpu| cpu.split(',').next()) else { return Ok(()) };
    if arch != Arch::CortexM || cpus.contains(name) {
        return Ok(());
    }
    let hint = nearest(name, cpus.iter().copied()).map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    let known: Vec<&str> = cpus.into_iter().collect();
    Err(InputError::about(
        &image.path,
        format_args!("--cpu {name}: no machine has that processor{hint}; there are {}", known.join(", ")),
    ))
}

/// The place where a raw binary without a vector table may belong, for the end of a message.
fn elsewhere(image: &Image) -> String {
    image.elsewhere().map(|place| format!("; {place}")).unwrap_or_default()
}

fn known_arch(image: &Image) -> Result<Arch, InputError> {
    image.arch.ok_or_else(|| {
        let way_out = "give the ELF that it was made from (--symbols FILE.elf)";
        let machine = "the machine: --machine riscv64:virt, riscv32:virt, arm:NAME or avr:NAME";
        let reason = match &image.avr_vectors {
            Some(vectors) if image.vector_table.is_some() => format!(
                "and this one begins with {} jumps, as code for AVR does, and has a Cortex-M vector table, too; \
                 {way_out}, or {machine}",
                vectors.count
            ),
            Some(vectors) => format!(
                "and this one begins with {} jumps, as code for AVR does, but its vectors and start-up code are of no \
                 known AVR (ATmega168 and 328P have 26, ATmega1280 and 2560 have 57); {way_out}, or {machine}",
                vectors.count
            ),
            None => format!(
                "and this one has no Cortex-M vector table (stack pointer, then an odd reset address) and does not \
                 begin with AVR's vectors (a jump for each){}; {way_out}, where its table lies (--vectors ADDRESS), or \
                 {machine}",
                elsewhere(image)
            ),
        };
        let article = if image.format == Format::IntelHex { "an" } else { "a" };
        InputError::about(
            &image.path,
            format_args!("{article} {} file does not say which processor it is for, {reason}", image.format),
        )
    })
}

fn none_fits(image: &Image, arch: Arch, rejected: &[(String, String)]) -> InputError {
    let mut message = format!(
        "{}: no {arch} machine can run this image.\n  It loads {}",
        image.path.display(),
        list_segments(&image.segments)
    );
    if let Some(table) = image.vector_table {
        let _ = write!(
            message,
            "; its vector table at {} starts with stack pointer {} and reset vector {}",
            Hex(table.address),
            Hex(table.initial_sp),
            Hex(table.reset_vector)
        );
    } else if let Some(entry) = image.entry {
        let _ = write!(message, "; it starts at {}", Hex(entry));
    }
    message.push_str(".\n  Considered:");
    for (title, reason) in rejected {
        let _ = write!(message, "\n    {title}: {reason}");
    }
    // A chip file only adds devices to the machines of AVRs.
    if arch != Arch::Avr {
        let name = match chips_for(image).len() {
            0 => "--chip FILE describes it (docs/chips.md)".to_owned(),
            fit => format!(
                "--chip NAME; {fit} of `harness list chips` have memory for it, and `harness chip suggest {}` says which is \
                 likely",
                quoted(&image.path.display().to_string())
            ),
        };
        let _ = write!(message, "\n  If it was built for a chip, name that: {name}.");
    }
    message.push_str(
        "\n  Link it for one of these, or name another machine that QEMU has: --machine NAME \
         (and --cpu NAME)",
    );
    InputError::new(message)
}

/// QEMU's longer names of machines of the table (hw/avr/arduino.c).
const ALIASES: [(&str, &str); 4] = [
    ("arduino-uno", "uno"),
    ("arduino-duemilanove", "2009"),
    ("arduino-mega", "mega"),
    ("arduino-mega-2560-v3", "mega2560"),
];

/// Applies the user's own choice. The family must be right and all bytes must have a place; other mismatches are only
/// reported.
fn force(image: &Image, name: &str, forced_cpu: Option<&str>) -> Result<Choice, InputError> {
    let (arch, name) = match name.split_once(':') {
        Some(("riscv64", name)) => (Some(Arch::Riscv64), name),
        Some(("riscv32", name)) => (Some(Arch::Riscv32), name),
        Some(("arm", name)) => (Some(Arch::CortexM), name),
        Some(("avr", name)) => (Some(Arch::Avr), name),
        _ => (None, name),
    };
    // A machine may come with properties of its own: virt,aclint=on.
    let typed = name.split(',').next().unwrap_or(name);
    let base = ALIASES.iter().find(|(alias, _)| *alias == typed).map_or(typed, |&(_, of)| of);
    let name = format!("{base}{}", &name[typed.len()..]);
    let name = name.as_str();
    if base.is_empty() {
        let what = "--machine is empty; give a machine's name, such as mps2-an385";
        return Err(InputError::about(&image.path, what));
    }
    let named: Vec<&Machine> = MACHINES.iter().filter(|m| m.name == base).collect();
    let arch = match (arch.or(image.arch), &named[..]) {
        (Some(arch), _) => arch,
        (None, [only]) => only.arch,
        (None, _) => known_arch(image)?,
    };
    if let Some(own) = image.arch
        && own != arch
    {
        return Err(InputError::about(
            &image.path,
            format_args!("this is an image for {own}, and --machine {arch}:{name} asks for {arch}"),
        ));
    }
    let Some(machine) = named.iter().find(|machine| machine.arch == arch) else {
        if let Some(other) = named.first() {
            return Err(other_family(image, arch, other));
        }
        check_repeats(image, name)?;
        return Ok(unknown(image, arch, name, forced_cpu));
    };
    let mut warnings = Vec::new();
    let processor = match processor(machine, image, forced_cpu) {
        Ok(processor) => processor.cpu,
        // QEMU refuses code of another family.
        Err(reason) if arch == Arch::Avr && !is_of_family(machine, image) => {
            let next = way_out(image);
            return Err(InputError::about(&image.path, format_args!("--machine {name}: {reason}; {next}")));
        }
        Err(reason) => {
            warnings.push(format!("--machine {name}: {reason}"));
            None
        }
    };
    let placement = match place(machine, image) {
        Ok(placement) => placement,
        Err(reason) => {
            let bias = place_loosely(machine, image).map_err(|reason| {
                InputError::about(
                    &image.path,
                    format_args!(
                        "--machine {name} has no memory for this image: {reason}. Link it for this \
                         machine, or leave --machine out to see which fit"
                    ),
                )
            })?;
            warnings.push(format!("--machine {name}: by the table of machines, {reason}"));
            start(machine, image, bias)
        }
    };
    warnings.extend(oddities(machine, image, placement.load_bias));
    let mut machine = (*machine).clone();
    machine.name = Cow::Owned(name.to_owned());
    let cpu = forced_cpu.map(str::to_owned).or(processor);
    Ok(Choice {
        machine: with_processor(machine, cpu.as_deref()),
        cpu,
        because: "--machine asks for it".to_owned(),
        runners_up: Vec::new(),
        rejected: Vec::new(),
        warnings,
        load_bias: placement.load_bias,
        entry: placement.entry,
        initial_sp: placement.initial_sp,
        vectors: placement.vectors,
    })
}

/// Next step after an AVR machine that cannot execute the image.
fn way_out(image: &Image) -> String {
    match choose(image, None, None) {
        Ok(choice) => format!("leave --machine out: {} can run it", choice.machine.title()),
        Err(_) => {
            "no other machine can run it, either: build it for atmega328p, the chip of --machine uno".to_owned()
        }
    }
}

/// Message about a named machine of a family that cannot execute the image.
fn other_family(image: &Image, arch: Arch, named: &Machine) -> InputError {
    let mut names: Vec<&str> =
        MACHINES.iter().filter(|machine| machine.arch == arch).map(|machine| &*machine.name).collect();
    names.dedup();
    InputError::about(
        &image.path,
        format_args!(
            "this is an image for {arch}, but --machine {} is a machine of {}; leave --machine \
             out, or give one of: {}",
            named.name,
            match named.arch {
                Arch::Riscv64 | Arch::Riscv32 => "RISC-V",
                Arch::CortexM => "Cortex-M",
                Arch::Avr => "AVR",
            },
            names.join(", ")
        ),
    )
}

/// Refuses a machine outside of the table on which a run would not repeat, or its counts would be wrong. `name` may
/// include properties.
fn check_repeats(image: &Image, name: &str) -> Result<(), InputError> {
    let base = name.split(',').next().unwrap_or(name);
    if base == "sifive_u" {
        return Err(InputError::about(
            &image.path,
            format_args!(
                "--machine {name} does not repeat: with its several CPUs QEMU empties the UART's queue at other \
                 instructions in each run, and the firmware that waits for it executes others. Name a machine that \
                 does, such as virt"
            ),
        ));
    }
    if UNLIKE.contains(&base) {
        return Err(InputError::about(
            &image.path,
            format_args!(
                "--machine {name} has processors of several kinds, whose instructions cannot be told apart: their \
                 counts would be wrong. Name a machine whose processors are alike, such as virt"
            ),
        ));
    }
    Ok(())
}

/// Finds the bias with which all bytes have a place, the only demand on a machine that the user named. RAM may be
/// larger than the table says (`--qemu-arg -m`).
fn place_loosely(machine: &Machine, image: &Image) -> Result<u64, String> {
    let lost = |bias: u64| {
        image.segments.iter().filter(|segment| !segment.data.is_empty()).find_map(|segment| {
            let range = shift(&segment.load_range(), bias);
            let reason = home(machine, &range, "segment").err()?;
            let resizable =
                machine.core == Core::Riscv && machine.main_ram().is_some_and(|ram| ram.start <= range.start);
            (!resizable).then_some(reason)
        })
    };
    let biases = biases(machine, image);
    match biases.iter().copied().find(|&bias| lost(bias).is_none()) {
        Some(bias) => Ok(bias),
        None => Err(lost(biases[0]).unwrap_or_default()),
    }
}

/// QEMU's machines with an additional processor of another kind, which uses the same numbering as the others.
const UNLIKE: [&str; 1] = ["microchip-icicle-kit"];

/// Family of AVR cores that an image is for.
fn avr_family(image: &Image) -> u32 {
    image.needs.avr.as_ref().map_or(AVR5, |needs| needs.family)
}

/// Describes a machine that QEMU may know and the table does not; nothing is checked.
fn unknown(image: &Image, arch: Arch, name: &str, forced_cpu: Option<&str>) -> Choice {
    let (qemu, isa, load) = match arch {
        Arch::Riscv64 => ("qemu-system-riscv64", "riscv64", LoadOption::Bios),
        Arch::Riscv32 => ("qemu-system-riscv32", "riscv32", LoadOption::Bios),
        // The CPU is not known. The newest architecture, in which most instructions can trap, is always safe.
        Arch::CortexM => ("qemu-system-arm", "thumb-v8m", LoadOption::Kernel),
        Arch::Avr => ("qemu-system-avr", table::avr_isa(avr_family(image)), LoadOption::Bios),
    };
    // A machine of the table may come with options: `virt,aia=aplic`.
    let like = table::find(name, isa);
    let machine = Machine {
        name: Cow::Owned(name.to_owned()),
        qemu,
        arch,
        core: Core::Unknown,
        isa,
        shift: DEFAULT_SHIFT,
        load,
        max_cpus: u32::MAX,
        unshared_cpus: 1,
        is_late: false,
        boot_rom: like.and_then(|machine| machine.boot_rom.clone()),
        finisher: like.and_then(|machine| machine.finisher),
        exit: None,
        memory: Cow::Borrowed(&[]),
        chip: None,
        added: None,
    };
    let mut warnings = vec![format!(
        "--machine {name} is not in the table of machines: whether the image fits was not checked, and \
         virtual time runs at 2^{DEFAULT_SHIFT} ns per instruction (--shift)"
    )];
    if image.position_independent && image.load_bias.is_none() {
        warnings.push(format!(
            "the image is position-independent and is placed at {}; --load-bias moves it",
            Hex(image.link_range().start)
        ));
    }
    let placement = start(&machine, image, image.load_bias.unwrap_or(0));
    Choice {
        machine: with_processor(machine, forced_cpu),
        cpu: forced_cpu.map(str::to_owned),
        because: "--machine asks for it".to_owned(),
        runners_up: Vec::new(),
        rejected: Vec::new(),
        warnings,
        load_bias: placement.load_bias,
        entry: placement.entry,
        initial_sp: placement.initial_sp,
        vectors: placement.vectors,
    }
}
