//! The promise of call stacks: what is unwound at a sample is what every call and return, followed one by
//! one, left there at that instruction.

mod common;

use std::collections::BTreeMap;

use common::run;
use harness::functions::Place;
use harness::profile::{Profile, StackFrame};
use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

/// One level of a stack, so that both kinds can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Function(u64),
    Exception(u64),
    Unknown(Unknown),
}

fn place(profile: &Profile, address: u64) -> Level {
    Level::Function(Place::of(profile, address).start().unwrap_or(1))
}

fn unwound(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let mut levels = Vec::new();
    for &&StackFrame { kind, .. } in &profile.stack(sample.stack) {
        match kind {
            FrameKind::Caller { return_addr } => levels.push(place(profile, return_addr - 1)),
            FrameKind::Exception { number, pc, .. } => {
                levels.extend((pc != 0).then(|| place(profile, pc)));
                levels.push(Level::Exception(number));
            }
            FrameKind::Unknown(why) => levels.push(Level::Unknown(why)),
        }
    }
    levels.push(place(profile, sample.pc));
    levels
}

fn followed(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let nodes = profile.path(sample.node);
    let levels = nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Root { .. } => None,
        NodeKind::Function { entry } => Some(Level::Function(entry)),
        NodeKind::Exception { number } => Some(Level::Exception(number)),
    });
    levels.collect()
}

fn shown(profile: &Profile, levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match *level {
        Level::Function(start) => Place::of(profile, start).to_string(),
        other => format!("{other:x?}"),
    });
    names.collect::<Vec<_>>().join(";")
}

/// Samples whose two stacks differ, and how often each pair of stacks came.
fn differences(profile: &Profile) -> BTreeMap<(String, String, String), u64> {
    let mut differences = BTreeMap::new();
    for sample in &profile.samples {
        let (unwound, followed) = (unwound(profile, sample), followed(profile, sample));
        if unwound != followed {
            let key = (shown(profile, &unwound), shown(profile, &followed), format!("{:#x}", sample.pc));
            *differences.entry(key).or_default() += 1;
        }
    }
    differences
}

#[test]
fn look() {
    let Ok(name) = std::env::var("IMAGE") else { return };
    let period = std::env::var("PERIOD").unwrap_or("997".to_owned());
    let run = run(&name, &["--exact", "--period", &period]);
    let profile = run.profile();
    let differences = differences(&profile);
    let total: u64 = differences.values().sum();
    println!(
        "{name}: {total} of {} differ; {} stacks, {} nodes",
        profile.samples.len(),
        profile.stacks.len(),
        profile.tree.len()
    );
    let mut rows: Vec<_> = differences.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for ((unwound, followed, pc), count) in rows.iter().take(12) {
        println!("{count} at {pc}\n    {unwound}\n    {followed}");
    }
    for task in &profile.tasks {
        println!("{task:x?}");
    }
    println!("unseen {}", profile.facts.unseen_switches);
    let insns: u64 = profile.tree.iter().map(|node| node.insns).sum();
    assert_eq!(insns, profile.total_insns());
    let table = harness::functions::table(&profile);
    for row in &table.rows {
        let (mut calls, mut insns) = (0, 0);
        for node in &profile.tree {
            if let NodeKind::Function { entry } = node.kind
                && Some(entry) == row.start
            {
                calls += node.calls;
                insns += node.insns;
            }
        }
        if row.calls != calls || row.self_insns != insns {
            println!("{}: calls {} tree {calls}, self {} tree {insns}", row.name, row.calls, row.self_insns);
        }
    }
}

#[test]
fn look_oracle() {
    let Ok(name) = std::env::var("ORACLE") else { return };
    let fast = run(&name, &["--period", "97"]).profile();
    let slow = run(&name, &["--period", "97", "--oracle"]).profile();
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0;
    for (one, other) in fast.samples.iter().zip(&slow.samples) {
        let (a, b) = (unwound(&fast, one), unwound(&slow, other));
        if a != b || one.task != other.task {
            total += 1;
            *rows.entry(format!("{:#x} {} {}\n   {}\n   {}", one.pc, one.task, other.task, shown(&fast, &a), shown(&slow, &b))).or_default() += 1;
        }
    }
    println!("{name}: {total} of {} differ", fast.samples.len());
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (row, count) in rows.iter().take(3) {
        println!("{count} {row}");
    }
}
