// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness size`: flash and static RAM of an image, by region, section, library, file and symbol.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::analysis::size::{self, Level, Memory, Regions, Size, used};
use crate::chip;
use crate::cli::SizeArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json;
use crate::export::size_page;
use crate::image::bounded_read;
use crate::image::linker_map::{self, LinkerMap};
use crate::image::linker_memory;
use crate::image::{Format, Image, LoadOptions};
use crate::machine::{choose, choose_chip};
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_file, write_to};
use crate::show::size::{self as table, Tables};
use crate::taken;
use crate::text::terminal;

/// Runs the command.
///
/// # Errors
/// When a file cannot be read or is not an ELF file, the chip or the regions are not known, or the page cannot be written.
pub fn run(args: &SizeArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::size::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(firmware) = &args.firmware else {
        return Err(InputError::new("no firmware: name its ELF file").into());
    };
    if args.after.is_some() && args.map.is_some() != args.map_after.is_some() {
        let why = "archives would be compared with directories: name the map of the first ELF file with --map, that of the second \
                   with --map-after";
        return Err(InputError::new(why).into());
    }
    let first = read(firmware, args.map.as_deref(), args)?;
    let second = args.after.as_deref().map(|after| read(after, args.map_after.as_deref(), args)).transpose()?;
    let profile = args.profile.as_deref().map(Profile::load).transpose()?;
    let used = profile.as_ref().map_or_else(Vec::new, used);
    let (before, size) = second.as_ref().map_or((None, &first), |second| (Some(&first), second));
    if let Some(profile) = profile.filter(|profile| !profile.facts.is_of(&size.image_sha256)) {
        terminal::notes(&[format!("the profile is of another build ({})", profile.facts.image_name)]);
    }
    if args.json {
        write_to(Path::new(STDOUT), |out| json::size::write(size, before, &used, out))?;
        return Ok(ExitCode::Good);
    }
    let levels = match (&args.by[..], before) {
        ([], None) => Level::ALL.to_vec(),
        ([], Some(_)) => vec![Level::Section, Level::Library, Level::Symbol],
        (levels, _) => levels.iter().map(|level| level.level()).collect(),
    };
    let tables = Tables {
        levels,
        top_rows: (args.top > 0).then_some(args.top),
        width_columns: terminal::width_columns().filter(|_| !args.wide.wide),
    };
    let mut out = BufWriter::new(terminal::stdout());
    match (before, args.markdown) {
        (None, false) => table::write(size, &used, &tables, &mut out)?,
        (None, true) => table::write_markdown(size, &used, &tables, &mut out)?,
        (Some(before), false) => table::write_difference(before, size, &tables, &mut out)?,
        (Some(before), true) => table::write_markdown_difference(before, size, &tables, &mut out)?,
    }
    if let Some(path) = &args.output {
        write_file(path, |out| size_page::write(size, &used, &table::summary(size), out))?;
        writeln!(out, "page in {}", path.display())?;
    }
    out.flush()?;
    Ok(ExitCode::Good)
}

/// Reads the sizes of one file, with the archives that a map names.
fn read(path: &Path, map: Option<&Path>, args: &SizeArgs) -> Result<Size, InputError> {
    let bytes = bounded_read::read_named(path)?;
    let image = Image::from_bytes(path, &bytes, &LoadOptions::default(), None)?;
    if image.format != Format::Elf {
        let why =
            format!("is {}, which has no sections or symbols; give the ELF file that it was made from", image.format);
        return Err(InputError::about(path, why));
    }
    let regions = regions(&bytes, &image, args)?;
    let Some(map) = map else { return Ok(size::of(&bytes, &image, regions)) };
    let text = bounded_read::read_up_to(map, linker_map::MAX_BYTES);
    let text = text.map_err(|error| InputError::about(map, format_args!("cannot be read: {error}")))?;
    let read = LinkerMap::parse(map, &String::from_utf8_lossy(&text))?;
    size::with_map(&bytes, &image, regions, (map, &read))
}

/// Regions that the user names, or else those of the machine that fits, or of the chip that a run would take.
fn regions(file: &[u8], image: &Image, args: &SizeArgs) -> Result<Regions, InputError> {
    if let Some(path) = &args.regions {
        let text = bounded_read::read_named(path)?;
        let regions = linker_memory::parse(path, &String::from_utf8_lossy(&text))?;
        let memory = regions.into_iter().map(Memory::from).collect();
        return Ok(Regions { from: path.display().to_string(), memory, load_bias: 0 });
    }
    let choice = match &args.chip {
        Some(chip) => choose_chip(image, &chip::find(chip)?)?,
        None => match choose(image, args.machine.as_deref(), None) {
            Ok(choice) => choice,
            Err(error) if args.machine.is_some() => return Err(error),
            // The sizes themselves need no machine.
            Err(_) => match taken::for_refused(file, image)? {
                Some(choice) => choice,
                None => return Ok(Regions { from: UNKNOWN.to_owned(), ..Regions::default() }),
            },
        },
    };
    let from = format!("{}; --regions FILE reads a linker script or map file", choice.machine.title());
    Ok(Regions { from, ..Regions::of(&choice) })
}

/// Origin of no regions.
const UNKNOWN: &str =
    "unknown, no machine fits; --chip NAME has some, --regions FILE reads a linker script or map file";
