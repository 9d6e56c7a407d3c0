// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of the tasks in the JSON format, by the timeline.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::moment::Moment;
use crate::analysis::task_states::{self, Report, Stretches};
use crate::profile::Profile;

/// States of a task over the window. The five sums of running, ready, blocked, gone and unknown are the window.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskStates")]
pub(super) struct JsonTaskStates {
    /// Index of the task in the list of tasks.
    task: u32,
    /// Its name.
    name: String,
    /// Whether it is an idle task of the kernel, which is ready whenever others run.
    is_idle: bool,
    /// It was the current task, handlers that interrupted it included.
    running: JsonState,
    /// Instructions of these handlers.
    interrupted_insns: u64,
    /// It could have run, and did not.
    ready: JsonState,
    /// Tasks and interrupts that executed while it was ready, most time first.
    kept_out_by: Vec<JsonKept>,
    /// Tasks and interrupts that executed in the longest such stretch.
    longest_kept_out_by: Vec<JsonKept>,
    /// It waited, or was suspended.
    blocked: JsonState,
    /// The same by reason, most time first.
    waits: Vec<JsonWait>,
    /// It was deleted, or done.
    gone: JsonState,
    /// No event tells: before the task's first event, or where the kernel's data do not say.
    unknown: JsonState,
}

/// Stretches of one state.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskState")]
struct JsonState {
    /// Number of stretches.
    times: u64,
    /// Instructions in all of them.
    insns: u64,
    /// Nanoseconds of the firmware's time in all of them, with its sleep; null: not known.
    ns: Option<u64>,
    /// The longest one, the first of equals; null: there is none.
    longest: Option<JsonStretch>,
}

/// A stretch of one state.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskStretch")]
struct JsonStretch {
    /// Instructions of the window before it.
    at_insns: u64,
    /// Nanoseconds of the firmware's time before it; null: not known.
    at_ns: Option<u64>,
    /// Its instructions.
    insns: u64,
    /// Its nanoseconds; null: not known.
    ns: Option<u64>,
}

/// Execution of a task or interrupt while another task was ready.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeptOutBy")]
struct JsonKept {
    /// Name of the task or interrupt.
    name: String,
    /// Its instructions.
    insns: u64,
    /// Its nanoseconds; null: not known.
    ns: Option<u64>,
}

/// Waits of a task for one reason.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskWait")]
struct JsonWait {
    /// The reason, as the events have it.
    why: String,
    /// The waits.
    #[serde(flatten)]
    state: JsonState,
}

/// States of a profile's tasks, the one that was ready for longest at a stretch first, idle tasks last. Empty: there are no
/// tasks, or several CPUs.
pub(super) fn list(profile: &Profile) -> Vec<JsonTaskStates> {
    let report = task_states::report(profile);
    let tasks = report.iter().flat_map(|report| report.tasks.iter().map(move |task| (report, task)));
    let tasks = tasks.map(|(report, task)| JsonTaskStates {
        task: task.task - 1,
        name: task.name.clone(),
        is_idle: task.is_idle,
        running: state(report, &task.running),
        interrupted_insns: task.interrupted.insns,
        ready: state(report, &task.ready),
        kept_out_by: kept(report, &task.kept_out_by),
        longest_kept_out_by: kept(report, &task.longest_kept_out_by),
        blocked: state(report, &task.blocked),
        waits: task.waits.iter().map(|(why, of)| JsonWait { why: why.clone(), state: state(report, of) }).collect(),
        gone: state(report, &task.gone),
        unknown: state(report, &task.unknown),
    });
    tasks.collect()
}

fn ns(report: &Report, extent: Moment) -> Option<u64> {
    report.has_ns.then_some(extent.ns)
}

fn state(report: &Report, &Stretches { sum, times, longest }: &Stretches) -> JsonState {
    let longest = (times > 0).then(|| JsonStretch {
        at_insns: longest.from.insns,
        at_ns: ns(report, longest.from),
        insns: longest.length.insns,
        ns: ns(report, longest.length),
    });
    JsonState { times, insns: sum.insns, ns: ns(report, sum), longest }
}

fn kept(report: &Report, kept: &[(String, Moment)]) -> Vec<JsonKept> {
    let kept = kept.iter();
    kept.map(|(name, of)| JsonKept { name: name.clone(), insns: of.insns, ns: ns(report, *of) }).collect()
}
