//! Amount of the firmware's output at instructions, for deadlines on its output.
//!
//! QEMU writes the console's file on the thread that executes the guest, as the guest writes to its device, so that
//! the file's length at an instruction depends on the guest alone.

use std::fs::File;
use std::io::{Seek, SeekFrom};

use wire::definition::Definition;
use wire::request::Request;

use crate::ledger::{Counters, Ledger};

/// The marks on the console.
pub struct Marks {
    path: String,
    file: Option<File>,
    bytes: u64,
}

impl Marks {
    /// The marks; None: the request asks for none.
    pub fn new(request: &Request) -> Option<Marks> {
        request.measure()?.has_marks.then(|| Marks { path: printed(request), file: None, bytes: 0 })
    }

    /// Notes at a sample the number of bytes printed so far, if that has grown.
    pub fn mark(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        // QEMU opens the file after the plugin is installed, and never if the machine has no console.
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(mut file) = self.file.as_ref() else { return };
        // A seek to the end costs half of a query of the file's metadata, and there are many samples.
        let bytes = file.seek(SeekFrom::End(0)).unwrap_or(0);
        if bytes > self.bytes {
            self.bytes = bytes;
            // The mark has the current clock, a few instructions after the sample.
            let at_insns = ledger.insns(vcpu);
            ledger.note(&Definition::Mark { at_insns, bytes });
        }
    }
}

/// Path of the file with the firmware's output.
pub fn printed(request: &Request) -> String {
    format!("{}.log", request.console)
}
