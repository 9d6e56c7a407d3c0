// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that a change added or altered, from the output of `git diff --unified=0`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use crate::analysis::coverage::Coverage;

/// Changed lines by file, relative to the repository's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLines {
    files: BTreeMap<String, Vec<Range<u64>>>,
}

impl ChangedLines {
    /// Reads a diff with the prefixes `a/` and `b/`. Text that is none is passed over.
    pub fn parse(diff: &str) -> ChangedLines {
        let mut files: BTreeMap<String, Vec<Range<u64>>> = BTreeMap::new();
        let mut file = None;
        // Lines of the current hunk still to come, which may look like anything.
        let (mut removed, mut added) = (0_u64, 0_u64);
        for line in diff.lines() {
            if removed > 0 && line.starts_with('-') {
                removed -= 1;
            } else if added > 0 && line.starts_with('+') {
                added -= 1;
            } else if let Some(path) = line.strip_prefix("+++ ") {
                file = path.strip_prefix("b/").map(|path| path.trim_end_matches('\t').to_owned());
            } else if let Some((before, after)) = line.strip_prefix("@@ ").and_then(hunk) {
                removed = before.end - before.start;
                added = after.end - after.start;
                if let Some(file) = file.as_ref().filter(|_| added > 0) {
                    files.entry(file.clone()).or_default().push(after);
                }
            }
        }
        ChangedLines { files }
    }

    /// Keeps only changed lines of a coverage. `root` is the repository; relative paths are looked for from `here`
    /// upwards to it.
    pub fn keep(&self, coverage: &mut Coverage, root: &Path, here: &Path) {
        coverage.files.retain(|path, file| {
            let Some(ranges) = self.of(path, root, here) else { return false };
            file.retain(|line| ranges.iter().any(|range| range.contains(&line.into())));
            !file.lines.is_empty()
        });
    }

    fn of(&self, path: &str, root: &Path, here: &Path) -> Option<&Vec<Range<u64>>> {
        let above = here.ancestors().take_while(|above| above.starts_with(root));
        let mut places = above.map(|above| plain(&above.join(path)));
        places.find_map(|place| self.files.get(place.strip_prefix(root).ok()?.to_str()?))
    }
}

/// Removed and added lines in `-3,2 +3,4 @@`.
fn hunk(text: &str) -> Option<(Range<u64>, Range<u64>)> {
    let range = |word: &str, sign: char| {
        let word = word.strip_prefix(sign)?;
        let (first, count) = word.split_once(',').unwrap_or((word, "1"));
        let (first, count): (u64, u64) = (first.parse().ok()?, count.parse().ok()?);
        Some(first..first.checked_add(count)?)
    };
    let mut words = text.split(' ');
    Some((range(words.next()?, '-')?, range(words.next()?, '+')?))
}

/// Path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::coverage::File;

    const DIFF: &str = "\
diff --git a/src/a.c b/src/a.c
--- a/src/a.c
+++ b/src/a.c
@@ -3 +3,2 @@ int f(void)
--- b/other.c
+++ b/other.c
+two
@@ -9,2 +10,0 @@
-gone
-gone
@@ -20,0 +20 @@
+x
diff --git a/gone.c b/gone.c
--- a/gone.c
+++ /dev/null
@@ -1 +0,0 @@
-x
";

    #[test]
    fn only_added_lines_of_files_that_are_left_count() {
        let changed = ChangedLines::parse(DIFF);
        assert_eq!(changed.files, BTreeMap::from([("src/a.c".to_owned(), vec![3..5, 20..21])]));
        assert_eq!(ChangedLines::parse("@@ -1 +18446744073709551615,2 @@\n+x"), ChangedLines::default());
    }

    #[test]
    fn a_coverage_keeps_the_changed_lines_under_any_path_to_their_file() {
        let file = || File { lines: (1..30).map(|line| (line, 1)).collect(), ..File::default() };
        let paths = ["/repo/src/a.c", "a.c", "../src/./a.c", "src/a.c", "/other/src/a.c", "b.c"];
        let files = paths.iter().map(|path| ((*path).to_owned(), file()));
        let mut coverage = Coverage { files: files.collect() };
        ChangedLines::parse(DIFF).keep(&mut coverage, Path::new("/repo"), Path::new("/repo/src"));
        let kept: Vec<&str> = coverage.files.keys().map(String::as_str).collect();
        assert_eq!(kept, ["../src/./a.c", "/repo/src/a.c", "a.c", "src/a.c"]);
        let lines: Vec<u32> = coverage.files["a.c"].lines.keys().copied().collect();
        assert_eq!(lines, [3, 4, 20]);
    }
}
