//! The heap as a part of the JSON format: what was held, leaked and freed, by call path.

use schemars::JsonSchema;
use serde::Serialize;

use super::json::Address;
use crate::analysis::heap::{self, Held, Lost, Misuse, Point, Use, Wrong};
use crate::analysis::stacks::View;
use crate::profile::Profile;

/// What the firmware's allocation functions did (--heap), in the window.
#[derive(Serialize, JsonSchema)]
pub(super) struct Heap {
    /// Calls that allocate were missed: what was allocated and held is more.
    lost_allocations: bool,
    /// Calls that free were missed: what was held is less.
    lost_frees: bool,
    /// All call paths together.
    total: Counts,
    /// Most bytes held at once.
    peak: Bytes,
    /// Instructions of the window as that was reached first.
    peak_at_insns: u64,
    /// What was held as the window opened.
    held_before: Bytes,
    /// What was held as the run ended, that included.
    held_at_end: Bytes,
    /// Frees of what had been freed.
    double_frees: u64,
    /// Frees of what was never allocated.
    bad_frees: u64,
    /// Blocks that were given out again although they were held.
    reissued: u64,
    /// The memory that blocks were given out of.
    arena: Option<Arena>,
    /// Call paths, with the task that they were called in.
    paths: Vec<Path>,
    /// The first wrong frees, in their order.
    misuses: Vec<JsonMisuse>,
    /// The heap over time: after the last event in each 400th of the run that has some.
    history: Vec<JsonPoint>,
}

/// Bytes and blocks.
#[derive(Serialize, JsonSchema)]
struct Bytes {
    /// Bytes that were asked for.
    bytes: u64,
    /// How many blocks.
    blocks: u64,
}

impl From<Held> for Bytes {
    fn from(Held { bytes, blocks }: Held) -> Bytes {
        Bytes { bytes, blocks }
    }
}

/// What was asked for.
#[derive(Serialize, JsonSchema)]
struct Counts {
    /// What was allocated.
    allocated: Bytes,
    /// What of that was freed.
    freed: Bytes,
    /// What was held as most was held in all.
    at_peak: Bytes,
    /// What was allocated and is held at the end.
    leaked: Bytes,
    /// Allocations that there was no memory for.
    failed: Bytes,
    /// Calls that were left by an exception or a longjmp.
    left: Bytes,
    /// Blocks that were freed before anything else was allocated.
    temporary: u64,
    /// Instructions for which what was freed had been held, all together.
    lifetime_insns: u64,
    /// Instructions for which the block was held that was held longest of those that were freed.
    longest_insns: u64,
}

impl From<&Use> for Counts {
    fn from(counts: &Use) -> Counts {
        let &Use { allocated, freed, at_peak, leaked, temporary, failed, left, lifetime_insns, longest_insns } =
            counts;
        let [allocated, freed, at_peak, leaked, failed, left] =
            [allocated, freed, at_peak, leaked, failed, left].map(Bytes::from);
        Counts { allocated, freed, at_peak, leaked, failed, left, temporary, lifetime_insns, longest_insns }
    }
}

/// The memory that blocks were given out of.
#[derive(Serialize, JsonSchema)]
struct Arena {
    /// What the image calls it; null: it is from the first to the last block that was ever given out.
    name: Option<String>,
    /// Its first address.
    start: Address,
    /// The address after it.
    end: Address,
}

/// A call path to an allocation function.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HeapPath")]
struct Path {
    /// Its frames, outermost first; the last one is the allocation function.
    frames: Vec<String>,
    /// The running task, an index in `tasks`; null: none.
    task: Option<u32>,
    /// What was asked for there.
    #[serde(flatten)]
    counts: Counts,
}

/// A wrong free.
#[derive(Serialize, JsonSchema)]
struct JsonMisuse {
    /// "double-free" or "never-allocated".
    kind: &'static str,
    /// The address that was freed.
    address: Address,
    /// Instructions of the window.
    at_insns: u64,
    /// Where: an index in `paths`.
    path: u32,
    /// Where it was freed first, an index in `paths`.
    first_path: Option<u32>,
    /// Where it was allocated, an index in `paths`.
    allocated_path: Option<u32>,
}

/// The heap at one time.
#[derive(Serialize, JsonSchema)]
struct JsonPoint {
    /// Instructions of the window.
    at_insns: u64,
    /// Bytes held.
    held_bytes: u64,
    /// Blocks held.
    held_blocks: u64,
    /// Most bytes held since the point before.
    most_bytes: u64,
    /// Bytes from the arena's start to the end of the last block that was ever held.
    high_water_bytes: u64,
    /// The largest stretch between blocks.
    largest_free_bytes: u64,
}

impl Heap {
    /// That of a profile; None: the heap was not followed.
    pub(super) fn of(profile: &Profile) -> Option<Heap> {
        let found = heap::replay(profile)?;
        let tree = heap::paths(profile, View::default());
        let tasks = profile.heap.as_ref().map_or(&[][..], |heap| &heap.sites).iter().map(|site| site.task);
        let path = |((counts, number), task): ((&Use, &u32), u32)| Path {
            frames: tree.frames(*number).into_iter().map(|member| member.frame.name.clone()).collect(),
            task: task.checked_sub(1),
            counts: counts.into(),
        };
        let misuse = |misuse: &Misuse| {
            let (kind, first_path) = match misuse.wrong {
                Wrong::Double { first, .. } => ("double-free", Some(first - 1)),
                Wrong::Never => ("never-allocated", None),
            };
            let allocated_path = misuse.allocated.map(|site| site - 1);
            let &Misuse { at_insns, address, site, .. } = misuse;
            let address = Address(address);
            JsonMisuse { kind, address, at_insns, path: site - 1, first_path, allocated_path }
        };
        let point = |point: &Point| {
            let &Point { at_insns, most_bytes, held_bytes, held_blocks, high_water_bytes, largest_free_bytes } =
                point;
            JsonPoint { at_insns, held_bytes, held_blocks, most_bytes, high_water_bytes, largest_free_bytes }
        };
        let arena = found.extent.as_ref().map(|extent| Arena {
            name: extent.name.clone(),
            start: Address(extent.start),
            end: Address(extent.end),
        });
        let Lost { allocations, frees } = heap::lost(profile, &found);
        Some(Heap {
            lost_allocations: allocations,
            lost_frees: frees,
            total: (&found.total).into(),
            peak: found.peak.into(),
            peak_at_insns: found.peak_at_insns,
            held_before: found.before.into(),
            held_at_end: found.at_end.into(),
            double_frees: found.double_frees,
            bad_frees: found.bad_frees,
            reissued: found.reissued,
            arena,
            paths: found.sites.iter().zip(&tree.samples).zip(tasks).map(path).collect(),
            misuses: found.misuses.iter().map(misuse).collect(),
            history: found.history.iter().map(point).collect(),
        })
    }
}
