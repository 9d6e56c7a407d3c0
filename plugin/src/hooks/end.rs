//! The ends of a run that the plugin brings about or witnesses.

use std::io;
use std::sync::OnceLock;
use std::thread;

use wire::control::{End, Word};

use crate::clock::from_insn_id;
use crate::follow::span::ICSR;
use crate::qemu::{self, AbortHook, ExitHook, StoreCallback, StoreHook};
use crate::records::Control;
use crate::state::{self, State};

/// Armv7-M ARM B3.2.6: key 0x05FA in the upper half, bit 2 asks for a reset.
const AIRCR: u64 = 0xe000_ed0c;

/// After a store that was the last instruction of its block, as every device access is.
pub(crate) struct OnStore;

impl StoreHook for OnStore {
    const CALL: StoreCallback = |vcpu, address, value, id| {
        let mut state = state::lock();
        let vcpu = state.running_vcpu(vcpu);
        let (block, index) = from_insn_id(id);
        let pc = state.blocks.get(block).pc_of(index);
        let arm = !state.args.isa.is_riscv();
        let end = if Some(address) == state.args.finisher {
            // hw/misc/sifive_test.c: the low half is the command, the high half a status.
            match value & 0xffff {
                0x5555 => (End::Exit, 0),
                0x3333 => (End::Exit, (value >> 16) & 0xffff),
                0x7777 => (End::Reset, 0),
                _ => return,
            }
        } else if arm && address == AIRCR && value >> 16 & 0xffff == 0x05fa && value & 4 != 0 {
            (End::Reset, 0)
        } else {
            if arm && address == ICSR {
                state.pend(vcpu, value, pc);
            }
            return;
        };
        state.settle(vcpu);
        state.end(end.0, end.1, pc);
    };
}

impl State {
    /// Ends the run here. The caller has settled the vCPU's events.
    pub(crate) fn end(&mut self, end: End, value: u64, pc: u64) -> ! {
        self.note_paints();
        self.take_snapshot(wire::SNAPSHOT_END).unwrap_or_else(|error| self.write_failed(&error));
        self.close(end, value, pc)
    }

    fn close(&self, end: End, value: u64, pc: u64) -> ! {
        let control = self.records.control;
        control.set(Word::EndValue, value);
        control.set(Word::EndPc, pc);
        control.set(Word::End, end as u64);
        qemu::exit(0)
    }

    /// Handles what the clocks say is due on every vCPU: nothing will execute any more.
    fn settle_all(&mut self) {
        for vcpu in 0..self.vcpus.len() as u32 {
            self.settle(vcpu);
        }
    }

    /// Ends the run because a record could not be written.
    pub(crate) fn write_failed(&self, error: &io::Error) -> ! {
        self.close(End::WriteFailed, error.raw_os_error().unwrap_or(0) as u64, 0)
    }
}

/// QEMU exits because it was told to (the harness ended the run) or for its own reasons.
pub(crate) struct OnExit;

impl ExitHook for OnExit {
    const CALL: fn() = || {
        // Not where QEMU exits out of a callback of ours.
        if let Some(mut state) = state::try_lock() {
            // QEMU asserts a vCPU where memory is read. A limit that is settled now leaves the snapshot
            // to the harness, which took one before it had QEMU quit.
            state.memory_readable = false;
            state.settle_all();
        }
    };
}

static CONTROL: OnceLock<&'static Control> = OnceLock::new();

/// Has the records completed when QEMU exits or aborts.
pub(crate) fn watch(id: u64) {
    qemu::on_exit::<OnExit>(id);
    qemu::on_abort::<OnAbort>();
    let state = state::lock();
    if !state.args.isa.is_riscv() {
        CONTROL.get_or_init(|| state.records.control);
    }
}

/// QEMU aborts on a Cortex-M lock-up: the fault status registers say why it came to that.
struct OnAbort;

impl AbortHook for OnAbort {
    const CALL: fn() = || {
        // Not where the abort came out of a callback of ours.
        let mut state = state::try_lock();
        if let Some(state) = &mut state {
            // On another thread there is no vCPU whose memory could be read: it would abort once more.
            state.memory_readable = state.vcpu_thread == Some(thread::current().id());
            state.settle_all();
        }
        record_fault();
        if let Some(state) = &mut state {
            // There is nothing better to do if this fails, too.
            let _ = state.take_snapshot(wire::SNAPSHOT_END);
        }
    };
}

/// Reads the fault status registers of a Cortex-M.
fn record_fault() {
    let Some(control) = CONTROL.get() else { return };
    // Armv7-M ARM B3.2.15-18: CFSR, HFSR, DFSR, MMFAR, BFAR in a row; reading has no effect.
    let Some(words) = qemu::read_memory_once(0xe000_ed28, 20) else { return };
    let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| words[index * 4 + byte])).into();
    control.set(Word::FaultCfsr, word(0));
    control.set(Word::FaultHfsr, word(1));
    control.set(Word::FaultMmfar, word(3));
    control.set(Word::FaultBfar, word(4));
    control.set(Word::Fault, 1);
}
