//! A vCPU's integer registers, read from where QEMU keeps them.
//!
//! The plugin API hands registers out one by one, through the functions that serve GDB: a stack pointer takes as long as
//! the rest of a callback. QEMU has them in a row in the vCPU's object (`CPURISCVState::gpr`, `CPUARMState::regs`), which
//! is what those functions read. Where in the object differs from build to build, so it is found and not known: the
//! place that had the values of all registers, as the API says them, each time that both were compared, with other values
//! each time. Where none or several have, or QEMU does not show which object it is, the API goes on being asked.
//!
//! It is compared again now and then as long as the run lasts; where it is not the same any more the run ends.

use std::ptr;

use wire::trick::REGISTERS;

use super::{is_on, vcpu};
use crate::qemu::{abort, streams};

/// How much of an object is looked at. The registers come after what all kinds of vCPUs have, some 10 KB.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Where in an object the registers may begin: objects begin where any type may, and so does what holds them there.
const ALIGN_BYTES: usize = 8;

/// What is asked for of the system at a time.
const PAGE_BYTES: usize = 4096;

/// Comparisons, each with other values than the one before, after which a place is believed.
const COMPARISONS: u32 = 16;

/// Most tries of them: firmware may stand still.
const MAX_TRIES: u32 = 256;

/// Different values other than 0 that registers must have: zeros are everywhere.
const MIN_VALUES: usize = 4;

/// Reads through the API between two tries.
const READS_PER_TRY: u32 = 8;

/// Reads between two comparisons once the place is known: as few at first, and twice as many each time.
const READS_PER_AUDIT: [u32; 2] = [1 << 6, 1 << 14];

/// The registers of one vCPU.
pub(in crate::qemu) struct RegisterFile {
    /// How many of them, from the first one, are in a row.
    count: usize,
    stage: Stage,
    /// Until the next try or comparison.
    reads_left: u32,
}

enum Stage {
    Sought(Search),
    Found {
        object: usize,
        place: Place,
        reads_per_audit: u32,
    },
    /// It is not known where they are, and will not be.
    Unknown,
}

#[derive(Default)]
struct Search {
    object: usize,
    /// Where they may be, once the object has been looked at.
    places: Option<Vec<Place>>,
    /// What they were the last time.
    values: Vec<u64>,
    comparisons: u32,
    tries: u32,
}

/// Where registers may be: the address of the first, and what is from one to the next.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: usize,
    stride_bytes: usize,
    /// As many as the API says of each.
    value_bytes: usize,
}

impl RegisterFile {
    /// So many registers of a vCPU, whose place is not known yet; 0: it is not looked for, nor in a QEMU that is not known.
    pub(in crate::qemu) fn new(count: usize) -> RegisterFile {
        let stage = if count == 0 || !is_on(&REGISTERS) { Stage::Unknown } else { Stage::Sought(Search::default()) };
        RegisterFile { count, stage, reads_left: READS_PER_TRY }
    }

    /// A register, where its place is known; inside callbacks of the vCPU. None also where it is time to compare.
    pub(in crate::qemu) fn get(&mut self, number: u8) -> Option<u64> {
        let Stage::Found { place, .. } = self.stage else { return None };
        if usize::from(number) >= self.count || self.reads_left == 0 {
            return None;
        }
        self.reads_left -= 1;
        // SAFETY: the place lies in the object of a vCPU, which stays where it is as long as QEMU lives. This is the
        // thread that executes that vCPU, and nothing else writes to it while it is in a callback.
        Some(unsafe { place.value(number.into()) })
    }

    /// A register is about to be asked for. Whether [`RegisterFile::compare`] is to follow.
    pub(in crate::qemu) fn is_time(&mut self) -> bool {
        if matches!(self.stage, Stage::Unknown) {
            return false;
        }
        self.reads_left = self.reads_left.saturating_sub(1);
        self.reads_left == 0
    }

    /// How many of them are in a row.
    pub(in crate::qemu) fn count(&self) -> usize {
        self.count
    }

    /// Compares with what the API says of all of them now, each of so many bytes.
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
    /// Looks once more. What it has come to, if anything.
    fn go_on(&mut self, object: usize, values: &[u64], value_bytes: usize) -> Option<Stage> {
        self.tries += 1;
        // Registers of more than one vCPU, or of which it is not known whose.
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

impl Place {
    /// Whether bytes have these values from an offset on, as this place would.
    fn is_in(&self, bytes: &[u8], offset: usize, values: &[u64]) -> bool {
        values.iter().enumerate().all(|(number, &value)| {
            let at = offset + number * self.stride_bytes;
            bytes.get(at..at + self.value_bytes).is_some_and(|held| held == &value.to_ne_bytes()[..self.value_bytes])
        })
    }

    /// The value of a register.
    ///
    /// # Safety
    /// The place is a vCPU's, and has that many registers.
    unsafe fn value(&self, number: usize) -> u64 {
        let address = self.address + number * self.stride_bytes;
        // SAFETY: aligned, for the first one is by eight bytes and each is as large as what is read or larger.
        unsafe {
            if self.value_bytes == 8 {
                ptr::with_exposed_provenance::<u64>(address).read_volatile()
            } else {
                ptr::with_exposed_provenance::<u32>(address).read_volatile().into()
            }
        }
    }
}

/// Where in an object the values are.
fn places(object: usize, values: &[u64], value_bytes: usize) -> Vec<Place> {
    // As on any host that QEMU and this library run on: low bytes come first.
    if !matches!(value_bytes, 4 | 8) || cfg!(target_endian = "big") {
        return Vec::new();
    }
    let bytes = copy(object, LOOKED_AT_BYTES);
    let strides = if value_bytes == 8 { &[8][..] } else { &[4, 8] };
    let mut places = Vec::new();
    for offset in (0..bytes.len()).step_by(ALIGN_BYTES) {
        let at = |&stride_bytes: &usize| Place { address: object + offset, stride_bytes, value_bytes };
        places.extend(strides.iter().map(at).filter(|place| place.is_in(&bytes, offset, values)));
    }
    places
}

/// Memory of this process, as far as there is any: the system is asked, for an object may end anywhere.
#[cfg(target_os = "linux")]
fn copy(address: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut copied = 0;
    while copied < length {
        let at = address + copied;
        let wanted = (PAGE_BYTES - at % PAGE_BYTES).min(length - copied);
        let remote = libc::iovec { iov_base: ptr::without_provenance_mut(at), iov_len: wanted };
        let local = libc::iovec { iov_base: bytes[copied..].as_mut_ptr().cast(), iov_len: wanted };
        // SAFETY: the system copies into the buffer, which has room, from whatever is there, or says that nothing is.
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
fn copy(_address: usize, _length: usize) -> Vec<u8> {
    Vec::new()
}
