// SPDX-License-Identifier: GPL-2.0-or-later
//! Differences of QEMU's AVR from its other processors: it starts accesses of devices twice, it executes others within a
//! block, and it does not sleep.

use std::collections::BTreeSet;

use engine::block::Block;
use engine::skip::Skips;
use rustc_hash::FxHashMap;
use wire::chip::{AVR_DATA, Chip};

use crate::qemu::{self, AvrState, Block as QemuBlock, Guest, KnownAvr};

/// Address of I/O space's first register in the data space.
const IO: u64 = AVR_DATA.start + 0x20;

/// An AVR, and the devices that are added to it.
pub(crate) struct Avr {
    /// QEMU's state, once it has been needed.
    state: Option<AvrState>,
    /// Registers of I/O space that are the added devices'.
    ports: BTreeSet<u32>,
    /// Skips before instructions with callbacks that a skip matters to, by block and index.
    skips: FxHashMap<(usize, u64), Skips>,
    /// Whether the first instruction of the block that executes is skipped, if a skip may lead to the block.
    is_block_skipped: bool,
    /// Bits of registers of I/O space that single instructions write, by their addresses.
    bits: FxHashMap<u64, u8>,
    /// Address of the `wdr` that starts again, as one that is skipped.
    started_again: Option<u64>,
    /// An instruction takes 2^shift ns. None: no devices are added.
    insn_shift: Option<u32>,
}

impl Avr {
    /// An AVR with the devices of a chip.
    pub(crate) fn new(chip: Option<&Chip>) -> Avr {
        let bytes = chip.iter().flat_map(|chip| &chip.blocks).flat_map(|block| &block.bytes_at);
        let ports = bytes.filter_map(|byte| u32::try_from(byte.address.checked_sub(IO)?).ok()).collect();
        let insn_shift = chip.map(|chip| chip.insn_shift);
        Avr {
            state: None,
            ports,
            skips: FxHashMap::default(),
            is_block_skipped: false,
            bits: FxHashMap::default(),
            started_again: None,
            insn_shift,
        }
    }

    /// Whether a register of I/O space is that of an added device.
    pub(crate) fn has_port(&self, io: u32) -> bool {
        self.ports.contains(&io)
    }

    /// Time after this number of instructions, if a device is there to ask for it and the clock counts them.
    pub(crate) fn ns(&self, insns: u64) -> Option<u64> {
        self.insn_shift.map(|shift| insns << shift)
    }

    /// Whether a block that is being translated only starts an instruction again, whose first start has been counted.
    pub(crate) fn is_again(&mut self, block: &QemuBlock, guest: &mut Guest) -> bool {
        let mut insns = block.insns();
        let (Some(only), None) = (insns.next(), insns.next()) else { return false };
        let (bytes, length) = only.bytes();
        decode::accesses_avr_data(guest.isa, &bytes[..length]) && self.state(guest).starts_again()
    }

    /// Begins a block that a skip may lead to.
    pub(crate) fn begin_block(&mut self, guest: &mut Guest) {
        self.is_block_skipped = self.started_again.is_none() && self.state(guest).skips();
    }

    /// Notes that an instruction writes these bits of a register alone.
    pub(crate) fn set_bits(&mut self, pc: u64, bits: u8) {
        self.bits.insert(pc, bits);
    }

    /// Bits of a register of I/O space that an instruction writes.
    pub(crate) fn bits(&self, pc: u64) -> u8 {
        self.bits.get(&pc).copied().unwrap_or(u8::MAX)
    }

    /// Whether a `wdr` has to start again, as one that is skipped. Otherwise it is one already; at its block's start, as the skip
    /// before it says.
    pub(crate) fn start_again(&mut self, pc: u64, begins_block: bool, guest: &mut Guest) -> bool {
        let can_leave = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if !can_leave || self.started_again == Some(pc) || (begins_block && self.state(guest).skips()) {
            return false;
        }
        self.started_again = Some(pc);
        self.state(guest).skip_next();
        true
    }

    /// Whether a `wdr` feeds the watchdog, as it starts again.
    pub(crate) fn feeds(&mut self, pc: u64) -> bool {
        self.started_again.take_if(|of| *of == pc).is_some()
    }

    /// Whether the first instruction of the block that executes is skipped, if a skip may lead to the block.
    pub(crate) fn is_block_skipped(&self) -> bool {
        self.is_block_skipped
    }

    /// Notes the skips before an instruction.
    pub(crate) fn set_skips(&mut self, block: usize, index: u64, skips: Skips) {
        self.skips.insert((block, index), skips);
    }

    /// The skips before an instruction with a callback; None: no skip comes before it.
    pub(crate) fn skips(&self, block: usize, index: u64) -> Option<&Skips> {
        self.skips.get(&(block, index))
    }

    /// Handles an interrupt that starts, before its first instruction. Returns whether the code that it interrupts was about
    /// to start an instruction again: that start comes after the interrupt's return, from the beginning.
    pub(crate) fn interrupted(&mut self, guest: &mut Guest) -> bool {
        let state = self.state(guest);
        let starts_again = state.starts_again();
        if starts_again {
            state.forget_start();
        }
        starts_again
    }

    /// Makes a `sleep` end at once, or an instruction that is skipped lead to the next: QEMU leaves the block there without a
    /// new address. Where the instruction has one, it sets it itself.
    pub(crate) fn go_on_behind(&mut self, block: &Block, index: u64, guest: &mut Guest) {
        self.state(guest).go_on_at(block.pc_of(index + 1) as u32);
    }

    /// Lets QEMU read flash at RAMPZ, or no longer.
    pub(crate) fn use_rampz(&mut self, uses: bool, guest: &mut Guest) {
        self.state(guest).use_rampz(uses);
    }

    /// Makes QEMU look for interrupts that came while they were masked. Returns whether there is one.
    pub(crate) fn unmask(&mut self, guest: &mut Guest) -> bool {
        self.state(guest).look_for_interrupts()
    }

    fn state(&mut self, guest: &mut Guest) -> AvrState {
        *self.state.get_or_insert_with(|| {
            let mut general = [0; 32];
            (0..).zip(&mut general).for_each(|(number, byte)| *byte = guest.general_register(number) as u8);
            let [sp, pc] = ["sp", "pc"].map(|name| guest.known_register(name).unwrap_or(0));
            AvrState::find(&KnownAvr { general, sp: sp as u16, pc: pc as u32 }).unwrap_or_else(|| {
                qemu::say("the AVR's state is not where it is in QEMU 10.0: please report this version of QEMU");
                qemu::exit(1)
            })
        })
    }
}
