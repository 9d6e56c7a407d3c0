//! What QEMU calls. Each callback locks the state, lets what was due before come first, and hands over to the parts.
//!
//! The order in which they run at an instruction is that of [`crate::translate`]'s lists.

mod debug;
mod end;
mod follow;
mod heap;
mod time;
mod timeline;

use std::sync::MutexGuard;

pub(crate) use debug::{OnDueBlock, OnHold, OnStep, OnWatchedLoad, OnWatchedStore};
pub(crate) use end::{OnLoad, OnStore, watch};
pub(crate) use follow::{
    OnCrossing, OnDelete, OnEvent, OnEventWait, OnException, OnExceptionReturn, OnFaultReturn, OnFirstTask,
    OnForgetful, OnFrom, OnFunction, OnIdle, OnMask, OnMasked, OnPoll, OnPolled, OnStackMove, OnSwitch, OnTrapReturn,
    OnUntil, OnZone,
};
pub(crate) use heap::{OnAllocated, OnAllocator};
pub(crate) use time::{
    OnArrival, OnBlock, OnBound, OnInput, OnMispredicted, OnPredictedBlock, OnRegisterJump, OnSegment, OnSemihosting,
    OnTransfer, OnUnsure, OnVector, OnWait, OracleCount, OracleSample,
};
pub(crate) use timeline::{OnTraced, OnTracedReturn};

use crate::qemu::{Thread, VcpuCallback, VcpuHook};
use crate::state::{self, State};
use engine::block::from_insn_id;

/// A vCPU appears: its registers can be looked up.
pub(crate) struct VcpuInit;

impl VcpuHook for VcpuInit {
    const CALL: VcpuCallback = |_| {
        Thread::current().executes_guest();
        state::lock().appear();
    };
}

/// An instruction at which a vCPU is, before it executes.
#[derive(Clone, Copy)]
struct Here {
    vcpu: u32,
    block: usize,
    index: u64,
    pc: u64,
}

/// The state and the place of an instruction, by its [`engine::block::insn_id`]. Nothing that was due before is done.
fn find(vcpu: u32, id: usize) -> (MutexGuard<'static, State>, Here) {
    let (block, index) = from_insn_id(id);
    let mut state = state::lock();
    let vcpu = state.running_vcpu(vcpu);
    let pc = state.blocks.get(block).pc_of(index);
    (state, Here { vcpu, block, index, pc })
}

/// What all hooks at an instruction begin with: the state and the place, and what was due before is done.
fn arrive(vcpu: u32, id: usize) -> (MutexGuard<'static, State>, Here) {
    let (mut state, here) = find(vcpu, id);
    state.settle(here.vcpu);
    state.wake(here.vcpu);
    (state, here)
}
