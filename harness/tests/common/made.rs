// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles made without firmware, the basis of profiles in tests and benchmarks.

use harness::profile::no_progress::Only;
use harness::profile::{Arc, End, Facts, InsnCount, Names, Parts, Profile, Task, Tricks, VcpuCounts, Window, Zones};
use wire::sample::Sample;

/// Empty profile, on a Cortex-M3 whose stacks were taken.
pub fn empty(period_insns: u64) -> Profile {
    Profile {
        facts: Facts {
            harness_version: "0.1.0".to_owned(),
            image_name: "made.elf".to_owned(),
            image_sha256: "0123456789abcdef".repeat(4),
            symbols_sha256: None,
            qemu_version: "10.0.2".to_owned(),
            tricks: Tricks::Used,
            machine: "mps2-an385".to_owned(),
            chip: None,
            cpu: None,
            isa: "thumb-v7m".to_owned(),
            icount_shift: 5,
            load_addr: None,
            load_bias: 0,
            entry: 0,
            task_begins: Vec::new(),
            vectors: None,
            qemu_args: Vec::new(),
            firmware_args: Vec::new(),
            semihosting: None,
            stubs: Vec::new(),
            period_insns,
            jitter_seed: None,
            bin_bytes: 2,
            window: Window::default(),
            generic_spans: Vec::new(),
            before_window_insns: 0,
            input: Vec::new(),
            input_bytes: 0,
            input_begun: 0,
            end: End::For,
            last_line: String::new(),
            only: Only::default(),
            max_depth: Some(64),
            waits: 0,
            slept_insns: 0,
            slept_ns: Some(0),
            waiting: Default::default(),
            unseen_switches: 0,
            resynchronised: 0,
            unresolved_transfers: 0,
            interrupted_transfers: 0,
            main_stack_lowest: None,
            stack_left: None,
            exception_levels: Vec::new(),
            sizes: None,
        },
        vcpus: vec![VcpuCounts::default()],
        samples: Vec::new(),
        stacks: Vec::new(),
        tasks: Vec::new(),
        tree: Vec::new(),
        console_marks: Vec::new(),
        spans: Vec::new(),
        zones: Zones::default(),
        parts: Parts::default(),
        notes: Vec::new(),
        names: Names::default(),
        in_target: None,
        heap: None,
        timeline: None,
        edges: Vec::new(),
        cycles: None,
        code: Vec::new(),
        tables: Vec::new(),
    }
}

/// Adds executions of one instruction of two bytes; addresses must increase.
pub fn execute(profile: &mut Profile, pc: u64, count: u64) {
    let vcpu = &mut profile.vcpus[0];
    vcpu.insns.push(InsnCount { pc, size_bytes: 2, count });
    vcpu.clock_insns += count;
}

/// Adds calls from an instruction of four bytes.
pub fn call(profile: &mut Profile, site: u64, target: u64, count: u64) {
    profile.vcpus[0].arcs.push(Arc { site, target, return_addr: Some((site + 4) | 1), links: true, count });
}

/// Adds a sample, one period after the one before.
pub fn sample(profile: &mut Profile, pc: u64, stack: u32, task: u32) {
    let at_insns = (profile.samples.len() as u64 + 1) * profile.facts.period_insns;
    profile.samples.push(Sample { at_insns, pc, stack, task, ..Sample::default() });
}

/// Adds a task.
pub fn task(profile: &mut Profile, name: &str, insns: u64) {
    let tcb = 0x2000_0000 + 0x100 * profile.tasks.len() as u64;
    profile.tasks.push(Task {
        name: name.to_owned(),
        tcb,
        stack_start: Some(0x2000_8000),
        stack_end: Some(0x2000_9000),
        is_idle: false,
        poll: None,
        insns,
        switches: 1,
        deepest_sp: Some(0x2000_8800),
        highest_sp: None,
        painted_bytes: Some(0x400),
        slept_ns: 0,
        ahead_ns: 0,
        overflow: None,
    });
}
