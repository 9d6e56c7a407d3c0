// SPDX-License-Identifier: MIT OR Apache-2.0
//! An artificial run: `main` of an image calls its leaf `timer_stop`, over and over, for 200 instructions. An array
//! defines each instruction's effect; code and names are the image's, so that GDB can show them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;
use decode::Isa;
use harness::debug::server::{Monitor, serve};
use harness::debug::socket::Listener;
use harness::debug::thread::{Processor, Threads};
use harness::debug::travel::{
    Access, At, Ended, Hit, Interrupt, Position, Refused, Register, Stop, Travel, Vcpus, Watch, Why,
};
use object::{Object, ObjectSegment, ObjectSymbol};
use wire::control::End;

use crate::common::image;

/// Length of the run, in instructions.
pub(crate) const INSNS: u64 = 200;

/// Target of a `go` that blocks until it is interrupted.
const WAITS: u64 = u64::MAX;

/// The stack pointer, constant over the run.
const SP: u64 = 0x100;

/// An image, and the addresses of its parts.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) isa: Isa,
    pub(crate) elf: PathBuf,
    /// One round: the end of what `main` does before the call, the leaf, and two instructions of `main` after it.
    pub(crate) round: Vec<u64>,
    /// Index of the call in the round.
    pub(crate) call: usize,
    /// Length of the leaf, in instructions.
    pub(crate) leaf: usize,
    /// Address of the variable `ticks`, which the leaf's last but one instruction writes and the first after the call
    /// reads.
    pub(crate) ticks: u64,
    segments: Vec<(u64, Vec<u8>)>,
}

impl Code {
    pub(crate) fn of(name: &str, isa: Isa) -> Code {
        let elf = image(name);
        let bytes = std::fs::read(&elf).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let is_arm = !matches!(isa, Isa::Riscv32 | Isa::Riscv64);
        let symbol = |name: &str| {
            let found = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
            let start = if is_arm { found.address() & !1 } else { found.address() };
            start..start + found.size()
        };
        let segments: Vec<(u64, Vec<u8>)> =
            file.segments().map(|segment| (segment.address(), segment.data().unwrap().to_vec())).collect();
        let half = |address: u64| {
            let (start, bytes) = segments
                .iter()
                .find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&address))
                .unwrap();
            let at = (address - start) as usize;
            u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
        };
        let addresses = |range: Range<u64>| {
            let mut all = Vec::new();
            let mut at = range.start;
            while at < range.end {
                all.push(at);
                let is_long = if is_arm { half(at) >> 11 >= 0x1d } else { half(at) & 3 == 3 };
                at += if is_long { 4 } else { 2 };
            }
            all
        };
        let leaf_range = symbol("timer_stop");
        let leaf = addresses(leaf_range.clone());
        let main = addresses(symbol("main"));
        // Target of Thumb's `bl` or RISC-V's `jal`.
        let target = |at: u64| {
            let (low, high) = (half(at), half(at + 2));
            let offset = if is_arm {
                let (sign, j1, j2) = (low >> 10 & 1, high >> 13 & 1, high >> 11 & 1);
                let bits = sign << 24
                    | (1 ^ j1 ^ sign) << 23
                    | (1 ^ j2 ^ sign) << 22
                    | (low & 0x3ff) << 12
                    | (high & 0x7ff) << 1;
                ((bits << 7) as i32 >> 7) + 4
            } else {
                let word = high << 16 | low;
                let bits = (word >> 31) << 20
                    | (word >> 12 & 0xff) << 12
                    | (word >> 20 & 1) << 11
                    | (word >> 21 & 0x3ff) << 1;
                (bits << 11) as i32 >> 11
            };
            at.wrapping_add_signed(i64::from(offset))
        };
        let site = main[..main.len() - 1]
            .iter()
            .position(|&at| target(at) == leaf_range.start)
            .expect("main calls timer_stop");
        let round: Vec<u64> =
            main[site - 2..=site].iter().chain(&leaf).chain(&main[site + 1..site + 3]).copied().collect();
        let ticks = symbol("ticks").start;
        Code { isa, elf, round, call: 2, leaf: leaf.len(), ticks, segments }
    }

    pub(crate) fn arm() -> Code {
        Code::of("cortex-m3-bare", Isa::ThumbV7m)
    }

    pub(crate) fn riscv() -> Code {
        Code::of("riscv64-bare", Isa::Riscv64)
    }

    /// Number of the instruction at index `place` of a round.
    pub(crate) fn nth(&self, place: usize, round: usize) -> u64 {
        (round * self.round.len() + place + 1) as u64
    }

    pub(crate) fn is_arm(&self) -> bool {
        !matches!(self.isa, Isa::Riscv32 | Isa::Riscv64)
    }

    /// Size of a register, in bytes.
    fn word_bytes(&self) -> usize {
        if self.isa == Isa::Riscv64 { 8 } else { 4 }
    }
}

/// Behaviour of the fake run.
#[derive(Clone, Default)]
pub(crate) struct Manners {
    /// Whether memory and registers can be written.
    pub(crate) is_writable: bool,
    /// Whether it runs for ever without a hit, until it is interrupted.
    pub(crate) is_endless: bool,
    /// Whether it ends because QEMU ended.
    pub(crate) crashes: bool,
    /// Whether `go` reports only `Reached`, even at a breakpoint and at the start.
    pub(crate) is_terse: bool,
    /// Whether going on fails.
    pub(crate) fails: bool,
    /// Instruction at which it refuses every request.
    pub(crate) refuses_at: Option<u64>,
}

pub(crate) struct Fake {
    code: Code,
    manners: Manners,
    insn: u64,
    breakpoints: BTreeSet<u64>,
    watches: Vec<Watch>,
    written: BTreeMap<u64, u8>,
    registers: BTreeMap<String, Vec<u8>>,
    interrupt: Arc<Flag>,
    position: Arc<Position>,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Interrupt for Flag {
    fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Fake {
    pub(crate) fn new(code: Code, manners: Manners) -> Fake {
        Fake {
            code,
            manners,
            insn: 1,
            breakpoints: BTreeSet::new(),
            watches: Vec::new(),
            written: BTreeMap::new(),
            registers: BTreeMap::new(),
            interrupt: Arc::default(),
            position: Arc::default(),
        }
    }

    fn pc(&self, insn: u64) -> u64 {
        self.code.round[(insn - 1) as usize % self.code.round.len()]
    }

    /// The round that an instruction is in, from 0.
    fn round(&self, insn: u64) -> u64 {
        (insn - 1) / self.code.round.len() as u64
    }

    fn place(&self, insn: u64) -> usize {
        (insn - 1) as usize % self.code.round.len()
    }

    /// Access of `ticks` by an instruction.
    fn access(&self, insn: u64) -> Option<Access> {
        let ret = self.code.call + self.code.leaf;
        match self.place(insn) {
            place if place == ret - 1 => Some(Access::Write),
            place if place == ret + 1 => Some(Access::Read),
            _ => None,
        }
    }

    /// Number of writes to `ticks` before an instruction.
    fn ticks(&self, insn: u64) -> u64 {
        self.round(insn) + u64::from(self.place(insn) >= self.code.call + self.code.leaf)
    }

    fn watched(&self, insn: u64) -> Option<Why> {
        let access = self.access(insn)?;
        let range = self.code.ticks..self.code.ticks + 4;
        let is_meant = |watch: &&Watch| {
            (watch.access == Access::Any || watch.access == access)
                && watch.range.start < range.end
                && range.start < watch.range.end
        };
        self.watches.iter().find(is_meant)?;
        Some(Why::Watch { address: self.code.ticks, access, by: insn })
    }

    fn unless_refused(&self) -> Result<()> {
        match self.manners.refuses_at {
            Some(at) if at == self.insn => Err(Refused("the fake will not".to_owned()).into()),
            _ => Ok(()),
        }
    }

    fn stop(&self, why: Why) -> Result<Stop> {
        Ok(Stop { at: self.at(), why })
    }

    fn over(&self) -> Ended {
        if self.manners.crashes { Ended::Gone("qemu: fatal: Lockup".to_owned()) } else { Ended::At(End::Exit, 0) }
    }
}

impl Travel for Fake {
    fn at(&self) -> At {
        At { insn: self.insn, pc: self.pc(self.insn) }
    }

    fn vcpus(&mut self) -> Result<Vcpus> {
        Ok(Vcpus { executing: 0, insns: vec![self.insn] })
    }

    fn go(&mut self, insn: u64) -> Result<Stop> {
        if insn == WAITS {
            while !self.interrupt.0.swap(false, Ordering::SeqCst) {
                std::thread::yield_now();
            }
            return self.stop(Why::Interrupted);
        }
        self.insn = insn.clamp(1, INSNS);
        if insn > INSNS { self.stop(Why::End(self.over())) } else { self.stop(Why::Reached) }
    }

    fn forward(&mut self, until: Option<u64>) -> Result<Stop> {
        if self.manners.fails {
            anyhow::bail!("the fake has failed");
        }
        self.unless_refused()?;
        loop {
            if until == Some(self.insn) {
                return self.stop(Why::Reached);
            }
            if self.insn == INSNS {
                if !self.manners.is_endless {
                    return self.stop(Why::End(self.over()));
                }
                while !self.interrupt.0.swap(false, Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                return self.stop(Why::Interrupted);
            }
            self.insn += 1;
            if let Some(why) = self.watched(self.insn - 1) {
                return self.stop(why);
            }
            if self.manners.is_terse && until == Some(self.insn) {
                return self.stop(Why::Reached);
            }
            if self.breakpoints.contains(&self.pc(self.insn)) {
                return self.stop(Why::Breakpoint);
            }
        }
    }

    fn backward(&mut self, until: u64) -> Result<Stop> {
        self.unless_refused()?;
        loop {
            if self.insn == 1 {
                return self.stop(if self.manners.is_terse { Why::Reached } else { Why::Start });
            }
            if self.insn == until {
                return self.stop(Why::Reached);
            }
            self.insn -= 1;
            if let Some(why) = self.watched(self.insn) {
                return self.stop(why);
            }
            if self.breakpoints.contains(&self.pc(self.insn)) {
                return self.stop(Why::Breakpoint);
            }
        }
    }

    fn set_breakpoints(&mut self, addresses: &[u64]) {
        self.breakpoints = addresses.iter().copied().collect();
    }

    fn set_watches(&mut self, watches: &[Watch]) {
        self.watches = watches.to_vec();
    }

    fn hits(&mut self, _addresses: &[u64], _until: Option<u64>, _most: usize) -> Result<(Vec<Hit>, u64)> {
        unreachable!("the server asks for none")
    }

    fn registers(&mut self) -> Result<Vec<Register>> {
        self.unless_refused()?;
        let word = self.code.word_bytes();
        let at = self.at();
        let place = self.place(self.insn);
        // After the call, the link register has the leaf's return address.
        let mut link = if place > self.code.call { self.code.round[self.code.call] + 4 } else { 0 };
        link |= u64::from(self.code.is_arm());
        let mut all = Vec::new();
        let mut put = |feature: &str, name: String, value: Option<u64>, bytes: usize| {
            let value = value.map(|value| value.to_le_bytes()[..bytes].to_vec()).unwrap_or_default();
            let bytes = self.registers.get(&name).cloned().unwrap_or(value);
            all.push(Register { feature: feature.to_owned(), name, bytes });
        };
        let sp = self.code.ticks + SP;
        if self.code.is_arm() {
            let core = "org.gnu.gdb.arm.m-profile";
            for number in 0..13 {
                put(core, format!("r{number}"), Some(if number == 0 { self.insn } else { number }), 4);
            }
            for (name, value) in [("sp", sp), ("lr", link), ("pc", at.pc), ("xpsr", 0x0100_0000)] {
                put(core, name.to_owned(), Some(value), 4);
            }
            for (name, value) in
                [("msp", Some(sp)), ("psp", Some(0x2000_0800)), ("primask", Some(1)), ("control", None)]
            {
                put("org.gnu.gdb.arm.m-system", name.to_owned(), value, 4);
            }
            put("org.gnu.gdb.arm.vfp", "d0".to_owned(), Some(1.5f64.to_bits()), 8);
            for number in 1..16 {
                put("org.gnu.gdb.arm.vfp", format!("d{number}"), Some(0), 8);
            }
            put("org.gnu.gdb.arm.vfp", "fpscr".to_owned(), Some(0), 4);
            return Ok(all);
        }
        let core = "org.gnu.gdb.riscv.cpu";
        let names =
            "zero ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6 pc";
        for name in names.split(' ') {
            let value = match name {
                "ra" => link,
                "sp" => sp,
                "pc" => at.pc,
                "a0" => self.insn,
                _ => 0,
            };
            put(core, name.to_owned(), Some(value), word);
        }
        for name in ["ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1"] {
            put("org.gnu.gdb.riscv.fpu", name.to_owned(), Some(1.5f64.to_bits()), 8);
        }
        for number in 0..8 {
            put("org.gnu.gdb.riscv.fpu", format!("fa{number}"), Some(0), 8);
        }
        for name in
            ["fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11"]
        {
            put("org.gnu.gdb.riscv.fpu", name.to_owned(), Some(0), 8);
        }
        put("org.gnu.gdb.riscv.virtual", "priv".to_owned(), Some(3), word);
        for (name, value) in [("mstatus", Some(0x1800)), ("mcause", Some(7)), ("time", None)] {
            put("org.gnu.gdb.riscv.csr", name.to_owned(), value, word);
        }
        Ok(all)
    }

    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        self.unless_refused()?;
        let ticks = self.ticks(self.insn) as u32;
        let byte = |address: u64| {
            if let Some(byte) = self.written.get(&address) {
                return Some(*byte);
            }
            if (self.code.ticks..self.code.ticks + 4).contains(&address) {
                return Some(ticks.to_le_bytes()[(address - self.code.ticks) as usize]);
            }
            // Bytes of the stack name the instruction that the run is held at.
            if (self.code.ticks + SP..self.code.ticks + SP + 0x400).contains(&address) {
                return Some(if address.is_multiple_of(4) { self.insn as u8 } else { 0 });
            }
            let within = |(start, bytes): &(u64, Vec<u8>)| bytes.get(address.checked_sub(*start)? as usize).copied();
            self.code.segments.iter().find_map(within)
        };
        Ok((address..).take(bytes).map_while(byte).collect())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<Result<(), Refused>> {
        self.unless_refused()?;
        if !self.manners.is_writable {
            return Ok(Err(Refused("this run is not to be changed".to_owned())));
        }
        self.written.extend((address..).zip(bytes.iter().copied()));
        Ok(Ok(()))
    }

    fn write_register(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Refused>> {
        self.unless_refused()?;
        if !self.manners.is_writable {
            return Ok(Err(Refused("this QEMU writes no registers".to_owned())));
        }
        self.registers.insert(name.to_owned(), bytes.to_vec());
        Ok(Ok(()))
    }

    fn can_watch(&self) -> Result<(), Refused> {
        self.unless_refused().map_err(|error| error.downcast().unwrap())
    }

    fn interrupter(&self) -> Arc<dyn Interrupt> {
        Arc::clone(&self.interrupt) as Arc<dyn Interrupt>
    }

    fn position(&self) -> Arc<Position> {
        Arc::clone(&self.position)
    }

    fn end(&self) -> Option<(At, Ended)> {
        None
    }
}

/// The monitor of these tests: `goto N`, `look`, `wait` until it is interrupted, `work` for longer than GDB waits for
/// an answer; other words are an error.
fn monitor(travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
    match words.split_once(' ') {
        None if words == "wait" => {
            say("it waits");
            travel.position().set(1_234);
            match travel.go(WAITS).unwrap().why {
                Why::Interrupted => "it was interrupted".to_owned(),
                why => format!("{why:?}"),
            }
        }
        Some(("goto", insn)) => {
            travel.go(insn.parse().unwrap()).unwrap();
            format!("gone to {insn}")
        }
        None if words == "work" => {
            std::thread::sleep(std::time::Duration::from_secs(3));
            "done".to_owned()
        }
        // Clears breakpoints and watches, as a search does.
        None if words == "look" => {
            travel.set_breakpoints(&[]);
            travel.set_watches(&[]);
            String::new()
        }
        _ => format!("{words}?"),
    }
}

/// A server with the fake run.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) line: String,
    thread: JoinHandle<Result<()>>,
}

impl Server {
    pub(crate) fn start(code: &Code, manners: Manners) -> Server {
        Server::with(code, manners, Listener::private().unwrap(), || Box::new(Processor))
    }

    pub(crate) fn with(
        code: &Code,
        manners: Manners,
        mut listener: Listener,
        threads: impl FnOnce() -> Box<dyn Threads> + Send + 'static,
    ) -> Server {
        let address = listener.address();
        let line = listener.line(code.isa, &code.elf);
        let code = code.clone();
        let thread = std::thread::spawn(move || {
            let isa = code.isa;
            let mut fake = Fake::new(code, manners);
            let mut monitor: Box<dyn Monitor> = Box::new(monitor);
            serve(&mut fake, isa, &mut *threads(), &mut *monitor, &mut listener)
        });
        Server { address, line, thread }
    }

    /// Result of the server once its client has gone; asserts that its socket is removed.
    pub(crate) fn end(self) -> Result<()> {
        let ended = self.thread.join().unwrap();
        assert!(!std::path::Path::new(&self.address).exists(), "{} is left", self.address);
        ended
    }
}
