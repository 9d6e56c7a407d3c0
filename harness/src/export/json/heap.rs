// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap in the JSON format: memory held, leaked and freed, by call path; a part of a profile's JSON, and all of
//! `harness heap --json`.

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::heap::{self, Held, Misuse, Point, Use, Wrong};
use crate::analysis::lost::Lost;
use crate::analysis::stacks::{View, task_names};
use crate::error::InputError;
use crate::export::json::{Address, VERSION, document};
use crate::profile::Profile;

/// Heap of a profile.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HeapReport")]
struct Document<'a> {
    /// Always "harness-heap".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Names of the tasks, to which paths refer by their index.
    tasks: Vec<String>,
    #[serde(flatten)]
    heap: Heap,
}

/// Writes the heap of a profile.
///
/// # Errors
/// If the run did not follow the heap; errors of `out`.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    let heap = Heap::of(profile).ok_or_else(|| InputError::new(heap::NOT_FOLLOWED))?;
    let document = Document {
        format: "harness-heap",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        tasks: task_names(profile),
        heap,
    };
    document::write(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

/// Heap in the window, by calls of the firmware's allocation functions (--heap).
#[derive(Serialize, JsonSchema)]
pub(in crate::export) struct Heap {
    /// Whether calls that allocate were missed: the true numbers of allocated and held bytes are higher.
    lost_allocations: bool,
    /// Whether calls that free were missed: the true number of held bytes is lower.
    lost_frees: bool,
    /// All call paths together.
    total: Counts,
    /// Most bytes held at once: the peak.
    peak: Bytes,
    /// Instructions of the window when the peak was first reached.
    peak_at_insns: u64,
    /// Memory held as the window opened.
    held_before: Bytes,
    /// Memory held as the run ended, including memory held as the window opened.
    held_at_end: Bytes,
    /// Frees of blocks that had been freed already.
    double_frees: u64,
    /// Frees of addresses that were never allocated.
    bad_frees: u64,
    /// Blocks that were allocated again although they were held.
    reissued: u64,
    /// Memory that blocks were allocated from.
    arena: Option<Arena>,
    /// Call paths, with their tasks.
    paths: Vec<Path>,
    /// The first wrong frees, in their order.
    misuses: Vec<JsonMisuse>,
    /// Heap over time: after the last event in each 400th of the run that has events.
    history: Vec<JsonPoint>,
}

/// Bytes and blocks.
#[derive(Serialize, JsonSchema)]
struct Bytes {
    /// Requested bytes.
    bytes: u64,
    /// Number of blocks.
    blocks: u64,
}

impl From<Held> for Bytes {
    fn from(Held { bytes, blocks }: Held) -> Bytes {
        Bytes { bytes, blocks }
    }
}

/// Allocations and their fate.
#[derive(Serialize, JsonSchema)]
struct Counts {
    /// Allocated memory.
    allocated: Bytes,
    /// Part of it that was freed.
    freed: Bytes,
    /// Memory held at the peak of the whole heap.
    at_peak: Bytes,
    /// Memory that was allocated and is held at the end.
    leaked: Bytes,
    /// Allocations that failed for lack of memory.
    failed: Bytes,
    /// Calls that were left by an exception or a longjmp.
    left: Bytes,
    /// Blocks that were freed before the next allocation.
    temporary: u64,
    /// Instructions for which freed blocks had been held, all together.
    lifetime_insns: u64,
    /// Instructions for which the longest held of the freed blocks was held.
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

/// Memory that blocks were allocated from.
#[derive(Serialize, JsonSchema)]
struct Arena {
    /// Name in the image; null: the range from the first to the last block ever allocated.
    name: Option<String>,
    /// First address.
    start: Address,
    /// Address after the last one.
    end: Address,
}

/// Call path to an allocation function.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HeapPath")]
struct Path {
    /// Frames, outermost first; the last one is the allocation function.
    frames: Vec<String>,
    /// Running task, an index into `tasks`; null: none.
    task: Option<u32>,
    /// Allocations on this path.
    #[serde(flatten)]
    counts: Counts,
}

/// Wrong free.
#[derive(Serialize, JsonSchema)]
struct JsonMisuse {
    /// "double-free" or "never-allocated".
    kind: &'static str,
    /// Address that was freed.
    address: Address,
    /// Instructions of the window before the free.
    at_insns: u64,
    /// Path of the free, an index into `paths`.
    path: u32,
    /// Path of the first free, an index into `paths`.
    first_path: Option<u32>,
    /// Path of the allocation, an index into `paths`.
    allocated_path: Option<u32>,
}

/// Heap at one time.
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
    /// Largest gap between blocks.
    largest_free_bytes: u64,
}

impl Heap {
    /// Heap of a profile; None: it was not followed.
    pub(in crate::export) fn of(profile: &Profile) -> Option<Heap> {
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
