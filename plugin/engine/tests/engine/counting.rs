// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: *clock - origin* is the number of started instructions, and each counter is the number of times that
//! its instructions have started, even if a block is left early. A sample is the instruction at which the clock
//! reaches a multiple of the period. A run that ends at an instruction has counted up to it.

use std::collections::BTreeMap;

use engine::block::{Block, Blocks, Count, Segment, counts};
use engine::clock::{self, Clock, Event, Suspect};
use engine::ledger::Ledger;
use proptest::prelude::*;
use wire::control::End;
use wire::counters::{CLOCK, DUE};
use wire::definition::Definition;
use wire::request::{Isa, Measure, Request};

use crate::fake::{Books, config, execute, ledger, request};

/// A block: the lengths of its segments, and whether it is counted as a whole.
#[derive(Clone, Debug)]
struct Shape {
    lengths: Vec<u32>,
    is_whole: bool,
}

/// One execution: index of the block, and index of the last segment that starts.
type Execution = (usize, usize);

#[derive(Clone, Debug)]
struct Program {
    shapes: Vec<Shape>,
    executions: Vec<Execution>,
    period_insns: u64,
    jitter_seed: Option<u64>,
    for_insns: Option<u64>,
}

fn programs() -> impl Strategy<Value = Program> {
    let shape = (prop::collection::vec(1..6u32, 1..6), any::<bool>());
    let shape = shape.prop_map(|(lengths, is_whole)| Shape { is_whole: is_whole && lengths.len() > 1, lengths });
    let executions = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..120);
    let limits = (1..40u64, prop::option::of(any::<u64>()), prop::option::of(1..400u64));
    (prop::collection::vec(shape, 1..6), executions, limits).prop_map(|(shapes, executions, limits)| {
        let (period_insns, jitter_seed, for_insns) = limits;
        let executions = executions.into_iter().map(|(block, exit)| {
            let block = block.index(shapes.len());
            (block, exit.index(shapes[block].lengths.len()))
        });
        Program { executions: executions.collect(), shapes, period_insns, jitter_seed, for_insns }
    })
}

/// Address of a block's `index`-th instruction; instructions have two bytes.
fn address(block: usize, index: u32) -> u64 {
    0x1000 * (block as u64 + 1) + 2 * u64::from(index)
}

/// Result of the run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    insns: u64,
    /// Number of times that each instruction has started, by its address.
    counts: BTreeMap<u64, u64>,
    /// Number of the instruction and address of each sample.
    samples: Vec<(u64, u64)>,
}

/// Model: counts instruction by instruction.
fn naive(program: &Program, sampled_at: &[u64]) -> Outcome {
    let mut outcome = Outcome::default();
    for &(block, exit) in &program.executions {
        let started: u32 = program.shapes[block].lengths[..=exit].iter().sum();
        for index in 0..started {
            if program.for_insns.is_some_and(|limit| outcome.insns == limit) {
                return outcome;
            }
            outcome.insns += 1;
            *outcome.counts.entry(address(block, index)).or_default() += 1;
            if sampled_at.contains(&outcome.insns) {
                outcome.samples.push((outcome.insns, address(block, index)));
            }
        }
    }
    outcome
}

/// The plugin's counting parts, composed as in the plugin.
struct Plugin {
    ledger: Ledger<Books>,
    blocks: Blocks,
    clock: Clock,
    samples: Vec<(u64, u64)>,
    is_over: bool,
}

impl Plugin {
    fn new(request: &Request) -> Plugin {
        let mut clock = Clock::new(request, 1);
        let ledger = ledger(1);
        clock.open_window(&ledger);
        Plugin { ledger, blocks: Blocks::default(), clock, samples: Vec::new(), is_over: false }
    }

    fn translate(&mut self, number: usize, shape: &Shape) -> usize {
        let sizes = |count: u32| vec![2u8; count as usize].into_boxed_slice();
        let total: u32 = shape.lengths.iter().sum();
        let parts = if shape.is_whole { vec![total] } else { shape.lengths.clone() };
        let mut start = 0;
        let segments = parts.iter().map(|&length| {
            let pc = address(number, start);
            start += length;
            (self.ledger.segment(Segment { pc, sizes: sizes(length), transfer: None }), length)
        });
        let segments = segments.collect();
        let mut end = 0;
        let ends = shape.lengths.iter().map(|length| {
            end += length;
            end
        });
        let exits = ends.take(if shape.is_whole { shape.lengths.len() - 1 } else { 0 }).collect();
        self.blocks.number(Block { pc: address(number, 0), function: None, sizes: sizes(total), segments, exits })
    }

    /// Handles due events like `State::settle`, before the clock is read.
    fn settle(&mut self) {
        clock::amend(0, &self.blocks, &mut self.ledger);
        while let Some(due) = self.clock.due(0, &self.ledger) {
            let pc = self.blocks.get(due.block).pc_of(due.index);
            match due.event {
                Event::Sample => self.samples.push((due.at_insns, pc)),
                Event::End(End::For) => {
                    let block = self.blocks.get(due.block);
                    // Doing and undoing this any number of times leaves the same counts.
                    self.ledger.uncount(0, block, due.index, due.overrun_insns);
                    self.ledger.recount(0, block, due.index, due.overrun_insns);
                    self.ledger.uncount(0, block, due.index, due.overrun_insns);
                    clock::set_back(0, due.at_insns, &self.ledger);
                    self.is_over = true;
                    return;
                }
                Event::Half => {}
                event => panic!("{event:?}"),
            }
        }
    }

    /// Counts one execution like generated code and its callback.
    fn execute(&mut self, number: usize, started: u32) {
        let block = self.blocks.get(number).clone();
        if self.ledger.get(CLOCK, 0) >= DUE - block.insns() {
            self.settle();
            if self.is_over {
                return;
            }
            let called = clock::called(0, &self.ledger);
            if called.for_event(block.insns()) {
                let reach = self.clock.is_in_reach(0, block.insns(), &self.ledger);
                let insns = self.ledger.insns(0);
                let suspect = reach.then(|| Suspect { block: number, index: 0, insns, stack: Vec::new() });
                self.clock.suspect(0, suspect, &self.ledger);
            } else {
                called.go_on(0, &self.ledger);
            }
        }
        for (index, count) in counts(number, &block) {
            if index < started as usize {
                count.steps(index == 0, false).for_each(|step| execute(step, 0, &self.ledger));
            }
            // After `Closed` the block cannot be left early, so all its instructions start.
            assert!(!matches!(count, Count::Closed) || index < block.sizes.len());
        }
    }

    fn outcome(&self) -> Outcome {
        let mut counts = BTreeMap::new();
        for definition in self.ledger.records().definitions() {
            let Definition::Segment { slot, pc, sizes, .. } = definition else { continue };
            let count = self.ledger.get(slot, 0);
            for index in 0..sizes.len() as u64 {
                let total: &mut u64 = counts.entry(pc + 2 * index).or_default();
                *total = total.wrapping_add(count);
            }
        }
        counts.retain(|_, count| *count != 0);
        Outcome { insns: self.ledger.insns(0), counts, samples: self.samples.clone() }
    }
}

fn run(program: &Program) -> Outcome {
    let measure = Measure {
        period_insns: Some(program.period_insns),
        jitter_seed: program.jitter_seed,
        for_insns: program.for_insns,
        ..Measure::default()
    };
    let mut plugin = Plugin::new(&request(Isa::Riscv32, None, measure));
    let blocks: Vec<usize> =
        program.shapes.iter().enumerate().map(|(number, shape)| plugin.translate(number, shape)).collect();
    for &(block, exit) in &program.executions {
        if plugin.is_over {
            break;
        }
        let started = program.shapes[block].lengths[..=exit].iter().sum();
        plugin.execute(blocks[block], started);
    }
    if !plugin.is_over {
        plugin.settle();
    }
    plugin.outcome()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_clock_says_how_many_instructions_started_wherever_a_block_is_left(program in programs()) {
        let told = run(&program);
        let sampled_at: Vec<u64> = match program.jitter_seed {
            None => (1..=told.insns).filter(|insns| insns % program.period_insns == 0).collect(),
            Some(_) => told.samples.iter().map(|&(at, _)| at).collect(),
        };
        prop_assert_eq!(told, naive(&program, &sampled_at));
    }

    #[test]
    fn the_same_is_counted_by_segments_and_by_whole_blocks(program in programs()) {
        let by_segments = Program {
            shapes: program.shapes.iter().map(|shape| Shape { is_whole: false, ..shape.clone() }).collect(),
            ..program.clone()
        };
        prop_assert_eq!(run(&program), run(&by_segments));
    }
}
