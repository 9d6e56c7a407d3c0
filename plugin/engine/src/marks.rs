// SPDX-License-Identifier: MIT OR Apache-2.0
//! Amount of the firmware's output at instructions, for deadlines on its output.
//!
//! QEMU writes the console's file on the thread that executes the guest, as the guest writes to its device, so that
//! the file's length at an instruction depends on the guest alone. A look at it is a system call, and there are many
//! samples. So only samples look that follow a store to a device or a call of the host, by at most
//! [`LINGER_INSNS`]: a device may send what it holds by a timer of the emulated time.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use wire::definition::Definition;
use wire::request::Request;

use crate::ledger::{Counters, Ledger};

/// Instructions after a store to a device in which the output may grow by it. A UART's buffer is sent in some 20 ms at 9600
/// baud, which are 2.5 million instructions of 8 ns.
const LINGER_INSNS: u64 = 1 << 25;

/// The marks on the console.
pub struct Marks {
    file: File,
    bytes: u64,
    /// First instruction at which the output no longer grows by what the firmware has stored. None: every sample looks,
    /// since several vCPUs may print, or a chip's DMA.
    quiet_at_insns: Option<u64>,
}

impl Marks {
    /// Opens the console's file, which has to exist, before the firmware can take the descriptors that there are. None: the
    /// request asks for no marks.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(request: &Request, vcpus: u32) -> io::Result<Option<Marks>> {
        let has_marks = request.measure().is_some_and(|measure| measure.has_marks);
        let quiet_at_insns = (vcpus == 1 && request.chip.is_none()).then_some(LINGER_INSNS);
        let open = || Ok(Marks { file: File::open(printed(request))?, bytes: 0, quiet_at_insns });
        has_marks.then(open).transpose()
    }

    /// Notes that the firmware may print: it stores to a device, or calls the host.
    pub fn may_print(&mut self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        if let Some(at_insns) = &mut self.quiet_at_insns {
            *at_insns = ledger.insns(vcpu).saturating_add(LINGER_INSNS);
        }
    }

    /// Notes at a sample the number of bytes printed so far, if that has grown.
    pub fn mark(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        if self.quiet_at_insns.is_some_and(|at_insns| ledger.insns(vcpu) >= at_insns) {
            return;
        }
        // A seek to the end costs half of a query of the file's metadata, and there are many samples.
        let bytes = self.file.seek(SeekFrom::End(0)).unwrap_or(0);
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
