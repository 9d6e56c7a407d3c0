// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a window that ended without progress, in one handler or polling one register, from the plugin's notes, the
//! image and the memory tree.

use std::collections::BTreeSet;

use decode::{Flow, decode};
use wire::control::{self, Word};

use crate::profile::VcpuCounts;
use crate::profile::no_progress::{Device, Only, OnlyHandler, OnlyPoll, is_long};
use crate::run::qemu::memory;
use crate::run::records::fault::{describe_fault, fault_address, riscv_fault};
use crate::run::records::read::{Poll, Records};
use crate::run::request::plan::Plan;

/// Most instructions between two reads of a register by a loop that only waits for it.
const POLL_INSNS: u64 = 64;

/// Most instructions of a loop that is followed.
const LOOP_INSNS: usize = 16;

impl Plan<'_> {
    /// Evidence that a run ended without progress; `pc` is the address at which it ended, `tree` the machine's memory
    /// tree.
    pub(in crate::run) fn only(&self, records: &Records, pc: Option<u64>, tree: &str) -> Only {
        let has_window = records.control.get(Word::WindowOpen) != 0;
        if !has_window && records.control.end != Some(control::End::Faulting) {
            return Only::default();
        }
        let handler = self.only_handler(records, tree).filter(|handler| {
            // A window may end in any handler, and many faults are recovered from by their handler.
            handler.is_fault || pc.is_some_and(|pc| self.only_loops(handler.since_insns, pc, records))
        });
        let is = |word| records.control.get(word) == 1;
        Only {
            handler,
            poll: self.only_poll(records, tree),
            standstill: None,
            is_final: is(Word::Final),
            is_masked: is(Word::Masked),
        }
    }

    /// Registers of devices that were read over and over, up to the end; `tree` is the machine's memory tree.
    pub(in crate::run) fn polls(&self, records: &Records, tree: &str) -> Vec<OnlyPoll> {
        let polls = records.polls.iter().map(|&Poll { pc, address, value, since_insns, times }| OnlyPoll {
            pc,
            address,
            value,
            times,
            since_insns,
            device: self.device_at(tree, address),
        });
        polls.collect()
    }

    /// Device at an address. A chip's peripheral has the name of the chip file, which QEMU does not know.
    fn device_at(&self, tree: &str, address: u64) -> Option<Device> {
        let device = memory::device_at(tree, address)?;
        let Device::Named(region) = &device else { return Some(device) };
        let block = self.chip.and_then(|chip| chip.wire.block_of_region(region));
        Some(block.map_or(device.clone(), |block| Device::Named(block.name.clone())))
    }

    fn only_poll(&self, records: &Records, tree: &str) -> Option<OnlyPoll> {
        let word = |word| records.control.get(word);
        let times = Some(word(Word::PollTimes)).filter(|&times| times > 0)?;
        let counts = alone(records)?;
        let (since_insns, address) = (word(Word::PollSince), word(Word::PollAddress));
        let insns = counts.clock_insns.saturating_sub(since_insns);
        (is_long(since_insns, counts.clock_insns) && insns / times <= POLL_INSNS).then(|| OnlyPoll {
            pc: word(Word::PollPc),
            address,
            value: word(Word::PollValue),
            times,
            since_insns,
            device: self.device_at(tree, address),
        })
    }

    fn only_handler(&self, records: &Records, tree: &str) -> Option<OnlyHandler> {
        let word = |word| records.control.get(word);
        let times = Some(word(Word::ExceptionTimes)).filter(|&times| times > 0)?;
        let number = word(Word::ExceptionNumber);
        let is_riscv = self.choice.machine.isa.parse().is_ok_and(decode::Isa::is_riscv);
        let is_fault = word(Word::Fault) == 1;
        let cfsr = word(Word::FaultCfsr);
        let (fault, address) = if !is_fault {
            (None, None)
        } else if is_riscv {
            riscv_fault(number, word(Word::FaultValue))
        } else {
            let fault = describe_fault(cfsr, word(Word::FaultHfsr), word(Word::FaultMmfar), word(Word::FaultBfar));
            (fault, fault_address(cfsr, word(Word::FaultMmfar), word(Word::FaultBfar)))
        };
        Some(OnlyHandler {
            number,
            handler: word(Word::ExceptionHandler),
            pc: word(Word::ExceptionPc),
            return_addr: word(Word::ExceptionLink),
            left_sp: Some(word(Word::ExceptionSp)).filter(|&sp| sp != 0),
            since_insns: word(Word::ExceptionSince),
            times,
            fault,
            device: address.and_then(|address| self.device_at(tree, address)),
            is_fault,
            yields: word(Word::ExceptionYields) == 1,
        })
    }

    /// Whether nearly all instructions after the first `since_insns` were those of the loop at `pc`, which only an
    /// interrupt can end. Not all of them: the handler may have printed something first, or may have started an
    /// application.
    fn only_loops(&self, since_insns: u64, pc: u64, records: &Records) -> bool {
        let Some(of_loop) = self.endless_loop(pc) else { return false };
        let Some(counts) = alone(records) else { return false };
        let insns = counts.clock_insns.saturating_sub(since_insns);
        let looped: u64 = counts.insns.iter().filter(|insn| of_loop.contains(&insn.pc)).map(|insn| insn.count).sum();
        insns.saturating_sub(looped) <= insns / 100
    }

    /// Instructions of the endless loop at `pc`, if there is one.
    fn endless_loop(&self, mut pc: u64) -> Option<BTreeSet<u64>> {
        let isa = self.choice.machine.isa.parse().ok()?;
        let mut passed = BTreeSet::new();
        while passed.len() < LOOP_INSNS {
            if !passed.insert(pc) {
                return Some(passed);
            }
            let code = self.image.code_at(pc.wrapping_sub(self.choice.load_bias))?;
            let insn = decode(isa, pc, code);
            pc = match insn.flow {
                Flow::Next => pc.wrapping_add(insn.len_bytes.into()),
                Flow::Jump { target } => target,
                _ => return None,
            };
        }
        None
    }
}

/// Counts of the only CPU that has executed anything; None: several have.
fn alone(records: &Records) -> Option<&VcpuCounts> {
    let mut busy = records.vcpus.iter().filter(|vcpu| vcpu.clock_insns > 0);
    busy.next().filter(|_| busy.next().is_none())
}
