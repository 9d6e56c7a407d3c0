//! The plugin's arguments, as the harness gives them on QEMU's command line.
//!
//! Parsed here from the raw `key=value` words: the `qemu-plugin` crate turns `on` into a boolean and
//! `0x10` into a string. The harness is the only caller, so an error is a defect and ends QEMU.

use std::ops::Range;

use decode::Isa;

use crate::task::Kernel;

/// What the plugin is asked to do. Numbers may be decimal or `0x…`.
#[derive(Debug)]
pub(crate) struct Args {
    /// `dir`: where the records go, relative to QEMU's working directory. Also holds two lists of
    /// addresses as little-endian u64: `functions`, start and end of each of the firmware's, sorted,
    /// `loops`, branches to their function's start that need no watching (see [`wire::definition`]), and
    /// `forgetful`, functions that do not keep their return address; and the table `unwind`.
    pub(crate) dir: String,
    /// `isa`: how to read instructions.
    pub(crate) isa: Isa,
    /// `period`: instructions from one sample to the next.
    pub(crate) period_insns: u64,
    /// `jitter`: seed of the dither around the period.
    pub(crate) jitter_seed: Option<u64>,
    /// `for`: the window's length.
    pub(crate) for_insns: Option<u64>,
    /// `max`: instructions from reset after which the run has failed.
    pub(crate) max_insns: Option<u64>,
    /// `from`: address whose execution opens the window; reset does when absent.
    pub(crate) from: Option<u64>,
    /// `until`: address whose execution closes the window.
    pub(crate) until: Option<u64>,
    /// `finisher`: address of the RISC-V `virt` machine's test device.
    pub(crate) finisher: Option<u64>,
    /// `memory`: `start+bytes:start+bytes…`, what may be read without side effects.
    pub(crate) memory: Vec<Range<u64>>,
    /// `snapshot`: `start+bytes`, memory to copy when the window opens and when the run ends.
    pub(crate) snapshot: Option<Range<u64>>,
    /// `depth`: most frames of a call stack; absent: no call stacks.
    pub(crate) max_depth: Option<u64>,
    /// `exact=on`: keep the exact call tree.
    pub(crate) exact: bool,
    /// `console`: its path without the ending: `.log` is what the firmware printed, `.in` the pipe to it.
    pub(crate) console: String,
    /// `marks=on`: note how much is printed when.
    pub(crate) marks: bool,
    /// `entry`: address of the firmware's first instruction.
    pub(crate) entry: Option<u64>,
    /// `current`, `running`: `start+bytes` of the kernel's variables; `idle`, `start:start…`; `name`,
    /// `offset+bytes`, `stack`, `stackend`: where in a control block; `switchers`, `start+bytes:…`, `delete`.
    pub(crate) kernel: Kernel,
    /// `input=on`: something is typed on the console; what, lies in `dir`, see [`wire::input`].
    pub(crate) input: bool,
    /// `spans`: `from-until:from-until…`, addresses between which instructions are counted.
    pub(crate) spans: Vec<(u64, u64)>,
    /// `oracle=on`: one callback per instruction instead of inline counters, for the tests.
    pub(crate) oracle: bool,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (start, bytes) = text.split_once('+').ok_or_else(|| format!("'{text}' is not start+bytes"))?;
    let start = number(start)?;
    Ok(start..start.saturating_add(number(bytes)?))
}

fn span(text: &str) -> Result<(u64, u64), String> {
    let (from, until) = text.split_once('-').ok_or_else(|| format!("'{text}' is not from-until"))?;
    Ok((number(from)?, number(until)?))
}

impl Args {
    /// Reads QEMU's `key=value` words.
    pub(crate) fn parse(raw: &[String]) -> Result<Args, String> {
        let mut args = Args {
            dir: String::new(),
            isa: Isa::Riscv64,
            period_insns: 0,
            jitter_seed: None,
            for_insns: None,
            max_insns: None,
            from: None,
            until: None,
            finisher: None,
            memory: Vec::new(),
            snapshot: None,
            max_depth: None,
            exact: false,
            marks: false,
            entry: None,
            kernel: Kernel::default(),
            console: String::new(),
            input: false,
            spans: Vec::new(),
            oracle: false,
        };
        let mut isa = None;
        for word in raw {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not key=value"))?;
            match key {
                "dir" => args.dir = value.to_owned(),
                "isa" => isa = Some(value.parse().map_err(|_| format!("unknown isa '{value}'"))?),
                "period" => args.period_insns = number(value)?,
                "jitter" => args.jitter_seed = Some(number(value)?),
                "for" => args.for_insns = Some(number(value)?),
                "max" => args.max_insns = Some(number(value)?),
                "from" => args.from = Some(number(value)?),
                "until" => args.until = Some(number(value)?),
                "finisher" => args.finisher = Some(number(value)?),
                "spans" => args.spans = value.split(':').map(span).collect::<Result<_, _>>()?,
                "oracle" => args.oracle = value == "on",
                "memory" => args.memory = value.split(':').map(range).collect::<Result<_, _>>()?,
                "depth" => args.max_depth = Some(number(value)?),
                "exact" => args.exact = value == "on",
                "marks" => args.marks = value == "on",
                "entry" => args.entry = Some(number(value)?),
                "current" => args.kernel.current = range(value)?,
                "running" => args.kernel.running = Some(range(value)?),
                "idle" => args.kernel.idle = value.split(':').map(number).collect::<Result<_, _>>()?,
                "name" => args.kernel.name = Some(range(value)?),
                "stack" => args.kernel.stack = Some(number(value)?),
                "stackend" => args.kernel.stack_end = Some(number(value)?),
                "switchers" => args.kernel.switchers = value.split(':').map(range).collect::<Result<_, _>>()?,
                "delete" => args.kernel.delete = Some(number(value)?),
                "console" => args.console = value.to_owned(),
                "input" => args.input = value == "on",
                "snapshot" => args.snapshot = Some(range(value)?),
                _ => return Err(format!("unknown argument '{key}'")),
            }
        }
        args.isa = isa.ok_or("no isa")?;
        let limits = [Some(args.period_insns), args.for_insns, args.max_insns];
        if limits.into_iter().flatten().any(|insns| insns == 0 || insns >= wire::counters::MAX_INSNS) {
            return Err("period, for and max must be at least 1 and below 2^48".into());
        }
        if args.dir.is_empty() {
            return Err("no dir".into());
        }
        Ok(args)
    }

    /// The file of what the firmware has printed.
    pub(crate) fn printed(&self) -> String {
        format!("{}.log", self.console)
    }

    /// Whether `bytes` bytes at `address` can be read without a device noticing.
    pub(crate) fn is_memory(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        end.is_some_and(|end| self.memory.iter().any(|range| range.start <= address && end <= range.end))
    }
}
