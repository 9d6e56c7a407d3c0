// SPDX-License-Identifier: GPL-2.0-or-later
//! Amount of the firmware's output: console and files in the scratch directory together. Beyond a limit the run ends,
//! before the disk is full.
//!
//! QEMU writes both on the thread that executes the guest, so their sizes at a given instruction depend on the guest
//! alone. So a run that this limit ends always ends at the same instruction. The sizes are checked before each
//! semihosting call that writes, since its length is known, and at an interval for devices, which print a byte at a
//! time.
//!
//! A directory that cannot be read counts as over the limit.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;

use engine::marks::printed;
use wire::request::Request;

use crate::qemu::descriptor;

/// Longest interval between checks of devices' output: long enough to cost nothing, short enough not to fill a disk.
const LOOK_INSNS: u64 = 1 << 20;

/// Shortest interval between these checks, for a small limit.
const LEAST_LOOK_INSNS: u64 = 1 << 12;

/// Fewest bytes that a file counts as, so that the limit also bounds the number of files.
const FILE_BYTES: u64 = 1 << 12;

/// The firmware's output, compared with a limit.
pub(crate) struct Output {
    limit_bytes: u64,
    /// The console's output; QEMU writes to the same file.
    console: File,
    /// Bytes of the files that were there before the firmware ran.
    given_bytes: u64,
    /// Bytes of the scratch directory at the last check.
    scratch_bytes: u64,
    /// Bytes that may have been added since the last check.
    since_bytes: u64,
    /// Greatest offset at which a file was positioned; before it there may be a hole.
    sought_bytes: u64,
    /// Whether a file may have lost its name while it was open.
    has_removed: bool,
}

impl Output {
    /// Starts with no output. None: the request sets no limit. The working directory has to be the scratch directory,
    /// and the console's file has to exist.
    pub(crate) fn new(request: &Request) -> io::Result<Option<Output>> {
        let Some(limit_bytes) = request.max_output_bytes else { return Ok(None) };
        Ok(Some(Output {
            limit_bytes,
            console: File::open(printed(request))?,
            given_bytes: scratch_bytes(false)?,
            scratch_bytes: 0,
            since_bytes: 0,
            sought_bytes: 0,
            has_removed: false,
        }))
    }

    /// The limit, in bytes.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Instructions between two checks.
    pub(crate) fn look_insns(&self) -> u64 {
        (self.limit_bytes / 16).clamp(LEAST_LOOK_INSNS, LOOK_INSNS)
    }

    /// Whether the output exceeds the limit.
    pub(crate) fn is_over(&mut self) -> bool {
        self.would_be_over(0)
    }

    /// Notes a call that writes at most `bytes`. Returns whether the output would exceed the limit after it.
    pub(crate) fn writes(&mut self, bytes: u64) -> bool {
        if self.would_be_over(bytes) {
            return true;
        }
        // The next check finds out which file grew.
        self.since_bytes = self.since_bytes.saturating_add(bytes);
        false
    }

    /// Notes a call that writes an unknown amount. Returns whether the output exceeds the limit before it.
    pub(crate) fn writes_some(&mut self) -> bool {
        let is_over = self.would_be_over(0);
        self.since_bytes = u64::MAX;
        is_over
    }

    /// Notes a call that positions a file.
    pub(crate) fn seeks(&mut self, offset: u64) {
        self.sought_bytes = self.sought_bytes.max(offset);
    }

    /// Notes a call that opens a file and may create it. Returns whether the output exceeds the limit then.
    pub(crate) fn opens(&mut self) -> bool {
        self.writes(FILE_BYTES)
    }

    /// Notes a call by which a file may lose its name. Returns whether the output exceeds the limit.
    pub(crate) fn removes(&mut self) -> bool {
        self.has_removed = true;
        self.would_be_over(0)
    }

    fn would_be_over(&mut self, bytes: u64) -> bool {
        let (printed_bytes, limit_bytes) = (self.printed_bytes(), self.limit_bytes);
        let is_over = |scratch_bytes: u64| {
            [scratch_bytes, bytes].into_iter().fold(printed_bytes, u64::saturating_add) > limit_bytes
        };
        let most = [self.since_bytes, self.sought_bytes].into_iter().fold(self.scratch_bytes, u64::saturating_add);
        if !is_over(most) {
            return false;
        }
        self.scratch_bytes = self.written_bytes();
        self.since_bytes = 0;
        is_over(self.scratch_bytes)
    }

    /// Bytes of the firmware's files; if they cannot be determined, a number above any limit.
    fn written_bytes(&mut self) -> u64 {
        let bytes = descriptor::with_own(|| scratch_bytes(self.has_removed));
        bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.given_bytes))
    }

    fn printed_bytes(&self) -> u64 {
        self.console.metadata().map_or(u64::MAX, |metadata| metadata.len())
    }
}

/// Bytes of the files in the working directory, and of open files that have no name any more.
fn scratch_bytes(has_removed: bool) -> io::Result<u64> {
    let size = |metadata: &Metadata| metadata.len().max(FILE_BYTES);
    let mut bytes = 0_u64;
    for entry in fs::read_dir(".")? {
        bytes = bytes.saturating_add(size(&entry?.metadata()?));
    }
    if has_removed {
        let disk = fs::metadata(".")?.dev();
        // A file may be open several times.
        let mut nameless = BTreeSet::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            let file = match fs::metadata(entry?.path()) {
                // The descriptor of the directory itself, or one that another thread has closed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file?,
            };
            if file.is_file() && file.nlink() == 0 && file.dev() == disk && nameless.insert(file.ino()) {
                bytes = bytes.saturating_add(size(&file));
            }
        }
    }
    Ok(bytes)
}
