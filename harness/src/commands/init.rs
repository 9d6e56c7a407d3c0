// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness init`: writes a first suite for the firmware files found, and the baseline of its numbers.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{InitArgs, resolve};
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json::document;
use crate::gate::discover;
use crate::gate::draft::{BASELINE, Draft, Fate, Image};
use crate::gate::editor::{self, Firmware, Merged};
use crate::gate::first::{First, Wish};
use crate::gate::suite::FILE_NAME;
use crate::image::bounded_read;
use crate::image::{self, Arch, LoadOptions};
use crate::run::contain::grants::Walls;
use crate::run::contain::host;
use crate::run::qemu::cores;
use crate::run::store::deadline;
use crate::run::store::directory::{STDOUT, unwritable, write_file, write_to};
use crate::run::watch::interrupt::end_on_interrupt;
use crate::text::glossary::glossary;
use crate::text::number::{parse_insns, plural};
use crate::text::terminal;

/// Default directory of a suite's baselines.
const BASELINES: &str = "baselines";

/// Version of the JSON format; it grows when a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Files written, and the outcome of each image, as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Init")]
struct Written {
    /// Always "harness-init".
    format: &'static str,
    /// Version of the format.
    version: u32,
    /// The suite's file.
    suite: String,
    /// Directory of the baseline.
    baseline: String,
    /// Images, in the order of the suite.
    images: Vec<WrittenImage>,
}

/// An image of the suite.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InitImage")]
struct WrittenImage {
    /// Its file, as the suite names it.
    elf: String,
    /// Whether the suite runs it.
    runs: bool,
    /// Outcome of its run, or the reason why it is left out.
    outcome: String,
}

impl Written {
    fn new(file: &Path, baseline: &Path, draft: &Draft) -> Written {
        let image = |image: &Image| WrittenImage {
            elf: image.elf.clone(),
            runs: !matches!(image.fate, Fate::LeftOut { .. }),
            outcome: image.describe(),
        };
        Written {
            format: "harness-init",
            version: VERSION,
            suite: file.display().to_string(),
            baseline: baseline.display().to_string(),
            images: draft.images.iter().map(image).collect(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If there is a suite already or no firmware, or if nothing can be written.
pub fn run(args: InitArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(document::schema::<Written>()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    if args.vscode {
        return vscode(args.places);
    }
    let (file, baseline) = (Path::new(FILE_NAME), Path::new(BASELINES).join(BASELINE));
    for (path, remedy) in [(file, "`harness test` runs it"), (&baseline, "move it away, or write the suite by hand")]
    {
        if path.symlink_metadata().is_ok() {
            let why = format_args!("exists already and is not overwritten; {remedy}");
            return Err(InputError::about(path, why).into());
        }
    }
    parse_insns("--for", &args.for_insns)?;
    resolve::timeout(args.timeout).map_err(InputError::from)?;
    let places = if args.places.is_empty() { vec![PathBuf::from(".")] } else { args.places };
    let images = images(&places)?;
    host::check_files(cores::jobs(args.jobs))?;
    let here = Path::new(".");
    // The scratch directory is in the current directory, so that a directory that cannot be written is found before
    // anything runs.
    let scratch = tempfile::Builder::new().prefix(".harness-init-").tempdir_in(here);
    let scratch = scratch.map_err(|error| InputError::about(file, format_args!("cannot be written: {error}")))?;
    // Ctrl-C is handled from here on, before there are files to remove.
    end_on_interrupt();
    if let Some(line) = Walls::warning(args.sandbox) {
        let _ = writeln!(terminal::stderr(), "warning: {line}");
    }
    deadline::insist(3, ExitCode::Limit.status(), "interrupted; nothing was written");
    let wish = Wish {
        window: args.for_insns,
        timeout_seconds: args.timeout,
        jobs: cores::jobs(args.jobs),
        sandbox: args.sandbox,
        has_progress: !args.quiet,
    };
    let Some(First { draft, codes, baseline: numbers }) = First::make(&images, &wish, scratch.path())? else {
        let _ = writeln!(terminal::stderr(), "error: interrupted; nothing was written");
        return Ok(ExitCode::Limit);
    };
    if !args.quiet && !args.json {
        show(&draft)?;
    }
    let (run, left_out) = (draft.runs(), draft.images.len() - draft.runs());
    if run == 0 {
        let what = "no image ran well enough to be kept: nothing was written";
        let _ = writeln!(terminal::stderr(), "error: {what}; `harness FIRMWARE` says more about each");
        return Ok(codes.into_iter().min().unwrap_or(ExitCode::Usage));
    }
    write(file, &baseline, &draft, &numbers)?;
    if args.json {
        let written = Written::new(file, &baseline, &draft);
        write_to(Path::new(STDOUT), |out| document::write(&written, out))?;
        return Ok(ExitCode::Good);
    }
    let left_out = if left_out == 0 { String::new() } else { format!(" ({left_out} left out, with the reason)") };
    let written = format!(
        "{FILE_NAME}: {}{left_out}; their numbers are in {}",
        plural(run as u64, "image"),
        baseline.display()
    );
    writeln!(terminal::stdout(), "{written}")?;
    terminal::notes(&["`harness test` runs it; both belong in version control".to_owned()]);
    Ok(ExitCode::Good)
}

/// Firmware files in these places. Paths are relative to the current directory, as the suite has them.
fn images(places: &[PathBuf]) -> Result<Vec<PathBuf>, InputError> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    let relative = |path: PathBuf| {
        let below = path.strip_prefix(&here).or_else(|_| path.strip_prefix("."));
        below.map_or(path.clone(), Path::to_owned)
    };
    let can_be_written = |path: &PathBuf| {
        let is_text = path.to_str().is_some_and(|name| !name.contains(char::is_control));
        if !is_text {
            let why = "left out: its name is not valid text, so no suite can contain it";
            let _ = writeln!(terminal::stderr(), "warning: {}: {why}", path.display());
        }
        is_text
    };
    let found = discover::images(places)?;
    let images: Vec<PathBuf> = found.into_iter().map(relative).filter(can_be_written).collect();
    if images.is_empty() {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(InputError::new(format!(
            "there is no ELF file for a Cortex-M, RISC-V or AVR processor in {}; build the firmware first, or name it: \
             harness init build/firmware.elf",
            places.join(", ")
        )));
    }
    Ok(images)
}

/// Prints the outcome of each image's run, one line each.
fn show(draft: &Draft) -> Result<()> {
    let lines: Vec<(&str, String)> =
        draft.images.iter().map(|image| (image.elf.as_str(), image.describe())).collect();
    let rows: Vec<(&str, &str)> = lines.iter().map(|(elf, line)| (*elf, line.as_str())).collect();
    let text = glossary(&rows, terminal::width_columns().unwrap_or(usize::MAX));
    Ok(terminal::stdout().write_all(text.as_bytes())?)
}

/// Writes the suite and the baseline, or nothing.
fn write(file: &Path, baseline: &Path, draft: &Draft, numbers: &[(String, Vec<u8>)]) -> Result<()> {
    let mut suite = OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::AlreadyExists => "was made meanwhile and is not overwritten".to_owned(),
            _ => format!("cannot be written: {error}"),
        };
        InputError::about(file, what)
    })?;
    let written = fs::create_dir_all(baseline)
        .and_then(|()| numbers.iter().try_for_each(|(name, bytes)| fs::write(baseline.join(name), bytes)))
        .and_then(|()| suite.write_all(draft.text().as_bytes()));
    if written.is_err() {
        // An incomplete suite would block the next attempt.
        let _ = fs::remove_file(file);
        let _ = fs::remove_dir_all(baseline);
    }
    written.with_context(|| format!("{} or {} cannot be written", file.display(), baseline.display()))
}

/// Merges harness's entries into the text of an editor's file; None: there is no file.
type Merge = fn(Option<&str>, Firmware<'_>) -> Result<Merged, String>;

/// Merges tasks and debugger settings into the files of VS Code. Nothing is written unless all files can be merged.
fn vscode(places: Vec<PathBuf>) -> Result<ExitCode> {
    let places = if places.is_empty() { vec![PathBuf::from(".")] } else { places };
    let images = images(&places)?;
    let [image] = &images[..] else {
        let names: Vec<String> = images.iter().take(5).map(|image| image.display().to_string()).collect();
        let why = format!("tasks are for one firmware file, and these are {}", names.join(", "));
        return Err(InputError::new(format!("{why}; name it: harness init --vscode {}", names[0])).into());
    };
    let is_arm = image::Image::open(image, &LoadOptions::default())?.arch == Some(Arch::CortexM);
    let stem = image.file_stem().unwrap_or_default().to_string_lossy();
    let (elf, profile) = (image.display().to_string(), format!("{stem}.profile"));
    let firmware = Firmware { elf: &elf, profile: &profile, is_arm };
    let merges: [Merge; 2] = [editor::tasks, editor::launch];
    let mut files = Vec::new();
    for (path, merge) in editor::FILES.map(Path::new).into_iter().zip(merges) {
        let text = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            _ => Some(bounded_read::read_named(path)?),
        };
        let text = text.map(String::from_utf8).transpose();
        let text = text.map_err(|_| InputError::about(path, "is not text, and stays as it is; move it away"))?;
        let merged = merge(text.as_deref(), firmware).map_err(|error| {
            let remedy = "it stays as it is; mend it, or move it away";
            InputError::about(
                path,
                format!("cannot be merged with, since it is not JSON with comments: {error}; {remedy}"),
            )
        })?;
        files.push((path, merged));
    }
    for (path, merged) in &files {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(|error| unwritable(path, &error))?;
        write_file(path, |out| Ok(out.write_all(merged.text.as_bytes())?))?;
    }
    let mut out = terminal::stdout();
    for (path, Merged { added, kept, .. }) in &files {
        let kept = if kept.is_empty() { String::new() } else { format!("; {} were there and stay", kept.len()) };
        let entries = if added.len() == 1 { "entry" } else { "entries" };
        writeln!(out, "{}: {} {entries} added{kept}", path.display(), added.len())?;
    }
    terminal::notes(&[
        "`harness: profile` is among the editor's tasks now, the debugger among its launches".to_owned()
    ]);
    Ok(ExitCode::Good)
}
