// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fake vCPU with plain memory, and fake counters.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::block::Step;
use engine::guest::{Guest, Vcpu};
use engine::ledger::{Counters, Ledger};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use wire::control::Word;
use wire::counters::FIRST_DEFINED;
use wire::definition::{Decoder, Definition};
use wire::request::{Isa, Kernel, Measure, Purpose, Request, Semihosting, StackEnd};
use wire::stream::StreamFile;

/// Number of cases for about a second; the random seed is fixed.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(30),
        ..ProptestConfig::default()
    }
}

/// Counters and record streams in memory.
#[derive(Debug)]
pub(crate) struct Books {
    vcpus: u32,
    counters: Vec<Vec<AtomicU64>>,
    streams: [Vec<u8>; StreamFile::COUNT],
    /// Words of the control page, in the order in which they were written.
    words: RefCell<Vec<(Word, u64)>>,
}

impl Books {
    fn new(vcpus: u32) -> Books {
        let row = || (0..FIRST_DEFINED).map(|_| AtomicU64::new(0)).collect();
        let counters = (0..vcpus).map(|_| row()).collect();
        Books { vcpus, counters, streams: Default::default(), words: RefCell::default() }
    }

    pub(crate) fn stream(&self, stream: StreamFile) -> &[u8] {
        &self.streams[stream as usize]
    }

    /// Last value of a word of the control page; None: it was not written.
    pub(crate) fn word(&self, word: Word) -> Option<u64> {
        self.words.borrow().iter().rev().find(|&&(written, _)| written == word).map(|&(_, value)| value)
    }

    /// Forgets the words of the control page.
    pub(crate) fn forget_words(&self) {
        self.words.borrow_mut().clear();
    }

    pub(crate) fn definitions(&self) -> Vec<Definition> {
        Decoder::new(self.stream(StreamFile::Definitions)).map(Result::unwrap).collect()
    }
}

impl Counters for Books {
    fn vcpus(&self) -> u32 {
        self.vcpus
    }

    fn counter(&self, slot: u32, vcpu: u32) -> &AtomicU64 {
        &self.counters[vcpu as usize][slot as usize]
    }

    fn new_slot(&mut self) -> io::Result<u32> {
        self.counters.iter_mut().for_each(|row| row.push(AtomicU64::new(0)));
        Ok(self.counters[0].len() as u32 - 1)
    }

    fn clear_counters(&self) {
        let defined = self.counters.iter().flat_map(|row| &row[FIRST_DEFINED as usize..]);
        defined.for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    fn append(&mut self, stream: StreamFile, record: &[u8]) -> io::Result<()> {
        self.streams[stream as usize].extend(record);
        Ok(())
    }

    fn say(&self, word: Word, value: u64) {
        self.words.borrow_mut().push((word, value));
    }

    fn exit(&self) -> ! {
        panic!("the run ended")
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}")
    }
}

pub(crate) fn ledger(vcpus: u32) -> Ledger<Books> {
    Ledger::new(Books::new(vcpus))
}

/// Performs a step of generated code.
pub(crate) fn execute(step: Step, vcpu: u32, ledger: &Ledger<Books>) {
    match step {
        Step::Add { slot, amount } => {
            ledger.add(slot, vcpu, amount);
        }
        Step::Store { slot, value } => ledger.set(slot, vcpu, value),
    }
}

/// A processor: registers by name, and pieces of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) registers: HashMap<String, u64>,
    pub(crate) memory: Vec<(u64, Vec<u8>)>,
    pub(crate) general: Vec<String>,
}

thread_local! {
    /// Processor for the next guest that is made on this thread.
    static NEXT: RefCell<Fake> = RefCell::default();
}

impl Fake {
    pub(crate) fn set(&mut self, name: &str, value: u64) {
        self.registers.insert(name.to_owned(), value);
    }

    /// A RISC-V processor in machine mode, with interrupts unmasked and a handler of all traps.
    pub(crate) fn riscv(handler: u64) -> Fake {
        let mut fake = Fake::default();
        for name in ["ra", "sp", "fp", "t0", "mcause", "mepc", "mideleg"] {
            fake.set(name, 0);
        }
        for (name, value) in [("priv", 3), ("mtvec", handler), ("mie", 0x80), ("mstatus", UNMASKED)] {
            fake.set(name, value);
        }
        fake
    }

    /// Writes a word of 4 bytes to the memory that has its address.
    pub(crate) fn store(&mut self, address: u64, word: u64) {
        let holds = |(start, bytes): &&mut (u64, Vec<u8>)| (*start..*start + bytes.len() as u64).contains(&address);
        let (start, bytes) = self.memory.iter_mut().find(holds).unwrap();
        let at = (address - *start) as usize;
        bytes[at..at + 4].copy_from_slice(&(word as u32).to_le_bytes());
    }
}

/// MIE, and MPIE with MPP for machine mode.
pub(crate) const UNMASKED: u64 = 1 << 3;
pub(crate) const WAS_UNMASKED: u64 = 0x1880;

impl Vcpu for Fake {
    type Register = usize;

    fn find(general: &[&str], _: usize) -> Fake {
        let fake = NEXT.with(|next| next.borrow().clone());
        Fake { general: general.iter().map(|&name| name.to_owned()).collect(), ..fake }
    }

    fn get(&self, name: &str) -> Option<usize> {
        let mut names: Vec<&String> = self.registers.keys().collect();
        names.sort();
        names.iter().position(|known| *known == name)
    }

    fn read(&mut self, register: usize) -> Option<u64> {
        let mut names: Vec<&String> = self.registers.keys().collect();
        names.sort();
        Some(self.registers[names[register]])
    }

    fn read_general(&mut self, number: u8) -> Option<u64> {
        self.registers.get(self.general.get(usize::from(number))?).copied()
    }

    fn read_memory_into(&mut self, address: u64, length: usize, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        let held = self.memory.iter().find_map(|(start, held)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            held.get(at..at.checked_add(length)?)
        });
        held.map(|held| bytes.extend(held)).is_some()
    }

    fn read_memory_word(&mut self, address: u64, length: usize) -> Option<u64> {
        let bytes = self.read_memory(address, length)?;
        let mut word = [0; 8];
        word.get_mut(..length)?.copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word))
    }

    fn physical(&mut self, address: u64) -> Option<u64> {
        Some(address)
    }

    fn is_here() -> bool {
        true
    }
}

/// A guest with this processor.
pub(crate) fn guest(request: &Request, fake: Fake) -> Guest<Fake> {
    NEXT.with(|next| *next.borrow_mut() = fake);
    let mut guest = engine::guest::open(request, "/no/such/directory");
    guest.appear();
    guest
}

/// A request to measure, with defaults in all other fields.
pub(crate) fn request(isa: Isa, entry: Option<u64>, measure: Measure) -> Request {
    Request {
        isa,
        qemu: None,
        max_output_bytes: None,
        entry,
        finisher: None,
        exit: None,
        unshared_vcpus: 1,
        memory: Vec::new(),
        semihosting: Semihosting::Off,
        console: "console".to_owned(),
        input: Vec::new(),
        chip: None,
        core: None,
        pace: None,
        purpose: Purpose::Measure(Box::new(measure)),
    }
}

/// A request to measure a RISC-V processor with memory at 0x80000000.
pub(crate) fn riscv_request(measure: Measure) -> Request {
    let memory = std::iter::once(0x8000_0000..0x8050_0000).collect();
    Request { memory, ..request(Isa::Riscv32, None, measure) }
}

/// A kernel of which only the word with the running thread's address is known.
pub(crate) fn kernel(current: u64) -> Kernel {
    Kernel {
        current: current..current + 4,
        running: None,
        idle: Vec::new(),
        begins: Vec::new(),
        idle_entries: Vec::new(),
        next: None,
        name: None,
        saved_sp: None,
        stack: None,
        stack_end: None,
        paint: None,
        switchers: Vec::new(),
        delete: None,
        exit: None,
        is_first_running: false,
        leaves_by_jumps: false,
        saves_first: false,
        exchanges: Vec::new(),
        called_begins: Vec::new(),
    }
}

/// A kernel that leaves traps by jumps, with threads whose blocks are [`thread_block`]s.
pub(crate) fn jumping_kernel(current: u64) -> Kernel {
    Kernel {
        saved_sp: Some(0),
        stack: Some(4),
        stack_end: Some(StackEnd { offset: 8, bytes: 4, is_size: true, plus_bytes: 0 }),
        is_first_running: true,
        leaves_by_jumps: true,
        saves_first: false,
        ..kernel(current)
    }
}

/// Bytes of a [`thread_block`].
pub(crate) const BLOCK_BYTES: u64 = 32;

/// Block of a thread that has not begun: its stack pointer, the start of its stack, and the stack's size.
pub(crate) fn thread_block(stack: u64, stack_bytes: u64) -> impl Iterator<Item = u8> {
    let words = [stack + stack_bytes, stack, stack_bytes, 0, 0, 0, 0, 0];
    words.into_iter().flat_map(|word| (word as u32).to_le_bytes())
}

/// Code of `jal ra, target`.
pub(crate) fn jal(pc: u64, target: u64) -> u64 {
    let offset = target.wrapping_sub(pc) as u32;
    let bits = |from: u32, count: u32| offset >> from & ((1 << count) - 1);
    u64::from(bits(20, 1) << 31 | bits(1, 10) << 21 | bits(11, 1) << 20 | bits(12, 8) << 12 | 1 << 7 | 0x6f)
}

/// Memory of one range.
pub(crate) fn only(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}
