// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the plugin's counters of zones, marks and exceptions into the profile's form.

use std::collections::BTreeMap;

use anyhow::Result;
use wire::zone::{ContextKind, MarkCounter, Row, ZoneCounter};

use crate::profile::LengthCycles;
use crate::profile::zone::{Context, Exception, Mark, Zone, ZoneCounts, ZoneCycles, ZonePath, Zones};

/// Counters read so far.
#[derive(Debug, Default)]
pub(in crate::run) struct Builder {
    zones: BTreeMap<(u32, Context), ZoneCounts>,
    marks: BTreeMap<u32, Mark>,
    exceptions: BTreeMap<u64, Exception>,
    /// Cycles of exceptions, by number.
    exception_cycles: BTreeMap<u64, u64>,
    paths: Vec<ZonePath>,
    names: Vec<String>,
    /// Instructions in calls of code that waits.
    pub(in crate::run) waiting_insns: u64,
    /// Number of such calls whose end is not sure.
    pub(in crate::run) waiting_unsure: u64,
}

impl Builder {
    /// Reads the counters from `slot` on for a row, on `vcpus` vCPUs.
    pub(in crate::run) fn row(
        &mut self,
        (slot, row): (u32, Row),
        vcpus: u32,
        counter: impl Fn(u32, u32) -> Result<u64>,
    ) -> Result<()> {
        for vcpu in 0..vcpus {
            match row {
                Row::Zone { name, context } => {
                    let get = |of: ZoneCounter| counter(slot + of as u32, vcpu);
                    let context = match context {
                        ContextKind::Task(task) => Context::Task(task),
                        ContextKind::Exception(number) => Context::Exception(number),
                    };
                    let calls = get(ZoneCounter::Count)?;
                    // A complement is only there with what it is of: without cycles the counter is 0.
                    let least = |complement: u64| if complement > 0 { !complement } else { 0 };
                    let counts = ZoneCounts {
                        calls,
                        sum_insns: get(ZoneCounter::Sum)?,
                        total_insns: get(ZoneCounter::Total)?,
                        own_insns: get(ZoneCounter::Own)?,
                        min_insns: if calls > 0 { !get(ZoneCounter::MinComplement)? } else { 0 },
                        max_insns: get(ZoneCounter::Max)?,
                        longest_at: get(ZoneCounter::LongestAt)?,
                        longest_since_insns: get(ZoneCounter::LongestSince)?,
                        recursive: get(ZoneCounter::Recursive)?,
                        left: get(ZoneCounter::Left)?,
                        orphans: get(ZoneCounter::Orphans)?,
                        foreign: get(ZoneCounter::Foreign)?,
                        open: get(ZoneCounter::Open)?,
                        elapsed_insns: get(ZoneCounter::Elapsed)?,
                        cycles: ZoneCycles {
                            times: LengthCycles {
                                min: least(get(ZoneCounter::MinCyclesComplement)?),
                                max: get(ZoneCounter::MaxCycles)?,
                                sum: get(ZoneCounter::SumCycles)?,
                            },
                            total: get(ZoneCounter::TotalCycles)?,
                            own: get(ZoneCounter::OwnCycles)?,
                            elapsed: get(ZoneCounter::ElapsedCycles)?,
                        },
                    };
                    self.zones.entry((name, context)).or_default().add(&counts);
                }
                Row::Mark { name } => {
                    let get = |of: MarkCounter| counter(slot + of as u32, vcpu);
                    let count = get(MarkCounter::Count)?;
                    if count == 0 {
                        continue;
                    }
                    let signed = |above_lowest: u64| (above_lowest ^ 1 << 63) as i64;
                    let (min, max) = (signed(!get(MarkCounter::MinComplement)?), signed(get(MarkCounter::Max)?));
                    let (sum, last) = (get(MarkCounter::Sum)? as i64, get(MarkCounter::Last)? as i64);
                    let mark = self.marks.entry(name).or_insert(Mark { name, count: 0, min, max, sum: 0, last });
                    mark.count = mark.count.saturating_add(count);
                    (mark.min, mark.max) = (mark.min.min(min), mark.max.max(max));
                    mark.sum = mark.sum.wrapping_add(sum);
                }
                Row::Waiting => self.waiting_insns = self.waiting_insns.saturating_add(counter(slot, vcpu)?),
                Row::WaitingUnsure => self.waiting_unsure = self.waiting_unsure.saturating_add(counter(slot, vcpu)?),
                // For the whole run, the tasks' own records have this count.
                Row::Task { .. } => {}
                Row::Exception { number, handler } => {
                    let exception = self.exceptions.entry(number);
                    let exception = exception.or_insert(Exception { number, handler, insns: 0, cycles: 0 });
                    exception.insns = exception.insns.saturating_add(counter(slot, vcpu)?);
                }
                Row::ExceptionCycles { number } => {
                    let sum = self.exception_cycles.entry(number).or_default();
                    *sum = sum.saturating_add(counter(slot, vcpu)?);
                }
            }
        }
        Ok(())
    }

    /// Adds the next name that a call has brought.
    pub(in crate::run) fn name(&mut self, name: String) {
        self.names.push(name);
    }

    /// Adds the next path of nested zones.
    pub(in crate::run) fn path(&mut self, path: ZonePath) {
        self.paths.push(path);
    }

    /// Zones, marks and exceptions, of the names only those that calls have brought. Entries that were only defined before
    /// the window are left out.
    pub(in crate::run) fn finish(self) -> Zones {
        let zones = self.zones.into_iter().map(|((name, context), counts)| Zone { name, context, counts });
        Zones {
            names: self.names,
            first_call: 0,
            zones: zones.filter(|zone| zone.counts != ZoneCounts::default()).collect(),
            marks: self.marks.into_values().collect(),
            paths: self.paths,
            exceptions: self
                .exceptions
                .into_values()
                .filter(|exception| exception.insns > 0)
                .map(|exception| Exception {
                    cycles: self.exception_cycles.get(&exception.number).copied().unwrap_or(0),
                    ..exception
                })
                .collect(),
        }
    }
}
