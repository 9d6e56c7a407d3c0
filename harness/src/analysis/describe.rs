// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of a run's events, in a sentence each.

use crate::analysis::stacks::Exceptions;
use crate::analysis::{dead_loop, overflow, time};
use crate::profile::input::{Input, What, When};
use crate::profile::no_progress::{Device, Only, OnlyHandler, OnlyPoll, Standstill, is_long};
use crate::profile::{
    Chip, ChipRule, DEFAULT_AVR_FOR_INSNS, DEFAULT_FOR_INSNS, End, Facts, LeftStack, Names, Profile, Tricks,
    Unmodelled,
};
use crate::text::columns::shorten;
use crate::text::number::{Hex, duration, frequency, group, plural, share_at_least};
use crate::text::printable::printable;
use crate::text::shell::quoted;

/// Describes the functions replaced by stubs; None: there are none.
pub fn describe_stubs(facts: &Facts) -> Option<String> {
    let stubs: Vec<String> = facts.stubs.iter().map(ToString::to_string).collect();
    let functions = plural(stubs.len() as u64, "function");
    (!stubs.is_empty()).then(|| format!("{functions} returned at once (--stub): {}", stubs.join(", ")))
}

/// Maximum number of unmodelled accesses that are shown.
const MOST_UNMODELLED: usize = 10;

/// Describes the chip that a chip file made of QEMU's machine: the differences that are left between that and the real
/// chip, and the accesses that the file does not model.
pub fn describe_chip(profile: &Profile) -> Vec<String> {
    let Some(chip) = &profile.facts.chip else { return Vec::new() };
    let mut lines = Vec::new();
    let hash = &chip.sha256[..chip.sha256.len().min(12)];
    let differs = if chip.differs.is_empty() {
        String::new()
    } else {
        format!("; differs from the chip: {}", chip.differs.join("; "))
    };
    let name = printable(&chip.name);
    // What every run of a machine has is in its manual.
    if chip.is_given() {
        lines.push(
            printable(&format!("chip {name} ({hash}) on QEMU's {}{differs}", profile.facts.machine)).into_owned(),
        );
    }
    if let Some((name, times)) = &chip.bitten {
        let times = plural(*times, "time");
        lines.push(format!(
            "warning: the watchdog {} ran out {times}: the chip would have been reset",
            printable(name)
        ));
    }
    lines.extend(describe_rules(chip));
    // The accesses of a chip that only adds devices to the machine (AVR) are not kept.
    if chip.unmodelled.is_empty() {
        if !chip.accesses.is_empty() {
            lines.push("every register that was accessed is modelled".to_owned());
        }
        return lines;
    }
    let of = |row: &Unmodelled| {
        let name = if row.name.is_empty() { Hex(row.address).to_string() } else { printable(&row.name).into_owned() };
        let counts = match (row.reads, row.writes) {
            (0, writes) => format!("{} written", group(writes)),
            (reads, 0) => format!("{} read", group(reads)),
            (reads, writes) => format!("{} read, {} written", group(reads), group(writes)),
        };
        format!("{name} ({counts}, first at {})", place(&profile.names, row.pc))
    };
    let shown: Vec<String> = chip.unmodelled.iter().take(MOST_UNMODELLED).map(of).collect();
    let more = chip.unmodelled.len().saturating_sub(MOST_UNMODELLED);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    lines.push(format!(
        "not modelled: {}, which read as last written: {}{more}",
        plural(chip.unmodelled.len() as u64, "register"),
        shown.join("; ")
    ));
    lines
}

/// The answers and interrupts that a chip file has given, guesses first; registers that are new to it.
fn describe_rules(chip: &Chip) -> Vec<String> {
    let mut lines = Vec::new();
    if !chip.rules.is_empty() {
        let of = |rule: &ChipRule| {
            let guess = if rule.is_guess { ", a guess" } else { "" };
            let place =
                if rule.place.is_empty() { String::new() } else { format!(", for {}", printable(&rule.place)) };
            format!("{} ({}{place}{guess})", printable(&rule.what), plural(rule.times, "time"))
        };
        let shown: Vec<String> = chip.rules.iter().take(MOST_UNMODELLED).map(of).collect();
        let more = chip.rules.len().saturating_sub(MOST_UNMODELLED);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let guesses = match chip.guesses().count() as u64 {
            0 => "no guess among them".to_owned(),
            1 => "1 guess among them".to_owned(),
            guesses => format!("{guesses} guesses among them"),
        };
        let count = plural(chip.rules.len() as u64, "rule");
        lines.push(format!("answered by the chip file: {count}, {guesses}: {}{more}", shown.join("; ")));
    }
    let new: Vec<String> = chip.new_registers().map(|row| Hex(row.address).to_string()).collect();
    if !new.is_empty() {
        let shown = new.iter().take(MOST_UNMODELLED).cloned().collect::<Vec<_>>().join(", ");
        let count = plural(new.len() as u64, "register");
        lines.push(format!(
            "warning: the firmware accessed {count} that it did not access when the chip file was learned: {shown}"
        ));
    }
    lines
}

/// Reason why `--strict` rejects the run because of its chip file: a guess, or an access that the file was not learned
/// with.
pub fn describe_doubts(profile: &Profile) -> Option<String> {
    let chip = profile.facts.chip.as_ref()?;
    let guesses: Vec<&ChipRule> = chip.guesses().collect();
    if let Some(first) = guesses.first() {
        let more = if guesses.len() > 1 { format!(" and {} more", guesses.len() - 1) } else { String::new() };
        return Some(format!("the chip file guesses ({}{more})", printable(&first.what)));
    }
    let new = chip.new_registers().next()?;
    Some(format!("{} is accessed, which was not accessed when the chip file was learned", Hex(new.address)))
}

/// Text for an address, as in `0x80000abc in main (main.c:12)`.
pub fn place(names: &Names, pc: u64) -> String {
    let Some(function) = names.function_at(pc) else { return Hex(pc).to_string() };
    let line = names.line_at(pc).map(|(file, line)| format!(" ({}:{line})", printable(file)));
    format!("{} in {}{}", Hex(pc), printable(&function.name), line.unwrap_or_default())
}

/// Describes the end of the run, in a sentence or two.
pub fn describe_end(profile: &Profile) -> String {
    let mut end = describe_end_alone(profile);
    if let Some(origin) = describe_origin(profile) {
        end += &format!("; it came from {origin}");
    }
    // Where the firmware failed later, this is often why.
    if !matches!(profile.facts.end, End::StackOverflow { .. })
        && let Some((stack, _)) = overflow::first(profile)
        && let Some(left) = overflow::sentence(profile, stack, |pc| place(&profile.names, pc))
    {
        end += &format!("; before, {left}");
    }
    end
}

/// Describes the fault in whose handler the firmware ended the run. None: it ended elsewhere, or the end itself is the
/// handler.
fn describe_origin(profile: &Profile) -> Option<String> {
    let Facts { end, only, .. } = &profile.facts;
    let is_end_of_handler = match end {
        End::Exit { status, .. } => *status != 0,
        End::Reset { .. } | End::LockUp { .. } | End::Asleep { .. } => true,
        _ => false,
    };
    let handler = only.handler.as_ref().filter(|handler| is_end_of_handler && handler.is_fault)?;
    let name = Exceptions::new(profile).name(handler.number, handler.handler);
    // A lock-up has changed the registers that have the cause.
    let is_known = !matches!(end, End::LockUp { .. });
    Some(format!("{name}: {}", describe_fault_place(profile, handler, is_known)))
}

/// Describes the end of the run, without the fault that led to it.
pub fn describe_end_alone(profile: &Profile) -> String {
    let Profile { facts, names, .. } = profile;
    let at = |pc: u64| place(names, pc);
    match &facts.end {
        End::For => {
            let insns = facts.window.for_insns.unwrap_or(0);
            let is_avr = facts.isa().is_some_and(decode::Isa::is_avr);
            let of_default = if is_avr { DEFAULT_AVR_FOR_INSNS } else { DEFAULT_FOR_INSNS };
            let default = if insns == of_default { " (the default; --for sets another)" } else { "" };
            format!("the window of {} instructions is complete{default}", group(insns))
        }
        End::Until => format!("{} was reached", facts.window.until.as_deref().unwrap_or("the end")),
        End::Exit { status: 0, pc } => format!("the firmware exited with status 0 at {}", at(*pc)),
        End::Exit { status, pc } => format!("the firmware exited with status {status} at {}", at(*pc)),
        End::Reset { pc: Some(pc), .. } => format!("the firmware reset itself at {}", at(*pc)),
        End::Reset { pc: None, .. } => "the machine was reset".to_owned(),
        End::LockUp { pc, fault } => format!("the CPU locked up at {}: {fault}", at(*pc)),
        End::Asleep { pc } => {
            let typed = describe_typing(facts).map(|typed| format!("; {typed}")).unwrap_or_default();
            let at = at(*pc);
            format!(
                "the CPU sleeps for ever at {at}: it waits for an interrupt, and none of the timers wakes it{typed}"
            )
        }
        End::Stuck { pc, why } => format!("no instruction completes any more at {}: {why}", at(*pc)),
        End::Faulting { .. } => describe_handler(profile).unwrap_or_default(),
        End::EndlessLoop { pc, call } => {
            let call = call.map(|call| format!(", called at {}", at(call))).unwrap_or_default();
            let line = printable(&facts.last_line);
            let printed =
                if line.is_empty() { String::new() } else { format!("; the last line printed is {line:?}") };
            format!("the firmware gave up in an endless loop at {}{call}{printed}", at(*pc))
        }
        End::Restarts { times, expected, entry, from } => {
            let from = from.map(|from| format!(", reached from {}", at(from))).unwrap_or_default();
            let times = plural(*times, "time");
            match facts.window.resets {
                None => format!("the firmware restarted {times} without a reset, at its entry {}{from}", at(*entry)),
                Some(_) => format!(
                    "the firmware restarted {times}, --resets expects {}, at its entry {}{from}",
                    group(*expected),
                    at(*entry)
                ),
            }
        }
        End::StackOverflow { stack: stack @ (LeftStack::Task { .. } | LeftStack::Main), .. } => {
            overflow::sentence(profile, *stack, at).unwrap_or_default()
        }
        End::StackOverflow { pc, stack: LeftStack::Memory { start } } => {
            let noticed = pc.map(|pc| format!(": noticed at {}", at(pc))).unwrap_or_default();
            format!("the stack has left the RAM that begins at {}{noticed}", Hex(*start))
        }
        End::Denied { pc } => format!("the run was ended at {}, before a forbidden operation", at(*pc)),
        End::UnknownCall { operation, pc } => {
            format!("the firmware made a semihosting call that QEMU does not have, {operation:#04x}, at {}", at(*pc))
        }
        End::MaxInsns => format!(
            "the firmware had not ended after --max-insns {} instructions",
            group(facts.window.max_insns.unwrap_or(0))
        ),
        End::Output { pc, limit_bytes } => format!(
            "the firmware has printed and written to files as much as --max-output {} bytes allows, at {}",
            group(*limit_bytes),
            at(*pc)
        ),
        End::Timeout => format!("--timeout ended the run; {}", reproduce(profile)),
        End::Interrupted => format!("interrupted; {}", reproduce(profile)),
        End::DiskFull => format!(
            "the disk became full: records and output up to instruction {} are kept, as far as there was room",
            group(profile.total_insns())
        ),
        End::EmulatorFailed { message } => format!("QEMU failed after {}: {message}", describe_reached(profile)),
    }
}

/// Describes how far a run came that QEMU did not end in order: nothing but the last sample says where it was.
fn describe_reached(profile: &Profile) -> String {
    let insns = plural(profile.total_insns(), "instruction");
    let Some(sample) = profile.samples.last() else { return insns };
    let clock = profile.vcpus.get(sample.vcpu as usize).map_or(0, |vcpu| vcpu.clock_insns);
    let before = plural(clock.saturating_sub(sample.at_insns), "instruction");
    format!("{insns}, the last sample, {before} before, at {}", place(&profile.names, sample.pc))
}

/// Describes the most important trouble, to be printed first: the firmware did no useful work.
pub fn describe_trouble(profile: &Profile) -> Option<String> {
    let Facts { end, only, .. } = &profile.facts;
    let is_told = matches!(
        end,
        End::Faulting { .. }
            | End::EndlessLoop { .. }
            | End::Restarts { .. }
            | End::StackOverflow { .. }
            | End::Stuck { .. }
    );
    if is_told {
        return Some(describe_end(profile));
    }
    if describe_origin(profile).is_some() {
        return Some(describe_end(profile));
    }
    let is_long = only.handler.as_ref().is_some_and(|handler| is_long(handler.since_insns, profile.total_insns()));
    let line = match is_long {
        true => describe_handler(profile),
        false => describe_poll(profile).or_else(|| describe_standstill(profile)),
    };
    line.map(|line| format!("warning: {line}"))
}

/// Describes the loop at which the firmware stood still, and a remedy. None: it made progress.
pub fn describe_standstill(profile: &Profile) -> Option<String> {
    let Standstill { insns, register, .. } = profile.facts.only.standstill.as_ref()?;
    let share = share_at_least(*insns, profile.total_insns());
    Some(format!(
        "{share} of all instructions polled {}; no instruction executed for the first time in the second half of the \
         window{}",
        describe_register(profile, register),
        describe_help(profile, register)
    ))
}

/// Functions that a suite may name in `polls` to allow the standstill: the one with the loop, the one that reads the
/// register, and functions inlined there.
pub fn standing_functions(profile: &Profile) -> Vec<&str> {
    let places = match (&profile.facts.only.standstill, &profile.facts.end) {
        (Some(Standstill { pc, register, .. }), _) => [Some(*pc), Some(register.pc)],
        (None, End::EndlessLoop { pc, .. }) => [Some(*pc), None],
        (None, _) => return Vec::new(),
    };
    let names = &profile.names;
    let at = |pc: u64| {
        let inlined = names.frames_at(pc).iter().filter_map(|frame| names.strings.get(frame.function as usize));
        names.function_at(pc).map(|function| function.name.as_str()).into_iter().chain(inlined.map(String::as_str))
    };
    let mut functions: Vec<&str> = places.into_iter().flatten().flat_map(at).collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// The function that cannot be replaced by a stub, since it is the firmware's purpose.
const MAIN: &str = "main";

/// Describes the option that helps firmware which waits for a register.
fn describe_help(profile: &Profile, register: &OnlyPoll) -> String {
    if register.device.as_ref().is_some_and(Device::is_serial) {
        return format!("; {TYPING}");
    }
    let function = profile.names.function_at(register.pc).filter(|function| function.name != MAIN);
    function.map(|function| format!("; {}", describe_stubbing(&function.name))).unwrap_or_default()
}

/// Describes the option that replaces a function.
fn describe_stubbing(name: &str) -> String {
    let (plain, with_value) = (quoted(name), quoted(&format!("{name}=VALUE")));
    format!("--stub {plain} makes it return at once, --stub {with_value} with a value")
}

/// Describes a fault that came too late to judge its consequences.
pub fn describe_late_fault(profile: &Profile) -> Option<String> {
    let handler = profile
        .facts
        .only
        .handler
        .as_ref()
        .filter(|_| !matches!(profile.facts.end, End::Faulting { .. }) && describe_origin(profile).is_none())?;
    let is_late = handler.is_fault && !is_long(handler.since_insns, profile.total_insns());
    let line = is_late.then(|| describe_handler(profile)).flatten()?;
    Some(format!("the run ended in a fault's handler: {line}"))
}

/// Describes the only handler that has run since it was entered.
fn describe_handler(profile: &Profile) -> Option<String> {
    let only = profile.facts.only.handler.as_ref()?;
    let name = Exceptions::new(profile).name(only.number, only.handler);
    let since = format!("since instruction {} nothing ran but {name}", group(only.since_insns));
    if !only.is_fault {
        let pc = profile.facts.end.pc().unwrap_or(only.handler);
        let yields = if only.yields { "; an interrupt that is enabled may still come" } else { "" };
        let at = place(&profile.names, pc);
        return Some(format!("{since}, whose handler is an endless loop at {at}{yields}"));
    }
    let times = if only.times > 1 { format!(", {} times", group(only.times)) } else { String::new() };
    Some(format!("{since}{times}: {}", describe_fault_place(profile, only, true)))
}

/// Describes a fault, if its cause `is_known`, and where it came from.
fn describe_fault_place(profile: &Profile, only: &OnlyHandler, is_known: bool) -> String {
    let fault = only.fault.as_deref().filter(|_| is_known).map(|fault| format!("{fault}, ")).unwrap_or_default();
    let device = only.device.as_ref().filter(|_| is_known).map(|device| match device {
        Device::None => "; this machine has no device there".to_owned(),
        Device::Stub(name) => format!("; QEMU has only a stand-in there ({name:?})"),
        Device::Named(name) => format!("; {name:?} is there"),
    });
    let caller = describe_caller(profile, only).unwrap_or_default();
    let stack =
        only.left_sp.map(|sp| format!("; its stack had left the memory: sp was {}", Hex(sp))).unwrap_or_default();
    format!("{fault}pc {}{caller}{}{stack}", place(&profile.names, only.pc), device.unwrap_or_default())
}

/// Describes the call that led to an address without code, such as that of a null pointer. None: the address is code, or
/// no call is known.
fn describe_caller(profile: &Profile, only: &OnlyHandler) -> Option<String> {
    let names = &profile.names;
    let call = dead_loop::call_before(profile, only.return_addr);
    let is_told = names.function_at(only.pc).is_none() && names.function_at(call).is_some();
    is_told.then(|| format!(", called at {}", place(names, call)))
}

/// Describes the only register that was read.
fn describe_poll(profile: &Profile) -> Option<String> {
    let Only { poll, standstill, .. } = &profile.facts.only;
    let only = poll.as_ref()?;
    // Firmware that polls a device in each turn of a loop may do other work without accessing a device. The second half
    // of the window shows such work, if it was examined.
    let is_looked_at = matches!(profile.facts.end, End::For | End::MaxInsns);
    if is_looked_at && standstill.is_none() && only.since_insns <= profile.total_insns() / 2 {
        return None;
    }
    let since = group(only.since_insns);
    let (register, help) = (describe_register(profile, only), describe_help(profile, only));
    Some(format!("since instruction {since} the firmware only polled {register}{help}"))
}

/// Describes a register that was read over and over, and its value.
fn describe_register(profile: &Profile, register: &OnlyPoll) -> String {
    let device = register.device.as_ref().map(|device| match device {
        Device::None => " (this machine has no device there)".to_owned(),
        Device::Stub(name) => format!(" (QEMU has only a stand-in there, {name:?})"),
        Device::Named(name) => format!(" ({name:?})"),
    });
    format!(
        "{}{}: it was {:#x} each of {} times at {}",
        Hex(register.address),
        device.unwrap_or_default(),
        register.value,
        group(register.times),
        place(&profile.names, register.pc)
    )
}

/// Describes the option that types input for waiting firmware; None: some of the given input is still to come.
fn describe_typing(facts: &Facts) -> Option<&'static str> {
    let is_given = facts.input_begun == facts.input.iter().filter(|input| input.is_step()).count() as u64;
    is_given.then_some(TYPING)
}

/// Hint about the option that types input.
const TYPING: &str = "if it waits for input, --input-after 'PROMPT:TEXT' types it";

/// Describes a window that never opened, so that nothing was measured. None: it opened.
pub fn describe_unopened(profile: &Profile) -> Option<String> {
    let from = profile.facts.window.from.as_ref()?;
    (profile.total_insns() == 0).then(|| format!("the window never opened: --from {from} was not reached"))
}

/// Describes the option that ends another run at the instruction where the host ended this one.
fn reproduce(profile: &Profile) -> String {
    let insns = profile.total_insns();
    if insns == 0 {
        return "nothing was measured".to_owned();
    }
    let at = format!("the host ended it at instruction {}", group(insns));
    match &profile.vcpus[..] {
        [_] => format!("{at}; --for {insns} reproduces this profile"),
        vcpus => {
            let longest = vcpus.iter().map(|vcpu| vcpu.clock_insns).max().unwrap_or(0);
            format!("{at}; --for {longest} ends another run at about the same place")
        }
    }
}

/// Describes the run's requests to the host, and their effect on the result, one line each.
pub fn describe_notes(profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    for note in &profile.notes {
        let operation = match note.operation {
            0x01 => "SYS_OPEN",
            0x0e => "SYS_REMOVE",
            0x0f => "SYS_RENAME",
            0x0d => "SYS_TMPNAM",
            0x10 => "SYS_CLOCK",
            0x11 => "SYS_TIME",
            0x12 => "SYS_SYSTEM",
            0x30 => "SYS_ELAPSED",
            _ => "semihosting",
        };
        let text = if note.text.is_empty() { String::new() } else { format!(" {:?}", note.text) };
        let at = place(&profile.names, note.pc);
        lines.push(if note.denied {
            let reason = match note.operation {
                0x12 if note.unread => "the command cannot be read to its end",
                0x12 => "no command runs on the host",
                _ if note.unread && note.text.is_empty() => "its name cannot be read",
                _ if note.unread => "its name cannot be read to its end",
                // The path may be incomplete.
                _ if stays_inside(&note.text) => "--semihosting does not serve this file",
                _ => "it leads out of the run's scratch directory",
            };
            format!("denied: {operation}{text} at {at}: {reason}")
        } else {
            let what = match note.operation {
                0x0d => "a name from the host",
                0x12 => "the result of a command on the host",
                _ => "host time",
            };
            format!("depends on the host: {operation}{text} at {at} returns {what}; another run may differ")
        });
    }
    lines
}

/// Whether a path stays within the scratch directory.
fn stays_inside(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

/// Describes the input that was not typed or given, and the reason, in one line. None: all was.
pub fn describe_input(facts: &Facts) -> Option<String> {
    let told: Vec<String> = describe_steps(facts).into_iter().chain(describe_missed(facts)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Describes the changes by the chip's clock that the run ended before.
fn describe_missed(facts: &Facts) -> Option<String> {
    let missed = facts.chip.as_ref().map_or(0, |chip| chip.missed);
    let due = |input: &Input| match input.when {
        When::At(insns) => insns.saturating_mul(1 << facts.icount_shift),
        When::AtNs(ns) => ns,
        When::After(_) => u64::MAX,
    };
    let mut by_clock: Vec<&Input> = facts.input.iter().filter(|input| !input.is_step()).collect();
    by_clock.sort_by_key(|input| due(input));
    let of = by_clock.len();
    let first = by_clock.get(of.checked_sub(usize::try_from(missed).ok().filter(|&missed| missed > 0)?)?)?;
    let What::Outside(changes) = &first.what else { return None };
    let text = format!("{:?} (the run ended before {})", changes.to_string(), duration(due(first)));
    Some(match missed {
        1 => format!("input not given: {text}"),
        _ => format!("input not given: {missed} of {of} by the clock, the first {text}"),
    })
}

/// Describes the first step that did not begin, or whose text was not typed.
fn describe_steps(facts: &Facts) -> Option<String> {
    let mut taken = facts.input_bytes;
    let of = facts.input.iter().filter(|input| input.is_step()).count();
    for (index, input) in facts.input.iter().filter(|input| input.is_step()).enumerate() {
        let bytes = input.typed().len() as u64;
        let has_begun = facts.input_begun > index as u64;
        if taken >= bytes && (bytes > 0 || has_begun) {
            taken -= bytes;
            continue;
        }
        let why = match &input.when {
            _ if has_begun => format!("the machine took {} of its {} bytes", group(taken), group(bytes)),
            When::At(insns) => format!("it was due at instruction {}", group(*insns)),
            When::AtNs(ns) => format!("it was due after {}", duration(*ns)),
            When::After(prompt) => format!("{prompt:?} was not printed"),
        };
        let (text, not_done) = match &input.what {
            What::Text(bytes) => (format!("{:?}", String::from_utf8_lossy(bytes)), "typed"),
            What::Outside(changes) => (format!("{:?}", changes.to_string()), "given"),
        };
        let later = match of - index - 1 {
            0 => String::new(),
            1 => ", and the one after it".to_owned(),
            later => format!(", and the {later} after it"),
        };
        return Some(format!("input not {not_done}: {} of {of}, {text} ({why}){later}", index + 1));
    }
    None
}

/// Describes the facts that a result depends on, in one line.
pub fn describe_run(profile: &Profile) -> String {
    let facts = &profile.facts;
    let clock = match time::clock_hz(profile) {
        Some(hz) => format!("time by cycles at {}", frequency(hz)),
        None => format!("{} ns per instruction", 1_u64 << facts.icount_shift),
    };
    let cpu = facts.cpu.as_deref().map(|cpu| format!(", CPU {cpu}")).unwrap_or_default();
    let jitter = facts.jitter_seed.map(|seed| format!(", jitter seed {seed}")).unwrap_or_default();
    format!(
        "{} on QEMU {} {}{cpu}, {clock}, period {}{jitter}",
        facts.image_name,
        facts.qemu_version,
        facts.machine,
        group(facts.period_insns)
    )
}

/// Describes the reason why QEMU was used only through its plugin API, in one line. None: its internals were used, too.
pub fn describe_tricks(facts: &Facts) -> Option<String> {
    let why = match facts.tricks {
        Tricks::Used => return None,
        Tricks::UnknownVersion => "this version of harness does not know the internals of that version of QEMU",
        Tricks::Off => "HARNESS_NO_TRICKS is set",
    };
    Some(format!("QEMU {} was used by its plugin API alone: {why} (docs/qemu.md)", facts.qemu_version))
}

/// Describes the address bins with the most samples, in one line.
pub fn describe_bins(profile: &Profile) -> Option<String> {
    let mut bins: Vec<(u64, u64)> = profile.bins().into_iter().collect();
    // A stable sort: equal ones stay in the order of their addresses.
    bins.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    let hottest = bins.iter().take(3).map(|&(bin, samples)| {
        let function =
            profile.names.function_at(bin).map(|function| format!(" in {}", shorten(&printable(&function.name), 60)));
        format!("{}{} {}", Hex(bin), function.unwrap_or_default(), group(samples))
    });
    let list = hottest.collect::<Vec<_>>().join(", ");
    let bytes = profile.facts.bin_bytes;
    (!bins.is_empty())
        .then(|| format!("hottest of {} bins of {bytes} bytes, by samples: {list}", group(bins.len() as u64)))
}

/// Describes transfers that could not be attributed, so that lost arcs are always reported.
pub fn describe_unresolved(facts: &Facts) -> Option<String> {
    (facts.unresolved_transfers > 0).then(|| {
        let jumps = plural(facts.unresolved_transfers, "jump");
        format!("the targets of {jumps} or calls are unknown: calls of some functions are not counted")
    })
}

/// Names the kind of a profile's call stacks. Stacks of two kinds cannot be compared path by path.
pub fn kind_of_stacks(profile: &Profile) -> &'static str {
    match (profile.tree.is_empty(), profile.facts.max_depth) {
        (false, _) => "an exact call tree",
        (true, Some(_)) => "sampled call stacks",
        (true, None) => "no call stacks",
    }
}
