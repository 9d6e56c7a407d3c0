// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: the parts that follow the execution agree on where it is: the task, the exceptions, the zone and the
//! node of the exact tree, before the window and in it.

use engine::code::Code;
use engine::follow::Follow;
use engine::follow::exception::enter;
use engine::guest::{Context, Guest, Taken};
use engine::ledger::Ledger;
use wire::control::Word;
use wire::counters::{CLOCK, TASK, TASK_SINCE};
use wire::definition::{Definition, NodeCounter, NodeKind, TaskCounter};
use wire::request::{Exchange, Isa, Kernel, Lives, Measure, Paint, Poll, Request, StackEnd, TaskName};
use wire::stream::StreamFile;
use wire::timeline::{Decoder, Life, Wanted, What, Why};
use wire::zone::{Call, Event, EventKind, WaitingCall};

use crate::fake::{Books, Fake, guest, kernel, ledger, only, riscv_request};

const CODE: u64 = 0x8000_0000;
const HANDLER: u64 = CODE + 0x100;
const IDLE: u64 = CODE + 0x200;
const DELETE: u64 = CODE + 0x300;
const EXIT: u64 = CODE + 0x400;
const POLL: u64 = CODE + 0x500;
const MEMORY: u64 = 0x8020_0000;
const CURRENT: u64 = MEMORY + 0xf00;
const NEXT: u64 = MEMORY + 0xf04;
const RUNNING: u64 = MEMORY + 0xf08;
const IDLE_TCB: u64 = MEMORY + 0xf0c;
const TCBS: [u64; 3] = [MEMORY, MEMORY + 0x40, MEMORY + 0x80];
const STACKS: u64 = MEMORY + 0x400;

struct Run {
    follow: Follow,
    guest: Guest<Fake>,
    code: Code,
    ledger: Ledger<Books>,
}

impl Run {
    fn new(measure: Measure) -> Run {
        let request = riscv_request(measure);
        let mut ledger = ledger(1);
        let follow = Follow::new(&request, 1, &mut ledger);
        let mut fake = Fake::riscv(HANDLER);
        ["a0", "a1"].iter().for_each(|name| fake.set(name, 0));
        fake.memory = vec![(MEMORY, vec![0; 0x1000]), (CODE, vec![0x13; 0x1000])];
        Run { follow, guest: guest(&request, fake), code: Code::new(&request), ledger }
    }

    /// A kernel that has every member that a layout can have, and three tasks.
    fn with_kernel(is_exact: bool) -> Run {
        let kernel = Kernel {
            running: Some(RUNNING..RUNNING + 4),
            next: Some(NEXT..NEXT + 4),
            idle: vec![IDLE_TCB],
            idle_entries: vec![IDLE],
            name: Some(TaskName { at: 16..20, is_pointer: true }),
            saved_sp: Some(0),
            stack: Some(4),
            stack_end: Some(StackEnd { offset: 8, bytes: 4, is_size: false, plus_bytes: 4 }),
            paint: Some(Paint::Byte(0x5a)),
            delete: Some(DELETE),
            exit: Some(EXIT),
            switchers: only(CODE..CODE + 0x80),
            saves_first: true,
            ..kernel(CURRENT)
        };
        let timeline = Wanted { functions: Vec::new(), waits: None };
        let functions = vec![HANDLER..HANDLER + 0x100, IDLE..DELETE, DELETE..EXIT];
        let measure =
            Measure { kernel: Some(kernel), is_exact, functions, timeline: Some(timeline), ..Measure::default() };
        let mut run = Run::new(measure);
        for (tcb, index) in TCBS.into_iter().zip(0..) {
            let stack = STACKS + 0x100 * index;
            let name = MEMORY + 0x200 + 8 * index;
            run.store(&[(tcb, stack + 0xe0), (tcb + 4, stack), (tcb + 8, stack + 0xfc), (tcb + 16, name)]);
            run.store(&[(name, u64::from(b'A') + index)]);
        }
        run.store(&[(RUNNING, 1), (NEXT, 1)]);
        // The other one opens its window later.
        if !is_exact {
            run.ledger.open_timeline();
        }
        run
    }

    fn store(&mut self, stores: &[(u64, u64)]) {
        stores.iter().for_each(|&(address, word)| self.guest.registers().unwrap().store(address, word));
    }

    fn set(&mut self, name: &str, value: u64) {
        self.guest.registers().unwrap().set(name, value);
    }

    fn after(&mut self, insns: u64) {
        self.ledger.add(CLOCK, 0, insns);
    }

    /// The kernel names a task, with its stack pointer in the register.
    fn switch(&mut self, tcb: u64) {
        let sp = if tcb == 0 { 0 } else { self.guest.memory_word(tcb, 4).unwrap() };
        self.set("sp", sp);
        self.store(&[(CURRENT, tcb)]);
        let Run { follow: Follow { cores, tree, tasks, .. }, guest, ledger, .. } = self;
        tasks.as_mut().unwrap().switch(&mut cores[0], tree.as_mut(), guest, ledger);
    }

    fn take(&mut self, number: u64) {
        self.take_from(number, 0, None);
    }

    /// Takes an exception for which the processor saves registers of the interrupted code down to an address.
    fn take_from(&mut self, number: u64, saved_sp: u64, interrupted: Option<Context>) {
        let taken = Taken { number, handler: HANDLER, entry_sp: 0x300, saved_sp, interrupted, below: None };
        let Run { follow: Follow { cores, tree, .. }, guest, code, ledger } = self;
        enter(&mut cores[0], tree.as_mut(), taken, guest, code, ledger);
    }

    fn tasks(&self) -> Vec<(u32, u64, String, u64, u64, bool)> {
        let tasks = self.ledger.records().definitions().into_iter().filter_map(|definition| match definition {
            Definition::Task { slot, tcb, name, stack_start, stack_end, is_idle, .. } => {
                Some((slot, tcb, name, stack_start, stack_end, is_idle))
            }
            _ => None,
        });
        tasks.collect()
    }

    fn counter(&self, task: usize, counter: TaskCounter) -> u64 {
        self.ledger.get(self.tasks()[task - 1].0 + counter as u32, 0)
    }

    fn events(&self) -> Vec<What> {
        let events = Decoder::new(self.ledger.records().stream(StreamFile::Timeline));
        events.map(|event| event.unwrap().what).collect()
    }
}

#[test]
fn task_is_what_its_control_block_says() {
    let mut run = Run::with_kernel(false);
    run.store(&[(IDLE_TCB, TCBS[1])]);
    run.switch(TCBS[0]);
    run.after(10);
    run.switch(TCBS[1]);
    run.after(20);
    run.switch(TCBS[0]);
    run.after(5);
    // The name cannot be read.
    run.store(&[(TCBS[2] + 16, 0)]);
    run.switch(TCBS[2]);
    let stack = |index: u64| (STACKS + 0x100 * index, STACKS + 0x100 * (index + 1));
    let tasks: Vec<_> = run
        .tasks()
        .into_iter()
        .map(|(_, tcb, name, start, end, is_idle)| (tcb, name, (start, end), is_idle))
        .collect();
    let expected = [
        (TCBS[0], "A".to_owned(), stack(0), false),
        (TCBS[1], "B".to_owned(), stack(1), true),
        (TCBS[2], String::new(), stack(2), false),
    ];
    assert_eq!(tasks, expected);
    let counts = |counter| [1, 2].map(|task| run.counter(task, counter));
    assert_eq!((counts(TaskCounter::Insns), counts(TaskCounter::Switches)), ([15, 20], [2, 1]));
    assert_eq!((run.ledger.get(TASK, 0), run.ledger.get(TASK_SINCE, 0)), (3, 35));
    assert_eq!(run.follow.place(0, &mut run.ledger), (3, 0, 0));
    let tasks = run.follow.tasks.as_ref().unwrap();
    assert!(tasks.is_idle(2) && !tasks.is_idle(1) && tasks.idles_at(IDLE) && !tasks.idles_at(DELETE));
    assert!(tasks.may_switch_at(CODE + 0x7f) && !tasks.may_switch_at(CODE + 0x80));
    assert_eq!([CURRENT, RUNNING, NEXT].map(|at| tasks.may_switch_by(at)), [true, true, false]);
}

#[test]
fn first_task_starts_only_on_its_stack() {
    let mut run = Run::with_kernel(false);
    assert!(run.follow.tasks.as_ref().unwrap().waits_for_first());
    // The kernel prepares it, on another stack; then the scheduler does not run yet.
    run.store(&[(CURRENT, TCBS[0]), (RUNNING, 0)]);
    run.set("sp", STACKS + 0xe0);
    for (running, sp) in [(0, STACKS + 0xe0), (1, MEMORY), (1, STACKS + 0xe0 + 1025)] {
        run.store(&[(RUNNING, running)]);
        run.set("sp", sp);
        run.follow.check_task(0, &mut run.guest, &mut run.ledger);
        assert_eq!(run.follow.cores[0].task, 0);
    }
    run.set("sp", STACKS + 0xf0);
    run.follow.check_task(0, &mut run.guest, &mut run.ledger);
    assert_eq!((run.follow.cores[0].task, run.ledger.records().word(Word::UnseenSwitches)), (1, Some(1)));
    assert!(!run.follow.tasks.as_ref().unwrap().waits_for_first());
    // Another task that was switched in by code that is not known.
    run.follow.check_task(0, &mut run.guest, &mut run.ledger);
    run.store(&[(CURRENT, TCBS[1])]);
    run.follow.check_task(0, &mut run.guest, &mut run.ledger);
    assert_eq!((run.follow.cores[0].task, run.ledger.records().word(Word::UnseenSwitches)), (2, Some(2)));
    let switched = |task| What::Switched { task, why: Why::Unknown };
    let events: Vec<What> = run.events().into_iter().filter(|what| !matches!(what, What::Stack { .. })).collect();
    assert_eq!(events, [switched(1), switched(2)]);
}

#[test]
fn kernel_without_a_task_to_run_idles() {
    let mut run = Run::with_kernel(false);
    run.switch(TCBS[0]);
    run.after(10);
    // It runs none, but will: it has not decided yet.
    run.store(&[(NEXT, 0)]);
    run.switch(0);
    run.after(30);
    run.switch(0);
    run.store(&[(NEXT, TCBS[1])]);
    run.switch(TCBS[1]);
    run.after(5);
    run.store(&[(NEXT, 0)]);
    run.switch(0);
    run.switch(TCBS[0]);
    let names: Vec<(String, bool)> = run.tasks().into_iter().map(|(_, _, name, _, _, idle)| (name, idle)).collect();
    assert_eq!(names, [("A".to_owned(), false), ("idle".to_owned(), true), ("B".to_owned(), false)]);
    assert_eq!([1, 2, 3].map(|task| run.counter(task, TaskCounter::Insns)), [10, 30, 5]);
    assert_eq!(run.counter(2, TaskCounter::Switches), 2);
}

#[test]
fn idle_task_is_known_by_its_function() {
    let mut run = Run::with_kernel(false);
    run.switch(TCBS[0]);
    run.switch(TCBS[1]);
    let idle = |run: &mut Run| {
        let Run { follow: Follow { tasks, .. }, guest, ledger, .. } = run;
        tasks.as_mut().unwrap().idle(0, guest, ledger);
    };
    idle(&mut run);
    idle(&mut run);
    let found =
        run.ledger.records().definitions().into_iter().filter(|found| matches!(found, Definition::Idle { .. }));
    assert_eq!(found.collect::<Vec<_>>(), [Definition::Idle { task: 2 }]);
    // The kernel has named the next one already.
    run.store(&[(CURRENT, TCBS[0])]);
    idle(&mut run);
    assert!(!run.follow.tasks.as_ref().unwrap().is_idle(1));
}

#[test]
fn paint_is_read_as_a_task_ends_and_as_the_run_ends() {
    let mut run = Run::with_kernel(false);
    for (index, painted) in [(0, 0x20), (1, 0x40), (2, 0x60)] {
        let start = (STACKS - MEMORY) as usize + 0x100 * index;
        let (_, bytes) = &mut run.guest.registers().unwrap().memory[0];
        bytes[start..start + painted].fill(0x5a);
    }
    TCBS.into_iter().for_each(|tcb| run.switch(tcb));
    {
        let Run { follow: Follow { tasks, .. }, guest, ledger, .. } = &mut run;
        let tasks = tasks.as_mut().unwrap();
        assert!(tasks.deletes_at(EXIT));
        // The running one ends, and it deletes the first.
        guest.registers().unwrap().set("a0", TCBS[0]);
        tasks.delete(DELETE, 0, guest, ledger);
        tasks.delete(EXIT, 0, guest, ledger);
    }
    assert_eq!([1, 2, 3].map(|task| run.counter(task, TaskCounter::Painted)), [0x21, 0, 0x61]);
    run.store(&[(TCBS[1], STACKS + 0x180)]);
    let Run { follow: Follow { tasks, .. }, guest, ledger, .. } = &mut run;
    tasks.as_ref().unwrap().note_paints(guest, ledger);
    assert_eq!(run.counter(2, TaskCounter::Painted), 0x41);
    // It waits with this stack pointer.
    assert_eq!(run.counter(2, TaskCounter::DeepestSp).wrapping_neg(), STACKS + 0x180);
    // Not where memory cannot be read.
    let mut run = Run::with_kernel(false);
    run.switch(TCBS[0]);
    run.guest.vanish();
    let Run { follow: Follow { tasks, .. }, guest, ledger, .. } = &mut run;
    tasks.as_ref().unwrap().note_paints(guest, ledger);
    assert_eq!(run.counter(1, TaskCounter::Painted), 0);
}

#[test]
fn registers_that_an_exception_saves_are_part_of_a_tasks_stack() {
    let mut run = Run::with_kernel(false);
    run.switch(TCBS[0]);
    let deepest = |run: &Run| run.counter(1, TaskCounter::DeepestSp).wrapping_neg();
    // A frame with floating point and a word of padding; in a second exception, that of the first one's handler.
    let code = |sp| Some(Context { pc: CODE, sp, return_addr: 0, second_return_addr: 0, frame_pointer: 0 });
    run.take_from(15, STACKS + 0x20, code(STACKS + 0x20 + 108));
    assert_eq!(deepest(&run), STACKS + 0x20);
    run.take_from(16, STACKS, code(STACKS + 32));
    assert_eq!(deepest(&run), STACKS + 0x20);
}

#[test]
fn a_stack_pointer_that_leaves_its_stack_is_noted_once_for_each_task() {
    let mut run = Run::with_kernel(true);
    run.switch(TCBS[0]);
    let moved = |run: &mut Run, sp: u64| run.follow.cores[0].moved(sp, &run.ledger);
    // Nothing is known of where it was before, and the next stack is above.
    let within = [STACKS - 8, STACKS - 16, STACKS + 0x10, STACKS].map(|sp| moved(&mut run, sp));
    assert_eq!(within, [false; 4]);
    assert_eq!([STACKS - 8, STACKS - 16].map(|sp| moved(&mut run, sp)), [true, false], "out, and further out");
    // From another stack, to which it went by an instruction that sets the pointer.
    run.follow.cores[0].last_sp = Some(STACKS + 0x1000);
    assert!(!moved(&mut run, STACKS - 8));
    // The kernel saves it; only the first time counts, and not what lies too far below to be this stack.
    run.after(100);
    for (tcb, saved) in [(TCBS[0], STACKS - 8), (TCBS[1], STACKS + 0x100), (TCBS[0], STACKS - 16), (TCBS[1], 0)] {
        run.store(&[(tcb, saved)]);
        let other = if tcb == TCBS[0] { TCBS[1] } else { TCBS[0] };
        run.switch(other);
    }
    let is_overflow = |found: &Definition| matches!(found, Definition::Overflow { .. });
    let found: Vec<Definition> = run.ledger.records().definitions().into_iter().filter(is_overflow).collect();
    let expected = Definition::Overflow { task: 1, pc: 0, sp: STACKS - 8, at_insns: 100, is_first: false };
    assert_eq!(found, [expected]);
}

#[test]
fn a_task_that_goes_on_with_a_first_context_again_is_a_new_one() {
    let mut run = Run::with_kernel(false);
    let first = STACKS + 0xe0;
    // Switches from a task, of which the kernel has saved a stack pointer, to the second one and back. Its number is told,
    // given with which stack pointer it goes on.
    let goes_on = |run: &mut Run, saved: u64, sp: u64| {
        run.store(&[(TCBS[0], saved)]);
        run.switch(TCBS[1]);
        run.store(&[(TCBS[0], sp)]);
        run.switch(TCBS[0]);
        run.follow.cores[0].task
    };
    run.switch(TCBS[0]);
    assert_eq!(goes_on(&mut run, first - 0x40, first - 0x40), 1, "it goes on");
    // A loop at a task's first instruction.
    assert_eq!(goes_on(&mut run, first, first), 1);
    // Another stack pointer than the saved one, which no task begins with: it ran unseen.
    assert_eq!(goes_on(&mut run, first - 0x40, first - 0x20), 1);
    assert_eq!(goes_on(&mut run, first - 0x40, first), 3, "it was deleted, and made again at the same place");
    assert_eq!(goes_on(&mut run, first - 0x10, first), 4);
    // With another stack.
    run.store(&[(TCBS[0], first - 0x10)]);
    run.switch(TCBS[1]);
    run.store(&[(TCBS[0], STACKS + 0x2d0), (TCBS[0] + 4, STACKS + 0x200)]);
    run.switch(TCBS[0]);
    let names: Vec<String> = run.tasks().into_iter().map(|(_, _, name, ..)| name).collect();
    assert_eq!(names, ["A", "B", "A", "A", "A"]);
}

#[test]
fn window_begins_with_what_is_under_way() {
    let mut run = Run::with_kernel(true);
    run.switch(TCBS[0]);
    run.after(100);
    run.take(1 << 63 | 7);
    run.after(50);
    run.follow.advance(&mut run.ledger);
    assert!(run.follow.has_exceptions(false) && !run.follow.is_left_by_jumps(&run.guest));
    // As harness opens it.
    run.ledger.clear_counters();
    run.ledger.set(CLOCK, 0, 0);
    run.follow.restart(&run.ledger);
    run.ledger.open_timeline();
    run.follow.open_timeline(&mut run.ledger);
    let expected = [What::Switched { task: 1, why: Why::First }, What::Entered { number: 1 << 63 | 7 }];
    assert_eq!(run.events(), expected);
    run.after(7);
    let (task, node, zone) = run.follow.place(0, &mut run.ledger);
    assert_eq!((task, zone), (1, 0));
    {
        let Follow { cores, tree, .. } = &mut run.follow;
        tree.as_mut().unwrap().attribute(&mut cores[0], &mut run.ledger);
    }
    let nodes: Vec<(u32, NodeKind)> = run
        .ledger
        .records()
        .definitions()
        .into_iter()
        .filter_map(|found| match found {
            Definition::Node { slot, kind, .. } => Some((slot, kind)),
            _ => None,
        })
        .collect();
    let (slot, kind) = nodes[node as usize - 1];
    assert_eq!(kind, NodeKind::Exception { number: 1 << 63 | 7 });
    // Only what has executed since counts, although the task was switched in before.
    assert_eq!(run.ledger.get(slot + NodeCounter::Insns as u32, 0), 7);
    assert_eq!(run.ledger.get(TASK_SINCE, 0), 0);
    run.switch(TCBS[1]);
    assert_eq!(run.counter(1, TaskCounter::Insns), 7);
}

#[test]
fn polled_task_executes_from_its_call_to_its_return() {
    let polls = vec![Poll { entry: POLL, name: "blink".to_owned() }];
    let mut run = Run::new(Measure { polls, is_exact: true, ..Measure::default() });
    assert!(run.follow.polls.as_ref().is_some_and(|polls| polls.begins_at(POLL) && !polls.begins_at(IDLE)));
    assert!(run.follow.polls.as_ref().is_some_and(|polls| !polls.changes_at(POLL)));
    run.after(10);
    for (name, value) in [("sp", STACKS), ("ra", CODE + 4), ("a0", 0x1234)] {
        run.set(name, value);
    }
    let Run { follow, guest, code, ledger } = &mut run;
    follow.begin_poll(0, POLL, guest, code, ledger);
    assert_eq!(follow.place(0, ledger).0, 1);
    ledger.add(CLOCK, 0, 20);
    follow.end_poll(0, CODE + 4, guest, code, ledger);
    assert_eq!(follow.place(0, ledger).0, 0);
    assert_eq!(run.counter(1, TaskCounter::Insns), 20);
    // One that is under way as the window opens counts from there.
    let Run { follow, guest, code, ledger } = &mut run;
    follow.begin_poll(0, POLL, guest, code, ledger);
    ledger.clear_counters();
    ledger.set(CLOCK, 0, 0);
    follow.restart(ledger);
    ledger.add(CLOCK, 0, 3);
    let slot = follow.polls.as_mut().unwrap().awaited_at(CODE + 4, ledger);
    assert_eq!(ledger.get(slot, 0), 1);
    follow.end_poll(0, CODE + 4, guest, code, ledger);
    assert_eq!(run.counter(1, TaskCounter::Insns), 3);
}

#[test]
fn exchange_of_a_stack_remembers_the_code_before_it() {
    let exchanges =
        [(IDLE, false), (DELETE, true)].map(|(entry, is_by_exception)| Exchange { entry, is_by_exception }).to_vec();
    let kernel = Kernel { exchanges, ..kernel(CURRENT) };
    let functions = vec![HANDLER..HANDLER + 0x100, IDLE..DELETE, DELETE..EXIT];
    let mut run = Run::new(Measure { kernel: Some(kernel), functions, ..Measure::default() });
    assert!(run.follow.has_exceptions(false));
    for (name, value) in [("sp", STACKS), ("ra", CODE + 4), ("fp", 0x77)] {
        run.set(name, value);
    }
    let Run { follow, guest, code, ledger } = &mut run;
    // It is called: its caller is on the stack before.
    let exchanged = follow.begin_exchange(0, IDLE, guest, code, ledger).unwrap();
    let outer = exchanged.outer;
    assert_eq!((exchanged.entry, outer.pc, outer.sp, outer.frame_pointer), (IDLE, CODE + 4, STACKS, 0x77));
    assert!(!exchanged.is_by_exception);
    // Other functions exchange nothing, and one that a handler goes on in needs an exception.
    assert!(follow.begin_exchange(0, HANDLER, guest, code, ledger).is_none());
    assert!(follow.begin_exchange(0, DELETE, guest, code, ledger).is_none());
    // The handler has returned into it, in place of the code that asked.
    follow.cores[0].resumed = Some(Context { pc: CODE + 8, ..outer });
    let exchanged = follow.begin_exchange(0, DELETE, guest, code, ledger).unwrap();
    assert_eq!((exchanged.outer.pc, exchanged.is_by_exception), (CODE + 8, true));
    // On another stack than before, it is not that exchange.
    run.set("sp", STACKS + 0x100);
    let Run { follow, guest, code, ledger } = &mut run;
    assert!(follow.begin_exchange(0, DELETE, guest, code, ledger).is_none());
}

#[test]
fn request_of_another_instruction_set_is_left_by_jumps() {
    let request = Request { isa: Isa::ThumbV7m, ..riscv_request(Measure::default()) };
    let mut ledger = ledger(1);
    let follow = Follow::new(&request, 1, &mut ledger);
    assert!(follow.is_left_by_jumps(&guest(&request, Fake::default())));
}

#[test]
fn contexts_are_counted_where_something_asks_for_them() {
    let event = Event { address: CODE, kind: EventKind::Phase, name: 1 };
    let call = Call { entry: CODE, name: 1, texts: Vec::new() };
    let waiting = WaitingCall { site: CODE, next: CODE + 4 };
    let wanted = Wanted { functions: Vec::new(), waits: None };
    let nothing = Measure::default;
    for (measure, has_contexts) in [
        (nothing(), false),
        (Measure { events: vec![event], ..nothing() }, true),
        (Measure { zone_calls: vec![call], ..nothing() }, true),
        (Measure { waiting_calls: vec![waiting], ..nothing() }, true),
        (Measure { slice_insns: Some(10), ..nothing() }, true),
        (Measure { has_cycles: true, ..nothing() }, true),
        (Measure { timeline: Some(wanted), ..nothing() }, true),
        (Measure { is_exact: true, ..nothing() }, false),
    ] {
        let mut run = Run::new(measure);
        assert_eq!(run.follow.has_contexts, has_contexts);
        assert_eq!(run.follow.cores[0].nest().is_some(), has_contexts);
        // Nobody has tasks to check, and nobody polls.
        let Run { follow, guest, code, ledger } = &mut run;
        follow.check_task(0, guest, ledger);
        follow.begin_poll(0, POLL, guest, code, ledger);
        follow.end_poll(0, POLL, guest, code, ledger);
        assert_eq!(follow.cores[0].task, 0);
        // Outside of all tasks the timeline begins with nothing.
        ledger.open_timeline();
        follow.open_timeline(ledger);
        assert_eq!(run.events(), []);
    }
}

#[test]
fn task_that_is_not_alive_after_its_poll_has_finished() {
    for alive in [0, 1] {
        let lives = Lives { wakes: vec![IDLE], spawns: vec![EXIT], poll: Some(4), alive: Some(0) };
        let polls = vec![Poll { entry: POLL, name: "blink".to_owned() }];
        let mut run = Run::new(Measure { polls, lives, ..Measure::default() });
        let changes = |run: &Run, pc| run.follow.polls.as_ref().unwrap().changes_at(pc);
        assert_eq!([IDLE, EXIT, POLL].map(|pc| changes(&run, pc)), [true, true, false]);
        run.ledger.open_timeline();
        run.store(&[(MEMORY, alive)]);
        for (name, value) in [("sp", STACKS), ("ra", CODE + 4), ("a0", MEMORY)] {
            run.set(name, value);
        }
        let Run { follow, guest, code, ledger } = &mut run;
        follow.begin_poll(0, POLL, guest, code, ledger);
        follow.end_poll(0, CODE + 4, guest, code, ledger);
        let finished = What::Lives { task: 1, change: Life::Finished };
        assert_eq!(run.events().contains(&finished), alive == 0);
    }
}

#[test]
fn each_vcpu_has_its_own_running_task() {
    let kernel = Kernel {
        name: Some(TaskName { at: 16..26, is_pointer: false }),
        saved_sp: Some(0),
        called_begins: vec![IDLE],
        ..kernel(CURRENT)
    };
    let request = riscv_request(Measure { kernel: Some(kernel), ..Measure::default() });
    let mut fake = Fake { memory: vec![(MEMORY, vec![0; 0x1000])], ..Fake::riscv(HANDLER) };
    for (address, word) in [(CURRENT, TCBS[1]), (CURRENT + 4, TCBS[2]), (TCBS[1], STACKS + 0x40)] {
        fake.store(address, word);
    }
    // A name without an end, of which one character is none.
    fake.memory[0].1[0x40 + 16..][..10].copy_from_slice(b"abc\x01efghijk"[..10].as_ref());
    let (mut guest, mut ledger) = (guest(&request, fake), ledger(2));
    let mut follow = Follow::new(&request, 2, &mut ledger);
    for vcpu in [0, 1] {
        let Follow { cores, tasks, .. } = &mut follow;
        tasks.as_mut().unwrap().switch(&mut cores[vcpu], None, &mut guest, &mut ledger);
    }
    // The second one's pointer lies behind those of the kernel.
    assert_eq!([0, 1].map(|vcpu: usize| follow.cores[vcpu].task), [1, 0]);
    let names = ledger.records().definitions().into_iter().find_map(|found| match found {
        Definition::Task { name, .. } => Some(name),
        _ => None,
    });
    assert_eq!(names.as_deref(), Some("abc?efghij"));
    // It begins above what the kernel has saved.
    assert_eq!(follow.cores[0].first_sp.get(&1), Some(&(STACKS + 0x40)));
}
