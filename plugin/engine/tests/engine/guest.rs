// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: what the processors' manuals say of exceptions, masks, priorities and memory is what the guest reports,
//! for Arm, RISC-V and AVR.

use engine::follow::context::Core;
use engine::follow::exception::{enter, returns_from_call};
use engine::guest::{Context, Guest, Insn, Stored};
use proptest::prelude::*;
use wire::control::Word;
use wire::request::{Isa, Measure, Request};

use crate::fake::{Fake, config, guest, ledger, only, request};

const TABLE: u64 = 0;
const RAM: u64 = 0x2000_0000;
const RAM_BYTES: u64 = 0x1000;
const CORE: u64 = 0xe000_e000;
const HANDLER: u64 = 0x400;

/// EXC_RETURN for a thread with the main stack, and for one with the process stack.
const TO_MAIN: u64 = 0xffff_fff9;
const TO_PROCESS: u64 = 0xffff_fffd;

/// A Cortex-M with a vector table at 0, memory, and the registers of its core.
fn cortex_m() -> Fake {
    let mut fake = Fake::default();
    for name in ["r0", "r7", "sp", "lr", "xpsr", "msp", "psp", "primask", "faultmask", "basepri", "control"] {
        fake.set(name, 0);
    }
    fake.memory = vec![(TABLE, vec![0; 0x800]), (RAM, vec![0; RAM_BYTES as usize]), (CORE, vec![0; 0x1000])];
    fake
}

fn arm_request(isa: Isa) -> Request {
    Request { memory: vec![TABLE..TABLE + 0x800, RAM..RAM + RAM_BYTES], ..request(isa, None, Measure::default()) }
}

fn arm(fake: Fake) -> Guest<Fake> {
    guest(&arm_request(Isa::ThumbV7m), fake)
}

/// A processor in the handler of an exception, whose frame is at `frame`.
fn handling(number: u64, exc_return: u64, frame: u64, words: [u64; 8]) -> Fake {
    let mut fake = cortex_m();
    fake.set("xpsr", number);
    fake.set("lr", exc_return);
    fake.store(TABLE + 4 * number, HANDLER | 1);
    for (address, word) in (frame..).step_by(4).zip(words) {
        fake.store(address, word);
    }
    fake
}

#[test]
fn exception_frame_gives_back_the_interrupted_code() {
    // (on the process stack, with floating point, with a word of padding)
    for index in 0..8 {
        let [on_process, has_float, is_padded] = [1, 2, 4].map(|bit| index & bit != 0);
        let exc_return = if on_process { TO_PROCESS } else { TO_MAIN } & if has_float { !0x10 } else { !0 };
        let frame = RAM + 0x200;
        let xpsr = 7 | u64::from(is_padded) << 9;
        let mut fake = handling(20, exc_return, frame, [0, 1, 2, 3, 12, 0x123, 0x456, xpsr]);
        fake.set("sp", if on_process { RAM + 0x100 } else { frame });
        fake.set("msp", if on_process { RAM + 0x100 } else { frame });
        fake.set("psp", if on_process { frame } else { 0 });
        fake.set("r7", 0x77);
        let mut guest = arm(fake);
        assert!(guest.is_exception_entry(HANDLER));
        let taken = guest.taken_exception(HANDLER).unwrap();
        let sp = frame + if has_float { 104 } else { 32 } + if is_padded { 4 } else { 0 };
        let expected = Context { pc: 0x456, sp, return_addr: 0x123, second_return_addr: 12, frame_pointer: 0x77 };
        assert_eq!(taken.interrupted, Some(expected), "{index}");
        assert_eq!((taken.number, taken.handler, taken.below), (20, HANDLER, Some(7)));
        assert_eq!((taken.entry_sp, taken.saved_sp), (guest.stack_pointer(), frame));
        let interrupted = guest.interrupted_code().unwrap();
        assert_eq!((interrupted.pc, interrupted.return_addr), (0x456, 0x123));
        // The frame of a handler that has called others is found by its canonical frame address.
        assert_eq!(guest.unseen_exception(frame, exc_return), Some((20, expected)));
    }
}

#[test]
fn handler_is_entered_only_by_the_processor() {
    let mut fake = handling(20, TO_MAIN, RAM, [0; 8]);
    fake.set("sp", RAM);
    assert!(arm(fake.clone()).taken_exception(HANDLER).is_some());
    // Neither a jump to another handler, nor a call of the handler, nor a thread that comes to its address.
    assert!(arm(fake.clone()).taken_exception(HANDLER + 2).is_none());
    for (name, value) in [("lr", 0x101), ("xpsr", 0)] {
        let mut fake = fake.clone();
        fake.set(name, value);
        let mut guest = arm(fake);
        assert!(guest.taken_exception(HANDLER).is_none(), "{name}");
        assert!(!guest.is_exception_entry(HANDLER), "{name}");
        assert_eq!(guest.interrupted_code().is_some(), name == "xpsr");
    }
    // A frame outside of memory is not read.
    fake.set("sp", RAM + RAM_BYTES);
    fake.set("msp", RAM + RAM_BYTES);
    let mut guest = arm(fake);
    let taken = guest.taken_exception(HANDLER).unwrap();
    assert_eq!((taken.interrupted, taken.below), (None, Some(0)));
    assert!(guest.interrupted_code().is_none() && guest.unseen_exception(RAM + RAM_BYTES, TO_MAIN).is_none());
}

#[test]
fn exception_preempted_before_its_first_instruction_is_reported() {
    const OTHER: u64 = 0x500;
    let outer = RAM + 0x100;
    // Exception 20 has come when 17 was about to start, with 17's EXC_RETURN in the saved lr.
    let mut fake = handling(20, 0xffff_fff1, RAM, [0, 0, 0, 0, 0, TO_MAIN, OTHER, 17]);
    fake.set("sp", RAM);
    fake.store(TABLE + 4 * 17, OTHER | 1);
    for (address, word) in (RAM + 32..).step_by(4).zip([0, 0, 0, 0, 0, 0x99, 0x88, 0]) {
        fake.store(address, word);
    }
    let mut guest = arm(fake.clone());
    let taken = guest.taken_exception(HANDLER).unwrap();
    let preempted = guest.preempted_exception(&taken).unwrap();
    assert_eq!((preempted.number, preempted.handler, preempted.entry_sp), (17, OTHER, RAM + 32));
    assert_eq!(preempted.interrupted.map(|context| (context.pc, context.sp)), Some((0x88, outer - 0x100 + 64)));
    // One that has executed has called something, or is past its first instruction; a thread is not an exception.
    for (offset, word) in [(20, 0x101), (24, OTHER + 2), (28, 0)] {
        let mut fake = fake.clone();
        fake.store(RAM + offset, word);
        let mut guest = arm(fake);
        let taken = guest.taken_exception(HANDLER).unwrap();
        assert!(guest.preempted_exception(&taken).is_none(), "{offset}");
    }
}

/// Interrupts of a processor, for the model of priorities.
#[derive(Clone, Debug)]
struct Priorities {
    executing: u64,
    masks: [bool; 2],
    basepri: u8,
    point: u8,
    ticks: Option<u8>,
    /// Numbers and priorities of enabled interrupts.
    interrupts: Vec<(u8, u8)>,
    own: u8,
}

impl Priorities {
    /// Whether an enabled interrupt is more urgent than the executing code and what BASEPRI lets through.
    fn model(&self) -> bool {
        if self.masks.contains(&true) || self.executing == 2 || self.executing == 3 {
            return false;
        }
        // The bits above the point preempt.
        let group = |priority: u8| u16::from(priority) >> (self.point + 1);
        let own = if self.executing == 0 { u16::MAX } else { group(self.own) };
        let limit = if group(self.basepri) == 0 { own } else { own.min(group(self.basepri)) };
        self.ticks.iter().chain(self.interrupts.iter().map(|(_, priority)| priority)).any(|&it| group(it) < limit)
    }

    fn fake(&self) -> Fake {
        let mut fake = cortex_m();
        fake.set("xpsr", self.executing);
        fake.set("primask", self.masks[0].into());
        fake.set("faultmask", self.masks[1].into());
        fake.set("basepri", self.basepri.into());
        fake.store(CORE + 0xd0c, u64::from(self.point) << 8);
        // Three groups of 32 interrupts.
        fake.store(CORE + 4, 2);
        let mut set = |address: u64, value: u8| {
            let (_, bytes) = fake.memory.last_mut().unwrap();
            bytes[(address - CORE) as usize] |= value;
        };
        for &(number, priority) in &self.interrupts {
            set(CORE + 0x100 + u64::from(number / 8), 1 << (number % 8));
            set(CORE + 0x400 + u64::from(number), priority);
        }
        if let Some(priority) = self.ticks {
            set(CORE + 0x10, 3);
            set(CORE + 0xd18 + 11, priority);
        }
        match self.executing {
            4..=14 => set(CORE + 0xd18 + self.executing - 4, self.own),
            16.. => set(CORE + 0x400 + self.executing - 16, self.own),
            _ => {}
        }
        fake
    }
}

fn priorities() -> impl Strategy<Value = Priorities> {
    let masks = [prop::bool::weighted(0.1), prop::bool::weighted(0.1)];
    let executing = prop_oneof![3 => Just(0), 1 => 2..4_u64, 2 => 4..=14_u64, 2 => Just(16 + 95)];
    let interrupts = prop::collection::btree_map(0..95_u8, any::<u8>(), 0..3);
    let ticks = prop::option::of(any::<u8>());
    (executing, masks, prop_oneof![Just(0), any::<u8>()], 0..8_u8, ticks, interrupts, any::<u8>()).prop_map(
        |(executing, masks, basepri, point, ticks, interrupts, own)| {
            let interrupts = interrupts.into_iter().collect();
            Priorities { executing, masks, basepri, point, ticks, interrupts, own }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn code_may_be_interrupted_by_more_urgent_interrupts_only(priorities in priorities()) {
        let mut guest = arm(priorities.fake());
        prop_assert_eq!(guest.may_be_interrupted(), priorities.model());
        let is_masked = priorities.masks.contains(&true) || priorities.basepri != 0;
        prop_assert_eq!(guest.is_masked(), is_masked);
        let level = guest.exception_level(priorities.executing);
        let own = u64::from(priorities.own) >> (priorities.point + 1) << (priorities.point + 1);
        prop_assert_eq!(level, (priorities.executing > 3).then_some(own));
    }
}

#[test]
fn functions_in_the_vector_table_may_be_handlers() {
    let mut fake = cortex_m();
    // The initial stack pointer, the reset, the last of 48 vectors, and the word after the table.
    for (index, word) in [(0, 0x101), (1, 0x111), (47, 0x121), (48, 0x131)] {
        fake.store(TABLE + 4 * index, word);
    }
    let mut guest = arm(fake.clone());
    assert_eq!([0x100, 0x110, 0x120, 0x130].map(|pc| guest.may_be_handler(pc, true)), [false, false, true, false]);
    assert!(!guest.may_be_handler(0x120, false));
    // The table moves to RAM, whose end cuts it.
    let table = RAM + RAM_BYTES - 8;
    fake.store(CORE + 0xd08, table);
    fake.store(table + 4, 0x141);
    let mut guest = arm(fake.clone());
    assert!(!guest.may_be_handler(0x120, true) && !guest.may_be_handler(0x140, true));
    // A processor that has more interrupts has a longer table.
    fake.store(CORE + 0xd08, TABLE);
    fake.store(CORE + 4, 1);
    assert!(arm(fake.clone()).may_be_handler(0x130, true));
    // Code translated for thread mode starts no exception.
    let mut thread = arm(fake.clone());
    assert!(thread.epoch_without_exception(0x120).is_some() && !thread.is_in_exception());
    fake.set("xpsr", 20);
    let mut handler = arm(fake);
    assert!(handler.epoch_without_exception(0x120).is_none() && handler.is_in_exception());
}

#[test]
fn values_of_lr_are_told_apart() {
    let mut fake = cortex_m();
    fake.store(TABLE, RAM + 0x803);
    let mut guest = arm(fake);
    assert_eq!(guest.reset(), Some((0xffff_ffff, RAM + 0x800)));
    let is_return = |address| guest.is_exception_return(address);
    let returns = [0xffff_fff1, 0xffff_fff9, 0xffff_fffd, 0xffff_ffe1, 0xffff_ffbc];
    assert!(returns.iter().all(|&address| is_return(address) == Some(true)));
    // Bit 1; a handler's frame on the process stack; a function.
    assert!([0xffff_fffb, 0xffff_fff5, 0x101].iter().all(|&address| is_return(address) == Some(false)));
    assert_eq!(
        [0xffff_fff0, 0xffff_fffd, 0xffff_ffff, 0x101].map(|lr| guest.is_nowhere(lr)),
        [true, true, false, false]
    );
    assert_eq!([0xffff_fffd, 0x101].map(|lr| guest.code_address(lr)), [0xffff_fffd, 0x100]);
}

#[test]
fn stores_to_the_system_control_block_reset_and_pend() {
    let guest = arm(cortex_m());
    let kind = |address, value| match guest.stored(address, value) {
        Some(Stored::Reset) => "reset",
        Some(Stored::Pend) => "pend",
        Some(Stored::Unpend) => "unpend",
        Some(Stored::Exit(_)) => "exit",
        None => "",
    };
    assert_eq!(kind(CORE + 0xd0c, 0x05fa_0004), "reset");
    // Without the key, or without the request.
    assert_eq!([kind(CORE + 0xd0c, 0x1234_0004), kind(CORE + 0xd0c, 0x05fa_0000)], ["", ""]);
    let icsr = |bit: u32| kind(CORE + 0xd04, 1 << bit);
    assert_eq!([icsr(28), icsr(27), icsr(26), kind(RAM, 1 << 28)], ["pend", "unpend", "", ""]);
}

#[test]
fn faults_come_with_the_registers_that_explain_them() {
    let mut fake = cortex_m();
    for (offset, value) in [(0xd28, 0x8200), (0xd2c, 0x4000_0000), (0xd34, 0x11), (0xd38, 0x22)] {
        fake.store(CORE + offset, value);
    }
    let mut guest = arm(fake.clone());
    let words = vec![
        (Word::FaultCfsr, 0x8200),
        (Word::FaultHfsr, 0x4000_0000),
        (Word::FaultMmfar, 0x11),
        (Word::FaultBfar, 0x22),
    ];
    assert!((3..=7).all(|number| guest.fault(number).as_ref() == Some(&words)));
    assert!([2, 8, 11, 15, 16].iter().all(|&number| guest.fault(number).is_none()));
    let reader = guest.fault_reader();
    assert_eq!(reader.registers(), Some((CORE + 0xd28, 20)));
    let bytes: Vec<u8> = [1_u32, 2, 3, 4, 5].map(u32::to_le_bytes).concat();
    assert_eq!(reader.words(&bytes).map(|words| words.map(|(_, value)| value)), Some([1, 2, 4, 5]));
    assert!(reader.words(&bytes[..16]).is_none());
    // A processor that does not answer faults without them.
    fake.memory.pop();
    assert_eq!(arm(fake).fault(3), Some(Vec::new()));
}

#[test]
fn each_stack_pointer_is_the_one_of_its_mode() {
    let mut fake = cortex_m();
    fake.set("msp", RAM + 0x10);
    fake.set("psp", RAM + 0x20);
    let mut guest = arm(fake);
    assert_eq!(guest.thread_stack_pointer(), RAM + 0x20);
    assert_eq!([RAM + 0x10, RAM + 0x20].map(|sp| guest.is_main_stack(sp, true)), [true, false]);
    // Without a second stack pointer, a task's stack is not the firmware's first one.
    let mut riscv = riscv(Fake::riscv(0x8000_0100));
    assert_eq!([true, false].map(|in_task| riscv.is_main_stack(0, in_task)), [false, true]);
    riscv.registers().unwrap().set("sp", 0x8000_1000);
    assert_eq!(riscv.thread_stack_pointer(), 0x8000_1000);
    assert_eq!((riscv.exception_level(5), riscv.active_exception(), riscv.reset()), (None, None, None));
    assert!(riscv.unseen_exception(0, 0).is_none() && riscv.is_exception_return(0).is_none() && !riscv.is_nowhere(0));
}

/// An instruction with what is around it on its page.
struct Code {
    pc: u64,
    /// Bytes from `pc - before` on.
    bytes: Vec<u8>,
    before: i64,
    length: usize,
}

impl Insn for Code {
    fn pc(&self) -> u64 {
        self.pc
    }

    fn bytes(&self) -> ([u8; 4], usize) {
        let mut bytes = [0; 4];
        bytes[..self.length].copy_from_slice(&self.bytes[self.before as usize..][..self.length]);
        (bytes, self.length)
    }

    fn beside(&self, offset: i64, bytes: &mut [u8]) -> bool {
        let at = usize::try_from(offset + self.before).ok();
        let held = at.and_then(|at| self.bytes.get(at..at + bytes.len()));
        held.map(|held| bytes.copy_from_slice(held)).is_some()
    }
}

#[test]
fn breakpoint_calls_the_host_from_privileged_code_only() {
    let call = |half: u16| Code { pc: 0x100, bytes: half.to_le_bytes().to_vec(), before: 0, length: 2 };
    for (exception, control, is_call) in [(0, 0, true), (0, 1, false), (3, 1, true), (3, 0, true)] {
        let mut fake = cortex_m();
        fake.set("xpsr", exception);
        fake.set("control", control);
        let mut guest = arm(fake);
        assert_eq!(guest.is_semihosting(&call(0xbeab)), is_call, "{exception} {control}");
        assert!(!guest.is_semihosting(&call(0xbe00)));
    }
}

const EBREAK: u32 = 0x0010_0073;
const PREFIX: u32 = 0x01f0_1013;
const SUFFIX: u32 = 0x4070_5013;

#[test]
fn ebreak_calls_the_host_between_its_two_markers() {
    let code = |pc, words: &[u32], before| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Code { pc, bytes, before, length: 4 }
    };
    let whole = [PREFIX, EBREAK, SUFFIX];
    let mut guest = riscv(Fake::riscv(0x8000_0100));
    let mut is_call = |code: Code| guest.is_semihosting(&code);
    assert!(is_call(code(0x8000_0104, &whole, 4)));
    for wrong in [[0x13, EBREAK, SUFFIX], [PREFIX, EBREAK, 0x13], [PREFIX, 0x73, SUFFIX], [PREFIX, EBREAK, 0x5013]] {
        assert!(!is_call(code(0x8000_0104, &wrong, 4)), "{wrong:x?}");
    }
    // A marker on another page is none, and half of the second one may be there.
    assert!(!is_call(code(0x8000_0000, &whole, 4)) && !is_call(code(0x8000_0ffc, &whole, 4)));
    let half = |low: u32| Code {
        bytes: code(0, &[PREFIX, EBREAK, low], 0).bytes[..10].to_vec(),
        ..code(0x8000_0ff8, &[], 4)
    };
    assert!(is_call(half(SUFFIX)) && !is_call(half(0x13)));
    // What was not translated from memory may be a call.
    assert!(is_call(code(0x8000_0104, &[EBREAK], 0)) && is_call(code(0x8000_0104, &[EBREAK, SUFFIX], 0)));
    let mut user = Fake::riscv(0x8000_0100);
    user.set("priv", 0);
    assert!(!riscv(user).is_semihosting(&code(0x8000_0104, &whole, 4)));
}

fn riscv_request_of(isa: Isa) -> Request {
    Request {
        memory: only(0x8000_0000..0x8000_2000),
        finisher: Some(0x10_0000),
        ..request(isa, None, Measure::default())
    }
}

fn riscv(fake: Fake) -> Guest<Fake> {
    let memory = vec![(0x8000_0000, vec![0; 0x2000])];
    guest(&riscv_request_of(Isa::Riscv32), Fake { memory, ..fake })
}

#[test]
fn traps_start_at_their_vectors() {
    // A vectored table for machine mode, and a single vector for supervisor mode.
    let mut fake = Fake::riscv(0x8000_0101);
    for (name, value) in [("mcause", 0x8000_0007), ("mepc", 0x8000_0800), ("ra", 0x8000_0900)] {
        fake.set(name, value);
    }
    for (name, value) in [("stvec", 0x8000_0300), ("scause", 8), ("sepc", 0x8000_0a00), ("mhartid", 3)] {
        fake.set(name, value);
    }
    let mut machine = riscv(fake.clone());
    assert_eq!(machine.vcpu(), Some(3));
    // Any cause may come to the table, this one to its eighth word only.
    let entries = [0x8000_0100, 0x8000_011c, 0x8000_01fc, 0x8000_0200, 0x8000_00fc];
    assert_eq!(entries.map(|pc| machine.is_exception_entry(pc)), [true, true, true, false, false]);
    assert_eq!(entries.map(|pc| machine.may_be_handler(pc, false)), [true, true, true, false, false]);
    assert_eq!(entries.map(|pc| machine.taken_exception(pc).is_some()), [false, true, false, false, false]);
    let taken = machine.taken_exception(0x8000_011c).unwrap();
    assert_eq!((taken.number, taken.below), (1 << 63 | 7, None));
    assert_eq!(taken.interrupted.map(|context| context.pc), Some(0x8000_0800));
    let interrupted = machine.interrupted_code().unwrap();
    assert_eq!((interrupted.pc, interrupted.return_addr), (0x8000_0800, 0x8000_0900));
    // Exceptions go to the start of the table.
    machine.registers().unwrap().set("mcause", 2);
    assert_eq!(machine.taken_exception(0x8000_0100).map(|taken| taken.number), Some(2));
    fake.set("priv", 1);
    let mut supervisor = riscv(fake);
    assert_eq!(supervisor.taken_exception(0x8000_0300).map(|taken| taken.number), Some(8));
    assert_eq!([0x8000_0300, 0x8000_0304].map(|pc| supervisor.is_exception_entry(pc)), [true, false]);
    assert_eq!(supervisor.interrupted_code().unwrap().pc, 0x8000_0a00);
    // RV64 has the mark of interrupts in bit 63 already.
    let mut wide = Fake::riscv(0x8000_0100);
    wide.set("mcause", 1 << 63 | 11);
    let mut wide = guest(&riscv_request_of(Isa::Riscv64), wide);
    assert_eq!(wide.taken_exception(0x8000_0100).map(|taken| taken.number), Some(1 << 63 | 11));
}

#[test]
fn interrupts_are_held_back_by_masks_outside_of_handlers() {
    // (handler, mask, SysTick's control, enabled interrupts of the second group)
    for (number, mask, systick, enabled, expected) in [
        (0, "primask", 3, 0, true),
        (0, "faultmask", 3, 0, true),
        (0, "basepri", 0, 1 << 7, true),
        // No mask; SysTick without its interrupt, or not counting; no interrupt at all.
        (0, "r0", 3, 1, false),
        (0, "primask", 1, 0, false),
        (0, "primask", 2, 0, false),
        (0, "primask", 0, 0, false),
        // In a handler another one may only wait for its end.
        (20, "primask", 3, 1, false),
    ] {
        let mut fake = cortex_m();
        fake.set("xpsr", number);
        fake.set(mask, 1);
        // 64 interrupts.
        fake.store(CORE + 0x004, 1);
        fake.store(CORE + 0x010, systick);
        fake.store(CORE + 0x104, enabled);
        assert_eq!(arm(fake).holds_back(), expected, "{number} {mask} {systick} {enabled:x}");
    }
    assert!(!guest(&riscv_request_of(Isa::Riscv32), Fake::riscv(0)).holds_back());
}

#[test]
fn epoch_ends_as_the_trap_vector_moves() {
    let mut guest = riscv(Fake::riscv(0x8000_0100));
    assert!(guest.epoch_without_exception(0x8000_0100).is_none());
    let epoch = guest.epoch_without_exception(0x8000_0200);
    assert!(guest.is_epoch(epoch) && !guest.is_epoch(None));
    guest.vector_moves();
    assert!(!guest.is_epoch(epoch));
    // There are no more than 65,535 of them.
    (0..70_000).for_each(|_| guest.vector_moves());
    assert!(guest.epoch_without_exception(0x8000_0200).is_none());
}

#[test]
fn masks_of_risc_v_depend_on_the_mode() {
    const MIE: u64 = 1 << 3;
    const SIE: u64 = 1 << 1;
    // Mode, mstatus, mie, mideleg: whether masked, and whether an interrupt may come.
    for (mode, status, enabled, delegated, is_masked, may_come) in [
        (3, MIE, 0x80, 0, false, true),
        (3, 0, 0x80, 0, true, false),
        (3, MIE, 0, 0, false, false),
        (3, MIE, 0x20, 0x20, false, false),
        (1, 0, 0x80, 0, false, true),
        (1, 0, 0x20, 0x20, false, false),
        (1, SIE, 0x20, 0x20, false, true),
        (1, SIE, 0, 0x20, false, false),
        (0, 0, 0x20, 0x20, false, true),
        (0, MIE, 0, 0, false, false),
    ] {
        let mut fake = Fake::riscv(0x8000_0100);
        for (name, value) in [("priv", mode), ("mstatus", status), ("mie", enabled), ("mideleg", delegated)] {
            fake.set(name, value);
        }
        let mut guest = riscv(fake);
        let case = (mode, status, enabled, delegated);
        assert_eq!((guest.is_masked(), guest.may_be_interrupted()), (is_masked, may_come), "{case:x?}");
    }
    // MPP and MPIE say what was before the trap; a trap to another mode masks nothing.
    for (mode, status, before) in
        [(3, 0x1800, Some(true)), (3, 0x1880, Some(false)), (3, 0x800, Some(false)), (1, 0, None)]
    {
        let mut fake = Fake::riscv(0x8000_0100);
        fake.set("priv", mode);
        fake.set("mstatus", status);
        assert_eq!(riscv(fake).masked_before_trap(), before, "{mode} {status:x}");
    }
}

#[test]
fn faults_of_risc_v_are_exceptions_that_nobody_asked_for() {
    let mut fake = Fake::riscv(0x8000_0100);
    fake.set("mtval", 0x1234);
    fake.set("stval", 0x5678);
    let mut machine = riscv(fake.clone());
    assert_eq!(machine.fault(5), Some(vec![(Word::FaultValue, 0x1234)]));
    assert!([8, 9, 10, 11, 1 << 63 | 5].iter().all(|&number| machine.fault(number).is_none()));
    fake.set("priv", 1);
    assert_eq!(riscv(fake).fault(13), Some(vec![(Word::FaultValue, 0x5678)]));
    // Of which the registers are not known without the processor.
    let reader = machine.fault_reader();
    assert!(reader.registers().is_none() && reader.words(&[0; 32]).is_none());
}

#[test]
fn finisher_ends_the_run_with_the_stored_status() {
    let guest = riscv(Fake::riscv(0x8000_0100));
    let exit = |value| match guest.stored(0x10_0000, value) {
        Some(Stored::Exit(status)) => Some(status),
        Some(_) => Some(u64::MAX),
        None => None,
    };
    assert_eq!([0x5555, 0x2a_3333, 0x7777, 0x1].map(exit), [Some(0), Some(0x2a), Some(u64::MAX), None]);
    assert!(guest.stored(0x10_0004, 0x5555).is_none());
}

#[test]
fn memory_is_read_whole_and_devices_never() {
    let mut fake = Fake::riscv(0x8000_0100);
    fake.set("mhartid", 0);
    fake.set("mstatus", 0);
    let mut guest = riscv(fake);
    {
        let (_, bytes) = &mut guest.registers().unwrap().memory[0];
        bytes[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        bytes[0x3fe..0x401].copy_from_slice(b"hi!");
        bytes[0x1ffe..].copy_from_slice(b"no");
    }
    assert_eq!(guest.memory_word(0x8000_0000, 4), Some(0x0403_0201));
    assert_eq!((guest.pointer(0x8000_0004), guest.pushed(0x8000_0002, 2)), (Some(0x0807_0605), Some(0x0403)));
    assert!(guest.memory(0x8000_1fff, 2).is_none() && guest.memory(u64::MAX, 2).is_none());
    assert!(guest.memory_word(0x7fff_ffff, 4).is_none());
    assert_eq!((guest.memory_from(0x8000_1000), guest.memory_from(0x8000_2000)), (Some(0x1000), None));
    assert!(guest.is_memory(0x8000_1fff) && !guest.is_memory(0x8000_2000));
    // Across pages, as the processor translates addresses.
    assert_eq!(guest.translated(0x8000_03fe, 3).as_deref(), Some(&b"hi!"[..]));
    assert!(guest.translated(0x8000_1ffe, 3).is_none());
    assert!(guest.is_translated(0x8000_03fe, 0x1000) && !guest.is_translated(0x8000_1ffe, 3));
    assert_eq!(guest.text_bytes(0x8000_03fe, 100), Some(3));
    // No end within as much as was asked for, or within the memory.
    guest.registers().unwrap().memory[0].1.fill(b'x');
    assert!(guest.text_bytes(0x8000_0000, 100).is_some_and(|bytes| bytes >= 100));
    assert!(guest.text_bytes(0x8000_1ffe, 100).is_none());
    // Loads in the name of another mode are translated.
    guest.registers().unwrap().set("mstatus", 1 << 17);
    assert_eq!(guest.translated(0x8000_0000, 1).as_deref(), Some(&b"x"[..]));
    // Not once QEMU exits, and again on the thread that executes.
    guest.vanish();
    assert!(!guest.is_readable() && guest.memory(0x8000_0000, 1).is_none());
    guest.read_here();
    assert!(guest.is_readable() && guest.memory(0x8000_0000, 1).is_some());
}

#[test]
fn memory_of_the_machine_replaces_that_of_the_request() {
    let directory = std::env::temp_dir().join(format!("engine-memory-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut list = Vec::new();
    wire::memory::put(&mut list, &only(0x9000_0000..0x9000_1000)).unwrap();
    std::fs::write(directory.join(wire::memory::FILE_NAME), list).unwrap();
    let mut guest: Guest<Fake> = engine::guest::open(&riscv_request_of(Isa::Riscv32), directory.to_str().unwrap());
    assert!(guest.is_memory(0x8000_0000));
    guest.learn_memory();
    assert!(guest.is_memory(0x9000_0000) && !guest.is_memory(0x8000_0000));
    std::fs::remove_dir_all(&directory).unwrap();
    // It has been read once and for all.
    guest.learn_memory();
    assert!(guest.is_memory(0x9000_0000));
    // Without a list, the request's memory stays.
    let mut other: Guest<Fake> = engine::guest::open(&riscv_request_of(Isa::Riscv32), directory.to_str().unwrap());
    other.learn_memory();
    assert!(other.is_memory(0x8000_0000));
}

#[test]
fn each_vcpu_has_its_own_registers() {
    let mut guest = riscv(Fake::riscv(0x8000_0100));
    guest.registers().unwrap().set("sp", 11);
    guest.turn_to(1);
    guest.registers().unwrap().set("sp", 22);
    guest.turn_to(0);
    assert_eq!(guest.stack_pointer(), 11);
    guest.turn_to(1);
    guest.turn_to(1);
    assert_eq!(guest.stack_pointer(), 22);
}

#[test]
fn numbers_have_the_width_of_their_registers() {
    for (isa, name, bytes, value, expected) in [
        (Isa::Riscv32, "sp", 4, 0xffff_fffe, -2),
        (Isa::Riscv64, "sp", 8, u64::MAX - 1, -2),
        (Isa::Riscv64, "sp", 8, 0xffff_fffe, 0xffff_fffe),
        (Isa::ThumbV6m, "r2", 4, 0x8000_0000, -0x8000_0000),
        (Isa::ThumbV8m, "r2", 4, 5, 5),
        (Isa::AvrPc16, "r2", 2, 0xff, -1),
        (Isa::AvrPc22, "r2", 2, 0x7f, 0x7f),
    ] {
        let mut fake = Fake::default();
        fake.set(name, value);
        let mut guest = guest(&request(isa, None, Measure::default()), fake);
        assert_eq!(guest.signed_register(2), expected, "{isa:?}");
        assert_eq!((guest.pointer_bytes(), guest.frame_pointer_bytes()), (bytes, bytes as u8));
        let call_bytes = match isa {
            Isa::AvrPc22 => 3,
            _ => bytes,
        };
        let alignment = if bytes == 2 { 1 } else { bytes };
        assert_eq!(
            (u64::from(guest.return_addr_bytes()), guest.stack_alignment()),
            (call_bytes, alignment),
            "{isa:?}"
        );
    }
    let mut fake = Fake::default();
    for (name, value) in [("r22", 0x11), ("r23", 0x22), ("r24", 0x33), ("r25", 0xff)] {
        fake.set(name, value);
    }
    let mut avr = guest(&request(Isa::AvrPc16, None, Measure::default()), fake);
    assert_eq!(avr.value_of_bytes(22, 4, false), 0xff33_2211);
    assert_eq!(avr.value_of_bytes(22, 4, true), 0xff33_2211 - (1 << 32));
    assert_eq!([avr.value_of_bytes(22, 1, true), avr.value_of_bytes(25, 1, true)], [0x11, -1]);
    assert_eq!(avr.arguments(), [0xff33, 0x2211]);
}

const DATA: u64 = wire::chip::AVR_DATA.start;

/// An AVR with jumps at its first three vectors, and memory for the stack.
fn avr(isa: Isa, sreg: u64, pushed: &[u8]) -> Guest<Fake> {
    let mut fake = Fake::default();
    for (name, value) in [("sp", 0x4ff), ("sreg", sreg), ("r28", 0x34), ("r29", 0x12)] {
        fake.set(name, value);
    }
    let jump = [0x0c, 0x94, 0x80, 0];
    let mut flash = jump.repeat(3);
    flash.extend([0; 0x100]);
    let mut data = vec![0; 0x600];
    data[0x500..][..pushed.len()].copy_from_slice(pushed);
    fake.memory = vec![(0, flash), (DATA, data)];
    let memory = vec![0..0x10c, DATA..DATA + 0x600];
    guest(&Request { memory, ..request(isa, None, Measure::default()) }, fake)
}

/// Two handlers of the same code, of which the compiler makes one that calls the other.
#[test]
fn a_handler_that_a_handler_calls_returns_from_a_call() {
    const OUTER: u64 = 0x100;
    const OTHER: u64 = 0x110;
    let mut fake = Fake::default();
    for (name, value) in [("sp", 0x4ff), ("sreg", 0), ("r28", 0), ("r29", 0)] {
        fake.set(name, value);
    }
    let mut flash = [0x0c, 0x94, 0x80, 0].repeat(3);
    flash.resize(0x120, 0);
    // call OTHER, rcall OTHER, and behind them a call of something else.
    flash[0x100..0x10a].copy_from_slice(&[0x0e, 0x94, 0x88, 0, 0x05, 0xd0, 0x0e, 0x94, 0x82, 0]);
    let mut data = vec![0; 0x600];
    data[0x500..0x502].copy_from_slice(&[0, 0x40]);
    fake.memory = vec![(0, flash), (DATA, data)];
    let memory = vec![0..0x120, DATA..DATA + 0x600];
    let functions = [OUTER..OTHER, OTHER..0x120].to_vec();
    let request = Request { memory, ..request(Isa::AvrPc16, None, Measure { functions, ..Measure::default() }) };
    let (mut guest, mut code, mut ledger) = (guest(&request, fake), engine::code::Code::new(&request), ledger(1));
    let mut core = Core::new(0, false);
    let mut returns = |core: &Core, sp: u64, back: u64, guest: &mut Guest<Fake>| {
        guest.registers().unwrap().set("sp", sp);
        let words = (back / 2).to_be_bytes();
        guest.registers().unwrap().store(DATA + sp + 1, u64::from(u16::from_le_bytes([words[6], words[7]])));
        returns_from_call(core, OTHER + 8, guest, &mut code)
    };
    assert!(!returns(&core, 0x4f0, OUTER + 4, &mut guest), "outside of exceptions");
    guest.registers().unwrap().set("sp", 0x4ff);
    let taken = guest.taken_exception(4).unwrap();
    enter(&mut core, None, taken, &mut guest, &mut engine::code::Code::new(&request), &mut ledger);
    for (sp, back, expected) in [
        (0x4f0, OUTER + 4, true),
        (0x4f0, OUTER + 6, true),
        (0x4f0, OUTER + 10, false),
        (0x4f0, OUTER + 2, false),
        // The interrupt's own frame, though it interrupted code behind such a call.
        (0x4ff, OUTER + 4, false),
    ] {
        assert_eq!(returns(&core, sp, back, &mut guest), expected, "{sp:#x} {back:#x}");
    }
}

#[test]
fn interrupts_of_avr_push_a_return_address_in_words() {
    // The interrupt's return address, and the one that was on top before.
    for (isa, pushed, bytes, return_addr) in [
        (Isa::AvrPc16, &[0x12, 0x34, 0, 0x56][..], 2, 0x1234),
        (Isa::AvrPc22, &[1, 0x12, 0x34, 0, 0, 0x56], 3, 0x1_1234),
    ] {
        let mut guest = avr(isa, 0, pushed);
        assert_eq!(guest.stack_pointer(), DATA + 0x4ff);
        assert_eq!(guest.return_register(), return_addr);
        let taken = guest.taken_exception(4).unwrap();
        // The second vector, which jumps to word 0x80.
        assert_eq!((taken.number, taken.handler, taken.below), (1 << 63 | 1, 0x100, None));
        assert_eq!((taken.entry_sp, taken.saved_sp), (DATA + 0x4ff + bytes, DATA + 0x4ff));
        let interrupted = taken.interrupted.unwrap();
        assert_eq!((interrupted.pc, interrupted.sp), (return_addr << 1, taken.entry_sp));
        assert_eq!(interrupted.frame_pointer, DATA + 0x1234);
        let saved = guest.interrupted_code().unwrap();
        assert_eq!((saved.pc, saved.return_addr), (return_addr << 1, 0x56));
        assert_eq!(guest.pushed_frame_pointer(0x1234), DATA + 0x1234);
        assert_eq!(guest.pushed(DATA + 0x500, bytes as u8), Some(return_addr));
        // The reset's vector, one in the middle of a jump, and code behind the vectors.
        assert_eq!([0, 4, 6, 8, 12].map(|pc| guest.is_exception_entry(pc)), [false, true, false, true, false]);
        assert_eq!([4, 12].map(|pc| guest.may_be_handler(pc, true)), [true, false]);
        assert!(guest.epoch_without_exception(12).is_some() && guest.epoch_without_exception(8).is_none());
        assert_eq!((guest.is_masked(), guest.may_be_interrupted()), (true, false));
        assert_eq!(guest.masked_before_trap(), Some(false));
        // While interrupts are enabled, only a jump leads to a vector.
        let mut enabled = avr(isa, 0x80, pushed);
        assert!(enabled.taken_exception(4).is_none());
        assert_eq!((enabled.is_masked(), enabled.may_be_interrupted()), (false, true));
        // It has neither faults, nor a way to call the host.
        let code = Code { pc: 4, bytes: vec![0x98, 0x95], before: 0, length: 2 };
        assert!(guest.fault(3).is_none() && !guest.is_semihosting(&code) && guest.stored(0, 0x5555).is_none());
        assert!(guest.preempted_exception(&taken).is_none());
    }
    let finisher = Request { finisher: Some(0x100), ..request(Isa::AvrPc16, None, Measure::default()) };
    assert!(guest(&finisher, Fake::default()).stored(0x100, 0x5555).is_none());
}
