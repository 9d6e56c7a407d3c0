// SPDX-License-Identifier: GPL-2.0-or-later
//! Callbacks that QEMU calls. Each locks the state, handles events that were due before, and calls the parts.
//!
//! Several callbacks at one instruction come in the order of [`crate::translate`]'s lists.

mod avr;
mod calls;
mod debug;
mod end;
mod follow;
mod heap;
mod time;

pub(crate) use avr::{
    BeforeWdr, OnDevice, OnDeviceStore, OnEntered, OnFarLoad, OnFarLoaded, OnInterrupted, OnPace, OnPacedBlock,
    OnPort, OnSkippable, OnSkipped, OnSleep, OnStatus, OnStop, OnUnmasked, OnWdr,
};
pub(crate) use calls::{OnCalled, OnReturned};
pub(crate) use debug::{OnDueBlock, OnHold, OnStep, OnWatchedLoad, OnWatchedStore};
pub(crate) use end::{OnExit, OnLoad, OnSpin, OnStore, watch};
pub(crate) use follow::{
    OnCrossing, OnDeeper, OnDelete, OnEvent, OnEventWait, OnException, OnExceptionReturn, OnExchange, OnFaultReturn,
    OnFirstTask, OnForgetful, OnForgetting, OnFrom, OnFunction, OnIdle, OnLife, OnMask, OnMasked, OnPoll, OnPolled,
    OnSought, OnStackMove, OnStackSet, OnSwitch, OnTrapReturn, OnUntil, OnZone,
};
pub(crate) use heap::{OnAllocated, OnAllocator};
pub(crate) use time::{
    OnArrival, OnBlock, OnBound, OnDivision, OnInput, OnLanding, OnMispredicted, OnPacedPassage, OnPassage,
    OnPredictedBlock, OnRegisterJump, OnSegment, OnSemihosting, OnTransfer, OnUnsure, OnVector, OnWait, OnWay,
    OracleBranch, OracleCount, OracleRecheck, OracleSample, OracleWay,
};

use crate::qemu::{Guard, Thread, VcpuCallback, VcpuHook};
use crate::state::{self, State};
use engine::block::from_insn_id;

/// Called for a new vCPU, whose registers can be looked up now.
pub(crate) struct VcpuInit;

impl VcpuHook for VcpuInit {
    const CALL: VcpuCallback = |vcpu| {
        Thread::current().executes_guest();
        state::adopt();
        state::lock().appear(vcpu);
    };
}

/// An instruction that a vCPU is about to execute.
#[derive(Clone, Copy)]
struct Here {
    vcpu: u32,
    block: usize,
    index: u64,
    pc: u64,
}

/// Locks the state and finds an instruction by its [`engine::block::insn_id`], without handling events that were due
/// before.
///
/// Inlined, as [`arrive`] is, so that its results stay in registers: every callback begins here.
#[inline(always)]
fn find(vcpu: u32, id: usize) -> (Guard<'static, State>, Here) {
    let (block, index) = from_insn_id(id);
    let mut state = state::lock();
    let vcpu = state.running_vcpu(vcpu);
    let pc = state.blocks.get(block).pc_of(index);
    (state, Here { vcpu, block, index, pc })
}

/// Begins every callback at an instruction: locks the state, finds the instruction, and handles events that were due
/// before.
#[inline(always)]
fn arrive(vcpu: u32, id: usize) -> (Guard<'static, State>, Here) {
    let (mut state, here) = find(vcpu, id);
    state.settle(here.vcpu);
    state.wake(here.vcpu);
    (state, here)
}
