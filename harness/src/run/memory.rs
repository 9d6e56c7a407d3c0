//! The memory that the running machine has, by QEMU's own memory tree: aliases, RAM of another size than usual, and
//! machines that no table knows.
//!
//! The tree's flat views say of every address what answers there. Only what QEMU answers from its own memory is taken,
//! for reading a device is an access that it notices. What is not understood is no memory: the tree is refused as a
//! whole, and the run says so.

use std::fmt;
use std::ops::Range;

use crate::text::terminal::printable;

/// The command of QEMU's monitor that prints the tree as flat views, each with the address spaces that it is of.
pub const QUESTION: &str = "info mtree -f";

/// Address spaces of the processors begin so, and end in the processor's number. Those of devices that access memory by
/// themselves and of buses are others.
const PROCESSORS: [&str; 2] = ["cpu-memory-", "cpu-secure-memory-"];

/// A protection controller of Arm's, as QEMU names it (hw/misc/tz-mpc.c). What it stands before is memory, which the
/// flat view does not show.
const PROTECTED: &str = "tz-mpc-upstream";

/// Why a tree says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// QEMU gave an error instead.
    Refused(String),
    /// No view is that of a processor.
    NoProcessor,
    /// A processor has no memory at all.
    NoMemory,
    /// A line of a processor's view that cannot be read.
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
    /// Behind the last region.
    end: u64,
}

/// What every processor may read without a device noticing, in ascending order, neighbours joined.
///
/// # Errors
/// When the tree does not say so in a way that is understood.
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
    // The plugin does not ask which of several processors would read.
    let memory = processors.reduce(|all, one| common(&all, &one)).ok_or(Unread::NoProcessor)?;
    if memory.is_empty() { Err(Unread::NoMemory) } else { Ok(memory) }
}

impl View {
    /// Adds a region, which lies behind those that were before it.
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

/// `  0000000020400000-00000000207fffff (prio 0, ram): mps.ssram23 @0000000000000000` (system/memory.c,
/// `mtree_print_flatview`).
fn region(line: &str) -> Option<Region> {
    let (first, rest) = line.strip_prefix("  ")?.split_once('-')?;
    let (last, rest) = rest.split_once(" (prio ")?;
    let (kind, name) = rest.split_once(", ")?.1.split_once("): ")?;
    let number = |digits: &str| {
        let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let (first, last) = (number(first)?, number(last)?);
    let is_memory = match kind.strip_prefix("nv-").unwrap_or(kind) {
        // The last is flash that a store may turn into a device; QEMU's are such that reading them has no effect even
        // then.
        "ram" | "rom" | "romd" => true,
        "i/o" => name.split_once(" @").map_or(name, |(name, _)| name) == PROTECTED,
        // Memory of a device of the host's.
        "ramd" => false,
        _ => return None,
    };
    // The address space's last byte is given up, as no range can hold it.
    let addresses = first..last.saturating_add(1);
    (first <= last && !addresses.is_empty()).then_some(Region { addresses, is_memory })
}

/// What is in both of two lists of sorted ranges.
fn common(left: &[Range<u64>], right: &[Range<u64>]) -> Vec<Range<u64>> {
    let both = left.iter().flat_map(|one| {
        right.iter().map(|other| one.start.max(other.start)..one.end.min(other.end)).filter(|range| !range.is_empty())
    });
    both.collect()
}
