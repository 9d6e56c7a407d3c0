// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a run in which a task's stack pointer left the task's stack has failed, whatever the firmware says, and
//! the first line names task, place and, with `--exact`, the very instruction.

use harness::profile::{End, LeftStack, Overflow, Profile};

use crate::common::{harness, run};

const IMAGES: [&str; 2] = ["cortex-m3-overflow", "riscv64-overflow"];

fn overflow(profile: &Profile, task: &str) -> Option<Overflow> {
    profile.tasks.iter().find(|known| known.name == task).unwrap().overflow
}

fn task_of(profile: &Profile) -> &str {
    let End::StackOverflow { stack: LeftStack::Task { index }, .. } = profile.facts.end else {
        panic!("{:?}", profile.facts.end)
    };
    &profile.tasks[index as usize].name
}

#[test]
fn by_default_it_is_seen_where_the_kernel_saves_the_stack_pointer() {
    for image in IMAGES {
        let run = run(image, &[]).expect_code(1);
        let first = run.stdout.lines().next().unwrap();
        for words in
            ["the stack of task long had left its ", " bytes by instruction ", "--exact finds the instruction"]
        {
            assert!(first.contains(words), "{image}: {words:?} is not in: {first}");
        }
        let profile = run.profile();
        assert_eq!(task_of(&profile), "long", "{image}");
        assert_eq!(["brief", "level"].map(|task| overflow(&profile, task)), [None; 2], "{image}");
        let Overflow { sp, is_first, .. } = overflow(&profile, "long").unwrap();
        assert!(!is_first, "{image}");
        let task = profile.tasks.iter().find(|task| task.name == "long").unwrap();
        assert_eq!(task.deepest_sp, Some(sp), "{image}");
        assert!(sp < task.stack_start.unwrap(), "{image}");
    }
}

#[test]
fn an_exact_run_names_the_instruction_whatever_is_sampled() {
    for image in IMAGES {
        let exact = run(image, &["--exact"]).expect_code(1);
        let first = exact.stdout.lines().next().unwrap();
        for words in ["the stack of task brief left its ", " bytes at instruction ", " in deeper ("] {
            assert!(first.contains(words), "{image}: {words:?} is not in: {first}");
        }
        // The page begins with it.
        let page = harness().arg("report").arg(&exact.dir).args(["-o", "-"]).output().unwrap();
        let page = String::from_utf8_lossy(&page.stdout);
        assert!(page.contains(r#""trouble":"the stack of task brief left its "#), "{image}");
        let profile = exact.profile();
        assert_eq!(task_of(&profile), "brief", "{image}");
        assert_eq!(overflow(&profile, "level"), None, "{image}");
        let found = ["brief", "long"].map(|task| overflow(&profile, task).unwrap());
        assert!(found.iter().all(|overflow| overflow.is_first), "{image}: {found:?}");
        // Both run the same code on stacks of the same size, which they begin alike.
        assert_eq!(found[0].pc, found[1].pc, "{image}");
        let other = run(image, &["--exact", "--period", "97"]).expect_code(1).profile();
        assert_eq!(["brief", "long"].map(|task| overflow(&other, task).unwrap()), found, "{image}");
    }
}
