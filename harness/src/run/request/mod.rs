// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request to the plugin, made from a run's plan, and the plugin's refusal.

pub mod command_line;
pub mod options;
pub mod plan;
pub mod settings;

use std::path::Path;
use std::{fs, io};

use wire::refusal::Refusal;
use wire::request::{self, Debug, Isa, Measure, Purpose, Request};

use crate::image::Image;
use crate::image::targets::{self, Targets};
use crate::image::ways;
use crate::run::qemu::tricks;
use crate::run::request::plan::{Measurement, Plan};

/// Path of the console without its extension, relative to QEMU's working directory.
const CONSOLE: &str = "../console";

/// Writes the request into the records' directory, and a file with room for a refusal.
///
/// # Errors
/// When a file cannot be written, or the plan cannot be expressed as a request.
pub fn write(request: &Request, records: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    request.put(&mut bytes).map_err(invalid)?;
    fs::write(records.join(request::FILE_NAME), bytes)?;
    fs::write(records.join(wire::refusal::FILE_NAME), [0; wire::refusal::BYTES])
}

/// The plugin's refusal, if there is one.
pub fn refusal(records: &Path) -> Option<Refusal> {
    let bytes = fs::read(records.join(wire::refusal::FILE_NAME)).ok()?;
    Refusal::read(&bytes).ok().flatten()
}

/// Builds the request of a run that is measured.
///
/// # Errors
/// When it cannot be asked for.
pub fn measure(plan: &Plan<'_>, measurement: &Measurement<'_>) -> io::Result<Request> {
    let Plan { image, choice, options, .. } = plan;
    let Measurement { functions, unwind, .. } = measurement;
    let targets = Targets::find(isa(plan)?, &image.segments, choice.load_bias, functions);
    let (ways, landings) = if options.branches {
        let forks = targets::forks(isa(plan)?, &image.segments, choice.load_bias, functions);
        (ways::to_count(&forks.branches, functions), ways::landings(&forks, functions))
    } else {
        (Vec::new(), Vec::new())
    };
    let measure = Measure {
        period_insns: Some(options.period_insns),
        jitter_seed: options.jitter_seed,
        for_insns: options.window.for_insns,
        max_insns: options.window.max_insns,
        from: measurement.from.to_vec(),
        until: measurement.until.to_vec(),
        spans: measurement.spans.to_vec(),
        snapshot: plan.mcount.map(|header| header.state.clone()),
        // One at the end of the address space may be bent by the load bias.
        functions: functions.iter().filter(|function| function.start <= function.end).cloned().collect(),
        loops: targets.loops,
        ways,
        landings,
        has_cycles: options.cycles.is_some() && plan.cycled.core.is_none(),
        pointed: targets.pointed,
        forgetful: unwind.forgetful.clone(),
        forgetting: unwind.forgetting.clone(),
        inlined_calls: measurement.inlined_calls.to_vec(),
        variables: measurement.rooms.to_vec(),
        heap_end: measurement.heap_end,
        unwind: unwind.rows.clone(),
        max_depth: options.max_depth,
        is_exact: options.exact,
        has_marks: options.console_marks,
        is_oracle: options.oracle,
        kernel: measurement.kernel.cloned(),
        polls: measurement.polls.to_vec(),
        lives: measurement.lives.clone(),
        heap: measurement.heap.to_vec(),
        events: measurement.zones.events.clone(),
        zone_calls: measurement.zones.calls.clone(),
        zone_names: measurement.zones.names.len() as u32,
        waiting_calls: measurement.waiting.calls.clone(),
        waiting_code: measurement.waiting.ranges.iter().map(|code| code.start).collect(),
        slice_insns: options.slice.map(|length| length.insns(plan.icount_shift)),
        sleep_shift: measurement.sleep_shift,
        timeline: measurement.timeline.cloned(),
    };
    of(plan, Purpose::Measure(Box::new(measure)))
}

/// Builds the request of a run that is debugged.
///
/// # Errors
/// When it cannot be asked for.
pub(crate) fn debug(plan: &Plan<'_>, debug: Debug) -> io::Result<Request> {
    of(plan, Purpose::Debug(debug))
}

fn isa(plan: &Plan<'_>) -> io::Result<decode::Isa> {
    plan.choice.machine.isa.parse().map_err(io::Error::other)
}

/// Gives a memory behind registers the bytes that the image has for it.
fn fill(array: &mut wire::chip::Array, image: &Image) {
    let Some(start) = array.in_file else { return };
    let end = start.saturating_add(array.bytes.into());
    for segment in &image.segments {
        let range = segment.load_range();
        let held = range.start.max(start)..range.end.min(end);
        if held.is_empty() {
            continue;
        }
        let (at, from) = ((held.start - start) as usize, (held.start - range.start) as usize);
        let bytes = &segment.data[from..from + (held.end - held.start) as usize];
        if array.contents.len() < at + bytes.len() {
            array.contents.resize(at + bytes.len(), array.reset as u8);
        }
        array.contents[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn of(plan: &Plan<'_>, purpose: Purpose) -> io::Result<Request> {
    let Plan { choice, options, .. } = plan;
    let core = plan.cycled.core.as_ref().map(|core| core.wire.clone());
    Ok(Request {
        isa: match isa(plan)? {
            decode::Isa::Riscv32 => Isa::Riscv32,
            decode::Isa::Riscv64 => Isa::Riscv64,
            decode::Isa::Riscv32Zc => Isa::Riscv32Zc,
            decode::Isa::Riscv64Zc => Isa::Riscv64Zc,
            decode::Isa::ThumbV6m => Isa::ThumbV6m,
            decode::Isa::ThumbV7m => Isa::ThumbV7m,
            decode::Isa::ThumbV8m => Isa::ThumbV8m,
            decode::Isa::AvrPc16 => Isa::AvrPc16,
            decode::Isa::AvrPc22 => Isa::AvrPc22,
        },
        qemu: tricks::told(plan.emulator).qemu,
        max_output_bytes: Some(options.max_output_bytes),
        entry: Some(choice.entry),
        finisher: choice.machine.finisher,
        exit: choice.machine.exit,
        unshared_vcpus: choice.machine.unshared_cpus,
        memory: plan.memory(),
        semihosting: options.semihosting.request(),
        console: CONSOLE.to_owned(),
        input: options.input.iter().filter_map(|input| input.step()).collect(),
        chip: plan.chip.map(|chip| {
            // What a chip file counts in instructions takes as long as without `--cycles`.
            let shift = plan.cycled.pace.map_or(plan.icount_shift, |_| choice.machine.shift);
            let mut chip = wire::chip::Chip { insn_shift: shift.into(), ..chip.wire.clone() };
            // Its counters count the cycles by which the clock goes.
            let riscv = chip.riscv.iter_mut().zip(plan.cycled.pace);
            riscv.for_each(|(riscv, pace)| riscv.hz = pace.hz);
            chip.blocks.iter_mut().flat_map(|block| &mut block.arrays).for_each(|array| fill(array, plan.image));
            chip
        }),
        // In a run that is debugged nothing is counted, but time may go by cycles.
        core: core.filter(|_| plan.cycled.pace.is_some() || matches!(purpose, Purpose::Measure(_))),
        pace: plan.cycled.pace,
        purpose,
    })
}
