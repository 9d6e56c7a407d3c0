// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of one run.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::InputError;
use crate::run::contain::host;
use crate::run::store::directory;
use crate::run::store::staging::Making;

/// Directory of one run's files; QEMU sees them by constant names.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    profile: PathBuf,
    /// Directory of the plugin, if no code may be loaded from `root`.
    loadable: Option<Arc<Making>>,
}

impl Workspace {
    /// Creates the directories below `root`, which must be empty. Messages name `profile`, the directory that the
    /// user asked for.
    ///
    /// # Errors
    /// When they cannot be written, or code may be loaded neither from `root` nor from the directory for temporary
    /// files.
    pub fn create(root: PathBuf, profile: &Path) -> Result<Workspace, InputError> {
        let mut workspace = Workspace { root, profile: profile.to_owned(), loadable: None };
        for directory in [workspace.scratch(), workspace.records()] {
            fs::create_dir(directory).map_err(|error| workspace.unwritable(&error))?;
        }
        if host::is_noexec(&workspace.root) {
            workspace.loadable = Some(Arc::new(workspace.elsewhere()?));
        }
        Ok(workspace)
    }

    /// Makes a temporary directory for the plugin. In the run's own directory, the plugin's path becomes a link to
    /// the file there.
    fn elsewhere(&self) -> Result<Making, InputError> {
        let temporary = env::temp_dir();
        let noexec = "on a file system that is mounted noexec, from which QEMU can load no plugin";
        if host::is_noexec(&temporary) {
            let message = format!(
                "lies {noexec}, and so does the directory for temporary files, {}; set TMPDIR to one elsewhere",
                temporary.display()
            );
            return Err(InputError::about(&self.profile, message));
        }
        let made = Making::begin(&temporary, LOADABLE, |_| ());
        let linked = made.and_then(|made| {
            std::os::unix::fs::symlink(made.path().join(PLUGIN), self.plugin())?;
            Ok(made)
        });
        linked.map_err(|error| {
            let place = temporary.display();
            let message = format!("lies {noexec}, and the plugin cannot be put into {place} ({error}); set TMPDIR");
            InputError::about(&self.profile, message)
        })
    }

    /// Directory that the plugin is loaded from, if that is not the run's own.
    pub(in crate::run) fn loadable(&self) -> Option<&Path> {
        self.loadable.as_deref().map(Making::path)
    }

    /// Error for a file of the workspace that cannot be written.
    pub fn unwritable(&self, error: &io::Error) -> InputError {
        directory::unwritable(&self.profile, error)
    }

    /// The directory that contains all files of the run.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// QEMU's working directory, the only one that semihosting may access.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The plugin's records.
    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// Console output of the firmware.
    pub fn console(&self) -> PathBuf {
        self.root.join("console.log")
    }

    /// Pipe of the console's input that the firmware reads by SYS_READC.
    pub fn readc_input(&self) -> PathBuf {
        self.root.join("console.readc")
    }

    /// Pipe of the console's input.
    pub fn console_input(&self) -> PathBuf {
        self.root.join("console.in")
    }

    /// File that the firmware reads from `:tt`.
    pub fn standard_input(&self) -> PathBuf {
        self.root.join("stdin")
    }

    /// File of QEMU's own messages.
    pub fn stderr(&self) -> PathBuf {
        self.root.join("stderr")
    }

    /// QEMU's own messages: beginning and end, if they are long.
    pub fn said(&self) -> String {
        File::open(self.stderr()).and_then(|mut file| both_ends(&mut file)).unwrap_or_default()
    }

    /// Bounds the file of QEMU's own messages: if it gets too long, all messages after its beginning are dropped.
    /// Later messages follow.
    pub fn bound_said(&self) {
        // A failure does not matter: the next check comes soon.
        let _ = bound(&self.stderr(), MOST_SAID_BYTES);
    }

    /// Whether there is still room on the disk.
    pub fn has_room(&self) -> bool {
        let probe = self.root.join("probe");
        let written = fs::write(&probe, [0; PROBE_BYTES]);
        let _ = fs::remove_file(&probe);
        !written.is_err_and(|error| directory::is_full(&error))
    }

    /// The image as QEMU loads it.
    pub fn image(&self) -> PathBuf {
        self.root.join("firmware.elf")
    }

    /// The plugin's library.
    pub fn plugin(&self) -> PathBuf {
        self.root.join(PLUGIN)
    }
}

/// Name of the plugin's library.
const PLUGIN: &str = "plugin.so";

/// Prefix of a temporary directory for the plugin's library.
const LOADABLE: &str = ".harness-plugin-";

/// Room on a disk below which it counts as full, in bytes.
const PROBE_BYTES: usize = 16 << 10;

/// Number of bytes kept at the beginning and at the end of QEMU's messages.
const END_BYTES: u64 = 16 << 10;

/// Size of QEMU's messages, in bytes, above which everything after their beginning is dropped.
const MOST_SAID_BYTES: u64 = 16 << 20;

/// Cuts everything after the beginning of a file, if the file has become too long. Its writer appends, so later text
/// follows the beginning.
fn bound(path: &Path, most_bytes: u64) -> io::Result<()> {
    if fs::metadata(path)?.len() > most_bytes {
        let mut file = File::options().append(true).open(path)?;
        file.set_len(END_BYTES)?;
        file.write_all(DROPPED)?;
    }
    Ok(())
}

/// Text in place of the dropped part.
const DROPPED: &[u8] = b"\n[...]\n";

fn both_ends(file: &mut (impl Read + Seek)) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(END_BYTES).read_to_end(&mut bytes)?;
    let length = file.seek(SeekFrom::End(0))?;
    if length > 2 * END_BYTES {
        bytes.extend(DROPPED);
    }
    file.seek(SeekFrom::Start(END_BYTES.max(length.saturating_sub(END_BYTES))))?;
    file.take(END_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end_and_is_no_longer_than_allowed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("stderr");
        let mut qemu = File::options().append(true).create(true).open(&path).unwrap();
        for turn in 0..4 {
            qemu.write_all(format!("turn {turn}").as_bytes()).unwrap();
            qemu.write_all(&[b'x'; 3 * END_BYTES as usize]).unwrap();
            bound(&path, 4 * END_BYTES).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 4 * END_BYTES);
        }
        qemu.write_all(b"last words").unwrap();
        let said = both_ends(&mut File::open(&path).unwrap()).unwrap();
        assert!(said.starts_with("turn 0xxx") && said.contains("\n[...]\n") && said.ends_with("last words"));
    }

    #[test]
    fn what_qemu_says_is_read_whole_where_it_is_little_and_else_at_both_ends() {
        let said = |bytes: &[u8]| both_ends(&mut Cursor::new(bytes)).unwrap();
        assert_eq!(said(b""), "");
        assert_eq!(said(b"one\xff\n"), "one\u{fffd}\n");
        let end = END_BYTES as usize;
        for length in [end - 1, end, end + 1, 2 * end] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            assert_eq!(said(text.as_bytes()), text);
        }
        let flood = [b"first".to_vec(), vec![b'x'; 10 * end], b"last".to_vec()].concat();
        let said = said(&flood);
        assert!(said.len() == 2 * end + 7 && said.starts_with("first") && said.ends_with("last"), "{}", said.len());
    }
}
