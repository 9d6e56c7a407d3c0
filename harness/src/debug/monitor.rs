// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of GDB's `monitor`: report the position, and go to a place by its name.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use decode::Isa;
use wire::definition::FrameKind;

use crate::analysis::stacks::{Exceptions, task_names};
use crate::analysis::{describe, owner, time};
use crate::debug::find::{Finder, current_task};
use crate::debug::place::{FORMS, Place};
use crate::debug::threads::{State, Thread, Threads, state_name};
use crate::debug::travel::register;
use crate::debug::travel::{Travel, Vcpus, Why};
use crate::profile::Profile;
use crate::text::number::{Hex, frequency, group, millis, plural, share};

/// Most rows of a list.
const MAX_ROWS: usize = 10;

/// Command for the reason of a refusal; the server answers it itself.
pub(super) const WHY: &str = "why";

/// Command that makes the next step only ask for the position; the server answers it itself.
pub(super) const STAY: &str = "stay";

/// The commands and their output.
const COMMANDS: [(&str, &str); 11] = [
    ("where", "instruction, time, function, task, interrupt"),
    ("goto PLACE", "go to a place, forwards or backwards"),
    ("profile", "samples up to here, by function"),
    ("bins", "samples up to here, by address"),
    ("stack", "the call stack of the last sample up to here"),
    ("task", "the firmware's tasks"),
    ("irq", "the interrupt that executes"),
    ("last-write ADDR|SYMBOL", "the last write before here"),
    (WHY, "why the last move, read or write was refused"),
    (STAY, "make the next step go nowhere, which tells the debugger where the run is"),
    ("help", "this"),
];

/// Answers the commands.
pub struct Monitor<'a> {
    /// Search for places.
    pub finder: Finder<'a>,
    /// The firmware's tasks; None: its kernel is not known.
    pub threads: Option<Threads>,
}

impl Monitor<'_> {
    /// Answers one command; errors are answers, too. The answer ends with a line break. `say` announces slow
    /// operations.
    pub fn monitor(&mut self, travel: &mut dyn Travel, words: &str, say: &mut dyn FnMut(&str)) -> String {
        let words = words.trim();
        let (command, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let answer = self.answer(travel, command, rest.trim(), say);
        let mut said = answer.unwrap_or_else(|error| format!("{error:#}"));
        // The profile's data do not belong to a run that was written to.
        let is_profiles = ["where", "goto", "profile", "bins", "stack"].contains(&command);
        if let (Some(written), true) = (travel.written_at(), is_profiles) {
            let line_end = if said.ends_with('\n') { "" } else { "\n" };
            let _ = write!(
                said,
                "{line_end}the debugger wrote at instruction {}: from there on it is not the profiled run",
                group(written)
            );
        }
        if !said.ends_with('\n') {
            said.push('\n');
        }
        said
    }

    fn answer(
        &mut self,
        travel: &mut dyn Travel,
        command: &str,
        rest: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<String> {
        if !rest.is_empty() && !["goto", "last-write"].contains(&command) && is_command(command) {
            return Ok(format!("{command} takes no argument"));
        }
        match command {
            "where" => self.place(travel),
            "goto" => {
                let place = Place::parse(rest)?;
                let found = self.finder.find(travel, &place, say)?;
                let why = travel.go(found.insn)?.why;
                let note = if why == Why::Interrupted {
                    Some(format!("interrupted on the way to {place}"))
                } else {
                    found.note
                };
                let note = note.map(|note| format!("{note}\n")).unwrap_or_default();
                Ok(note + &self.place(travel)?)
            }
            "profile" => self.profile(travel),
            "bins" => self.bins(travel),
            "stack" => self.stack(travel),
            "task" => self.tasks(travel),
            "irq" => self.interrupt(travel),
            "last-write" => {
                let here = travel.at().insn;
                let range = match rest {
                    "" => return Ok("last-write needs an address (0x…) or a variable".to_owned()),
                    what => self.finder.memory(what)?,
                };
                let found = self.finder.written_before(travel, &range);
                travel.set_watches(&[]);
                let found = found?.map(|found| (found.insn, travel.at().pc));
                travel.go(here)?;
                Ok(match found {
                    Some((insn, pc)) => {
                        let earlier = plural(here - insn, "instruction");
                        let place = describe::place(&self.finder.profile.names, pc);
                        format!("{place}, {}, {earlier} earlier", self.counted(insn))
                    }
                    None => match travel.written_at() {
                        Some(written) => format!(
                            "{rest} was not written since instruction {}, where the debugger wrote; what was before \
                             is another run",
                            group(written)
                        ),
                        None => format!("{rest} was not written before here"),
                    },
                })
            }
            "help" | "" => Ok(help()),
            _ => {
                let names = COMMANDS.map(|(form, _)| form.split(' ').next().unwrap_or(form));
                let near = names.iter().map(|name| (strsim::damerau_levenshtein(command, name), *name)).min();
                Ok(match near {
                    Some((distance, near)) if distance <= near.len() / 2 => {
                        format!("no command is called `{command}`; did you mean `{near}`?")
                    }
                    _ => format!("no command is called `{command}`; there are {}", names.join(", ")),
                })
            }
        }
    }

    /// Text for an instruction: `instruction 17 of the window (insn:17)`.
    fn counted(&self, insn: u64) -> String {
        let facts = &self.finder.profile.facts;
        match insn.checked_sub(facts.before_window_insns) {
            Some(of_window @ 1..) if facts.before_window_insns == 0 => format!("instruction {}", group(of_window)),
            Some(of_window @ 1..) => {
                format!("instruction {} of the window, {} of the run", group(of_window), group(insn))
            }
            _ => format!("instruction {} of the run, before the window", group(insn)),
        }
    }

    fn place(&self, travel: &mut dyn Travel) -> Result<String> {
        let at = travel.at();
        let profile = self.finder.profile;
        let mut text = format!("{}: {}\n", self.counted(at.insn), describe::place(&profile.names, at.pc));
        if profile.vcpus.len() > 1 {
            let Vcpus { executing, insns } = travel.vcpus()?;
            let _ = writeln!(text, "cpu {executing}, its instruction {}", group(insns[executing]));
        }
        if let Some(kernel) = &self.finder.kernel {
            let tcb = current_task(travel, kernel)?;
            let _ = writeln!(text, "task {}", tcb.map_or("none yet".to_owned(), |tcb| task_name(profile, tcb)));
        }
        text += &self.interrupt(travel)?;
        text.push('\n');
        text += &time(profile, at.insn);
        Ok(text)
    }

    /// Samples of the profile up to the current instruction, with their numbers.
    fn samples(&mut self, travel: &mut dyn Travel) -> Result<Vec<(usize, &wire::sample::Sample)>> {
        let profile = self.finder.profile;
        let before = self.finder.before(travel)?;
        let insns = travel.vcpus()?.insns;
        let is_taken = |sample: &wire::sample::Sample| {
            let vcpu = sample.vcpu as usize;
            sample.at_insns <= insns[vcpu].saturating_sub(before[vcpu])
        };
        Ok((1..).zip(&profile.samples).filter(|(_, sample)| is_taken(sample)).collect())
    }

    fn profile(&mut self, travel: &mut dyn Travel) -> Result<String> {
        let profile = self.finder.profile;
        let by_function = |sample: &wire::sample::Sample| owner::Owner::of(profile, sample.pc).to_string();
        self.counts(travel, "function", by_function)
    }

    fn bins(&mut self, travel: &mut dyn Travel) -> Result<String> {
        let profile = self.finder.profile;
        let bin = |sample: &wire::sample::Sample| {
            let start = sample.pc & !(profile.facts.bin_bytes - 1);
            describe::place(&profile.names, start)
        };
        self.counts(travel, "address", bin)
    }

    /// Counts the samples up to the current instruction by a property; the most frequent come first.
    fn counts(
        &mut self,
        travel: &mut dyn Travel,
        what: &str,
        of: impl Fn(&wire::sample::Sample) -> String,
    ) -> Result<String> {
        let samples = self.samples(travel)?;
        let total = samples.len() as u64;
        if total == 0 {
            return Ok("no sample has been taken up to here".to_owned());
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (_, sample) in samples {
            *counts.entry(of(sample)).or_default() += 1;
        }
        let mut rows: Vec<(String, u64)> = counts.into_iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.1));
        let mut text = format!("{} up to here, by {what}\n", plural(total, "sample"));
        for (name, count) in rows.iter().take(MAX_ROWS) {
            let _ = writeln!(text, "{:>8}  {:>10}  {name}", share(*count, total), group(*count));
        }
        if let more @ 1.. = rows.len().saturating_sub(MAX_ROWS) {
            let _ = writeln!(text, "and {more} more");
        }
        Ok(text)
    }

    fn stack(&mut self, travel: &mut dyn Travel) -> Result<String> {
        let profile = self.finder.profile;
        let before = self.finder.before(travel)?;
        let Vcpus { executing, insns } = travel.vcpus()?;
        let samples = self.samples(travel)?;
        let Some((number, sample)) = samples.iter().rfind(|(_, sample)| sample.vcpu as usize == executing) else {
            return Ok("no sample has been taken up to here; use bt".to_owned());
        };
        let ago = insns[executing] - before[executing] - sample.at_insns;
        let when = match ago {
            0 => "here".to_owned(),
            ago => format!("{} ago; bt is the stack here", plural(ago, "instruction")),
        };
        let exceptions = Exceptions::new(profile);
        let mut text = format!("sample:{number}, {when}\n");
        let _ = writeln!(text, "  {}", describe::place(&profile.names, sample.pc));
        for frame in profile.stack(sample.stack).iter().rev() {
            let _ = match frame.kind {
                // The call instruction is before its return address.
                FrameKind::Caller { return_addr } => {
                    let call = (return_addr & !1).saturating_sub(1);
                    writeln!(text, "  {}", describe::place(&profile.names, call))
                }
                FrameKind::Exception { number, handler, pc } => {
                    let name = exceptions.name(number, handler);
                    writeln!(text, "  {name} in {}", describe::place(&profile.names, pc))
                }
                FrameKind::Unknown(why) => writeln!(text, "  {}", crate::analysis::stacks::why(why)),
            };
        }
        Ok(text)
    }

    fn tasks(&self, travel: &mut dyn Travel) -> Result<String> {
        let profile = self.finder.profile;
        let Some(threads) = &self.threads else {
            return Ok("the firmware has no known kernel".to_owned());
        };
        let mut text = String::new();
        for thread in threads.list(travel)? {
            let pc = thread.registers.iter().find(|(name, _)| name == "pc").map(|&(_, pc)| pc);
            let place = match (thread.state, pc) {
                (State::Running, _) => describe::place(&profile.names, travel.at().pc),
                (_, Some(pc)) => describe::place(&profile.names, pc),
                (_, None) => String::new(),
            };
            let _ = writeln!(text, "{:<9}  {:<16}  {place}", state_name(thread.state), shown(profile, &thread));
        }
        Ok(if text.is_empty() { "there is no task yet".to_owned() } else { text })
    }

    fn interrupt(&self, travel: &mut dyn Travel) -> Result<String> {
        let profile = self.finder.profile;
        if profile.facts.isa().is_some_and(Isa::is_avr) {
            let Some(sreg) = register(travel, &["sreg"])? else { return Ok("sreg cannot be read here".to_owned()) };
            // No register says which interrupt's handler executes.
            let text = if sreg & AVR_I == 0 { "held off: a handler, or code that masks them" } else { "allowed" };
            return Ok(format!("interrupts are {text} (I of SREG); bt and monitor stack show the handler"));
        }
        if !profile.facts.is_arm() {
            let [cause, pc] = [register(travel, &["mcause"])?, register(travel, &["mepc"])?];
            let (Some(cause), Some(pc)) = (cause, pc) else { return Ok("mcause cannot be read here".to_owned()) };
            let bits = if profile.facts.isa.starts_with("riscv64") { 64 } else { 32 };
            // The profile numbers causes in the same way: the highest of 64 bits marks interrupts.
            let number = (cause & !(1 << (bits - 1))) | (cause >> (bits - 1) & 1) << 63;
            let place = describe::place(&profile.names, pc);
            if number == 0 && pc == 0 {
                return Ok("no trap has come yet".to_owned());
            }
            return Ok(format!("last trap {} at {place} (mcause {cause:#x})", name(profile, number)));
        }
        let Some(xpsr) = register(travel, &["xpsr"])? else { return Ok("xpsr cannot be read here".to_owned()) };
        Ok(match xpsr & 0x1ff {
            0 => "no interrupt".to_owned(),
            number => format!("in {} (exception {number})", name(profile, number)),
        })
    }
}

/// Global interrupt enable, in AVR's status register.
const AVR_I: u64 = 1 << 7;

fn is_command(word: &str) -> bool {
    COMMANDS.iter().any(|(form, _)| form.split(' ').next() == Some(word))
}

/// Help on commands, places, and memory that cannot be read.
fn help() -> String {
    let mut text = String::new();
    for (form, meaning) in COMMANDS {
        let _ = writeln!(text, "monitor {form:<24}{meaning}");
    }
    text += "PLACE is one of\n";
    for (form, takes, meaning) in FORMS {
        let _ = writeln!(text, "  {:<30}{meaning}", format!("{form}{takes}"));
    }
    text += "Devices are read in a copy of the run, so the run does not notice. That needs checkpoints. Devices that count\n\
             time (mtime, SysTick) cannot be read.\n\
             After a write the run is no longer the profiled one: it goes on from there, and not back. GDB says where a\n\
             write is refused.\n";
    text
}

/// Name of an exception, by its handler in the profile.
fn name(profile: &Profile, number: u64) -> String {
    let seen = profile.stacks.iter().find_map(|frame| match frame.kind {
        FrameKind::Exception { number: other, handler, .. } if other == number => Some(handler),
        _ => None,
    });
    Exceptions::new(profile).name(number, seen.unwrap_or(0))
}

/// Name of a task, by its control block.
fn task_name(profile: &Profile, tcb: u64) -> String {
    // A deleted task may have had the same block: the last task with it is the likeliest.
    let index = profile.tasks.iter().rposition(|task| task.tcb == tcb);
    index.map_or_else(|| Hex(tcb).to_string(), |index| task_names(profile)[index].clone())
}

fn shown(profile: &Profile, thread: &Thread) -> String {
    if thread.name.is_empty() { task_name(profile, thread.id) } else { thread.name.clone() }
}

/// Text for the virtual time before an instruction. The time of a sleeping processor is not included.
fn time(profile: &Profile, insn: u64) -> String {
    let facts = &profile.facts;
    if let Some(hz) = time::clock_hz(profile) {
        return format!("virtual time by cycles, at {}", frequency(hz));
    }
    let ms = millis(u128::from(insn.saturating_sub(1)) << facts.icount_shift);
    if facts.waits == 0 { format!("virtual time {ms}") } else { format!("virtual time {ms}, without sleep") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::fake::Fake;
    use crate::profile::testing::empty;

    fn profile() -> Profile {
        let mut profile = empty()
            .function("main", 0x40, 0x10)
            .function("UART0_Handler", 0x80, 0x10)
            .exception(0, 20, 0x80, 0x42)
            .insn(0x40, 60)
            .taken(2, 0x42, 0, 0)
            .taken(1, 0x82, 1, 0);
        profile.facts.before_window_insns = 5;
        profile
    }

    fn travel() -> Fake {
        let mut travel = Fake::of(&[0x42; 60]).storing(12, 0x2000_0000, 7);
        travel.insns.iter_mut().for_each(|insn| insn.registers.push(("xpsr", 0x0100_0000)));
        travel.insns[34].registers[0].1 |= 20;
        travel
    }

    #[test]
    fn what_is_said_of_a_run_that_was_written_to_is_marked() {
        let profile = profile();
        let finder = Finder::new(&profile, Box::new(|_| panic!("it is in the profile")));
        let mut monitor = Monitor { finder, threads: None };
        let mut travel = travel();
        (travel.insn, travel.written_at) = (9, Some(8));
        for words in ["where", "goto insn:10", "profile", "bins", "stack"] {
            let said = monitor.monitor(&mut travel, words, &mut |_| ());
            let mark = "\nthe debugger wrote at instruction 8: from there on it is not the profiled run\n";
            assert!(said.ends_with(mark), "{words}: {said}");
        }
        let said = monitor.monitor(&mut travel, "last-write 0x20000100", &mut |_| ());
        assert!(said.starts_with("0x20000100 was not written since instruction 8, where"), "{said}");
        assert!(!monitor.monitor(&mut travel, "help", &mut |_| ()).contains("instruction 8"));
    }

    /// Answers to commands, and the final position.
    fn answers(words: &[&str]) -> (Vec<String>, u64) {
        let profile = profile();
        let finder = Finder::new(&profile, Box::new(|_| panic!("it is in the profile")));
        let mut monitor = Monitor { finder, threads: None };
        let mut travel = travel();
        let answer = |words: &&str| {
            let mut said = String::new();
            let answer = monitor.monitor(&mut travel, words, &mut |line| said += &format!("{line}\n"));
            said + &answer
        };
        let said = words.iter().map(answer).collect();
        (said, travel.insn)
    }

    fn answer(words: &str) -> String {
        answers(&[words]).0.remove(0)
    }

    #[test]
    fn where_counts_as_the_profile_and_as_the_run() {
        assert_eq!(
            answer("where"),
            "instruction 1 of the run, before the window: 0x00000042 in main\nno interrupt\nvirtual time 0.000000 ms\n"
        );
        assert_eq!(
            answer("goto sample:3"),
            "instruction 30 of the window, 35 of the run: 0x00000042 in main\nin [irq UART0] (exception 20)\n\
             virtual time 0.001088 ms\n"
        );
    }

    #[test]
    fn goto_takes_every_place_and_stays_where_there_is_none() {
        let (said, insn) = answers(&["goto insn:20", "goto insn:99", "goto nowhere", "goto"]);
        assert_eq!(insn, 25);
        assert_eq!(said[1], "insn:99: 60 instructions were executed in the window; the last is insn:60\n");
        assert!(said[2].contains("`nowhere` is not a place"), "{}", said[2]);
        assert!(said[3].contains("there are sample:N"), "{}", said[3]);
        let (said, insn) = answers(&["goto write:0x20000000"]);
        assert!(
            insn == 12 && said[0].starts_with("looking for the last write of 0x20000000: one more run\n"),
            "{said:?}"
        );
    }

    #[test]
    fn the_last_write_is_said_and_the_run_stays() {
        let (said, insn) = answers(&["goto insn:20", "last-write 0x20000000", "last-write 0x20000010"]);
        assert_eq!(insn, 25);
        assert_eq!(
            said[1],
            "0x00000042 in main, instruction 7 of the window, 12 of the run, 13 instructions earlier\n"
        );
        assert_eq!(said[2], "0x20000010 was not written before here\n");
    }

    #[test]
    fn what_has_run_is_what_was_sampled_up_to_here() {
        let (said, _) =
            answers(&["profile", "goto insn:20", "profile", "stack", "goto insn:33", "profile", "bins", "stack"]);
        assert_eq!(said[0], "no sample has been taken up to here\n");
        assert_eq!(said[2], "2 samples up to here, by function\n 100.00%           2  main\n");
        assert_eq!(said[3], "sample:2, here\n  0x00000042 in main\n");
        assert_eq!(
            said[5],
            "3 samples up to here, by function\n  66.67%           2  main\n  33.33%           1  UART0_Handler\n"
        );
        assert!(said[6].ends_with("  33.33%           1  0x00000082 in UART0_Handler\n"), "{}", said[6]);
        assert_eq!(
            said[7],
            "sample:3, 3 instructions ago; bt is the stack here\n  0x00000082 in UART0_Handler\n  \
             [irq UART0] in 0x00000042 in main\n"
        );
    }

    #[test]
    fn unknown_commands_and_help_say_what_there_is() {
        assert_eq!(answer("wehre"), "no command is called `wehre`; did you mean `where`?\n");
        assert!(answer("frobnicate").contains("there are where, goto, profile"));
        assert_eq!(answer("where now"), "where takes no argument\n");
        assert_eq!(answer("task"), "the firmware has no known kernel\n");
        assert_eq!(answer("last-write"), "last-write needs an address (0x…) or a variable\n");
        let help = answer("help");
        for (form, _) in COMMANDS {
            assert!(help.contains(&format!("monitor {form}")), "{help}");
        }
        for (form, takes, _) in FORMS {
            assert!(help.contains(&format!("  {form}{takes}")), "{help}");
        }
        assert!(help.lines().all(|line| line.len() <= 120), "{help}");
    }
}
