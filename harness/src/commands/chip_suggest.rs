// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip suggest`: which chip an image is for, with how sure that is.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chip::suggest::{Likelihood, Suggestion};
use crate::cli::{ChipSuggestArgs, PlacementArgs};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json::document;
use crate::image::Opened;
use crate::learn;
use crate::machine;
use crate::run::request::options::Options;
use crate::run::store::directory::{STDOUT, write_to};
use crate::text::number::group;
use crate::text::printable::printable;
use crate::text::shell::quoted;
use crate::text::terminal;

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Chips that an image may be for, as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChipSuggest")]
struct Suggested<'a> {
    /// Always "harness-chip-suggest".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// The firmware.
    firmware: String,
    /// Chips for which most speaks; empty: nothing points to a chip.
    best: &'a [&'static str],
    /// "named": the image names it; "likely": it has all of the peripherals, and no chip of another family as many;
    /// "possible"; null: nothing points to a chip.
    likelihood: Option<&'static str>,
    /// Addresses in the code at which any chip that is known has a peripheral.
    peripherals: usize,
    /// Chips that have memory for the image, those with most of these peripherals first.
    chips: Vec<Candidate<'a>>,
}

/// Chip that has memory for the image.
#[derive(Serialize, JsonSchema)]
struct Candidate<'a> {
    /// Name of the chip, for `--chip`.
    chip: &'static str,
    /// Its processor.
    cpu: &'a str,
    /// Its peripherals whose first address the code has.
    peripherals: usize,
}

/// Runs the command.
///
/// # Errors
/// When the image cannot be read.
pub(super) fn run(args: ChipSuggestArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<Suggested<'_>>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    if args.firmware.is_none() {
        return Err(InputError::new("no firmware: name its file").into());
    }
    let (is_json, top) = (args.json, args.top);
    let placement = placement(&args.placement);
    let options = Options::resolve_named(args.into_profile_args())?;
    let opened = Opened::open(&options.firmware, &options.load())?;
    let fit = machine::chips_for(&opened.image);
    let hint = learn::hint(&opened.image, opened.naming_file(), &fit);
    let suggestion = Suggestion::of(&opened.image, &fit, hint);
    let best = suggestion.best();
    if is_json {
        let (names, likelihood) = best.unzip();
        let chips = suggestion.rows.iter();
        let suggested = Suggested {
            format: "harness-chip-suggest",
            version: VERSION,
            firmware: options.firmware.display().to_string(),
            best: names.as_deref().unwrap_or_default(),
            likelihood: likelihood.map(word),
            peripherals: suggestion.peripherals,
            chips: chips
                .map(|row| Candidate { chip: row.chip, cpu: row.cpu, peripherals: row.peripherals })
                .collect(),
        };
        write_to(Path::new(STDOUT), |out| document::write(&suggested, out))?;
        return Ok(ExitCode::Good);
    }
    let firmware = quoted(&options.firmware.display().to_string());
    let mut out = terminal::stdout();
    for line in lines(&suggestion, top) {
        writeln!(out, "{}", printable(&line))?;
    }
    let next = match &best {
        Some((names, _)) => format!("harness {firmware}{placement} --chip {}", names[0]),
        None => format!("harness chip learn {firmware}{placement}"),
    };
    writeln!(out, "next: {}", printable(&next))?;
    Ok(ExitCode::Good)
}

/// Options that place the image, for a command that can be pasted.
fn placement(args: &PlacementArgs) -> String {
    let options = [("--load-addr", &args.load_addr), ("--vectors", &args.vectors)];
    options.iter().filter_map(|(name, value)| Some(format!(" {name} {}", quoted(value.as_ref()?)))).collect()
}

/// Word of JSON for how sure a suggestion is.
fn word(likelihood: Likelihood) -> &'static str {
    match likelihood {
        Likelihood::Named => "named",
        Likelihood::Likely => "likely",
        Likelihood::Possible => "possible",
    }
}

/// The answer, and a table of the evidence.
fn lines(suggestion: &Suggestion, top: usize) -> Vec<String> {
    let all = suggestion.peripherals;
    let mut lines = match (suggestion.best(), &suggestion.hint) {
        (Some(_), Some(hint)) => vec![format!("It is built for the chip {}, {}", hint.name, hint.why)],
        (Some((names, likelihood)), None) => {
            let found = suggestion.rows.first().map_or(0, |row| row.peripherals);
            let verb = if likelihood == Likelihood::Likely { "is likely" } else { "may be" };
            let relative = if likelihood == Likelihood::Likely { "" } else { ", or for a relative" };
            let names = names.join(" or ");
            vec![format!(
                "It {verb} built for the chip {names}{relative}: its code has the addresses of {found} of the chip's \
                 peripherals, of {all} that any chip here has"
            )]
        }
        (None, _) => vec!["Nothing in it points to a chip of `harness list chips`".to_owned()],
    };
    let shown = if top == 0 { usize::MAX } else { top };
    let width = suggestion.rows.iter().take(shown).map(|row| row.chip.len()).max().unwrap_or(0).max("Chip".len());
    if !suggestion.rows.is_empty() {
        lines.extend([String::new(), format!("{:width$}  Processor   Peripherals", "Chip")]);
    }
    for row in suggestion.rows.iter().take(shown) {
        lines.push(format!("{:width$}  {:10}  {:>3} of {all}", row.chip, row.cpu, row.peripherals));
    }
    let left = suggestion.rows.len().saturating_sub(shown);
    if left > 0 {
        lines.push(format!("and {} more; --top 0 shows all", group(left as u64)));
    }
    lines
}
