// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout of the counters file: the position of the n-th counter of a vCPU.
//!
//! Counters are little-endian u64 in chunks of [`SLOTS_PER_CHUNK`]. A chunk holds that many for each vCPU in turn. So
//! the distance from a vCPU's counter to the next vCPU's is [`CHUNK_BYTES`] everywhere, and the file can grow chunk
//! by chunk.

/// Counters of one vCPU in one chunk.
pub const SLOTS_PER_CHUNK: u32 = 8192;

/// Bytes of one vCPU's part of a chunk.
pub const CHUNK_BYTES: usize = SLOTS_PER_CHUNK as usize * 8;

/// Slot of the vCPU's instruction clock, see [`insns`].
pub const CLOCK: u32 = 0;

/// Slot of the clock's value just before the vCPU's first instruction of the window.
pub const ORIGIN: u32 = 1;

/// Slot of the vCPU's last known position. From [`FIRST_SITE`] up: the vCPU has made a transfer of control whose
/// target is still unknown, and has started no block since. Below: the segment that the vCPU has reached in its
/// block, if that block is counted as a whole.
pub const LAST: u32 = 2;

/// Number in [`LAST`] of the first place where such a transfer is made.
pub const FIRST_SITE: u64 = 1 << 30;

/// Slot that holds the id of the task that the vCPU runs.
pub const TASK: u32 = 3;

/// Slot of the vCPU's instruction count when that task was switched in.
pub const TASK_SINCE: u32 = 5;

/// Slot that holds the id of the vCPU's place in the exact call tree.
pub const NODE: u32 = 4;

/// Slot that holds the number of active exceptions on the vCPU, while the exact call tree is kept.
pub const EXCEPTIONS: u32 = 6;

/// Slot that is 1 when the next block must check the console's input, see [`crate::input`].
pub const INPUT: u32 = 7;

/// Slot that holds the function of the vCPU's last block, while the exact call tree is kept: its [`here`], or 0 when
/// the next block must call back in any case.
pub const HERE: u32 = 8;

/// Slot that holds the return address of a call whose target has not started yet, while the exact call tree is kept;
/// 0: there is no such call. Bit 0: the address is not in the usual register for return addresses.
pub const LINK: u32 = 9;

/// Slot that is 1 when the vCPU has switched stacks since a function was last entered or left, while the exact call
/// tree is kept.
pub const STACK_SET: u32 = 10;

/// Slot that is 1 when the vCPU has switched to another stack, which may be the first task's.
pub const FIRST_TASK: u32 = 11;

/// Slot that is 1 from a `wfe` at which the processor would sleep, until an event that would wake it.
pub const ASLEEP: u32 = 12;

/// Slot of the vCPU's instruction count when that sleep began.
pub const ASLEEP_SINCE: u32 = 13;

/// Slot that counts these sleeps.
pub const SLEEPS: u32 = 14;

/// Slot that counts the instructions of all finished sleeps, except those in the kernel's idle tasks.
pub const SLEPT: u32 = 15;

/// Slot that is 1 when the next `wfe` does not sleep: the processor's event register.
pub const EVENT: u32 = 16;

/// Slot that is 1 from the start of a fault's handler, or of `_exit`, until another exception comes.
pub const FAULTED: u32 = 17;

/// Slot that counts the changes of the trap vector.
pub const VECTOR_MOVES: u32 = 18;

/// Slot of the greatest depth of the stack on which the firmware starts: 2^64 minus its lowest stack pointer, where
/// the exact tree is followed, since the run's beginning; 0: none was seen.
pub const MAIN_DEPTH: u32 = 19;

/// First slot that a [`crate::definition`] may define. Saved profiles hold it, so it stays.
pub const FIRST_DEFINED: u32 = 20;

/// Clock value at which the next event (a sample, a limit) is due; blocks compare the clock with it. The value is
/// small, like all constants here, so that host code holds them in its instructions. An event further away is
/// approached in steps.
pub const DUE: u64 = 1 << 28;

/// Value added to the clock to make the next block call back at any time; it is above every time.
pub const ALARM: u64 = 1 << 29;

/// Flag in the clock while a block that is counted as a whole can still be left early. If a block finds the flag set
/// at its start, the block before was left early, and [`LAST`] says where.
pub const OPEN: u64 = 1 << 30;

/// Largest number of instructions that a period or limit may be.
pub const MAX_INSNS: u64 = 1 << 48;

/// Instructions that a vCPU has executed since the window opened, from its clock and origin.
pub fn insns(clock: u64, origin: u64) -> u64 {
    (clock & (ALARM - 1)).wrapping_sub(origin)
}

/// Value of [`HERE`] in the function with that entry, or outside of all functions. Never 0.
pub fn here(function: Option<u64>) -> u64 {
    function.map_or(1, |entry| entry << 1 | 2)
}

/// Byte offset of a counter in the file.
pub fn offset_bytes(slot: u32, vcpu: u32, vcpus: u32) -> u64 {
    let chunk = u64::from(slot / SLOTS_PER_CHUNK) * u64::from(vcpus) + u64::from(vcpu);
    chunk * CHUNK_BYTES as u64 + u64::from(slot % SLOTS_PER_CHUNK) * 8
}

/// Reads a counter from the file's bytes; None beyond its end.
pub fn get(file: &[u8], slot: u32, vcpu: u32, vcpus: u32) -> Option<u64> {
    let start = usize::try_from(offset_bytes(slot, vcpu, vcpus)).ok()?;
    let bytes = file.get(start..start.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_do_not_disturb_the_time() {
        for insns_so_far in [0, 1, DUE, 10 * DUE, MAX_INSNS] {
            let clock = DUE - 5;
            let origin = clock.wrapping_sub(insns_so_far);
            assert_eq!(insns(clock + ALARM, origin), insns_so_far);
            assert_eq!(insns(clock + ALARM + OPEN, origin), insns_so_far);
        }
        assert!(DUE + crate::definition::MAX_SEGMENT_INSNS as u64 <= ALARM);
    }

    #[test]
    fn what_is_added_to_the_clock_fits_an_instructions_immediate() {
        let longest = crate::definition::MAX_SEGMENT_INSNS as u64;
        assert!(ALARM < OPEN && i32::try_from(OPEN + longest).is_ok() && i32::try_from(FIRST_SITE).is_ok());
    }

    #[test]
    fn counters_never_overlap_and_keep_one_stride() {
        let vcpus = 3;
        let mut seen = std::collections::BTreeSet::new();
        for slot in (0..2 * SLOTS_PER_CHUNK).step_by(511).chain([SLOTS_PER_CHUNK - 1, SLOTS_PER_CHUNK]) {
            for vcpu in 0..vcpus {
                seen.insert(offset_bytes(slot, vcpu, vcpus));
                assert_eq!(
                    offset_bytes(slot, vcpu, vcpus),
                    offset_bytes(slot, 0, vcpus) + u64::from(vcpu) * CHUNK_BYTES as u64
                );
            }
        }
        let slots = (0..2 * SLOTS_PER_CHUNK).step_by(511).chain([SLOTS_PER_CHUNK - 1, SLOTS_PER_CHUNK]);
        let distinct: std::collections::BTreeSet<_> = slots.collect();
        assert_eq!(seen.len(), distinct.len() * vcpus as usize);
    }
}
