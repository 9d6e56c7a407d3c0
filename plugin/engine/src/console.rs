//! The firmware's output, as the file of the console grows; for the timeline.

use std::fs::File;

use wire::request::Request;
use wire::timeline::What;

use crate::ledger::{Counters, Ledger};
use crate::marks::printed;

/// The firmware's output.
pub struct Console {
    path: String,
    file: Option<File>,
    bytes: u64,
}

impl Console {
    /// None: there is no timeline.
    pub fn new(request: &Request) -> Option<Console> {
        request.measure()?.timeline.as_ref()?;
        Some(Console { path: printed(request), file: None, bytes: 0 })
    }

    /// Opens the window: what was printed before is not on the timeline.
    pub fn restart(&mut self) {
        self.grown_bytes();
    }

    /// Checks whether the firmware has printed.
    pub fn look(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        let bytes = self.grown_bytes();
        if bytes > 0 {
            ledger.happened(vcpu, What::Printed { bytes });
        }
    }

    /// Bytes printed since the last check. QEMU writes them on the thread that executes the guest.
    fn grown_bytes(&mut self) -> u64 {
        // QEMU opens the file after the plugin is installed, and never if the machine has no console.
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        more
    }
}
