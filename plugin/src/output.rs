//! How much the firmware has written: what it printed and its files in the scratch directory, together. Beyond a limit
//! the run ends, before the disk is full.
//!
//! QEMU writes both on the thread that executes the guest, so that their sizes at an instruction are the guest's doing
//! alone, and a run that ends by them ends there each time. They are asked for before each call that writes, whose
//! length is known, and every so many instructions for devices, which print a byte at a time.
//!
//! The firmware may hold all descriptors that there are. One is kept from it, so that a directory can be read all the
//! same, and what cannot be read is over the limit.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;

use engine::marks::printed;
use wire::request::Request;

/// Distance of looks at what devices have printed: far enough to cost nothing, near enough for a disk.
const LOOK_INSNS: u64 = 1 << 20;

/// The same where little is allowed.
const LEAST_LOOK_INSNS: u64 = 1 << 12;

/// What a file takes at least, however short: they cannot be made without end.
const FILE_BYTES: u64 = 1 << 12;

/// What the firmware has written, held against a limit.
pub(crate) struct Output {
    limit_bytes: u64,
    /// What is printed: QEMU writes to the same file.
    console: File,
    /// The descriptor that directories are read by. None: it was lost, and nothing can be read.
    spare: Option<File>,
    /// Bytes of the files that were there before the firmware ran.
    given_bytes: u64,
    /// Bytes of the scratch directory when it was last looked at.
    scratch_bytes: u64,
    /// What may have been added since.
    since_bytes: u64,
    /// The furthest that a file was told to go on at, which may have left a hole before it.
    sought_bytes: u64,
    /// A file may have lost its name, and be open.
    has_removed: bool,
}

impl Output {
    /// Nothing written yet, where a limit is asked for. The working directory is the scratch directory; the console's file
    /// is there.
    pub(crate) fn new(request: &Request) -> io::Result<Option<Output>> {
        let Some(limit_bytes) = request.max_output_bytes else { return Ok(None) };
        Ok(Some(Output {
            limit_bytes,
            console: File::open(printed(request))?,
            spare: Some(spare()?),
            given_bytes: scratch_bytes(false)?,
            scratch_bytes: 0,
            since_bytes: 0,
            sought_bytes: 0,
            has_removed: false,
        }))
    }

    /// The limit.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Instructions from one look to the next.
    pub(crate) fn look_insns(&self) -> u64 {
        (self.limit_bytes / 16).clamp(LEAST_LOOK_INSNS, LOOK_INSNS)
    }

    /// Whether more has been written than is allowed.
    pub(crate) fn is_over(&mut self) -> bool {
        self.would_be_over(0)
    }

    /// Whether more will have been written than is allowed after a call that writes at most so much.
    pub(crate) fn writes(&mut self, bytes: u64) -> bool {
        if self.would_be_over(bytes) {
            return true;
        }
        // To which file is for the next look to say.
        self.since_bytes = self.since_bytes.saturating_add(bytes);
        false
    }

    /// A call that writes what cannot be told beforehand. Whether more than is allowed has been written before it.
    pub(crate) fn writes_some(&mut self) -> bool {
        let is_over = self.would_be_over(0);
        self.since_bytes = u64::MAX;
        is_over
    }

    /// A call after which a file is written to from there on.
    pub(crate) fn seeks(&mut self, offset: u64) {
        self.sought_bytes = self.sought_bytes.max(offset);
    }

    /// A call that opens a file, which it may make. Whether that is one too many.
    pub(crate) fn opens(&mut self) -> bool {
        self.writes(FILE_BYTES)
    }

    /// A call by which a file may lose its name. Whether that is one too many.
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

    /// Bytes of the firmware's files. More than any limit where they cannot be found out.
    fn written_bytes(&mut self) -> u64 {
        // Its place is the directory's meanwhile. This thread executes the firmware: no call of that comes between.
        self.spare = None;
        let bytes = scratch_bytes(self.has_removed);
        self.spare = spare().ok();
        bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.given_bytes))
    }

    fn printed_bytes(&self) -> u64 {
        self.console.metadata().map_or(u64::MAX, |metadata| metadata.len())
    }
}

/// A descriptor for later.
fn spare() -> io::Result<File> {
    File::open(".")
}

/// Bytes of the files in the working directory, and of those open ones that have no name any more.
fn scratch_bytes(has_removed: bool) -> io::Result<u64> {
    let size = |metadata: &Metadata| metadata.len().max(FILE_BYTES);
    let mut bytes = 0_u64;
    for entry in fs::read_dir(".")? {
        bytes = bytes.saturating_add(size(&entry?.metadata()?));
    }
    if has_removed {
        let disk = fs::metadata(".")?.dev();
        // It may be open many times.
        let mut nameless = BTreeSet::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            let file = match fs::metadata(entry?.path()) {
                // The directory's own, or of another thread's that has closed it.
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
