// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor: whether a machine's processor executes the image's code, and with which `-cpu`.

use std::cmp::Ordering;

use decode::Isa;
use wire::chip::AVR_DATA;

use super::table::{Core, Machine};
use crate::image::{Arch, ArmLevel, AvrVectors, Fpu, Image};

/// Fitness of a machine's processor for an image.
pub(super) struct Processor {
    /// 0 for the processor that the image was built for, larger the further the processor is above it.
    pub(super) distance: u8,
    /// Reason in one clause.
    pub(super) because: String,
    /// Argument of `-cpu`, if the default will not do.
    pub(super) cpu: Option<String>,
}

pub(super) fn processor(machine: &Machine, image: &Image, forced_cpu: Option<&str>) -> Result<Processor, String> {
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
        Core::RiscvChip { cpu, extensions, .. } => match forced_cpu {
            Some(forced) if forced.split(',').next() != Some(cpu) => {
                Err(format!("its processor is {cpu}, not the {forced} of --cpu"))
            }
            _ => chip_processor(cpu, extensions, image),
        },
        Core::Riscv if forced_cpu.is_some() => {
            Ok(Processor { distance: 0, because: "--cpu says which processor".to_owned(), cpu: None })
        }
        Core::Riscv => riscv_processor(image),
        Core::Avr { .. } if forced_cpu.is_some() => {
            Err("its processor cannot be replaced by that of --cpu".to_owned())
        }
        Core::Avr { device, family } => avr_processor(machine, device, family, image),
        Core::Unknown => Ok(Processor { distance: 0, because: String::new(), cpu: None }),
    }
}

pub(super) fn arm_processor(cpu: &str, level: ArmLevel, fpu: Fpu, image: &Image) -> Result<Processor, String> {
    let Some(needs) = &image.needs.arm else {
        // Without attributes, assume the architecture that most of today's firmware is built for.
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
        return Err(format!("its {cpu} ({level}) cannot run code built for {}", needs.level));
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

/// Checks a RISC-V chip whose extensions are fixed.
fn chip_processor(cpu: &str, extensions: &str, image: &Image) -> Result<Processor, String> {
    let ready = |because: String| Processor { distance: 0, because, cpu: None };
    let Some(isa) = &image.needs.riscv else {
        return Ok(ready(format!("the image does not say which RISC-V extensions it uses; {cpu} has {extensions}")));
    };
    let own = riscv_extensions(extensions);
    // Newer compilers name these parts of single letters as well.
    let is_part = |extension: &str| matches!(extension, "zmmul" | "zaamo" | "zalrsc" | "zca");
    let missing: Vec<String> =
        riscv_extensions(isa).into_iter().filter(|one| !own.contains(one) && !is_part(one)).collect();
    if missing.is_empty() {
        return Ok(ready(format!("{cpu} has all the extensions that the image uses")));
    }
    Err(format!("its {cpu} has {extensions}, and the image uses {}", missing.join(", ")))
}

/// AVRs that the devices of QEMU's machines stand for: those with the same vectors and registers, and no more memory.
const AVR_ALIKE: &[(&str, &[&str])] = &[
    ("atmega168", &["atmega328p"]),
    ("atmega168a", &["atmega168", "atmega328p"]),
    ("atmega168p", &["atmega168", "atmega328p"]),
    ("atmega168pa", &["atmega168", "atmega328p"]),
    ("atmega328", &["atmega328p"]),
    // It has further devices.
    ("atmega328pb", &["atmega328p"]),
    ("atmega640", &["atmega1280"]),
    ("atmega1281", &["atmega1280"]),
    ("atmega2561", &["atmega2560"]),
];

/// Whether a device has the same vectors and registers as another, and as much memory.
fn is_alike(device: &str, own: &str) -> bool {
    AVR_ALIKE.iter().any(|(name, devices)| *name == own && devices.contains(&device))
}

/// Whether an image names an AVR of the machine's family, so that QEMU takes it, whatever its device.
pub(super) fn is_of_family(machine: &Machine, image: &Image) -> bool {
    let needs = image.needs.avr.as_ref().filter(|needs| needs.vectors.is_none());
    matches!(machine.core, Core::Avr { family, .. } if needs.is_some_and(|needs| needs.family == family))
}

/// Checks an AVR device. QEMU refuses code of another family. Another device of the family has the same instructions, but most have
/// other vectors, registers and memories: their code would restart, or wait for ever.
fn avr_processor(machine: &Machine, device: &str, family: u32, image: &Image) -> Result<Processor, String> {
    let ready = |distance: u8, because: String| Ok(Processor { distance, because, cpu: None });
    let Some(needs) = &image.needs.avr else {
        return ready(1, format!("the image does not say which device it was built for; {device} is a usual one"));
    };
    let vectors = needs.vectors.as_ref();
    if needs.family != family {
        let (own, needed) = (name(family), name(needs.family));
        return Err(match vectors {
            Some(vectors) => {
                format!(
                    "its {device} is an {own}, and the image begins with the {} vectors of an {needed}",
                    vectors.count
                )
            }
            None => format!("its {device} is an {own}, and the image was built for {needed}"),
        });
    }
    if let Some(vectors) = vectors {
        return avr_by_vectors(machine, device, vectors).map(|(distance, because)| Processor {
            distance,
            because,
            cpu: None,
        });
    }
    match needs.device.as_deref() {
        Some(own) if own == device => ready(0, format!("{device} is the device that the image was built for")),
        Some(own) if is_alike(device, own) => {
            ready(2, format!("{device} has the vectors and registers of {own}, which the image was built for"))
        }
        Some(own) => Err(format!("the image was built for {own}, whose vectors and registers its {device} has not")),
        None => ready(1, format!("the image was built for {}, without a device; {device} is one", name(family))),
    }
}

/// Checks whether a device has the RAM that the start-up code of an image expects, which has the device's number of
/// vectors. Returns the distance and the reason.
fn avr_by_vectors(machine: &Machine, device: &str, vectors: &AvrVectors) -> Result<(u8, String), String> {
    let of_device = format!("the image begins with {} jumps, the vectors of an {device}", vectors.count);
    let own_end = machine.main_ram().map(|ram| ram.range().end - AVR_DATA.start - 1);
    let (Some(end), Some(own_end)) = (vectors.ram_end, own_end) else {
        return Ok((1, of_device));
    };
    match end.cmp(&own_end) {
        Ordering::Equal => Ok((0, format!("{of_device}, and puts its stack at the end of that device's RAM"))),
        Ordering::Less => Ok((2, format!("{of_device}, but puts its stack at {end:#06x}, within that device's RAM"))),
        Ordering::Greater => {
            Err(format!("the image puts its stack at {end:#06x}, and the RAM of its {device} ends at {own_end:#06x}"))
        }
    }
}

/// Name of a family of AVR cores, by its number in ELF files, as GNU's tools call it.
fn name(family: u32) -> String {
    match family {
        100 => "avrtiny".to_owned(),
        101.. => format!("avrxmega{}", family - 100),
        _ => format!("avr{family}"),
    }
}

/// Extensions of QEMU's default processors `rv64` and `rv32`. `zcf` exists on rv32 only.
pub(super) const RISCV_DEFAULT: &str = "i e m a f d c h b zic64b zicbom zicbop zicboz ziccamoa ziccif zicclsm \
    ziccrse zicntr zicsr zifencei zihintntl zihintpause zihpm zmmul za64rs zaamo zalrsc zawrs zfa zca \
    zcf zcd zba zbb zbc zbs shcounterenw shgatpa shtvala shvsatpa shvstvala shvstvecd ssccptr \
    sscounterenw sstc sstvala sstvecd ssu64xl svadu svvptc";

/// Extensions that the processor model `max` has beyond that.
pub(super) const RISCV_MAX: &str = "v zicfilp zicfiss zicond zimop zabha zacas zama16b zfbfmin zfh zfhmin zcb \
    zcmop zbkb zbkc zbkx zk zkn zknd zkne zknh zkr zks zksed zksh zkt ztso zvbb zvbc zve32f zve32x \
    zve64f zve64d zve64x zvfbfmin zvfbfwma zvfh zvfhmin zvkb zvkg zvkn zvknc zvkned zvkng zvknha \
    zvknhb zvks zvksc zvksed zvksg zvksh zvkt sha smaia smcdeleg smcntrpmf smcsrind smepmp smmpm \
    smnpm smstateen ssaia ssccfg sscofpmf sscsrind ssdbltrp ssnpm sspm ssstateen supm smctr ssctr \
    svinval svnapot svpbmt zvl32b zvl64b zvl128b";

pub(super) fn riscv_processor(image: &Image) -> Result<Processor, String> {
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
    if let Some(cpu) = riscv_exchanged(image, isa, &beyond) {
        let because = format!(
            "the image uses {}, which QEMU's default processor has if it has less of the floating-point extensions",
            missing.join(", ")
        );
        return Ok(ready(&because, Some(&cpu)));
    }
    Err(format!(
        "the image uses the extension {}, which neither QEMU's default processor nor `max` has; name one that has: \
         --cpu NAME",
        missing.join(", ")
    ))
}

/// Extensions that QEMU's processors have only in the place of others: with those that go.
const RISCV_EXCHANGED: &[(&str, &[&str])] = &[
    ("zcmp", &["d"]),
    ("zcmt", &["d"]),
    ("zfinx", &["f", "d", "zfa"]),
    ("zdinx", &["f", "d", "zfa"]),
    ("zhinx", &["f", "d", "zfa"]),
    ("zhinxmin", &["f", "d", "zfa"]),
];

/// QEMU's default processor with what an image uses beyond it, in the place of what the image does not use. None: there is
/// none.
fn riscv_exchanged(image: &Image, isa: &str, beyond: &[String]) -> Option<String> {
    let used = riscv_extensions(isa);
    let exchanged = |name: &str| RISCV_EXCHANGED.iter().find(|(own, _)| *own == name).map(|&(_, others)| others);
    let mut gone: Vec<&str> = Vec::new();
    for extension in beyond {
        match exchanged(extension) {
            Some(others) => gone.extend(others),
            // Vectors need D, and what begins with s is for supervisors.
            None if extension.starts_with('z') && !extension.starts_with("zv") => {
                RISCV_MAX.split_whitespace().find(|one| one == extension)?;
            }
            None => return None,
        }
    }
    gone.sort_unstable();
    gone.dedup();
    if gone.iter().any(|one| used.iter().any(|used| used == one)) {
        return None;
    }
    let base = if image.arch == Some(Arch::Riscv32) { "rv32" } else { "rv64" };
    let without = gone.iter().map(|one| format!(",{one}=false"));
    let with = beyond.iter().map(|one| format!(",{one}=true"));
    Some(without.chain(with).fold(base.to_owned(), |cpu, part| cpu + &part))
}

/// Instruction set of a machine whose processor is this argument of `-cpu`: Zcmp and Zcmt have the encodings of Zcd.
pub(super) fn isa_with(isa: &'static str, cpu: Option<&str>) -> &'static str {
    let is_on = |property: &str| match property.trim_start_matches("x-").split_once('=') {
        Some(("zcmp" | "zcmt", value)) => Some(matches!(value, "true" | "on" | "yes")),
        _ => None,
    };
    let has = cpu.into_iter().flat_map(|cpu| cpu.split(',')).filter_map(is_on).any(|is_on| is_on);
    match isa.parse::<Isa>() {
        Ok(known) if has => known.with_zcmp().name(),
        _ => isa,
    }
}

/// Extensions in an ISA string: `rv64i2p1_m2p0_zicsr2p0` or `rv32imac`. Versions are dropped, and `g` is spelled out.
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
        // Single letters, each with an optional version such as 2p1.
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

/// Drops an extension's version: `zba1p0` is `zba`; `zve32x` and `zvl128b` have no version.
pub(super) fn without_version(extension: &str) -> &str {
    let digits = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let minor = digits(extension);
    match extension[..minor].strip_suffix('p') {
        Some(rest) if minor < extension.len() && digits(rest) < rest.len() => &rest[..digits(rest)],
        _ => extension,
    }
}
