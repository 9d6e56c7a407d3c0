// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness stack`: the most stack that each task, and the main stack with its exceptions, can need.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::analysis::stack_bound::{self, Program, Rules, Su, Witness};
use crate::cli::StackArgs;
use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::export::json;
use crate::image::bounded_read;
use crate::image::{Arch, Image, LoadOptions};
use crate::profile::Profile;
use crate::run::store::directory::{STDOUT, write_to};
use crate::show::stack;
use crate::show::table_size::TableSize;
use crate::text::fold::Folded;
use crate::text::terminal;

/// Most files that are looked at for `--su`.
const MAX_FILES: usize = 100_000;

/// Runs the command.
///
/// # Errors
/// When a file cannot be read, the image has no functions, or a statement about stacks is not understood.
pub fn run(args: &StackArgs) -> Result<ExitCode> {
    if args.schema {
        terminal::stdout().write_all(json::stack::schema()?.as_bytes())?;
        return Ok(ExitCode::Good);
    }
    let Some(firmware) = &args.firmware else {
        return Err(InputError::new("no firmware: name its ELF file").into());
    };
    let bytes = bounded_read::read_named(firmware)?;
    let image = Image::from_bytes(firmware, &bytes, &LoadOptions::default(), None)?;
    let profiles = args.profiles.iter().map(|path| read_profile(path, &image)).collect::<Result<Vec<_>>>()?;
    let rules = match &args.bounds {
        Some(path) => Rules::parse(path, &String::from_utf8_lossy(&bounded_read::read_named(path)?))?,
        None => Rules::default(),
    };
    let program =
        Program::read(&bytes, &image, &profiles, &rules).filter(|program| program.frames().next().is_some());
    let Some(program) = program else {
        if image.arch == Some(Arch::Avr) {
            return Err(InputError::about(
                firmware,
                "bounds of stacks are not for AVR; give an image for a Cortex-M or RISC-V",
            )
            .into());
        }
        let why = "has no symbols of functions, so its calls cannot be followed; give the unstripped ELF file";
        return Err(InputError::about(firmware, why).into());
    };
    let rows = stack_bound::rows(&program, &image, &profiles, &rules);
    let witness = args.su.as_deref().map(read_su).transpose()?.map(|lines| Witness::compare(&lines, &program));
    let errors: Vec<String> = rows.iter().filter_map(|row| row.contradiction(&rules)).collect();
    // A number that a run has disproved must not look like a bound.
    let code = if errors.is_empty() { ExitCode::Good } else { ExitCode::Firmware };
    if args.json {
        let write =
            |out: &mut dyn Write| json::stack::write(&image, &program, (&rows, &rules), witness.as_ref(), out);
        write_to(Path::new(STDOUT), write)?;
        say(&errors);
        return Ok(code);
    }
    let size = TableSize::on_terminal((args.top > 0).then_some(args.top), false);
    let mut out = Folded::new(BufWriter::new(terminal::stdout()), size.width_columns);
    stack::write(&program, &rows, witness.as_ref(), size, &mut out)?;
    out.flush()?;
    say(&errors);
    Ok(code)
}

/// Prints bounds that a run has disproved. A closed standard error changes nothing, since the exit code has the result.
fn say(errors: &[String]) {
    for error in errors {
        let _ = writeln!(terminal::stderr(), "error: {error}");
    }
}

/// Reads a profile, which must be of this image: another build has other addresses.
fn read_profile(path: &Path, image: &Image) -> Result<Profile> {
    let profile = Profile::load(path)?;
    if !profile.facts.is_of(&image.sha256) {
        let why = format!(
            "is a run of another image ({}); profile {} and give that",
            profile.facts.image_name,
            image.path.display()
        );
        return Err(InputError::about(path, why).into());
    }
    Ok(profile)
}

/// Reads all `.su` files below a directory, in the order of their paths.
fn read_su(directory: &Path) -> Result<Vec<Su>, InputError> {
    let unreadable = |path: &Path, error| InputError::about(path, format_args!("cannot be read: {error}"));
    let mut open = vec![directory.to_owned()];
    let (mut files, mut seen): (Vec<PathBuf>, usize) = (Vec::new(), 0);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| unreadable(&directory, error))? {
            let entry = entry.map_err(|error| unreadable(&directory, error))?;
            seen += 1;
            if seen > MAX_FILES {
                let why = format!("has more than {MAX_FILES} files; name the directory of the .su files");
                return Err(InputError::about(&directory, why));
            }
            // A link could lead in a circle.
            let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), error))?;
            let path = entry.path();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "su") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut lines = Vec::new();
    for path in &files {
        lines.extend(Su::parse(&String::from_utf8_lossy(&bounded_read::read_named(path)?)));
    }
    if lines.is_empty() {
        let why = "has no .su files; compile with -fstack-usage, which writes them beside the object files";
        return Err(InputError::about(directory, why));
    }
    Ok(lines)
}
