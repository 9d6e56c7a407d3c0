//! Protocol between harness and plugin while a run is debugged: frames over a socket.
//!
//! When the run is held, the plugin has sent [`Reply::Held`] and answers each [`Command`] with one [`Reply`].
//! [`Command::Go`] is answered when the run is held again. Only [`Command::Interrupt`] may come while the run
//! executes, and it gets no answer. A frame is its length in four bytes, little-endian, followed by that many bytes.
//!
//! Instructions are counted from 1 at reset: held *at* instruction N means that the N-th executes next. Several vCPUs
//! execute in turns; their instructions are counted in the one order that this makes.

use std::io::{self, Read, Write};

use crate::Malformed;
use crate::control::End;
use crate::varint::{self, Reader};

/// File descriptor of the plugin's end of the socket.
pub const DESCRIPTOR: i32 = 4;

/// Longest frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 1 << 24;

/// Most hits that are kept.
pub const MAX_HITS: u64 = 1 << 18;

/// Action at breakpoints and at accesses of watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStops {
    /// Hold the run.
    Hold,
    /// Count the stops and keep the last ones, at most this many.
    Log(u64),
    /// Ignore them.
    Pass,
}

/// Watched range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Whether loads count.
    pub loads: bool,
    /// Whether stores count.
    pub stores: bool,
}

/// Command from the harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Execute up to this instruction, or without end.
    Go {
        /// Instruction to be held at; None: no such instruction.
        until: Option<u64>,
        /// Action at stops on the way.
        at_stops: AtStops,
    },
    /// Replace breakpoints and watches. Watches need a run that was started for them.
    SetStops {
        /// Addresses of instructions.
        breakpoints: Vec<u64>,
        /// Ranges of memory.
        watches: Vec<Watch>,
    },
    /// Read all registers.
    Registers,
    /// Read memory.
    Read {
        /// First address.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Change memory.
    Write {
        /// First address.
        address: u64,
        /// New contents.
        bytes: Vec<u8>,
    },
    /// Change a register.
    WriteRegister {
        /// Name of the register.
        name: String,
        /// New value, in the guest's byte order.
        bytes: Vec<u8>,
    },
    /// Ask which vCPU executes and how far each has come.
    Vcpus,
    /// Copy the whole process. The copy talks over the socket that comes with this frame, and sends [`Reply::Held`]
    /// there first.
    Fork,
    /// Hold the run as soon as possible.
    Interrupt,
    /// End QEMU.
    Quit,
}

/// Reason why the run is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has reached the instruction asked for.
    Reached,
    /// The next instruction has a breakpoint.
    Breakpoint,
    /// The last instruction has accessed watched memory.
    Watch(Accessed),
    /// [`Command::Interrupt`] asked for it.
    Interrupted,
    /// The run is over, in this way, with this value (see [`End`]). The last instruction has started.
    End(End, u64),
}

/// An access of watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// Address accessed.
    pub address: u64,
    /// Whether it was a store.
    pub is_store: bool,
    /// Number of the instruction that made it.
    pub by: u64,
}

/// Breakpoint or watched access, recorded while stops are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Number of the instruction: the one at the breakpoint, or the one that made the access.
    pub insn: u64,
    /// Address of the instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Register that return addresses are in.
    pub link: u64,
    /// Access that was made; None: the hit is a breakpoint.
    pub accessed: Option<Accessed>,
}

/// Register and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// QEMU's feature that the register belongs to.
    pub feature: String,
    /// Name of the register.
    pub name: String,
    /// Value in the guest's byte order; empty: it cannot be read.
    pub bytes: Vec<u8>,
}

/// Reply from the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The run is held.
    Held {
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
    Registers(Vec<Register>),
    /// Memory, as much as could be read.
    Memory(Vec<u8>),
    /// The command is done.
    Done,
    /// The command cannot be carried out, for this reason.
    Refused(String),
    /// vCPU that executes the next instruction, or the last one of a run that is over, with the instructions of each.
    Vcpus {
        /// Index of the executing vCPU.
        executing: u64,
        /// Instructions that each vCPU has started, by index.
        started: Vec<u64>,
    },
    /// QEMU aborts; no more instructions will start.
    Aborts {
        /// Number of instructions that have started.
        insns: u64,
    },
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let length = reader.varint(WHAT)?;
    Ok(reader.bytes(length, WHAT)?.to_vec())
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let offset = reader.offset;
    String::from_utf8(read_bytes(reader)?).map_err(|_| Malformed { what: WHAT, offset })
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    item: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    // An item takes at least a byte, so a damaged length ends at the frame's end.
    (0..reader.varint(WHAT)?).map(|_| item(reader)).collect()
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    let offset = reader.offset;
    match reader.byte(WHAT)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed { what: WHAT, offset }),
    }
}

/// Name of a frame in the error about a damaged one.
const WHAT: &str = "debugger's frame";

impl Command {
    /// Encodes the frame, without its length.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Command::Go { until, at_stops } => {
                out.push(0);
                // 0 stands for None: instructions are counted from 1.
                varint::put(&mut out, until.unwrap_or(0));
                let (stops, most) = match *at_stops {
                    AtStops::Hold => (0, 0),
                    AtStops::Log(most) => (1, most),
                    AtStops::Pass => (2, 0),
                };
                out.push(stops);
                varint::put(&mut out, most);
            }
            Command::SetStops { breakpoints, watches } => {
                out.push(1);
                varint::put(&mut out, breakpoints.len() as u64);
                breakpoints.iter().for_each(|&address| varint::put(&mut out, address));
                varint::put(&mut out, watches.len() as u64);
                for watch in watches {
                    varint::put(&mut out, watch.start);
                    varint::put(&mut out, watch.end);
                    out.extend([watch.loads, watch.stores].map(u8::from));
                }
            }
            Command::Registers => out.push(2),
            Command::Read { address, bytes } => {
                out.push(3);
                varint::put(&mut out, *address);
                varint::put(&mut out, *bytes);
            }
            Command::Write { address, bytes } => {
                out.push(4);
                varint::put(&mut out, *address);
                put_bytes(&mut out, bytes);
            }
            Command::WriteRegister { name, bytes } => {
                out.push(5);
                put_bytes(&mut out, name.as_bytes());
                put_bytes(&mut out, bytes);
            }
            Command::Fork => out.push(6),
            Command::Interrupt => out.push(7),
            Command::Quit => out.push(8),
            Command::Vcpus => out.push(9),
        }
        out
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// When the bytes are not a command.
    pub fn read(bytes: &[u8]) -> Result<Command, Malformed> {
        let reader = &mut Reader::new(bytes);
        let command = match reader.byte(WHAT)? {
            0 => {
                let until = Some(reader.varint(WHAT)?).filter(|&until| until > 0);
                let offset = reader.offset;
                let (stops, most) = (reader.byte(WHAT)?, reader.varint(WHAT)?);
                let at_stops = match stops {
                    0 => AtStops::Hold,
                    1 if most <= MAX_HITS => AtStops::Log(most),
                    2 => AtStops::Pass,
                    _ => return Err(Malformed { what: WHAT, offset }),
                };
                Command::Go { until, at_stops }
            }
            1 => Command::SetStops {
                breakpoints: read_list(reader, |reader| reader.varint(WHAT))?,
                watches: read_list(reader, |reader| {
                    let (start, end) = (reader.varint(WHAT)?, reader.varint(WHAT)?);
                    Ok(Watch { start, end, loads: read_flag(reader)?, stores: read_flag(reader)? })
                })?,
            },
            2 => Command::Registers,
            3 => Command::Read { address: reader.varint(WHAT)?, bytes: reader.varint(WHAT)? },
            4 => Command::Write { address: reader.varint(WHAT)?, bytes: read_bytes(reader)? },
            5 => Command::WriteRegister { name: read_text(reader)?, bytes: read_bytes(reader)? },
            6 => Command::Fork,
            7 => Command::Interrupt,
            8 => Command::Quit,
            9 => Command::Vcpus,
            _ => return Err(Malformed { what: WHAT, offset: 0 }),
        };
        ends(reader, command)
    }
}

/// Returns `read`, or an error when the frame has bytes left.
fn ends<T>(reader: &Reader<'_>, read: T) -> Result<T, Malformed> {
    if reader.is_empty() { Ok(read) } else { Err(Malformed { what: WHAT, offset: reader.offset }) }
}

impl Accessed {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.address);
        out.push(self.is_store.into());
        varint::put(out, self.by);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Accessed, Malformed> {
        Ok(Accessed { address: reader.varint(WHAT)?, is_store: read_flag(reader)?, by: reader.varint(WHAT)? })
    }
}

impl Reply {
    /// Encodes the frame, without its length.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Reply::Held { process, insn, pc, why, hits, last_hits } => {
                out.push(0);
                [process, insn, pc, hits].into_iter().for_each(|&number| varint::put(&mut out, number));
                match why {
                    Why::Reached => out.push(0),
                    Why::Breakpoint => out.push(1),
                    Why::Watch(accessed) => {
                        out.push(2);
                        accessed.put(&mut out);
                    }
                    Why::Interrupted => out.push(3),
                    Why::End(end, value) => {
                        out.push(4);
                        varint::put(&mut out, *end as u64);
                        varint::put(&mut out, *value);
                    }
                }
                varint::put(&mut out, last_hits.len() as u64);
                for hit in last_hits {
                    [hit.insn, hit.pc, hit.sp, hit.link].into_iter().for_each(|number| varint::put(&mut out, number));
                    out.push(hit.accessed.is_some().into());
                    if let Some(accessed) = &hit.accessed {
                        accessed.put(&mut out);
                    }
                }
            }
            Reply::Registers(registers) => {
                out.push(1);
                varint::put(&mut out, registers.len() as u64);
                for Register { feature, name, bytes } in registers {
                    [feature.as_bytes(), name.as_bytes(), bytes]
                        .into_iter()
                        .for_each(|part| put_bytes(&mut out, part));
                }
            }
            Reply::Memory(bytes) => {
                out.push(2);
                put_bytes(&mut out, bytes);
            }
            Reply::Done => out.push(3),
            Reply::Refused(why) => {
                out.push(4);
                put_bytes(&mut out, why.as_bytes());
            }
            Reply::Vcpus { executing, started } => {
                out.push(6);
                varint::put(&mut out, *executing);
                varint::put(&mut out, started.len() as u64);
                started.iter().for_each(|&insns| varint::put(&mut out, insns));
            }
            Reply::Aborts { insns } => {
                out.push(5);
                varint::put(&mut out, *insns);
            }
        }
        out
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// When the bytes are not a reply.
    pub fn read(bytes: &[u8]) -> Result<Reply, Malformed> {
        let reader = &mut Reader::new(bytes);
        let reply = match reader.byte(WHAT)? {
            0 => {
                let mut number = || reader.varint(WHAT);
                let (process, insn, pc, hits) = (number()?, number()?, number()?, number()?);
                let offset = reader.offset;
                let why = match reader.byte(WHAT)? {
                    0 => Why::Reached,
                    1 => Why::Breakpoint,
                    2 => Why::Watch(Accessed::read(reader)?),
                    3 => Why::Interrupted,
                    4 => {
                        let end = End::from_number(reader.varint(WHAT)?).ok_or(Malformed { what: WHAT, offset })?;
                        Why::End(end, reader.varint(WHAT)?)
                    }
                    _ => return Err(Malformed { what: WHAT, offset }),
                };
                let last_hits = read_list(reader, |reader| {
                    let mut number = || reader.varint(WHAT);
                    let (insn, pc, sp, link) = (number()?, number()?, number()?, number()?);
                    let accessed = read_flag(reader)?.then(|| Accessed::read(reader)).transpose()?;
                    Ok(Hit { insn, pc, sp, link, accessed })
                })?;
                Reply::Held { process, insn, pc, why, hits, last_hits }
            }
            1 => Reply::Registers(read_list(reader, |reader| {
                let (feature, name) = (read_text(reader)?, read_text(reader)?);
                Ok(Register { feature, name, bytes: read_bytes(reader)? })
            })?),
            2 => Reply::Memory(read_bytes(reader)?),
            3 => Reply::Done,
            4 => Reply::Refused(read_text(reader)?),
            5 => Reply::Aborts { insns: reader.varint(WHAT)? },
            6 => Reply::Vcpus {
                executing: reader.varint(WHAT)?,
                started: read_list(reader, |reader| reader.varint(WHAT))?,
            },
            _ => return Err(Malformed { what: WHAT, offset: 0 }),
        };
        ends(reader, reply)
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
        assert!(receive(&mut &[0xff; 8][..]).is_err() && receive(&mut &[9, 0, 0, 0, 1][..]).is_err());
    }
}
