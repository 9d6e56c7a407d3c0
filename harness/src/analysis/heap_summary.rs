// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences about the heap: its sums, the calls that were not followed, and wrong frees.

use wire::definition::FrameKind;

use crate::analysis::allocator_clones;
use crate::analysis::cold_part::ColdParts;
use crate::analysis::heap::{self, HeapUse, Held, Misuse, Unfollowed, Use, Wrong};
use crate::analysis::lost::Lost;
use crate::analysis::stacks::{self, View};
use crate::image::heap::rule::Kind;
use crate::profile::heap::Site;
use crate::profile::{Frame, Profile};
use crate::text::columns::clip;
use crate::text::number::{Hex, group, plural, share};
use crate::text::symbol_name::file_name;

/// Separator between the functions of a path, innermost first.
const CALLED_BY: &str = " < ";

/// Call path of each site, in order of site number, each caller with the file and line of its call. The same call on
/// another line is another path.
pub fn call_paths(profile: &Profile) -> Vec<String> {
    let parts = ColdParts::of(profile);
    written_paths(profile, |profile, stack| calls_of(profile, &parts, stack))
}

/// Call path of each site as [`call_paths`], without lines: an edit elsewhere in a file moves them.
pub fn call_paths_without_lines(profile: &Profile) -> Vec<String> {
    written_paths(profile, |_, _| Vec::new())
}

/// Name of a caller, and the place of its call, if that is known.
type Call = (String, Option<String>);

fn written_paths(profile: &Profile, calls: impl Fn(&Profile, u32) -> Vec<Call>) -> Vec<String> {
    let tree = heap::paths(profile, View::default());
    let sites = profile.heap.iter().flat_map(|heap| &heap.sites);
    let path = |(number, site): (&u32, &Site)| {
        let mut calls = calls(profile, site.stack).into_iter().map(Some).chain(std::iter::repeat(None));
        let mut is_known = true;
        // The innermost frame is the function that was called.
        let mut written: Vec<String> = Vec::new();
        for member in tree.frames(*number).into_iter().rev() {
            let name = &member.frame.name;
            let call = if written.is_empty() || !is_known { None } else { calls.next().flatten() };
            // Frames that the tree has left out end what is known of the lines.
            is_known &= written.is_empty() || call.as_ref().is_some_and(|(caller, _)| caller == name);
            let place = call.filter(|_| is_known).and_then(|(_, place)| place);
            written.push(place.map_or_else(|| name.clone(), |place| format!("{name} ({place})")));
        }
        written.join(CALLED_BY)
    };
    tree.samples.iter().zip(sites).map(path).collect()
}

/// Callers up to the first interrupt, innermost first, with inlined ones.
fn calls_of(profile: &Profile, parts: &ColdParts, stack: u32) -> Vec<Call> {
    let mut calls = Vec::new();
    for frame in profile.stack(stack).into_iter().rev() {
        let FrameKind::Caller { return_addr } = frame.kind else { break };
        let site = return_addr.wrapping_sub(1);
        let names = &profile.names;
        let place = |frame: &Frame| {
            let file = names.strings.get(frame.file? as usize)?;
            Some(format!("{}:{}", file_name(file), frame.line?))
        };
        let mut places = names.frames_at(site).iter().map(place);
        let functions = stacks::at(profile, parts, site).into_iter().map(|function| function.name);
        let own: Vec<Call> = functions.map(|name| (name, places.next().flatten())).collect();
        calls.extend(own.into_iter().rev());
    }
    calls
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::heap::Heap;
    use crate::profile::testing::empty;

    /// `main` calls `handle`, which has `msg_new` inlined, which calls `malloc`; the timer's handler allocates, too.
    fn inlined() -> Profile {
        let mut profile = empty()
            .function("main", 0x40, 0x20)
            .function("handle", 0x60, 0x20)
            .function("malloc", 0x80, 0x10)
            .function("SysTick_Handler", 0xa0, 0x10)
            .frames(0x4f, &["main"])
            .frames(0x6f, &["handle", "msg_new"])
            .frames(0xa7, &["SysTick_Handler"])
            .caller(0, 0x50)
            .caller(1, 0x70)
            .exception(1, 15, 0xa0, 0x62)
            .caller(3, 0xa8);
        profile.names.strings.extend(["/fw/src/main.c".to_owned(), r"C:\fw\msg.h".to_owned()]);
        let file = profile.names.strings.len() as u32 - 2;
        let frames = profile.names.stacks.iter_mut().flatten();
        for (frame, (file, line)) in frames.zip([(file, 9), (file, 5), (file + 1, 3), (file, 40)]) {
            (frame.file, frame.line) = (Some(file), Some(line));
        }
        let sites = [2, 4, 0].map(|stack| Site { entry: 0x80, stack, task: 0 });
        profile.heap = Some(Heap { sites: sites.to_vec(), ..Heap::default() });
        profile
    }

    #[test]
    fn paths_have_inlined_callers_and_the_lines_of_calls() {
        let profile = inlined();
        let paths = call_paths(&profile);
        assert_eq!(paths[0], "malloc < msg_new (msg.h:3) < handle (main.c:5) < main (main.c:9)");
        assert!(
            paths[1].starts_with("malloc < SysTick_Handler (main.c:40) < [irq SysTick] < handle"),
            "{}",
            paths[1]
        );
        assert_eq!(paths[2], "malloc");
    }

    #[test]
    fn paths_that_are_compared_have_no_lines() {
        assert_eq!(call_paths_without_lines(&inlined())[0], "malloc < msg_new < handle < main");
    }

    #[test]
    fn callers_without_debug_information_have_no_lines() {
        let mut profile = inlined();
        profile.names.stacks.clear();
        assert_eq!(call_paths(&profile)[0], "malloc < handle < main");
    }
}
