//! How much the firmware had printed at which instruction, for deadlines on its output.
//!
//! QEMU writes the console's file on the thread that executes the guest, as the guest writes to its device,
//! so that the file's length at an instruction is the guest's doing alone.

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
    /// The marks, where they are asked for.
    pub fn new(request: &Request) -> Option<Marks> {
        request.measure()?.has_marks.then(|| Marks { path: printed(request), file: None, bytes: 0 })
    }

    /// At a sample: notes how much has been printed, if that is more than before.
    pub fn mark(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        // QEMU opens it after the plugin is installed, and never where the machine has no console.
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(mut file) = self.file.as_ref() else { return };
        // Where its end is costs the host half of what all that is known of it does, and there are many samples.
        let bytes = file.seek(SeekFrom::End(0)).unwrap_or(0);
        if bytes > self.bytes {
            self.bytes = bytes;
            // By now: the sample is a few instructions back.
            let at_insns = ledger.insns(vcpu);
            ledger.note(&Definition::Mark { at_insns, bytes });
        }
    }
}

/// The file of what the firmware has printed.
pub fn printed(request: &Request) -> String {
    format!("{}.log", request.console)
}
