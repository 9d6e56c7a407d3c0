// SPDX-License-Identifier: GPL-2.0-or-later
//! A debugger's view of the run: holds the vCPU in the callback of an instruction, and answers harness's commands
//! meanwhile ([`wire::debug`]).
//!
//! The processor's state is the state before the instruction. Virtual time stands still, since it is counted in
//! instructions. No answer changes the run: a peripheral, which a read may change, is read in a copy of the process
//! that exits afterwards. A write turns the run into a different one; harness keeps track of that.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use engine::clock::TIMEKEEPER;
use engine::guest::{MAX_READ_BYTES, Vcpu as _};
use engine::marks::printed;
use wire::chip::AVR_DATA;
use wire::control::End;
use wire::counters::MAX_INSNS;
use wire::debug::{self, Accessed, AtStops, Command, Hit, MAX_FRAME_BYTES, Register, Reply, Watch, Why};
use wire::request::{Isa, Request};

use crate::qemu::Guest;
use crate::qemu::{self, Copier, Edition, Editions, Side, Socket};
use crate::records::Ledger;
use crate::wait::MainThread;

/// Instructions between two checks for a request to hold the run.
const SLICE_INSNS: u64 = 1 << 20;

/// Bounds of all watched memory, as QEMU tells addresses of accesses.
static WATCHED_START: AtomicU64 = AtomicU64::new(u64::MAX);
static WATCHED_END: AtomicU64 = AtomicU64::new(0);

/// Largest read of device registers, in bytes.
const MAX_DEVICE_BYTES: u64 = 256;

/// Longest access, in bytes.
const MAX_ACCESS_BYTES: u64 = 16;

/// Whether an access may touch watched memory; cheap, for callbacks that come often.
pub(crate) fn may_be_watched(address: u64) -> bool {
    address < WATCHED_END.load(Ordering::Relaxed)
        && address.saturating_add(MAX_ACCESS_BYTES) > WATCHED_START.load(Ordering::Relaxed)
}

/// Connection to harness, and the stops that harness asked for.
pub(crate) struct Debugger {
    socket: Socket,
    /// Address of the byte whose accesses QEMU tells as those of address 0: on AVR, the data space's first.
    accesses_from: u64,
    /// Whether the run was translated with callbacks for memory accesses.
    watches_memory: bool,
    /// Instruction at which to hold the run.
    until: Option<u64>,
    at_stops: AtStops,
    breakpoints: BTreeSet<u64>,
    watches: Vec<Watch>,
    /// Flags that generated code tests, by the address of the instruction.
    flags: HashMap<u64, Vec<u32>>,
    /// The vCPU that executes.
    vcpu: u32,
    /// Instruction at which the run was last held.
    held_at: u64,
    hits: u64,
    last_hits: VecDeque<Hit>,
    /// Last access of watched memory, because of which the next instruction is held.
    accessed: Option<Accessed>,
    /// Maker of copies; None: this QEMU lacks a function that copies need.
    copier: Option<Copier>,
    main_thread: MainThread,
    /// Editions of the translated code; None: this QEMU cannot keep two editions apart.
    editions: Option<Editions>,
    console: String,
    records: String,
}

/// Effect of a command on the run.
enum Next {
    /// The run goes on.
    Go,
    /// The run stays held.
    Stay,
}

impl Debugger {
    /// Connects to harness, if the run is to be debugged.
    pub(crate) fn open(
        request: &Request,
        records: &str,
        vcpus: u32,
        main_thread: &MainThread,
    ) -> io::Result<Option<Debugger>> {
        let Some(asked) = request.debug() else { return Ok(None) };
        let is_single = vcpus == 1;
        Ok(Some(Debugger {
            socket: Socket::inherited(debug::DESCRIPTOR)?,
            accesses_from: if matches!(request.isa, Isa::AvrPc16 | Isa::AvrPc22) { AVR_DATA.start } else { 0 },
            watches_memory: asked.is_watched,
            until: Some(1),
            at_stops: AtStops::Pass,
            breakpoints: BTreeSet::new(),
            watches: Vec::new(),
            flags: HashMap::new(),
            vcpu: TIMEKEEPER,
            held_at: 0,
            hits: 0,
            last_hits: VecDeque::new(),
            accessed: None,
            // Typing needs QEMU's main thread, which a copy lacks.
            copier: Copier::find()
                .filter(|_| main_thread.can_be_seen() && asked.is_copied && request.input.is_empty()),
            main_thread: main_thread.clone(),
            // With several vCPUs, leaving a block would end a vCPU's turn.
            editions: Editions::find().filter(|_| is_single).inspect(|editions| editions.choose(Edition::Single)),
            console: printed(request),
            records: records.to_owned(),
        }))
    }

    /// Notes which of several vCPUs executes.
    pub(crate) fn turn_to(&mut self, vcpu: u32) {
        self.vcpu = vcpu;
    }

    /// Whether an instruction has a breakpoint.
    pub(crate) fn has_breakpoint(&self, pc: u64) -> bool {
        self.breakpoints.contains(&pc)
    }

    /// Whether accesses are watched for.
    pub(crate) fn watches(&self) -> bool {
        self.watches_memory
    }

    /// Notes the flag that an instruction's generated code tests.
    pub(crate) fn translated(&mut self, pc: u64, flag: u32, ledger: &Ledger) {
        let flags = self.flags.entry(pc).or_default();
        if !flags.contains(&flag) {
            flags.push(flag);
        }
        ledger.set(flag, TIMEKEEPER, self.breakpoints.contains(&pc).into());
    }

    /// Instruction of the next check.
    fn next(&self, insns: u64) -> Option<u64> {
        Some(self.until.unwrap_or(MAX_INSNS).min(insns + SLICE_INSNS))
    }

    /// Whether the run can only be held at an instruction whose number is known.
    pub(crate) fn may_be_far(&self) -> bool {
        let is_known = match self.at_stops {
            AtStops::Pass => true,
            // Any instruction that accesses memory could be logged.
            AtStops::Log(_) => self.breakpoints.is_empty(),
            AtStops::Hold => false,
        };
        is_known && self.editions.is_some()
    }

    /// Instruction of the next check; None: a stop may lie within `near` instructions.
    pub(crate) fn glance(&self, insns: u64, near: u64) -> Option<u64> {
        let is_near = self.until.is_some_and(|until| until <= insns + near);
        if is_near || self.socket.is_readable() { None } else { self.next(insns) }
    }

    /// Selects the edition of the code: fast blocks that cannot be held, or blocks that can be held at each
    /// instruction.
    pub(crate) fn go_far(&mut self, is_far: bool) {
        let Some(editions) = &self.editions else { return };
        editions.choose(if is_far { Edition::Chained } else { Edition::Single });
        if !is_far {
            editions.leave_chain();
        }
    }

    /// Handles an instruction at which a check is due. Returns the instruction of the next check.
    pub(crate) fn arrived(&mut self, insns: u64, pc: u64, guest: &mut Guest, ledger: &Ledger) -> Option<u64> {
        let is_first = self.held_at == 0;
        if let Some(editions) = self.editions.take_if(|editions| is_first && !editions.are_apart()) {
            editions.choose(Edition::Chained);
        }
        if let Some(accessed) = self.accessed.take() {
            self.serve(Why::Watch(accessed), insns, pc, guest, ledger);
        } else if self.until.is_some_and(|until| until <= insns) {
            self.serve(Why::Reached, insns, pc, guest, ledger);
        } else if self.socket.is_readable() {
            // Any message that arrives while the run executes asks to hold it.
            self.serve(Why::Interrupted, insns, pc, guest, ledger);
        }
        self.next(insns)
    }

    /// Handles a breakpoint. Returns the instruction of the next check.
    pub(crate) fn breakpoint(&mut self, insns: u64, pc: u64, guest: &mut Guest, ledger: &Ledger) -> Option<u64> {
        match self.at_stops {
            // The run was held here already, for another reason.
            AtStops::Hold if self.held_at == insns => {}
            AtStops::Hold => {
                self.serve(Why::Breakpoint, insns, pc, guest, ledger);
                // A run that goes on from here and counts stops must count this stop.
                self.log(insns, pc, None, guest);
            }
            AtStops::Log(_) => self.log(insns, pc, None, guest),
            AtStops::Pass => {}
        }
        self.next(insns)
    }

    /// Notes an access of memory. Returns whether to hold at the next instruction.
    pub(crate) fn accessed(&mut self, accessed: Accessed, bytes: u64, pc: u64, guest: &mut Guest) -> bool {
        let Accessed { address, is_store, by } = accessed;
        let address = self.accesses_from.saturating_add(address);
        let accessed = Accessed { address, is_store, by };
        let is_watched = self.watches.iter().any(|watch| {
            address < watch.end
                && address.saturating_add(bytes) > watch.start
                && if is_store { watch.stores } else { watch.loads }
        });
        if !is_watched {
            return false;
        }
        match self.at_stops {
            AtStops::Hold => self.accessed = Some(accessed),
            AtStops::Log(_) => self.log(by, pc, Some(accessed), guest),
            AtStops::Pass => {}
        }
        self.accessed.is_some()
    }

    fn log(&mut self, insn: u64, pc: u64, accessed: Option<Accessed>, guest: &mut Guest) {
        let AtStops::Log(most) = self.at_stops else { return };
        self.hits += 1;
        let hit = Hit { insn, pc, sp: guest.stack_pointer(), link: guest.return_register(), accessed };
        self.last_hits.push_back(hit);
        if self.last_hits.len() as u64 > most {
            self.last_hits.pop_front();
        }
    }

    /// Holds the ended run until harness lets it go.
    pub(crate) fn ended(
        &mut self,
        end: End,
        value: u64,
        insns: u64,
        pc: u64,
        guest: &mut Guest,
        ledger: &Ledger,
    ) -> ! {
        loop {
            self.serve(Why::End(end, value), insns, pc, guest, ledger);
        }
    }

    /// Reports that QEMU aborts.
    pub(crate) fn aborts(&mut self, insns: u64) {
        // Nothing can be done if this fails.
        let _ = debug::send(self.socket.stream(), &Reply::Aborts { insns }.bytes());
    }

    /// Holds the run and answers commands until a command lets it go on.
    fn serve(&mut self, why: Why, insn: u64, pc: u64, guest: &mut Guest, ledger: &Ledger) {
        self.held_at = insn;
        qemu::executes(false);
        self.say_held(why, insn, pc);
        loop {
            let (command, socket) = self.hear();
            if let (Command::Fork, Some(socket)) = (&command, socket) {
                self.fork(socket, ledger, || (why, insn, pc));
                continue;
            }
            match self.act(command, pc, guest, ledger) {
                (Next::Go, _) => break,
                (Next::Stay, None) => {}
                (Next::Stay, Some(reply)) => self.say(&reply),
            }
        }
        qemu::executes(true);
    }

    fn say_held(&mut self, why: Why, insn: u64, pc: u64) {
        let held = Reply::Held {
            process: std::process::id().into(),
            insn,
            pc,
            why,
            hits: std::mem::take(&mut self.hits),
            last_hits: std::mem::take(&mut self.last_hits).into(),
        };
        self.say(&held);
    }

    /// Forks a copy of this process, held at the same instruction, which reports over a socket of its own.
    fn fork(&mut self, socket: Socket, ledger: &Ledger, held: impl Fn() -> (Why, u64, u64)) {
        let Debugger { copier, main_thread, console, records, .. } = self;
        let Some(copier) = copier else {
            self.say(&Reply::Refused("this QEMU does not show the functions that a copy needs".to_owned()));
            return;
        };
        match copier.fork(console, records, &socket, || main_thread.rests()) {
            Ok(Side::Original) => self.say(&Reply::Done),
            Ok(Side::Copy) => {
                if ledger.records().keep().is_err() {
                    qemu::exit(1);
                }
                std::mem::replace(&mut self.socket, socket).give_up();
                let (why, insn, pc) = held();
                self.say_held(why, insn, pc);
            }
            Err(error) => self.say(&Reply::Refused(error.to_string())),
        }
    }

    fn say(&mut self, reply: &Reply) {
        if debug::send(self.socket.stream(), &reply.bytes()).is_err() {
            // The harness has ended.
            qemu::exit(0);
        }
    }

    /// Receives the next command, and the socket that came with it.
    fn hear(&mut self) -> (Command, Option<Socket>) {
        let mut length = [0; 4];
        let received = self.socket.receive_first(&mut length).and_then(|socket| {
            let frame = debug::receive(&mut length.chain(self.socket.stream()))?;
            let command = Command::read(&frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            Ok((command, socket))
        });
        received.unwrap_or_else(|error| {
            // The harness ends this process by closing the socket, too.
            if error.kind() != io::ErrorKind::UnexpectedEof {
                qemu::say(&error.to_string());
            }
            qemu::exit(0)
        })
    }

    fn act(&mut self, command: Command, pc: u64, guest: &mut Guest, ledger: &Ledger) -> (Next, Option<Reply>) {
        let reply = match command {
            Command::Go { until, at_stops } => {
                (self.until, self.at_stops) = (until, at_stops);
                return (Next::Go, None);
            }
            // The run is held already.
            Command::Interrupt => return (Next::Stay, None),
            Command::Quit => qemu::exit(0),
            Command::SetStops { breakpoints, watches } => {
                self.set_stops(breakpoints, watches, ledger);
                Reply::Done
            }
            Command::Registers => Reply::Registers(registers(pc, guest)),
            Command::Read { address, bytes } => Reply::Memory(if guest.is_memory(address) {
                read(address, bytes, guest)
            } else {
                self.read_aside(address, bytes, guest)
            }),
            Command::Write { address, bytes } => write(address, &bytes, guest),
            Command::WriteRegister { name, bytes } => write_register(&name, &bytes, guest),
            Command::Vcpus => Reply::Vcpus { executing: self.vcpu.into(), started: ledger.insns_of_each() },
            Command::Fork => Reply::Refused("no socket came with it".to_owned()),
        };
        (Next::Stay, Some(reply))
    }

    /// Reads device registers in a copy of the process that exits afterwards, so that no device of this process
    /// changes.
    fn read_aside(&mut self, address: u64, bytes: u64, guest: &mut Guest) -> Vec<u8> {
        let length = bytes.min(MAX_DEVICE_BYTES) as usize;
        let Debugger { copier: Some(copier), main_thread, console, records, .. } = self else { return Vec::new() };
        let read = || guest.registers().and_then(|registers| registers.read_memory(address, length));
        copier.aside(console, records, || main_thread.rests(), read).unwrap_or_default()
    }

    fn set_stops(&mut self, breakpoints: Vec<u64>, watches: Vec<Watch>, ledger: &Ledger) {
        let raise = |debugger: &Debugger, value| {
            let flags = debugger.breakpoints.iter().filter_map(|pc| debugger.flags.get(pc)).flatten();
            flags.for_each(|&flag| ledger.set(flag, TIMEKEEPER, value));
        };
        raise(self, 0);
        self.breakpoints = breakpoints.into_iter().collect();
        raise(self, 1);
        let told = |address: u64| address.saturating_sub(self.accesses_from);
        let start = watches.iter().map(|watch| told(watch.start)).min().unwrap_or(u64::MAX);
        WATCHED_START.store(start, Ordering::Relaxed);
        WATCHED_END.store(watches.iter().map(|watch| told(watch.end)).max().unwrap_or(0), Ordering::Relaxed);
        self.watches = watches;
    }
}

/// Registers that QEMU computes from its clock; reading them here would end QEMU.
const CLOCKED: [&str; 9] =
    ["cycle", "time", "instret", "hpmcounter", "mcycle", "minstret", "mhpmcounter", "seed", "htime"];

/// Whether a register can be read without changing the run.
fn is_readable(name: &str) -> bool {
    !CLOCKED.iter().any(|clocked| {
        // Upper halves (`h`), and numbered registers.
        name.strip_prefix(clocked).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'h'))
    })
}

fn registers(pc: u64, guest: &mut Guest) -> Vec<Register> {
    let Some(registers) = guest.registers() else { return Vec::new() };
    let all = registers.all().to_vec();
    let read = all.into_iter().map(|(feature, name, handle)| {
        let mut bytes = if is_readable(&name) {
            registers.read_bytes(handle).map(<[u8]>::to_vec).unwrap_or_default()
        } else {
            Vec::new()
        };
        // QEMU's own pc is the address of the block's start.
        if name == "pc" && bytes.len() <= 8 {
            let length = bytes.len();
            bytes.copy_from_slice(&pc.to_le_bytes()[..length]);
        }
        Register { feature, name, bytes }
    });
    read.collect()
}

/// Writes memory; refuses device registers, which would react.
fn write(address: u64, bytes: &[u8], guest: &Guest) -> Reply {
    let is_memory = guest.memory_from(address).is_some_and(|there| bytes.len() as u64 <= there);
    if !is_memory {
        Reply::Refused("there is no memory, and devices are not written to".to_owned())
    } else if qemu::write_memory(address, bytes) {
        Reply::Done
    } else {
        Reply::Refused("this QEMU does not show how memory is written".to_owned())
    }
}

fn write_register(name: &str, bytes: &[u8], guest: &mut Guest) -> Reply {
    let refused = |why: &str| Reply::Refused(why.to_owned());
    let Some(registers) = guest.registers() else { return refused("the processor has no registers yet") };
    let found = registers.all().iter().find(|(_, other, _)| other == name).map(|&(.., handle)| handle);
    let Some(handle) = found.filter(|_| name != "pc") else {
        return refused("that register cannot be written: the instruction is about to execute");
    };
    // QEMU ignores a write at any other point than an instruction's callback, without an error.
    if qemu::write_register(handle, bytes) && registers.read_bytes(handle) == Some(bytes) {
        Reply::Done
    } else {
        refused("this QEMU writes no registers for plugins (10.1 and later do), or not this one, or not here")
    }
}

/// Reads memory from an address on, up to the first byte that cannot be read.
fn read(mut address: u64, bytes: u64, guest: &mut Guest) -> Vec<u8> {
    let mut read = Vec::new();
    let mut left = bytes.min(MAX_FRAME_BYTES as u64 / 2);
    while left > 0 {
        let Some(there) = guest.memory_from(address) else { break };
        let length = left.min(there).min(MAX_READ_BYTES as u64);
        let Some(part) = guest.memory(address, length as usize) else { break };
        read.extend(part);
        address = address.wrapping_add(length);
        left -= length;
    }
    read
}
