//! The request to the plugin, made from a run's plan, and the plugin's refusal.

pub mod command_line;
pub mod options;
pub mod plan;
pub mod settings;

use std::path::Path;
use std::{fs, io};

use wire::refusal::Refusal;
use wire::request::{self, Isa, Request};

use crate::image::targets::Targets;
use crate::run::qemu::tricks;
use crate::run::request::plan::Plan;

/// Path of the console without its extension, relative to QEMU's working directory.
const CONSOLE: &str = "../console";

/// Writes the request into the records' directory, and a file with room for a refusal.
///
/// # Errors
/// When it cannot be written, or the plan has something that cannot be requested.
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

/// The request for a plan.
///
/// # Errors
/// When the plan has something that cannot be requested.
pub fn of(plan: &Plan<'_>) -> io::Result<Request> {
    let Plan { image, choice, options, .. } = plan;
    let machine = &choice.machine;
    let isa: decode::Isa = machine.isa.parse().map_err(io::Error::other)?;
    let targets = Targets::find(isa, &image.segments, choice.load_bias, plan.functions);
    Ok(Request {
        isa: match isa {
            decode::Isa::Riscv32 => Isa::Riscv32,
            decode::Isa::Riscv64 => Isa::Riscv64,
            decode::Isa::ThumbV6m => Isa::ThumbV6m,
            decode::Isa::ThumbV7m => Isa::ThumbV7m,
            decode::Isa::ThumbV8m => Isa::ThumbV8m,
        },
        qemu: tricks::told(plan.emulator).qemu,
        period_insns: options.period_insns,
        jitter_seed: options.jitter_seed,
        for_insns: options.window.for_insns,
        max_insns: options.window.max_insns,
        max_output_bytes: Some(options.max_output_bytes),
        from: plan.from.to_vec(),
        until: plan.until.to_vec(),
        spans: plan.spans.to_vec(),
        entry: Some(choice.entry),
        finisher: machine.finisher,
        unshared_vcpus: machine.unshared_cpus,
        memory: plan.memory(),
        snapshot: plan.mcount.map(|header| header.state.clone()),
        // The load bias may wrap a function at the end of the address space.
        functions: plan.functions.iter().filter(|function| function.start <= function.end).cloned().collect(),
        loops: targets.loops,
        pointed: targets.pointed,
        forgetful: plan.unwind.forgetful.clone(),
        inlined_calls: plan.inlined_calls.to_vec(),
        unwind: plan.unwind.rows.clone(),
        max_depth: options.max_depth,
        is_exact: options.exact,
        has_marks: options.console_marks,
        is_oracle: options.oracle,
        is_debugged: false,
        is_watched: false,
        is_copied: false,
        semihosting: options.semihosting.request(),
        console: CONSOLE.to_owned(),
        input: options.input.iter().map(|input| input.step()).collect(),
        kernel: plan.kernel.cloned(),
        polls: plan.polls.to_vec(),
        heap: plan.heap.to_vec(),
        events: plan.events.to_vec(),
        slice_insns: options.slice_insns,
        timeline: plan.timeline.cloned(),
        chip: plan.chip.map(|chip| wire::chip::Chip { insn_shift: plan.icount_shift.into(), ..chip.wire.clone() }),
    })
}
