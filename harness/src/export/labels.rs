// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of frames for people, the same in pictures and lines of text, and the call paths in these names.

use crate::analysis::calltree::CallTree;
use crate::analysis::stacks::{Frame, FrameRole};
use crate::text::markup::shown;

/// Suffix of an inlined frame's name, as in perf.
pub(super) const INLINED: &str = " (inlined)";

/// Frame's name for formats that can hold any name: unchanged, with a suffix if the frame is inlined.
pub(super) fn full(frame: &Frame) -> String {
    frame.name.clone() + suffix(frame)
}

/// Frame's name for pictures and lines of text.
pub(super) fn show(frame: &Frame) -> String {
    clean(&frame.name) + suffix(frame)
}

fn suffix(frame: &Frame) -> &'static str {
    if frame.role == FrameRole::Inlined { INLINED } else { "" }
}

/// Cleans a name so that inferno and other readers of folded stacks read it as one frame.
pub(super) fn clean(name: &str) -> String {
    let mut clean = shown(name).replace(';', ":");
    // A number at the end would be read as a count.
    if let Some((_, last)) = clean.rsplit_once(' ')
        && last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let space = clean.len() - last.len() - 1;
        clean.replace_range(space..=space, "_");
    }
    // A line that starts with `# ` is a comment, and inferno takes the names "-" and "--" for colours.
    if clean.is_empty() || clean.starts_with("# ") || matches!(clean.as_str(), "-" | "--") {
        clean.insert(0, '?');
    }
    clean
}

/// Visits each call path that has instructions, with their number: shown names, outermost frame first. Paths with the
/// same shown names are one path. Paths come in the order of their frames: each one right before the paths that
/// continue it. They are never stored, since there may be millions.
///
/// # Errors
/// Errors of `visit`.
pub(super) fn each<E>(tree: &CallTree, mut visit: impl FnMut(&[&str], u64) -> Result<(), E>) -> Result<(), E> {
    let names: Vec<String> = tree.members.iter().map(|member| show(&member.frame)).collect();
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let rank: Vec<usize> =
        names.iter().map(|name| sorted.partition_point(|&before| before < name.as_str())).collect();
    // End of each path's continuations, which follow it: by index, exclusive.
    let mut end: Vec<usize> = (1..=tree.paths.len()).collect();
    for (index, path) in tree.paths.iter().enumerate().rev() {
        if let Some(parent) = (path.parent as usize).checked_sub(1) {
            end[parent] = end[parent].max(end[index]);
        }
    }
    // Paths with one frame more than the paths around them, sorted by the name of that frame.
    let inner = |within: &mut dyn Iterator<Item = (usize, usize)>| {
        let mut inner: Vec<(usize, usize)> = Vec::new();
        for (mut index, last) in within {
            while index < last {
                inner.push((rank[tree.paths[index].member as usize], index));
                index = end[index];
            }
        }
        inner.sort_unstable();
        inner
    };
    let mut shown: Vec<&str> = Vec::new();
    let mut levels = vec![(inner(&mut [(0, tree.paths.len())].into_iter()), 0)];
    while let Some((paths, next)) = levels.last_mut() {
        let Some(&(name, _)) = paths.get(*next) else {
            levels.pop();
            shown.pop();
            continue;
        };
        let alike = paths[*next..].partition_point(|&(other, _)| other == name);
        let alike = &paths[*next..*next + alike];
        *next += alike.len();
        shown.push(sorted[name]);
        let insns = alike.iter().map(|&(_, index)| tree.paths[index].insns).sum();
        if insns > 0 {
            visit(&shown, insns)?;
        }
        let within = inner(&mut alike.iter().map(|&(_, index)| (index + 1, end[index])));
        levels.push((within, 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::analysis::stacks::View;
    use crate::profile::testing::empty;

    #[test]
    fn paths_that_are_shown_alike_are_one_and_each_is_before_all_that_begin_with_it() {
        // Two functions `init` that both call `b`. The second one also calls `a;b`, which is shown like the third's
        // `a:b`.
        let profile = empty()
            .function("init", 0x40, 0x10)
            .function("init", 0x50, 0x10)
            .function("a;b", 0x60, 0x10)
            .function("a:b", 0x70, 0x10)
            .function("b", 0x80, 0x10)
            .caller(0, 0x44)
            .caller(0, 0x54)
            .executed(0x42, 10, 0, 0)
            .executed(0x52, 20, 0, 0)
            .executed(0x62, 30, 2, 0)
            .executed(0x72, 40, 1, 0)
            .executed(0x82, 50, 1, 0)
            .executed(0x82, 50, 2, 0);
        let mut paths = Vec::new();
        let visited: Result<(), Infallible> = each(&CallTree::new(&profile, View::default()), |frames, insns| {
            paths.push((frames.join(";"), insns));
            Ok(())
        });
        visited.unwrap();
        let expected = [("init", 30), ("init;a:b", 70), ("init;b", 100)];
        assert_eq!(paths, expected.map(|(path, insns)| (path.to_owned(), insns)));
    }
}
