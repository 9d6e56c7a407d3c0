//! The plan of a run: everything that it is made from.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use wire::request::InlinedCall;

use crate::chip::Chip;
use crate::image::{Image, mcount, unwind};
use crate::machine::{Choice, MemoryKind};
use crate::profile::Stub;
use crate::run::options::Options;
use crate::run::{command_line, sandbox};

/// Set when the user wants the run to end.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often that was said.
pub static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Makes Ctrl-C and SIGTERM end the run, with what was measured until then, instead of the process.
pub fn end_on_interrupt() {
    // Fails only where a handler is set already; then that one decides.
    let _ = ctrlc::set_handler(interrupt);
}

/// The user wants the run to end.
pub fn interrupt() {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Leaves Ctrl-C and SIGTERM to the parent, which hears them, too, and passes them on in its own way.
pub fn ignore_signals() {
    let _ = ctrlc::set_handler(|| ());
}

/// Everything that a run is made from, whatever is asked of it.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The firmware.
    pub image: &'a Image,
    /// The machine, and where in it the image lies.
    pub choice: &'a Choice,
    /// The chip that the machine is completed to, if there is one.
    pub chip: Option<&'a Chip>,
    /// The emulator's program.
    pub emulator: &'a Path,
    /// What was asked for on the command line or in a suite.
    pub options: &'a Options,
    /// Virtual time per instruction is 2^shift ns.
    pub icount_shift: u8,
    /// The in-target table, if the image has one.
    pub mcount: Option<&'a mcount::Header>,
    /// Functions that were made to return at once.
    pub stubs: &'a [Stub],
}

/// Orders for a run that is measured, beyond its [`Plan`].
#[derive(Debug)]
pub struct Measurement<'a> {
    /// Addresses of the firmware's functions, sorted.
    pub functions: &'a [Range<u64>],
    /// Calls of inlined code, for the exact call tree.
    pub inlined_calls: &'a [InlinedCall],
    /// Addresses that open the window.
    pub from: &'a [u64],
    /// Addresses that close it.
    pub until: &'a [u64],
    /// Addresses between which instructions are counted.
    pub spans: &'a [(Vec<u64>, Vec<u64>)],
    /// How stacks are walked.
    pub unwind: &'a unwind::Table,
    /// The firmware's kernel, if it has one that is known.
    pub kernel: Option<&'a wire::request::Kernel>,
    /// The tasks of its executors, if it has such.
    pub polls: &'a [wire::request::Poll],
    /// The functions that give memory out and take it back, where the heap is followed.
    pub heap: &'a [wire::heap::Allocator],
    /// What is asked for of the timeline, where there is one.
    pub timeline: Option<&'a wire::timeline::Wanted>,
    /// What the firmware names itself, sorted by address.
    pub events: &'a [wire::zone::Event],
}

impl Plan<'_> {
    /// What the plugin may read, as far as it is known before QEMU is asked: the memory that the table has of the machine,
    /// or the image's own.
    pub fn memory(&self) -> Vec<Range<u64>> {
        let memory = self.choice.machine.memory.iter().filter(|region| region.kind != MemoryKind::Settings);
        let known = memory.map(|region| region.range());
        let own = self.image.segments.iter().map(|segment| {
            let Range { start, end } = segment.run_range();
            start.wrapping_add(self.choice.load_bias)..end.wrapping_add(self.choice.load_bias)
        });
        if self.choice.machine.memory.is_empty() { own.collect() } else { known.collect() }
    }

    /// QEMU's arguments for this run, whose plugin asks for an API; None: for the same run without the plugin.
    pub fn arguments(&self, plugin_api: Option<i32>) -> Vec<OsString> {
        self.arguments_for(plugin_api, false)
    }

    /// The same for a run that is debugged, of which the plugin makes copies.
    pub(crate) fn arguments_for(&self, plugin_api: Option<i32>, is_copied: bool) -> Vec<OsString> {
        let has_input = plugin_api.is_some() && !self.options.input.is_empty();
        let &Options { ref firmware_args, semihosting, .. } = self.options;
        let (choice, shift, user) = (self.choice, self.icount_shift, self.options.all_qemu_args());
        let mut arguments =
            command_line::arguments(choice, shift, firmware_args, &user, plugin_api, has_input, semihosting);
        arguments.extend(sandbox::arguments(self.emulator, is_copied).iter().map(OsString::from));
        arguments
    }
}
