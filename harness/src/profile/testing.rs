// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles made by hand, for the tests of code that reads profiles.

use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::profile::no_progress::Only;
use crate::profile::{
    Arc, End, Facts, Frame, Function, InsnCount, Names, Node, Parts, Profile, StackFrame, Task, Tricks, VcpuCounts,
    Window, Zones,
};

/// Empty profile on an mps2-an385.
pub(crate) fn empty() -> Profile {
    Profile {
        facts: Facts {
            harness_version: "0.1.0".to_owned(),
            image_name: "blinky.elf".to_owned(),
            image_sha256: String::new(),
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
            period_insns: 10,
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
            max_depth: None,
            waits: 0,
            slept_insns: 0,
            slept_ns: None,
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
        code: Vec::new(),
        tables: Vec::new(),
        in_target: None,
        heap: None,
        timeline: None,
        edges: Vec::new(),
        cycles: None,
    }
}

/// Profile of a small FreeRTOS image: two tasks of one name, the idle task, interrupts in each.
///
/// Stacks: 1 the sensor task's, 2 `filter` in it, 3 the logger task's, 4 `format` in it, 5 SysTick in idle, 6 its
/// callee's, 7 SysTick in `filter`, 8 its callee's, 9 UART0 in `format`, 10 UART0 in SysTick in idle, 11 unknown, 12
/// main's.
pub(crate) fn freertos() -> Profile {
    empty()
        .function("main", 0x40, 0x10)
        .function("sensor_task", 0x50, 0x10)
        .function("filter", 0x60, 0x10)
        .function("multiply_accumulate", 0x70, 0x10)
        .function("logger_task", 0x80, 0x10)
        .function("format", 0x90, 0x10)
        .function("memcpy", 0xa0, 0x10)
        .function("prvIdleTask", 0xb0, 0x10)
        .function("SysTick_Handler", 0xc0, 0x10)
        .function("xTaskIncrementTick", 0xd0, 0x10)
        .function("UART0_IRQHandler", 0xe0, 0x10)
        .frames(0x6a, &["filter", "saturate"])
        .task_called("sensor")
        .task_called("logger")
        .task_called("IDLE")
        .task_called("sensor")
        .caller(0, 0x54)
        .caller(1, 0x66)
        .caller(0, 0x84)
        .caller(3, 0x94)
        .exception(0, 15, 0xc0, 0xb2)
        .caller(5, 0xc8)
        .exception(1, 15, 0xc0, 0x6a)
        .caller(7, 0xc8)
        .exception(3, 16, 0xe0, 0x94)
        .exception(6, 16, 0xe0, 0xd2)
        .unknown(Unknown::NoUnwindInfo)
        .caller(0, 0x44)
        .executed(0x42, 4_000, 0, 0)
        .executed(0xa2, 3_000, 12, 0)
        .executed(0x52, 2_000, 0, 1)
        .executed(0x64, 40_000, 1, 1)
        .executed(0x6a, 25_000, 1, 1)
        .executed(0x72, 190_000, 2, 1)
        .executed(0x64, 20_000, 1, 4)
        .executed(0x72, 60_000, 2, 4)
        .executed(0xc2, 3_000, 7, 1)
        .executed(0xd2, 8_000, 8, 1)
        .executed(0x82, 1_000, 0, 2)
        .executed(0x92, 70_000, 3, 2)
        .executed(0xa2, 45_000, 4, 2)
        .executed(0xe2, 6_000, 9, 2)
        .executed(0xb2, 80_000, 0, 3)
        .executed(0xc2, 5_000, 5, 3)
        .executed(0xd2, 12_000, 6, 3)
        .executed(0xe2, 3_000, 10, 3)
        .executed(0xa2, 2_000, 11, 2)
        .insn(0xe8, 200)
}

/// Profile of two tasks that call `step`, which is interrupted by SysTick, which is interrupted by UART0.
///
/// Stacks: 1 the task's function, 2 SysTick in `step`, 3 its callee, 4 UART0 in that.
pub(crate) fn interrupted() -> Profile {
    empty()
        .function("blink", 0x40, 0x10)
        .function("step", 0x50, 0x10)
        .function("SysTick_Handler", 0x60, 0x10)
        .function("tick", 0x70, 0x10)
        .function("UART0_Handler", 0x80, 0x10)
        .frames(0x45, &["blink", "repeat"])
        .frames(0x52, &["step", "mix", "rotate"])
        .task_called("blink")
        .task_called("IDLE")
        .caller(0, 0x46)
        .exception(1, 15, 0x60, 0x52)
        .caller(2, 0x66)
        .exception(3, 20, 0x81, 0x74)
}

impl Profile {
    /// Changes the machine to a RISC-V `virt`.
    pub(crate) fn on_virt(mut self) -> Profile {
        self.facts.machine = "virt".to_owned();
        self.facts.isa = "riscv64".to_owned();
        self
    }

    /// Adds a function.
    pub(crate) fn function(mut self, name: &str, start: u64, size_bytes: u64) -> Profile {
        self.names.functions.push(Function {
            name: name.to_owned(),
            linkage_name: name.to_owned(),
            start,
            size_bytes,
            file: Some("src/blinky.c".to_owned()),
            line: Some(7),
        });
        self
    }

    /// Adds executions of one instruction of the first vCPU.
    pub(crate) fn insn(mut self, pc: u64, count: u64) -> Profile {
        self.vcpus[0].insns.push(InsnCount { pc, size_bytes: 2, count });
        self.vcpus[0].clock_insns += count;
        self
    }

    /// Adds an arc of the first vCPU.
    pub(crate) fn arc(mut self, arc: (u64, u64), return_addr: Option<u64>, links: bool, count: u64) -> Profile {
        let (site, target) = arc;
        self.vcpus[0].arcs.push(Arc { site, target, return_addr, links, count });
        self
    }

    /// Adds the frames at an address, outermost function first; all but the first are inlined.
    pub(crate) fn frames(mut self, pc: u64, names: &[&str]) -> Profile {
        let mut frames = Vec::new();
        for (depth, name) in names.iter().enumerate() {
            let function = self.names.strings.len() as u32;
            self.names.strings.push((*name).to_owned());
            frames.push(Frame { function, file: None, line: None, inlined: depth > 0 });
        }
        self.names.locations.push((pc, self.names.stacks.len() as u32));
        self.names.stacks.push(frames);
        self
    }

    /// Adds a task with 1,024 bytes of stack; it is an idle task if its name says so.
    pub(crate) fn task_called(mut self, name: &str) -> Profile {
        let number = self.tasks.len() as u64;
        self.tasks.push(Task {
            name: name.to_owned(),
            tcb: 0x2000_0000 + 0x100 * number,
            stack_start: Some(0x2000_1000),
            stack_end: Some(0x2000_1400),
            is_idle: name.starts_with("IDLE"),
            poll: None,
            insns: 0,
            switches: 1,
            deepest_sp: Some(0x2000_1300),
            highest_sp: None,
            painted_bytes: None,
            slept_ns: 0,
            ahead_ns: 0,
            overflow: None,
        });
        self
    }

    fn stack_frame(mut self, parent: u32, kind: FrameKind) -> Profile {
        self.facts.max_depth = Some(64);
        self.stacks.push(StackFrame { parent, kind });
        self
    }

    /// Adds the next frame of call stacks: a caller.
    pub(crate) fn caller(self, parent: u32, return_addr: u64) -> Profile {
        self.stack_frame(parent, FrameKind::Caller { return_addr })
    }

    /// Adds the next frame of call stacks: an exception.
    pub(crate) fn exception(self, parent: u32, number: u64, handler: u64, pc: u64) -> Profile {
        self.stack_frame(parent, FrameKind::Exception { number, handler, pc })
    }

    /// Adds the next frame of call stacks: the end of the known part.
    pub(crate) fn unknown(self, why: Unknown) -> Profile {
        self.stack_frame(0, FrameKind::Unknown(why))
    }

    /// Adds samples of the first vCPU at an address, with the number of their stack and task.
    pub(crate) fn taken(mut self, count: u64, pc: u64, stack: u32, task: u32) -> Profile {
        for _ in 0..count {
            let before_insns = self.samples.last().map_or(0, |sample| sample.at_insns);
            let at_insns = before_insns + self.facts.period_insns;
            self.samples.push(Sample { at_insns, pc, stack, task, ..Sample::default() });
        }
        self
    }

    /// Adds the next node of the exact tree.
    pub(crate) fn node(mut self, parent: u32, kind: NodeKind, insns: u64) -> Profile {
        self.tree.push(Node { parent, kind, via: None, insns, calls: 1, cycles: 0 });
        self
    }

    /// Adds executions of an instruction, and the samples that the period makes of them, with the number of their
    /// stack and task.
    pub(crate) fn executed(self, pc: u64, insns: u64, stack: u32, task: u32) -> Profile {
        let samples = insns / self.facts.period_insns;
        let mut profile = self.taken(samples, pc, stack, task);
        match profile.vcpus[0].insns.iter_mut().find(|insn| insn.pc == pc) {
            Some(insn) => insn.count += insns,
            None => profile = profile.insn(pc, insns),
        }
        profile
    }

    /// Takes the samples of a run in which each instruction executes `count` times in a row.
    pub(crate) fn sampled(mut self) -> Profile {
        for (index, vcpu) in self.vcpus.iter().enumerate() {
            let (mut at_insns, mut next) = (0, self.facts.period_insns);
            for insn in &vcpu.insns {
                at_insns += insn.count;
                while next <= at_insns {
                    let sample = Sample { at_insns: next, pc: insn.pc, vcpu: index as u32, ..Sample::default() };
                    self.samples.push(sample);
                    next += self.facts.period_insns;
                }
            }
        }
        self
    }
}
