// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: after a command, the terminal shows its result and no remains of its progress. No line of progress is
//! wider than the terminal. A misplaced word is pointed out.

use std::fs;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::image;

/// Terminal with the few commands that progress is drawn with.
#[derive(Default)]
struct Screen {
    lines: Vec<String>,
    row: usize,
    /// Whether a progress bar was drawn.
    has_bar: bool,
    /// Lines with a bar that continued in the next line.
    too_wide: Vec<String>,
}

impl Screen {
    fn of(bytes: &[u8], width_columns: usize) -> Screen {
        let mut screen = Screen::default();
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars().peekable();
        let mut column = 0;
        screen.lines.push(String::new());
        while let Some(c) = rest.next() {
            match c {
                '\r' => column = 0,
                '\n' => {
                    screen.row += 1;
                    column = 0;
                    if screen.row == screen.lines.len() {
                        screen.lines.push(String::new());
                    }
                }
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['), "another command than those known");
                    let mut numbers = String::new();
                    let command = loop {
                        match rest.next().unwrap() {
                            digit @ ('0'..='9' | ';' | '?') => numbers.push(digit),
                            command => break command,
                        }
                    };
                    let number = numbers.parse::<usize>().unwrap_or(1);
                    match command {
                        'A' => screen.row = screen.row.saturating_sub(number),
                        'B' => {
                            screen.row += number;
                            screen.lines.resize(screen.lines.len().max(screen.row + 1), String::new());
                        }
                        'K' | 'J' => screen.lines[screen.row] = String::new(),
                        'm' | 'h' | 'l' => {}
                        other => panic!("unknown command {other} in {text:?}"),
                    }
                }
                c => {
                    // The last column is left only when more text follows: lines are filled up with spaces.
                    if column == width_columns {
                        let line = &screen.lines[screen.row];
                        if line.contains(['\u{2588}', '\u{2591}']) && !line.ends_with(' ') {
                            screen.too_wide.push(line.clone());
                        }
                        (screen.row, column) = (screen.row + 1, 0);
                        screen.lines.resize(screen.lines.len().max(screen.row + 1), String::new());
                    }
                    let line = &mut screen.lines[screen.row];
                    let kept: String = line.chars().take(column).collect();
                    let after: String = line.chars().skip(column + 1).collect();
                    *line = format!("{kept}{c}{after}");
                    column += 1;
                    screen.has_bar |= line.contains(['\u{2588}', '\u{2591}']);
                }
            }
        }
        screen
    }
}

/// Runs a command in a terminal with `columns` columns; `script` (util-linux) provides the terminal.
fn on_terminal(columns: usize, dir: &Path, words: &str) -> Screen {
    let line = format!("stty rows 24 cols {columns}; exec {} {words}", env!("CARGO_BIN_EXE_harness"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1").current_dir(dir);
    script.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
    Screen::of(&script.stdin(Stdio::null()).output().unwrap().stdout, columns)
}

#[test]
fn what_takes_long_is_said_to_be_under_way_until_it_is_done() {
    let temp = tempfile::tempdir().unwrap();
    let profile = crate::common::run("riscv64-bare", &[]);
    let pipe = temp.path().join("slow");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for words in ["export --format folded", "report"] {
        let harness = env!("CARGO_BIN_EXE_harness");
        let line = format!("stty rows 24 cols 80; exec {harness} {words} {} -o slow", profile.dir.display());
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1").current_dir(&temp);
        let mut script = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut shown = Vec::new();
        // The program blocks until its output is read.
        let mut screen = BufReader::new(script.stdout.take().unwrap());
        for byte in screen.by_ref().bytes() {
            shown.push(byte.unwrap());
            if shown.ends_with(b"writing slow: ") {
                break;
            }
        }
        assert!(shown.ends_with(b"writing slow: "), "{}", String::from_utf8_lossy(&shown));
        assert!(!fs::read(&pipe).unwrap().is_empty());
        screen.read_to_end(&mut shown).unwrap();
        assert!(script.wait().unwrap().success());
        let lines = Screen::of(&shown, 80).lines.join("\n");
        assert!(!lines.contains("writing"), "{words}: {lines}");
    }
}

#[test]
fn nothing_of_the_progress_stays_behind_and_no_bar_is_wider_than_the_terminal() {
    let temp = tempfile::tempdir().unwrap();
    let entry = |name: &str| format!("[[image]]\nelf = {:?}\nfor = \"20M\"\n", image(name));
    let suite = ["cortex-m3-freertos", "cortex-m3-interpreter", "riscv64-freertos"].map(entry).concat();
    fs::write(temp.path().join("harness.toml"), suite).unwrap();
    for columns in [80, 40] {
        let screen = on_terminal(columns, temp.path(), "test --no-cache");
        let text = screen.lines.join("\n");
        assert!(screen.has_bar && screen.too_wide.is_empty(), "{:?} of {columns}:\n{text}", screen.too_wide);
        assert!(!text.contains(['\u{2588}', '\u{2591}']) && !text.contains("MIPS"), "{text}");
        // One line each, then the verdict and the reports; a leftover progress line would begin with a name.
        assert!(screen.lines.iter().filter(|line| line.starts_with("PASS")).count() == 3, "{text}");
        assert!(!screen.lines.iter().any(|line| line.starts_with("cortex") || line.starts_with("riscv")), "{text}");
        let quiet = on_terminal(columns, temp.path(), "test --no-cache -q");
        assert!(!quiet.has_bar && quiet.lines[0].starts_with("3 of 3 passed"), "{}", quiet.lines.join("\n"));
        let words = format!("{} --for 20M -o out", image("cortex-m3-freertos").display());
        let screen = on_terminal(columns, temp.path(), &words);
        assert!(screen.has_bar && screen.too_wide.is_empty(), "{:?}:\n{}", screen.too_wide, screen.lines.join("\n"));
        let words = screen.lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(words.contains("note: `harness report out` makes a page of it"), "{words}");
    }
}

fn harness(dir: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_harness")).current_dir(dir).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_word_that_is_not_where_it_belongs_is_pointed_at() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let said = "error: no such command `prfile`; did you mean `profile`?\n".to_owned();
    assert_eq!(harness(dir, &["prfile"]), (Some(2), String::new(), said.clone()));
    assert_eq!(harness(dir, &["prfile", "fw.elf", "--exact"]), (Some(2), String::new(), said));
    let (code, formats, _) = harness(dir, &["export"]);
    assert_eq!((code, formats.lines().count()), (Some(0), harness::export::FORMATS.len()), "{formats}");
    assert_eq!(harness(dir, &["list", "formats"]).1, formats);
    let (code, stdout, stderr) = harness(dir, &["export", "fw.profile"]);
    assert_eq!((code, &*stdout), (Some(2), ""));
    assert!(
        stderr.starts_with("error: no format: choose one with --format\n") && stderr.contains(&formats),
        "{stderr}"
    );
    assert!(harness(dir, &["export", "-f", "csv"]).2.starts_with("error: no profile"));
}

#[test]
fn a_machine_or_processor_that_there_is_not_is_answered_before_qemu_runs() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    for (name, args, said) in [
        (
            "cortex-m3-bare",
            &["--machine", "mps2-an38x"][..],
            "--machine mps2-an38x: qemu-system-arm has no machine of that name (did you mean mps2-an385?)",
        ),
        (
            "riscv64-bare",
            &["--machine", "vrit,aclint=on"],
            "--machine vrit: qemu-system-riscv64 has no machine of that name (did you mean virt?)",
        ),
        (
            "riscv64-bare",
            &["--cpu", "rv46"],
            "--cpu rv46: qemu-system-riscv64 has no processor of that name (did you mean rv64?)",
        ),
        ("riscv64-bare", &["--cpu", "rv64x,zbb=on"], "(did you mean rv64?)"),
        (
            "cortex-m3-bare",
            &["--cpu", "cortex-m33x"],
            "--cpu cortex-m33x: no machine has that processor (did you mean cortex-m33?)",
        ),
        ("cortex-m3-bare", &["--machine", "mps2-an385", "--cpu", "cortex-m3x"], "(did you mean cortex-m3?)"),
    ] {
        let elf = image(name).display().to_string();
        let (code, stdout, stderr) = harness(dir, &[&[&*elf, "-o", "fw.profile"], args].concat());
        assert_eq!((code, &*stdout), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{args:?}: {stderr}");
        assert!(!dir.join("fw.profile").exists());
    }
    // A machine that QEMU has but the table of machines lacks still runs.
    let elf = image("cortex-m3-bare").display().to_string();
    let (code, _, stderr) = harness(dir, &[&elf, "--machine", "mps2-an511", "-q", "-o", "fw.profile"]);
    assert!(code == Some(0) && stderr.contains("not in the table of machines"), "{stderr}");
}

/// Lines of words with single spaces.
fn sentences(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim_start().contains("  ") && line.contains(' ')).collect()
}

#[test]
fn sentences_fit_the_terminal_and_are_whole_in_a_pipe() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let elf = image("cortex-m3-freertos").display().to_string();
    let (code, _, stderr) = harness(dir, &[&elf, "--for", "2M", "-o", "fw.profile"]);
    assert_eq!(code, Some(0), "{stderr}");
    let (_, piped, notes) = harness(dir, &["top", "fw.profile", "-v"]);
    let long: Vec<&str> = sentences(&piped).into_iter().filter(|line| line.chars().count() > 60).collect();
    assert!(long.len() >= 3, "{piped}");
    let screen = on_terminal(60, dir, "top fw.profile -v");
    let joined = screen.lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    for line in long.iter().chain(&sentences(&notes)) {
        assert!(joined.contains(line), "{line:?} is cut in\n{}", screen.lines.join("\n"));
    }
    assert!(screen.lines.iter().all(|line| line.chars().count() <= 60), "{}", screen.lines.join("\n"));
}

#[test]
fn what_seldom_matters_is_shown_by_verbose() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let run = |name: &str, args: &[&str]| {
        let elf = image(name).display().to_string();
        let (_, stdout, stderr) = harness(dir, &[&[&*elf, "-o", "fw.profile", "--for", "200k"], args].concat());
        stdout + &stderr
    };
    let seldom = ["hottest of ", " standard deviations", "  not "];
    let (plain, verbose) = (run("cortex-m3-bare", &[]), run("cortex-m3-bare", &["-v"]));
    for word in seldom {
        assert!(!plain.contains(word) && verbose.contains(word), "{word}\n{plain}\n{verbose}");
    }
    // Details are shown when they matter: for failing firmware the other machines, for unnamed code the addresses.
    let failed = run("cortex-m3-lockup-busfault", &[]);
    assert!(failed.contains("note: other machines have memory") && failed.contains("\n  not "), "{failed}");
    // An exit with a status, and a fault at an address at which no chip has anything, do not come from the machine. The
    // next step is the place of the failure and the code that is to blame, not the hottest function.
    for (name, code) in [("cortex-m3-exit3", ""), ("cortex-m3-faulting", "annotate fw.profile SystemClock_Config`")] {
        let failed = run(name, &[]);
        assert!(!["  not ", "--chip", "chip learn", "hottest"].iter().any(|word| failed.contains(word)), "{failed}");
        assert!(failed.contains("`harness debug fw.profile --at crash --elf ") && failed.contains(code), "{failed}");
    }
    let stripped = run("cortex-m3-bare-stripped", &[]);
    assert!(stripped.contains("hottest of "), "{stripped}");
    let top = |args: &[&str]| harness(dir, &[&["top", "fw.profile"], args].concat()).1;
    assert!(!top(&[]).contains(seldom[1]) && top(&["-v"]).contains(seldom[1]), "{}", top(&["-v"]));
}

#[test]
fn functions_and_tasks_can_be_listed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let elf = image("cortex-m3-freertos").display().to_string();
    assert_eq!(harness(dir, &[&elf, "-q", "--for", "2M", "-o", "fw.profile"]).0, Some(0));
    let list = |words: &[&str]| harness(dir, &[&["list"], words].concat());
    let (of_image, of_profile) = (list(&["functions", &elf]).1, list(&["functions", "fw.profile"]).1);
    let names = |text: &str, column: usize| -> Vec<String> {
        text.lines().skip(1).map(|line| line.split_whitespace().nth(column).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&of_image, 2), names(&of_profile, 3));
    assert!(names(&of_image, 2).contains(&"crc32_table".to_owned()), "{of_image}");
    let insns = |line: &str| line.split_whitespace().nth(2).unwrap().replace(',', "").parse::<u64>().unwrap();
    let all: u64 = of_profile.lines().skip(1).map(insns).sum();
    assert!(all > 1_900_000 && all <= 2_000_000, "{all}");
    let (code, tasks, _) = list(&["tasks", "fw.profile"]);
    assert!(code == Some(0) && tasks.starts_with("Task ") && tasks.contains("\ncrc "), "{tasks}");
    assert!(tasks.lines().all(|line| !line.is_empty()) && tasks.contains("Stack left"), "{tasks}");
    for (words, what) in [
        (&["tasks", &*elf][..], "tasks exist only in a run"),
        (&["functions"], "required"),
        (&["machines", "fw.profile"], "leave it out"),
        (&["functions", "missing"], "missing"),
    ] {
        let (code, stdout, stderr) = list(words);
        assert!(code == Some(2) && stdout.is_empty() && stderr.contains(what), "{words:?}: {stderr}");
    }
}

#[test]
fn a_page_is_opened_by_the_command_that_the_environment_names() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let elf = image("riscv64-exit0").display().to_string();
    assert_eq!(harness(dir, &[&elf, "-q", "-o", "fw.profile"]).0, Some(0));
    let report = |browser: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command.args(["report", "fw.profile", "--open"]).current_dir(dir).env("BROWSER", browser);
        command.output().unwrap()
    };
    // The pipe ends once the browser's replacement has written to it.
    let (browser, seen) = (dir.join("browser"), dir.join("seen"));
    nix::unistd::mkfifo(&seen, nix::sys::stat::Mode::S_IRWXU).unwrap();
    crate::common::program(&browser, &format!("echo \"$1\" > '{}'", seen.display()));
    assert!(report(&browser).status.success());
    assert_eq!(fs::read_to_string(&seen).unwrap(), "fw.html\n");
    let missing = report(&dir.join("none"));
    assert_eq!(missing.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(stderr.contains("fw.html: was written, but no browser was found"), "{stderr}");
    let (code, _, stderr) = harness(dir, &["report", "fw.profile", "--open", "-o", "-"]);
    assert!(code == Some(2) && stderr.contains("--open shows a file"), "{stderr}");
    // Each page has the name of what it shows, so that the next one does not replace it.
    for (dir, words, page) in [
        (dir, &["fw.profile", "--before", "fw.profile"][..], "fw-against-fw.html"),
        (dir, &["fw.profile/profile.fwp"], "fw.html"),
        (&dir.join("fw.profile"), &["."], "fw.html"),
    ] {
        let (code, _, stderr) = harness(dir, &[&["report"], words].concat());
        assert!(code == Some(0) && stderr.contains(&format!("{page}: open it in a browser")), "{stderr}");
        assert!(dir.join(page).is_file());
    }
}

#[test]
fn an_option_after_the_firmware_is_the_firmwares_and_is_said_to_be() {
    let temp = tempfile::tempdir().unwrap();
    let cmdline = image("cortex-m3-cmdline");
    let run = |words: &[&str]| {
        let words = [&["run", "-o", "out", cmdline.to_str().unwrap()], words].concat();
        harness(temp.path(), &words)
    };
    let (_, stdout, stderr) = run(&["--exact", "--for", "1M"]);
    assert!(stdout.contains("--exact --for 1M"), "{stdout}");
    assert_eq!(stderr.matches("is passed to the firmware").count(), 1, "{stderr}");
    assert!(stderr.starts_with("harness: note: `--exact` after the firmware"), "{stderr}");
    assert!(!run(&["--", "--exact"]).2.contains("is passed to the firmware"));
}

#[test]
fn quiet_says_only_what_went_wrong_and_each_file_of_a_build_has_its_profile() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    for ending in ["elf", "hex"] {
        fs::copy(image(&format!("cortex-m3-bare.{ending}")), dir.join(format!("fw.{ending}"))).unwrap();
        let (code, stdout, stderr) = harness(dir, &["-q", &format!("fw.{ending}")]);
        assert_eq!((code, &*stdout), (Some(0), ""), "{stderr}");
        // Warnings are allowed: a HEX file has no symbols.
        assert!(stderr.lines().all(|line| line.starts_with("warning: ")), "{stderr}");
    }
    assert!(dir.join("fw.profile").is_dir() && dir.join("fw.hex.profile").is_dir());
    let (code, stdout, stderr) = harness(dir, &["-q", "fw.elf", "--max-insns", "1000"]);
    assert_eq!((code, &*stdout), (Some(4), ""));
    assert!(stderr.ends_with("end: the firmware had not ended after --max-insns 1,000 instructions\n"), "{stderr}");
    let colored = harness(dir, &["top", "missing.profile", "--color", "always"]).2;
    assert!(colored.starts_with("\x1b[31m\x1b[1merror:\x1b[0m missing.profile"), "{colored:?}");
    assert!(harness(dir, &["top", "missing.profile"]).2.starts_with("error: missing.profile"));
    let sorted = harness(dir, &["top", "fw.profile", "--sort", "inclusive", "--top", "1"]).1;
    let [head, first] = [0, 1].map(|line| sorted.lines().nth(line).unwrap_or_default());
    assert!(head.contains("Share") && head.contains("Inclusive"), "{sorted}");
    assert!(first.starts_with("Reset_Handler") || first.starts_with("main"), "{sorted}");
    let (code, _, stderr) = harness(dir, &["top", "fw.profile", "--sort", "max"]);
    assert!(code == Some(2) && stderr.contains("--exact"), "{stderr}");
}

#[test]
fn headings_and_heat_are_the_same_in_every_table_and_a_pipe_has_none() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let elf = image("cortex-m3-freertos").display().to_string();
    for (insns, name) in [("2M", "fw.profile"), ("1M", "old.profile")] {
        assert_eq!(harness(dir, &[&elf, "-q", "--for", insns, "-o", name]).0, Some(0));
    }
    let style = regex::Regex::new("\x1b\\[[0-9;]*m").unwrap();
    for (words, has_heat) in [
        (&["top", "fw.profile"][..], true),
        (&["bins", "fw.profile"], true),
        (&["diff", "old.profile", "fw.profile"], true),
        (&["list", "tasks", "fw.profile"], true),
        (&["list", "functions", "fw.profile"], false),
        (&["callers", "fw.profile", "crc32_table"], false),
    ] {
        let plain = harness(dir, words).1;
        let colored = harness(dir, &[words, &["--color", "always"]].concat()).1;
        assert_eq!(style.replace_all(&colored, ""), plain, "{words:?}");
        assert!(!plain.contains('\x1b') && !plain.contains(['\u{fdd0}', '\u{fdd2}']), "{words:?}: {plain}");
        assert!(colored.contains("\x1b[1m"), "{words:?}: {colored:?}");
        assert_eq!(colored.contains("\x1b[31m\x1b[1m"), has_heat, "{words:?}: {colored:?}");
    }
}
