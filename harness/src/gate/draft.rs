// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of a first suite, which `harness init` writes and people continue. Each line about an image's run has its
//! reason beside it. An image that cannot run, or fails, is a comment with the reason.

use std::fmt::Write as _;

use crate::gate::expect::Ending;
use crate::profile::Sizes;
use crate::text::fold::words;
use crate::text::number::{group, plural};
use crate::text::printable::printable;

/// Name of a first suite's baseline.
pub const BASELINE: &str = "main";

/// Column at which the comment of a line begins.
const COMMENT_COLUMN: usize = 36;

/// Width in columns of comments on lines of their own.
const COMMENT_COLUMNS: usize = 98;

/// A suite to be written.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Its images, in the order of the file.
    pub images: Vec<Image>,
    /// Time limit of a run, in seconds of the host.
    pub timeout_seconds: f64,
    /// Whether it names a baseline, and thresholds relative to it.
    pub has_baseline: bool,
}

/// An image of the suite.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its file, as the suite names it.
    pub elf: String,
    /// Its name, if it differs from the file's stem.
    pub name: Option<String>,
    /// The suite's treatment of the image.
    pub fate: Fate,
    /// Remarks on its run, a sentence each.
    pub remarks: Vec<String>,
    /// The last line of its output.
    pub last_line: Option<LastLine>,
    /// Flash and RAM that it takes.
    pub sizes: Option<Sizes>,
}

/// A suite's treatment of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Ends by itself, with status 0.
    Ends {
        /// Instructions up to the end.
        insns: u64,
    },
    /// Is measured for this many instructions, in the form in which the user typed the number.
    Window(String),
    /// Is not run.
    LeftOut {
        /// Reason.
        why: String,
        /// End of its run, if a suite can expect such an end.
        ending: Option<Ending>,
    },
}

/// The last line of an image's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastLine {
    /// A line that ends with a newline.
    Whole(String),
    /// A line without a newline at its end, which may be a prompt.
    Open(String),
}

impl LastLine {
    /// The last line of a console; None: no line that a suite can expect was printed.
    pub fn of(console: &[u8]) -> Option<LastLine> {
        let text = String::from_utf8_lossy(console);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?.trim_start().to_owned();
        let is_plain = line.chars().count() <= 100 && printable(&line) == line && !line.contains('\u{fffd}');
        is_plain.then(|| if text.ends_with('\n') { LastLine::Whole(line) } else { LastLine::Open(line) })
    }
}

/// Text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Writes a line, and its purpose in the column of comments.
fn line(text: &mut String, what: &str, comment: &str) {
    let gap = COMMENT_COLUMN.saturating_sub(what.chars().count()).max(1);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{what}{:gap$}# {comment}", "");
}

/// Writes a comment, folded to several lines.
fn comment(text: &mut String, sentence: &str) {
    for line in sentence.lines().flat_map(|line| words(&printable(line), COMMENT_COLUMNS)) {
        let _ = writeln!(text, "# {line}");
    }
}

/// A limit on instructions with a wide margin: about four times `insns`, rounded up to two digits.
fn limit(insns: u64) -> String {
    let wanted = insns.saturating_mul(4).max(1_000_000);
    let thousands = wanted.div_ceil(1_000);
    let digit = 10_u64.pow(thousands.ilog10().saturating_sub(1));
    let rounded = thousands.div_ceil(digit) * digit;
    if rounded.is_multiple_of(1_000) { format!("{}M", rounded / 1_000) } else { format!("{rounded}k") }
}

impl Draft {
    /// Number of images that the suite runs.
    pub fn runs(&self) -> usize {
        self.images.iter().filter(|image| !matches!(image.fate, Fate::LeftOut { .. })).count()
    }

    /// Content of the suite's file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        comment(
            &mut text,
            "`harness test` runs each image in QEMU, and compares it with what is expected here and with the \
             baseline. The same image gives the same numbers to the instruction, on every machine. Paths are \
             relative to this file; docs/suites.md of harness has all keys. First written by `harness init`.",
        );
        text.push('\n');
        if self.has_baseline {
            comment(
                &mut text,
                &format!(
                    "The numbers to compare with are baselines/{BASELINE}/*.baseline. After an intended change:\n\
                     harness test --save-baseline {BASELINE}"
                ),
            );
            let _ = writeln!(text, "baseline = {}\n", quoted(BASELINE));
        }
        text += "[defaults]\n";
        let timeout = format!("timeout = {}", self.timeout_seconds);
        line(&mut text, &timeout, "seconds of this host, whatever the firmware does");
        if self.has_baseline {
            text += "\n[defaults.thresholds]\n";
            line(
                &mut text,
                "total = \"1%\"",
                "instructions may grow by this much over the baseline; \"0%\": not by one",
            );
            line(&mut text, "# self = { \"@all\" = \"5%\" }", "of each function; also calls, stack, …");
            let is_windowed = self.images.iter().any(|image| matches!(image.fate, Fate::Window(_)));
            if is_windowed {
                line(&mut text, "work = \"2%\"", "with `for`: calls and printed lines may shrink by this much");
            }
        }
        for image in &self.images {
            text.push('\n');
            image.write(&mut text);
        }
        text
    }
}

impl Image {
    fn write(&self, text: &mut String) {
        let Image { elf, name, fate, remarks, last_line, sizes } = self;
        let mut entry = format!("[[image]]\nelf = {}\n", quoted(elf));
        if let Some(name) = name {
            let _ = writeln!(entry, "name = {}", quoted(name));
        }
        match fate {
            Fate::Ends { insns } => {
                let ended = format!("it ends after {}", plural(*insns, "instruction"));
                line(&mut entry, &format!("max-insns = \"{}\"", limit(*insns)), &ended);
                line(&mut entry, "exit = 0", "its exit status");
            }
            Fate::Window(window) => {
                line(&mut entry, &format!("for = {}", quoted(window)), "instructions: it had not ended by then");
            }
            Fate::LeftOut { ending: None, .. } => {}
            Fate::LeftOut { ending: Some(Ending::Status(status)), .. } => {
                line(&mut entry, &format!("exit = {status}"), "if this status is what it should end with");
            }
            Fate::LeftOut { ending: Some(ending), .. } => {
                if let Some((word, _)) = Ending::WORDS.iter().find(|(_, known)| known == ending) {
                    line(&mut entry, &format!("exit = {}", quoted(word)), "if this is how it should end");
                }
            }
        }
        // A run that has exited or crashed does not wait for input.
        let may_wait = match fate {
            Fate::Window(_) => true,
            Fate::Ends { .. } => false,
            Fate::LeftOut { ending, .. } => *ending == Some(Ending::Asleep),
        };
        match last_line {
            Some(LastLine::Open(prompt)) if may_wait => {
                let input = format!("# input = [{{ after = {}, text = \"help\\n\" }}]", quoted(prompt));
                line(&mut entry, &input, "it printed this last and may wait for an answer");
            }
            Some(LastLine::Open(last) | LastLine::Whole(last)) if !matches!(fate, Fate::LeftOut { .. }) => {
                line(
                    &mut entry,
                    &format!("# console = [{}]", quoted(last)),
                    "text that it has to print; this was its last line",
                );
            }
            _ => {}
        }
        if let Some(Sizes { flash_bytes, ram_bytes, .. }) = sizes {
            let ceiling = |bytes: u64| bytes.saturating_add(bytes.div_ceil(10)).next_multiple_of(64);
            let budget = format!("budget = {{ flash = {}, ram = {} }}", ceiling(*flash_bytes), ceiling(*ram_bytes));
            let now =
                format!("bytes: it takes {} and {}; also stack_bound, …", group(*flash_bytes), group(*ram_bytes));
            line(&mut entry, &budget, &now);
        }
        for remark in remarks {
            comment(text, remark);
        }
        match fate {
            Fate::LeftOut { why, .. } => {
                comment(text, &format!("Left out: {why}"));
                for line in entry.lines() {
                    // The comment sign takes two columns: remove two from the gap before the line's own comment.
                    let _ = writeln!(text, "# {}", line.replacen("  #", "#", 1));
                }
            }
            Fate::Ends { .. } | Fate::Window(_) => *text += &entry,
        }
    }

    /// Outcome of its run, in one line for the terminal.
    pub fn describe(&self) -> String {
        match &self.fate {
            Fate::Ends { insns } => format!("{} instructions, exit status 0", group(*insns)),
            Fate::Window(window) => format!("does not end by itself within the window: for = \"{window}\""),
            Fate::LeftOut { why, .. } => format!("left out: {}", why.lines().next().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::gate::suite::Suite;

    fn image(elf: &str, fate: Fate) -> Image {
        Image { elf: elf.to_owned(), name: None, fate, remarks: Vec::new(), last_line: None, sizes: None }
    }

    #[test]
    fn what_is_written_is_read_as_it_was_meant_whatever_the_files_are_called() {
        let names = ["a b.elf", "it's.elf", "\"x\".elf", "back\\slash.elf", "größe/[1]#2.elf", "both'\".elf"];
        let mut images: Vec<Image> = names.iter().map(|name| image(name, Fate::Ends { insns: 7 })).collect();
        images[0].name = Some("first \"one\"".to_owned());
        images[1].sizes = Some(Sizes { flash_bytes: 1000, ram_bytes: 60, ..Sizes::default() });
        images[1].fate = Fate::Window("50M".to_owned());
        images[1].last_line = Some(LastLine::Open("go? \"'> ".to_owned()));
        images[2].last_line = Some(LastLine::Whole("''' \"\"\" \\ done".to_owned()));
        images.push(image("bad.elf", Fate::LeftOut { why: "one\n[[image]]\nthree".to_owned(), ending: None }));
        let draft = Draft { images, timeout_seconds: 300.0, has_baseline: true };
        let text = draft.text();
        let suite = Suite::parse(Path::new("harness.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let read: Vec<String> = suite.cases.iter().map(|case| case.options.firmware.display().to_string()).collect();
        assert_eq!(read, names.map(|name| format!("./{name}")));
        assert_eq!((suite.cases[0].name.as_str(), suite.baseline.as_deref()), ("first \"one\"", Some(BASELINE)));
        assert_eq!(suite.cases[1].options.window.for_insns, Some(50_000_000));
        assert!(text.contains("budget = { flash = 1152, ram = 128 }") && !suite.cases[1].budget.is_empty(), "{text}");
        assert_eq!(suite.cases[2].options.window.max_insns, Some(1_000_000));
        assert!((suite.cases[1].work.len(), suite.cases[2].work.len()) == (1, 0), "{text}");
        // The commented-out keys are valid, too.
        let taken_up = text.replace("\n# [[image]]\n# elf", "\n[[image]]\nelf").replace("\n# input", "\ninput");
        let taken_up = taken_up.replace("\n# console", "\nconsole").replace("\n# self", "\nself");
        let suite = Suite::parse(Path::new("harness.toml"), &taken_up);
        let suite = suite.unwrap_or_else(|error| panic!("{error}\n{taken_up}"));
        assert_eq!(suite.cases.len(), names.len() + 1);
        assert_eq!(suite.cases[1].options.input[0].typed(), b"help\n");
        assert!(matches!(&suite.cases[1].options.input[0].when,
            crate::profile::input::When::After(prompt) if prompt == "go? \"'> "));
    }

    #[test]
    fn an_ending_that_can_be_expected_is_offered() {
        let left_out = |ending| {
            let fate = Fate::LeftOut { why: "it failed".to_owned(), ending: Some(ending) };
            Draft { images: vec![image("a.elf", fate)], ..Draft::default() }.text()
        };
        assert!(
            left_out(Ending::Status(3))
                .contains("\n# Left out: it failed\n# [[image]]\n# elf = \"a.elf\"\n# exit = 3 ")
        );
        assert!(left_out(Ending::LockUp).contains("\n# exit = \"lock-up\" "));
    }

    #[test]
    fn a_limit_leaves_room_and_is_short() {
        let limits = [0, 400_000, 24_354_349, 999_999_999, 12_345, 2_600_000].map(limit);
        assert_eq!(limits, ["1M", "1600k", "98M", "4000M", "1M", "11M"]);
    }

    #[test]
    fn the_last_line_is_a_prompt_where_it_was_not_ended() {
        let of = |text: &str| LastLine::of(text.as_bytes());
        assert_eq!(of("boot\nready\n"), Some(LastLine::Whole("ready".to_owned())));
        assert_eq!(of("boot\r\n> "), Some(LastLine::Open("> ".to_owned())));
        assert_eq!((of(""), of("\n\n"), of("a\x1b[1m\n"), of(&"x".repeat(101))), (None, None, None, None));
    }
}
