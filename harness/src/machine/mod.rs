//! Which emulated machine runs an image: the table of machines, and the rule that picks one.
//!
//! All load segments (where they are loaded and where they run, zero-initialised memory included), the
//! initial stack pointer and the first instruction must lie in the machine's memory. Among the machines
//! that fit, the processor decides, then the table's order. The choice, the machines that would have
//! done too and those that would not are all kept, with the reason, to be shown.
//!
//! Facts here were read from QEMU 10.0.2, and `tests/machine.rs` reads them again:
//! - memory: `qemu-system-arm -M NAME -display none -S -monitor stdio <<< 'info mtree -f'`, the view
//!   `cpu-memory-0` (mirrors of the same memory are left out where no firmware uses them);
//! - processors: `info qom-tree`; what their FPU executes was tried with one instruction of each kind;
//! - RISC-V extensions: `riscv,isa-extensions` of `qemu-system-riscv64 -M virt,dumpdtb=FILE`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::image::{Arch, ArmLevel, Fpu, Hex, Image, InputError, Segment, VectorTable, list_segments, show_range};

/// What a stretch of memory can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Loaded before the start and read-only afterwards.
    Rom,
    /// Everything: code, data, stack.
    Ram,
    /// The Non-secure alias of memory on a machine with TrustZone. A part of an image may be loaded
    /// here, but the processor starts in the Secure state and can neither run from it nor (before the
    /// firmware has said so) store to it.
    NonSecure,
}

/// One stretch of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// What it can hold.
    pub kind: MemoryKind,
    /// What its users call it.
    pub name: &'static str,
}

impl Region {
    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    fn holds(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start + self.bytes
    }
}

/// How the machine is told what to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOption {
    /// `-bios FILE`: the boot ROM jumps to the ELF's entry (with `-kernel` it would jump to the start
    /// of RAM whatever the ELF says).
    Bios,
    /// `-kernel FILE`: loaded, and the processor starts from the vector table.
    Kernel,
}

/// The processor of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// An M-profile Arm.
    Arm {
        /// QEMU's name for it.
        cpu: &'static str,
        /// What it executes.
        level: ArmLevel,
        /// Its floating-point unit.
        fpu: Fpu,
        /// Where it looks for the vector table at reset.
        vector_table: u64,
        /// Another address of that same memory, where images may be linked instead.
        vector_table_alias: Option<u64>,
    },
    /// A configurable RISC-V.
    Riscv,
    /// A machine that is not in the table.
    Unknown,
}

/// A machine that QEMU emulates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The argument of QEMU's `-M`.
    pub name: Cow<'static, str>,
    /// The emulator's command.
    pub qemu: &'static str,
    /// The processor family.
    pub arch: Arch,
    /// The processor.
    pub core: Core,
    /// The instruction set, as the plugin's `isa` argument names it.
    pub isa: &'static str,
    /// `-icount shift=`: an instruction takes 2^shift ns of virtual time, nearest the real clock.
    pub shift: u8,
    /// How the image is passed.
    pub load: LoadOption,
    /// The largest `-smp`.
    pub max_cpus: u32,
    /// All its memory, main RAM first; empty for a machine that is not in the table.
    pub memory: Cow<'static, [Region]>,
}

/// Nanoseconds per instruction as a power of two where the real clock is unknown (125 MHz).
const DEFAULT_SHIFT: u8 = 3;
const K: u64 = 1024;
const M: u64 = 1024 * K;

const fn region(start: u64, bytes: u64, kind: MemoryKind, name: &'static str) -> Region {
    Region { start, bytes, kind, name }
}

const VIRT_MEMORY: &[Region] = &[
    region(0x8000_0000, 128 * M, MemoryKind::Ram, "RAM"),
    region(0x2000_0000, 32 * M, MemoryKind::Rom, "flash 0"),
    region(0x2200_0000, 32 * M, MemoryKind::Rom, "flash 1"),
];
const AN385_MEMORY: &[Region] = &[
    region(0x2000_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x0000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x0100_0000, 16 * K, MemoryKind::Ram, "block RAM"),
    region(0x2100_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
];
const AN500_MEMORY: &[Region] = &[
    region(0x2000_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x0000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x6000_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
];
// The SSRAMs are behind protection controllers; `info mtree -f` shows them as `tz-mpc-upstream`.
const AN505_MEMORY: &[Region] = &[
    region(0x3800_0000, 4 * M, MemoryKind::Ram, "SSRAM 2/3"),
    region(0x1000_0000, 4 * M, MemoryKind::Ram, "SSRAM 1"),
    region(0x3000_0000, 32 * K, MemoryKind::Ram, "SRAM"),
    region(0x8000_0000, 16 * M, MemoryKind::Ram, "PSRAM"),
    region(0x0000_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 1"),
    region(0x2000_0000, 32 * K, MemoryKind::NonSecure, "SRAM"),
    region(0x2800_0000, 4 * M, MemoryKind::NonSecure, "SSRAM 2/3"),
];

const fn virt(arch: Arch, qemu: &'static str, isa: &'static str) -> Machine {
    Machine {
        name: Cow::Borrowed("virt"),
        qemu,
        arch,
        core: Core::Riscv,
        isa,
        shift: 3,
        load: LoadOption::Bios,
        max_cpus: 512,
        memory: Cow::Borrowed(VIRT_MEMORY),
    }
}

const fn cortex_m(
    name: &'static str,
    core: Core,
    isa: &'static str,
    shift: u8,
    memory: &'static [Region],
) -> Machine {
    Machine {
        name: Cow::Borrowed(name),
        qemu: "qemu-system-arm",
        arch: Arch::CortexM,
        core,
        isa,
        shift,
        load: LoadOption::Kernel,
        max_cpus: 1,
        memory: Cow::Borrowed(memory),
    }
}

const fn core(cpu: &'static str, level: ArmLevel, fpu: Fpu) -> Core {
    Core::Arm { cpu, level, fpu, vector_table: 0, vector_table_alias: None }
}

/// All machines that are chosen from, in the order of preference.
pub const MACHINES: &[Machine] = &[
    virt(Arch::Riscv64, "qemu-system-riscv64", "riscv64"),
    virt(Arch::Riscv32, "qemu-system-riscv32", "riscv32"),
    cortex_m(
        "microbit",
        core("cortex-m0", ArmLevel::V6M, Fpu::None),
        "thumb-v6m",
        6,
        &[
            region(0x2000_0000, 16 * K, MemoryKind::Ram, "RAM"),
            region(0x0000_0000, 256 * K, MemoryKind::Rom, "flash"),
        ],
    ),
    cortex_m("mps2-an385", core("cortex-m3", ArmLevel::V7M, Fpu::None), "thumb-v7m", 5, AN385_MEMORY),
    cortex_m(
        "lm3s6965evb",
        core("cortex-m3", ArmLevel::V7M, Fpu::None),
        "thumb-v7m",
        4,
        &[
            region(0x2000_0000, 64 * K, MemoryKind::Ram, "RAM"),
            region(0x0000_0000, 256 * K, MemoryKind::Rom, "flash"),
        ],
    ),
    cortex_m("mps2-an386", core("cortex-m4", ArmLevel::V7EM, Fpu::V4Single), "thumb-v7m", 5, AN385_MEMORY),
    cortex_m(
        "netduinoplus2",
        Core::Arm {
            cpu: "cortex-m4",
            level: ArmLevel::V7EM,
            fpu: Fpu::V4Single,
            vector_table: 0,
            vector_table_alias: Some(0x0800_0000),
        },
        "thumb-v7m",
        3,
        &[
            region(0x2000_0000, 128 * K, MemoryKind::Ram, "RAM"),
            region(0x0800_0000, M, MemoryKind::Rom, "flash"),
            region(0x0000_0000, M, MemoryKind::Rom, "flash"),
            region(0x1000_0000, 64 * K, MemoryKind::Ram, "CCM"),
        ],
    ),
    cortex_m("mps2-an500", core("cortex-m7", ArmLevel::V7EM, Fpu::V5Double), "thumb-v7m", 5, AN500_MEMORY),
    cortex_m(
        "mps2-an505",
        Core::Arm {
            cpu: "cortex-m33",
            level: ArmLevel::V8MMain,
            fpu: Fpu::V5Single,
            vector_table: 0x1000_0000,
            vector_table_alias: None,
        },
        "thumb-v8m",
        5,
        AN505_MEMORY,
    ),
];

impl Machine {
    /// The name with what tells it apart: `riscv64 virt`, `mps2-an385 (cortex-m3)`.
    pub fn title(&self) -> String {
        match self.core {
            Core::Arm { cpu, .. } => format!("{} ({cpu})", self.name),
            Core::Riscv => format!("{} {}", self.arch, self.name),
            Core::Unknown => format!("{} ({})", self.name, self.qemu),
        }
    }

    /// The memory where an image without fixed addresses is placed: the main RAM.
    fn main_ram(&self) -> Option<&Region> {
        self.memory.first()
    }

    fn list_memory(&self) -> String {
        let mut regions: Vec<&Region> = self.memory.iter().collect();
        regions.sort_by_key(|region| region.start);
        let regions: Vec<String> = regions
            .iter()
            .map(|region| {
                let alias = match region.kind {
                    MemoryKind::NonSecure => "Non-secure ",
                    MemoryKind::Rom | MemoryKind::Ram => "",
                };
                format!("{alias}{} {}", region.name, show_range(&region.range()))
            })
            .collect();
        regions.join(", ")
    }
}

/// The machine that was chosen for an image, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The machine.
    pub machine: Machine,
    /// The argument of `-cpu`, when the machine's own will not do.
    pub cpu: Option<String>,
    /// Why this one, in one clause: `its memory fits, and cortex-m3 is what v7-M code was built for`.
    pub because: String,
    /// Machines that would have done too, the next best first: title and why not.
    pub runners_up: Vec<(String, String)>,
    /// Machines of the same family that would not do: title and reason.
    pub rejected: Vec<(String, String)>,
    /// What looked odd about the user's own choice, each one sentence.
    pub warnings: Vec<String>,
    /// Added to all addresses of the image; 0 unless it is position-independent.
    pub load_bias: u64,
    /// The address of the image's first instruction (bit 0 clear), bias included.
    pub entry: u64,
    /// The stack pointer at reset, where the hardware sets it.
    pub initial_sp: Option<u64>,
}

impl Choice {
    /// The memory that can be read without a side effect and can hold a stack or data, in ascending
    /// order, neighbours joined. Empty when the machine's memory is unknown: then read nothing.
    pub fn ram(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.machine.memory.iter().filter(|region| region.kind != MemoryKind::Rom).map(Region::range).collect();
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

    /// The file to pass to the emulator: see [`Image::loadable_elf`].
    pub fn loadable_elf(&self, image: &Image) -> Vec<u8> {
        // What a Cortex-M is given as entry does not matter; QEMU wants bit 0 there all the same.
        let thumb = u64::from(self.machine.arch == Arch::CortexM);
        image.loadable_elf(self.machine.arch, self.load_bias, self.entry | thumb)
    }
}

/// Chooses the machine for an image.
///
/// `forced_machine` (`--machine`) is a name of the table, or any other that QEMU knows: it is then
/// passed on unchecked. `riscv64:virt`, `riscv32:virt` and `arm:NAME` say which emulator is meant when
/// the file does not. `forced_cpu` (`--cpu`) is passed on as it is; the table then only offers Arm
/// machines that have that processor.
///
/// # Errors
/// [`InputError`] when nothing fits; it lists every machine considered with the reason.
pub fn choose(image: &Image, forced_machine: Option<&str>, forced_cpu: Option<&str>) -> Result<Choice, InputError> {
    if let Some(name) = forced_machine {
        return force(image, name, forced_cpu);
    }
    let arch = known_arch(image)?;

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
    // A stable sort: equals stay in the table's order.
    fits.sort_by_key(|fit| fit.processor.distance);
    let mut fits = fits.into_iter();
    let Some(best) = fits.next() else {
        return Err(none_fits(image, arch, &rejected));
    };
    let mut because = format!("its memory fits, and {}", best.processor.because);
    let mut runners_up: Vec<(String, String)> = Vec::new();
    for fit in fits {
        let reason = if fit.processor.distance > best.processor.distance {
            fit.processor.because
        } else {
            if runners_up.is_empty() {
                because.push_str("; the first such machine of the table");
            }
            "fits as well, but comes later in the table".to_owned()
        };
        runners_up.push((fit.machine.title(), reason));
    }
    Ok(Choice {
        machine: best.machine.clone(),
        cpu: forced_cpu.map(str::to_owned).or(best.processor.cpu),
        because,
        runners_up,
        rejected,
        warnings: Vec::new(),
        load_bias: best.placement.load_bias,
        entry: best.placement.entry,
        initial_sp: best.placement.initial_sp,
    })
}

struct Fit<'a> {
    machine: &'a Machine,
    processor: Processor,
    placement: Placement,
}

fn known_arch(image: &Image) -> Result<Arch, InputError> {
    image.arch.ok_or_else(|| {
        InputError::about(
            &image.path,
            format_args!(
                "a {} file does not say which processor it is for, and this one does not begin with \
                 a Cortex-M vector table (stack pointer, then an odd reset address); give the ELF \
                 that it was made from (--symbols FILE.elf), or the machine: --machine riscv64:virt, \
                 riscv32:virt or arm:NAME",
                image.format
            ),
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
    message.push_str(
        "\n  Link it for one of these, or name another machine that QEMU has: --machine NAME \
         (and --cpu NAME)",
    );
    InputError::new(message)
}

/// The user's own choice. The family must be right and the bytes must go somewhere; all else is the
/// user's business and only said.
fn force(image: &Image, name: &str, forced_cpu: Option<&str>) -> Result<Choice, InputError> {
    let (arch, name) = match name.split_once(':') {
        Some(("riscv64", name)) => (Some(Arch::Riscv64), name),
        Some(("riscv32", name)) => (Some(Arch::Riscv32), name),
        Some(("arm", name)) => (Some(Arch::CortexM), name),
        _ => (None, name),
    };
    // A machine may come with properties of its own: virt,aclint=on.
    let base = name.split(',').next().unwrap_or(name);
    if base.is_empty() {
        return Err(InputError::new("--machine is empty; give a machine's name, such as mps2-an385"));
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
            format_args!("this is a {own} image, and --machine {arch}:{name} asks for {arch}"),
        ));
    }
    let mut warnings = Vec::new();
    let Some(machine) = named.iter().find(|machine| machine.arch == arch) else {
        if let Some(other) = named.first() {
            let mut names: Vec<&str> =
                MACHINES.iter().filter(|machine| machine.arch == arch).map(|machine| &*machine.name).collect();
            names.dedup();
            return Err(InputError::about(
                &image.path,
                format_args!(
                    "this is a {arch} image, but --machine {base} is a {} machine; leave --machine \
                     out, or give one of: {}",
                    if other.arch.is_riscv() { "RISC-V" } else { "Cortex-M" },
                    names.join(", ")
                ),
            ));
        }
        return Ok(unknown(image, arch, name, forced_cpu));
    };

    let processor = match processor(machine, image, forced_cpu) {
        Ok(processor) => processor.cpu,
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
            warnings.push(format!("--machine {name}: {reason}"));
            start(machine, image, bias)
        }
    };
    let mut machine = (*machine).clone();
    machine.name = Cow::Owned(name.to_owned());
    Ok(Choice {
        machine,
        cpu: forced_cpu.map(str::to_owned).or(processor),
        because: "--machine asks for it".to_owned(),
        runners_up: Vec::new(),
        rejected: Vec::new(),
        warnings,
        load_bias: placement.load_bias,
        entry: placement.entry,
        initial_sp: placement.initial_sp,
    })
}

/// The bias with which all bytes go somewhere, which is all that is asked of a machine the user named.
/// RAM may be larger than the table says (`--qemu-arg -m`).
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

/// A machine that QEMU may know and the table does not: nothing is checked.
fn unknown(image: &Image, arch: Arch, name: &str, forced_cpu: Option<&str>) -> Choice {
    let (qemu, isa, load) = match arch {
        Arch::Riscv64 => ("qemu-system-riscv64", "riscv64", LoadOption::Bios),
        Arch::Riscv32 => ("qemu-system-riscv32", "riscv32", LoadOption::Bios),
        // The CPU is not known: the newest architecture, where most instructions can trap, is always safe.
        Arch::CortexM => ("qemu-system-arm", "thumb-v8m", LoadOption::Kernel),
    };
    let machine = Machine {
        name: Cow::Owned(name.to_owned()),
        qemu,
        arch,
        core: Core::Unknown,
        isa,
        shift: DEFAULT_SHIFT,
        load,
        max_cpus: u32::MAX,
        memory: Cow::Borrowed(&[]),
    };
    let mut warnings = vec![format!(
        "--machine {name} is not in the table: its memory is not known, so nothing was checked, and \
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
        machine,
        cpu: forced_cpu.map(str::to_owned),
        because: "--machine asks for it".to_owned(),
        runners_up: Vec::new(),
        rejected: Vec::new(),
        warnings,
        load_bias: placement.load_bias,
        entry: placement.entry,
        initial_sp: placement.initial_sp,
    }
}

/// How well a machine's processor suits an image.
struct Processor {
    /// 0 when it is what the image was built for, more the further above that it is.
    distance: u8,
    /// In one clause.
    because: String,
    /// The argument of `-cpu`, when the default will not do.
    cpu: Option<String>,
}

fn processor(machine: &Machine, image: &Image, forced_cpu: Option<&str>) -> Result<Processor, String> {
    match machine.core {
        Core::Arm { cpu, level, fpu, .. } => {
            if let Some(forced) = forced_cpu {
                return if forced.split(',').next() == Some(cpu) {
                    Ok(Processor {
                        distance: 0,
                        because: format!("{cpu} is the processor that --cpu asks for"),
                        cpu: None,
                    })
                } else {
                    Err(format!("its processor is {cpu}, not the {forced} of --cpu"))
                };
            }
            arm_processor(cpu, level, fpu, image)
        }
        Core::Riscv if forced_cpu.is_some() => {
            Ok(Processor { distance: 0, because: "--cpu says which processor".to_owned(), cpu: None })
        }
        Core::Riscv => riscv_processor(image),
        Core::Unknown => Ok(Processor { distance: 0, because: String::new(), cpu: None }),
    }
}

fn arm_processor(cpu: &str, level: ArmLevel, fpu: Fpu, image: &Image) -> Result<Processor, String> {
    let Some(needs) = &image.needs.arm else {
        // Nothing is known: assume what most of today's firmware is built for.
        let distance = match level {
            ArmLevel::V7EM => 0,
            ArmLevel::V8MMain | ArmLevel::V81MMain => 1,
            ArmLevel::V7M => 2,
            ArmLevel::V6M | ArmLevel::V8MBase => 3,
        };
        return Ok(Processor {
            distance,
            because: format!(
                "the image does not say what it was built for; {cpu} runs {level} code (an ELF with \
                 attributes, --symbols, would tell)"
            ),
            cpu: None,
        });
    };
    if !level.runs(needs.level) {
        let hint = match needs.level {
            ArmLevel::V81MMain => "; QEMU's mps3-an547 has one that does: --machine mps3-an547",
            _ => "",
        };
        return Err(format!("its {cpu} ({level}) cannot run code built for {}{hint}", needs.level));
    }
    if fpu < needs.fpu {
        return Err(format!("its {cpu} has {fpu}, and the image was built for {}", needs.fpu));
    }
    let distance = level as u8 - needs.level as u8;
    Ok(Processor {
        distance,
        because: if distance == 0 {
            format!("{cpu} is what {} code is built for", needs.level)
        } else {
            format!("{cpu} ({level}) also runs code built for {}", needs.level)
        },
        cpu: None,
    })
}

/// What QEMU's default processors `rv64` and `rv32` have. `zcf` exists on rv32 only.
const RISCV_DEFAULT: &str = "i e m a f d c h b zic64b zicbom zicbop zicboz ziccamoa ziccif zicclsm \
    ziccrse zicntr zicsr zifencei zihintntl zihintpause zihpm zmmul za64rs zaamo zalrsc zawrs zfa zca \
    zcf zcd zba zbb zbc zbs shcounterenw shgatpa shtvala shvsatpa shvstvala shvstvecd ssccptr \
    sscounterenw sstc sstvala sstvecd ssu64xl svadu svvptc";

/// What the processor model `max` has beyond that.
const RISCV_MAX: &str = "v zicfilp zicfiss zicond zimop zabha zacas zama16b zfbfmin zfh zfhmin zcb \
    zcmop zbkb zbkc zbkx zk zkn zknd zkne zknh zkr zks zksed zksh zkt ztso zvbb zvbc zve32f zve32x \
    zve64f zve64d zve64x zvfbfmin zvfbfwma zvfh zvfhmin zvkb zvkg zvkn zvknc zvkned zvkng zvknha \
    zvknhb zvks zvksc zvksed zvksg zvksh zvkt sha smaia smcdeleg smcntrpmf smcsrind smepmp smmpm \
    smnpm smstateen ssaia ssccfg sscofpmf sscsrind ssdbltrp ssnpm sspm ssstateen supm smctr ssctr \
    svinval svnapot svpbmt zvl32b zvl64b zvl128b";

fn riscv_processor(image: &Image) -> Result<Processor, String> {
    let ready = |because: &str, cpu: Option<&str>| Processor {
        distance: 0,
        because: because.to_owned(),
        cpu: cpu.map(str::to_owned),
    };
    let Some(isa) = &image.needs.riscv else {
        return Ok(ready(
            "the image does not say which RISC-V extensions it uses; QEMU's default processor has \
             the usual ones",
            None,
        ));
    };
    let has = |list: &str, wanted: &str| list.split_whitespace().any(|one| one == wanted);
    let beyond: Vec<String> =
        riscv_extensions(isa).into_iter().filter(|extension| !has(RISCV_DEFAULT, extension)).collect();
    if beyond.is_empty() {
        return Ok(ready("QEMU's default processor has all the extensions that the image uses", None));
    }
    let missing: Vec<&str> =
        beyond.iter().map(String::as_str).filter(|extension| !has(RISCV_MAX, extension)).collect();
    if missing.is_empty() {
        return Ok(ready(
            &format!(
                "the image uses {}, which QEMU's processor `max` has and the default one has not",
                beyond.join(", ")
            ),
            Some("max"),
        ));
    }
    Err(format!(
        "the image uses the extension {}, which neither QEMU's default processor nor `max` has; name \
         one that has: --cpu NAME, or --cpu {},{}=true",
        missing.join(", "),
        if image.arch == Some(Arch::Riscv32) { "rv32" } else { "rv64" },
        missing[0]
    ))
}

/// The extensions in an ISA string: `rv64i2p1_m2p0_zicsr2p0` or `rv32imac`. Versions are dropped, and
/// `g` is spelled out.
pub fn riscv_extensions(isa: &str) -> Vec<String> {
    let isa = isa.to_ascii_lowercase();
    let mut extensions: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if !extensions.iter().any(|known| known == name) {
            extensions.push(name.to_owned());
        }
    };
    let letters = isa.strip_prefix("rv64").or_else(|| isa.strip_prefix("rv32")).unwrap_or(&isa);
    for part in letters.split('_') {
        if part.starts_with(['z', 's', 'x']) {
            add(without_version(part));
            continue;
        }
        // Single letters, each perhaps with a version such as 2p1.
        let mut rest = part;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let version = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if version > 0 {
                rest = &rest[version..];
                if let Some(minor) = rest.strip_prefix('p')
                    && minor.starts_with(|c: char| c.is_ascii_digit())
                {
                    rest = minor.trim_start_matches(|c: char| c.is_ascii_digit());
                }
            }
            match letter {
                'g' => ["i", "m", "a", "f", "d", "zicsr", "zifencei"].iter().for_each(|name| add(name)),
                letter if letter.is_ascii_digit() => {}
                letter => add(letter.encode_utf8(&mut [0; 4])),
            }
        }
    }
    extensions
}

/// `zba1p0` is `zba`; `zve32x` and `zvl128b` have no version.
fn without_version(extension: &str) -> &str {
    let digits = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let minor = digits(extension);
    match extension[..minor].strip_suffix('p') {
        Some(rest) if minor < extension.len() && digits(rest) < rest.len() => &rest[..digits(rest)],
        _ => extension,
    }
}

/// Where an image ends up on a machine.
#[derive(Debug, Clone, Copy)]
struct Placement {
    load_bias: u64,
    entry: u64,
    initial_sp: Option<u64>,
}

/// Places an image in a machine's memory, or says what does not fit.
fn place(machine: &Machine, image: &Image) -> Result<Placement, String> {
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

/// What may be added to the image's addresses, in the order to try; never empty.
fn biases(machine: &Machine, image: &Image) -> Vec<u64> {
    match (image.position_independent, image.load_bias) {
        (false, _) => vec![0],
        (true, Some(bias)) => vec![bias],
        // As linked, else from the start of the RAM: it keeps its offset, and with it its alignment.
        (true, None) => [0].into_iter().chain(machine.main_ram().map(|ram| ram.start)).collect(),
    }
}

/// Saturating: a range that leaves the address space fits nowhere.
fn shift(range: &Range<u64>, bias: u64) -> Range<u64> {
    range.start.saturating_add(bias)..range.end.saturating_add(bias)
}

fn fit(machine: &Machine, image: &Image, bias: u64) -> Result<Placement, String> {
    for segment in &image.segments {
        fit_segment(machine, segment, bias)?;
    }
    match machine.core {
        Core::Arm { .. } => fit_vector_table(machine, image, bias)?,
        Core::Riscv => {
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

/// The region that holds a whole range, or why there is none.
fn home<'a>(machine: &'a Machine, range: &Range<u64>, what: &str) -> Result<&'a Region, String> {
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

fn fit_segment(machine: &Machine, segment: &Segment, bias: u64) -> Result<(), String> {
    let (load, run) = (shift(&segment.load_range(), bias), shift(&segment.run_range(), bias));
    if !segment.data.is_empty() {
        let what = if load == run { "segment" } else { "load address" };
        home(machine, &load, what)?;
    }
    if load == run {
        return Ok(());
    }
    // It is copied or cleared before it is used, so it needs memory that can be written.
    let what = if segment.data.is_empty() { "zero-initialised memory" } else { "run address" };
    let region = home(machine, &run, what)?;
    if region.kind == MemoryKind::Rom {
        return Err(format!("{what} {} lies in {}, which cannot be written", show_range(&run), region.name));
    }
    Ok(())
}

/// The vector table that the processor of this machine sees at reset.
fn table_seen(machine: &Machine, image: &Image, bias: u64) -> Option<VectorTable> {
    let Core::Arm { vector_table, vector_table_alias, .. } = machine.core else {
        return image.vector_table;
    };
    [Some(vector_table), vector_table_alias]
        .into_iter()
        .flatten()
        .find_map(|address| image.vector_table_at(address.wrapping_sub(bias)))
}

fn fit_vector_table(machine: &Machine, image: &Image, bias: u64) -> Result<(), String> {
    let Core::Arm { vector_table, .. } = machine.core else {
        return Ok(());
    };
    let Some(table) = table_seen(machine, image, bias) else {
        return Err(format!("it takes its vector table from {}, where the image loads nothing", Hex(vector_table)));
    };
    if table.initial_sp == u64::from(u32::from_le_bytes(*b"\x7fELF")) {
        return Err(format!(
            "it takes its vector table from {}, where the linker put the ELF file's own headers; \
             link with -z max-page-size=4096",
            Hex(vector_table)
        ));
    }
    let (sp, reset) = (table.initial_sp, table.reset_vector & !1);
    if !machine
        .memory
        .iter()
        .any(|region| region.kind == MemoryKind::Ram && region.start < sp && sp <= region.range().end)
    {
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

/// Where execution starts, with no question asked.
fn start(machine: &Machine, image: &Image, bias: u64) -> Placement {
    let (entry, initial_sp) = match machine.arch {
        Arch::CortexM => {
            let table = table_seen(machine, image, bias).or(image.vector_table);
            (table.map(|table| table.reset_vector), table.map(|table| table.initial_sp))
        }
        // The words of a vector table are absolute; an ELF's entry moves with it.
        Arch::Riscv64 | Arch::Riscv32 => (None, None),
    };
    let entry = entry.unwrap_or_else(|| elf_entry(image, bias));
    Placement {
        load_bias: bias,
        entry: match machine.arch {
            Arch::CortexM => entry & !1,
            Arch::Riscv64 | Arch::Riscv32 => entry,
        },
        initial_sp,
    }
}

/// Where the bytes of the stated entry (the start of the image, if none is) are loaded. An image that
/// turns on address translation states its entry as it will see it later.
fn elf_entry(image: &Image, bias: u64) -> u64 {
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
