//! The firmware's tasks at the instruction where the run is held: what a debugger shows as threads.
//!
//! All of it is read from the kernel's own variables and from the stacks of the tasks that wait. A kernel that is in the
//! middle of changing a list may show a task in none, or in two: it is then shown once, or as ready.

use std::collections::BTreeSet;

use anyhow::Result;
use wire::request::Kernel;

use crate::debug::find::little_endian;
use crate::debug::travel::Travel;
use crate::image::kernel::freertos;
pub use crate::image::kernel::freertos::lists::{Lists, State};

/// A task of the firmware's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Address of its control block.
    pub id: u64,
    /// Its name; empty where none could be read.
    pub name: String,
    /// What it does.
    pub state: State,
    /// Where it goes on: registers by QEMU's names, as far as the kernel has saved them. Empty: it runs, or how the
    /// kernel saves them is not known.
    pub registers: Vec<(String, u64)>,
}

/// What is known of a firmware's kernel.
#[derive(Clone, Debug)]
pub struct Threads {
    kernel: Kernel,
    lists: Lists,
    is_arm: bool,
}

/// Most tasks that are believed.
const MAX_TASKS: usize = 4096;

/// Longest name of a task that is read.
const MAX_NAME_BYTES: u64 = 256;

impl Threads {
    /// The tasks of an image's kernel; None: it has none whose lists are known.
    pub fn new(kernel: Option<&Kernel>, elf: Option<&[u8]>, load_bias: u64, is_arm: bool) -> Option<Threads> {
        let lists = freertos::find_lists(elf, load_bias, is_arm)?;
        Some(Threads { kernel: kernel?.clone(), lists, is_arm })
    }

    /// All tasks that there are now: the running ones first, then as the lists have them.
    ///
    /// # Errors
    /// What the run reports.
    pub fn list(&self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let word = self.lists.pointer_bytes;
        let mut seen = BTreeSet::new();
        let mut threads = Vec::new();
        for core in 0..u64::from(self.lists.cores) {
            let tcb = self.pointer(travel, self.lists.current + core * word)?.unwrap_or(0);
            // Before the scheduler runs none of them does, but is in its list already.
            if tcb != 0 && self.is_scheduling(travel)? && seen.insert(tcb) {
                let name = self.name(travel, tcb)?;
                threads.push(Thread { id: tcb, name, state: State::Running, registers: Vec::new() });
            }
        }
        for &(list, state) in &self.lists.lists {
            let end = list + self.lists.end;
            let mut item = self.pointer(travel, end + self.lists.next)?;
            // A list that is not in order may lead round for ever.
            for _ in 0..MAX_TASKS {
                let Some(at) = item.filter(|&at| at != end && at != 0) else { break };
                let Some(tcb) = self.pointer(travel, at + self.lists.owner)?.filter(|&tcb| tcb != 0) else { break };
                if seen.insert(tcb) {
                    let state = self.state(travel, state, list, (at, tcb))?;
                    let (name, registers) = (self.name(travel, tcb)?, self.registers(travel, tcb)?);
                    threads.push(Thread { id: tcb, name, state, registers });
                }
                item = self.pointer(travel, at + self.lists.next)?;
            }
        }
        Ok(threads)
    }

    /// The state of a task in a list. What waits without a time limit is kept with what was suspended.
    fn state(&self, travel: &mut dyn Travel, state: State, list: u64, (item, tcb): (u64, u64)) -> Result<State> {
        let is_own_item = self.pointer(travel, item + self.lists.container)? == Some(list);
        let event = item + self.lists.item_bytes;
        if state != State::Suspended || !is_own_item || self.pointer(travel, event + self.lists.owner)? != Some(tcb) {
            return Ok(state);
        }
        let waits_for = self.pointer(travel, event + self.lists.container)?;
        Ok(if waits_for.is_some_and(|container| container != 0) { State::Blocked } else { state })
    }

    fn is_scheduling(&self, travel: &mut dyn Travel) -> Result<bool> {
        let Some(running) = &self.kernel.running else { return Ok(true) };
        let read = travel.read(running.start, (running.end - running.start) as usize)?;
        Ok(read.iter().any(|&byte| byte != 0))
    }

    fn pointer(&self, travel: &mut dyn Travel, address: u64) -> Result<Option<u64>> {
        words(travel, address, self.lists.pointer_bytes, 1).map(|words| words.first().copied())
    }

    fn name(&self, travel: &mut dyn Travel, tcb: u64) -> Result<String> {
        let Some(name) = &self.kernel.name else { return Ok(String::new()) };
        let bytes = travel.read(tcb + name.start, (name.end - name.start).min(MAX_NAME_BYTES) as usize)?;
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..length]).replace(char::is_control, "?"))
    }

    /// The registers that the kernel has saved of a task that waits.
    ///
    /// # Errors
    /// What the run reports.
    pub fn registers(&self, travel: &mut dyn Travel, tcb: u64) -> Result<Vec<(String, u64)>> {
        let Some(offset) = self.kernel.saved_sp else { return Ok(Vec::new()) };
        let Some(sp) = self.pointer(travel, tcb + offset)?.filter(|&sp| sp != 0) else { return Ok(Vec::new()) };
        if self.is_arm { arm(travel, sp) } else { riscv(travel, sp, self.lists.pointer_bytes) }
    }
}

/// Words of memory, as many as can be read.
fn words(travel: &mut dyn Travel, address: u64, word_bytes: u64, count: usize) -> Result<Vec<u64>> {
    let bytes = travel.read(address, count * word_bytes as usize)?;
    Ok(bytes.chunks_exact(word_bytes as usize).map(little_endian).collect())
}

/// What FreeRTOS's ports for Cortex-M save of a task along with r4 to r11: words in all, where r4 is, and where the
/// handler's `lr` is.
const ARM_PORTS: [(u64, usize, Option<usize>); 5] = [
    // ARM_CM4F, ARM_CM7.
    (9, 0, Some(8)),
    // Those of Armv8-M without TrustZone: the stack's limit, lr.
    (10, 2, Some(1)),
    // With it: the secure context before those.
    (11, 3, Some(2)),
    // ARM_CM0 since V11.
    (9, 1, Some(0)),
    // ARM_CM3, and ARM_CM0 before.
    (8, 0, None),
];

/// What a Cortex-M's `lr` is in a handler that interrupted a task: with a secure stack or without one.
const EXC_RETURN: [u64; 4] = [0xffff_fffd, 0xffff_ffed, 0xffff_ffbc, 0xffff_ffac];

/// The registers that FreeRTOS's ports for Cortex-M save, and above them the hardware's. Which port it is shows by
/// where the handler's `lr` is.
fn arm(travel: &mut dyn Travel, sp: u64) -> Result<Vec<(String, u64)>> {
    const WORD: u64 = 4;
    let saved = words(travel, sp, WORD, 11)?;
    for (count, first, at_lr) in ARM_PORTS {
        let lr = at_lr.and_then(|index| saved.get(index)).copied();
        let Some(kept) = saved.get(first..first + 8) else { continue };
        if at_lr.is_some() && !lr.is_some_and(|lr| EXC_RETURN.contains(&lr)) {
            continue;
        }
        let has_fpu = lr.is_some_and(|lr| lr & 0x10 == 0);
        let high = words(travel, sp + count * WORD, WORD, if has_fpu { 16 } else { 0 })?;
        let at = sp + (count + high.len() as u64) * WORD;
        let frame = words(travel, at, WORD, if has_fpu { 26 } else { 8 })?;
        let &[r0, r1, r2, r3, r12, lr, pc, xpsr, ref low @ ..] = &frame[..] else { continue };
        // Thumb, and in no exception.
        if xpsr & 0x0100_01ff != 0x0100_0000 {
            continue;
        }
        let mut registers = Vec::new();
        let mut name = |name: &str, value: u64| registers.push((name.to_owned(), value));
        for (number, &value) in (0..).zip([r0, r1, r2, r3].iter().chain(kept)) {
            name(&format!("r{number}"), value);
        }
        name("r12", r12);
        // Bit 9: a word was put in between to align the frame.
        name("sp", at + frame.len() as u64 * WORD + if xpsr & 0x200 == 0 { 0 } else { WORD });
        name("lr", lr);
        name("pc", pc & !1);
        name("xpsr", xpsr & !0x200);
        if let ([low @ .., fpscr, _], 16) = (low, high.len()) {
            let both: Vec<u64> = low.iter().chain(&high).copied().collect();
            for (number, pair) in both.as_chunks::<2>().0.iter().enumerate() {
                name(&format!("d{number}"), pair[0] | pair[1] << 32);
            }
            name("fpscr", *fpscr);
        }
        return Ok(registers);
    }
    Ok(Vec::new())
}

/// Names of x5 to x31, as QEMU has them.
const RISCV: [&str; 27] = [
    "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7",
    "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// Machine mode before the trap, in mstatus.
const MPP_MACHINE: u64 = 0x1800;

/// The registers that FreeRTOS's port for RISC-V saves: mepc, x1, x5 and on, the depth of critical sections, mstatus.
fn riscv(travel: &mut dyn Travel, sp: u64, word_bytes: u64) -> Result<Vec<(String, u64)>> {
    let saved = words(travel, sp, word_bytes, 31)?;
    let is_mstatus = |index: usize| saved.get(index).is_some_and(|word| word & 0x1fff == (word & 0x88) | MPP_MACHINE);
    // All registers, and before V10.5 without the depth; RV32E's.
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
