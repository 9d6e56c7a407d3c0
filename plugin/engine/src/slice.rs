// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices of a run: growth of the counters since the last cut, written at the end of a phase or a slice.
//!
//! The counters are not reset; their values at the last cut are kept here. So memory depends on the number of
//! counters, not on the length of the run. A cut reads each counter once.

use wire::control::Word;
use wire::request::Request;
use wire::slice::{Growth, Slice};

use crate::ledger::{Counters, Ledger};

/// The run's cuts so far.
pub struct Slices {
    vcpus: u32,
    /// Number of the phase's name.
    phase: u32,
    /// Values of the growing counters at the last cut, in their order, with the vCPUs' values of one counter side by
    /// side.
    last: Vec<u64>,
    is_window_open: bool,
}

impl Slices {
    /// State before the first cut. None: the firmware has no phases, and the request asks for no slices.
    pub fn new(request: &Request, vcpus: u32) -> Option<Slices> {
        let measure = request.measure()?;
        let is_cut = measure.slice_insns.is_some() || !measure.events.is_empty();
        is_cut.then(|| Slices { vcpus, phase: 0, last: Vec::new(), is_window_open: false })
    }

    /// Begins another phase. All counts so far belong to the previous one.
    pub fn enter_phase(&mut self, phase: u32, ledger: &mut Ledger<impl Counters>) {
        if phase == self.phase {
            return;
        }
        self.cut(false, ledger);
        self.phase = phase;
        ledger.say(Word::Phase, phase.into());
    }

    /// Writes the growth since the last cut; `is_full`: a slice ends.
    pub fn cut(&mut self, is_full: bool, ledger: &mut Ledger<impl Counters>) {
        if !self.is_window_open {
            return;
        }
        let slots = ledger.growing();
        self.last.resize(slots.len() * self.vcpus as usize, 0);
        let mut vcpus: Vec<Growth> = Vec::new();
        for vcpu in 0..self.vcpus {
            let mut counts = Vec::new();
            for (&slot, last) in slots.iter().zip(self.last.chunks_mut(self.vcpus as usize)) {
                let now = ledger.get(slot, vcpu);
                let grown = now.wrapping_sub(std::mem::replace(&mut last[vcpu as usize], now));
                if grown != 0 {
                    counts.push((slot, grown as i64));
                }
            }
            vcpus.push(Growth { end_insns: ledger.insns(vcpu), counts });
        }
        ledger.slice(&Slice { phase: self.phase, is_full, vcpus });
    }

    /// Opens the window: the counters have been cleared.
    pub fn restart(&mut self) {
        self.last.clear();
        self.is_window_open = true;
    }
}
