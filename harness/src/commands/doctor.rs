//! `harness doctor`: what is installed, what is missing, how to get it.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;

use crate::exit_code::ExitCode;
use crate::run::emulator;
use crate::text::terminal;

/// Prints one line per emulator and, when one is missing, the command that installs it.
///
/// # Errors
/// When it cannot be printed.
pub fn run() -> Result<ExitCode> {
    let mut text = Vec::new();
    let code = report(&mut text)?;
    // A reader that has seen enough (`| head -1`) does not install anything.
    match terminal::stdout().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    }
}

fn report(out: &mut impl Write) -> io::Result<ExitCode> {
    let mut missing = 0;
    for (program, runs) in
        [("qemu-system-arm", "Cortex-M"), ("qemu-system-riscv64", "riscv64"), ("qemu-system-riscv32", "riscv32")]
    {
        let found = emulator::locate(program).and_then(|path| Ok((emulator::version(&path)?, path)));
        match found {
            Ok((version, path)) => {
                // Of what a directory is called, a line break would be another line.
                let path = path.display().to_string();
                writeln!(out, "ok       {program} {version} ({runs}): {}", terminal::printable(&path))?;
            }
            Err(error) => {
                missing += 1;
                let reason = error.to_string();
                writeln!(out, "missing  {program} ({runs}): {}", reason.lines().next().unwrap_or(&reason))?;
            }
        }
    }
    if missing == 0 {
        writeln!(out, "Everything that harness needs is installed.")?;
        return Ok(ExitCode::Good);
    }
    let (major, minor) = emulator::OLDEST_VERSION;
    writeln!(out, "QEMU {major}.{minor} or newer is needed: {}", emulator::install_hint())?;
    Ok(ExitCode::Emulator)
}
