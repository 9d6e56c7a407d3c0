// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware's output, as the file of the console grows; for the timeline.

use std::fs::File;
use std::io;

use wire::request::Request;
use wire::timeline::What;

use crate::ledger::{Counters, Ledger};
use crate::marks::printed;

/// The firmware's output.
pub struct Console {
    file: File,
    bytes: u64,
}

impl Console {
    /// Opens the console's file, which has to exist, before the firmware can take the descriptors that there are. None:
    /// there is no timeline.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(request: &Request) -> io::Result<Option<Console>> {
        let has_timeline = request.measure().is_some_and(|measure| measure.timeline.is_some());
        let open = || Ok(Console { file: File::open(printed(request))?, bytes: 0 });
        has_timeline.then(open).transpose()
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
        let bytes = self.file.metadata().map_or(0, |metadata| metadata.len());
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        more
    }
}
