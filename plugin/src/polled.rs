// SPDX-License-Identifier: GPL-2.0-or-later
//! The end of a run at a register that is polled, from which harness learns the value that the firmware waits for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use engine::guest::MAX_READ_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};
use wire::chip::{Contents, ENABLED, ENABLED_WORDS, POLLED, Polled, REGISTERS, STORED, stored_bytes};
use wire::request::Request;

use crate::qemu::{Guest, descriptor};

/// First address of the processor's own registers.
const END: u64 = 0xe000_0000;

/// NVIC's registers that enable interrupts, a bit each (Armv7-M ARM, B3.4.4).
const ENABLE: u64 = 0xe000_e100;

/// Most instructions between two reads by a loop that waits.
const MOST_INSNS_PER_READ: u64 = 4096;

/// The reads of each instruction, since a device was last written to.
pub(crate) struct Polls {
    limit: u32,
    passed: FxHashSet<u64>,
    /// Words of registers that count by themselves.
    counting: FxHashSet<u64>,
    reads: FxHashMap<u64, Reads>,
    /// Memory whose contents are wanted: first address and size.
    memory: Vec<(u64, u64)>,
    directory: PathBuf,
    /// Interrupts that have been enabled.
    enabled: [u32; ENABLED_WORDS],
    /// Flash: first address and size.
    flash: Vec<(u64, u64)>,
    /// Words of flash that have been stored to.
    stored: BTreeMap<u32, u32>,
}

struct Reads {
    address: u64,
    value: u64,
    times: u32,
    insns: u64,
}

impl Polls {
    /// The polls that the request asks for, with the request's files in `directory`. None: the request asks for no
    /// such end.
    pub(crate) fn new(request: &Request, directory: &str) -> Option<Polls> {
        let chip = request.chip.as_ref().filter(|chip| chip.poll_limit > 0)?;
        let own = chip.memory.iter().filter(|memory| memory.alias_of.is_none());
        let (flash, ram): (Vec<_>, Vec<_>) = own.partition(|memory| memory.is_flash);
        let ranges =
            |memories: Vec<&wire::chip::Memory>| memories.iter().map(|memory| (memory.start, memory.bytes)).collect();
        Some(Polls {
            limit: chip.poll_limit,
            passed: chip.passed.iter().copied().collect(),
            reads: FxHashMap::default(),
            memory: ranges(ram),
            flash: ranges(flash),
            counting: chip.counts.iter().map(|count| count.address).collect(),
            directory: PathBuf::from(directory),
            enabled: [0; ENABLED_WORDS],
            stored: BTreeMap::new(),
        })
    }

    /// Notes a write to a device.
    pub(crate) fn written(&mut self, address: u64, value: u64) -> io::Result<()> {
        if address < END {
            self.reads.clear();
        }
        let word = address.checked_sub(ENABLE).filter(|offset| offset % 4 == 0).map(|offset| offset as usize / 4);
        let Some(word) = word.and_then(|word| self.enabled.get_mut(word)) else { return Ok(()) };
        if *word | value as u32 == *word {
            return Ok(());
        }
        *word |= value as u32;
        let bytes: Vec<u8> = self.enabled.iter().flat_map(|word| word.to_le_bytes()).collect();
        descriptor::with_own(|| fs::write(self.directory.join(ENABLED), bytes))
    }

    /// Notes a store, if it is to flash.
    pub(crate) fn stored(&mut self, address: u64, value: u64, bytes: u64) {
        let is_flash = self.flash.iter().any(|&(start, bytes)| address >= start && address - start < bytes);
        if is_flash && bytes == 4 && address.is_multiple_of(4) {
            self.stored.insert(address as u32, value as u32);
        }
    }

    /// Writes the words of flash that have been stored to into a file, when the firmware resets itself.
    pub(crate) fn write_stored(&self) -> io::Result<()> {
        let words: Vec<(u32, u32)> = self.stored.iter().map(|(&address, &value)| (address, value)).collect();
        descriptor::with_own(|| fs::write(self.directory.join(STORED), stored_bytes(&words)))
    }

    /// Notes that an instruction has read a device. Returns whether the instruction polls.
    pub(crate) fn read(&mut self, pc: u64, address: u64, value: u64, insns: u64) -> bool {
        if address >= END || self.passed.contains(&pc) || self.counting.contains(&(address & !3)) {
            return false;
        }
        let reads = self.reads.entry(pc).or_insert(Reads { address, value, times: 0, insns });
        let is_near = insns.saturating_sub(reads.insns) <= MOST_INSNS_PER_READ;
        if !is_near || (reads.address, reads.value) != (address, value) {
            (reads.address, reads.value, reads.times) = (address, value, 0);
        }
        reads.insns = insns;
        reads.times += 1;
        reads.times >= self.limit
    }

    /// Writes the state of the polling processor into a file.
    pub(crate) fn write(
        &self,
        (pc, address, value): (u64, u64, u64),
        insns: u64,
        guest: &mut Guest,
    ) -> io::Result<()> {
        let registers = (0..REGISTERS as u8).map(|number| guest.general_register(number) as u32).collect();
        let memory = self.memory.iter().map(|&(start, bytes)| Contents { start, words: words(start, bytes, guest) });
        let memory = memory.collect();
        let polled = Polled { pc, address, value, insns, registers, memory };
        descriptor::with_own(|| fs::write(self.directory.join(POLLED), polled.to_bytes()))
    }
}

/// The words of a stretch of memory, as far as they can be read.
fn words(start: u64, bytes: u64, guest: &mut Guest) -> Vec<u32> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(MAX_READ_BYTES as u64);
        let Some(read) = guest.memory(start + at, piece as usize) else { break };
        words.extend(read.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)));
        at += piece;
    }
    words
}
