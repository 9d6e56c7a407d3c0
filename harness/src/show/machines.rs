// SPDX-License-Identifier: MIT OR Apache-2.0
//! List of machines with their memory as a linker script, so that firmware can be linked for one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::machine::{Machine, MemoryKind};

/// Writes each machine with its processor and a MEMORY block, which a linker accepts unchanged.
///
/// # Errors
/// Errors of `out`.
pub fn write(machines: &[Machine], out: &mut impl Write) -> io::Result<()> {
    for (index, machine) in machines.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        writeln!(out, "{gap}/* {}: {}, --shift {} */", machine.title(), machine.isa, machine.shift)?;
        writeln!(out, "MEMORY\n{{")?;
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        // Memory that cannot be executed, or not used freely, is not a place to link for.
        let linked =
            |kind: MemoryKind| matches!(kind, MemoryKind::Rom | MemoryKind::Ram).then_some(kind == MemoryKind::Ram);
        for region in machine.memory.iter() {
            let Some(is_ram) = linked(region.kind) else { continue };
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            let name: String = region.name.chars().map(plain).collect();
            let times = names.entry(name.clone()).or_default();
            *times += 1;
            let name = if *times > 1 { format!("{name}_AT_{:X}", region.start) } else { name };
            let attributes = if is_ram { "rwx" } else { "rx" };
            writeln!(
                out,
                "  {name} ({attributes}) : ORIGIN = {:#010x}, LENGTH = {}",
                region.start,
                size(region.bytes)
            )?;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

/// Formats a size in a linker's syntax.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MACHINES;

    fn shown() -> String {
        let mut out = Vec::new();
        write(MACHINES, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_machine_is_a_block_of_memory_that_a_linker_reads() {
        let text = shown();
        let (_, an385) = text.split_once("/* mps2-an385").unwrap();
        let block = an385.split_once("*/\n").unwrap().1.split_once("}\n").unwrap().0;
        assert_eq!(
            block,
            "\
MEMORY
{
  SSRAM_2_3 (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
  SSRAM_1 (rwx) : ORIGIN = 0x00000000, LENGTH = 4M
  BLOCK_RAM (rwx) : ORIGIN = 0x01000000, LENGTH = 16K
  PSRAM (rwx) : ORIGIN = 0x21000000, LENGTH = 16M
"
        );
        assert_eq!(text.matches("MEMORY").count(), MACHINES.len());
        assert!(text.contains("  DTCM_AT_20000000 (rwx)"), "no name twice in a block: {text}");
    }
}
