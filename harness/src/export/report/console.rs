// SPDX-License-Identifier: MIT OR Apache-2.0
//! Console of the firmware, line by line, as data for the page's script.

use serde::Serialize;

use crate::profile::Profile;

/// Maximum number of lines in the page, and of characters of a line. The last lines are kept, since they show the end
/// of the run.
const MAX_LINES: usize = 5_000;
const MAX_LINE_CHARS: usize = 1_000;

/// Console of the firmware.
#[derive(Debug, Serialize)]
pub(super) struct Console {
    lines: Vec<String>,
    /// Instructions of the window by which each line was complete; None: not known.
    at: Vec<Option<u64>>,
    /// Number of earlier lines that are left out.
    left_out: usize,
    /// Whether these instructions are known for any line.
    marked: bool,
}

impl Console {
    /// Makes the console from its bytes; None: nothing was printed.
    pub(super) fn new(profile: &Profile, bytes: &[u8]) -> Option<Console> {
        if bytes.is_empty() {
            return None;
        }
        let mut console = Console { lines: Vec::new(), at: Vec::new(), left_out: 0, marked: false };
        // With several CPUs there is no common clock, since each CPU has its own.
        let known: &[_] = if profile.vcpus.len() > 1 { &[] } else { &profile.console_marks };
        let mut marks = known.iter().peekable();
        let mut printed = 0_u64;
        let all: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        console.left_out = all.len().saturating_sub(MAX_LINES);
        for (number, line) in all.into_iter().enumerate() {
            printed += line.len() as u64;
            // The first mark that includes the whole line.
            while marks.next_if(|&&(_, bytes)| bytes < printed).is_some() {}
            if number < console.left_out {
                continue;
            }
            let text = String::from_utf8_lossy(line);
            let text = text.trim_end_matches(['\n', '\r']);
            console.lines.push(text.chars().take(MAX_LINE_CHARS).collect());
            console.at.push(marks.peek().map(|&&(insns, _)| insns));
        }
        console.marked = console.at.iter().any(Option::is_some);
        Some(console)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn a_line_has_the_first_mark_that_has_all_of_it() {
        let mut profile = empty();
        profile.console_marks = vec![(100, 3), (200, 10), (300, 14), (900, 14)];
        let console = Console::new(&profile, b"ab\r\ncdef\r\nghi\xff").unwrap();
        assert_eq!(console.lines, ["ab", "cdef", "ghi\u{fffd}"]);
        assert_eq!((console.at, console.marked), (vec![Some(200), Some(200), Some(300)], true));
        let mut several = profile.clone();
        several.vcpus.push(several.vcpus[0].clone());
        assert!(!Console::new(&several, b"ab\n").unwrap().marked);
        profile.console_marks.clear();
        assert!(!Console::new(&profile, b"a\n").unwrap().marked);
        assert!(Console::new(&profile, b"").is_none());
    }

    #[test]
    fn of_very_much_the_end_is_kept() {
        let text: String = (0..MAX_LINES + 7).map(|line| format!("{line}\n")).collect();
        let console = Console::new(&empty(), text.as_bytes()).unwrap();
        assert_eq!((console.lines.len(), console.left_out, console.lines[0].as_str()), (MAX_LINES, 7, "7"));
        let long = Console::new(&empty(), "x".repeat(9 * MAX_LINE_CHARS).as_bytes()).unwrap();
        assert_eq!(long.lines[0].len(), MAX_LINE_CHARS);
    }
}
