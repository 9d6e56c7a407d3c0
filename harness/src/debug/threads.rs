// SPDX-License-Identifier: MIT OR Apache-2.0
//! The firmware's tasks at the current instruction, which a debugger shows as threads.
//!
//! They are read from the kernel's own variables and from the stacks of waiting tasks. While the kernel changes its
//! lists, a task may be in no list, or in two. A task in two lists is shown once. The running task is shown even if
//! it is in no list.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;
use wire::request::Kernel;
use wire::timeline;

use crate::debug::thread::{self, Processor};
use crate::debug::travel::little_endian;
use crate::debug::travel::{Register, Travel};
use crate::image::kernel;
pub use crate::image::kernel::freertos::lists::{Lists, State};
use crate::image::kernel::tasks::{ArmPort, Block, Blocks, InFrame, Listing, Saved, Source, Tasks};
use crate::image::symbols::Symbols;
use crate::image::trace_patterns;

/// A task of the firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Address of the task's control block.
    pub id: u64,
    /// The task's name; empty if it could not be read.
    pub name: String,
    /// State of the task by its kernel's data.
    pub state: State,
    /// Registers with which the task will continue, by QEMU's names, as far as the kernel has saved them. Empty: the
    /// task runs, or it is not known how the kernel saves registers.
    pub registers: Vec<(String, u64)>,
}

/// Layout of a firmware's kernel.
#[derive(Clone, Debug)]
pub struct Threads {
    kernel: Kernel,
    tasks: Tasks,
    /// Variables of the firmware, of which the one that holds a control block names a task without a name.
    variables: Vec<(Range<u64>, String)>,
    is_arm: bool,
}

/// Most tasks that are listed.
const MAX_TASKS: usize = 4096;

/// Longest name of a task that is read.
const MAX_NAME_BYTES: u64 = 256;

impl Threads {
    /// Reader of the tasks of an image's kernel; None: it is not known how to find them.
    pub fn new(kernel: Option<&Kernel>, elf: Option<&[u8]>, load_bias: u64, is_arm: bool) -> Option<Threads> {
        let tasks = kernel::tasks(elf, load_bias, is_arm)?;
        let variables = Symbols::new(elf, load_bias, is_arm).variables();
        Some(Threads { kernel: kernel?.clone(), tasks, variables, is_arm })
    }

    /// Size of a pointer.
    fn word_bytes(&self) -> u64 {
        match &self.tasks.listing {
            Listing::Lists(lists) => lists.pointer_bytes,
            Listing::Blocks(blocks) => blocks.pointer_bytes,
        }
    }

    /// All current tasks: the running ones first, then in the kernel's order.
    ///
    /// # Errors
    /// Errors of the run.
    pub fn list(&self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let mut seen = BTreeSet::new();
        let mut threads = Vec::new();
        for current in self.kernel.current.clone().step_by(self.word_bytes() as usize) {
            let tcb = self.pointer(travel, current)?.unwrap_or(0);
            // Before the scheduler runs, no task runs, but each is in its list already.
            if tcb != 0 && self.is_scheduling(travel)? && seen.insert(tcb) {
                let name = self.name(travel, tcb)?;
                threads.push(Thread { id: tcb, name, state: State::Running, registers: Vec::new() });
            }
        }
        let others = match &self.tasks.listing {
            Listing::Lists(lists) => self.in_lists(lists, travel)?,
            Listing::Blocks(blocks) => self.in_blocks(blocks, travel)?,
        };
        for (tcb, state) in others {
            if seen.insert(tcb) {
                let (name, registers) = (self.name(travel, tcb)?, self.registers(travel, tcb)?);
                threads.push(Thread { id: tcb, name, state, registers });
            }
        }
        Ok(threads)
    }

    /// Tasks in a kernel's lists, with their states.
    fn in_lists(&self, lists: &Lists, travel: &mut dyn Travel) -> Result<Vec<(u64, State)>> {
        let mut tasks = Vec::new();
        for &(list, state) in &lists.lists {
            let end = list + lists.end;
            let mut item = self.pointer(travel, end + lists.next)?;
            // A damaged list may be circular.
            for _ in 0..MAX_TASKS {
                let Some(at) = item.filter(|&at| at != end && at != 0) else { break };
                let Some(tcb) = self.pointer(travel, at + lists.owner)?.filter(|&tcb| tcb != 0) else { break };
                tasks.push((tcb, self.state_in(travel, lists, (list, state), (at, tcb))?));
                item = self.pointer(travel, at + lists.next)?;
            }
        }
        Ok(tasks)
    }

    /// State of a task in a list. A task that waits without a time limit is kept with the suspended ones.
    fn state_in(
        &self,
        travel: &mut dyn Travel,
        lists: &Lists,
        (list, state): (u64, State),
        (item, tcb): (u64, u64),
    ) -> Result<State> {
        let is_own_item = self.pointer(travel, item + lists.container)? == Some(list);
        let event = item + lists.item_bytes;
        if state != State::Suspended || !is_own_item || self.pointer(travel, event + lists.owner)? != Some(tcb) {
            return Ok(state);
        }
        let waits_for = self.pointer(travel, event + lists.container)?;
        Ok(if waits_for.is_some_and(|container| container != 0) { State::Blocked } else { state })
    }

    /// Tasks of a kernel that keeps each one's state in its control block.
    fn in_blocks(&self, blocks: &Blocks, travel: &mut dyn Travel) -> Result<Vec<(u64, State)>> {
        let tcbs = match &blocks.source {
            Source::Variables(variables) => variables.clone(),
            Source::Array(range) => self.pointers(travel, range.clone())?,
            &Source::AllocatedArray { start, count } => {
                let count = little_endian(&travel.read(count, 4)?).min(MAX_TASKS as u64);
                let start = self.pointer(travel, start)?.unwrap_or(0);
                self.pointers(travel, start..start.saturating_add(count * self.word_bytes()))?
            }
            &Source::Chain { first, next } => {
                let mut tcbs = Vec::new();
                let first = self.pointer(travel, first)?.unwrap_or(0);
                let mut tcb = first;
                // A damaged chain may lead round without its first.
                while tcb != 0 && tcbs.len() < MAX_TASKS {
                    tcbs.push(tcb);
                    tcb = self.pointer(travel, tcb.wrapping_add(next))?.filter(|&next| next != first).unwrap_or(0);
                }
                tcbs
            }
        };
        let mut tasks = Vec::new();
        for tcb in tcbs {
            // A variable's task may not have been made yet.
            if self.saved_sp(travel, tcb)?.is_none() {
                continue;
            }
            let at = &blocks.states.state;
            let value = little_endian(&travel.read(tcb.wrapping_add(at.start), (at.end - at.start) as usize)?);
            let limit = match blocks.states.time_limit {
                Some(offset) => self.pointer(travel, tcb.wrapping_add(offset))?.unwrap_or(0),
                None => 0,
            };
            tasks.push((
                tcb,
                match blocks.states.state(value) {
                    Some(timeline::State::Deleted) => State::Deleted,
                    Some(timeline::State::Suspended) if limit == 0 => State::Suspended,
                    Some(timeline::State::Ready) => State::Ready,
                    _ => State::Blocked,
                },
            ));
        }
        Ok(tasks)
    }

    /// Pointers in an array that are not null, in its order.
    fn pointers(&self, travel: &mut dyn Travel, array: Range<u64>) -> Result<Vec<u64>> {
        let count = ((array.end - array.start) / self.word_bytes()).min(MAX_TASKS as u64);
        let mut pointers = words(travel, array.start, self.word_bytes(), count as usize)?;
        pointers.retain(|&pointer| pointer != 0);
        Ok(pointers)
    }

    fn is_scheduling(&self, travel: &mut dyn Travel) -> Result<bool> {
        let Some(running) = &self.kernel.running else { return Ok(true) };
        let read = travel.read(running.start, (running.end - running.start) as usize)?;
        Ok(read.iter().any(|&byte| byte != 0))
    }

    fn pointer(&self, travel: &mut dyn Travel, address: u64) -> Result<Option<u64>> {
        words(travel, address, self.word_bytes(), 1).map(|words| words.first().copied())
    }

    fn name(&self, travel: &mut dyn Travel, tcb: u64) -> Result<String> {
        let Some(name) = &self.kernel.name else { return Ok(self.variable(tcb)) };
        let (start, bytes) = match self.pointer(travel, tcb.wrapping_add(name.at.start))? {
            Some(text) if name.is_pointer => (text, MAX_NAME_BYTES),
            _ => (tcb.wrapping_add(name.at.start), (name.at.end - name.at.start).min(MAX_NAME_BYTES)),
        };
        let bytes = travel.read(start, bytes as usize)?;
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        if length == 0 {
            return Ok(self.variable(tcb));
        }
        Ok(String::from_utf8_lossy(&bytes[..length]).replace(char::is_control, "?"))
    }

    /// Name of the variable that holds a control block; empty: none does.
    fn variable(&self, tcb: u64) -> String {
        let holder = self.variables.iter().find(|(at, _)| at.contains(&tcb));
        holder.map_or_else(String::new, |(at, name)| trace_patterns::place_in(name, at.start, tcb))
    }

    /// Stack pointer that the kernel has saved for a task; None: it has saved none.
    fn saved_sp(&self, travel: &mut dyn Travel, tcb: u64) -> Result<Option<u64>> {
        let Some(offset) = self.kernel.saved_sp else { return Ok(None) };
        Ok(self.pointer(travel, tcb.wrapping_add(offset))?.filter(|&sp| sp != 0))
    }

    /// Registers of a waiting task, completed by those that all tasks share. Its saved registers are on the process
    /// stack, so that its stack pointer is the psp; the main stack belongs to the handlers. GDB's unwinder for
    /// Cortex-M reads both first.
    fn with_shared(&self, mut saved: Vec<(String, Vec<u8>)>, now: &[Register]) -> Vec<(String, Vec<u8>)> {
        let value = |name: &str| now.iter().find(|register| register.name == name).map(|register| &register.bytes);
        let Some(sp) = saved.iter().find(|(name, _)| name == "sp").map(|(_, sp)| sp.clone()) else { return saved };
        if !self.is_arm {
            for name in ["zero", "gp", "tp"] {
                if let Some(value) = value(name)
                    && saved.iter().all(|(kept, _)| kept != name)
                {
                    saved.push((name.to_owned(), value.clone()));
                }
            }
            return saved;
        }
        for register in now {
            // With TrustZone there are two registers of each kind, one of which has the plain name.
            let is_process = register.name.starts_with("psp") && Some(&register.bytes) == value("psp");
            if register.name.starts_with("msp") || register.name.starts_with("psp") {
                let bytes = if is_process { sp.clone() } else { register.bytes.clone() };
                saved.push((register.name.clone(), bytes));
            }
        }
        saved
    }

    /// Registers that the kernel has saved for a waiting task.
    ///
    /// # Errors
    /// Errors of the run.
    pub fn registers(&self, travel: &mut dyn Travel, tcb: u64) -> Result<Vec<(String, u64)>> {
        let Some(sp) = self.saved_sp(travel, tcb)? else { return Ok(Vec::new()) };
        match &self.tasks.saved {
            Saved::Unknown => Ok(Vec::new()),
            Saved::Ports(ports) => arm(travel, ports, sp),
            Saved::TrapFrame => riscv(travel, sp, self.word_bytes()),
            Saved::Frame(places) => self.in_frame(travel, places, sp),
            Saved::Frames(frames) => {
                let kind = self.pointer(travel, sp)?;
                let places = frames.iter().find(|(of, _)| kind == Some(*of)).map_or(&[][..], |(_, places)| places);
                self.in_frame(travel, places, sp)
            }
            Saved::Block(block) => self.in_block(travel, block, tcb, sp),
        }
    }

    /// Registers that the kernel has saved in a frame on a task's stack.
    fn in_frame(
        &self,
        travel: &mut dyn Travel,
        places: &[(&'static str, InFrame)],
        sp: u64,
    ) -> Result<Vec<(String, u64)>> {
        let mut registers = Vec::new();
        for &(name, place) in places {
            let value = match place {
                InFrame::At(offset) => self.pointer(travel, sp.wrapping_add(offset))?,
                InFrame::End(offset) => Some(sp.wrapping_add(offset)),
            };
            let Some(value) = value else { return Ok(Vec::new()) };
            // The Thumb bit does not belong to the address.
            let is_thumb = self.is_arm && name == "pc";
            registers.push((name.to_owned(), if is_thumb { value & !1 } else { value }));
        }
        Ok(registers)
    }

    /// Registers that the kernel has saved in a task's control block, and the processor on its stack.
    fn in_block(&self, travel: &mut dyn Travel, block: &Block, tcb: u64, sp: u64) -> Result<Vec<(String, u64)>> {
        let mut registers = Vec::new();
        for &(name, offset) in &block.registers {
            let Some(value) = self.pointer(travel, tcb.wrapping_add(offset))? else { return Ok(Vec::new()) };
            registers.push((name.to_owned(), value));
        }
        if registers.iter().any(|(name, _)| name == "pc") {
            return Ok(registers);
        }
        let is_extended = match block.extended {
            Some(extended) => {
                let byte = travel.read(tcb.wrapping_add(extended.offset), 1)?;
                byte.first().is_some_and(|byte| (byte & extended.mask != 0) == extended.is_set)
            }
            None => false,
        };
        let Some(frame) = frame(travel, sp, is_extended)? else { return Ok(Vec::new()) };
        registers.retain(|(name, _)| name != "sp");
        registers.extend(frame.registers);
        Ok(registers)
    }
}

impl Thread {
    /// The task's saved registers in the guest's byte order, with their widths; `word_bytes` is a pointer's width.
    pub fn saved(&self, word_bytes: usize) -> Vec<(String, Vec<u8>)> {
        let wide = |name: &str| name.strip_prefix('d').is_some_and(|number| number.parse::<u32>().is_ok());
        let bytes = |name: &str| if wide(name) { 8 } else { word_bytes };
        let registers = self.registers.iter();
        registers.map(|(name, value)| (name.clone(), value.to_le_bytes()[..bytes(name)].to_vec())).collect()
    }
}

impl thread::Threads for Threads {
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<thread::Thread>> {
        let word = self.word_bytes() as usize;
        let tasks = Threads::list(self, travel)?;
        let now = if tasks.iter().all(|task| task.registers.is_empty()) { Vec::new() } else { travel.registers()? };
        let tasks = tasks.into_iter().filter_map(|task| {
            // GDB's thread numbers have 31 bits.
            let id = NonZeroUsize::new((task.id & 0x7fff_ffff) as usize)?;
            let runs = task.state == State::Running;
            let state = state_name(task.state).to_owned();
            let saved = (!runs).then(|| self.with_shared(task.saved(word), &now));
            Some(thread::Thread { id, name: task.name, state, saved })
        });
        let mut tasks: Vec<thread::Thread> = tasks.collect();
        // The scheduler does not run yet, or executes its own code.
        if tasks.first().is_none_or(|first| first.saved.is_some()) {
            tasks.insert(0, Processor::thread());
        }
        Ok(tasks)
    }

    fn current(&self) -> Option<Range<u64>> {
        let current = self.kernel.current.start;
        Some(current..current + self.word_bytes())
    }
}

/// Words of memory, as many as can be read.
fn words(travel: &mut dyn Travel, address: u64, word_bytes: u64, count: usize) -> Result<Vec<u64>> {
    let bytes = travel.read(address, count * word_bytes as usize)?;
    Ok(bytes.chunks_exact(word_bytes as usize).map(little_endian).collect())
}

/// Values of a Cortex-M's `lr` in a handler that interrupted a task: with a secure stack or without one.
const EXC_RETURN: [u64; 4] = [0xffff_fffd, 0xffff_ffed, 0xffff_ffbc, 0xffff_ffac];

/// Size of a Cortex-M's word.
const ARM_WORD: u64 = 4;

/// Registers saved by one of a kernel's ports for Cortex-M, and above them the hardware's. The position of the handler's
/// `lr` identifies the port.
fn arm(travel: &mut dyn Travel, ports: &[ArmPort], sp: u64) -> Result<Vec<(String, u64)>> {
    for port in ports {
        let mut saved = words(travel, sp, ARM_WORD, port.words)?;
        let lr = port.lr.and_then(|index| saved.get(index)).copied();
        if port.lr.is_some() && !lr.is_some_and(|lr| EXC_RETURN.contains(&lr)) {
            continue;
        }
        let has_fpu = lr.is_some_and(|lr| lr & 0x10 == 0);
        let high_words = if has_fpu { 16 } else { 0 };
        saved = words(travel, sp, ARM_WORD, port.words + high_words)?;
        if saved.len() < port.words + high_words {
            continue;
        }
        let high: Vec<u64> = saved.drain(port.float..port.float + high_words).collect();
        let Some(frame) = frame(travel, sp + (port.words + high_words) as u64 * ARM_WORD, has_fpu)? else { continue };
        let mut registers = frame.registers;
        registers.extend((4..).zip(port.kept).map(|(number, index)| (format!("r{number}"), saved[index])));
        if has_fpu {
            let both: Vec<u64> = frame.low.iter().chain(&high).copied().collect();
            for (number, pair) in both.as_chunks::<2>().0.iter().enumerate() {
                registers.push((format!("d{number}"), pair[0] | pair[1] << 32));
            }
        }
        return Ok(registers);
    }
    Ok(Vec::new())
}

/// Registers that a Cortex-M saves as an exception interrupts a task.
struct Frame {
    registers: Vec<(String, u64)>,
    /// s0 to s15, if the task had floating-point registers.
    low: Vec<u64>,
}

/// Reads a Cortex-M's frame. None: there is none.
fn frame(travel: &mut dyn Travel, at: u64, is_extended: bool) -> Result<Option<Frame>> {
    let frame = words(travel, at, ARM_WORD, if is_extended { 26 } else { 8 })?;
    let &[r0, r1, r2, r3, r12, lr, pc, xpsr, ref rest @ ..] = &frame[..] else { return Ok(None) };
    // The Thumb bit is set, and no exception is active.
    if xpsr & 0x0100_01ff != 0x0100_0000 {
        return Ok(None);
    }
    // Bit 9: a word of padding aligns the frame.
    let sp = at + frame.len() as u64 * ARM_WORD + if xpsr & 0x200 == 0 { 0 } else { ARM_WORD };
    let named = [
        ("r0", r0),
        ("r1", r1),
        ("r2", r2),
        ("r3", r3),
        ("r12", r12),
        ("sp", sp),
        ("lr", lr),
        ("pc", pc & !1),
        ("xpsr", xpsr & !0x200),
    ];
    let mut registers: Vec<(String, u64)> = named.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let low = match rest {
        [low @ .., fpscr, _] => {
            registers.push(("fpscr".to_owned(), *fpscr));
            low.to_vec()
        }
        _ => Vec::new(),
    };
    Ok(Some(Frame { registers, low }))
}

/// Names of x5 to x31 in QEMU.
const RISCV: [&str; 27] = [
    "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7",
    "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// Field of mstatus for machine mode before the trap.
const MPP_MACHINE: u64 = 0x1800;

/// Registers saved by FreeRTOS's port for RISC-V: mepc, x1, x5 and following, the depth of critical sections,
/// mstatus.
fn riscv(travel: &mut dyn Travel, sp: u64, word_bytes: u64) -> Result<Vec<(String, u64)>> {
    let saved = words(travel, sp, word_bytes, 31)?;
    let is_mstatus = |index: usize| saved.get(index).is_some_and(|word| word & 0x1fff == (word & 0x88) | MPP_MACHINE);
    // Frames with all registers; before V10.5 without the depth; of RV32E.
    let (count, last) = if is_mstatus(30) {
        (31, 28)
    } else if is_mstatus(29) {
        (30, 28)
    } else if is_mstatus(14) {
        (15, 12)
    } else {
        return Ok(Vec::new());
    };
    let mut registers = vec![("ra".to_owned(), saved[1]), ("sp".to_owned(), sp + count * word_bytes)];
    registers.extend(RISCV.iter().zip(&saved[2..=last]).map(|(name, &value)| ((*name).to_owned(), value)));
    registers.push(("pc".to_owned(), saved[0]));
    Ok(registers)
}

/// Word for a task's state.
pub(super) fn state_name(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Ready => "ready",
        State::Blocked => "blocked",
        State::Suspended => "suspended",
        State::Deleted => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::fake::{Fake, kernel};
    use crate::image::kernel::freertos;

    const RAM: u64 = 0x2000_0000;

    /// Lists of ready, delayed and suspended tasks, in the layout of a 32-bit kernel.
    fn threads() -> Threads {
        let lists = vec![(RAM + 0x100, State::Ready), (RAM + 0x120, State::Blocked), (RAM + 0x140, State::Suspended)];
        let lists = Lists {
            current: RAM,
            cores: 1,
            pointer_bytes: 4,
            lists,
            end: 8,
            next: 4,
            owner: 12,
            container: 16,
            item_bytes: 20,
        };
        let saved = Saved::Ports(&freertos::ARM_PORTS);
        let tasks = Tasks { listing: Listing::Lists(lists), saved };
        Threads { kernel: kernel(), tasks, variables: Vec::new(), is_arm: true }
    }

    fn on_riscv() -> Threads {
        let threads = threads();
        Threads { tasks: Tasks { saved: Saved::TrapFrame, ..threads.tasks }, is_arm: false, ..threads }
    }

    /// Puts tasks into a list.
    fn list(mut run: Fake, list: u64, tcbs: &[u64]) -> Fake {
        let (end, items) = (list + 8, tcbs.iter().map(|tcb| tcb + 4));
        let chain: Vec<u64> = std::iter::once(end).chain(items).chain([end]).collect();
        for pair in chain.windows(2) {
            run = run.holding(pair[0] + 4, pair[1] as u32);
        }
        for &tcb in tcbs {
            run = run.holding(tcb + 4 + 12, tcb as u32).holding(tcb + 4 + 16, list as u32);
            // Its other item, for a task that waits for no event.
            run = run.holding(tcb + 24 + 12, tcb as u32).holding(tcb + 24 + 16, 0);
        }
        run
    }

    fn named(mut run: Fake, tcb: u64, name: &str, sp: u64) -> Fake {
        run.memory.extend((tcb + 0x40..).zip(name.bytes().chain([0; 8])));
        run.holding(tcb, sp as u32)
    }

    fn words(mut run: Fake, address: u64, words: &[u32]) -> Fake {
        for (index, &word) in words.iter().enumerate() {
            run = run.holding(address + 4 * index as u64, word);
        }
        run
    }

    const FRAME: [u32; 8] = [0x10, 0x11, 0x12, 0x13, 0x1c, 0x1e, 0x400, 0x0100_0000];

    fn made() -> Fake {
        let [one, two, three, four] = [0x1000, 0x2000, 0x3000, 0x4000].map(|offset| RAM + offset);
        let mut run = Fake::of(&[0x40]).holding(RAM, one as u32).holding(RAM + 4, 1);
        for (tcb, name) in [(one, "one"), (two, "two"), (three, "three"), (four, "four")] {
            run = named(run, tcb, name, 0);
        }
        run = list(list(run, RAM + 0x100, &[two, one]), RAM + 0x120, &[]);
        // The last task waits for an event without a limit.
        list(run, RAM + 0x140, &[three, four]).holding(four + 24 + 16, 0x2000_0180)
    }

    #[test]
    fn tasks_have_the_state_of_the_list_that_they_are_in() {
        let mut run = made();
        let list = threads().list(&mut run).unwrap();
        let states: Vec<(&str, State)> = list.iter().map(|thread| (&*thread.name, thread.state)).collect();
        assert_eq!(
            states,
            [("one", State::Running), ("two", State::Ready), ("three", State::Suspended), ("four", State::Blocked)]
        );
        assert_eq!(list[1].id, RAM + 0x2000);
        // Before the scheduler runs the first task is ready, too.
        let list = threads().list(&mut run.holding(RAM + 4, 0)).unwrap();
        assert!(list.len() == 4 && list.iter().all(|thread| thread.state != State::Running), "{list:?}");
    }

    #[test]
    fn a_list_that_leads_round_or_nowhere_ends() {
        let two = RAM + 0x2000;
        let mut round = made().holding(two + 8, two as u32 + 4);
        assert_eq!(threads().list(&mut round).unwrap().len(), 4);
        let mut nowhere = made().holding(two + 8, 0x9000_0000);
        assert_eq!(threads().list(&mut nowhere).unwrap().len(), 4);
        assert_eq!(threads().list(&mut Fake::of(&[0x40])).unwrap(), []);
    }

    fn saved(run: Fake, sp: u64) -> Vec<(String, u64)> {
        threads().registers(&mut named(run, RAM + 0x2000, "two", sp), RAM + 0x2000).unwrap()
    }

    fn value(registers: &[(String, u64)], name: &str) -> Option<u64> {
        registers.iter().find(|(of, _)| of == name).map(|&(_, value)| value)
    }

    #[test]
    fn each_port_for_cortex_m_is_known_by_what_it_saves() {
        let kept: Vec<u32> = (4..12).collect();
        let sp = RAM + 0x8000;
        let frame = FRAME.as_slice();
        for (what, before, after) in [
            ("ARM_CM3", vec![], vec![]),
            ("ARM_CM4F", vec![], vec![0xffff_fffd]),
            ("ARM_CM33_NTZ", vec![RAM as u32, 0xffff_ffbc], vec![]),
            ("ARM_CM33", vec![0, RAM as u32, 0xffff_fffd], vec![]),
            ("ARM_CM0", vec![0xffff_fffd], vec![]),
        ] {
            let all = [&before[..], &kept, &after, frame].concat();
            let registers = saved(words(Fake::of(&[0x40]), sp, &all), sp);
            for (name, expected) in
                [("r0", 0x10), ("r3", 0x13), ("r4", 4), ("r11", 11), ("r12", 0x1c), ("lr", 0x1e), ("pc", 0x400)]
            {
                assert_eq!(value(&registers, name), Some(expected), "{what}: {name} {registers:x?}");
            }
            assert_eq!(value(&registers, "sp"), Some(sp + 4 * all.len() as u64), "{what}");
            assert_eq!(registers.len(), 17, "{what}");
        }
        // A frame with padding, and an invalid frame.
        let aligned = [&kept[..], &frame[..7], &[0x0100_0200]].concat();
        assert_eq!(value(&saved(words(Fake::of(&[0x40]), sp, &aligned), sp), "sp"), Some(sp + 68));
        assert_eq!(saved(words(Fake::of(&[0x40]), sp, &[0; 40]), sp), []);
        assert_eq!(saved(Fake::of(&[0x40]), sp), []);
    }

    #[test]
    fn a_task_that_used_the_fpu_has_its_registers() {
        let sp = RAM + 0x8000;
        let kept: Vec<u32> = (4..12).chain([0xffff_ffed]).collect();
        let (high, low): (Vec<u32>, Vec<u32>) = ((0x116..0x126).collect(), (0x100..0x110).collect());
        let all = [&kept[..], &high, &FRAME, &low, &[0x5, 0]].concat();
        let registers = saved(words(Fake::of(&[0x40]), sp, &all), sp);
        let thread = Thread { id: 1, name: String::new(), state: State::Ready, registers: registers.clone() };
        let bytes = thread.saved(4);
        assert_eq!(bytes[0], ("r0".to_owned(), vec![0x10, 0, 0, 0]));
        assert!(bytes.contains(&("d0".to_owned(), vec![0, 1, 0, 0, 1, 1, 0, 0])), "{bytes:?}");
        assert_eq!(value(&registers, "d0"), Some(0x101_0000_0100));
        assert_eq!(value(&registers, "d7"), Some(0x10f_0000_010e));
        assert_eq!(value(&registers, "d8"), Some(0x117_0000_0116));
        assert_eq!(value(&registers, "fpscr"), Some(5));
        assert_eq!(value(&registers, "sp"), Some(sp + 4 * (9 + 16 + 26)));
    }

    #[test]
    fn a_task_that_waits_has_the_registers_that_all_tasks_share() {
        let sp = RAM + 0x8000;
        let kept: Vec<u32> = (4..12).collect();
        let mut run = words(made(), sp, &[&kept[..], &FRAME].concat()).holding(RAM + 0x2000, sp as u32);
        let banks =
            [("msp", 0x2000_f000), ("psp", 0x2000_e000), ("psp_ns", 0x2000_e000), ("psp_s", 0), ("control", 2)];
        run.insns[0].registers.extend(banks);
        let value = |threads: &[thread::Thread], index: usize, name: &str| {
            let saved = threads[index].saved.as_ref().unwrap();
            let bytes = saved.iter().find(|(of, _)| of == name).map(|(_, bytes)| little_endian(bytes));
            assert!(saved.iter().filter(|(of, _)| of == name).count() < 2, "{name}");
            bytes
        };
        let listed = thread::Threads::list(&mut threads(), &mut run).unwrap();
        assert_eq!(listed[0].saved, None, "the running one's are the processor's");
        let top = sp + 64;
        for (name, expected) in [
            ("sp", Some(top)),
            ("psp", Some(top)),
            ("psp_ns", Some(top)),
            ("psp_s", Some(0)),
            ("msp", Some(0x2000_f000)),
            // The processor's control register is not the task's.
            ("control", None),
        ] {
            assert_eq!(value(&listed, 1, name), expected, "{name}");
        }
        assert_eq!(listed[2].saved, Some(Vec::new()), "of one whose registers cannot be found nothing is known");

        let mut saved: Vec<u32> = (0..29).collect();
        saved.extend([0, 0x1880]);
        let mut run = words(made(), sp, &saved).holding(RAM + 0x2000, sp as u32);
        run.insns[0].registers.extend([("zero", 0), ("gp", 0x8000_0800), ("tp", 0), ("mcause", 7)]);
        let mut threads = on_riscv();
        let listed = thread::Threads::list(&mut threads, &mut run).unwrap();
        assert_eq!(value(&listed, 1, "gp"), Some(0x8000_0800));
        assert_eq!((value(&listed, 1, "zero"), value(&listed, 1, "mcause")), (Some(0), None));
    }

    #[test]
    fn the_ports_for_riscv_are_known_by_where_mstatus_is() {
        let sp = RAM + 0x8000;
        let mut all: Vec<u32> = (0..29).collect();
        all[0] = 0x8000_0100;
        let threads = on_riscv();
        let registers = |tail: &[u32], count: usize| {
            let saved = [&all[..count], tail].concat();
            let run = words(Fake::of(&[0x40]), sp, &saved);
            threads.registers(&mut named(run, RAM + 0x2000, "two", sp), RAM + 0x2000).unwrap()
        };
        for (tail, bytes) in [(&[0, 0x1880][..], 31 * 4), (&[0x7880, 0][..], 30 * 4)] {
            let registers = registers(tail, 29);
            assert_eq!(value(&registers, "pc"), Some(0x8000_0100));
            assert_eq!(value(&registers, "ra"), Some(1));
            assert_eq!(value(&registers, "t0"), Some(2));
            assert_eq!(value(&registers, "a0"), Some(7));
            assert_eq!(value(&registers, "t6"), Some(28));
            assert_eq!(value(&registers, "sp"), Some(sp + bytes));
        }
        let small = registers(&[0, 0x1880], 13);
        assert_eq!((value(&small, "a5"), value(&small, "s2"), value(&small, "sp")), (Some(12), None, Some(sp + 60)));
        assert_eq!(registers(&[0, 0], 29), []);
    }

    /// Threads that have their state in a member, as RIOT, ThreadX and NuttX have them.
    fn in_blocks(source: Source, saved: Saved) -> Threads {
        let state = |value, state| timeline::StateValue { mask: u64::MAX, value, state };
        let states = timeline::States {
            state: 8..12,
            values: vec![state(0, timeline::State::Ready), state(3, timeline::State::Suspended)],
            object: None,
            time_limit: None,
            known: Vec::new(),
            kinds: Vec::new(),
        };
        let blocks = Blocks { pointer_bytes: 4, source, states };
        let mut kernel = kernel();
        (kernel.running, kernel.name) = (None, None);
        let variables = vec![(RAM + 0x2000..RAM + 0x2400, "stack".to_owned())];
        Threads { kernel, tasks: Tasks { listing: Listing::Blocks(blocks), saved }, variables, is_arm: false }
    }

    /// A thread that runs, and two that wait, of which one is in the variable.
    fn with_blocks() -> (Fake, [u64; 3]) {
        let tcbs = [RAM + 0x1000, RAM + 0x2100, RAM + 0x3000];
        let mut run = Fake::of(&[0x40]).holding(RAM, tcbs[0] as u32);
        for (tcb, state) in tcbs.into_iter().zip([0, 3, 0]) {
            run = run.holding(tcb, 0x2000_8000).holding(tcb + 8, state);
        }
        (run, tcbs)
    }

    #[test]
    fn control_blocks_are_found_by_arrays_of_pointers_with_gaps() {
        let array = RAM + 0x200;
        for source in [
            Source::Array(array..array + 16),
            Source::AllocatedArray { start: RAM + 0x300, count: RAM + 0x304 },
            Source::Variables(with_blocks().1.to_vec()),
        ] {
            let (mut run, tcbs) = with_blocks();
            for (index, pointer) in [0, tcbs[1], tcbs[0], tcbs[2]].into_iter().enumerate() {
                run = run.holding(array + 4 * index as u64, pointer as u32);
            }
            let mut run = run.holding(RAM + 0x300, array as u32).holding(RAM + 0x304, 4);
            let list = in_blocks(source.clone(), Saved::Unknown).list(&mut run).unwrap();
            let states: Vec<(u64, &str, State)> =
                list.iter().map(|thread| (thread.id, &*thread.name, thread.state)).collect();
            let expected = [
                (tcbs[0], "", State::Running),
                // A block without a name has that of its place.
                (tcbs[1], "stack+0x100", State::Suspended),
                (tcbs[2], "", State::Ready),
            ];
            assert_eq!(states, expected, "{source:?}");
        }
    }

    #[test]
    fn an_array_that_is_damaged_ends() {
        for (start, count) in [(0, 4), (u32::MAX, u32::MAX), (RAM as u32 + 0x200, u32::MAX)] {
            let mut run = with_blocks().0.holding(RAM + 0x300, start).holding(RAM + 0x304, count);
            let source = Source::AllocatedArray { start: RAM + 0x300, count: RAM + 0x304 };
            let list = in_blocks(source, Saved::Unknown).list(&mut run).unwrap();
            assert_eq!(list.len(), 1, "{start:#x} {count}");
        }
    }

    #[test]
    fn registers_are_where_a_frame_or_the_frame_of_its_kind_has_them() {
        let sp = RAM + 0x8000;
        let frame = vec![("pc", InFrame::At(4)), ("sp", InFrame::End(16))];
        let other = vec![("pc", InFrame::At(8)), ("sp", InFrame::End(32))];
        let frames = Saved::Frames(vec![(0, frame.clone()), (1, other)]);
        for (saved, kind, expected) in [
            (Saved::Frame(frame.clone()), 7, vec![("pc", 0x100), ("sp", sp + 16)]),
            (frames.clone(), 0, vec![("pc", 0x100), ("sp", sp + 16)]),
            (frames.clone(), 1, vec![("pc", 0x200), ("sp", sp + 32)]),
            (frames, 2, Vec::new()),
        ] {
            let (run, tcbs) = with_blocks();
            let mut run = words(run, sp, &[kind, 0x100, 0x200]);
            let registers = in_blocks(Source::Variables(Vec::new()), saved).registers(&mut run, tcbs[1]).unwrap();
            let found: Vec<(&str, u64)> = registers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            assert_eq!(found, expected, "{kind}");
        }
        // Nothing is known of a thread whose frame cannot be read.
        let nowhere = vec![("pc", InFrame::At(u64::MAX - sp - 64))];
        let (mut run, tcbs) = with_blocks();
        let threads = in_blocks(Source::Variables(Vec::new()), Saved::Frame(nowhere));
        assert_eq!(threads.registers(&mut run, tcbs[1]).unwrap(), []);
    }
}
