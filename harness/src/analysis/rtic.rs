// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTIC's tasks: functions of the app that an interrupt's handler runs.
//!
//! `#[rtic::app]` generates each handler: it calls `rtic::export::run` with a function or closure of its own. This body
//! calls a hardware task or, for a dispatcher interrupt, polls the software tasks of its priority. Functions of the app
//! that symbols and DWARF show in the body, inlined or called, are the handler's tasks; without that data, no task is
//! named.

use std::collections::{BTreeMap, BTreeSet};

use crate::profile::Profile;

/// Module of RTIC's runner. Firmware without it has no such tasks.
const RUN: &str = "rtic::export::";

/// Suffixes of the function or closure that a handler runs; a closure's suffix depends on its mangling.
const BODIES: [&str; 3] = ["::exec", "::{closure#0}", "::{{closure}}"];

/// Type that polls a software task, whose type parameter has the task's name.
const EXECUTOR: &str = "AsyncTaskExecutor<";

/// Parts of the app's module that are not tasks.
const NO_TASKS: [&str; 3] = ["__rtic_internal", "shared_resources", "local_resources"];

/// Tasks by the name of the handler that runs them.
pub(super) fn tasks(profile: &Profile) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let names = &profile.names;
    let functions = names.functions.iter().map(|function| &function.name);
    if !names.strings.iter().chain(functions).any(|name| name.contains(RUN)) {
        return found;
    }
    let string = |index: u32| names.strings.get(index as usize).map_or("", String::as_str);
    for frames in &names.stacks {
        for (index, frame) in frames.iter().enumerate() {
            let Some((app, handler)) = body(string(frame.function)) else { continue };
            let task = frames[index + 1..].iter().find_map(|inner| task(app, handler, string(inner.function)));
            if let Some(task) = task {
                found.entry(handler.to_owned()).or_default().insert(task.to_owned());
            }
        }
    }
    for arc in profile.vcpus.iter().flat_map(|vcpu| &vcpu.arcs).filter(|arc| arc.count > 0) {
        let caller = names.frames_at(arc.site).last().map(|frame| string(frame.function));
        let Some((app, handler)) = caller.and_then(body) else { continue };
        let callee = names.function_at(arc.target & !1).map(|function| function.name.as_str());
        if let Some(task) = callee.and_then(|callee| task(app, handler, callee)) {
            found.entry(handler.to_owned()).or_default().insert(task.to_owned());
        }
    }
    found
}

/// The app's module and the handler, for the function or closure that the handler runs.
fn body(name: &str) -> Option<(&str, &str)> {
    BODIES.iter().find_map(|suffix| name.strip_suffix(suffix))?.rsplit_once("::")
}

/// Name of the task that a function in a handler's body belongs to.
fn task<'n>(app: &str, handler: &str, name: &'n str) -> Option<&'n str> {
    let own = name.find(EXECUTOR).map_or(name, |at| &name[at + EXECUTOR.len()..]);
    let rest = own.strip_prefix(app)?.strip_prefix("::")?;
    let task = rest.split(|end: char| !(end.is_alphanumeric() || end == '_')).next()?;
    let is_none = task.is_empty() || task == handler || NO_TASKS.iter().any(|no_task| task.starts_with(no_task));
    (!is_none).then_some(task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    /// Tasks of a profile's handlers, in one line.
    fn line(profile: &Profile) -> String {
        let line = |(handler, tasks): (String, BTreeSet<String>)| {
            format!("{handler}: {}", tasks.into_iter().collect::<Vec<_>>().join(" "))
        };
        tasks(profile).into_iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn tasks_are_what_is_in_the_body_of_a_handler() {
        let run = "rtic::export::cortex_basepri::run::<demo::app::UART0::{closure#0}>";
        let closure = "demo::app::UART0::{closure#0}";
        let poll = |task: &str| {
            format!("<rtic::export::executor::AsyncTaskExecutor<demo::app::{task}::{{closure#0}}>>::poll")
        };
        let profile = empty()
            .function("UART0", 0x40, 0x10)
            .frames(0x40, &["UART0"])
            .frames(0x42, &["UART0", run, closure, "demo::app::rx", "demo::app::parse"])
            .frames(0x44, &["UART0", run, closure, "demo::app::__rtic_internal_rx_spawn"])
            .frames(0x46, &["UART0", run, closure, "core::cell::get", "core::mem::replace"])
            .frames(0x48, &["SysTick", "other::tick"]);
        assert_eq!(line(&profile), "UART0: rx");
        let exec =
            ["SysTick", "<demo::app::SysTick::exec as core::ops::FnOnce<()>>::call_once", "demo::app::SysTick::exec"];
        let ticks = profile.clone().frames(0x4a, &[&exec[..], &["demo::app::tick"]].concat());
        assert_eq!(line(&ticks), "SysTick: tick; UART0: rx");
        let [one, two] = [poll("blink"), poll("log")];
        let profile = profile
            .frames(0x50, &["GPIOA", run, "demo::app::GPIOA::{closure#0}", &one, "demo::app::blink::{closure#0}"])
            .frames(0x52, &["GPIOA", run, "demo::app::GPIOA::{closure#0}", &two]);
        assert_eq!(line(&profile), "GPIOA: blink log; UART0: rx");
        // Without RTIC, such a name has no special meaning.
        assert_eq!(line(&empty().frames(0x42, &["UART0", closure, "demo::app::rx"])), "");
    }

    #[test]
    fn tasks_that_are_called_are_found_too() {
        let profile = empty()
            .function("rtic::export::run", 0x20, 0x10)
            .function("demo::app::UART0::{{closure}}", 0x40, 0x10)
            .function("demo::app::rx", 0x60, 0x10)
            .function("demo::support", 0x70, 0x10)
            .frames(0x42, &["demo::app::UART0::{{closure}}"])
            .arc((0x42, 0x60), Some(0x46), true, 3)
            .arc((0x42, 0x70), Some(0x46), true, 3);
        assert_eq!(line(&profile), "UART0: rx");
    }
}
