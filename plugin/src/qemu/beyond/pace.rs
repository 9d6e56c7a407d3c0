// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's clock, moved on in the middle of a run.
//!
//! Under `-icount` virtual time is the number of instructions times 2^shift ns, plus a bias (`timers_state` in
//! system/cpu-timers.c, `icount_get_locked` in accel/tcg/icount-common.c). A vCPU has a budget of instructions up to the next
//! timer: `icount_budget` as it began, of which `icount_extra` and the low half of `icount_decr` are left. Each block first
//! takes its instructions off that half, and does not start if too few are left.
//!
//! So the clock moves on by n instructions' time if the bias grows by that time and the budget loses n instructions: then the
//! next timer is due at the right instruction. If the block that has started no longer fits into the budget, it is left before
//! its first instruction (`leave`), which gives its instructions back.
//!
//! The fields are found by what QEMU's own functions change of them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::{mem, ptr};

use wire::trick::PACE;

use super::accounted::AccountedTime;
use super::register_file::copy;
use super::{leave, symbol, vcpu};

/// Bytes of an object that are searched: those that all kinds of vCPUs have.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Bytes of `timers_state` that are searched.
const STATE_BYTES: usize = 128;

/// Distance from the bias to the number of instructions, in bytes: the start of a sleep and an offset lie between.
const BIAS_BEFORE: usize = 24;

/// Bytes from the budget at the beginning to what is left of it beyond the half word.
const EXTRA: usize = 8;

/// Most instructions of a budget's half word.
const MOST_LOW: i64 = 0xffff;

/// `icount_update` and `cpu_exit`.
type OfVcpu = unsafe extern "C" fn(*mut c_void);

/// Places of the clock's fields, of the only vCPU.
#[derive(Clone, Copy)]
pub(crate) struct InsnClock {
    bias: usize,
    budget: usize,
    /// Half word of instructions left; the other half, right behind, asks the vCPU to leave its blocks.
    low: usize,
}

/// Result of a search for the fields.
pub(crate) enum Found {
    Now(InsnClock),
    /// The vCPU has been asked to leave its blocks already: once it has, they can be found.
    Later,
}

/// Places where integers of `BYTES` bytes have changed from one state to the next as `change` says, in order. Memory behind an object may
/// change at any time.
fn changed<'a, const BYTES: usize>(
    before: &'a [u8],
    after: &'a [u8],
    change: impl Fn([u8; BYTES], [u8; BYTES]) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let words = before.chunks_exact(BYTES).zip(after.chunks_exact(BYTES));
    words.enumerate().filter_map(move |(index, (before, after))| {
        let (before, after) = (before.try_into().ok()?, after.try_into().ok()?);
        (before != after && change(before, after)).then_some(index * BYTES)
    })
}

impl InsnClock {
    /// Finds the fields, in a callback of the vCPU at the start of a block, and before any other has begun. None: this QEMU is not
    /// known, something in it is not as expected, or blocks cannot be left on this host.
    pub(crate) fn find() -> Option<Found> {
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
            return None;
        }
        let vcpu = vcpu::current()?;
        let find = |name| symbol(&PACE, name);
        let state = find(c"timers_state")? as usize;
        // SAFETY: in the releases of the table's row the functions of these names have these types; the program itself exports
        // them and stays loaded.
        let [update, exit] = [find(c"icount_update")?, find(c"cpu_exit")?]
            .map(|function| unsafe { mem::transmute::<*mut c_void, OfVcpu>(function) });
        leave::find(&PACE)?;
        let time = AccountedTime::find()?;
        let object = vcpu as usize;
        let look = || (copy(object, LOOKED_AT_BYTES), copy(state, STATE_BYTES));
        let (before, _) = look();
        // SAFETY: any thread may call it for any vCPU, which leaves its blocks once more than it would.
        unsafe { exit(vcpu) };
        let (asked, counted) = look();
        let Some(high) = changed::<2>(&before, &asked, |before, after| before == [0; 2] && after == [0xff; 2]).next()
        else {
            return Some(Found::Later);
        };
        let low = high.checked_sub(2)?;
        // SAFETY: the vCPU executes this thread, and its instructions up to the block's end become accounted for.
        unsafe { update(vcpu) };
        let (updated, recounted) = look();
        let read = |bytes: &[u8], at: usize| Some(i64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let lost = |before, after| i64::from_ne_bytes(before).wrapping_sub(i64::from_ne_bytes(after));
        // The budget is what is left of it then.
        let left = i64::from(u16::from_ne_bytes(*updated.get(low..)?.first_chunk()?));
        let is_left = |&at: &usize| {
            read(&updated, at).zip(read(&updated, at + EXTRA)).is_some_and(|(budget, extra)| budget == left + extra)
        };
        let budget = changed::<8>(&asked, &updated, |before, after| lost(before, after) > 0).find(is_left)?;
        let executed = read(&asked, budget)? - read(&updated, budget)?;
        let icount = changed::<8>(&counted, &recounted, |before, after| lost(after, before) == executed).last()?;
        let bias = state + icount.checked_sub(BIAS_BEFORE)?;
        let clock = InsnClock { bias, budget: object + budget, low: object + low };
        // The bias is what moves the clock by as much. Backwards, no timer expires meanwhile.
        let (now_ns, moved_ns) = (time.ns()?, 1 << 40);
        clock.bias_by(-moved_ns);
        let then_ns = time.ns();
        clock.bias_by(moved_ns);
        let is_bias = then_ns == now_ns.checked_sub(moved_ns) && time.ns() == Some(now_ns);
        is_bias.then_some(Found::Now(clock))
    }

    /// Moves the clock on by the time of so many instructions, `shift` being the binary logarithm of one's in ns, at the start of a
    /// block of `insns` instructions. Returns whether the block no longer fits into the budget, and has to be left.
    pub(crate) fn move_on(self, by_insns: u64, shift: u8, insns: u64) -> bool {
        let (by_insns, insns) = (i64::try_from(by_insns).unwrap_or(i64::MAX), insns as i64);
        self.bias_by(by_insns.saturating_mul(1 << shift));
        let [budget, extra] = [0, EXTRA].map(|at| ptr::with_exposed_provenance_mut::<i64>(self.budget + at));
        let low = ptr::with_exposed_provenance_mut::<u16>(self.low);
        // SAFETY: members of the object of a vCPU, which never moves while QEMU lives; this thread executes that vCPU. Other threads
        // read none of them, and write only to the other half word.
        unsafe {
            let left = *extra + i64::from(low.read_volatile()) + insns;
            let lost = by_insns.min(left);
            *budget -= lost;
            // Below 0 the half word wraps around, and back when the block's instructions are given back: QEMU may do so at any of
            // them, so that there is room for them, too.
            let left = left - lost - insns;
            let new_low = left.min(MOST_LOW - insns);
            *extra = left - new_low;
            low.write_volatile(new_low as u16);
            left < 0
        }
    }

    fn bias_by(self, ns: i64) {
        // SAFETY: a field of QEMU's clock. Other threads read it at any time, and change it only while no vCPU executes.
        let bias = unsafe { AtomicI64::from_ptr(ptr::with_exposed_provenance_mut(self.bias)) };
        bias.fetch_add(ns, Ordering::SeqCst);
    }
}
