//! How much the firmware had printed at which instruction, for deadlines on its output.
//!
//! QEMU writes the console's file on the thread that executes the guest, as the guest writes to its device,
//! so that the file's length at an instruction is the guest's doing alone.

use std::fs::File;

use wire::definition::Definition;

use crate::state::State;

/// The console's file.
pub(crate) struct Console {
    file: File,
    bytes: u64,
}

impl State {
    /// At a sample: notes how much has been printed, if that is more than before.
    pub(crate) fn mark_console(&mut self, vcpu: u32) {
        if !self.args.has_marks {
            return;
        }
        // QEMU opens it after the plugin is installed, and never where the machine has no console.
        if self.console.is_none() {
            self.console = File::open(self.args.printed()).ok().map(|file| Console { file, bytes: 0 });
        }
        let Some(console) = &mut self.console else { return };
        let bytes = console.file.metadata().map_or(0, |metadata| metadata.len());
        if bytes > console.bytes {
            console.bytes = bytes;
            // By now: the sample is a few instructions back.
            let at_insns = self.insns(vcpu);
            self.note(&Definition::Mark { at_insns, bytes });
        }
    }
}
