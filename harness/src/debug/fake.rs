// SPDX-License-Identifier: MIT OR Apache-2.0
//! A synthetic run for tests of code that uses [`Travel`]: a list of instructions with their stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use wire::control;
use wire::request::Kernel;

use crate::debug::travel::{Access, At, Ended, Hit, Interrupt, Refused, Register, Stop, Travel, Vcpus, Watch, Why};

/// An instruction of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Insn {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) link: u64,
    /// Bytes that it stores, by address.
    pub(crate) stores: Vec<(u64, u8)>,
    /// Values of further registers before it.
    pub(crate) registers: Vec<(&'static str, u64)>,
}

/// The synthetic run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) insns: Vec<Insn>,
    /// Memory before the first instruction.
    pub(crate) memory: BTreeMap<u64, u8>,
    /// Instruction at which the run is held, from 1; 0: not started, which counts as the first.
    pub(crate) insn: u64,
    pub(crate) breakpoints: Vec<u64>,
    pub(crate) watches: Vec<Watch>,
    /// The vCPU of each instruction, if there are several.
    pub(crate) turns: Vec<usize>,
    /// Number of times that a list of hits took a run from the start.
    pub(crate) lists: u64,
    /// Instruction at which the run was written to.
    pub(crate) written_at: Option<u64>,
    /// Whether every movement of the run is interrupted.
    pub(crate) is_interrupted: bool,
    /// Whether nothing executes any more.
    pub(crate) is_gone: bool,
}

impl Fake {
    /// A run of these addresses with a constant stack pointer.
    pub(crate) fn of(pcs: &[u64]) -> Fake {
        let insns = pcs.iter().map(|&pc| Insn { pc, sp: 0x2000_1000, ..Insn::default() });
        Fake { insns: insns.collect(), insn: 1, ..Fake::default() }
    }

    /// Adds a word stored by an instruction, from 1.
    pub(crate) fn storing(mut self, insn: usize, address: u64, word: u32) -> Fake {
        self.insns[insn - 1].stores.extend((address..).zip(word.to_le_bytes()));
        self
    }

    /// Adds a word in memory.
    pub(crate) fn holding(mut self, address: u64, word: u32) -> Fake {
        self.memory.extend((address..).zip(word.to_le_bytes()));
        self
    }

    fn stop(&self, why: Why) -> Stop {
        Stop { at: self.at(), why }
    }

    fn ended(&mut self) -> Stop {
        self.insn = self.insns.len() as u64;
        self.stop(Why::End(Ended::At(control::End::Exit, self.insn)))
    }

    /// Address of an instruction's first watched store.
    fn watched(&self, insn: u64) -> Option<u64> {
        let stores = &self.insns[insn as usize - 1].stores;
        let is_watched = |address: u64| self.watches.iter().any(|watch| watch.range.contains(&address));
        stores.iter().map(|store| store.0).find(|&address| is_watched(address))
    }
}

struct Never;

impl Interrupt for Never {
    fn interrupt(&self) {}
}

impl Travel for Fake {
    fn at(&self) -> At {
        At { insn: self.insn, pc: self.insns[self.insn as usize - 1].pc }
    }

    fn vcpus(&mut self) -> Result<Vcpus> {
        if self.is_gone {
            return Err(Refused("it has gone".to_owned()).into());
        }
        let mut insns = vec![0; self.turns.iter().max().map_or(1, |last| last + 1)];
        let turn = |insn: u64| self.turns.get(insn as usize - 1).copied().unwrap_or(0);
        (1..=self.insn).for_each(|insn| insns[turn(insn)] += 1);
        Ok(Vcpus { executing: turn(self.insn), insns })
    }

    fn go(&mut self, insn: u64) -> Result<Stop> {
        if insn > self.insns.len() as u64 {
            return Ok(self.ended());
        }
        self.insn = insn;
        Ok(self.stop(Why::Reached))
    }

    fn forward(&mut self, until: Option<u64>) -> Result<Stop> {
        if self.is_interrupted {
            return Ok(self.stop(Why::Interrupted));
        }
        let from = self.insn;
        loop {
            if until.is_some_and(|until| self.insn >= until) {
                return Ok(self.stop(Why::Reached));
            }
            let by = self.insn;
            let watched = self.watched(by);
            if by == self.insns.len() as u64 {
                return Ok(self.ended());
            }
            self.insn += 1;
            if let Some(address) = watched {
                return Ok(self.stop(Why::Watch { address, access: Access::Write, by }));
            }
            if self.insn > from && self.breakpoints.contains(&self.at().pc) {
                return Ok(self.stop(Why::Breakpoint));
            }
        }
    }

    fn backward(&mut self, until: u64) -> Result<Stop> {
        if self.is_interrupted {
            return Ok(self.stop(Why::Interrupted));
        }
        while self.insn > until {
            self.insn -= 1;
            if let Some(address) = self.watched(self.insn) {
                return Ok(self.stop(Why::Watch { address, access: Access::Write, by: self.insn }));
            }
            if self.breakpoints.contains(&self.at().pc) {
                return Ok(self.stop(Why::Breakpoint));
            }
        }
        Ok(self.stop(if until <= 1 { Why::Start } else { Why::Reached }))
    }

    fn set_breakpoints(&mut self, addresses: &[u64]) {
        self.breakpoints = addresses.to_vec();
    }

    fn set_watches(&mut self, watches: &[Watch]) {
        self.watches = watches.to_vec();
    }

    fn hits(&mut self, addresses: &[u64], until: Option<u64>, most: usize) -> Result<(Vec<Hit>, u64)> {
        self.lists += 1;
        let all = (1..).zip(&self.insns).take_while(|(insn, _)| until.is_none_or(|until| *insn < until));
        let hits = all.filter(|(_, insn)| addresses.contains(&insn.pc));
        let mut hits: Vec<Hit> = hits.map(|(insn, at)| Hit { insn, pc: at.pc, sp: at.sp, link: at.link }).collect();
        let count = hits.len();
        hits.drain(..count.saturating_sub(most));
        Ok((hits, count as u64))
    }

    fn registers(&mut self) -> Result<Vec<Register>> {
        let at = &self.insns[self.insn as usize - 1];
        let own = [("sp", at.sp), ("lr", at.link), ("pc", at.pc)];
        let all = own.iter().chain(&at.registers);
        let register = |&(name, value): &(&str, u64)| Register {
            feature: "org.gnu.gdb.arm.m-profile".to_owned(),
            name: name.to_owned(),
            bytes: (value as u32).to_le_bytes().to_vec(),
        };
        Ok(all.map(register).collect())
    }

    fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut memory = self.memory.clone();
        let before = &self.insns[..self.insn as usize - 1];
        memory.extend(before.iter().flat_map(|insn| &insn.stores).copied());
        Ok((address..).take(bytes).map_while(|at| memory.get(&at).copied()).collect())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<Result<(), Refused>> {
        Ok(Err(Refused("it is made by hand".to_owned())))
    }

    fn write_register(&mut self, _: &str, _: &[u8]) -> Result<Result<(), Refused>> {
        Ok(Err(Refused("it is made by hand".to_owned())))
    }

    fn written_at(&self) -> Option<u64> {
        self.written_at
    }

    fn interrupter(&self) -> Arc<dyn Interrupt> {
        Arc::new(Never)
    }

    fn end(&self) -> Option<(At, Ended)> {
        None
    }
}

/// A 32-bit kernel whose variables begin at 0x20000000: the running task, and whether the scheduler runs. A control
/// block begins with the saved stack pointer, and has a name.
pub(crate) fn kernel() -> Kernel {
    Kernel {
        current: 0x2000_0000..0x2000_0004,
        running: Some(0x2000_0004..0x2000_0008),
        idle: Vec::new(),
        begins: Vec::new(),
        idle_entries: Vec::new(),
        next: None,
        name: Some(wire::request::TaskName { at: 0x40..0x48, is_pointer: false }),
        saved_sp: Some(0),
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
