// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the exact tree's functions are those that execute, however code is reached: by calls, returns, jumps at
//! the end of a function, jumps out of several, and code that nothing is known of.

use engine::code::Code;
use engine::follow::arrival::{Arrival, link};
use engine::follow::context::Core;
use engine::follow::exception::{enter, leave};
use engine::follow::tree::Tree;
use engine::guest::{Context, Guest, Taken};
use engine::ledger::Ledger;
use wire::control::Word;
use wire::counters::{CLOCK, HERE, LINK, STACK_SET};
use wire::definition::{Definition, NodeKind};
use wire::request::{InlinedCall, Isa, Kernel, Measure, Request};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{Books, Fake, guest, jal, kernel, ledger, request};

const CODE: u64 = 0x8000_1000;
const MAIN: u64 = CODE;
const OUTER: u64 = CODE + 0x100;
const INNER: u64 = CODE + 0x200;
const LEAF: u64 = CODE + 0x300;
const HANDLER: u64 = CODE + 0x400;
const TASK: u64 = CODE + 0x500;
const FUNCTIONS: [u64; 6] = [MAIN, OUTER, INNER, LEAF, HANDLER, TASK];
const OUTSIDE: u64 = CODE + 0x800;
const STACK: u64 = 0x8010_0000;
const FRAME_BYTES: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Place {
    pc: u64,
    sp: u64,
    return_addr: u64,
}

struct Run {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    core: Core,
    tree: Tree,
}

impl Run {
    fn new() -> Run {
        Run::with(Measure { max_depth: Some(64), ..Measure::default() })
    }

    fn with(measure: Measure) -> Run {
        let rule = |cfa_offset_bytes, return_addr| {
            Some(Rule { base: Base::StackPointer, cfa_offset_bytes, return_addr, frame_pointer: Saved::Register })
        };
        let rows = FUNCTIONS.into_iter().flat_map(|pc| {
            let body = if pc == LEAF { rule(0, Saved::Register) } else { rule(16, Saved::AtCfa(-4)) };
            [Row { pc, rule: rule(0, Saved::Register) }, Row { pc: pc + 4, rule: body }]
        });
        let measure = Measure {
            functions: FUNCTIONS.map(|start| start..start + 0x100).to_vec(),
            unwind: rows.chain([Row { pc: TASK + 0x100, rule: None }]).collect(),
            is_exact: true,
            ..measure
        };
        let memory = vec![CODE..CODE + 0x1000, STACK..STACK + 0x1000];
        let request = Request { memory, ..request(Isa::Riscv32, Some(MAIN), measure) };
        let memory = vec![(CODE, vec![0x13; 0x1000]), (STACK, vec![0; 0x1000])];
        Run {
            guest: guest(&request, Fake { memory, ..Fake::riscv(HANDLER) }),
            code: Code::new(&request),
            ledger: ledger(1),
            core: Core::new(0, false),
            tree: Tree::new(&request, 1).unwrap(),
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    fn arrive(&mut self, Place { pc, sp, return_addr }: Place) {
        self.ledger.add(CLOCK, 0, 10);
        self.set("sp", sp);
        self.set("ra", return_addr);
        self.ledger.set(HERE, 0, 0);
        let Run { guest, code, ledger, core, tree } = self;
        leave(core, Some(tree), pc, guest, code, ledger);
        let function = code.function_of(pc);
        Arrival { tree, core, guest, code, ledger }.here(pc, function);
    }

    /// A place in the body of a function that has begun.
    fn body(&mut self, function: u64, sp: u64, return_addr: u64) -> Place {
        if function == LEAF {
            return Place { pc: LEAF + 8, sp, return_addr };
        }
        self.store(sp - 4, return_addr);
        Place { pc: function + 8, sp: sp - FRAME_BYTES, return_addr }
    }

    /// Code at a place calls a function. Returns a place in the body of that one.
    fn call(&mut self, from: Place, function: u64) -> Place {
        self.store(from.pc, jal(from.pc, function));
        self.ledger.set(LINK, 0, link(from.pc + 4, false));
        self.arrive(Place { pc: function, sp: from.sp, return_addr: from.pc + 4 });
        self.body(function, from.sp, from.pc + 4)
    }

    /// The main function begins.
    fn begin(&mut self) -> Place {
        let sp = STACK + 0x800;
        self.arrive(Place { pc: MAIN, sp, return_addr: 0 });
        self.body(MAIN, sp, 0)
    }

    fn functions(&mut self) -> Vec<u64> {
        self.core.frames().iter().map(|frame| frame.entry).collect()
    }

    fn resynchronised(&self) -> Option<u64> {
        self.ledger.records().word(Word::Resynchronised)
    }

    /// Nodes: parent, function, and the inlined code that called it.
    fn nodes(&self) -> Vec<(u32, u64, u64)> {
        let nodes = self.ledger.records().definitions().into_iter().filter_map(|definition| match definition {
            Definition::Node { parent, kind: NodeKind::Function { entry }, via, .. } => Some((parent, entry, via)),
            _ => None,
        });
        nodes.collect()
    }
}

/// The main function has called another one, which has called a third one. Returns their places.
fn nested(run: &mut Run) -> [Place; 3] {
    let main = run.begin();
    let outer = run.call(main, OUTER);
    let inner = run.call(outer, INNER);
    assert_eq!(run.functions(), [MAIN, OUTER, INNER]);
    [main, outer, inner]
}

#[test]
fn function_that_another_one_ends_with_takes_its_place() {
    let mut run = Run::new();
    let [_, outer, inner] = nested(&mut run);
    let entry_sp = inner.sp + FRAME_BYTES;
    run.arrive(Place { pc: LEAF, sp: entry_sp, return_addr: inner.return_addr });
    assert_eq!(run.functions(), [MAIN, OUTER, LEAF]);
    // A loop to its own start is the same call.
    run.arrive(Place { pc: LEAF, sp: entry_sp, return_addr: inner.return_addr });
    assert_eq!(run.functions(), [MAIN, OUTER, LEAF]);
    run.arrive(Place { pc: outer.pc + 4, ..outer });
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, OUTER], None));
}

#[test]
fn function_entered_with_another_stack_pointer_is_found_by_its_return_address() {
    // The caller's return address is that of an outer function, whose frame has gone.
    let mut run = Run::new();
    let [_, outer, inner] = nested(&mut run);
    run.arrive(Place { pc: LEAF, sp: inner.sp - 32, return_addr: outer.return_addr });
    assert_eq!(run.functions(), [MAIN, LEAF]);
    // The last function's own return address, deeper in the stack: the common end of several functions.
    let mut run = Run::new();
    let [.., inner] = nested(&mut run);
    run.arrive(Place { pc: LEAF, sp: inner.sp - 32, return_addr: inner.return_addr });
    assert_eq!(run.functions(), [MAIN, OUTER, LEAF]);
    // It would return into the last function, as if that had called it.
    let mut run = Run::new();
    let [.., inner] = nested(&mut run);
    run.arrive(Place { pc: LEAF, sp: inner.sp, return_addr: inner.pc + 4 });
    assert_eq!(run.functions(), [MAIN, OUTER, INNER, LEAF]);
    // It returns nowhere: other code begins, and the functions wait.
    let mut run = Run::new();
    let [.., inner] = nested(&mut run);
    run.arrive(Place { pc: TASK, sp: inner.sp - 0x100, return_addr: 0 });
    assert_eq!((run.functions(), run.core.parked.len()), (vec![TASK], 1));
    // They go on where they have called it, as a coroutine does.
    run.arrive(Place { pc: inner.pc + 8, ..inner });
    assert_eq!(run.functions(), [MAIN, OUTER, INNER]);
}

#[test]
fn jump_out_of_functions_leaves_them() {
    let mut run = Run::new();
    let [main, outer, inner] = nested(&mut run);
    run.call(inner, LEAF);
    // A longjmp leads into the middle of the outer function, then one into the main one.
    run.arrive(Place { pc: outer.pc + 0x40, ..outer });
    assert_eq!(run.functions(), [MAIN, OUTER]);
    run.call(Place { pc: outer.pc + 0x40, ..outer }, INNER);
    run.arrive(Place { pc: main.pc + 0x40, ..main });
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN], None));
    // An active function whose word of return is unreadable is known by its place on the stack.
    let inner = run.call(main, INNER);
    run.call(inner, LEAF);
    run.store(inner.sp + FRAME_BYTES - 4, 0x1234);
    run.arrive(Place { pc: inner.pc + 0x20, ..inner });
    assert_eq!(run.functions(), [MAIN, INNER]);
}

#[test]
fn stack_is_unwound_where_code_goes_on_unseen() {
    let mut run = Run::new();
    let [_, outer, _] = nested(&mut run);
    // The outer function has called a third one, unseen, which goes on.
    let site = outer.pc + 0x20;
    run.store(site, jal(site, TASK));
    let task = run.body(TASK, outer.sp, site + 4);
    run.arrive(task);
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, OUTER, TASK], Some(1)));
    // On a stack that nothing is known of, as far as that goes.
    let sp = STACK + 0x200;
    run.store(INNER + 0x40, jal(INNER + 0x40, OUTER));
    run.store(sp - 4, INNER + 0x44);
    run.store(sp + 12, 0);
    run.arrive(Place { pc: OUTER + 0x60, sp: sp - 16, return_addr: 0 });
    assert_eq!((run.functions(), run.resynchronised()), (vec![INNER, OUTER], Some(2)));
    // Without a rule, only the executing function is certain.
    run.arrive(Place { pc: MAIN + 0x60, sp: STACK + 0x1000, return_addr: 0 });
    assert_eq!(run.functions().last(), Some(&MAIN));
}

#[test]
fn jump_into_the_middle_of_a_function_takes_its_callers_place() {
    let mut run = Run::new();
    let [_, outer, inner] = nested(&mut run);
    run.tree.will_cross(0, LEAF + 0x20);
    run.arrive(Place { pc: LEAF + 0x20, ..inner });
    assert_eq!(run.functions(), [MAIN, OUTER, LEAF]);
    // One that has not been made leads nowhere.
    run.tree.will_cross(0, LEAF + 0x20);
    run.arrive(Place { pc: outer.pc + 4, ..outer });
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, OUTER], None));
}

#[test]
fn call_of_a_function_that_was_not_seen_to_execute_corrects_the_stack() {
    // The main function calls again, although the last one seen was two deeper.
    let mut run = Run::new();
    let [main, ..] = nested(&mut run);
    run.call(Place { pc: main.pc + 0x20, ..main }, LEAF);
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, LEAF], Some(1)));
    // A function that was never seen calls: it is on the stack, with an unknown caller.
    let from = Place { pc: TASK + 0x20, sp: main.sp - 64, return_addr: 0 };
    run.call(from, LEAF);
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, LEAF, TASK, LEAF], Some(2)));
}

#[test]
fn far_jump_within_a_function_is_no_call() {
    // Armv6-M's only far jump is a call: the return address is kept on the stack.
    let mut run = Run::new();
    let [.., inner] = nested(&mut run);
    run.ledger.set(LINK, 0, link(inner.pc + 4, false));
    run.arrive(Place { pc: INNER + 0x80, sp: inner.sp, return_addr: inner.pc + 4 });
    assert_eq!(run.functions(), [MAIN, OUTER, INNER]);
    // A leaf's is still in its register, so that it calls a function of its own.
    let leaf = run.call(inner, LEAF);
    run.ledger.set(LINK, 0, link(leaf.pc + 4, false));
    run.arrive(Place { pc: LEAF + 0x80, sp: leaf.sp, return_addr: leaf.pc + 4 });
    assert_eq!(run.functions(), [MAIN, OUTER, INNER, LEAF, LEAF]);
}

#[test]
fn helper_returns_with_another_stack_pointer() {
    let mut run = Run::new();
    let [_, _, inner] = nested(&mut run);
    run.ledger.set(LINK, 0, link(inner.pc + 4, true));
    run.arrive(Place { pc: LEAF, ..inner });
    assert_eq!(run.functions(), [MAIN, OUTER, INNER, LEAF]);
    // It has made room for registers.
    run.arrive(Place { pc: inner.pc + 4, sp: inner.sp - 64, ..inner });
    assert_eq!((run.functions(), run.resynchronised()), (vec![MAIN, OUTER, INNER], None));
}

#[test]
fn code_without_a_function_counts_for_its_caller() {
    // Before the firmware's first instruction nothing is its own.
    let mut run = Run::new();
    let outside = |sp| Place { pc: OUTSIDE, sp, return_addr: 0 };
    run.arrive(outside(STACK + 0x800));
    assert_eq!(run.functions(), []);
    let main = run.begin();
    run.arrive(outside(main.sp));
    assert_eq!(run.functions(), [MAIN]);
    // An exception's handler that is not a function is one itself.
    let interrupted = Context { pc: main.pc, sp: main.sp, return_addr: 0, second_return_addr: 0, frame_pointer: 0 };
    let (entry_sp, interrupted) = (main.sp, Some(interrupted));
    let taken = Taken { number: 7, handler: OUTSIDE, entry_sp, saved_sp: entry_sp, interrupted, below: None };
    let Run { guest, code, ledger, core, tree } = &mut run;
    enter(core, Some(tree), taken, guest, code, ledger);
    run.arrive(outside(main.sp - 32));
    assert_eq!(run.functions(), [OUTSIDE]);
}

#[test]
fn exception_right_behind_a_call_or_return_does_not_hide_it() {
    let mut run = Run::new();
    let [_, outer, inner] = nested(&mut run);
    let take = |run: &mut Run, place: Place| {
        let Place { pc, sp, return_addr } = place;
        let interrupted = Some(Context { pc, sp, return_addr, second_return_addr: 0, frame_pointer: 0 });
        let entry_sp = sp - 32;
        let taken = Taken { number: 7, handler: HANDLER, entry_sp, saved_sp: entry_sp, interrupted, below: None };
        let Run { guest, code, ledger, core, tree } = run;
        enter(core, Some(tree), taken, guest, code, ledger);
        let functions: Vec<u64> = run.core.thread.frames.iter().map(|frame| frame.entry).collect();
        run.core.exceptions.clear();
        functions
    };
    // A function has just been called; then it has just returned.
    run.ledger.set(LINK, 0, link(inner.pc + 4, false));
    assert_eq!(
        take(&mut run, Place { pc: LEAF, sp: inner.sp, return_addr: inner.pc + 4 }),
        [MAIN, OUTER, INNER, LEAF]
    );
    assert_eq!(take(&mut run, Place { pc: outer.pc + 4, ..outer }), [MAIN, OUTER]);
}

#[test]
fn calls_of_inlined_code_are_nodes_of_their_own() {
    let site = OUTER + 8;
    let inlined_calls = vec![InlinedCall { return_addr: site + 4, caller: OUTER, via: OUTER + 0x40 }];
    let mut run = Run::with(Measure { inlined_calls, max_depth: Some(64), ..Measure::default() });
    let [_, outer, _] = nested(&mut run);
    run.arrive(Place { pc: outer.pc + 4, ..outer });
    run.call(Place { pc: outer.pc + 0x20, ..outer }, INNER);
    let nodes = run.nodes();
    let of_inner: Vec<u64> = nodes.iter().filter(|(_, entry, _)| *entry == INNER).map(|&(.., via)| via).collect();
    assert_eq!(of_inner, [OUTER + 0x40, 0]);
    // A recursive call is not distinguished, nor one with that return address of another function.
    run.call(Place { pc: site, sp: outer.sp - 64, return_addr: 0 }, OUTER);
    run.ledger.set(LINK, 0, link(site + 4, false));
    run.arrive(Place { pc: OUTER, sp: outer.sp - 96, return_addr: site + 4 });
    assert!(run.nodes().iter().filter(|(_, entry, _)| *entry == OUTER).all(|&(.., via)| via == 0));
}

#[test]
fn calls_beyond_the_greatest_depth_are_siblings() {
    let mut run = Run::with(Measure { max_depth: Some(2), ..Measure::default() });
    let [_, _, inner] = nested(&mut run);
    run.call(inner, LEAF);
    assert_eq!(run.functions(), [MAIN, OUTER, INNER, LEAF]);
    let parents: Vec<(u32, u64)> = run.nodes().into_iter().map(|(parent, entry, _)| (parent, entry)).collect();
    let outer = parents.iter().find(|(_, entry)| *entry == INNER).unwrap().0;
    assert_eq!(parents.iter().find(|(_, entry)| *entry == LEAF).unwrap().0, outer);
    // The same after they have moved to another node.
    let Run { ledger, core, tree, .. } = &mut run;
    tree.rebase(core, ledger);
    let nodes: Vec<u32> = run.core.frames().iter().map(|frame| frame.node).collect();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().collect::<std::collections::BTreeSet<_>>().len() == 4, "{nodes:?}");
}

#[test]
fn first_task_begins_with_a_call_that_never_returns() {
    let kernel = Kernel { begins: vec![TASK], ..kernel(STACK) };
    let mut run = Run::with(Measure { kernel: Some(kernel), max_depth: Some(64), ..Measure::default() });
    let [.., inner] = nested(&mut run);
    run.call(inner, TASK);
    assert_eq!((run.functions(), run.core.parked.len()), (vec![TASK], 1));
    // Or assembly exchanges the stack under itself.
    let kernel = Kernel { begins: vec![TASK], ..crate::fake::kernel(STACK) };
    let mut run = Run::with(Measure { kernel: Some(kernel), max_depth: Some(64), ..Measure::default() });
    let [.., inner] = nested(&mut run);
    run.ledger.set(STACK_SET, 0, 1);
    run.arrive(Place { pc: INNER + 0x60, sp: STACK + 0xf00, return_addr: inner.return_addr });
    assert_eq!(run.functions(), [INNER]);
}
