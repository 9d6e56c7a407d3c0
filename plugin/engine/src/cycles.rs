// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of an AVR's instructions, as far as its code does not tell them: of a branch that is taken, of an instruction that
//! is skipped, of an interrupt's entry, of a halt for the EEPROM. harness knows the usual cycles of each instruction and its
//! executions; counted here are the executions that took more or fewer. The ledger's clock of cycles has both: generated code
//! adds the usual ones of all that starts.

use decode::{AvrCondition, AvrStore, Isa};
use rustc_hash::FxHashMap;
use wire::chip::AVR_DATA;

use crate::block::Block;
use crate::guest::{Guest, Vcpu, avr_pair};
use crate::ledger::{Counters, Ledger};
use crate::skip::{IO, holds};

/// Cycles more of a branch that is taken.
const TAKEN: i64 = 1;

/// Cycles from an interrupt to its vector, where a return address has two bytes. Source: datasheet of ATmega328P, DS40002061,
/// section "Interrupt Response Time". Out of sleep it takes as many again.
const ENTRY: i64 = 4;

/// Cycles for which the processor halts as it begins to read from and to write to the EEPROM. Source: section "EECR" of the same
/// datasheet.
const READ_HALT: i64 = 4;
const WRITE_HALT: i64 = 2;

/// Address of the EEPROM's control register in I/O space.
const EECR_PORT: u32 = 0x1f;

/// Address of the EEPROM's control register in the data space.
pub const EECR: u64 = IO + EECR_PORT as u64;

/// Bits of that register: read, write, allow a write.
const EERE: u8 = 1 << 0;
const EEPE: u8 = 1 << 1;
const EEMPE: u8 = 1 << 2;

/// An instruction whose cycles depend on what it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// Condition on which it is taken, if it is a branch.
    branch: Option<AvrCondition>,
    /// Cycles that it takes less where it is skipped, since it then takes one for each of its words. Those are all that is
    /// counted of an instruction without usual cycles.
    saved: i64,
    /// Bits that it writes to the EEPROM's control register, if it does.
    eeprom: Option<Bits>,
}

/// Bits that an instruction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// Bits that are set; no other changes.
    Set(u8),
    /// Bits of a register.
    Of(u8),
}

impl Bits {
    /// Bits written to the EEPROM's control register by `sbi` or `out`.
    fn to_eeprom(isa: Isa, bytes: &[u8]) -> Option<Bits> {
        let [first, second] = *bytes.first_chunk()?;
        match u16::from_le_bytes([first, second]) {
            insn @ 0x9af8..=0x9aff => Some(Bits::Set(1 << (insn & 7))),
            _ => decode::avr_out(isa, bytes)
                .filter(|&(port, _)| port == EECR_PORT)
                .map(|(_, register)| Bits::Of(register)),
        }
    }
}

impl Paced {
    /// An instruction; `usual`: its usual cycles, 0 if they are not known; `after_skip`: the one before it may skip it. None:
    /// its cycles are always the same.
    fn of(isa: Isa, bytes: &[u8], usual: u64, after_skip: bool) -> Option<Paced> {
        let words = bytes.len() as i64 / 2;
        let saved = if after_skip { usual as i64 - words } else { 0 };
        let paced = Paced { branch: AvrCondition::of_branch(bytes), saved, eeprom: Bits::to_eeprom(isa, bytes) };
        (paced != Paced::default()).then_some(paced)
    }

    /// Whether the value of [`EECR`] decides.
    pub fn needs_eeprom(&self) -> bool {
        self.eeprom.is_some()
    }
}

/// Counts the executions that took more or fewer cycles than usual.
#[derive(Default)]
pub struct Cycles {
    /// Instructions by address.
    paced: FxHashMap<u64, Paced>,
    /// Stores that have found a device, by address.
    stores: FxHashMap<u64, AvrStore>,
    /// Counters by the instruction's address and the cycles.
    counters: FxHashMap<(u64, i64), u32>,
    /// Usual cycles of each instruction that was translated, by address.
    usual: FxHashMap<u64, u8>,
    /// Instructions of the run by the last `sleep`, itself included.
    slept_at_insns: Option<u64>,
    /// Interrupt that has been taken: its vector, and the cycles of its entry.
    taken: Option<(u64, i64)>,
    /// The last execution that took more or fewer.
    last: Option<Counted>,
}

/// Execution of an instruction that took more or fewer cycles than usual.
#[derive(Clone, Copy)]
struct Counted {
    /// Instructions of the window, itself included.
    at_insns: u64,
    slot: u32,
    cycles: i64,
}

/// Instructions whose cycles have been taken back, until they are restored.
pub struct TakenBack {
    usual: i64,
    last: Option<Counted>,
}

impl Cycles {
    /// Counts from now on.
    pub fn new(ledger: &mut Ledger<impl Counters>) -> Cycles {
        ledger.keep_cycles();
        Cycles::default()
    }

    /// Opens the window.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Usual cycles of a translated instruction; 0: they are not known.
    pub fn usual(&self, pc: u64) -> u64 {
        self.usual.get(&pc).map_or(0, |&cycles| cycles.into())
    }

    /// Notes an instruction that is being translated. Returns whether [`Cycles::start`] is to be called at it.
    pub fn plan(&mut self, isa: Isa, pc: u64, bytes: &[u8], after_skip: bool) -> bool {
        let usual = decode::avr_cycles(bytes, isa.call_bytes().into()).unwrap_or(0);
        self.usual.insert(pc, usual as u8);
        // Where a block begins, the code is translated with a skip before it and without.
        let after_skip = after_skip || self.paced.get(&pc).is_some_and(|paced| paced.saved != 0);
        let paced = Paced::of(isa, bytes, usual, after_skip);
        if let Some(paced) = paced {
            self.paced.insert(pc, paced);
        }
        paced.is_some()
    }

    /// Notes an instruction that has found a device. Returns whether [`Cycles::store`] is to be called at it.
    pub fn plan_store(&mut self, pc: u64, bytes: &[u8]) -> bool {
        let store = AvrStore::of(bytes);
        if let Some(store) = store {
            self.stores.insert(pc, store);
        }
        store.is_some()
    }

    /// The instruction at an address, if its cycles depend on what it finds.
    pub fn at(&self, pc: u64) -> Option<Paced> {
        self.paced.get(&pc).copied()
    }

    /// Counts an instruction that starts. `eeprom`: value of [`EECR`], where it decides.
    pub fn start(
        &mut self,
        vcpu: u32,
        pc: u64,
        is_skipped: bool,
        eeprom: Option<u8>,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let Some(&paced) = self.paced.get(&pc) else { return };
        if is_skipped {
            return self.count(vcpu, pc, -paced.saved, ledger);
        }
        if paced.branch.is_some_and(|condition| holds(condition, None, guest)) {
            self.count(vcpu, pc, TAKEN, ledger);
        }
        if let (Some(bits), Some(control)) = (paced.eeprom, eeprom) {
            let written = match bits {
                Bits::Set(bits) => bits,
                Bits::Of(register) => guest.general_register(register) as u8,
            };
            self.count(vcpu, pc, halt(control, written), ledger);
        }
    }

    /// Whether the store at an address, which has found a device, is about to write to [`EECR`].
    pub fn is_to_eeprom(&self, pc: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        self.stores.get(&pc).is_some_and(|store| {
            let pair = store.pair.map_or(0, |lower| avr_pair(guest, lower));
            AVR_DATA.start + u64::from((pair as u16).wrapping_add_signed(store.offset as i16)) == EECR
        })
    }

    /// Counts such a store. `control`: value of [`EECR`].
    pub fn store(
        &mut self,
        vcpu: u32,
        pc: u64,
        control: u8,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        if let Some(store) = self.stores.get(&pc) {
            let written = guest.general_register(store.register) as u8;
            self.count(vcpu, pc, halt(control, written), ledger);
        }
    }

    /// Notes a `sleep`, with which the run has so many instructions.
    pub fn sleep(&mut self, insns: u64) {
        self.slept_at_insns = Some(insns);
    }

    /// Notes the interrupt whose vector is about to execute, after so many instructions of the run.
    pub fn interrupt(&mut self, vector: u64, insns: u64, pc_bytes: u64) {
        let entry = ENTRY + pc_bytes as i64 - 2;
        let times = if self.slept_at_insns == Some(insns) { 2 } else { 1 };
        self.taken = Some((vector, times * entry));
    }

    /// Counts the entry of that interrupt, once its cycles are the interrupt's and no longer those of what it interrupts.
    pub fn enter(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) {
        if let Some((vector, cycles)) = self.taken.take() {
            self.count(vcpu, vector, cycles, ledger);
        }
    }

    /// Takes back the cycles of a start of an instruction that will start again.
    pub fn unstart(&self, vcpu: u32, pc: u64, ledger: &Ledger<impl Counters>) {
        ledger.add_cycles(vcpu, -(self.usual(pc) as i64));
    }

    /// Takes back the usual cycles of a block's last instructions, those after the first `started`, which did not start.
    pub fn amend(&self, vcpu: u32, block: &Block, started: u64, ledger: &Ledger<impl Counters>) {
        ledger.add_cycles(vcpu, -self.usual_of(block, started, block.insns()));
    }

    /// Takes back the cycles of a block's `extra` instructions after its `index`-th, which was the `at_insns`-th of the window.
    /// Events are settled wherever an instruction takes more or fewer, so that only the last of them can have.
    pub fn take_back(
        &mut self,
        vcpu: u32,
        block: &Block,
        (index, extra): (u64, u64),
        at_insns: u64,
        ledger: &Ledger<impl Counters>,
    ) -> TakenBack {
        let usual = self.usual_of(block, index + 1, index + 1 + extra);
        let last = self.last.filter(|last| last.at_insns > at_insns);
        ledger.add_cycles(vcpu, -usual);
        if let Some(Counted { slot, cycles, .. }) = last {
            ledger.add(slot, vcpu, u64::MAX);
            ledger.add_cycles(vcpu, -cycles);
        }
        TakenBack { usual, last }
    }

    /// Usual cycles of a block's instructions from the `start`-th to before the `end`-th.
    fn usual_of(&self, block: &Block, start: u64, end: u64) -> i64 {
        (start..end.min(block.insns())).map(|index| self.usual(block.pc_of(index)) as i64).sum()
    }

    fn count(&mut self, vcpu: u32, pc: u64, cycles: i64, ledger: &mut Ledger<impl Counters>) {
        if cycles != 0 {
            let slot = *self.counters.entry((pc, cycles)).or_insert_with(|| ledger.slower(pc, cycles));
            ledger.add(slot, vcpu, 1);
            ledger.add_cycles(vcpu, cycles);
            self.last = Some(Counted { at_insns: ledger.insns(vcpu), slot, cycles });
        }
    }
}

impl TakenBack {
    /// Counts them again.
    pub fn restore(self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        ledger.add_cycles(vcpu, self.usual);
        if let Some(Counted { slot, cycles, .. }) = self.last {
            ledger.add(slot, vcpu, 1);
            ledger.add_cycles(vcpu, cycles);
        }
    }
}

/// Cycles for which a write to the EEPROM's control register halts the processor; while a write is under way, nothing begins.
fn halt(control: u8, written: u8) -> i64 {
    match control & EEPE == 0 {
        true if written & EERE != 0 => READ_HALT,
        true if written & EEPE != 0 && control & EEMPE != 0 => WRITE_HALT,
        _ => 0,
    }
}
