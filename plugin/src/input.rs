// SPDX-License-Identifier: GPL-2.0-or-later
//! The console's input: typed at exact instructions, independent of the host's load.
//!
//! QEMU's main thread reads the console's pipe (`chardev/char-fd.c`) and hands each byte to the device through the
//! multiplexer (`char-mux.c`), which holds 32 while the device takes none. The host's scheduler would decide when. So
//! the pipe is kept empty while the guest runs. To type a byte at the start of a block, or before a wait instruction,
//! the plugin holds the vCPU and writes the byte into the pipe. The guest goes on when the main thread waits for file
//! descriptors again. By then the main thread has taken the byte, and the byte's interrupt, if any, is pending. Or
//! multiplexer and device were full, and the main thread did not read; then the plugin takes the byte back.
//!
//! The main thread decides whether to watch the pipe when it begins to wait. A device may have become ready since
//! then without notice. So the plugin first interrupts the main thread, which then decides again.
//!
//! Semihosting's console is a device with a pipe of its own and room for 1024 bytes, without a multiplexer.
//!
//! QEMU writes the firmware's output to the console's file at once, on the vCPU's thread: at a given instruction the
//! file always holds the same.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;

use engine::marks::printed;
use wire::control::Word;
use wire::input::{Step, When};
use wire::request::Request;

use crate::qemu;
use crate::records::Ledger;
use crate::wait::MainThread;

/// Instructions between two bytes, and between two searches for a prompt.
///
/// The firmware's work on a byte repeats with this interval, and the default sampling period is 10,007 instructions.
/// With an interval of 5,000, two bytes took 10,000: hundreds of samples in a row fell at nearly the same distance
/// from a byte, and shares of samples were far from the exact ones. 10,007 / 4,201 is near 3 - 0.618…. Its fraction
/// is the golden ratio's, the farthest from fractions with small terms, so that even a few samples spread evenly. The
/// same holds for 2, 4, … 256 intervals, after which a refused byte is tried again.
const PACE_INSNS: u64 = 4_201;

/// Greatest exponent n of the 2^n intervals after which a refused byte is tried again.
const MAX_BACKOFF: u32 = 8;

/// Number of times that waiting bytes are offered to the device again. A device that is switched on while bytes wait
/// does not look for them (`cmsdk-apb-uart.c`, writes of CTRL).
const OFFERS: u32 = 12;

/// Number of repeated offers at wait instructions. These may come often, and after one there may be no further
/// instruction.
const OFFERS_AT_WAITS: u32 = 1000;

/// Ctrl-A, which begins the multiplexer's commands; sent twice, it types itself.
const ESCAPE: u8 = 1;

/// An unknown command: its only effect is that the multiplexer offers its bytes to the device.
const OFFER: [u8; 2] = [ESCAPE, 0];

/// The console's input, and its progress.
pub(crate) struct Input {
    steps: std::vec::IntoIter<Step>,
    /// The current step.
    step: Option<Step>,
    /// Number of the step's bytes that were taken; None: the step has not begun.
    typed: Option<usize>,
    taken_bytes: u64,
    /// Steps that have begun.
    begun: u64,
    refusals: u32,
    offers: u32,
    offers_at_waits: u32,
    console: Console,
    /// Pipe of the device that gets the input.
    pipe: Pipe,
    /// Pipe of the semihosting console, until this console gets the input.
    semihosting: Option<Pipe>,
    /// Bytes that the serial port has got.
    serial: Vec<u8>,
    /// Bytes of `serial` that the semihosting console has yet to get.
    again: VecDeque<u8>,
}

/// The firmware's output, searched for prompts.
struct Console {
    file: File,
    /// Output after the last prompt found; only the part in which the next prompt can begin.
    unread: Vec<u8>,
}

impl Console {
    /// Whether the prompt has been printed; discards the output up to its end.
    fn find(&mut self, prompt: &[u8]) -> io::Result<bool> {
        self.file.read_to_end(&mut self.unread)?;
        let found = self.unread.windows(prompt.len()).position(|window| window == prompt);
        let done = found.map_or(self.unread.len().saturating_sub(prompt.len() - 1), |start| start + prompt.len());
        self.unread.drain(..done);
        Ok(found.is_some())
    }

    /// Skips all output so far.
    fn skip(&mut self) -> io::Result<()> {
        self.unread.clear();
        self.file.seek(SeekFrom::End(0)).map(drop)
    }
}

/// The pipe that QEMU's main thread reads.
struct Pipe {
    file: File,
    main_thread: MainThread,
}

/// Result of an attempt to type.
enum Answer {
    Taken,
    Refused,
    /// QEMU is being stopped.
    Stopping,
}

impl Pipe {
    fn put(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        if !self.main_thread.await_poll() {
            return Ok(Answer::Stopping);
        }
        qemu::interrupt_main_thread();
        if !self.main_thread.await_poll() {
            return Ok(Answer::Stopping);
        }
        self.file.write_all(bytes)?;
        let done = self.main_thread.await_poll();
        let mut back = [0; 2];
        match self.file.read(&mut back) {
            Ok(_) => Ok(if done { Answer::Refused } else { Answer::Stopping }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Answer::Taken),
            Err(error) => Err(error),
        }
    }
}

impl Input {
    /// Opens the console; None: there is nothing to type.
    pub(crate) fn open(request: &Request, main_thread: &MainThread) -> io::Result<Option<Input>> {
        if request.input.is_empty() {
            return Ok(None);
        }
        if !main_thread.can_be_seen() {
            return Err(io::Error::other("console input needs a host with /proc/self/task/ID/syscall"));
        }
        let steps = request.input.clone();
        let mut pipe = OpenOptions::new();
        pipe.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        qemu::allow_interrupts();
        let mut input = Input {
            steps: steps.into_iter(),
            step: None,
            typed: None,
            taken_bytes: 0,
            begun: 0,
            refusals: 0,
            offers: 0,
            offers_at_waits: 0,
            console: Console { file: File::open(printed(request))?, unread: Vec::new() },
            pipe: Pipe { file: pipe.open(format!("{}.in", request.console))?, main_thread: main_thread.clone() },
            semihosting: Some(Pipe {
                file: pipe.open(format!("{}.readc", request.console))?,
                main_thread: main_thread.clone(),
            }),
            serial: Vec::new(),
            again: VecDeque::new(),
        };
        input.step = input.steps.next();
        Ok(Some(input))
    }

    /// Whether all steps are done.
    pub(crate) fn is_over(&self) -> bool {
        self.step.is_none() && self.offers == 0 && self.again.is_empty()
    }

    /// Types a byte, if one is due. `waits`: the firmware is about to wait.
    fn type_next(&mut self, now: u64, waits: bool) -> io::Result<()> {
        if let Some(&byte) = self.again.front() {
            return self.type_again(byte);
        }
        // Several changes may come at once; the processor may sleep behind them.
        while self.begins(now)? {
            if self.step.as_ref().is_some_and(|step| !step.bytes.is_empty()) {
                return self.type_one();
            }
            self.begin()?;
            qemu::begin_step(u32::try_from(self.begun - 1).unwrap_or(u32::MAX));
            self.go_on();
        }
        if self.offers > 0 && (!waits || self.offers_at_waits > 0) {
            let left = if waits { &mut self.offers_at_waits } else { &mut self.offers };
            *left -= 1;
            if let Answer::Stopping = self.pipe.put(&OFFER)? {
                self.give_up();
            }
        }
        Ok(())
    }

    /// Whether the step has begun, or begins.
    fn begins(&mut self, now: u64) -> io::Result<bool> {
        Ok(match &self.step {
            None => false,
            Some(_) if self.typed.is_some() => true,
            Some(Step { when: When::At(insns), .. }) => now >= *insns,
            Some(Step { when: When::After(prompt), .. }) => self.console.find(prompt)?,
        })
    }

    /// Types the bytes that are due at this instruction; returns the instruction of the next check.
    pub(crate) fn look(&mut self, now: u64, waits: bool, ledger: &Ledger) -> Option<u64> {
        let typed = self.type_next(now, waits);
        ledger.say(Word::InputBytes, self.taken_bytes);
        ledger.say(Word::InputBegun, self.begun);
        ledger.written(typed);
        self.next_look(now)
    }

    /// Gives the input to the semihosting console, from which the firmware is about to read a byte. Until then the
    /// serial port has it. The semihosting console also gets all bytes that the serial port got: it was not known
    /// which console the firmware would read, and it is not visible whether the firmware read the serial port.
    pub(crate) fn semihosting_reads(&mut self) {
        if let Some(pipe) = self.semihosting.take() {
            self.pipe = pipe;
            self.again = std::mem::take(&mut self.serial).into();
            // The semihosting console has no multiplexer to offer bytes again.
            (self.refusals, self.offers, self.offers_at_waits) = (0, 0, 0);
        }
    }

    /// Types a byte on the device that has the input. The multiplexer's own key is doubled; both are taken or refused
    /// together, since the first takes no room.
    fn put(&mut self, byte: u8) -> io::Result<Answer> {
        let is_key = self.semihosting.is_some() && byte == ESCAPE;
        self.pipe.put(if is_key { &[ESCAPE, ESCAPE] } else { std::slice::from_ref(&byte) })
    }

    fn type_again(&mut self, byte: u8) -> io::Result<()> {
        match self.put(byte)? {
            Answer::Taken => {
                self.again.pop_front();
                self.refusals = 0;
            }
            Answer::Refused => self.refusals += 1,
            Answer::Stopping => self.give_up(),
        }
        Ok(())
    }

    fn type_one(&mut self) -> io::Result<()> {
        if self.typed.is_none() {
            self.begin()?;
        }
        let Some(step) = &self.step else { return Ok(()) };
        let typed = self.typed.unwrap_or(0);
        let (byte, is_last) = (step.bytes[typed], typed + 1 == step.bytes.len());
        self.typed = Some(typed);
        match self.put(byte)? {
            Answer::Taken => {
                self.taken_bytes += 1;
                self.refusals = 0;
                if self.semihosting.is_some() {
                    self.serial.push(byte);
                    (self.offers, self.offers_at_waits) = (OFFERS, OFFERS_AT_WAITS);
                }
                self.typed = Some(typed + 1);
                if is_last {
                    self.go_on();
                }
            }
            Answer::Refused => self.refusals += 1,
            Answer::Stopping => self.give_up(),
        }
        Ok(())
    }

    /// Notes that the step begins.
    fn begin(&mut self) -> io::Result<()> {
        self.begun += 1;
        match self.step {
            Some(Step { when: When::At(_), .. }) => self.console.skip(),
            _ => Ok(()),
        }
    }

    fn go_on(&mut self) {
        (self.step, self.typed) = (self.steps.next(), None);
    }

    fn give_up(&mut self) {
        (self.step, self.typed, self.offers) = (None, None, 0);
        self.steps = Vec::new().into_iter();
        self.again.clear();
    }

    /// Instruction of the next check.
    pub(crate) fn next_look(&self, now: u64) -> Option<u64> {
        let pace = |doublings: u32| Some(now + (PACE_INSNS << doublings.min(MAX_BACKOFF)));
        if !self.again.is_empty() {
            return pace(self.refusals.saturating_sub(1));
        }
        let offer = (self.offers > 0).then(|| pace(OFFERS - self.offers)).flatten();
        match &self.step {
            None => offer,
            Some(_) if self.typed.is_some() => pace(self.refusals.saturating_sub(1)),
            Some(Step { when: When::At(insns), .. }) if *insns > now => {
                Some(offer.map_or(*insns, |offer| offer.min(*insns)))
            }
            Some(_) => pace(0),
        }
    }
}
