// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of a core whose pipeline is known: each passage through a block is stepped once, by the core's description, and
//! remembered by the state in which the core came to the block and by where it went. Each later one like it adds one to a
//! counter.
//!
//! The beginning of the next block tells how a block went: how many of its instructions started, and where control is. So its
//! cycles are on the clock from there on.

use pipeline::Cycles;
use pipeline::model::{Insn, State};
use rustc_hash::FxHashMap;
use wire::core::Core;
use wire::definition::Doubt;

use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use crate::pace;

/// Most places and passages that are remembered. Others are stepped each time, with the same result.
const MAX_REMEMBERED: usize = 1 << 18;

/// No cycles.
const NONE: Cycles = Cycles::exact(0);

/// Processor's mode in which code was translated, where code is translated for each apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Outside of exceptions, or code is translated for all modes together.
    Thread,
    /// In an exception's handler.
    Handler {
        /// Whether a vector names the code's first instruction.
        is_vector: bool,
        /// Address to which the code's last instruction may lead, as the code names it.
        leads_to: Option<u64>,
    },
}

/// Straight-line code that was translated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Code {
    pc: u64,
    insns: Box<[Insn]>,
    mode: Mode,
}

/// Exception's entry or return between two codes, as their modes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    None,
    Entry,
    Return,
    /// A handler in a handler: it follows the one that has ended, or has preempted one and will return to it, which no mode tells.
    Nested,
}

impl Code {
    fn pc_of(&self, index: usize) -> u64 {
        self.pc + self.insns[..index].iter().map(|insn| u64::from(insn.len_bytes())).sum::<u64>()
    }
}

/// Beginning of a block, with the state in which the core came there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    state: State,
    code: u32,
}

/// A place, by number if it is remembered.
#[derive(Clone, Debug)]
enum At {
    Known(u32),
    Other(Box<Place>),
}

/// Way on from a place: its instructions that started, and the next code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    started: u32,
    next: u32,
}

/// Passage from one place to the next.
#[derive(Clone, Copy, Debug)]
struct Passage {
    slot: u32,
    cycles: u64,
    /// The next place.
    to: u32,
    /// Whether control has turned behind it.
    is_turn: bool,
    /// Cycles of an exception's entry behind it.
    entry: Cycles,
}

/// A vCPU on its way.
#[derive(Clone, Debug)]
struct Position {
    at: At,
    /// Instructions of the run before the block.
    since_insns: u64,
    /// Instructions of the block before the window opened.
    outside: u64,
    /// The passage before, if it was counted by one counter.
    before: Option<(u32, Way, Passage)>,
    /// Cycles of an interrupt's entry before the block, which its first instruction will have.
    entry: Cycles,
}

/// Division whose operands changed its cycles.
#[derive(Clone, Copy, Debug)]
struct Divided {
    /// Instructions of the run, itself included.
    at_insns: u64,
    slot: u32,
    cycles: i64,
}

/// Cycles of the passages through blocks.
pub struct Passages {
    core: Core,
    codes: Vec<Code>,
    code_numbers: FxHashMap<u64, Vec<u32>>,
    places: Vec<Place>,
    place_numbers: FxHashMap<Place, u32>,
    passages: FxHashMap<(u32, Way), Passage>,
    /// The last passage from each place.
    recent: Vec<Option<(Way, Passage)>>,
    /// Counters of single instructions, by address, cycles, and the cycles by which these may be fewer or more.
    singles: FxHashMap<(u64, i64, Doubt), u32>,
    /// Instructions whose operands decide on their cycles, by address.
    divisions: FxHashMap<u64, Insn>,
    vcpus: Vec<Option<Position>>,
    /// Such divisions of each vCPU's block and the one before.
    divided: Vec<Vec<Divided>>,
    /// Cycles of all passages since reset.
    run_cycles: u64,
}

/// Cycles that have been taken back, until they are restored.
pub struct TakenBack {
    slot: u32,
    singles: Vec<u32>,
    divided: Vec<Divided>,
    cycles: i64,
}

impl Passages {
    /// Passages through a core, none yet.
    pub fn new(core: &Core, vcpus: u32, ledger: &mut Ledger<impl Counters>) -> Passages {
        ledger.keep_cycles();
        Passages {
            core: core.clone(),
            codes: Vec::new(),
            code_numbers: FxHashMap::default(),
            places: Vec::new(),
            place_numbers: FxHashMap::default(),
            passages: FxHashMap::default(),
            recent: Vec::new(),
            singles: FxHashMap::default(),
            divisions: FxHashMap::default(),
            vcpus: vec![None; vcpus as usize],
            divided: vec![Vec::new(); vcpus as usize],
            run_cycles: 0,
        }
    }

    /// Cycles of all passages since reset.
    pub fn run_cycles(&self) -> u64 {
        self.run_cycles
    }

    /// Decodes an instruction as the core sees it; its bytes may go on behind it.
    pub fn decode(&self, bytes: &[u8]) -> Insn {
        Insn::decode(&self.core, bytes)
    }

    /// Number of a block's code, for [`Passages::begin`].
    pub fn code(&mut self, pc: u64, insns: Vec<Insn>, mode: Mode) -> u32 {
        let code = Code { pc, insns: insns.into(), mode };
        let alike = self.code_numbers.entry(pc).or_default();
        if let Some(&number) = alike.iter().find(|&&number| self.codes[number as usize] == code) {
            return number;
        }
        let number = self.codes.len() as u32;
        self.codes.push(code);
        alike.push(number);
        number
    }

    /// Notes an instruction that is being translated. Returns whether [`Passages::divide`] is to be called at it.
    pub fn plan(&mut self, pc: u64, insn: &Insn) -> bool {
        let asks = insn.deciding(&self.core).is_some();
        if asks {
            self.divisions.insert(pc, insn.clone());
        }
        asks
    }

    /// Opens the window, after so many instructions of the run.
    pub fn restart(&mut self, vcpu: u32, insns: u64) {
        self.divided[vcpu as usize].clear();
        if let Some(position) = &mut self.vcpus[vcpu as usize] {
            position.outside = insns.saturating_sub(position.since_insns);
            position.before = None;
        }
    }

    /// Counts the passage through the block before, at the beginning of a block, after so many instructions of the run. Returns
    /// whether control has turned there: the last instruction was a branch or jump, or something else has led elsewhere.
    #[inline]
    pub fn begin(&mut self, vcpu: u32, code: u32, insns: u64, ledger: &mut Ledger<impl Counters>) -> bool {
        if let (divided @ [_, ..], Some(position)) = (&self.divided[vcpu as usize][..], &self.vcpus[vcpu as usize]) {
            let is_old = |division: &Divided| division.at_insns <= position.since_insns;
            // Of a block that was left before its first instruction, the block before is still the last one.
            if insns > position.since_insns && divided.first().is_some_and(is_old) {
                let since_insns = position.since_insns;
                self.divided[vcpu as usize].retain(|division| division.at_insns > since_insns);
            }
        }
        // Most passages are like the last one from their place.
        if let Some(Position { at: At::Known(place), since_insns, outside: 0, before, entry: NONE }) =
            &mut self.vcpus[vcpu as usize]
        {
            let way = Way { started: insns.saturating_sub(*since_insns) as u32, next: code };
            if let Some((last, passage)) = self.recent[*place as usize]
                && last == way
            {
                ledger.add(passage.slot, vcpu, 1);
                ledger.add_cycles(vcpu, passage.cycles as i64);
                self.run_cycles += passage.cycles;
                *before = Some((*place, way, passage));
                (*place, *since_insns) = (passage.to, insns);
                return passage.is_turn;
            }
        }
        self.begin_elsewhere(vcpu, code, insns, ledger)
    }

    /// Does the same for any passage.
    fn begin_elsewhere(&mut self, vcpu: u32, code: u32, insns: u64, ledger: &mut Ledger<impl Counters>) -> bool {
        let position = self.vcpus[vcpu as usize].take();
        let (next, is_turn) = match position {
            Some(position) => self.pass(vcpu, position, code, insns, ledger),
            None => {
                let Code { pc, insns: code_insns, .. } = &self.codes[code as usize];
                let mut state = State::at_reset(&self.core, *pc);
                if let Some(first) = code_insns.first() {
                    state.wait(&self.core, *pc, first);
                }
                let at = self.remember(Place { state, code });
                (Position { at, since_insns: insns, outside: 0, before: None, entry: NONE }, false)
            }
        };
        self.vcpus[vcpu as usize] = Some(next);
        is_turn
    }

    fn pass(
        &mut self,
        vcpu: u32,
        position: Position,
        next: u32,
        insns: u64,
        ledger: &mut Ledger<impl Counters>,
    ) -> (Position, bool) {
        let way = Way { started: insns.saturating_sub(position.since_insns) as u32, next };
        if way.started == 0 {
            return (self.leave(position, next), false);
        }
        self.enter(vcpu, &position, ledger);
        let known = match position.at {
            At::Known(from) if position.outside == 0 => {
                let known = self.passages.get(&(from, way)).copied();
                known.or_else(|| self.find(from, way, ledger)).map(|passage| (from, passage))
            }
            _ => None,
        };
        let (at, before, is_turn, entry) = match known {
            Some((from, passage)) => {
                // The next passage has the entry, which the short way does not know.
                if passage.entry == NONE {
                    self.recent[from as usize] = Some((way, passage));
                }
                ledger.add(passage.slot, vcpu, 1);
                ledger.add_cycles(vcpu, passage.cycles as i64);
                self.run_cycles += passage.cycles;
                (At::Known(passage.to), Some((from, way, passage)), passage.is_turn, passage.entry)
            }
            None => {
                let is_turn = self.is_turn(self.place(&position.at).code, way);
                let (state, entry) = self.step(vcpu, &position, way.started, Some(next), ledger);
                (self.remember(Place { state, code: next }), None, is_turn, entry)
            }
        };
        (Position { at, since_insns: insns, outside: 0, before, entry }, is_turn)
    }

    /// Goes on from a block that was left before its first instruction: it is looked for again, or an interrupt comes first.
    fn leave(&mut self, position: Position, next: u32) -> Position {
        let mut place = self.place(&position.at).clone();
        let from_pc = self.codes[place.code as usize].pc;
        let crossing = Self::crossing(&self.codes[place.code as usize], 0, &self.codes[next as usize]);
        place.code = next;
        let Code { pc, insns, .. } = &self.codes[next as usize];
        let mut entry = position.entry;
        if let (true, Some(first)) = (*pc != from_pc, insns.first()) {
            entry += match crossing {
                Crossing::Nested => place.state.nested(&self.core, *pc, None),
                _ => place.state.interrupted(&self.core, *pc),
            };
            entry += place.state.wait(&self.core, *pc, first);
        }
        Position { at: self.remember(place), entry, ..position }
    }

    /// Counts the entry of the interrupt before a block whose first instruction has started.
    fn enter(&mut self, vcpu: u32, position: &Position, ledger: &mut Ledger<impl Counters>) {
        if position.entry != NONE {
            let pc = self.codes[self.place(&position.at).code as usize].pc;
            self.run_cycles += position.entry.nominal;
            let slot = self.single(pc, position.entry, ledger);
            ledger.add(slot, vcpu, 1);
            ledger.add_cycles(vcpu, position.entry.nominal as i64);
        }
    }

    /// Steps a passage that has not been seen before. None: too many are remembered.
    fn find(&mut self, from: u32, way: Way, ledger: &mut Ledger<impl Counters>) -> Option<Passage> {
        if self.passages.len() >= MAX_REMEMBERED {
            return None;
        }
        let place = self.places[from as usize].clone();
        let (cycles, state, entry) = self.cycles(&place, way.started, Some(way.next));
        let At::Known(to) = self.remember(Place { state, code: way.next }) else { return None };
        let code = &self.codes[place.code as usize];
        let sizes = code.insns[..cycles.len()].iter().map(Insn::len_bytes).collect();
        let cycles: Vec<Cycles> = cycles.into_iter().map(|(_, cycles)| cycles).collect();
        let nominal: Vec<u64> = cycles.iter().map(|cycles| cycles.nominal).collect();
        let sum = nominal.iter().sum();
        let are_proved = cycles.iter().all(Cycles::is_exact);
        let doubts = if are_proved { Vec::new() } else { cycles.iter().map(doubt).collect() };
        let slot = ledger.passage(code.pc, sizes, nominal, doubts);
        let passage = Passage { slot, cycles: sum, to, is_turn: self.is_turn(place.code, way), entry };
        self.passages.insert((from, way), passage);
        Some(passage)
    }

    /// Whether control has turned on the way on from a code.
    fn is_turn(&self, code: u32, way: Way) -> bool {
        let (code, next) = (&self.codes[code as usize], &self.codes[way.next as usize]);
        let started = code.insns.len().min(way.started as usize);
        let is_jump = |last: usize| code.insns[last].may_jump();
        pace::is_turn(started.checked_sub(1).is_some_and(is_jump), code.pc_of(started), next.pc)
    }

    /// Steps a passage by itself, and counts its instructions one by one. Returns the state behind it, and the cycles of an
    /// exception's entry there.
    fn step(
        &mut self,
        vcpu: u32,
        position: &Position,
        started: u32,
        next: Option<u32>,
        ledger: &mut Ledger<impl Counters>,
    ) -> (State, Cycles) {
        let place = self.place(&position.at).clone();
        let (cycles, state, entry) = self.cycles(&place, started, next);
        self.run_cycles += cycles.iter().map(|(_, cycles)| cycles.nominal).sum::<u64>();
        for &(pc, cycles) in cycles.iter().skip(position.outside as usize) {
            let slot = self.single(pc, cycles, ledger);
            ledger.add(slot, vcpu, 1);
            ledger.add_cycles(vcpu, cycles.nominal as i64);
        }
        (state, entry)
    }

    fn place<'a>(&'a self, at: &'a At) -> &'a Place {
        match at {
            At::Known(number) => &self.places[*number as usize],
            At::Other(place) => place,
        }
    }

    /// Counts the instructions of a block that the run ends in, after so many instructions of the run.
    pub fn end(&mut self, vcpu: u32, insns: u64, ledger: &mut Ledger<impl Counters>) {
        let Some(position) = self.vcpus[vcpu as usize].take() else { return };
        let started = insns.saturating_sub(position.since_insns) as u32;
        if started > 0 {
            self.enter(vcpu, &position, ledger);
        }
        self.step(vcpu, &position, started, None, ledger);
    }

    /// Counts what the operands of a division, which starts, change of its cycles.
    pub fn divide(&mut self, vcpu: u32, pc: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        let Some(insn) = self.divisions.get(&pc) else { return };
        let Some(operands) = insn.deciding(&self.core) else { return };
        let operands = operands.map(|operand| guest.general_register(operand) as u32);
        let cycles = insn.beyond(&self.core, operands);
        if cycles == 0 {
            return;
        }
        let slot = self.counter((pc, cycles, Doubt::default()), ledger);
        ledger.add(slot, vcpu, 1);
        ledger.add_cycles(vcpu, cycles);
        self.run_cycles = self.run_cycles.saturating_add_signed(cycles);
        let Some(position) = &self.vcpus[vcpu as usize] else { return };
        let code = &self.codes[self.place(&position.at).code as usize];
        let index = (0..code.insns.len()).find(|&index| code.pc_of(index) == pc).unwrap_or(0);
        let at_insns = position.since_insns + index as u64 + 1;
        self.divided[vcpu as usize].push(Divided { at_insns, slot, cycles });
    }

    /// Takes back the cycles of the last passage's instructions behind the `kept_insns`-th of the run, and of the way from that one to
    /// the next.
    pub fn take_back(&mut self, vcpu: u32, kept_insns: u64, ledger: &mut Ledger<impl Counters>) -> Option<TakenBack> {
        let position = self.vcpus[vcpu as usize].as_ref()?;
        let (from, way, passage) = position.before?;
        let over =
            position.since_insns.checked_sub(kept_insns).filter(|over| (0..=way.started.into()).contains(over))?;
        let place = self.places[from as usize].clone();
        // The last that is kept has the cycles that it has where the run ends behind it.
        let (kept, ..) = self.cycles(&place, way.started - over as u32, None);
        let taken = passage.cycles - kept.iter().map(|(_, cycles)| cycles.nominal).sum::<u64>();
        let singles: Vec<u32> = kept.iter().map(|&(pc, cycles)| self.single(pc, cycles, ledger)).collect();
        ledger.add(passage.slot, vcpu, u64::MAX);
        singles.iter().for_each(|&slot| {
            ledger.add(slot, vcpu, 1);
        });
        let is_over = |division: &&Divided| division.at_insns > kept_insns;
        let divided: Vec<Divided> = self.divided[vcpu as usize].iter().filter(is_over).copied().collect();
        divided.iter().for_each(|division| {
            ledger.add(division.slot, vcpu, u64::MAX);
        });
        let cycles = taken as i64 + divided.iter().map(|division| division.cycles).sum::<i64>();
        ledger.add_cycles(vcpu, -cycles);
        Some(TakenBack { slot: passage.slot, singles, divided, cycles })
    }

    /// Counter of an instruction that takes these cycles.
    fn single(&mut self, pc: u64, cycles: Cycles, ledger: &mut Ledger<impl Counters>) -> u32 {
        self.counter((pc, cycles.nominal as i64, doubt(&cycles)), ledger)
    }

    fn counter(&mut self, key: (u64, i64, Doubt), ledger: &mut Ledger<impl Counters>) -> u32 {
        let (pc, cycles, doubt) = key;
        *self.singles.entry(key).or_insert_with(|| ledger.doubtful(pc, cycles, doubt))
    }

    /// Exception's entry or return on the way from a code, of which so many instructions started, to another.
    fn crossing(from: &Code, started: usize, to: &Code) -> Crossing {
        match (from.mode, to.mode) {
            (Mode::Thread, Mode::Thread) => Crossing::None,
            (Mode::Thread, Mode::Handler { .. }) => Crossing::Entry,
            (Mode::Handler { .. }, Mode::Thread) => Crossing::Return,
            (Mode::Handler { leads_to, .. }, Mode::Handler { is_vector, .. }) => {
                let leads = started == from.insns.len() && leads_to == Some(to.pc);
                if is_vector && !leads { Crossing::Nested } else { Crossing::None }
            }
        }
    }

    /// Each of a place's instructions that started, by its address, with its cycles; the core's state where the next code begins;
    /// and the cycles of an exception's entry there.
    fn cycles(&self, place: &Place, started: u32, next: Option<u32>) -> (Vec<(u64, Cycles)>, State, Cycles) {
        let (core, code) = (&self.core, &self.codes[place.code as usize]);
        let insns = &code.insns[..code.insns.len().min(started as usize)];
        let next = next.map(|next| &self.codes[next as usize]);
        let crossing = next.map_or(Crossing::None, |next| Self::crossing(code, insns.len(), next));
        let mut state = place.state.clone();
        let mut pc = code.pc;
        let mut cycles = Vec::with_capacity(insns.len());
        let mut entry = NONE;
        for (index, insn) in insns.iter().enumerate() {
            let behind = pc + u64::from(insn.len_bytes());
            if let (Some(next), None, true) = (next, insns.get(index + 1), crossing != Crossing::None) {
                // Where the instruction would have led to is not known.
                let mut own = state.execute(core, pc, insn, behind);
                let mut way = match crossing {
                    Crossing::Return => state.returned(core, next.pc),
                    Crossing::Nested => state.nested(core, next.pc, Some(insn)),
                    Crossing::Entry | Crossing::None => state.interrupted(core, next.pc),
                };
                way += next.insns.first().map_or(NONE, |first| state.wait(core, next.pc, first));
                // A return belongs to the handler that returns, and an entry to the one that begins.
                *(if crossing == Crossing::Return { &mut own } else { &mut entry }) += way;
                cycles.push((pc, own));
                break;
            }
            let (to, then) = match insns.get(index + 1) {
                Some(then) => (behind, Some(then)),
                None => (next.map_or(behind, |next| next.pc), next.and_then(|next| next.insns.first())),
            };
            let own = state.execute(core, pc, insn, to);
            cycles.push((pc, own + then.map_or(NONE, |then| state.wait(core, to, then))));
            pc = behind;
        }
        (cycles, state, entry)
    }

    fn remember(&mut self, place: Place) -> At {
        if let Some(&number) = self.place_numbers.get(&place) {
            return At::Known(number);
        }
        if self.places.len() >= MAX_REMEMBERED {
            return At::Other(Box::new(place));
        }
        let number = self.places.len() as u32;
        self.places.push(place.clone());
        self.recent.push(None);
        self.place_numbers.insert(place, number);
        At::Known(number)
    }
}

/// Cycles by which a number may be too many, and too few.
fn doubt(cycles: &Cycles) -> Doubt {
    Doubt { fewer: cycles.nominal.saturating_sub(cycles.least), more: cycles.most.saturating_sub(cycles.nominal) }
}

impl TakenBack {
    /// Counts them again.
    pub fn restore(self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.add(self.slot, vcpu, 1);
        self.singles.iter().for_each(|&slot| {
            ledger.add(slot, vcpu, u64::MAX);
        });
        self.divided.iter().for_each(|division| {
            ledger.add(division.slot, vcpu, 1);
        });
        ledger.add_cycles(vcpu, self.cycles);
    }
}
