// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences about the heap: its sums, the calls that were not followed, and wrong frees.

use crate::analysis::allocator_clones;
use crate::analysis::heap::{self, HeapUse, Held, Misuse, Unfollowed, Use, Wrong};
use crate::analysis::lost::Lost;
use crate::analysis::stacks::{FrameRole, View};
use crate::image::heap::rule::Kind;
use crate::profile::Profile;
use crate::text::columns::clip;
use crate::text::number::{Hex, group, plural, share};

/// Separator between the functions of a path, innermost first.
const CALLED_BY: &str = " < ";

/// Call path of each site, in order of site number.
pub fn call_paths(profile: &Profile) -> Vec<String> {
    let tree = heap::paths(profile, View::default());
    let path = |number: &u32| {
        let frames = tree.frames(*number);
        let shown = frames.iter().rev().filter(|member| member.frame.role != FrameRole::Inlined);
        shown.map(|member| member.frame.name.as_str()).collect::<Vec<_>>().join(CALLED_BY)
    };
    tree.samples.iter().map(path).collect()
}

fn blocks(held: Held) -> String {
    format!("{} in {}", plural(held.bytes, "byte"), plural(held.blocks, "block"))
}

/// Sums, one per line.
pub fn summary(profile: &Profile, found: &HeapUse) -> Vec<String> {
    let Use { allocated, freed, leaked, temporary, failed, left, .. } = found.total;
    let lost = heap::lost(profile, found);
    let (sums, held) = (trust(lost).sums, trust(lost).held);
    let mut lines = vec![
        format!(
            "heap: {} ({}), {} freed{sums}",
            plural(allocated.blocks, "allocation"),
            plural(allocated.bytes, "byte"),
            group(freed.blocks)
        ),
        format!("peak: {}, at instruction {}{held}", blocks(found.peak), group(found.peak_at_insns)),
        format!("leaked: {}{held}", blocks(leaked)),
    ];
    if found.before.blocks > 0 {
        let still = blocks(found.still_before);
        lines.push(format!("held as the window opened: {}; of these at the end: {still}", blocks(found.before)));
    }
    if allocated.blocks > 0 {
        let share = share(temporary, allocated.blocks);
        lines.push(format!("temporary: {} ({share}) freed before the next allocation", group(temporary)));
    }
    if failed.blocks > 0 {
        lines.push(format!("failed: {} for {}", plural(failed.blocks, "allocation"), plural(failed.bytes, "byte")));
    }
    if left.blocks > 0 {
        lines.push(format!("left without a return (longjmp, exception): {}", plural(left.blocks, "allocation")));
    }
    if found.double_frees + found.bad_frees > 0 {
        lines.push(format!(
            "warning: {} freed twice, {} freed that never {} allocated",
            plural(found.double_frees, "block"),
            group(found.bad_frees),
            if found.bad_frees == 1 { "was" } else { "were" }
        ));
    }
    if found.reissued > 0 {
        lines.push(format!(
            "warning: {} given out again while held: a function that is not followed frees memory; name it with \
             --heap-free",
            plural(found.reissued, "block")
        ));
    }
    lines.extend(missed(profile).into_iter().map(|line| format!("warning: {line}")));
    lines.extend(arena(found));
    lines
}

/// Notes after numbers that may be wrong.
struct Trust {
    /// Note after the allocated and freed bytes.
    sums: &'static str,
    /// Note after the held bytes.
    held: &'static str,
}

fn trust(lost: Lost) -> Trust {
    match (lost.allocations, lost.frees) {
        (false, false) => Trust { sums: "", held: "" },
        (true, false) => Trust { sums: " (too low, see the warning)", held: " (too low, see the warning)" },
        (false, true) => Trust { sums: " (frees too low, see the warning)", held: " (too high, see the warning)" },
        (true, true) => {
            Trust { sums: " (too low, see the warnings)", held: " (not to be trusted, see the warnings)" }
        }
    }
}

/// Describes the effect of missed calls on the numbers.
fn describe_lost(kind: Kind) -> &'static str {
    match kind {
        Kind::Alloc => "what they allocate is missing from all numbers",
        Kind::Free => "what they free counts as held: the peak and what leaked are too high",
    }
}

/// Describes the calls that were not followed and are in no number, and the remedies, a sentence each.
pub fn missed(profile: &Profile) -> Vec<String> {
    let around = heap::unfollowed(profile);
    let mut copies = allocator_clones::unfollowed(profile);
    if !around.calls.is_empty() {
        copies.inlined.retain(|one| !is_rusts(&one.name));
    }
    let copies = [Kind::Alloc, Kind::Free].into_iter().filter_map(|kind| describe_copies(&copies.that(kind), kind));
    describe_around(&around).into_iter().chain(copies).collect()
}

/// Describes the calls of Rust's allocator that were not followed; None if there are none.
fn describe_around(around: &Unfollowed) -> Option<String> {
    let (name, _) = around.calls.iter().max_by_key(|&(name, calls)| (calls, std::cmp::Reverse(name)))?;
    let kinds = [(around.lost.allocations, Kind::Alloc), (around.lost.frees, Kind::Free)];
    let lost: Vec<&str> =
        kinds.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, kind)| describe_lost(kind)).collect();
    Some(format!(
        "{} of Rust's allocator, such as {name}, came around __rust_alloc, which the compiler has inlined: {}; name its \
         methods with --heap-alloc and --heap-free",
        plural(around.calls.values().sum(), "call"),
        lost.join("; ")
    ))
}

/// Whether rustc generates the function between `alloc` and the global allocator.
fn is_rusts(name: &str) -> bool {
    name.contains("__rust_") || name.contains("__rustc")
}

/// Largest number of function copies that a warning names.
const MAX_COPIES: usize = 6;

/// Largest part of a function's name that a warning shows.
const MAX_NAME: usize = 60;

/// Names the compiler's copies of functions of one kind, with the remedy; None if there are no copies.
fn describe_copies(copies: &allocator_clones::Copies, kind: Kind) -> Option<String> {
    if copies.is_empty() {
        return None;
    }
    let clones =
        copies.clones.iter().map(|clone| format!("{} ({})", clone.linkage_name, plural(clone.calls, "call")));
    let inlined = copies.inlined.iter().map(|one| {
        let more = match one.into.len() {
            0 | 1 => String::new(),
            all => format!(" and {} more", group(all as u64 - 1)),
        };
        format!("{} (inlined into {}{more})", one.name, clip(one.into.first().map_or("", String::as_str), MAX_NAME))
    });
    let mut named: Vec<String> = clones.chain(inlined).collect();
    let more = named.len().saturating_sub(MAX_COPIES);
    named.truncate(MAX_COPIES);
    let more = if more > 0 { format!(" and {} more", group(more as u64)) } else { String::new() };
    let by_name = copies.clones.first().map(|clone| {
        let (option, place) = (clone.kind.option(), if clone.kind == Kind::Alloc { "(size=arg0)" } else { "(arg0)" });
        let name = &clone.linkage_name;
        format!(
            "name each clone with the registers in which `harness annotate PROFILE {name}` shows its arguments, as in \
             {option} '{name}{place}', or "
        )
    });
    let keep = if copies.inlined.iter().any(|one| is_rusts(&one.name)) {
        "mark the methods of the global allocator #[inline(never)] and name them with --heap-alloc and --heap-free"
    } else {
        "keep the compiler from it: __attribute__((noipa)), with LLVM noinline"
    };
    let which = if kind == Kind::Free { "functions that free" } else { "functions that allocate" };
    Some(format!(
        "the compiler has made copies of {which}, which are not followed: {}{more}: {}; {}{keep}",
        named.join(", "),
        describe_lost(kind),
        by_name.unwrap_or_default()
    ))
}

/// Sentence about the addresses that blocks took, and their fragmentation.
fn arena(found: &HeapUse) -> Option<String> {
    let (extent, last) = (found.extent.as_ref()?, found.history.last()?);
    let bytes = extent.end - extent.start;
    let which = match &extent.name {
        Some(name) => format!("arena {name}"),
        None => "arena (from the first to the last block ever given out)".to_owned(),
    };
    let smallest = found.history.iter().map(|point| point.largest_free_bytes).min()?;
    Some(format!(
        "{which}: {} at {}, high water {} ({}); largest free block {} at the end, {} at least",
        plural(bytes, "byte"),
        Hex(extent.start),
        plural(last.high_water_bytes, "byte"),
        share(last.high_water_bytes, bytes),
        plural(last.largest_free_bytes, "byte"),
        group(smallest)
    ))
}

/// Lines about a wrong free: its kind, its place, and the block's origin.
pub fn describe_misuse(misuse: &Misuse, paths: &[String]) -> Vec<String> {
    let path = |site: u32| paths.get((site as usize).wrapping_sub(1)).map_or("?", String::as_str);
    let (at, address) = (group(misuse.at_insns), Hex(misuse.address));
    let mut lines = match misuse.wrong {
        Wrong::Double { first, first_at_insns } => vec![
            format!("double free of {address} at instruction {at}: {}", path(misuse.site)),
            format!("freed before at instruction {}: {}", group(first_at_insns), path(first)),
        ],
        Wrong::Never => {
            vec![format!("free of {address}, which was never allocated, at instruction {at}: {}", path(misuse.site))]
        }
    };
    lines.extend(misuse.allocated.map(|site| format!("allocated: {}", path(site))));
    lines
}
