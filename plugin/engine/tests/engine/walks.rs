// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: a stack is walked by the rules of its code, and ends where they end; what cannot be known is said, with
//! the reason. One case for each kind of code.

use engine::code::Code;
use engine::follow::context::{Active, Core, Exchanged};
use engine::guest::{Context, Guest};
use engine::ledger::Ledger;
use engine::stack::Stacks;
use wire::definition::{FrameKind, Unknown};
use wire::request::{Exchange, Isa, Kernel, Measure, Request};
use wire::unwind::{Base, Row, Rule, Saved};

use crate::fake::{Books, Fake, guest, jal, kernel, ledger, only, request};
use crate::shadow::exception;

const CODE: u64 = 0x8000_1000;
const MAIN: u64 = CODE;
const PLAIN: u64 = CODE + 0x100;
const FRAMED: u64 = CODE + 0x200;
/// Never returns, and does not keep its return address.
const FORGETFUL: u64 = CODE + 0x300;
/// Called by the second link register.
const HELPER: u64 = CODE + 0x400;
/// A function whose return address is still in its register.
const LEAF: u64 = CODE + 0x500;
const NO_RULE: u64 = CODE + 0x600;
const HANDLER: u64 = CODE + 0x700;
const SWAP: u64 = CODE + 0x800;
const EXIT: u64 = CODE + 0x900;
const TASK: u64 = CODE + 0xa00;
const FUNCTIONS: [u64; 11] = [MAIN, PLAIN, FRAMED, FORGETFUL, HELPER, LEAF, NO_RULE, HANDLER, SWAP, EXIT, TASK];
const OUTSIDE: u64 = CODE + 0xc00;
const STACK: u64 = 0x8010_0000;
const SP: u64 = STACK + 0x100;

struct Run {
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
    stacks: Stacks,
    core: Core,
}

fn rule_of(function: u64) -> Option<Rule> {
    let rule = |cfa_offset_bytes, return_addr| Rule {
        base: Base::StackPointer,
        cfa_offset_bytes,
        return_addr,
        frame_pointer: Saved::Register,
    };
    Some(match function {
        NO_RULE | SWAP | OUTSIDE => return None,
        FRAMED => Rule { base: Base::FramePointer, frame_pointer: Saved::AtCfa(-8), ..rule(0, Saved::AtCfa(-4)) },
        FORGETFUL => Rule { frame_pointer: Saved::Lost, ..rule(16, Saved::Lost) },
        HELPER => rule(0, Saved::SecondLink),
        LEAF => rule(0, Saved::Register),
        _ => rule(16, Saved::AtCfa(-4)),
    })
}

impl Run {
    fn new() -> Run {
        Run::with(64)
    }

    fn with(max_depth: u32) -> Run {
        let exchanges = vec![Exchange { entry: SWAP, is_by_exception: false }];
        let kernel =
            Kernel { exchanges, exit: Some(EXIT), called_begins: vec![TASK], saved_sp: Some(0), ..kernel(STACK) };
        let measure = Measure {
            functions: FUNCTIONS.map(|start| start..start + 0x100).to_vec(),
            unwind: FUNCTIONS.into_iter().chain([OUTSIDE]).map(|pc| Row { pc, rule: rule_of(pc) }).collect(),
            forgetful: vec![FORGETFUL],
            forgetting: only(LEAF + 0x20..LEAF + 0x28),
            max_depth: Some(max_depth),
            kernel: Some(kernel),
            ..Measure::default()
        };
        let memory = vec![CODE..CODE + 0x1000, STACK..STACK + 0x1000];
        let request = Request { memory, ..request(Isa::Riscv32, Some(MAIN), measure) };
        let memory = vec![(CODE, vec![0x13; 0x1000]), (STACK, vec![0; 0x1000])];
        let mut run = Run {
            guest: guest(&request, Fake { memory, ..Fake::riscv(HANDLER) }),
            code: Code::new(&request),
            ledger: ledger(1),
            stacks: Stacks::new(&request).unwrap(),
            core: Core::new(0, false),
        };
        run.core.task = 1;
        // Each function calls the next one at the same place.
        for function in FUNCTIONS {
            run.store(function + 0x24, jal(function + 0x24, PLAIN));
        }
        run
    }

    fn store(&mut self, address: u64, word: u64) {
        self.guest.registers().unwrap().store(address, word);
    }

    /// Stack at an instruction, from the innermost caller outwards.
    fn walk(&mut self, pc: u64, registers: &[(&str, u64)]) -> Vec<FrameKind> {
        self.set(registers);
        let Run { guest, code, ledger, stacks, core } = self;
        stacks.take(core, pc, false, guest, code, ledger)
    }

    fn set(&mut self, registers: &[(&str, u64)]) {
        registers.iter().for_each(|&(name, value)| self.guest.registers().unwrap().set(name, value));
    }
}

/// Return address of a function's call, and the frame that stands for it.
fn after(function: u64) -> u64 {
    function + 0x28
}

fn caller(function: u64) -> FrameKind {
    FrameKind::Caller { return_addr: after(function) }
}

#[test]
fn frame_is_found_by_the_stack_pointer_or_the_frame_pointer() {
    let mut run = Run::new();
    run.store(SP + 12, after(FRAMED));
    // The frame of the function in between ends at the frame pointer, which it has saved there.
    let fp = SP + 0x80;
    run.store(fp - 4, after(PLAIN));
    run.store(fp - 8, 0x1234);
    run.store(fp + 12, after(MAIN));
    let expected = [caller(FRAMED), caller(PLAIN), caller(MAIN)];
    assert_eq!(run.walk(PLAIN + 8, &[("sp", SP), ("fp", fp)]), expected);
    // A frame that does not lie above the one before is none, nor is one outside of memory or between words.
    for fp in [SP - 0x40, STACK + 0x1004, fp + 2, SP + 16] {
        assert_eq!(run.walk(PLAIN + 8, &[("fp", fp)])[1..], [FrameKind::Unknown(Unknown::Corrupt)], "{fp:x}");
    }
    // The word is not behind a call.
    run.store(SP + 12, PLAIN + 4);
    assert_eq!(run.walk(PLAIN + 8, &[("fp", fp)]), [FrameKind::Unknown(Unknown::Corrupt)]);
    // Nothing can be read.
    run.guest.vanish();
    assert_eq!(run.walk(PLAIN + 8, &[("fp", fp)]), [FrameKind::Unknown(Unknown::Corrupt)]);
}

#[test]
fn stack_is_cut_at_the_greatest_depth() {
    let mut run = Run::with(3);
    for sp in (SP..SP + 0x100).step_by(16) {
        run.store(sp + 12, after(PLAIN));
    }
    let callers = [caller(PLAIN), caller(PLAIN), caller(PLAIN), FrameKind::Unknown(Unknown::TooDeep)];
    assert_eq!(run.walk(PLAIN + 8, &[("sp", SP)]), callers);
}

#[test]
fn function_that_never_returns_is_left_by_what_was_kept() {
    let mut run = Run::new();
    let not_kept = [FrameKind::Unknown(Unknown::NotKept)];
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP - 16)]), not_kept);
    // At its first instruction the register still has it.
    let call = MAIN + 0x44;
    run.store(call, jal(call, FORGETFUL));
    run.set(&[("sp", SP), ("ra", call + 4)]);
    run.stacks.keep_return_address(FORGETFUL, false, &mut run.guest, &run.code);
    let from_main = [FrameKind::Caller { return_addr: call + 4 }];
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP - 16)]), from_main);
    // A loop to its start finds the return address of a call of its own, which is not kept.
    run.set(&[("sp", SP), ("ra", after(FORGETFUL))]);
    run.stacks.keep_return_address(FORGETFUL, true, &mut run.guest, &run.code);
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP - 16)]), from_main);
    run.set(&[("sp", SP - 16)]);
    {
        let Run { guest, code, ledger, stacks, core } = &mut run;
        assert_eq!(stacks.take(core, FORGETFUL, true, guest, code, ledger), from_main);
    }
    // A call from elsewhere is another activation.
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP)]), not_kept);
    // A switch returns into a coroutine: the register has the return address of a call of another function, so that
    // nothing called this one.
    run.store(FORGETFUL - 4, 0x8067);
    run.set(&[("sp", SP + 0x40), ("ra", after(MAIN))]);
    run.stacks.keep_return_address(FORGETFUL, false, &mut run.guest, &run.code);
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP + 0x30)]), []);
    // By a pointer, such a call may have led here.
    run.set(&[("sp", SP + 0x40), ("ra", after(MAIN))]);
    run.stacks.keep_return_address(FORGETFUL, true, &mut run.guest, &run.code);
    assert_eq!(run.walk(FORGETFUL + 8, &[("sp", SP + 0x30)]), [caller(MAIN)]);
}

#[test]
fn return_address_is_kept_before_a_call_that_never_returns() {
    let mut run = Run::new();
    assert!(run.code.is_forgetting(LEAF + 0x20) && !run.code.is_forgetting(LEAF + 0x24));
    // The callee knows its caller, whose own caller nothing has any more.
    run.store(SP + 12, after(LEAF));
    let walk = |run: &mut Run| run.walk(PLAIN + 8, &[("sp", SP), ("ra", after(LEAF))]);
    assert_eq!(walk(&mut run), [caller(LEAF), FrameKind::Unknown(Unknown::NotKept)]);
    run.set(&[("sp", SP + 16), ("ra", after(MAIN))]);
    run.stacks.keep_before_call(LEAF + 0x20, &mut run.guest, &mut run.code);
    assert_eq!(walk(&mut run), [caller(LEAF), caller(MAIN)]);
    // Code without a rule has nothing to keep.
    run.stacks.keep_before_call(NO_RULE, &mut run.guest, &mut run.code);
}

#[test]
fn any_address_may_be_an_entry_where_no_functions_are_known() {
    let run = Run::new();
    assert!(run.code.may_be_entry(LEAF) && !run.code.may_be_entry(LEAF + 4) && !run.code.may_be_entry(OUTSIDE));
    let stripped = Code::new(&request(Isa::Riscv32, Some(MAIN), Measure::default()));
    assert!(stripped.may_be_entry(LEAF) && stripped.may_be_entry(LEAF + 4));
}

#[test]
fn helper_returns_by_the_second_link_register() {
    let mut run = Run::new();
    // The function that called it has its return address still in the first one.
    run.store(LEAF + 0x44, jal(LEAF + 0x44, HELPER));
    let return_addr = LEAF + 0x48;
    let expected = [FrameKind::Caller { return_addr }, caller(MAIN)];
    assert_eq!(run.walk(HELPER + 4, &[("sp", SP), ("t0", return_addr), ("ra", after(MAIN))]), expected);
}

#[test]
fn code_without_a_rule_is_passed_only_where_it_was_called() {
    let mut run = Run::new();
    let unknown = [FrameKind::Unknown(Unknown::NoUnwindInfo)];
    assert_eq!(run.walk(NO_RULE + 4, &[("sp", SP), ("ra", after(MAIN))]), unknown);
    // Code that is not a function, as if it were a leaf.
    run.store(SP + 12, after(MAIN));
    assert_eq!(run.walk(OUTSIDE, &[("ra", after(PLAIN))]), [caller(PLAIN), caller(MAIN)]);
    assert_eq!(run.walk(OUTSIDE, &[("ra", PLAIN + 4)]), unknown);
    assert_eq!(run.walk(OUTSIDE, &[("ra", after(NO_RULE))]), unknown);
    // It may have moved the stack: then the next frame proves nothing.
    run.store(SP + 12, PLAIN + 4);
    assert_eq!(run.walk(OUTSIDE, &[("ra", after(PLAIN))]), [caller(PLAIN), unknown[0]]);
}

/// Exception in a plain function that the main one has called.
fn interrupting(run: &mut Run, is_known: bool) {
    let context = Context { pc: PLAIN + 8, sp: SP, return_addr: 0x99, second_return_addr: 0, frame_pointer: 0 };
    run.store(SP + 12, after(MAIN));
    let interrupted = is_known.then_some(context);
    run.core.exceptions = vec![Active { handler: HANDLER, interrupted, ..exception(7, SP, 0) }];
}

#[test]
fn handler_leads_to_the_code_that_it_interrupted() {
    let crossed = |pc| FrameKind::Exception { number: 7, handler: HANDLER, pc };
    // In the handler, and in a function that it has called.
    let mut run = Run::new();
    interrupting(&mut run, true);
    run.store(SP - 4, 0x99);
    run.store(SP - 20, after(HANDLER));
    let expected = [crossed(PLAIN + 8), caller(MAIN)];
    assert_eq!(run.walk(HANDLER + 8, &[("sp", SP - 16)]), expected);
    assert_eq!(run.walk(PLAIN + 8, &[("sp", SP - 32)]), [&[caller(HANDLER)][..], &expected].concat());
    // It has exchanged its stack, or its frame is broken: it is the handler all the same.
    assert_eq!(run.walk(HANDLER + 8, &[("sp", STACK + 0x1000)]), expected);
    assert_eq!(run.walk(HANDLER + 8, &[("sp", STACK + 0x800)]), expected);
    // Code that is not a function executes for it.
    assert_eq!(run.walk(OUTSIDE, &[("ra", 0x99)]), expected);
    let unknown = FrameKind::Unknown(Unknown::NoUnwindInfo);
    assert_eq!(run.walk(NO_RULE + 4, &[]), [unknown]);
    // A task that has not run yet has nothing below.
    interrupting(&mut run, false);
    assert_eq!(run.walk(HANDLER + 8, &[("sp", SP - 16)]), [crossed(0)]);
}

#[test]
fn exchange_leads_to_the_code_on_the_stack_before() {
    let mut run = Run::new();
    let unknown = FrameKind::Unknown(Unknown::NoUnwindInfo);
    assert_eq!(run.walk(SWAP + 8, &[("sp", SP)]), [unknown]);
    let exchange = |pc, is_by_exception| {
        let outer = Context { pc, sp: STACK + 0x400, return_addr: 0, second_return_addr: 0, frame_pointer: 0 };
        Exchanged { entry: SWAP, outer, is_by_exception }
    };
    run.store(STACK + 0x40c, after(MAIN));
    for (exchanged, expected) in [
        (exchange(after(PLAIN), false), vec![caller(PLAIN), caller(MAIN)]),
        // It must have been called.
        (exchange(PLAIN + 4, false), vec![unknown]),
        // The handler that went on with it need not be.
        (exchange(PLAIN + 8, true), vec![FrameKind::Caller { return_addr: PLAIN + 8 }, caller(MAIN)]),
    ] {
        run.core.exchanged.insert(1, exchanged);
        assert_eq!(run.walk(SWAP + 8, &[("sp", SP)]), expected);
    }
}

#[test]
fn task_begins_and_ends_where_the_kernel_says() {
    let mut run = Run::new();
    // Tasks return into their end, so that what the word says is not its caller.
    run.store(SP + 12, after(MAIN));
    assert_eq!(run.walk(EXIT + 8, &[("sp", SP)]), []);
    // Unless it was called.
    run.store(MAIN + 0x44, jal(MAIN + 0x44, EXIT));
    let return_addr = MAIN + 0x48;
    run.store(SP + 12, return_addr);
    assert_eq!(run.walk(EXIT + 8, &[("sp", SP)]), [FrameKind::Caller { return_addr }]);
    // A function that begins tasks and is called: the task's first stack pointer decides.
    assert_eq!(run.walk(TASK + 8, &[("sp", SP)]), [FrameKind::Caller { return_addr }]);
    run.core.first_sp.insert(1, SP + 16);
    assert_eq!(run.walk(TASK + 8, &[("sp", SP)]), []);
}

#[test]
fn stack_of_a_cortex_m_begins_with_its_reset() {
    let rule = rule_of(LEAF).map(|rule| Rule { cfa_offset_bytes: 8, return_addr: Saved::AtCfa(-4), ..rule });
    let measure = Measure {
        functions: only(0x100..0x200),
        unwind: vec![Row { pc: 0x100, rule }],
        max_depth: Some(8),
        ..Measure::default()
    };
    let request = Request { memory: only(0..0x400), ..request(Isa::ThumbV7m, None, measure) };
    // The initial stack pointer is 0x400; lr at reset, a thread's lr of nowhere, and any other value.
    for (sp, task, lr, is_root) in [
        (0x3f8, 0, 0xffff_ffff, true),
        (0x3e8, 0, 0xffff_ffff, false),
        (0x3e8, 1, 0xffff_ffff, true),
        (0x3e8, 0, 0xffff_fff2, true),
        (0x3e8, 0, 0x105, false),
        (0x3e8, 0, 0, true),
    ] {
        let mut fake = Fake { memory: vec![(0, vec![0; 0x400]), (0xe000_e000, vec![0; 0x1000])], ..Fake::default() };
        ["xpsr", "lr", "r7", "psp"].iter().for_each(|name| fake.set(name, 0));
        fake.set("sp", sp);
        fake.store(0, 0x400);
        fake.store(sp + 4, lr);
        let (mut guest, mut code, ledger) = (guest(&request, fake), Code::new(&request), ledger(1));
        let mut core = Core::new(0, false);
        core.task = task;
        let stack = Stacks::new(&request).unwrap().take(&core, 0x110, false, &mut guest, &mut code, &ledger);
        let expected = if is_root { vec![] } else { vec![FrameKind::Unknown(Unknown::Corrupt)] };
        assert_eq!(stack, expected, "{sp:x} {task} {lr:x}");
    }
}
