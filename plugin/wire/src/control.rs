// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control page: the run's progress and end, as little-endian u64 words.

use crate::record::Record;
use crate::varint::Reader;
use crate::{MAGIC, Malformed, VERSION};

/// Size of the page in bytes.
pub const BYTES: usize = 4096;

/// Index of each word on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// [`MAGIC`].
    Magic,
    /// [`VERSION`].
    Version,
    /// Number of vCPUs: the stride of the counters file.
    Vcpus,
    /// Valid bytes of the definitions file.
    DefinitionBytes,
    /// Valid bytes of the samples file.
    SampleBytes,
    /// Samples written.
    Samples,
    /// 1 once the measuring window is open.
    WindowOpen,
    /// Instructions executed before the window opened.
    BeforeWindowInsns,
    /// Code of the [`End`] by which the plugin ended the run; 0 while it has not.
    End,
    /// Value of the end: the firmware's status, or errno of a failed write.
    EndValue,
    /// Address of the instruction at which the run ended.
    EndPc,
    /// Number of control transfers whose target is unknown: an exception came before another exception's first
    /// instruction, or a stack frame cannot be read.
    Unresolved,
    /// Number of control transfers with an exception taken between the instruction and its target.
    Interrupted,
    /// Task switches that a sample noticed and no store showed.
    UnseenSwitches,
    /// Times that the exact call tree's shadow stack was found wrong and rebuilt.
    Resynchronised,
    /// 1 when the fault words below were read: when QEMU aborted, or when the handler started that still executes at
    /// the end.
    Fault,
    /// Cortex-M CFSR at that moment (Armv7-M ARM B3.2.15).
    FaultCfsr,
    /// Cortex-M HFSR.
    FaultHfsr,
    /// Cortex-M MMFAR.
    FaultMmfar,
    /// Cortex-M BFAR.
    FaultBfar,
    /// RISC-V mtval or stval.
    FaultValue,
    /// Bytes of the console's input that the emulated machine has taken, see [`crate::input`].
    InputBytes,
    /// Texts of the console's input that have begun.
    InputBegun,
    /// Number of times that one exception came, if nothing but its handler has executed since; 0: there is no such
    /// exception.
    ExceptionTimes,
    /// Number of that exception, or its cause with bit 63 set for interrupts.
    ExceptionNumber,
    /// First address of its handler.
    ExceptionHandler,
    /// Instructions of the window before the handler first started.
    ExceptionSince,
    /// Address of the instruction at which the exception came.
    ExceptionPc,
    /// Return address register of the interrupted code: the call that led there, where the address itself is not code.
    ExceptionLink,
    /// Stack pointer of the interrupted code, if it points to no memory; 0: it does.
    ExceptionSp,
    /// 1 when an enabled interrupt could still interrupt the handler.
    ExceptionYields,
    /// 1 when no enabled interrupt could interrupt the code at which the window ended.
    Final,
    /// 1 when the firmware held back interrupts there that it had enabled.
    Masked,
    /// Number of times that the same instruction has read the same value from the same device, with no access to
    /// another device since; 0: there is no such poll.
    PollTimes,
    /// Instructions of the window up to the first of these reads.
    PollSince,
    /// Address of the reading instruction.
    PollPc,
    /// Value that the instruction reads.
    PollValue,
    /// Address from which the instruction reads.
    PollAddress,
    /// 1 if each of several vCPUs always executes its turn to the end, independent of the host.
    TurnsKept,
    /// Valid bytes of the heap file.
    HeapBytes,
    /// Valid bytes of the slices file.
    SliceBytes,
    /// Number of the current phase's name; 0: no phase.
    Phase,
    /// Valid bytes of the timeline file.
    TimelineBytes,
    /// Address of the last instruction that was about to wait for an interrupt or an event.
    WaitPc,
    /// Instructions of all vCPUs at that wait, the waiting instruction included.
    WaitInsns,
    /// 1 if several vCPUs share translations, so that each segment of a measured run calls back.
    Shared,
    /// 1 if the machine's clock follows cycles.
    Paced,
}

/// Number of words in use.
pub const WORDS: usize = Word::Paced as usize + 1;

/// Reason for which the plugin ended the run. harness sees other ends (QEMU's own exits, the host).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum End {
    /// `--for` instructions were measured.
    For = 1,
    /// `--until` was reached.
    Until = 2,
    /// `--max-insns` was reached.
    MaxInsns = 3,
    /// The firmware exited; the value is its status.
    Exit = 4,
    /// The firmware asked for a reset.
    Reset = 5,
    /// The firmware made a forbidden call of the host, which only the end of the run prevents.
    Denied = 6,
    /// The plugin could not write its records; the value is errno.
    WriteFailed = 7,
    /// The firmware has written more than `--max-output` allows, or was about to.
    Output = 8,
    /// The firmware made a semihosting call that QEMU lacks, at which QEMU would abort; the value is the operation.
    UnknownCall = 9,
    /// A fault's handler has come to a loop that it cannot leave, and no interrupt can come.
    Faulting = 10,
    /// The stack pointer points below all memory that is near; the value is the first address of the memory above it.
    StackOverflow = 11,
}

impl End {
    const ALL: [End; 11] = [
        End::For,
        End::Until,
        End::MaxInsns,
        End::Exit,
        End::Reset,
        End::Denied,
        End::WriteFailed,
        End::Output,
        End::UnknownCall,
        End::Faulting,
        End::StackOverflow,
    ];

    /// Decodes the code of an end.
    fn from_number(number: u64) -> Option<End> {
        End::ALL.into_iter().find(|&end| end as u64 == number)
    }
}

impl Record for End {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<End, Malformed> {
        let malformed = reader.malformed();
        End::from_number(reader.varint()?).ok_or(malformed)
    }
}

/// Contents of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    words: [u64; WORDS],
    /// End of the run, if the plugin ended it.
    pub end: Option<End>,
}

impl Control {
    /// Reads a page.
    ///
    /// # Errors
    /// When the page is too short or not of this [`VERSION`].
    pub fn read(page: &[u8]) -> Result<Control, Malformed> {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            let bytes = page.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            *word = u64::from_le_bytes(bytes.ok_or(Malformed { what: "control page", offset: index * 8 })?);
        }
        let malformed = |word: Word| Malformed { what: "control page", offset: word as usize * 8 };
        if words[Word::Magic as usize] != MAGIC {
            return Err(malformed(Word::Magic));
        }
        if words[Word::Version as usize] != VERSION {
            return Err(malformed(Word::Version));
        }
        let vcpus = words[Word::Vcpus as usize];
        if vcpus == 0 || vcpus > u64::from(crate::sample::MAX_VCPUS) {
            return Err(malformed(Word::Vcpus));
        }
        let code = words[Word::End as usize];
        let end = End::from_number(code);
        if code != 0 && end.is_none() {
            return Err(malformed(Word::End));
        }
        Ok(Control { words, end })
    }

    /// Value of one word of the page.
    pub fn get(&self, word: Word) -> u64 {
        self.words[word as usize]
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.get(Word::Vcpus) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[(Word, u64)]) -> Vec<u8> {
        let mut page = vec![0; BYTES];
        for &(word, value) in [(Word::Magic, MAGIC), (Word::Version, VERSION), (Word::Vcpus, 1)].iter().chain(words) {
            page[word as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    #[test]
    fn a_page_reads_back() {
        let control = Control::read(&page(&[(Word::End, 4), (Word::EndValue, 3)])).unwrap();
        assert_eq!((control.end, control.get(Word::EndValue)), (Some(End::Exit), 3));
        assert_eq!(Control::read(&page(&[])).unwrap().end, None);
    }

    #[test]
    fn a_page_of_another_version_or_kind_is_refused() {
        for bad in [(Word::Magic, 0), (Word::Version, VERSION + 1), (Word::Vcpus, 0), (Word::End, 99)] {
            assert!(Control::read(&page(&[bad])).is_err(), "{bad:?}");
        }
        assert!(Control::read(&page(&[])[..WORDS * 8 - 1]).is_err());
    }
}
