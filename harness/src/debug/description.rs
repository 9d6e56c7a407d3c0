// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target description: the processor's registers for GDB, from QEMU's list. Features that GDB requires by name
//! (`org.gnu.gdb.…`) keep their names; GDB shows other registers, too.

use std::collections::BTreeSet;
use std::fmt::Write;

use decode::Isa;

use crate::debug::travel::Register;

/// A register in the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its width in bytes.
    pub bytes: usize,
}

/// All registers in the order of their numbers in GDB's protocol, and the XML document for GDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Registers by number.
    pub registers: Vec<Described>,
    /// Content of `target.xml`.
    pub xml: String,
}

/// Width of a processor's general registers, in bytes.
fn word_bytes(isa: Isa) -> usize {
    match isa {
        Isa::Riscv64 | Isa::Riscv64Zc => 8,
        Isa::Riscv32 | Isa::Riscv32Zc | Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => 4,
        Isa::AvrPc16 | Isa::AvrPc22 => 1,
    }
}

/// Name of an architecture in `target.xml` and in GDB's `set architecture`.
fn architecture(isa: Isa) -> &'static str {
    match isa {
        Isa::Riscv32 | Isa::Riscv32Zc => "riscv:rv32",
        Isa::Riscv64 | Isa::Riscv64Zc => "riscv:rv64",
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => "arm",
        Isa::AvrPc16 | Isa::AvrPc22 => "avr",
    }
}

/// Whether a register is the pc or a register that a call sets. Writing such a register would make the firmware
/// execute code that it never executed.
pub fn is_control(isa: Isa, name: &str) -> bool {
    match isa {
        Isa::Riscv32 | Isa::Riscv64 | Isa::Riscv32Zc | Isa::Riscv64Zc => ["pc", "sp", "ra"].contains(&name),
        Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => ["pc", "sp", "lr", "msp", "psp"].contains(&name),
        Isa::AvrPc16 | Isa::AvrPc22 => ["pc", "sp"].contains(&name),
    }
}

/// Width of a register that cannot be read: the width of similarly named registers of its feature, or else a word.
fn width(isa: Isa, register: &Register, all: &[Register]) -> usize {
    let kind = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let alike = |other: &&Register| {
        other.feature == register.feature && kind(&other.name) == kind(&register.name) && !other.bytes.is_empty()
    };
    match register.bytes.len() {
        0 => all.iter().find(alike).map_or_else(
            || if register.feature.ends_with(".vfp") && register.name.starts_with('d') { 8 } else { word_bytes(isa) },
            |other| other.bytes.len(),
        ),
        bytes => bytes,
    }
}

/// Type of a register in GDB's terms.
fn kind(feature: &str, name: &str, bytes: usize) -> String {
    let is_number = |prefix: char| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if bytes > 8 {
        return format!("bytes{bytes}");
    }
    let is_float = match feature {
        "org.gnu.gdb.riscv.fpu" => name.starts_with('f') && !["fflags", "frm", "fcsr"].contains(&name),
        "org.gnu.gdb.arm.vfp" => is_number('d') || is_number('s'),
        _ => false,
    };
    match (is_float, bytes) {
        (true, 8) if feature == "org.gnu.gdb.riscv.fpu" => "riscv_double",
        (true, 8) => "ieee_double",
        (true, 4) => "ieee_single",
        _ => match name {
            "pc" | "ra" => "code_ptr",
            "sp" | "gp" | "tp" | "fp" => "data_ptr",
            _ => "int",
        },
    }
    .to_owned()
}

/// Definitions of a feature's types that GDB does not know.
fn types(feature: &str, registers: &[(&Register, usize)]) -> String {
    let mut text = String::new();
    let own = || registers.iter().filter(|(register, _)| register.feature == feature);
    if own().any(|(register, bytes)| kind(feature, &register.name, *bytes) == "riscv_double") {
        text.push_str(
            "<union id=\"riscv_double\"><field name=\"float\" type=\"ieee_single\"/>\
             <field name=\"double\" type=\"ieee_double\"/></union>\n",
        );
    }
    let wide: BTreeSet<usize> = own().map(|(_, bytes)| *bytes).filter(|bytes| *bytes > 8).collect();
    for bytes in wide {
        let _ = writeln!(text, "<vector id=\"bytes{bytes}\" type=\"uint8\" count=\"{bytes}\"/>");
    }
    text
}

/// Number of a register in GDB's own list for AVR: r0 to r31, SREG, SP, pc; others come behind.
fn avr_number(name: &str) -> usize {
    let general = name.strip_prefix('r').and_then(|number| number.parse().ok()).filter(|&number| number < 32);
    general.unwrap_or_else(|| 32 + ["sreg", "sp", "pc"].iter().position(|&own| own == name).unwrap_or(3))
}

/// Text within an XML attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

impl Description {
    /// Description of a processor with these registers. Of several with the same name, the first one is shown.
    pub fn of(isa: Isa, all: &[Register]) -> Description {
        let mut names = BTreeSet::new();
        let mut features: Vec<&str> = Vec::new();
        for register in all {
            if !features.contains(&register.feature.as_str()) {
                features.push(&register.feature);
            }
        }
        // A feature is one element: QEMU's registers of one feature may lie apart in its list.
        let mut registers: Vec<(&Register, usize)> = features
            .iter()
            .flat_map(|feature| all.iter().filter(move |register| register.feature == *feature))
            .filter(|register| names.insert(&register.name))
            .map(|register| (register, width(isa, register, all)))
            .collect();
        if isa.is_avr() {
            registers.sort_by_key(|(register, _)| avr_number(&register.name));
        }
        let mut xml =
            String::from("<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n");
        // Without it GDB assumes its default, usually Linux. It would step Linux on RISC-V by a breakpoint at the
        // expected next instruction, so that an `mret` would go on to the end of the run.
        let _ = writeln!(xml, "<architecture>{}</architecture>\n<osabi>none</osabi>", architecture(isa));
        // For AVR, GDB has a list of its own and takes none.
        for &feature in features.iter().filter(|_| !isa.is_avr()) {
            let _ = writeln!(xml, "<feature name=\"{}\">", escaped(feature));
            xml.push_str(&types(feature, &registers));
            for (register, bytes) in registers.iter().filter(|(register, _)| register.feature == feature) {
                let name = escaped(&register.name);
                let kind = kind(feature, &register.name, *bytes);
                let _ = writeln!(xml, "<reg name=\"{name}\" bitsize=\"{}\" type=\"{kind}\"/>", bytes * 8);
            }
            xml.push_str("</feature>\n");
        }
        xml.push_str("</target>\n");
        let described =
            |(register, bytes): &(&Register, usize)| Described { name: register.name.clone(), bytes: *bytes };
        Description { registers: registers.iter().map(described).collect(), xml }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(feature: &str, name: &str, bytes: usize) -> Register {
        Register { feature: feature.to_owned(), name: name.to_owned(), bytes: vec![0; bytes] }
    }

    #[test]
    fn registers_keep_their_feature_and_are_numbered_as_the_document_lists_them() {
        let description = Description::of(
            Isa::ThumbV7m,
            &[
                register("org.gnu.gdb.arm.m-profile", "r0", 4),
                register("org.gnu.gdb.arm.m-system", "msp", 4),
                register("org.gnu.gdb.arm.m-profile", "pc", 4),
                register("org.gnu.gdb.arm.vfp", "d0", 8),
                register("org.gnu.gdb.arm.vfp", "fpscr", 4),
                register("a<b", "msp", 4),
            ],
        );
        let names: Vec<&str> = description.registers.iter().map(|register| register.name.as_str()).collect();
        assert_eq!(names, ["r0", "pc", "msp", "d0", "fpscr"]);
        assert_eq!(
            description.xml,
            "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n\
             <architecture>arm</architecture>\n<osabi>none</osabi>\n\
             <feature name=\"org.gnu.gdb.arm.m-profile\">\n\
             <reg name=\"r0\" bitsize=\"32\" type=\"int\"/>\n\
             <reg name=\"pc\" bitsize=\"32\" type=\"code_ptr\"/>\n\
             </feature>\n\
             <feature name=\"org.gnu.gdb.arm.m-system\">\n\
             <reg name=\"msp\" bitsize=\"32\" type=\"int\"/>\n\
             </feature>\n\
             <feature name=\"org.gnu.gdb.arm.vfp\">\n\
             <reg name=\"d0\" bitsize=\"64\" type=\"ieee_double\"/>\n\
             <reg name=\"fpscr\" bitsize=\"32\" type=\"int\"/>\n\
             </feature>\n\
             <feature name=\"a&lt;b\">\n\
             </feature>\n\
             </target>\n"
        );
    }

    #[test]
    fn avr_has_gdbs_own_list_whatever_the_order_of_qemus() {
        let feature = "org.gnu.gdb.avr.cpu";
        let wide = [("pc", 4), ("sp", 2), ("sreg", 1)].map(|(name, bytes)| register(feature, name, bytes));
        let general = (0..32).rev().map(|number| register(feature, &format!("r{number}"), 1));
        let description = Description::of(Isa::AvrPc16, &wide.into_iter().chain(general).collect::<Vec<_>>());
        let bytes: usize = description.registers.iter().map(|register| register.bytes).sum();
        let names: Vec<&str> = description.registers.iter().map(|register| register.name.as_str()).collect();
        assert_eq!((bytes, &names[..2], &names[31..]), (39, &["r0", "r1"][..], &["r31", "sreg", "sp", "pc"][..]));
        assert!(
            description.xml.contains("<architecture>avr</architecture>") && !description.xml.contains("<feature")
        );
    }

    #[test]
    fn a_register_that_cannot_be_read_has_the_width_of_its_kind() {
        let described = |isa, feature: &str, name: &str, others: &[Register]| {
            let mut all = others.to_vec();
            all.push(register(feature, name, 0));
            Description::of(isa, &all).registers.last().unwrap().bytes
        };
        let double = [register("org.gnu.gdb.riscv.fpu", "ft0", 8)];
        assert_eq!(described(Isa::Riscv32, "org.gnu.gdb.riscv.fpu", "ft1", &double), 8);
        assert_eq!(described(Isa::Riscv32, "org.gnu.gdb.riscv.csr", "mcycle", &double), 4);
        assert_eq!(described(Isa::Riscv64, "org.gnu.gdb.riscv.csr", "mcycle", &double), 8);
        assert_eq!(described(Isa::ThumbV7m, "org.gnu.gdb.arm.vfp", "d7", &[]), 8);
        assert_eq!(described(Isa::ThumbV7m, "org.gnu.gdb.arm.vfp", "fpscr", &[]), 4);
    }

    #[test]
    fn a_wide_register_is_a_vector_of_bytes() {
        let description = Description::of(Isa::Riscv64, &[register("org.gnu.gdb.riscv.vector", "v0", 16)]);
        assert!(description.xml.contains("<vector id=\"bytes16\" type=\"uint8\" count=\"16\"/>\n<reg name=\"v0\""));
        assert!(description.xml.contains("bitsize=\"128\" type=\"bytes16\""));
    }
}
