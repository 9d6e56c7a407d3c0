//! From what happened to an exit code and a sentence: the one table of exit codes.

use crate::cli::resolve::{DEFAULT_FOR_INSNS, When};
use crate::profile::{End, Facts, Names, Profile};
use crate::run::process::EmulatorError;
use crate::text::terminal::shorten;

/// Exit codes, most urgent first: when several apply, the first one is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitCode {
    /// Usage or bad input.
    Usage,
    /// The emulator could not run: missing, too old, failed by itself.
    Emulator,
    /// A limit or timeout ended the run.
    Limit,
    /// The firmware failed.
    Firmware,
    /// A regression threshold was crossed.
    Regression,
    /// All good.
    Good,
}

impl ExitCode {
    /// All of them, most urgent first.
    pub const ALL: [ExitCode; 6] = [
        ExitCode::Usage,
        ExitCode::Emulator,
        ExitCode::Limit,
        ExitCode::Firmware,
        ExitCode::Regression,
        ExitCode::Good,
    ];

    /// The process's exit status.
    pub fn status(self) -> u8 {
        match self {
            ExitCode::Good => 0,
            ExitCode::Firmware => 1,
            ExitCode::Usage => 2,
            ExitCode::Regression => 3,
            ExitCode::Limit => 4,
            ExitCode::Emulator => 5,
        }
    }

    /// The code with this status.
    pub fn of_status(status: u8) -> Option<ExitCode> {
        ExitCode::ALL.into_iter().find(|code| code.status() == status)
    }

    /// What the code says, in words.
    pub fn describe(self) -> &'static str {
        match self {
            ExitCode::Good => "all good",
            ExitCode::Firmware => "the firmware failed",
            ExitCode::Usage => "usage or bad input",
            ExitCode::Regression => "a regression threshold was crossed",
            ExitCode::Limit => "a limit or timeout ended a run",
            ExitCode::Emulator => "the emulator could not run",
        }
    }

    /// The code of an error that prevented a profile. An error of none of our types is a defect or a
    /// host that fails (a full disk, a lost directory): input, as far as the caller is concerned.
    pub fn of_error(error: &anyhow::Error) -> ExitCode {
        if error.is::<EmulatorError>() { ExitCode::Emulator } else { ExitCode::Usage }
    }

    /// The code of a run.
    pub fn of_end(end: &End) -> ExitCode {
        match end {
            End::For | End::Until | End::Exit { status: 0, .. } => ExitCode::Good,
            End::Exit { .. } | End::Reset { .. } | End::LockUp { .. } | End::Asleep { .. } | End::Denied { .. } => {
                ExitCode::Firmware
            }
            End::MaxInsns | End::Timeout | End::Interrupted => ExitCode::Limit,
            End::EmulatorFailed { .. } => ExitCode::Emulator,
        }
    }
}

/// Exit statuses of `harness run`, beside the firmware's own: those that `timeout(1)` and `env(1)` have made
/// known, far from what firmware returns.
pub mod runner {
    use super::{ExitCode, describe_unopened};
    use crate::profile::{End, Profile};

    /// A limit, timeout or Ctrl-C ended the run.
    pub const LIMIT: u8 = 124;
    /// harness itself failed: usage, bad input, the emulator.
    pub const FAILURE: u8 = 125;

    /// The status of a run.
    pub fn status(profile: &Profile) -> u8 {
        let status = match (&profile.facts.end, ExitCode::of_end(&profile.facts.end)) {
            (End::Exit { status, .. }, _) => of_firmware(*status),
            (_, ExitCode::Limit) => LIMIT,
            (_, ExitCode::Usage | ExitCode::Emulator) => FAILURE,
            (_, code @ (ExitCode::Firmware | ExitCode::Good | ExitCode::Regression)) => code.status(),
        };
        if status == 0 && describe_unopened(profile).is_some() { ExitCode::Firmware.status() } else { status }
    }

    /// A process has eight bits of status: the lowest, as exit(3) has it, but a failure never becomes 0.
    pub(super) fn of_firmware(status: u32) -> u8 {
        match status as u8 {
            0 if status != 0 => ExitCode::Firmware.status(),
            low => low,
        }
    }
}

/// `0x80000abc in main (main.c:12)`.
pub fn place(names: &Names, pc: u64) -> String {
    let Some(function) = names.function_at(pc) else { return format!("{pc:#010x}") };
    let line = names.line_at(pc).map(|(file, line)| format!(" ({file}:{line})"));
    format!("{pc:#010x} in {}{}", function.name, line.unwrap_or_default())
}

/// How the run ended, in a sentence or two.
pub fn describe_end(profile: &Profile) -> String {
    let Profile { facts, names, .. } = profile;
    let at = |pc: u64| place(names, pc);
    match &facts.end {
        End::For => {
            let insns = facts.window.for_insns.unwrap_or(0);
            let default = if insns == DEFAULT_FOR_INSNS { " (the default; --for sets another)" } else { "" };
            format!("the window of {} instructions is complete{default}", group(insns))
        }
        End::Until => format!("{} was reached", facts.window.until.as_deref().unwrap_or("the end")),
        End::Exit { status: 0, pc } => format!("the firmware exited with status 0 at {}", at(*pc)),
        End::Exit { status, pc } => format!("the firmware exited with status {status} at {}", at(*pc)),
        End::Reset { pc: Some(pc) } => format!("the firmware reset itself at {}", at(*pc)),
        End::Reset { pc: None } => "the machine was reset".to_owned(),
        End::LockUp { pc, fault } => format!("the CPU locked up at {}: {fault}", at(*pc)),
        End::Asleep { pc } => format!(
            "the CPU sleeps for ever at {}: it waits for an interrupt, and no timer is set that could raise one",
            at(*pc)
        ),
        End::Denied { pc } => format!("the run was ended at {}, before a forbidden operation", at(*pc)),
        End::MaxInsns => format!(
            "the firmware had not ended after --max-insns {} instructions",
            group(facts.window.max_insns.unwrap_or(0))
        ),
        End::Timeout => format!("--timeout ended the run; {}", reproduce(profile)),
        End::Interrupted => format!("interrupted; {}", reproduce(profile)),
        End::EmulatorFailed { message } => format!("QEMU failed: {message}"),
    }
}

/// Says that nothing was measured because the window never opened, where it is so.
pub fn describe_unopened(profile: &Profile) -> Option<String> {
    let from = profile.facts.window.from.as_ref()?;
    (profile.total_insns() == 0).then(|| format!("the window never opened: --from {from} was not reached"))
}

/// The option that ends another run at the instruction where the host ended this one.
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

/// What the run asked of the host, and whether that matters, one line each.
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
                0x12 => "no command runs on the host",
                _ => "it leads out of the run's scratch directory",
            };
            format!("denied: {operation}{text} at {at}: {reason}")
        } else {
            let what = if note.operation == 0x0d { "a name of the host's" } else { "host time" };
            format!("depends on the host: {operation} at {at} returns {what}; another run may differ")
        });
    }
    lines
}

/// Which input was not given, and why, one line.
pub fn describe_input(facts: &Facts) -> Option<String> {
    let mut taken = facts.input_bytes;
    for (index, input) in facts.input.iter().enumerate() {
        let bytes = input.bytes.len() as u64;
        if taken >= bytes {
            taken -= bytes;
            continue;
        }
        let why = match &input.when {
            _ if facts.input_begun > index as u64 => {
                format!("the machine took {} of its {} bytes", group(taken), group(bytes))
            }
            When::At(insns) => format!("it was to come at instruction {}", group(*insns)),
            When::After(prompt) => format!("{prompt:?} was not printed"),
        };
        let text = String::from_utf8_lossy(&input.bytes);
        let of = facts.input.len();
        let later = match of - index - 1 {
            0 => String::new(),
            1 => ", and the one after it".to_owned(),
            later => format!(", and the {later} after it"),
        };
        return Some(format!("input not given: {} of {of}, {text:?} ({why}){later}", index + 1));
    }
    None
}

/// The facts that a result depends on, one line.
pub fn describe_run(facts: &Facts) -> String {
    let cpu = facts.cpu.as_deref().map(|cpu| format!(", CPU {cpu}")).unwrap_or_default();
    let jitter = facts.jitter_seed.map(|seed| format!(", jitter seed {seed}")).unwrap_or_default();
    format!(
        "{} on QEMU {} {}{cpu}, {} ns per instruction, period {}{jitter}",
        facts.image_name,
        facts.qemu_version,
        facts.machine,
        1u64 << facts.icount_shift,
        group(facts.period_insns)
    )
}

/// A part of something in percent.
pub fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// A part of something as `12.34%`.
pub fn share(part: u64, whole: u64) -> String {
    format!("{:.2}%", percent(part, whole))
}

/// `1234567` as `1,234,567`.
pub fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Armv7-M fault status (ARM DDI 0403E B3.2.15 to B3.2.18) in words.
pub fn describe_fault(cfsr: u64, hfsr: u64, mmfar: u64, bfar: u64) -> Option<String> {
    let bit = |register: u64, bit: u32| register >> bit & 1 == 1;
    let mut faults = Vec::new();
    for (number, text) in [
        (0, "MemManage: instruction fetch from memory that may not be executed"),
        (1, "MemManage: data access violation"),
        (3, "MemManage: unstacking for an exception return failed"),
        (4, "MemManage: stacking for an exception failed"),
        (8, "BusFault: instruction fetch"),
        (9, "BusFault: data access"),
        (10, "BusFault: imprecise data access"),
        (11, "BusFault: unstacking for an exception return failed"),
        (12, "BusFault: stacking for an exception failed"),
        (16, "UsageFault: undefined instruction"),
        (17, "UsageFault: invalid state (Thumb bit clear)"),
        (18, "UsageFault: invalid EXC_RETURN"),
        (19, "UsageFault: no coprocessor (FPU off)"),
        (20, "UsageFault: stack overflow (below the stack limit)"),
        (24, "UsageFault: unaligned access"),
        (25, "UsageFault: division by zero"),
    ] {
        if bit(cfsr, number) {
            let address = match number {
                1 if bit(cfsr, 7) => format!(" at address {mmfar:#010x}"),
                9 if bit(cfsr, 15) => format!(" at address {bfar:#010x}"),
                _ => String::new(),
            };
            faults.push(format!("{text}{address}"));
        }
    }
    if bit(hfsr, 1) {
        faults.push("HardFault: the vector table could not be read".to_owned());
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// The address bins with the most samples, one line.
pub fn describe_bins(profile: &Profile) -> Option<String> {
    let mut bins: Vec<(u64, u64)> = profile.bins().into_iter().collect();
    // Stable: equals stay in the order of their addresses.
    bins.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    let hottest = bins.iter().take(3).map(|&(bin, samples)| {
        let function = profile.names.function_at(bin).map(|function| format!(" in {}", shorten(&function.name, 60)));
        format!("{bin:#010x}{} {}", function.unwrap_or_default(), group(samples))
    });
    let list = hottest.collect::<Vec<_>>().join(", ");
    let bytes = profile.facts.bin_bytes;
    (!bins.is_empty())
        .then(|| format!("hottest of {} bins of {bytes} bytes, by samples: {list}", group(bins.len() as u64)))
}

/// Lost arcs are never silent: how many transfers could not be attributed.
pub fn describe_unresolved(facts: &Facts) -> Option<String> {
    (facts.unresolved_transfers > 0).then(|| {
        format!("{} transfers of control could not be attributed to an arc", group(facts.unresolved_transfers))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let all = ExitCode::ALL;
        // design.md: "When several apply: 2, 5, 4, 1, 3".
        assert_eq!(all.map(ExitCode::status), [2, 5, 4, 1, 3, 0]);
        assert!(all.is_sorted());
    }

    #[test]
    fn a_failed_firmware_never_looks_good() {
        let statuses = [0, 1, 3, 255, 256, 259, 0x100_0000, u32::MAX];
        assert_eq!(statuses.map(runner::of_firmware), [0, 1, 3, 255, 1, 3, 1, 255]);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(group), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn faults_are_said_in_words() {
        let fault = describe_fault(1 << 9 | 1 << 15, 1 << 30, 0, 0xf000_0000).unwrap();
        assert_eq!(fault, "BusFault: data access at address 0xf0000000");
        assert_eq!(describe_fault(0, 0, 0, 0), None);
    }
}
