//! What a profile is written as: one file per format. Only this file knows what they are called.

pub mod callgrind;
pub mod chrome;
pub mod csv;
pub mod differential;
pub mod flamegraph;
pub mod folded;
pub mod gmon;
pub mod json;
pub mod lcov;
mod picture;
pub mod pprof;
pub mod report;
mod shown;
pub mod speedscope;

use crate::profile::files::{FLAMECHART, FLAMEGRAPH};
use std::io::Write;
use std::num::NonZeroU32;

use anyhow::Result;
use clap::ValueEnum;

use crate::analysis::stacks::View;
use crate::profile::{FILE_NAME, Profile};
use crate::run::directory::Output;
use crate::run::options::Options;

/// Adds the saved profile and the flamegraph to a profile directory.
///
/// # Errors
/// When they cannot be written.
pub fn write(profile: &Profile, options: &Options, output: &Output) -> Result<()> {
    output.write(FILE_NAME, &profile.to_bytes()?)?;
    output.write(FLAMEGRAPH, &flamegraph::svg(profile, options.view)?)?;
    if options.flamechart {
        output.write(FLAMECHART, &flamegraph::chart(profile, options.view)?)?;
    }
    Ok(())
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Functions, lines, instructions and calls, for KCachegrind and callgrind_annotate
    Callgrind,
    /// Chrome trace events, for ui.perfetto.dev: samples on a time axis of instructions
    Chrome,
    /// The table of functions, for spreadsheets and scripts
    Csv,
    /// Folded stacks, `a;b;c N`: inferno, flamegraph.pl, speedscope
    Folded,
    /// gmon.out of GNU gprof: gprof firmware.elf gmon.out
    Gmon,
    /// The symbols with which gprof sees every function: gprof -S SYMBOLS firmware.elf gmon.out
    GmonSymbols,
    /// Everything, for programs (--schema prints its JSON Schema)
    Json,
    /// Coverage of lines and functions, for lcov: genhtml FILE
    Lcov,
    /// profile.proto, compressed: `go tool pprof`, pprof's web pages, most continuous profilers
    Pprof,
    /// For speedscope.app: exact instructions and samples, by task
    Speedscope,
}

/// How an export is written, where formats leave a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How stacks are shown.
    pub view: View,
    /// Instructions per second, where a format has seconds; None: the machine's virtual clock.
    pub clock_hz: Option<NonZeroU32>,
}

impl Format {
    /// Writes a profile in this format, as it goes: nobody keeps the whole text.
    ///
    /// # Errors
    /// What `out` reports, or that the profile lacks what the format is about.
    pub fn write(self, profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
        match self {
            Format::Callgrind => callgrind::write(profile, settings, out),
            Format::Chrome => chrome::write(profile, settings, out),
            Format::Csv => csv::write(profile, settings, out),
            Format::Folded => folded::write(profile, settings, out),
            Format::Gmon => gmon::write(profile, settings, out),
            Format::GmonSymbols => gmon::write_symbols(profile, settings, out),
            Format::Json => json::write(profile, settings, out),
            Format::Lcov => lcov::write(profile, settings, out),
            Format::Pprof => pprof::write(profile, settings, out),
            Format::Speedscope => speedscope::write(profile, settings, out),
        }
    }

    /// Whether it is no text.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Gmon | Format::Pprof)
    }
}
