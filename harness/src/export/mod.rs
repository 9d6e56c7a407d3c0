// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of a profile, one file per format. Only this file knows the names of all formats: the command line and its
//! help are made from the single list, [`FORMATS`].

pub mod branches_csv;
pub mod callgrind;
pub mod chrome;
pub mod cobertura;
pub mod coverage_html;
pub mod csv;
pub mod ctf;
pub mod differential;
pub mod flamegraph;
pub mod folded;
pub mod gmon;
pub mod heaptrack;
pub mod json;
mod labels;
pub mod lcov;
pub mod llvm_profile;
pub mod massif;
pub mod perfetto;
mod picture;
pub mod pprof;
pub mod report;
mod settings;
pub mod size_page;
pub mod speedscope;
pub mod timeline_csv;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use clap::builder::PossibleValue;

pub use settings::Settings;

use crate::analysis::{part, zone};
use crate::profile::files::{FLAMECHART, FLAMEGRAPH};
use crate::profile::{FILE_NAME, Profile};
use crate::run::request::options::Options;
use crate::run::store::directory::Output;
use crate::text::disarmed::Syntax;
use crate::text::terminal;

/// Adds the saved profile and the flamegraph to a profile directory.
///
/// # Errors
/// When a file cannot be written.
pub fn write(profile: &Profile, options: &Options, output: &Output) -> Result<()> {
    output.write(FILE_NAME, &profile.to_bytes()?)?;
    let framed = options.zone_frames.then(|| zone::framed(profile));
    let shown = framed.as_ref().unwrap_or(profile);
    let phases = if options.by_phase { part::by_phase(shown) } else { Ok(Vec::new()) };
    if let Err(why) = &phases {
        // The run is complete, so a profile that cannot be split by phase only causes a warning.
        let _ = writeln!(terminal::stderr(), "warning: --by phase: {why}");
    }
    let picture = match phases {
        Ok(phases) if !phases.is_empty() => {
            let phases: Vec<_> = phases.iter().map(|(name, part)| (Some(part::phase_frame(name)), part)).collect();
            flamegraph::by_part(shown, &phases, options.view)?
        }
        _ => flamegraph::svg(shown, options.view)?,
    };
    output.write(FLAMEGRAPH, &picture)?;
    if options.flamechart {
        output.write(FLAMECHART, &flamegraph::chart(profile, options.view)?)?;
    }
    Ok(())
}

/// Format of another tool.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name on the command line.
    name: &'static str,
    /// Line in the help: purpose, and the tools that open it.
    help: &'static str,
    /// Syntax of the format. A binary one is never shown on a terminal.
    syntax: Syntax,
    /// Whether the format can separate phases.
    splits_by_phase: bool,
    /// Whether the format has one number for each path, which may be the cycles.
    can_be_in_cycles: bool,
    writer: Writer,
}

/// Writer of a profile in one format.
#[derive(Clone, Copy, Debug)]
pub enum Writer {
    /// Writes a file.
    File(WriteFile),
    /// Writes a directory.
    Directory(fn(&Profile, &Settings, &Path) -> Result<()>),
}

/// Function that writes a file's bytes.
pub type WriteFile = fn(&Profile, &Settings, &mut dyn Write) -> Result<()>;

/// Formats by name.
pub const FORMATS: &[Format] = &[
    text("branches", "Where each branch went, as CSV, one way a line", branches_csv::write),
    text(
        "callgrind",
        "Functions, lines, instructions and calls, for KCachegrind and callgrind_annotate",
        callgrind::write,
    ),
    json_text(
        "chrome",
        "Chrome trace events, for ui.perfetto.dev: samples on the firmware's time axis",
        chrome::write,
    ),
    text("csv", "The table of functions, for spreadsheets and scripts", csv::write),
    Format {
        name: "ctf",
        help: "The timeline as a Common Trace Format directory, for babeltrace2 and Trace Compass (needs --timeline)",
        syntax: Syntax::Binary,
        splits_by_phase: false,
        can_be_in_cycles: false,
        writer: Writer::Directory(ctf::write),
    },
    text("folded", "Folded stacks, `a;b;c N`: inferno, flamegraph.pl, speedscope", folded::write)
        .by_phase()
        .in_cycles(),
    binary("gmon", "gmon.out of GNU gprof: gprof firmware.elf gmon.out", gmon::write),
    text(
        "gmon-symbols",
        "The symbols with which gprof sees every function: gprof -S SYMBOLS firmware.elf gmon.out",
        gmon::write_symbols,
    ),
    text("heaptrack", "The heap's events, for heaptrack_gui and heaptrack_print (needs --heap)", heaptrack::write),
    json_text("json", "Everything, for programs (--schema prints its JSON Schema)", json::write),
    text("lcov", "Coverage of lines, functions and branches, for lcov: genhtml FILE", lcov::write),
    text("llvm-profile", "Sample profile of LLVM, for clang and rustc to optimise by", llvm_profile::write),
    text("massif", "The heap over time and who held it at the peak, for ms_print (needs --heap)", massif::write),
    binary("perfetto", "The timeline for ui.perfetto.dev, its own format (needs --timeline)", perfetto::write),
    binary(
        "pprof",
        "profile.proto, compressed: `go tool pprof`, pprof's web pages, most continuous profilers",
        pprof::write,
    )
    .by_phase(),
    json_text("speedscope", "For speedscope.app: exact instructions and samples, by task", speedscope::write)
        .by_phase(),
    text("timeline", "The timeline's events as CSV, one a line (needs --timeline)", timeline_csv::write),
];

/// Makes a format whose files are text.
const fn text(name: &'static str, help: &'static str, write: WriteFile) -> Format {
    let writer = Writer::File(write);
    Format { name, help, syntax: Syntax::Lines, splits_by_phase: false, can_be_in_cycles: false, writer }
}

/// Makes a format whose files are JSON.
const fn json_text(name: &'static str, help: &'static str, write: WriteFile) -> Format {
    Format { syntax: Syntax::Json, ..text(name, help, write) }
}

/// Makes a format whose files are binary.
const fn binary(name: &'static str, help: &'static str, write: WriteFile) -> Format {
    Format { syntax: Syntax::Binary, ..text(name, help, write) }
}

impl Format {
    /// Marks the format as able to separate phases.
    const fn by_phase(self) -> Format {
        Format { splits_by_phase: true, ..self }
    }

    /// Marks the format as able to have cycles instead of instructions.
    const fn in_cycles(self) -> Format {
        Format { can_be_in_cycles: true, ..self }
    }

    /// Writer of a profile in this format. It writes piece by piece, so that the whole text is never in memory. It
    /// fails if the output cannot be written, or if the profile lacks the data of the format.
    pub fn writer(self) -> Writer {
        self.writer
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Purpose of the format, and the tools that open it.
    pub fn help(self) -> &'static str {
        self.help
    }

    /// Whether the format can separate phases.
    pub fn splits_by_phase(self) -> bool {
        self.splits_by_phase
    }

    /// Whether the format can have cycles instead of instructions.
    pub fn can_be_in_cycles(self) -> bool {
        self.can_be_in_cycles
    }

    /// Syntax of the format's files.
    pub fn syntax(self) -> Syntax {
        self.syntax
    }

    /// Whether the format is binary, and so never shown on a terminal.
    pub fn is_binary(self) -> bool {
        self.syntax == Syntax::Binary
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::source::Sources;
    use crate::analysis::stacks::{Frame, FrameRole, View};
    use crate::profile::testing::{empty, freertos};
    use crate::text::bracket::has_command;
    use crate::text::disarmed::Disarmed;
    use crate::text::printable::is_command;

    #[test]
    fn formats_are_in_the_order_of_their_names_and_each_says_what_it_is_for() {
        assert!(FORMATS.is_sorted_by(|one, other| one.name < other.name));
        assert!(FORMATS.iter().all(|format| !format.help.is_empty() && !format.help.ends_with('.')));
    }

    #[test]
    fn what_is_binary_is_no_text_and_every_format_can_write_nothing() {
        for format in FORMATS {
            for profile in [empty(), freertos()] {
                let Writer::File(write) = format.writer else { continue };
                let mut bytes = Vec::new();
                // Two formats need debug information, two others the heap, and two more a timeline.
                let written = write(&profile, &Settings::default(), &mut bytes).is_ok();
                let wants_more =
                    matches!(format.name, "lcov" | "llvm-profile" | "heaptrack" | "massif" | "perfetto" | "timeline");
                assert!(written || wants_more, "{}", format.name);
                let is_text = String::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
                assert!(!written || is_text != format.is_binary(), "{}", format.name);
            }
        }
    }

    /// Profile in which this text is in every name that a firmware or its build can choose.
    fn named(text: &str) -> Profile {
        let mut profile = freertos();
        profile.facts.image_name = text.to_owned();
        profile.facts.last_line = text.to_owned();
        profile.facts.firmware_args = vec![text.to_owned()];
        for (number, function) in profile.names.functions.iter_mut().enumerate() {
            function.name = format!("{text}{number}");
        }
        profile.names.strings = vec![text.to_owned(); profile.names.strings.len()];
        profile.tasks.iter_mut().for_each(|task| text.clone_into(&mut task.name));
        profile.names.producers = vec![text.to_owned()];
        profile
    }

    #[test]
    fn no_line_of_an_export_is_a_command_for_a_job() {
        let texts = ["::error::x", "  ::add-mask::y", "##[error]z", "x ##[set-env name=PATH]/tmp", "\r::warning::x"];
        for text in texts.into_iter().chain(["x ##vso[task.complete]", "##teamcity[buildStop]"]) {
            let profile = named(text);
            for format in FORMATS.iter().filter(|format| !format.is_binary()) {
                let Writer::File(write) = format.writer else { continue };
                let mut bytes = Vec::new();
                if write(&profile, &Settings::default(), &mut Disarmed::new(&mut bytes, format.syntax())).is_err() {
                    continue;
                }
                let text = String::from_utf8(bytes).unwrap();
                let is_command = |line: &str| line.trim_start().starts_with("::") || has_command(line);
                let command = text.split(['\n', '\r']).find(|line| is_command(line));
                assert_eq!(command, None, "{}", format.name);
            }
        }
    }

    #[test]
    fn nothing_that_turns_or_hides_text_is_raw_in_a_picture_or_a_page() {
        let name = "\u{202e}live\u{2066}\u{200b}\u{9b}31m\u{61c}";
        let mut profile = empty().function(name, 0x40, 0x10).caller(0, 0x44).executed(0x42, 10, 1, 0);
        profile.facts.image_name = format!("{name}.elf");
        let mut page = Vec::new();
        report::write(&profile, View::default(), &report::Extras::default(), &mut Sources::default(), &mut page)
            .unwrap();
        let frame = |name: &str| Frame { name: name.to_owned(), role: FrameRole::Function };
        let side = |insns| differential::Side::new(name, [(vec![frame(name)], insns)]);
        let mut difference = Vec::new();
        differential::svg(&side(1), &side(2), &crate::analysis::both::Sampling::default(), &mut difference).unwrap();
        let pictures =
            [View::default(), View { fold_irqs: true }].map(|view| flamegraph::svg(&profile, view).unwrap());
        let chart = flamegraph::chart(&profile, View::default()).unwrap();
        for bytes in pictures.into_iter().chain([chart, difference, page]) {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains("live"), "{text}");
            let raw = text.chars().find(|&character| character != '\n' && character != '\t' && is_command(character));
            assert_eq!(raw, None);
        }
    }
}
