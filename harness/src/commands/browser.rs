// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a page in the user's browser, which goes on running when harness has ended.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::InputError;

/// Commands by which desktops open a file; the first installed one is used.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Opens a file by the command that BROWSER names, or else by the desktop's command.
///
/// # Errors
/// If no such command is installed. The file exists all the same.
pub(super) fn open(file: &Path) -> Result<(), InputError> {
    start(file.as_os_str()).map_err(|why| {
        InputError::about(file, format_args!("was written, but {why}; open it by hand, or set BROWSER"))
    })
}

/// Opens a file or URL in the browser. The error says what was tried.
pub(super) fn start(target: &OsStr) -> Result<(), String> {
    let named = env::var_os("BROWSER").filter(|name| !name.is_empty());
    let commands: Vec<OsString> = match named {
        Some(name) => vec![name],
        None => OPENERS.iter().map(OsString::from).collect(),
    };
    for program in &commands {
        let mut command = Command::new(program);
        // The messages of that command do not concern the profile.
        let command = command.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.spawn().is_ok() {
            return Ok(());
        }
    }
    let tried: Vec<String> = commands.iter().map(|name| name.display().to_string()).collect();
    Err(format!("no browser was found (tried {})", tried.join(", ")))
}
