// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of a run: everything that it is made from.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use wire::request::InlinedCall;

use crate::chip::Chip;
use crate::chip::cycled::Cycled;
use crate::image::{Format, Image, mcount, unwind, waiting, zone};
use crate::machine::{Choice, MemoryKind};
use crate::profile::Stub;
use crate::run::contain::sandbox;
use crate::run::request::command_line;
use crate::run::request::options::Options;
use crate::text::shell::quoted;

/// Everything that a run is made from, whether it is measured or debugged.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The firmware.
    pub image: &'a Image,
    /// The machine, and the image's place in it.
    pub choice: &'a Choice,
    /// The chip that the machine is completed to, if there is one.
    pub chip: Option<&'a Chip>,
    /// The emulator's program.
    pub emulator: &'a Path,
    /// Options from the command line or a suite.
    pub options: &'a Options,
    /// Binary logarithm of the virtual time per instruction, in ns.
    pub icount_shift: u8,
    /// Cycles that are counted.
    pub cycled: &'a Cycled,
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
    /// Addresses that close the window.
    pub until: &'a [u64],
    /// Pairs of addresses between which spans are measured.
    pub spans: &'a [(Vec<u64>, Vec<u64>)],
    /// Rules for unwinding stacks.
    pub unwind: &'a unwind::Table,
    /// The firmware's kernel; None: no kernel is known.
    pub kernel: Option<&'a wire::request::Kernel>,
    /// Tasks of the firmware's executors.
    pub polls: &'a [wire::request::Poll],
    /// Points in the code at which the lives of these tasks are seen, if the timeline shows them.
    pub lives: &'a wire::request::Lives,
    /// Rooms of stacks that no kernel describes.
    pub rooms: &'a [Range<u64>],
    /// Variable in which the C library keeps the address behind its heap.
    pub heap_end: Option<u64>,
    /// Functions that allocate and free memory, if the heap is followed.
    pub heap: &'a [wire::heap::Allocator],
    /// Shift of virtual time, by which sleep is measured; None: it is not.
    pub sleep_shift: Option<u8>,
    /// Request for the timeline; None: there is none.
    pub timeline: Option<&'a wire::timeline::Wanted>,
    /// Zones, phases and marks of the firmware.
    pub zones: &'a zone::Zones,
    /// Code that only waits, and its calls.
    pub waiting: &'a waiting::Code,
}

impl Plan<'_> {
    /// Memory that the plugin may read, as far as known before QEMU reports it: the table's memory of the machine, or
    /// the image's own.
    pub fn memory(&self) -> Vec<Range<u64>> {
        let memory = self.choice.machine.memory.iter().filter(|region| region.kind != MemoryKind::Settings);
        let known = memory.map(|region| region.range());
        let own = self.image.segments.iter().map(|segment| {
            let Range { start, end } = segment.run_range();
            start.wrapping_add(self.choice.load_bias)..end.wrapping_add(self.choice.load_bias)
        });
        if self.choice.machine.memory.is_empty() { own.collect() } else { known.collect() }
    }

    /// QEMU's arguments for this run with a plugin API; None: for the same run without the plugin.
    pub fn arguments(&self, plugin_api: Option<i32>) -> Vec<OsString> {
        self.arguments_for(plugin_api, false)
    }

    /// QEMU's arguments as [`Plan::arguments`] gives them; `is_copied`: for a debugged run, which the plugin makes
    /// copies of.
    pub(crate) fn arguments_for(&self, plugin_api: Option<i32>, is_copied: bool) -> Vec<OsString> {
        let has_input = plugin_api.is_some() && !self.options.input.is_empty();
        let &Options { ref firmware_args, semihosting, .. } = self.options;
        let (choice, shift, user) = (self.choice, self.icount_shift, self.options.all_qemu_args());
        let mut arguments =
            command_line::arguments(choice, shift, firmware_args, &user, plugin_api, has_input, semihosting);
        arguments.extend(sandbox::arguments(self.emulator, is_copied).iter().map(OsString::from));
        arguments
    }

    /// Command that runs the image in QEMU without harness, to be pasted into a shell in the image's folder: profiles have
    /// no paths. None: harness has a part in the run, as it converts the file, replaces functions, types on the console or
    /// completes the machine to a chip.
    pub(crate) fn command_alone(&self) -> Option<String> {
        let Options { input, firmware_args, semihosting, .. } = self.options;
        let is_changed = self.image.format != Format::Elf || self.choice.load_bias != 0;
        if is_changed || !input.is_empty() || !self.stubs.is_empty() || self.chip.is_some() {
            return None;
        }
        let (user, image) = (self.options.all_qemu_args(), self.image.path.file_name()?.to_str()?);
        let arguments =
            command_line::alone(self.choice, self.icount_shift, image, firmware_args, &user, *semihosting)?;
        let mut command = quoted(self.emulator.file_name()?.to_str()?);
        for word in &arguments {
            command.push(' ');
            // A leading hyphen does not matter to a shell.
            let is_option = word.strip_prefix('-').is_some_and(|name| !name.is_empty() && quoted(name) == name);
            command += &if is_option { word.clone() } else { quoted(word) };
        }
        Some(command)
    }
}
