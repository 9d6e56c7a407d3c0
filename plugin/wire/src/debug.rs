// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol between harness and plugin while a run is debugged: frames over a socket.
//!
//! When the run is held, the plugin has sent [`Reply::Held`] and answers each [`Command`] with one [`Reply`].
//! [`Command::Go`] is answered when the run is held again. Only [`Command::Interrupt`] may come while the run
//! executes, and it gets no answer. A frame is its length in four bytes, little-endian, followed by that many bytes.
//!
//! Instructions are counted from 1 at reset: held *at* instruction N means that the N-th executes next. Several vCPUs
//! execute in turns; their instructions are counted in the order of these turns.

use std::io::{self, Read, Write};

use crate::Malformed;
use crate::control::End;
use crate::record::{self, AtMost, Bytes, record};
use crate::varint::Reader;

/// File descriptor of the plugin's end of the socket.
pub const DESCRIPTOR: i32 = 4;

/// Longest frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 1 << 24;

/// Most hits that are kept.
pub const MAX_HITS: u64 = 1 << 18;

record! {
    /// Action at breakpoints and at accesses of watched memory.
    #[derive(Copy)]
    pub enum AtStops {
        /// Hold the run.
        0 = Hold,
        /// Count the stops and keep the last ones, at most this many.
        1 = Log(most: u64 = AtMost(MAX_HITS)),
        /// Ignore them.
        2 = Pass,
    }
}

record! {
    /// Watched range of memory.
    #[derive(Copy)]
    pub struct Watch {
        /// First address.
        start: u64,
        /// Address after the last one.
        end: u64,
        /// Whether loads count.
        loads: bool,
        /// Whether stores count.
        stores: bool,
    }
}

record! {
    /// Command from harness.
    pub enum Command {
        /// Execute up to this instruction, or to the end.
        0 = Go {
            /// Instruction to be held at; None: no such instruction.
            until: Option<u64>,
            /// Action at stops on the way.
            at_stops: AtStops,
        },
        /// Replace breakpoints and watches. Watches need a run that was started for them.
        1 = SetStops {
            /// Addresses of instructions.
            breakpoints: Vec<u64>,
            /// Ranges of memory.
            watches: Vec<Watch>,
        },
        /// Read all registers.
        2 = Registers,
        /// Read memory.
        3 = Read {
            /// First address.
            address: u64,
            /// Number of bytes.
            bytes: u64,
        },
        /// Change memory.
        4 = Write {
            /// First address.
            address: u64,
            /// New contents.
            bytes: Vec<u8> = Bytes,
        },
        /// Change a register.
        5 = WriteRegister {
            /// Name of the register.
            name: String,
            /// New value, in the guest's byte order.
            bytes: Vec<u8> = Bytes,
        },
        /// Ask which vCPU executes, and how many instructions each has started.
        9 = Vcpus,
        /// Copy the whole process. The copy uses the socket that comes with this frame, and first sends
        /// [`Reply::Held`] on it.
        6 = Fork,
        /// Hold the run as soon as possible.
        7 = Interrupt,
        /// End QEMU.
        8 = Quit,
    }
}

record! {
    /// Reason why the run is held.
    #[derive(Copy)]
    pub enum Why {
        /// The run has reached the requested instruction.
        0 = Reached,
        /// The next instruction has a breakpoint.
        1 = Breakpoint,
        /// The last instruction has accessed watched memory.
        2 = Watch(accessed: Accessed),
        /// [`Command::Interrupt`] asked to hold the run.
        3 = Interrupted,
        /// The run is over, with this end and its value (see [`End`]). The last instruction has started.
        4 = End(end: End, value: u64),
    }
}

record! {
    /// An access of watched memory.
    #[derive(Copy)]
    pub struct Accessed {
        /// Address accessed.
        address: u64,
        /// Whether it was a store.
        is_store: bool,
        /// Number of the instruction that made it.
        by: u64,
    }
}

record! {
    /// Breakpoint or watched access, recorded while stops are logged.
    #[derive(Copy)]
    pub struct Hit {
        /// Number of the instruction at the breakpoint, or of the instruction that made the access.
        insn: u64,
        /// Address of the instruction.
        pc: u64,
        /// The stack pointer.
        sp: u64,
        /// Value of the register for return addresses.
        link: u64,
        /// Access that was made; None: the hit is a breakpoint.
        accessed: Option<Accessed>,
    }
}

record! {
    /// Register and its value.
    pub struct Register {
        /// Feature, in QEMU's description, to which the register belongs.
        feature: String,
        /// Name of the register.
        name: String,
        /// Value in the guest's byte order; empty: it cannot be read.
        bytes: Vec<u8> = Bytes,
    }
}

record! {
    /// Reply from the plugin.
    pub enum Reply {
        /// The run is held.
        0 = Held {
            /// Process id, as seen by the plugin.
            process: u64,
            /// Number of the next instruction, or of the last one of a run that is over.
            insn: u64,
            /// Address of the instruction.
            pc: u64,
            /// Reason for the stop.
            why: Why,
            /// Number of stops logged since the run was released.
            hits: u64,
            /// Last of these hits.
            last_hits: Vec<Hit>,
        },
        /// Registers with their values.
        1 = Registers(registers: Vec<Register>),
        /// Memory, as much as could be read.
        2 = Memory(bytes: Vec<u8> = Bytes),
        /// The command is done.
        3 = Done,
        /// The command cannot be carried out, for this reason.
        4 = Refused(why: String),
        /// vCPU that executes the next instruction, or the last one of a run that is over, with the instructions of
        /// each.
        6 = Vcpus {
            /// Index of the executing vCPU.
            executing: u64,
            /// Instructions that each vCPU has started, by index.
            started: Vec<u64>,
        },
        /// QEMU aborts; no more instructions will start.
        5 = Aborts {
            /// Number of instructions that have started.
            insns: u64,
        },
    }
}

/// Name of a frame in the error about a damaged one.
const WHAT: &str = "debugger's frame";

impl Command {
    /// Encodes the frame, without its length.
    pub fn bytes(&self) -> Vec<u8> {
        record::bytes(self)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// When the bytes are not a command.
    pub fn read(bytes: &[u8]) -> Result<Command, Malformed> {
        record::rest(&mut Reader::new(bytes, WHAT))
    }
}

impl Reply {
    /// Encodes the frame, without its length.
    pub fn bytes(&self) -> Vec<u8> {
        record::bytes(self)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// When the bytes are not a reply.
    pub fn read(bytes: &[u8]) -> Result<Reply, Malformed> {
        record::rest(&mut Reader::new(bytes, WHAT))
    }
}

/// Writes a frame.
///
/// # Errors
/// When the frame is too long, and errors of `out`.
pub fn send(out: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidData, WHAT);
    let length = u32::try_from(frame.len()).ok().filter(|_| frame.len() <= MAX_FRAME_BYTES).ok_or_else(too_long)?;
    // A single write: the descriptor that may come with it belongs to the frame's first byte.
    out.write_all(&[&length.to_le_bytes(), frame].concat())
}

/// Reads a frame.
///
/// # Errors
/// When the frame is too long, and errors of `from`, its end included.
pub fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, WHAT));
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<Command> {
        let watch = Watch { start: 0x2000_0000, end: 0x2000_0004, loads: false, stores: true };
        vec![
            Command::Go { until: Some(12), at_stops: AtStops::Hold },
            Command::Go { until: None, at_stops: AtStops::Log(7) },
            Command::Go { until: Some(u64::MAX), at_stops: AtStops::Pass },
            Command::SetStops { breakpoints: vec![0x8000_0000, 2], watches: vec![watch] },
            Command::Registers,
            Command::Read { address: 0x100, bytes: 64 },
            Command::Write { address: 0x100, bytes: vec![1, 2] },
            Command::WriteRegister { name: "r0".into(), bytes: vec![0; 4] },
            Command::Fork,
            Command::Interrupt,
            Command::Quit,
            Command::Vcpus,
        ]
    }

    fn replies() -> Vec<Reply> {
        let accessed = Accessed { address: 0x2000_0000, is_store: true, by: 41 };
        let hit = Hit { insn: 41, pc: 0x100, sp: 0x2000_1000, link: 0x201, accessed: None };
        let held = |why| Reply::Held { process: 9, insn: 42, pc: 0x102, why, hits: 3, last_hits: vec![hit] };
        let register = |bytes| Register { feature: "org.gnu.gdb.arm.m-profile".into(), name: "r0".into(), bytes };
        vec![
            held(Why::Reached),
            held(Why::Breakpoint),
            held(Why::Watch(accessed)),
            held(Why::Interrupted),
            held(Why::End(End::Exit, 1)),
            Reply::Registers(vec![register(vec![1, 2, 3, 4]), register(vec![])]),
            Reply::Memory(vec![1, 2, 3]),
            Reply::Done,
            Reply::Refused("not here".into()),
            Reply::Aborts { insns: 100 },
            Reply::Vcpus { executing: 1, started: vec![1 << 40, 3] },
        ]
    }

    #[test]
    fn every_frame_survives() {
        for command in commands() {
            assert_eq!(Command::read(&command.bytes()), Ok(command));
        }
        for reply in replies() {
            assert_eq!(Reply::read(&reply.bytes()), Ok(reply));
        }
        let mut pipe = Vec::new();
        send(&mut pipe, &Command::Fork.bytes()).unwrap();
        assert_eq!(receive(&mut &pipe[..]).unwrap(), Command::Fork.bytes());
    }

    #[test]
    fn damaged_frames_are_refused() {
        for frame in commands().iter().map(Command::bytes) {
            assert!((0..frame.len()).all(|length| Command::read(&frame[..length]).is_err()), "{frame:?}");
            assert!(Command::read(&[&frame[..], &[0]].concat()).is_err(), "{frame:?}");
        }
        for frame in replies().iter().map(Reply::bytes) {
            assert!((0..frame.len()).all(|length| Reply::read(&frame[..length]).is_err()), "{frame:?}");
            assert!(Reply::read(&[&frame[..], &[0]].concat()).is_err(), "{frame:?}");
        }
        let most = Command::Go { until: None, at_stops: AtStops::Log(MAX_HITS) };
        assert_eq!(Command::read(&most.bytes()), Ok(most));
        let more = Command::Go { until: None, at_stops: AtStops::Log(MAX_HITS + 1) };
        assert!(Command::read(&more.bytes()).is_err());
        assert!(receive(&mut &[0xff; 8][..]).is_err() && receive(&mut &[9, 0, 0, 0, 1][..]).is_err());
    }
}
