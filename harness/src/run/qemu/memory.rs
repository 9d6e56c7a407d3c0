// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running machine's memory, from QEMU's own memory tree. That tree also has aliases, RAM of unusual size, and
//! machines that are not in harness's table.
//!
//! The tree's flat views say for every address which device or memory handles it. Only ranges backed by QEMU's own
//! memory count, since a device would notice a read. A tree with an unknown line is refused as a whole, and the run
//! reports that.

use std::fmt;
use std::ops::Range;

use crate::profile::no_progress::Device;
use crate::text::printable::printable;

/// Command of QEMU's monitor that prints the tree as flat views, each with its address spaces.
pub const QUESTION: &str = "info mtree -f";

/// Prefixes of the processors' address spaces, followed by the processor's number. Buses, and devices that access
/// memory by themselves, have other names.
const PROCESSORS: [&str; 2] = ["cpu-memory-", "cpu-secure-memory-"];

/// A protection controller of Arm's, as QEMU names it (hw/misc/tz-mpc.c). The memory behind the controller is not in
/// the flat view.
const PROTECTED: &str = "tz-mpc-upstream";

/// Reason why a tree cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// QEMU answered with an error.
    Refused(String),
    /// No view belongs to a processor.
    NoProcessor,
    /// A processor has no memory at all.
    NoMemory,
    /// A line of a processor's view is not understood.
    Line(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Refused(why) => write!(f, "QEMU says: {}", printable(why)),
            Unread::NoProcessor => f.write_str("no view in it is a processor's"),
            Unread::NoMemory => f.write_str("it has no memory"),
            Unread::Line(line) => write!(f, "it has the line: {}", printable(line.trim())),
        }
    }
}

/// One flat view, as far as it has been read.
#[derive(Default)]
struct View {
    is_processor: bool,
    memory: Vec<Range<u64>>,
    /// End of the last region.
    end: u64,
}

/// Memory that every processor can read without affecting a device, in ascending order, with neighbours joined.
///
/// # Errors
/// When the tree is not understood.
pub fn read(tree: &str) -> Result<Vec<Range<u64>>, Unread> {
    let mut views: Vec<View> = Vec::new();
    for line in tree.lines().map(str::trim_end) {
        if line.starts_with("FlatView #") {
            views.push(View::default());
            continue;
        }
        let Some(view) = views.last_mut() else { continue };
        if let Some(space) = line.strip_prefix(" AS \"") {
            view.is_processor |= PROCESSORS.iter().any(|processor| space.starts_with(processor));
        } else if view.is_processor && !line.is_empty() && !line.starts_with(" Root memory region: ") {
            view.add(line).ok_or_else(|| Unread::Line(line.to_owned()))?;
        }
    }
    let processors = views.into_iter().filter(|view| view.is_processor).map(|view| view.memory);
    // The plugin does not distinguish which of several processors would read.
    let memory = processors.reduce(|all, one| common(&all, &one)).ok_or(Unread::NoProcessor)?;
    if memory.is_empty() { Err(Unread::NoMemory) } else { Ok(memory) }
}

impl View {
    /// Adds a region, which must lie behind the earlier ones.
    fn add(&mut self, line: &str) -> Option<()> {
        let Region { addresses, is_memory } = region(line)?;
        if addresses.start < self.end {
            return None;
        }
        self.end = addresses.end;
        if is_memory {
            match self.memory.last_mut() {
                Some(last) if last.end == addresses.start => last.end = addresses.end,
                _ => self.memory.push(addresses),
            }
        }
        Some(())
    }
}

struct Region {
    addresses: Range<u64>,
    is_memory: bool,
}

/// Reads a line of a view: `  0000000020400000-00000000207fffff (prio 0, ram): mps.ssram23 @0000000000000000`
/// (system/memory.c, `mtree_print_flatview`).
fn region(line: &str) -> Option<Region> {
    let (first, rest) = line.strip_prefix("  ")?.split_once('-')?;
    let (last, rest) = rest.split_once(" (")?;
    let (kind, name) = rest.split_once("): ")?;
    // The priority has no meaning in a flat view, so a QEMU might omit it.
    let kind = kind.split_once(", ").map_or(kind, |(_, kind)| kind);
    let number = |digits: &str| {
        let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let (first, last) = (number(first)?, number(last)?);
    let is_memory = match kind.strip_prefix("nv-").unwrap_or(kind) {
        // The last one is flash, which stores turn into a device for a while. Reads of these machines' flash have no
        // effect even then (hw/block/pflash_cfi01.c, hw/nvram/nrf51_nvm.c).
        "ram" | "rom" | "romd" => true,
        "i/o" => name.split_once(" @").map_or(name, |(name, _)| name) == PROTECTED,
        // `ramd` is memory of a host's device; `container` is an empty bus, which QEMU up to 10.2 calls a device.
        "ramd" | "container" => false,
        _ => return None,
    };
    // The address space's last byte is left out, since no range can hold it.
    let addresses = first..last.saturating_add(1);
    (first <= last && !addresses.is_empty()).then_some(Region { addresses, is_memory })
}

/// Intersection of two lists of sorted ranges.
fn common(left: &[Range<u64>], right: &[Range<u64>]) -> Vec<Range<u64>> {
    let both = left.iter().flat_map(|one| {
        right.iter().map(|other| one.start.max(other.start)..one.end.min(other.end)).filter(|range| !range.is_empty())
    });
    both.collect()
}

/// Priority of a region that replaces a device which QEMU does not emulate (hw/misc/unimp.c).
const STUB: &str = "(prio -1000, ";

/// Device that the first processor finds at an address, by a tree that [`read`] understands; None: memory, or unknown.
pub fn device_at(tree: &str, address: u64) -> Option<Device> {
    let mut is_processor = false;
    let mut has_regions = false;
    for line in tree.lines().map(str::trim_end) {
        if line.starts_with("FlatView #") {
            if has_regions {
                break;
            }
            is_processor = false;
        } else if let Some(space) = line.strip_prefix(" AS \"") {
            is_processor |= PROCESSORS.iter().any(|processor| space.starts_with(processor));
        } else if let Some(Region { addresses, is_memory }) = Some(line).filter(|_| is_processor).and_then(region) {
            has_regions = true;
            if addresses.contains(&address) {
                let (_, name) = line.split_once("): ")?;
                let name = name.split_once(" @").map_or(name, |(name, _)| name).to_owned();
                return (!is_memory).then(
                    || {
                        if line.contains(STUB) { Device::Stub(name) } else { Device::Named(name) }
                    },
                );
            }
        }
    }
    has_regions.then_some(Device::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of the monitor of QEMU 10.0.2's mps2-an385, shortened, with its line ends. The following answers are of
    /// the same kind.
    const AN385: &str = "FlatView #0\r
 AS \"I/O\", root: io\r
 Root memory region: io\r
  0000000000000000-000000000000ffff (prio 0, i/o): io\r
\r
FlatView #1\r
 AS \"memory\", root: system\r
 AS \"bitband-source\", root: system\r
 AS \"bitband-source\", root: system\r
 Root memory region: system\r
  0000000000000000-00000000003fffff (prio 0, ram): mps.ssram1\r
\r
FlatView #2\r
 AS \"cpu-memory-0\", root: armv7m-container\r
 Root memory region: armv7m-container\r
  0000000000000000-00000000003fffff (prio 0, ram): mps.ssram1\r
  0000000000400000-00000000007fffff (prio 0, ram): mps.ssram1\r
  0000000000800000-0000000000ffffff (prio -1000, i/o): RESERVED 1\r
  0000000020000000-00000000203fffff (prio 0, ram): mps.ssram23\r
  0000000020400000-00000000207fffff (prio 0, ram): mps.ssram23\r
  0000000021000000-0000000021ffffff (prio 0, ram): mps.ram\r
  0000000022000000-0000000023ffffff (prio 0, i/o): bitband\r
  0000000040003000-0000000040003fff (prio -1000, i/o): CMSDK APB peripheral region @0x40000000 @0000000000003000\r
  00000000e000f000-00000000e00fffff (prio -1, i/o): nvic-default @000000000000f000\r
\r
";

    #[test]
    fn what_answers_at_an_address_is_named() {
        let at = |address| device_at(AN385, address);
        assert_eq!(at(0x20000000), None, "memory is not a device");
        assert_eq!(at(0x22000010), Some(Device::Named("bitband".to_owned())));
        assert_eq!(at(0x00800000), Some(Device::Stub("RESERVED 1".to_owned())));
        assert_eq!(at(0x4000_3010), Some(Device::Stub("CMSDK APB peripheral region".to_owned())));
        assert_eq!(at(0xf000_0000), Some(Device::None));
        assert_eq!(device_at("", 0), None, "nothing is known");
    }

    const VIRT: &str = "FlatView #0
 AS \"gpex-root\", root: bus master container
 Root memory region: (none)
  No rendered FlatView

FlatView #1
 AS \"memory\", root: system
 AS \"cpu-memory-0\", root: system
 AS \"cpu-memory-1\", root: system
 Root memory region: system
  0000000000001000-000000000000ffff (prio 0, rom): riscv_virt_board.mrom
  0000000000100000-0000000000100fff (prio 0, i/o): riscv.sifive.test
  0000000020000000-0000000021ffffff (prio 0, romd): virt.flash0
  0000000022000000-0000000023ffffff (prio 0, romd): virt.flash1
  0000000080000000-0000000087ffffff (prio 0, ram): riscv_virt_board.ram
";

    const AN505: &str = "FlatView #18
 AS \"tz-mpc-downstream\", root: ssram-0
 Root memory region: ssram-0
  0000000000000000-00000000003fffff (prio 0, ram): ssram-0

FlatView #30
 AS \"cpu-secure-memory-0\", root: armv7m-container
 AS \"cpu-memory-0\", root: armv7m-container
 Root memory region: armv7m-container
  0000000000000000-00000000003fffff (prio 0, i/o): tz-mpc-upstream
  0000000010000000-00000000103fffff (prio 0, i/o): tz-mpc-upstream
  0000000020000000-0000000020007fff (prio 0, i/o): tz-mpc-upstream @0000000000001000
  0000000040000000-0000000040000fff (prio 0, i/o): tz-ppc-port[0]
  0000000080000000-0000000080ffffff (prio 0, ram): mps.ram
";

    /// Tree of one processor with these regions.
    fn tree(regions: &[&str]) -> String {
        format!(
            "FlatView #0\n AS \"cpu-memory-0\", root: system\n Root memory region: system\n{}\n",
            regions.join("\n")
        )
    }

    #[test]
    fn memory_and_its_aliases_are_found_and_devices_are_not() {
        let an385 = [0..0x80_0000, 0x2000_0000..0x2080_0000, 0x2100_0000..0x2200_0000];
        assert_eq!(read(AN385), Ok(an385.to_vec()));
        let virt = [0x1000..0x1_0000, 0x2000_0000..0x2400_0000, 0x8000_0000..0x8800_0000];
        assert_eq!(read(VIRT), Ok(virt.to_vec()));
    }

    #[test]
    fn memory_behind_a_protection_controller_is_memory() {
        let an505 = [0..0x40_0000, 0x1000_0000..0x1040_0000, 0x2000_0000..0x2000_8000, 0x8000_0000..0x8100_0000];
        assert_eq!(read(AN505), Ok(an505.to_vec()));
    }

    #[test]
    fn kinds_of_memory_are_told_apart() {
        let kinds = ["ram", "rom", "romd", "nv-ram", "ramd", "i/o", "container"];
        for (kind, is_memory) in kinds.into_iter().zip([true, true, true, true, false, false, false]) {
            let memory = read(&tree(&[
                &format!("  0000000000001000-0000000000001fff (prio 0, {kind}): a name (prio 0, ram): @ of its own"),
                "  0000000000003000-0000000000003fff (prio 0, ram): ram",
            ]));
            assert_eq!(memory.map(|memory| memory.len()), Ok(1 + usize::from(is_memory)), "{kind}");
        }
    }

    #[test]
    fn a_flat_view_without_priorities_says_the_same() {
        let without = AN385.replace("prio 0, ", "").replace("prio -1000, ", "").replace("prio -1, ", "");
        assert!(!without.contains("prio"));
        assert_eq!(read(&without), read(AN385));
    }

    #[test]
    fn memory_is_what_all_processors_have() {
        let two = "FlatView #0
 AS \"cpu-memory-0\", root: one
  0000000000001000-0000000000003fff (prio 0, ram): one
  0000000000005000-0000000000007fff (prio 0, ram): one
FlatView #1
 AS \"cpu-secure-memory-0\", root: other
  0000000000002000-0000000000005fff (prio 0, ram): other
  0000000000007000-0000000000008fff (prio 0, ram): other
";
        assert_eq!(read(two), Ok(vec![0x2000..0x4000, 0x5000..0x6000, 0x7000..0x8000]));
    }

    #[test]
    fn the_end_of_the_address_space_is_no_wrap() {
        let all = tree(&["  0000000000000000-ffffffffffffffff (prio 0, ram): all"]);
        assert_eq!(read(&all).unwrap().first(), Some(&(0..u64::MAX)));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for text in ["", "unknown command: 'info mtree -f'", "FlatView #", " AS \"cpu-memory-0\", root: system"] {
            assert_eq!(read(text), Err(Unread::NoProcessor), "{text}");
        }
        let others = AN385.replace("cpu-memory-0", "vcpu-0");
        assert_eq!(read(&others), Err(Unread::NoProcessor));
        let devices = tree(&["  0000000000000000-00000000003fffff (prio 0, i/o): uart"]);
        assert_eq!(read(&devices), Err(Unread::NoMemory));
        assert_eq!(read(&tree(&[])), Err(Unread::NoMemory));
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for line in [
            "  No rendered FlatView",
            "  0000000000000000-00000000003fffff (prio 0, ram)",
            "  0000000000000000-00000000003fffff (prio 0, dram): of a newer QEMU",
            "  0000000000000000-00000000003fffff: ram",
            " 0000000000000000-00000000003fffff (prio 0, ram): ram",
            "  00000000-003fffff (prio 0, ram): ram",
            "  00000000+0000000-00000000003fffff (prio 0, ram): ram",
            "  0000000000000000-00000000003ffffg (prio 0, ram): ram",
            "  0000000000400000-00000000003fffff (prio 0, ram): ends before it begins",
            "  ffffffffffffffff-ffffffffffffffff (prio 0, ram): the last byte alone",
            "  10000000000000000-1000000000000ffff (prio 0, ram): ram",
            "and something else",
        ] {
            assert_eq!(read(&tree(&[line])), Err(Unread::Line(line.to_owned())));
        }
        let overlap = "  0000000000000fff-0000000000001fff (prio 0, ram): overlaps";
        let overlapping = tree(&["  0000000000000000-0000000000000fff (prio 0, i/o): device", overlap]);
        let why = read(&overlapping).unwrap_err();
        assert_eq!(why, Unread::Line(overlap.to_owned()));
        assert_eq!(why.to_string(), format!("it has the line: {}", overlap.trim()));
        let escapes = Unread::Line("  \u{1b}[2J".to_owned()).to_string();
        assert!(!escapes.contains('\u{1b}'), "{escapes:?}");
    }

    #[test]
    fn every_cut_of_a_tree_is_less_memory_or_an_error() {
        let whole = read(VIRT).unwrap();
        for cut in 0..VIRT.len() {
            if let Ok(memory) = read(&VIRT[..cut]) {
                let inside =
                    |part: &Range<u64>| whole.iter().any(|all| all.start <= part.start && part.end <= all.end);
                assert!(memory.iter().all(inside), "cut at {cut}: {memory:x?}");
            }
        }
    }
}
