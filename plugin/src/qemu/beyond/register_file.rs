// SPDX-License-Identifier: GPL-2.0-or-later
//! A vCPU's integer registers, read directly from QEMU's memory.
//!
//! The plugin API reads one register at a time, through the functions that serve GDB: a stack pointer takes as long
//! as the rest of a callback. Those functions read an array in the vCPU's object (`CPURISCVState::gpr`,
//! `CPUARMState::regs`). The array's offset differs from build to build, so it is searched for. The array is the
//! place that had the API's values of all registers in several comparisons, with different values each time. If no
//! place or several match, or QEMU does not export the object, the API stays in use.
//!
//! The comparison is repeated now and then during the run; a difference ends the run.

use std::ptr;

use wire::trick::REGISTERS;

use super::{is_on, vcpu};
use crate::qemu::{abort, streams};

/// Bytes of an object that are searched. The registers follow fields common to all kinds of vCPUs, some 10 KB.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Alignment of the registers' array in an object, and of objects themselves.
const ALIGN_BYTES: usize = 8;

/// Bytes copied by one system call.
const PAGE_BYTES: usize = 4096;

/// Comparisons with different values that a place must match before it is used.
const COMPARISONS: u32 = 16;

/// Most comparisons tried, in case the firmware stands still.
const MAX_TRIES: u32 = 256;

/// Least number of distinct values other than 0 in the registers: zeros are everywhere.
const MIN_VALUES: usize = 4;

/// Reads through the API between two tries.
const READS_PER_TRY: u32 = 8;

/// Reads between two comparisons once the place is known: they begin with the first number and double each time, up
/// to the second number.
const READS_PER_AUDIT: [u32; 2] = [1 << 6, 1 << 14];

/// The registers of one vCPU.
pub(in crate::qemu) struct RegisterFile {
    /// Number of registers in the array, from the first one on.
    count: usize,
    stage: Stage,
    /// Reads until the next comparison.
    reads_left: u32,
}

/// Place of a register in QEMU's memory.
pub(crate) enum RegisterPlace {
    /// It is still looked for.
    Sought,
    At(RegisterWord),
    /// It will not be found.
    Unknown,
}

/// A register's bytes in QEMU's memory. It is up to date where blocks begin.
#[derive(Clone, Copy)]
pub(crate) struct RegisterWord {
    address: usize,
    is_wide: bool,
}

/// Bytes of a register of 32 bits.
const NARROW_BYTES: usize = 4;

impl RegisterWord {
    /// Value of the register; on the vCPU's thread, between two blocks or in a callback.
    pub(crate) fn value(self) -> u64 {
        // SAFETY: the word lies in the object of a vCPU, which never moves while QEMU lives; this thread executes that vCPU. It is
        // aligned to its size, as in `Layout::value`.
        unsafe {
            match self.is_wide {
                true => ptr::with_exposed_provenance::<u64>(self.address).read_volatile(),
                false => ptr::with_exposed_provenance::<u32>(self.address).read_volatile().into(),
            }
        }
    }

    /// Address of eight bytes, and the number below which they are exactly if the register is below `limit`. Of a narrow register,
    /// they begin with what lies before it. None: such a limit does not fit.
    pub(crate) fn compared(self, limit: u64) -> Option<(usize, u64)> {
        match self.is_wide {
            true => Some((self.address, limit)),
            false => Some((self.address - NARROW_BYTES, u64::from(u32::try_from(limit).ok()?) << 32)),
        }
    }
}

enum Stage {
    Sought(Search),
    Found {
        object: usize,
        place: Layout,
        reads_per_audit: u32,
    },
    /// The search has ended without a result; the API stays in use.
    Unknown,
}

#[derive(Default)]
struct Search {
    object: usize,
    /// Candidate places, once the object has been searched.
    places: Option<Vec<Layout>>,
    /// Values at the last comparison.
    values: Vec<u64>,
    comparisons: u32,
    tries: u32,
}

/// A candidate place of the registers: address of the first, and distance between two.
#[derive(Clone, Copy, Debug)]
struct Layout {
    address: usize,
    stride_bytes: usize,
    /// Size of a register in the API, in bytes.
    value_bytes: usize,
}

impl RegisterFile {
    /// Starts with `count` registers whose place is not known yet. With 0, or in an unknown QEMU, the place is not
    /// searched for.
    pub(in crate::qemu) fn new(count: usize) -> RegisterFile {
        let stage = if count == 0 || !is_on(&REGISTERS) { Stage::Unknown } else { Stage::Sought(Search::default()) };
        RegisterFile { count, stage, reads_left: READS_PER_TRY }
    }

    /// Value of a register, if its place is known; inside callbacks of the vCPU. None also when a comparison is due.
    pub(in crate::qemu) fn get(&mut self, number: u8) -> Option<u64> {
        let Stage::Found { place, .. } = self.stage else { return None };
        if usize::from(number) >= self.count || self.reads_left == 0 {
            return None;
        }
        self.reads_left -= 1;
        // SAFETY: the place lies in the object of a vCPU, which never moves while QEMU lives. This thread executes
        // that vCPU, and nothing else writes to the object during a callback.
        Some(unsafe { place.value(number.into()) })
    }

    /// Counts a read that follows. Returns whether [`RegisterFile::compare`] must be called.
    pub(in crate::qemu) fn is_time(&mut self) -> bool {
        if matches!(self.stage, Stage::Unknown) {
            return false;
        }
        self.reads_left = self.reads_left.saturating_sub(1);
        self.reads_left == 0
    }

    /// Place of a register, for generated code that compares it.
    pub(in crate::qemu) fn place(&self, number: u8) -> RegisterPlace {
        match self.stage {
            Stage::Sought(_) => RegisterPlace::Sought,
            Stage::Found { place, .. } if usize::from(number) < self.count => RegisterPlace::At(RegisterWord {
                address: place.address + usize::from(number) * place.stride_bytes,
                is_wide: place.value_bytes == 8,
            }),
            Stage::Found { .. } | Stage::Unknown => RegisterPlace::Unknown,
        }
    }

    /// Number of registers in the array.
    pub(in crate::qemu) fn count(&self) -> usize {
        self.count
    }

    /// Compares the places with the API's current values of all registers, each of `value_bytes`.
    pub(in crate::qemu) fn compare(&mut self, values: &[u64], value_bytes: usize) {
        let object = vcpu::current().map_or(0, |object| object as usize);
        match &mut self.stage {
            Stage::Sought(search) => {
                self.reads_left = READS_PER_TRY;
                if let Some(stage) = search.go_on(object, values, value_bytes) {
                    self.stage = stage;
                    self.reads_left = READS_PER_AUDIT[0];
                }
            }
            Stage::Found { object: known, place, reads_per_audit } => {
                *reads_per_audit = (*reads_per_audit * 2).min(READS_PER_AUDIT[1]);
                self.reads_left = *reads_per_audit;
                // SAFETY: as in `get`.
                let is_so = |(number, &value)| unsafe { place.value(number) } == value;
                if *known != object || !values.iter().enumerate().all(is_so) {
                    streams::say("the registers are not where they were found: please report this version of QEMU");
                    abort::exit(1);
                }
            }
            Stage::Unknown => {}
        }
    }
}

impl Search {
    /// Makes one more comparison. Returns the new stage, if the search is over.
    fn go_on(&mut self, object: usize, values: &[u64], value_bytes: usize) -> Option<Stage> {
        self.tries += 1;
        // The registers of more than one vCPU, or of an unknown one.
        let is_other = object == 0 || (self.object != 0 && self.object != object);
        if is_other || !object.is_multiple_of(ALIGN_BYTES) || self.tries > MAX_TRIES {
            return Some(Stage::Unknown);
        }
        self.object = object;
        let mut different: Vec<u64> = values.iter().copied().filter(|&value| value != 0).collect();
        different.sort_unstable();
        different.dedup();
        if different.len() < MIN_VALUES || self.values == values {
            return None;
        }
        self.values = values.to_vec();
        match &mut self.places {
            None => self.places = Some(places(object, values, value_bytes)),
            Some(places) => places.retain(|place| {
                let held = copy(place.address, place.stride_bytes * values.len());
                place.is_in(&held, 0, values)
            }),
        }
        self.comparisons += 1;
        match self.places.as_deref()? {
            [] => Some(Stage::Unknown),
            &[place] if self.comparisons >= COMPARISONS => {
                Some(Stage::Found { object, place, reads_per_audit: READS_PER_AUDIT[0] })
            }
            _ => None,
        }
    }
}

impl Layout {
    /// Whether bytes, laid out as this place, have these values from an offset on.
    fn is_in(&self, bytes: &[u8], offset: usize, values: &[u64]) -> bool {
        values.iter().enumerate().all(|(number, &value)| {
            let at = offset + number * self.stride_bytes;
            bytes.get(at..at + self.value_bytes).is_some_and(|held| held == &value.to_ne_bytes()[..self.value_bytes])
        })
    }

    /// Value of a register.
    ///
    /// # Safety
    /// The place is a vCPU's, and has that many registers.
    unsafe fn value(&self, number: usize) -> u64 {
        let address = self.address + number * self.stride_bytes;
        // SAFETY: aligned, since the first one is aligned to eight bytes, and each is at least as large as the value
        // read.
        unsafe {
            if self.value_bytes == 8 {
                ptr::with_exposed_provenance::<u64>(address).read_volatile()
            } else {
                ptr::with_exposed_provenance::<u32>(address).read_volatile().into()
            }
        }
    }
}

/// Places in an object that have the values.
fn places(object: usize, values: &[u64], value_bytes: usize) -> Vec<Layout> {
    // Only little-endian hosts, since all hosts of this library are little-endian.
    if !matches!(value_bytes, 4 | 8) || cfg!(target_endian = "big") {
        return Vec::new();
    }
    let bytes = copy(object, LOOKED_AT_BYTES);
    let strides = if value_bytes == 8 { &[8][..] } else { &[4, 8] };
    let mut places = Vec::new();
    for offset in (0..bytes.len()).step_by(ALIGN_BYTES) {
        let at = |&stride_bytes: &usize| Layout { address: object + offset, stride_bytes, value_bytes };
        places.extend(strides.iter().map(at).filter(|place| place.is_in(&bytes, offset, values)));
    }
    places
}

/// Copies memory of this process, up to the first unmapped byte: an object may end anywhere, so the kernel checks.
#[cfg(target_os = "linux")]
pub(super) fn copy(address: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut copied = 0;
    while copied < length {
        let at = address + copied;
        let wanted = (PAGE_BYTES - at % PAGE_BYTES).min(length - copied);
        let remote = libc::iovec { iov_base: ptr::without_provenance_mut(at), iov_len: wanted };
        let local = libc::iovec { iov_base: bytes[copied..].as_mut_ptr().cast(), iov_len: wanted };
        // SAFETY: the kernel copies mapped memory into the buffer, which has room, or returns an error.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        if usize::try_from(read) != Ok(wanted) {
            break;
        }
        copied += wanted;
    }
    bytes.truncate(copied);
    bytes
}

#[cfg(not(target_os = "linux"))]
pub(super) fn copy(_address: usize, _length: usize) -> Vec<u8> {
    Vec::new()
}
