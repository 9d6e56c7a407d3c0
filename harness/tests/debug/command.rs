// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness debug` as it is typed, and GDB as it is started by the line that it prints.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::built::{GROWING, cortex_m, scratch};
use crate::common::{harness, image, run, run_file};

/// Returns the message of a command that is refused with exit code 2.
fn refused(args: &[&str]) -> String {
    let output = harness().arg("debug").args(args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}: {said}");
    said
}

/// Starts a debugger's server; returns it with the line that connects GDB.
pub(crate) fn serve(args: &[&str]) -> (Child, String) {
    let mut command = harness();
    let mut child = command.arg("debug").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let line = first_line(&mut child);
    (child, line)
}

/// Reads the server's first line: the command that connects GDB.
pub(crate) fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Connects GDB by the line and executes the commands.
fn gdb(line: &str, commands: &[&str]) -> Output {
    let commands: String = commands.iter().map(|command| format!(" -ex '{command}'")).collect();
    let line = line.replacen("gdb-multiarch", "gdb-multiarch -nx -batch", 1);
    Command::new("sh").args(["-c", &format!("{line}{commands}")]).output().unwrap()
}

/// Exit code and standard error of a server that has ended.
pub(crate) fn end(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn gdb_goes_both_ways_from_a_sample_of_a_profile() {
    for name in ["riscv64-freertos", "cortex-m3-freertos-pg-Os"] {
        let run = run(name, &["--for", "8M"]);
        let (elf, profile) = (image(name), run.profile());
        let sample = &profile.samples[300];
        let dir = run.dir.to_str().unwrap();
        let (child, line) = serve(&[dir, "--elf", elf.to_str().unwrap(), "--at", "sample:301"]);
        let words: Vec<&str> = line.split_whitespace().collect();
        let socket = Path::new(words[words.iter().position(|&word| word == "remote").unwrap() + 1].trim_matches('"'));
        let folder = fs::metadata(socket.parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o700, "{name}");
        let output = gdb(
            &line,
            &[
                "printf \"at %#lx\\n\", (long)$pc",
                "info threads",
                "thread apply all bt",
                "break vTaskSwitchContext",
                "continue",
                "monitor where",
                "continue",
                "monitor where",
                "reverse-continue",
                "monitor where",
                "monitor goto sample:301",
                "delete",
                "stepi",
                "reverse-stepi",
                "printf \"again %#lx\\n\", (long)$pc",
            ],
        );
        // GDB prints the output of `monitor` commands on its standard error.
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).join("\n");
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{name}: {said}\n{log}");
        assert!(!socket.exists(), "{name}: the socket is left behind");
        // Registers that a waiting task has not saved are filled with those that all tasks share.
        assert!(!said.contains("is not available"), "{name}: {said}");
        let line_of = |word: &str| said.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default().trim();
        assert_eq!(line_of("at "), format!("{:#x}", sample.pc), "{name}: {said}");
        assert_eq!(line_of("again "), format!("{:#x}", sample.pc), "{name}: {said}");
        for task in harness::analysis::stacks::task_names(&profile) {
            assert!(said.contains(&task), "{name}: {task} is not a thread: {said}");
        }
        let places: Vec<&str> = said.lines().filter(|line| line.starts_with("instruction ")).collect();
        let [first, second, back, again] = places[..] else { panic!("{name}: {said}") };
        assert!(first.contains("vTaskSwitchContext") && second.contains("vTaskSwitchContext"), "{name}: {said}");
        assert!(first != second && back == first, "{name}: {said}");
        let number: String = again.chars().filter(char::is_ascii_digit).collect();
        assert!(number.starts_with(&sample.at_insns.to_string()), "{name}: {again}");
    }
}

#[test]
fn threads_of_other_kernels_have_names_states_and_backtraces() {
    // Of each image: the thread that executes, those that exist then, and the state and the stack of one of them.
    let riot = (&["main", "first", "sleeper"][..], "main: suspended", &["main_trampoline ("][..]);
    let on_riscv = (&["main", "first", "sleeper", "idle"][..], riot.1, riot.2);
    let nuttx =
        (&["Idle_Task", "init", "first", "sleeper"][..], "init: blocked", &["init_main (", "nxtask_start ("][..]);
    let threadx = (&["waiting", "ending"][..], "waiting: blocked", &["waits (", "_tx_thread_shell_entry ("][..]);
    let on_riscv_threadx = (
        &["north", "south", "night sleeper"][..],
        "night sleeper: blocked",
        &["sleeps (", "_tx_thread_shell_entry ("][..],
    );
    let zephyr = (
        &["philosophers", "philosophers+0x50", "z_main_thread", "z_idle_thread"][..],
        "philosophers: blocked",
        &["philosopher (", "z_thread_entry ("][..],
    );
    let on_riscv32 = ["philosophers", "philosophers+0x64", "z_main_thread", "z_idle_thread"];
    let on_riscv64 = ["philosophers", "philosophers+0xc8", "z_main_thread", "z_idle_thread"];
    let main = ("z_main_thread: blocked", &["z_swap (", "bg_thread_main (", "z_thread_entry ("][..]);
    for (name, executes, (threads, thread, stack)) in [
        ("cortex-m3-threadx-waits", "ending", threadx),
        ("cortex-m3-zephyr-waits", "z_main_thread", zephyr),
        ("riscv32-threadx", "south", on_riscv_threadx),
        ("riscv64-threadx", "south", on_riscv_threadx),
        ("riscv32-zephyr", "philosophers", (&on_riscv32[..], main.0, main.1)),
        ("riscv64-zephyr", "philosophers", (&on_riscv64[..], main.0, main.1)),
        ("cortex-m3-riot", "first", riot),
        ("riscv32-riot", "first", on_riscv),
        ("riscv64-riot", "first", on_riscv),
        ("cortex-m3-nuttx", "first", nuttx),
        ("riscv32-nuttx", "first", nuttx),
        ("riscv64-nuttx", "first", nuttx),
    ] {
        let run = run(name, &["--period", "101"]);
        let (elf, profile) = (image(name), run.profile());
        let names = harness::analysis::stacks::task_names(&profile);
        let task = names.iter().position(|name| name == executes).unwrap() + 1;
        let samples = profile.samples.iter().enumerate().filter(|(_, sample)| sample.task as usize == task);
        let numbers: Vec<usize> = samples.map(|(index, _)| index + 1).collect();
        let sample = numbers[numbers.len() / 2];
        let dir = run.dir.to_str().unwrap();
        let (child, line) = serve(&[dir, "--elf", elf.to_str().unwrap(), "--at", &format!("sample:{sample}")]);
        let output = gdb(&line, &["info threads", "thread apply all bt", "monitor task"]);
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).join("\n");
        let (code, log) = end(child);
        assert_eq!(code, Some(0), "{name}: {said}\n{log}");
        assert!(said.contains(thread), "{name}: {said}");
        // GDB's list: "  2    Thread 1.126576 (main: blocked) sleep () at …".
        let listed = said.lines().filter(|line| line.starts_with([' ', '*'])).filter_map(|line| {
            let (_, named) = line.split_once("Thread 1.")?.1.split_once('(')?;
            Some(named.split_once(": ")?.0)
        });
        let mut listed: Vec<&str> = listed.collect();
        listed.sort_unstable();
        let mut threads = threads.to_vec();
        threads.sort_unstable();
        assert_eq!(listed, threads, "{name}: {said}");
        let backtraces =
            said.split("\nThread ").filter(|part| part.starts_with(|first: char| first.is_ascii_digit()));
        let has_stack = |part: &str| {
            let places: Vec<Option<usize>> = stack.iter().map(|function| part.find(function)).collect();
            part.contains(thread) && places.iter().all(Option::is_some) && places.is_sorted()
        };
        assert!(backtraces.into_iter().any(has_stack), "{name}: {said}");
    }
}

#[test]
fn what_cannot_be_debugged_is_bad_input() {
    let run = run("cortex-m3-bare", &[]);
    let dir = run.dir.to_str().unwrap();
    let (elf, other) = (image("cortex-m3-bare"), image("cortex-m3-bare-pg"));
    let elf = elf.to_str().unwrap();
    let calls = run.profile();
    let main = calls.names.find("main").unwrap()[0].address;
    assert_eq!(
        harness::analysis::functions::table(&calls).rows.iter().filter(|row| row.start == Some(main)).count(),
        1
    );
    let said = refused(&[dir, "--elf", elf, "--at", "call:main:9"]);
    assert!(said.contains("call:main:1"), "{said}");
    let said = refused(&[dir, "--elf", elf, "--at", "samples:9"]);
    assert!(said.contains("sample"), "{said}");
    let said = refused(&[dir, "--elf", other.to_str().unwrap(), "--at", "end"]);
    assert!(said.contains(&calls.facts.image_sha256) && said.matches("SHA-256").count() == 1, "{said}");
    assert!(refused(&[dir, "--elf", "/nonexistent.elf"]).contains("/nonexistent.elf"));
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(refused(&[dir, "--elf", elf, "--port", &port]).contains(&port));
}

#[test]
fn nothing_stays_behind_a_server_that_is_killed() {
    let elf = image("cortex-m3-freertos-pg-Os");
    let (mut child, line) = serve(&[elf.to_str().unwrap(), "--for", "5M", "--at", "insn:4M"]);
    let copies = || {
        let group = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let is_ours = |pid: &str| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let stat = group(pid).unwrap_or_default();
            let is_over = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
            let root = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            !is_over && command.starts_with(b"/usr/bin/qemu") && root.to_string_lossy().contains("harness-debug-")
        };
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        all.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && is_ours(pid)).collect::<Vec<_>>()
    };
    // Processes of this server: QEMU is its child and leads the process group.
    let qemu = crate::common::child_of(child.id()).unwrap().to_string();
    let of_group = || {
        let is_in = |pid: &String| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields: Vec<String> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().map(str::to_owned).collect();
            fields.get(2) == Some(&qemu)
        };
        copies().into_iter().filter(is_in).count()
    };
    assert!(of_group() > 2, "QEMU and checkpoints");
    assert!(line.contains("target remote"));
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while of_group() > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(of_group(), 0);
}

#[test]
fn several_cpus_are_threads_and_count_in_one_order() {
    let elf = image("riscv64-smp");
    let elf = elf.to_str().unwrap();
    let smp = ["--qemu-arg=-smp", "--qemu-arg=2"];
    let profiled = run("riscv64-smp", &["--period", "1009"]);
    let profile = profiled.profile();
    let index = profile.samples.iter().rposition(|sample| sample.vcpu == 1).unwrap();
    let place = format!("sample:{}", index + 1);
    let (child, line) = serve(&[&[elf, "--period", "1009", "--at", &place], &smp[..]].concat());
    let output = gdb(
        &line,
        &[
            "printf \"at %#lx\\n\", (long)$pc",
            "info threads",
            "monitor where",
            "reverse-stepi",
            "stepi",
            "printf \"again %#lx\\n\", (long)$pc",
            "monitor stack",
            "monitor goto console:x",
        ],
    );
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).join("\n");
    let (code, log) = end(child);
    assert_eq!(code, Some(0), "{log}");
    let sample = &profile.samples[index];
    assert!(said.contains(&format!("at {:#x}\n", sample.pc)), "{said}");
    assert!(said.contains(&format!("again {:#x}\n", sample.pc)), "{said}");
    assert!(said.contains("cpu 1: running") && said.contains("cpu 0: not its turn"), "{said}");
    let own = harness::text::number::group(sample.at_insns);
    assert!(said.contains(&format!("cpu 1, its instruction {own}\n")), "{said}");
    assert!(said.contains(&format!("{place}, here")), "{said}");
    assert!(said.contains("a machine with one CPU"), "{said}");
}

#[test]
fn the_profiled_file_is_found_by_its_content_wherever_it_lies_below() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    fs::create_dir_all(at("project/out/deep")).unwrap();
    fs::create_dir_all(at("elsewhere")).unwrap();
    fs::copy(image("cortex-m3-exit0"), at("project/fw.elf")).unwrap();
    let profiled = harness().current_dir(at("project")).args(["fw.elf", "-o", "fw.profile"]).output().unwrap();
    assert!(profiled.status.success());
    let served = |from: &str, profile: &str| {
        let mut command = harness();
        command.current_dir(at(from)).args(["debug", profile, "--at", "insn:1"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = first_line(&mut child);
        let _ = child.kill();
        (line, end(child).1)
    };
    let found = |from: &str, profile: &str, expected: &str| {
        let (line, said) = served(from, profile);
        assert!(line.ends_with(&format!(" {expected}")), "{from}: {line}: {said}");
    };
    let said = |from: &str, profile: &str, expected: &str| {
        let (line, said) = served(from, profile);
        assert!(line.is_empty() && said.contains(expected) && said.contains("--elf"), "{from}: {line}: {said}");
    };
    found("project", "fw.profile", "fw.elf");
    // The firmware is found under another name, deeper down, although another file has its name.
    fs::rename(at("project/fw.elf"), at("project/out/deep/renamed")).unwrap();
    fs::copy(image("cortex-m3-exit3"), at("project/out/fw.elf")).unwrap();
    found("project", "fw.profile", "out/deep/renamed");
    // From another directory only files beside the profile are found.
    said("elsewhere", "../project/fw.profile", "fw.elf, which was profiled, is neither below");
    fs::copy(at("project/out/deep/renamed"), at("project/other.elf")).unwrap();
    found("elsewhere", "../project/fw.profile", at("project/other.elf").canonicalize().unwrap().to_str().unwrap());
    // The only file of its name has other content.
    fs::remove_file(at("project/other.elf")).unwrap();
    fs::remove_file(at("project/out/deep/renamed")).unwrap();
    said("project", "fw.profile", "out/fw.elf: not the file that was profiled: its SHA-256 is ");
    // A symbolic link out of the project is not followed.
    fs::remove_file(at("project/out/fw.elf")).unwrap();
    std::os::unix::fs::symlink(image("cortex-m3-exit0"), at("project/fw.elf")).unwrap();
    said("project", "fw.profile", "fw.elf, which was profiled, is neither below");
    // The profile does not contain the path of the firmware's directory.
    let bytes = fs::read(at("project/fw.profile/profile.fwp")).unwrap();
    let path = home.path().to_str().unwrap().as_bytes();
    assert!(!bytes.windows(path.len()).any(|part| part == path));
}

#[test]
fn a_main_stack_that_was_left_is_visited_at_the_instruction_that_left_it() {
    let dir = scratch();
    let target = cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2000_1000).with("-DDEPTH=70 -DROUNDS=300");
    let elf = target.build_source(dir.path(), "growing", GROWING);
    let exact = run_file(&elf, &["--exact"]).expect_code(1).profile();
    let left = exact.facts.stack_left.as_ref().unwrap().overflow;
    // Also where samples alone have noticed it, some time later.
    for options in [&[][..], &["--exact"]] {
        let run = run_file(&elf, options).expect_code(1);
        let (child, line) = serve(&[run.dir.to_str().unwrap(), "--elf", elf.to_str().unwrap(), "--at", "crash"]);
        let text = String::from_utf8_lossy(&gdb(&line, &["monitor where"]).stderr).into_owned();
        let place = format!(
            "instruction {}: {:#010x} in deeper",
            harness::text::number::group(left.at_insns),
            left.pc.unwrap()
        );
        assert!(text.contains(&place), "{place}: {text}");
        let (code, said) = end(child);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("the main stack left its 2,816 bytes at instruction"), "{said}");
    }
}
