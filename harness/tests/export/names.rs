// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the profiles that test and measure the formats have the contents that their descriptions promise.

use std::collections::HashSet;

use harness::analysis::functions::{self, RowKind};
use harness::profile::{Profile, StackFrame};
use wire::definition::FrameKind;

use crate::common::{names, synthetic};

#[test]
fn every_name_that_hurts_executes_and_is_called_as_often_as_the_tests_of_formats_expect() {
    let dir = tempfile::tempdir().unwrap();
    let profile = Profile::load(&names::save(dir.path())).unwrap();
    let table = functions::table(&profile);
    let expected = names::functions();
    for named in &expected {
        let row = table.rows.iter().find(|row| row.start == Some(named.start)).unwrap();
        assert_eq!(
            (&row.name, row.self_insns, row.file.as_ref()),
            (&named.name, named.self_insns, named.file.as_ref())
        );
        assert_eq!(row.calls, named.calls, "{named:?}");
        assert!(row.samples > 0 || named.name == "main", "{named:?}");
    }
    let unnamed: Vec<_> = table.rows.iter().filter(|row| row.kind != RowKind::Function).collect();
    assert_eq!(unnamed.iter().map(|row| row.self_insns).collect::<Vec<_>>(), [names::UNNAMED_INSNS]);
    assert_eq!(table.rows.len(), expected.len() + 1);
    let chars: Vec<usize> = expected.iter().map(|named| named.name.chars().count()).collect();
    assert!(chars.iter().filter(|&&chars| chars == 1000).count() == 2 && chars.contains(&0), "{chars:?}");
    assert_eq!(expected.iter().filter(|named| named.name == "init").count(), 2);
}

#[test]
fn the_synthetic_profile_has_as_many_different_stacks_as_asked_for_most_of_them_20_to_30_deep() {
    let profile = synthetic::profile(50_000);
    assert!(profile == synthetic::profile(50_000), "it is another one each time");
    assert!(profile.total_insns() == profile.vcpus[0].clock_insns && !profile.vcpus[0].arcs.is_empty());
    let stacks: Vec<_> = profile.samples.iter().map(|sample| (sample.task, profile.stack(sample.stack))).collect();
    let depths: Vec<usize> = stacks.iter().map(|(_, stack)| stack.len()).collect();
    let deep = depths.iter().filter(|depth| (20..=30).contains(*depth)).count();
    assert!(deep * 10 > depths.len() * 8, "{deep} of {}", depths.len());
    let distinct: HashSet<_> = stacks.iter().map(|(task, stack)| (task, kinds(stack))).collect();
    assert!(distinct.len() >= 49_900 && distinct.len() == stacks.len(), "{} of {}", distinct.len(), stacks.len());
    for task in [1, 2] {
        assert!(profile.samples.iter().filter(|sample| sample.task == task).count() > 5_000);
    }
    let interrupts = stacks.iter().flat_map(|(_, stack)| stack).filter(|frame| is_exception(frame)).count();
    assert!(interrupts > 100 && !functions::table(&profile).rows.is_empty());
}

fn kinds(stack: &[&StackFrame]) -> Vec<FrameKind> {
    stack.iter().map(|frame| frame.kind).collect()
}

fn is_exception(frame: &StackFrame) -> bool {
    matches!(frame.kind, FrameKind::Exception { .. })
}
