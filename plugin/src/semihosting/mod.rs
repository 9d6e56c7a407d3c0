// SPDX-License-Identifier: GPL-2.0-or-later
//! Semihosting: calls by which the firmware exits or uses the host.
//!
//! Specification: <https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst>; the
//! RISC-V one refers to it.

pub(crate) mod handles;

use wire::control::End;
use wire::definition::{Definition, MAX_TEXT_BYTES, NoteKind};
use wire::request::Semihosting;

use crate::output::Output;
use crate::qemu;
use crate::qemu::Guest;
use crate::records::Ledger;
use crate::semihosting::handles::Handles;

const SYS_OPEN: u32 = 0x01;
const SYS_CLOSE: u32 = 0x02;
const SYS_WRITEC: u32 = 0x03;
const SYS_WRITE0: u32 = 0x04;
const SYS_WRITE: u32 = 0x05;
const SYS_READ: u32 = 0x06;
const SYS_READC: u32 = 0x07;
const SYS_ISERROR: u32 = 0x08;
const SYS_ISTTY: u32 = 0x09;
const SYS_SEEK: u32 = 0x0a;
const SYS_FLEN: u32 = 0x0c;
const SYS_TMPNAM: u32 = 0x0d;
const SYS_REMOVE: u32 = 0x0e;
const SYS_RENAME: u32 = 0x0f;
const SYS_CLOCK: u32 = 0x10;
const SYS_TIME: u32 = 0x11;
const SYS_SYSTEM: u32 = 0x12;
const SYS_ERRNO: u32 = 0x13;
const SYS_GET_CMDLINE: u32 = 0x15;
const SYS_HEAPINFO: u32 = 0x16;
const SYS_EXIT: u32 = 0x18;
/// SYS_SYNCCACHE, which QEMU does not have on Cortex-M (`common_semi_has_synccache`).
const SYS_SYNCCACHE: u32 = 0x19;
const SYS_EXIT_EXTENDED: u32 = 0x20;
const SYS_ELAPSED: u32 = 0x30;
const SYS_TICKFREQ: u32 = 0x31;

/// The reason code of a normal exit.
const APPLICATION_EXIT: u64 = 0x20026;

/// Effect of a call on the run.
pub(crate) enum Call {
    /// Ends the run, with this value.
    Ends(End, u64),
    /// Reads a byte from the console. (Reads of the file `:tt` go to QEMU's own standard input, see
    /// [`qemu::give_to_firmware`].)
    ReadsConsole,
    /// Adds to the firmware's output.
    Writes(Written),
}

/// Amount that a call adds to the firmware's output.
pub(crate) enum Written {
    /// One byte.
    Byte,
    /// Text at an address.
    Text(u64),
    /// Memory, written to an open file.
    Buffer(Buffer),
    /// Amount that only QEMU can read.
    Unread,
    /// Nothing yet: the next write to a file begins at this offset, which may be beyond the file's end.
    Sought(u64),
    /// A new file, unless the file exists already.
    File,
    /// Nothing, but a file may lose its name while it is open.
    Nameless,
}

/// Memory to be written to an open file.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    address: u64,
    pub(crate) bytes: u64,
    is_error: bool,
}

impl Buffer {
    /// Whether the buffer goes to standard error and can be read, so that QEMU will write it.
    pub(crate) fn is_error(self, guest: &mut Guest) -> bool {
        self.is_error && guest.is_translated(self.address, self.bytes)
    }
}

/// Most bytes that QEMU writes by one call (`semihost_sys_write_gf`).
const MAX_WRITE_BYTES: u64 = i32::MAX as u64;

impl Written {
    /// Whether this amount exceeds the limit of the output.
    pub(crate) fn is_too_much(&self, output: &mut Output, guest: &mut Guest) -> bool {
        match *self {
            Written::Byte => output.writes(1),
            Written::Text(address) => match guest.text_bytes(address, output.limit_bytes()) {
                Some(bytes) => output.writes(bytes),
                None => output.writes_some(),
            },
            Written::Buffer(Buffer { address, bytes, .. }) => {
                // QEMU writes nothing from a buffer that it can only read in part. It may be able to read memory that
                // is unknown here.
                output.writes(bytes) && (guest.is_translated(address, bytes) || output.writes_some())
            }
            Written::Unread => output.writes_some(),
            Written::Sought(offset) => {
                output.seeks(offset);
                false
            }
            Written::File => output.opens(),
            Written::Nameless => output.removes(),
        }
    }
}

/// Semihosting's clocks. They are virtual if the plugin can answer in place of the C library. Only after a call is it
/// known whether the plugin answered.
#[derive(Default)]
struct Clocks {
    /// Number of answers expected.
    asked: u64,
    /// Operation and address of the last call.
    last: Option<(u32, u64)>,
}

impl Clocks {
    /// Takes over the answers.
    fn new() -> Clocks {
        qemu::answer_clocks();
        Clocks::default()
    }

    /// Notes the last call if the host's clock answered it.
    fn check(&mut self, ledger: &mut Ledger) {
        let Some((operation, pc)) = self.last.take() else { return };
        let answers = qemu::clock_answers();
        if answers != self.asked {
            ledger.note_once(Definition::Note { kind: NoteKind::HostDependent, operation, pc, text: String::new() });
            self.asked = answers;
        }
    }
}

/// Commands for the host, none of which may run. QEMU's function for them is replaced. If that fails, the run ends
/// before the call.
struct Commands {
    /// Whether QEMU's function is replaced.
    is_closed: bool,
    /// Number of refusals expected.
    asked: u64,
    /// Address and command of the last call.
    last: Option<(u64, String)>,
}

impl Commands {
    /// Replaces QEMU's function, except in tests of the walls behind it.
    fn new(served: Semihosting) -> Commands {
        let is_closed = served != Semihosting::Unchecked && qemu::refuse_commands();
        Commands { is_closed, asked: 0, last: None }
    }

    /// Notes the last call as denied, if the command was refused.
    fn check(&mut self, ledger: &mut Ledger) {
        let Some((pc, text)) = self.last.take() else { return };
        let refused = qemu::refused_commands();
        let kind = if refused == self.asked { NoteKind::Denied } else { NoteKind::HostDependent };
        self.asked = refused;
        ledger.note_once(Definition::Note { kind, operation: SYS_SYSTEM, pc, text });
    }

    /// Notes a command that is about to be called. Some: the run must end before the call, with a note of this kind.
    fn ask(&mut self, pc: u64, command: &Text) -> Option<NoteKind> {
        if !command.is_whole {
            return Some(NoteKind::Unread);
        }
        if !self.is_closed {
            return Some(NoteKind::Denied);
        }
        self.asked += 1;
        self.last = Some((pc, command.shown()));
        None
    }
}

/// Calls that name files. Their paths are judged here before the call, and once more where QEMU uses them
/// ([`qemu::judge_files`]): memory that another processor or a device writes may have changed in between.
struct Files {
    /// Whether the run ends if a path was refused at its use.
    ends: bool,
    /// Operation and address of the last call.
    last: (u32, u64),
    /// Operation and address of the first call that was refused at the use of its path.
    refused: Option<(u32, u64)>,
}

impl Files {
    /// Judges the paths at their use.
    fn new(served: Semihosting) -> Files {
        let is_served: Option<qemu::IsServed> = match served {
            Semihosting::Unchecked => None,
            Semihosting::Scratch | Semihosting::AtUse => Some(stays_inside),
            Semihosting::Console | Semihosting::Off => Some(|_| false),
        };
        qemu::judge_files(is_served);
        Files { ends: is_served.is_some(), last: (SYS_OPEN, 0), refused: None }
    }

    /// Notes the last call as denied, if a path of it was refused.
    fn check(&mut self, ledger: &mut Ledger) {
        let Some(path) = qemu::take_refused_file() else { return };
        let (operation, pc) = self.last;
        let text = Text { bytes: path, is_whole: true }.shown();
        ledger.note_once(Definition::Note { kind: NoteKind::Denied, operation, pc, text });
        self.refused.get_or_insert(self.last);
    }
}

/// Calls of the host that are noted once their outcome is known.
pub(crate) struct Asked {
    clocks: Clocks,
    commands: Commands,
    files: Files,
}

impl Asked {
    /// No calls so far.
    pub(crate) fn new(served: Semihosting) -> Asked {
        Asked { clocks: Clocks::new(), commands: Commands::new(served), files: Files::new(served) }
    }

    /// Notes the outcome of the last call. Returns the operation and address of the first call that named a file and was
    /// refused only as QEMU made it, which ends the run.
    pub(crate) fn check(&mut self, ledger: &mut Ledger) -> Option<(u32, u64)> {
        self.clocks.check(ledger);
        self.commands.check(ledger);
        self.files.check(ledger);
        self.files.refused.filter(|_| self.files.ends)
    }
}

/// Examines the semihosting call at `pc`, which is about to be made. Notes effects outside of the emulated machine.
pub(crate) fn look(
    pc: u64,
    served: Semihosting,
    guest: &mut Guest,
    handles: &mut Handles,
    asked: &mut Asked,
    ledger: &mut Ledger,
) -> Option<Call> {
    if let Some((operation, _)) = asked.check(ledger) {
        return Some(Call::Ends(End::Denied, operation.into()));
    }
    let Asked { clocks, commands, files } = asked;
    let [operation, argument] = guest.arguments();
    let operation = operation as u32;
    let mut note = |kind, text| ledger.note_once(Definition::Note { kind, operation, pc, text });
    match operation {
        SYS_EXIT if guest.pointer_bytes() == 4 => {
            Some(Call::Ends(End::Exit, u64::from(argument != APPLICATION_EXIT)))
        }
        SYS_EXIT | SYS_EXIT_EXTENDED => {
            let status = match (field(argument, 0, guest), field(argument, 1, guest)) {
                (Some(APPLICATION_EXIT), Some(status)) => status,
                _ => 1,
            };
            Some(Call::Ends(End::Exit, status & 0xffff_ffff))
        }
        SYS_READC => Some(Call::ReadsConsole),
        SYS_WRITEC => Some(Call::Writes(Written::Byte)),
        SYS_WRITE0 => Some(Call::Writes(Written::Text(argument))),
        SYS_WRITE => {
            let [handle, address, bytes] = [0, 1, 2].map(|index| field(argument, index, guest));
            let (Some(handle), Some(address), Some(bytes)) = (handle, address, bytes) else {
                return Some(Call::Writes(Written::Unread));
            };
            let is_error = handles.is_standard_error(handle);
            let buffer = Buffer { address, bytes: bytes.min(MAX_WRITE_BYTES), is_error };
            handles.may_be_open(handle).then_some(Call::Writes(Written::Buffer(buffer)))
        }
        SYS_SEEK => {
            let (handle, offset) = (field(argument, 0, guest)?, field(argument, 1, guest)?);
            handles.may_be_open(handle).then_some(Call::Writes(Written::Sought(offset)))
        }
        SYS_CLOSE => {
            handles.close(field(argument, 0, guest)?);
            None
        }
        SYS_CLOCK | SYS_TIME | SYS_ELAPSED => {
            clocks.asked += 1;
            clocks.last = Some((operation, pc));
            None
        }
        SYS_TMPNAM if served == Semihosting::Console => {
            note(NoteKind::Denied, String::new());
            Some(Call::Ends(End::Denied, operation.into()))
        }
        SYS_TMPNAM => {
            note(NoteKind::HostDependent, String::new());
            None
        }
        SYS_SYSTEM if served == Semihosting::Unchecked => {
            note(NoteKind::HostDependent, text(argument, 0, guest).shown());
            None
        }
        SYS_SYSTEM => {
            let command = text(argument, 0, guest);
            // The firmware gets the answer that there is no shell, and the run goes on.
            let kind = commands.ask(pc, &command)?;
            note(kind, command.shown());
            Some(Call::Ends(End::Denied, operation.into()))
        }
        SYS_OPEN | SYS_REMOVE | SYS_RENAME if !matches!(served, Semihosting::Unchecked | Semihosting::AtUse) => {
            files.last = (operation, pc);
            names_file(operation, argument, served, guest, handles, note)
        }
        SYS_OPEN | SYS_REMOVE | SYS_RENAME => {
            files.last = (operation, pc);
            if operation == SYS_OPEN {
                handles.open_other();
            }
            None
        }
        SYS_READ | SYS_ISERROR | SYS_ISTTY | SYS_FLEN | SYS_ERRNO | SYS_GET_CMDLINE | SYS_HEAPINFO | SYS_TICKFREQ => {
            None
        }
        SYS_SYNCCACHE if guest.isa.is_riscv() => None,
        // QEMU would abort at an unknown call.
        _ => Some(Call::Ends(End::UnknownCall, operation.into())),
    }
}

/// Handles a call that names files, not all of which may be named. QEMU has no switch that would refuse such a call,
/// so the run ends before it.
fn names_file(
    operation: u32,
    argument: u64,
    served: Semihosting,
    guest: &mut Guest,
    handles: &mut Handles,
    mut note: impl FnMut(NoteKind, String),
) -> Option<Call> {
    let second = (operation == SYS_RENAME).then(|| text(argument, 2, guest));
    let paths = [Some(text(argument, 0, guest)), second];
    // A path that cannot be read as a whole may be harmful.
    let is_served = |path: &Text| {
        let is_ours = operation == SYS_OPEN && is_no_file(&path.bytes);
        path.is_whole && (is_ours || served == Semihosting::Scratch && stays_inside(&path.bytes))
    };
    if let Some(outside) = paths.iter().flatten().find(|path| !is_served(path)) {
        note(if outside.is_whole { NoteKind::Denied } else { NoteKind::Unread }, outside.shown());
        return Some(Call::Ends(End::Denied, operation.into()));
    }
    if operation != SYS_OPEN {
        return Some(Call::Writes(Written::Nameless));
    }
    match (&paths[0], field(argument, 1, guest)) {
        (Some(path), Some(mode)) if path.bytes == CONSOLE => handles.open_console(mode),
        (Some(path), Some(mode)) if path.bytes == FEATURES => handles.open_features(mode),
        _ => {
            handles.open_other();
            return Some(Call::Writes(Written::File));
        }
    }
    None
}

/// The `index`-th word of an argument block.
fn field(block: u64, index: u64, guest: &mut Guest) -> Option<u64> {
    let width = guest.pointer_bytes();
    let bytes = guest.translated(block.wrapping_add(index * width), width as usize)?;
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(u64::from_le_bytes(word))
}

/// The NUL-terminated string at the address in the argument block's `index`-th word. QEMU ignores the length in the
/// block, too (semihosting/uaccess.c, `lock_user_string`).
fn text(block: u64, index: u64, guest: &mut Guest) -> Text {
    let mut text = Text { bytes: Vec::new(), is_whole: false };
    let Some(address) = field(block, index, guest) else { return text };
    while text.bytes.len() < MAX_PATH_BYTES {
        match guest.translated(address.wrapping_add(text.bytes.len() as u64), 1).as_deref() {
            Some([0]) => {
                text.is_whole = true;
                break;
            }
            Some(byte) => text.bytes.extend_from_slice(byte),
            None => break,
        }
    }
    text
}

/// Longest path of a host, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// A string in the guest's memory.
struct Text {
    bytes: Vec<u8>,
    /// Whether the string's end was found.
    is_whole: bool,
}

impl Text {
    /// The string as text, cut to the length of a note.
    fn shown(&self) -> String {
        // A replaced byte takes up to three.
        String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(MAX_TEXT_BYTES / 3)]).into_owned()
    }
}

/// Names of the console and of the list of features.
const CONSOLE: &[u8] = b":tt";
const FEATURES: &[u8] = b":semihosting-features";

/// Whether a path leads to the run's own scratch directory.
fn stays_inside(path: &[u8]) -> bool {
    !path.starts_with(b"/") && path.split(|&byte| byte == b'/').all(|part| part != b"..")
}

/// Whether semihosting opens no file of the host for this name: it is the console, or the list of features.
fn is_no_file(path: &[u8]) -> bool {
    path == CONSOLE || path == FEATURES
}
