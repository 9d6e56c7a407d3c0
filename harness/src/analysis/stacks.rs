// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks with names: turns a sample or a node of the exact tree into readable frames.
//!
//! A stack is, from the outside in: the task (if there are tasks), the callers with inlined functions, interrupts
//! above the interrupted code, and the executing function.

use std::collections::{BTreeMap, BTreeSet};

use decode::Isa;
use rustc_hash::FxHashMap;
use wire::definition::{FrameKind, NodeKind, Unknown};

use crate::analysis::cold_part::ColdParts;
use crate::analysis::owner::Owner;
use crate::analysis::rtic;
use crate::profile::{Profile, SpanKind, StackFrame, Task};
use crate::text::printable::printable;

/// Settings for showing stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether interrupts have roots of their own.
    pub fold_irqs: bool,
}

/// One frame of a shown stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Its name.
    pub name: String,
    /// Role of the frame.
    pub role: FrameRole,
}

/// Role of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameRole {
    /// A task.
    Task,
    /// An interrupt or trap.
    Irq,
    /// A function as the linker placed it.
    Function,
    /// A function inlined into the frame before.
    Inlined,
    /// Code without a name, or the reason why the rest is not known.
    Other,
}

impl Frame {
    fn new(role: FrameRole, name: impl Into<String>) -> Frame {
        Frame { name: name.into(), role }
    }
}

/// Root of functions without a sample.
pub const NOT_SAMPLED: &str = "[not sampled]";

/// Level of code before the scheduler, if there are tasks.
pub const NO_TASK: &str = "[no task]";

/// Frame between two functions of the exact call tree whose call the exact counts contradict.
pub const CONTRADICTED: &str = "[contradicted by the calls]";

/// Frame of instructions outside of all called functions.
pub const NO_FUNCTION: &str = "[no function]";

/// Reason why the rest of a stack is not known, as text.
pub fn why(unknown: Unknown) -> &'static str {
    match unknown {
        Unknown::NoUnwindInfo => "[no unwind info]",
        Unknown::NotKept => "[caller not kept]",
        Unknown::Corrupt => "[corrupt stack]",
        Unknown::TooDeep => "[deeper than --max-depth]",
        Unknown::Disproved => "[disproved by the calls]",
    }
}

/// Suffixes of interrupt handlers' names.
const HANDLER_SUFFIXES: [&str; 7] = ["_IRQHandler", "IRQHandler", "_Handler", "_handler", "_ISR", "_isr", "ISR"];

/// First number of the chip's own interrupts (Cortex-M).
const FIRST_EXTERNAL: u64 = 16;

/// Bit of RISC-V's mcause, widened to 64 bits, that marks interrupts.
const INTERRUPT: u64 = 1 << 63;

/// Names of a profile's exceptions.
#[derive(Debug)]
pub struct Exceptions<'a> {
    profile: &'a Profile,
    /// Handlers by the exception's node in the tree.
    handlers: BTreeMap<u32, u64>,
    /// Handlers of several interrupts, whose names identify none of them.
    shared: BTreeSet<u64>,
    /// Tasks that handlers run, by the handlers' names.
    tasks: BTreeMap<String, BTreeSet<String>>,
}

/// Separator between an interrupt and the tasks that it runs, and separator between these tasks.
const RUNS: &str = ": ";
const AND: &str = ", ";

/// Whether a name refers to an interrupt with this shown name; see [`words_of`] for the other names.
pub fn is_interrupt(shown: &str, name: &str) -> bool {
    shown == name || words_of(shown).contains(&name)
}

/// Names that refer to an interrupt besides its shown name: without brackets, without its tasks, and each of its tasks.
pub fn words_of(shown: &str) -> Vec<&str> {
    let bare = shown.strip_prefix("[irq ").or_else(|| shown.strip_prefix("[trap "));
    let bare = bare.and_then(|bare| bare.strip_suffix(']'));
    let parts = bare.and_then(|bare| bare.split_once(RUNS));
    let parts = parts.into_iter().flat_map(|(interrupt, tasks)| [interrupt].into_iter().chain(tasks.split(AND)));
    bare.into_iter().chain(parts).collect()
}

impl<'a> Exceptions<'a> {
    /// Names for a profile's exceptions.
    pub fn new(profile: &'a Profile) -> Exceptions<'a> {
        let mut handlers = BTreeMap::new();
        let mut numbers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for node in &profile.tree {
            if let NodeKind::Function { entry } = node.kind
                && let Some(index) = node.parent.checked_sub(1)
                && let Some(NodeKind::Exception { number }) = profile.tree.get(index as usize).map(|node| node.kind)
            {
                // The first function of an exception is its handler.
                let handler = *handlers.entry(node.parent).or_insert(entry);
                numbers.entry(handler & !1).or_default().insert(number);
            }
        }
        for frame in &profile.stacks {
            if let FrameKind::Exception { number, handler, .. } = frame.kind {
                numbers.entry(handler & !1).or_default().insert(number);
            }
        }
        let several = |numbers: &BTreeSet<u64>| numbers.range(FIRST_EXTERNAL..).count() > 1;
        let shared = numbers.into_iter().filter(|(_, numbers)| several(numbers)).map(|(handler, _)| handler);
        Exceptions { profile, handlers, shared: shared.collect(), tasks: rtic::tasks(profile) }
    }

    /// Name of an exception: the architecture's, or the handler's for the chip's own interrupts. An RTIC handler's
    /// tasks follow.
    pub fn name(&self, number: u64, handler: u64) -> String {
        let name = self.bare_name(number, handler);
        let own = Some(handler & !1).filter(|handler| !self.shared.contains(handler));
        let function = own.and_then(|handler| self.profile.names.function_at(handler));
        match (function.and_then(|function| self.tasks.get(&function.name)), name.strip_suffix(']')) {
            (Some(tasks), Some(open)) => {
                let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
                format!("{open}{RUNS}{}]", tasks.join(AND))
            }
            _ => name,
        }
    }

    /// Names of all exceptions that came, that the architecture has, or that have a handler of that name.
    pub fn names(&self) -> BTreeSet<String> {
        let profile = self.profile;
        let mut names = BTreeSet::new();
        for frame in &profile.stacks {
            if let FrameKind::Exception { number, handler, .. } = frame.kind {
                names.insert(self.name(number, handler));
            }
        }
        for (node, number) in (1..).zip(&profile.tree) {
            if let NodeKind::Exception { number } = number.kind {
                names.insert(self.at(node, number));
            }
        }
        for span in &profile.spans {
            if let SpanKind::Exception { number } = span.kind {
                names.insert(self.name(number, span.longest_at));
            }
        }
        if profile.facts.isa().is_some_and(Isa::is_avr) {
            let vectors = avr_vectors(&profile.facts.machine).len() as u64;
            names.extend((1..vectors).map(|number| self.bare_name(INTERRUPT | number, 0)));
        } else if profile.facts.is_arm() {
            names.extend((1..FIRST_EXTERNAL).map(|number| self.bare_name(number, 0)));
        } else {
            names.extend((0..=FIRST_EXTERNAL).flat_map(|cause| [cause, cause | INTERRUPT]).map(riscv_trap));
        }
        for function in &profile.names.functions {
            let bare = HANDLER_SUFFIXES.iter().find_map(|suffix| function.name.strip_suffix(suffix));
            names.extend(bare.map(|bare| format!("[irq {bare}]")));
        }
        let tasks = self.tasks.iter().flat_map(|(handler, tasks)| tasks.iter().chain([handler]));
        names.extend(tasks.map(|name| format!("[irq {name}]")));
        names
    }

    fn bare_name(&self, number: u64, handler: u64) -> String {
        if self.profile.facts.isa().is_some_and(Isa::is_avr) {
            return avr_interrupt(&self.profile.facts.machine, number & !INTERRUPT);
        }
        if !self.profile.facts.is_arm() {
            return riscv_trap(number);
        }
        // Armv7-M Architecture Reference Manual B1.5.2; 7 is Armv8-M's.
        let name = match number {
            1 => "Reset",
            2 => "NMI",
            3 => "HardFault",
            4 => "MemManage",
            5 => "BusFault",
            6 => "UsageFault",
            7 => "SecureFault",
            11 => "SVCall",
            12 => "DebugMonitor",
            14 => "PendSV",
            15 => "SysTick",
            _ => "",
        };
        if !name.is_empty() {
            return format!("[irq {name}]");
        }
        let own = Some(handler & !1).filter(|handler| !self.shared.contains(handler));
        let function = own.and_then(|handler| self.profile.names.function_at(handler));
        let bare = function.map(|function| {
            let name = function.name.as_str();
            HANDLER_SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
        });
        match bare.filter(|name| !name.is_empty() && !name.to_ascii_lowercase().contains("default")) {
            Some(name) => format!("[irq {name}]"),
            // Lower numbers are exceptions that the architecture reserves.
            None if number < FIRST_EXTERNAL => format!("[exception {number}]"),
            None => format!("[irq {}]", number - FIRST_EXTERNAL),
        }
    }

    /// Name of an exception in the exact tree.
    pub(crate) fn at(&self, node: u32, number: u64) -> String {
        self.name(number, self.handlers.get(&node).copied().unwrap_or(0))
    }
}

/// Vectors of the ATmega48 to ATmega328P, by number (ATmega328P data sheet, "Reset and Interrupt Vectors").
const ATMEGA328P: [&str; 26] = [
    "RESET",
    "INT0",
    "INT1",
    "PCINT0",
    "PCINT1",
    "PCINT2",
    "WDT",
    "TIMER2_COMPA",
    "TIMER2_COMPB",
    "TIMER2_OVF",
    "TIMER1_CAPT",
    "TIMER1_COMPA",
    "TIMER1_COMPB",
    "TIMER1_OVF",
    "TIMER0_COMPA",
    "TIMER0_COMPB",
    "TIMER0_OVF",
    "SPI_STC",
    "USART_RX",
    "USART_UDRE",
    "USART_TX",
    "ADC",
    "EE_READY",
    "ANALOG_COMP",
    "TWI",
    "SPM_READY",
];

/// Vectors of the ATmega640 to ATmega2560, by number (ATmega2560 data sheet, "Reset and Interrupt Vectors").
const ATMEGA2560: [&str; 57] = [
    "RESET",
    "INT0",
    "INT1",
    "INT2",
    "INT3",
    "INT4",
    "INT5",
    "INT6",
    "INT7",
    "PCINT0",
    "PCINT1",
    "PCINT2",
    "WDT",
    "TIMER2_COMPA",
    "TIMER2_COMPB",
    "TIMER2_OVF",
    "TIMER1_CAPT",
    "TIMER1_COMPA",
    "TIMER1_COMPB",
    "TIMER1_COMPC",
    "TIMER1_OVF",
    "TIMER0_COMPA",
    "TIMER0_COMPB",
    "TIMER0_OVF",
    "SPI_STC",
    "USART0_RX",
    "USART0_UDRE",
    "USART0_TX",
    "ANALOG_COMP",
    "ADC",
    "EE_READY",
    "TIMER3_CAPT",
    "TIMER3_COMPA",
    "TIMER3_COMPB",
    "TIMER3_COMPC",
    "TIMER3_OVF",
    "USART1_RX",
    "USART1_UDRE",
    "USART1_TX",
    "TWI",
    "SPM_READY",
    "TIMER4_CAPT",
    "TIMER4_COMPA",
    "TIMER4_COMPB",
    "TIMER4_COMPC",
    "TIMER4_OVF",
    "TIMER5_CAPT",
    "TIMER5_COMPA",
    "TIMER5_COMPB",
    "TIMER5_COMPC",
    "TIMER5_OVF",
    "USART2_RX",
    "USART2_UDRE",
    "USART2_TX",
    "USART3_RX",
    "USART3_UDRE",
    "USART3_TX",
];

/// Vectors of a machine's device; empty: unknown.
fn avr_vectors(machine: &str) -> &'static [&'static str] {
    match machine {
        "uno" | "arduino-uno" | "2009" | "arduino-duemilanove" => &ATMEGA328P,
        "mega" | "arduino-mega" | "mega2560" | "arduino-mega-2560-v3" => &ATMEGA2560,
        _ => &[],
    }
}

/// Name of an AVR's interrupt by its vector's number, as avr-libc names the vectors of the machine's device.
fn avr_interrupt(machine: &str, number: u64) -> String {
    match usize::try_from(number).ok().and_then(|number| avr_vectors(machine).get(number)) {
        Some(name) => format!("[irq {name}]"),
        None => format!("[irq {number}]"),
    }
}

/// Name of a RISC-V trap by mcause: RISC-V Privileged Architecture, "Machine Cause (mcause) Register".
fn riscv_trap(number: u64) -> String {
    if number & INTERRUPT != 0 {
        return match number & !INTERRUPT {
            1 => "[irq supervisor software]".to_owned(),
            3 => "[irq software]".to_owned(),
            5 => "[irq supervisor timer]".to_owned(),
            7 => "[irq timer]".to_owned(),
            9 => "[irq supervisor external]".to_owned(),
            11 => "[irq external]".to_owned(),
            other => format!("[irq {other}]"),
        };
    }
    let name = match number {
        0 => "instruction address misaligned",
        1 => "instruction access fault",
        2 => "illegal instruction",
        3 => "breakpoint",
        4 => "load address misaligned",
        5 => "load access fault",
        6 => "store address misaligned",
        7 => "store access fault",
        8 | 9 | 11 => "ecall",
        12 => "instruction page fault",
        13 => "load page fault",
        15 => "store page fault",
        other => return format!("[trap {other}]"),
    };
    format!("[trap {name}]")
}

/// Names of the tasks, in the tasks' order. They are distinct in each table and export: names that look alike there are
/// numbered as namesakes, and a name of which nothing would be seen is replaced by the task's address.
pub fn task_names(profile: &Profile) -> Vec<String> {
    let bare = |task: &Task| {
        if look(&task.name).is_empty() { format!("{:#x}", task.tcb) } else { task.name.clone() }
    };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    // A task whose own name is "NAME (2)" keeps it: a namesake of NAME gets the next number.
    let given: BTreeSet<String> = profile.tasks.iter().map(|task| look(&bare(task))).collect();
    // Next number of a namesake, by how the name looks.
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let names = profile.tasks.iter().map(|task| {
        let name = bare(task);
        let shown = look(&name);
        if taken.insert(shown.clone()) {
            return name;
        }
        let count = next.entry(shown).or_insert(2);
        loop {
            let numbered = format!("{name} ({count})");
            *count += 1;
            let shown = look(&numbered);
            if !given.contains(&shown) && taken.insert(shown) {
                return numbered;
            }
        }
    });
    names.collect()
}

/// Visible form of a name: characters that are not shown are all alike, joiners take no room, pages and tables show
/// white space as one space, and a semicolon is a colon in a picture.
fn look(name: &str) -> String {
    let name: String = printable(name).chars().filter(|letter| !matches!(letter, '\u{200c}' | '\u{200d}')).collect();
    name.replace(';', ":").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Frames that execute at an address: the function, also in its part, then functions inlined there.
pub fn at(profile: &Profile, parts: &ColdParts, pc: u64) -> Vec<Frame> {
    let place = parts.owner(profile, pc);
    let role = if matches!(place, Owner::Function(_)) { FrameRole::Function } else { FrameRole::Other };
    let mut frames = vec![Frame::new(role, place.to_string())];
    let name = |index: u32| profile.names.strings.get(index as usize).map_or("?", String::as_str);
    let inlined = profile.names.frames_at(pc).iter().filter(|frame| frame.inlined);
    frames.extend(inlined.map(|frame| Frame::new(FrameRole::Inlined, name(frame.function))));
    frames
}

/// Samples with an incomplete stack, by reason.
pub fn unknown(profile: &Profile) -> BTreeMap<Unknown, u64> {
    let mut counts = BTreeMap::new();
    for (stack, samples) in by_stack(profile) {
        if let Some(StackFrame { kind: FrameKind::Unknown(why), .. }) = profile.stack(stack).first() {
            *counts.entry(*why).or_default() += samples;
        }
    }
    counts
}

/// Samples by innermost interrupt.
pub fn interrupts(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let exceptions = Exceptions::new(profile);
    for (stack, samples) in by_stack(profile) {
        let innermost = profile.stack(stack).iter().rev().find_map(|frame| match frame.kind {
            FrameKind::Exception { number, handler, .. } => Some(exceptions.name(number, handler)),
            _ => None,
        });
        if let Some(name) = innermost {
            *counts.entry(name).or_default() += samples;
        }
    }
    counts
}

/// Samples by stack.
fn by_stack(profile: &Profile) -> FxHashMap<u32, u64> {
    let mut counts = FxHashMap::default();
    for sample in &profile.samples {
        *counts.entry(sample.stack).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::{self, empty};

    const TIMER: u64 = 1 << 63 | 7;

    #[test]
    fn tasks_of_one_name_are_told_apart_whatever_others_are_called() {
        let names =
            |names: &[&str]| task_names(&names.iter().fold(empty(), |profile, name| profile.task_called(name)));
        assert_eq!(names(&["a", "b", "a", "a"]), ["a", "b", "a (2)", "a (3)"]);
        assert_eq!(names(&["a", "a", "a (2)"]), ["a", "a (3)", "a (2)"]);
        assert_eq!(names(&["a (2)", "a", "a"]), ["a (2)", "a", "a (3)"]);
        assert_eq!(names(&["", ""]), ["0x20000000", "0x20000100"]);
        // Names that differ only by what is not shown look alike.
        assert_eq!(names(&["a\u{1}", "a\u{2}", "a\u{202e}"]), ["a\u{1}", "a\u{2} (2)", "a\u{202e} (3)"]);
        assert_eq!(
            names(&["a b", "a  b ", "a\u{200d} b", "a b (2)"]),
            ["a b", "a  b  (3)", "a\u{200d} b (4)", "a b (2)"]
        );
        assert_eq!(names(&[" ", "\u{200d}", "0x20000000"]), ["0x20000000", "0x20000100", "0x20000000 (2)"]);
        assert_eq!(names(&["a:b", "a;b"]), ["a:b", "a;b (2)"]);
    }

    #[test]
    fn interrupts_are_called_like_their_handlers_unless_these_are_shared_or_have_no_name() {
        let profile = empty()
            .function("SysTick_Handler", 0x40, 4)
            .function("UART0_IRQHandler", 0x44, 4)
            .function("timer_isr", 0x48, 4)
            .function("DMAISR", 0x4c, 4)
            .function("Default_Handler", 0x50, 4)
            .function("Infinite_Loop", 0x54, 4)
            .exception(0, 21, 0x55, 0)
            .exception(0, 22, 0x54, 0);
        let exceptions = Exceptions::new(&profile);
        let names = [
            (15, 0x50, "[irq SysTick]"),
            (11, 0, "[irq SVCall]"),
            (16, 0x45, "[irq UART0]"),
            (17, 0x48, "[irq timer]"),
            (18, 0x4c, "[irq DMA]"),
            (20, 0x50, "[irq 4]"),
            (20, 0x900, "[irq 4]"),
            (21, 0x55, "[irq 5]"),
            (22, 0x54, "[irq 6]"),
            (13, 0x900, "[exception 13]"),
        ];
        for (number, handler, name) in names {
            assert_eq!(exceptions.name(number, handler), name, "{number} {handler:#x}");
        }
    }

    #[test]
    fn interrupts_name_the_tasks_that_they_run_and_are_found_by_them() {
        let closure = |name: &str| format!("demo::app::{name}::{{closure#0}}");
        let profile = empty()
            .function("rtic::export::run", 0x20, 4)
            .function("SysTick", 0x40, 4)
            .function("GPIOA", 0x44, 4)
            .frames(0x42, &["SysTick", &closure("SysTick"), "demo::app::tick"])
            .frames(0x44, &["GPIOA", &closure("GPIOA"), "demo::app::log"])
            .frames(0x46, &["GPIOA", &closure("GPIOA"), "demo::app::blink"]);
        let exceptions = Exceptions::new(&profile);
        let [tick, dispatcher] = [exceptions.name(15, 0x41), exceptions.name(16, 0x45)];
        assert_eq!([&tick[..], &dispatcher], ["[irq SysTick: tick]", "[irq GPIOA: blink, log]"]);
        for name in ["SysTick", "tick", "SysTick: tick", "[irq SysTick: tick]"] {
            assert!(is_interrupt(&tick, name), "{name}");
        }
        assert!(is_interrupt(&dispatcher, "log") && !is_interrupt(&dispatcher, "lo"));
        assert!(is_interrupt("[irq UART0]", "UART0") && is_interrupt("[trap ecall]", "ecall"));
        assert!(!is_interrupt("[irq UART0]", "UART"));
    }

    #[test]
    fn traps_and_interrupts_of_riscv_are_told_apart() {
        let profile = empty().on_virt().function("trap_handler", 0x40, 4);
        let exceptions = Exceptions::new(&profile);
        let names = [
            (TIMER, "[irq timer]"),
            (1 << 63 | 3, "[irq software]"),
            (1 << 63 | 9, "[irq supervisor external]"),
            (1 << 63 | 16, "[irq 16]"),
            (7, "[trap store access fault]"),
            (2, "[trap illegal instruction]"),
            (11, "[trap ecall]"),
            (13, "[trap load page fault]"),
            (24, "[trap 24]"),
        ];
        for (number, name) in names {
            assert_eq!(exceptions.name(number, 0x40), name, "{number:#x}");
        }
    }

    #[test]
    fn stacks_that_end_early_say_why_and_are_counted() {
        let profile = Unknown::ALL.into_iter().fold(empty(), |profile, why| profile.unknown(why)).caller(2, 0x44);
        let profile = profile.taken(2, 0x40, 1, 0).taken(1, 0x40, 6, 0).taken(4, 0x40, 0, 0);
        assert_eq!(unknown(&profile), [(Unknown::NoUnwindInfo, 2), (Unknown::NotKept, 1)].into());
    }

    #[test]
    fn samples_belong_to_the_innermost_interrupt() {
        let profile = testing::interrupted().taken(3, 0x64, 2, 1).taken(2, 0x84, 4, 1).taken(5, 0x54, 1, 1);
        assert_eq!(interrupts(&profile), [("[irq SysTick]".into(), 3), ("[irq UART0]".into(), 2)].into());
    }
}
