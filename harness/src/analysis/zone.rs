// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of zones: numbers and lengths of their occurrences, in all and by task and interrupt; and remarks on
//! unbalanced ones.

use std::collections::{BTreeMap, HashMap};

use wire::definition::FrameKind;

use crate::analysis::stacks::{Exceptions, NO_TASK, task_names};
use crate::profile::zone::{Context, ZoneCounts};
use crate::profile::{Function, Profile, StackFrame};
use crate::text::number::{group, plural};

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Counts of all contexts.
    pub all: ZoneCounts,
    /// Counts by task and interrupt, most instructions first.
    pub contexts: Vec<(String, ZoneCounts)>,
    /// Whether it is the calls of a function.
    pub is_call: bool,
}

/// Names of a profile's contexts.
#[derive(Debug)]
pub struct ContextNames {
    tasks: Vec<String>,
    exceptions: BTreeMap<u64, String>,
    has_tasks: bool,
}

impl ContextNames {
    /// The names of a profile's contexts.
    pub fn new(profile: &Profile) -> ContextNames {
        let names = Exceptions::new(profile);
        let exceptions = profile.zones.exceptions.iter();
        let exceptions =
            exceptions.map(|exception| (exception.number, names.name(exception.number, exception.handler)));
        ContextNames {
            tasks: task_names(profile),
            exceptions: exceptions.collect(),
            has_tasks: !profile.tasks.is_empty(),
        }
    }

    /// Name of a context.
    pub fn name(&self, context: Context) -> String {
        match context {
            Context::Task(task) => {
                let name = task.checked_sub(1).and_then(|index| self.tasks.get(index as usize));
                let none = if self.has_tasks { NO_TASK } else { "[thread]" };
                name.cloned().unwrap_or_else(|| none.to_owned())
            }
            Context::Exception(number) => {
                self.exceptions.get(&number).cloned().unwrap_or_else(|| format!("[irq {number}]"))
            }
        }
    }
}

/// Zones of a profile, most instructions first.
pub fn table(profile: &Profile) -> Vec<Row> {
    let contexts = ContextNames::new(profile);
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for zone in &profile.zones.zones {
        let row = rows.entry(zone.name).or_insert_with(|| Row {
            name: profile.zones.name(zone.name).to_owned(),
            all: ZoneCounts::default(),
            contexts: Vec::new(),
            is_call: profile.zones.is_call(zone.name),
        });
        row.all.add(&zone.counts);
        row.contexts.push((contexts.name(zone.context), zone.counts));
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    // A stable sort: equal ones stay in the order of their names.
    let insns = |row: &Row| if row.is_call { row.all.elapsed_insns } else { row.all.total_insns };
    rows.sort_by_key(|row| std::cmp::Reverse(insns(row)));
    for row in &mut rows {
        row.contexts.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total_insns));
    }
    rows
}

/// Remarks on unbalanced and recursive zones, a sentence each.
pub fn remarks(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for Row { name, all, .. } in rows {
        let mut parts = Vec::new();
        if all.recursive > 0 {
            parts.push(format!("{} within itself, counted once in its total", plural(all.recursive, "time")));
        }
        if all.left > 0 {
            parts.push(format!("{} left without its end, not counted", plural(all.left, "time")));
        }
        let lost = all.orphans - all.foreign.min(all.orphans);
        if all.foreign > 0 {
            let times = plural(all.foreign, "time");
            parts.push(format!("{times} ended in another task or interrupt than it began in, not counted"));
        }
        if lost > 0 {
            parts.push(format!("{} ended where it had not begun", plural(lost, "time")));
        }
        if all.open > 0 {
            parts.push(format!("{} still under way at the end, not counted", group(all.open)));
        }
        if !parts.is_empty() {
            lines.push(format!("zone {name}: {}", parts.join("; ")));
        }
    }
    lines
}

/// Start of the artificial functions that stand for zones, in a range without code.
const FRAMES_START: u64 = u64::MAX - (1 << 24);

/// Size of each such function, in bytes.
const FRAME_BYTES: u64 = 4;

/// The profile with a frame for each zone of a sample, around the function in which the zone began. The stacks are
/// the samples'; the exact call tree has no zones.
pub fn framed(profile: &Profile) -> Profile {
    let mut framed = profile.clone();
    framed.tree.clear();
    let start = |name: u32| FRAMES_START + FRAME_BYTES * u64::from(name);
    for (name, number) in profile.zones.names.iter().zip(1..) {
        let name = format!("[zone {name}]");
        framed.names.functions.push(Function {
            linkage_name: name.clone(),
            name,
            start: start(number),
            size_bytes: FRAME_BYTES,
            file: None,
            line: None,
        });
    }
    let function_of = |pc: u64| profile.names.function_at(pc).map(|function| function.start);
    let mut known: HashMap<(u32, FrameKind), u32> = HashMap::new();
    let mut made: HashMap<(u32, u32, Option<u64>), u32> = HashMap::new();
    for sample in &mut framed.samples {
        sample.node = 0;
        if sample.zone == 0 {
            continue;
        }
        let leaf = function_of(sample.pc);
        sample.stack = *made.entry((sample.stack, sample.zone, leaf)).or_insert_with(|| {
            let mut zones = profile.zones.path(sample.zone).into_iter().peekable();
            let mut innermost = 0;
            let mut push = |kind: FrameKind, innermost: &mut u32| {
                let parent = *innermost;
                *innermost = *known.entry((parent, kind)).or_insert_with(|| {
                    framed.stacks.push(StackFrame { parent, kind });
                    framed.stacks.len() as u32
                });
            };
            let frame = |name: u32| FrameKind::Caller { return_addr: start(name) + 1 };
            for outer in profile.stack(sample.stack) {
                let function = match outer.kind {
                    FrameKind::Caller { return_addr } => function_of(return_addr.wrapping_sub(1)),
                    FrameKind::Exception { pc, .. } => function_of(pc),
                    FrameKind::Unknown(_) => None,
                };
                while let Some(zone) = zones.next_if(|zone| function.is_some() && function_of(zone.pc) == function) {
                    push(frame(zone.name), &mut innermost);
                }
                push(outer.kind, &mut innermost);
            }
            // Zones of the executing function, and those whose function the stack does not show.
            zones.for_each(|zone| push(frame(zone.name), &mut innermost));
            innermost
        });
    }
    framed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::zone::{Exception, Zone};

    fn counts(calls: u64, total_insns: u64, [min_insns, max_insns]: [u64; 2]) -> ZoneCounts {
        let own_insns = total_insns;
        ZoneCounts {
            calls,
            sum_insns: total_insns,
            total_insns,
            own_insns,
            min_insns,
            max_insns,
            ..Default::default()
        }
    }

    fn profile() -> Profile {
        let mut profile = empty().function("UART0_Handler", 0x60, 4);
        profile.zones.names = vec!["decode".to_owned(), "filter".to_owned()];
        profile.zones.exceptions = vec![Exception { number: 20, handler: 0x60, insns: 9, cycles: 0 }];
        let zone = |name, context, counts| Zone { name, context, counts };
        profile.zones.zones = vec![
            zone(1, Context::Task(0), counts(2, 10, [4, 6])),
            zone(2, Context::Task(0), counts(1, 30, [30, 30])),
            zone(2, Context::Exception(20), counts(4, 80, [5, 60])),
        ];
        profile
    }

    #[test]
    fn rows_add_up_what_contexts_have() {
        let rows = table(&profile());
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["filter", "decode"]);
        assert_eq!(rows[0].all, counts(5, 110, [5, 60]));
        let contexts: Vec<_> = rows[0].contexts.iter().map(|(name, counts)| (name.as_str(), counts.calls)).collect();
        assert_eq!(contexts, [("[irq UART0]", 4), ("[thread]", 1)]);
        assert_eq!(rows[0].all.mean_insns(), 22);
        assert!(remarks(&rows).is_empty());
    }

    #[test]
    fn what_is_not_balanced_is_said() {
        let mut profile = profile();
        let counts = &mut profile.zones.zones[0].counts;
        (counts.recursive, counts.left, counts.orphans, counts.foreign, counts.open) = (1, 2, 5, 2, 1);
        assert_eq!(
            remarks(&table(&profile)),
            ["zone decode: 1 time within itself, counted once in its total; 2 times left without its end, not \
                 counted; 2 times ended in another task or interrupt than it began in, not counted; 3 times ended where \
                 it had not begun; 1 still under way at the end, not counted"]
        );
    }
}
