// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grants of the walls around a process, as data: files, network and limits, and the words that carry them on the
//! launcher's command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Permitted access to a path and everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Access {
    /// Reading.
    Read,
    /// Reading and executing.
    Execute,
    /// Everything except executing.
    Write,
}

/// A limited resource of QEMU's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Limit {
    /// Bytes of a file.
    FileBytes,
    /// Descriptors.
    Files,
    /// Bytes of a core dump.
    CoreBytes,
    /// Bytes of addresses.
    AddressBytes,
}

/// The walls around one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walls {
    /// Files that it can access; None: all that the user can.
    pub(in crate::run) files: Option<Vec<(Access, PathBuf)>>,
    /// Whether it cannot open sockets.
    pub(in crate::run) no_network: bool,
    pub(in crate::run) limits: Vec<(Limit, u64)>,
}

/// The process's own entry in /proc.
pub(in crate::run) const OWN_PROC: &str = "/proc/self";

/// The launcher's command line: a word for each part of the walls.
impl Walls {
    pub(in crate::run) fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(files) = &self.files {
            words.push("files".into());
            for (access, path) in files {
                let letter = match access {
                    Access::Read => "r=",
                    Access::Execute => "x=",
                    Access::Write => "w=",
                };
                let mut word = OsString::from(letter);
                word.push(path);
                words.push(word);
            }
        }
        if self.no_network {
            words.push("network".into());
        }
        for (limit, value) in &self.limits {
            let name = match limit {
                Limit::FileBytes => "fsize",
                Limit::Files => "nofile",
                Limit::CoreBytes => "core",
                Limit::AddressBytes => "as",
            };
            words.push(format!("{name}={value}").into());
        }
        words
    }

    /// Reads one of [`Walls::words`]; None: it is invalid.
    pub(in crate::run) fn read(&mut self, word: &OsStr) -> Option<()> {
        let bytes = word.as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let access = match bytes {
            b"files" => {
                self.files.get_or_insert_default();
                return Some(());
            }
            b"network" => {
                self.no_network = true;
                return Some(());
            }
            [b'r', b'=', ..] => Access::Read,
            [b'x', b'=', ..] => Access::Execute,
            [b'w', b'=', ..] => Access::Write,
            _ => {
                let (name, value) = word.to_str()?.split_once('=')?;
                let limit = match name {
                    "fsize" => Limit::FileBytes,
                    "nofile" => Limit::Files,
                    "core" => Limit::CoreBytes,
                    "as" => Limit::AddressBytes,
                    _ => return None,
                };
                self.limits.push((limit, value.parse().ok()?));
                return Some(());
            }
        };
        self.files.as_mut()?.push((access, path(&bytes[2..])));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walls_survive_the_command_line() {
        let walls = Walls {
            files: Some(vec![
                (Access::Read, "/a b".into()),
                (Access::Execute, OsString::from_vec(b"/\xff=".to_vec()).into()),
                (Access::Write, "/w".into()),
            ]),
            no_network: true,
            limits: vec![(Limit::FileBytes, 1), (Limit::Files, 2), (Limit::CoreBytes, 0), (Limit::AddressBytes, 3)],
        };
        for walls in [walls, Walls::default(), Walls { files: Some(vec![]), ..Walls::default() }] {
            let mut read = Walls::default();
            for word in walls.words() {
                assert_eq!(read.read(&word), Some(()), "{word:?}");
            }
            assert_eq!(read, walls);
        }
        for word in ["", "r=/x", "as=", "as=x", "what=1", "--"] {
            assert_eq!(Walls::default().read(OsStr::new(word)), None, "{word}");
        }
    }
}
