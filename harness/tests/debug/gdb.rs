// SPDX-License-Identifier: MIT OR Apache-2.0
//! GDB itself connected to the server, on both architectures.

use std::process::{Command, Stdio};

use super::client::{Client, mi};
use super::fake::{Code, INSNS, Manners, Server};

/// Output of GDB for these commands, connected by the server's line.
fn gdb(server: &Server, arguments: &[&str], commands: &[&str]) -> String {
    // Run the server's line in a shell, followed by the test's commands.
    let (program, rest) = server.line.split_once(' ').unwrap();
    let mut script = format!("{program} -nx -batch \"$@\" {rest}");
    for command in commands {
        script.push_str(&format!(" -ex '{command}'"));
    }
    let output =
        Command::new("sh").args(["-c", &script, "sh"]).args(arguments).stdin(Stdio::null()).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs one GDB session with a fake, from start to end.
fn session(code: &Code, manners: Manners, commands: &[&str]) -> String {
    let server = Server::start(code, manners);
    let text = gdb(&server, &[], commands);
    server.end().unwrap();
    text
}

/// Lines that begin with `start`, without it.
fn said(text: &str, start: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix(start)).map(str::to_owned).collect()
}

fn counter(code: &Code) -> &'static str {
    if code.is_arm() { "$r0" } else { "$a0" }
}

#[test]
fn registers_are_those_of_the_description() {
    let arm = session(
        &Code::arm(),
        Manners::default(),
        &["info registers msp psp primask control xpsr", "p $d0", "info line *$pc", "p $sp == $msp"],
    );
    assert!(arm.contains("primask        0x1"), "{arm}");
    assert!(arm.contains("control        <unavailable>"), "{arm}");
    assert!(arm.contains("$1 = 1.5") && arm.contains("$2 = 1"), "{arm}");
    assert!(arm.contains("bare.c") && !arm.contains("warning"), "{arm}");
    let riscv = session(
        &Code::riscv(),
        Manners::default(),
        &["info registers mcause mstatus priv", "p $ft0.double", "p $a0", "info registers time"],
    );
    assert!(riscv.contains("mcause         0x7"), "{riscv}");
    assert!(riscv.contains("$1 = 1.5") && riscv.contains("$2 = 1"), "{riscv}");
    assert!(riscv.contains("priv           0x3"), "{riscv}");
    assert!(riscv.contains("time           <unavailable>") && !riscv.contains("warning"), "{riscv}");
}

#[test]
fn breakpoints_steps_and_finish_go_both_ways() {
    for code in [Code::arm(), Code::riscv()] {
        let at = format!("printf \"at %d\\n\", {}", counter(&code));
        let text = session(
            &code,
            Manners::default(),
            &[
                "break timer_stop",
                "continue",
                &at,
                "bt",
                "finish",
                &at,
                "reverse-stepi",
                &at,
                "reverse-continue",
                &at,
                "reverse-finish",
                &at,
                "delete",
                "nexti",
                &at,
                "reverse-nexti",
                &at,
                "continue",
                &at,
                "p $pc",
                "reverse-continue",
                &at,
            ],
        );
        let (entry, back) = (code.nth(code.call + 1, 0), code.nth(code.call + code.leaf + 1, 0));
        let call = entry - 1;
        assert_eq!(
            said(&text, "at "),
            [entry, back, back - 1, entry, call, back, call, INSNS, 1].map(|insn| insn.to_string()),
            "{text}"
        );
        assert!(
            text.contains("#0  timer_stop () at") && text.contains("#1 ") && text.contains(" in main () at"),
            "{text}"
        );
        assert!(text.contains("the run ends here, at instruction 200: the firmware exited"), "{text}");
        assert_eq!(text.matches("No more reverse-execution history").count(), 2, "{text}");
    }
}

#[test]
fn lines_are_stepped_over_and_into_both_ways() {
    // On RISC-V the first instruction is a call that the fake run does not follow.
    for code in [Code::arm(), Code::riscv()] {
        let at = format!("printf \"at %d\\n\", {}", counter(&code));
        let text = session(
            &code,
            Manners::default(),
            &["stepi", "stepi", &at, "next", &at, "reverse-next", &at, "step", &at, "reverse-step", &at],
        );
        let at: Vec<u64> = said(&text, "at ").iter().map(|insn| insn.parse().unwrap()).collect();
        let (call, back) = (code.nth(code.call, 0), code.nth(code.call + code.leaf + 1, 0));
        // GDB's breakpoint for the expected next address is never hit: the run itself does the step.
        assert_eq!(at[0], call, "{text}");
        assert_eq!(at[1], back, "{text}");
        // The compiler decides which instruction a line begins with.
        assert!(at[2] <= call && at[4] <= call, "{text}");
        assert!((call + 1..back).contains(&at[3]), "{text}");
    }
}

#[test]
fn watchpoints_show_the_value_before_and_after_both_ways() {
    for code in [Code::arm(), Code::riscv()] {
        let at = format!("printf \"at %d\\n\", {}", counter(&code));
        let text = session(
            &code,
            Manners::default(),
            &[
                "watch ticks",
                "continue",
                &at,
                "continue",
                &at,
                "reverse-continue",
                &at,
                "reverse-continue",
                &at,
                "delete",
                "rwatch ticks",
                "continue",
                &at,
            ],
        );
        let written = |round| code.nth(code.call + code.leaf - 1, round);
        let after =
            [written(0) + 1, written(1) + 1, written(1), written(0), code.nth(code.call + code.leaf + 1, 0) + 1];
        assert_eq!(said(&text, "at "), after.map(|insn| insn.to_string()), "{text}");
        assert_eq!(said(&text, "Old value = "), ["0", "1", "2", "1"], "{text}");
        assert_eq!(said(&text, "New value = "), ["1", "2", "1", "0"], "{text}");
        assert_eq!(said(&text, "Value = "), ["1"], "{text}");
    }
}

#[test]
fn a_command_that_goes_elsewhere_leaves_no_old_registers_and_no_old_stack() {
    for code in [Code::arm(), Code::riscv()] {
        let at = format!("printf \"at %d\\n\", {}", counter(&code));
        let stack = "printf \"stack %d\\n\", *(unsigned char *)$sp";
        let text = session(
            &code,
            Manners::default(),
            &[&at, stack, "bt", "monitor goto 77", &at, stack, "stepi", "echo \\n", &at],
        );
        assert_eq!(said(&text, "at "), ["1", "77", "78"], "{text}");
        assert_eq!(said(&text, "stack "), ["1", "77"], "{text}");
        assert!(!text.contains("still shows"), "{text}");
    }
}

#[test]
fn a_command_that_goes_elsewhere_leaves_no_old_callers() {
    for (code, words) in [(Code::arm(), [46, 80]), (Code::riscv(), [47, 81])] {
        let text = session(
            &code,
            Manners::default(),
            &["set backtrace past-main on", "monitor goto 47", "bt 2", "monitor goto 81", "bt 2"],
        );
        // GDB finds the caller by the return address on the stack.
        let callers = said(&text, "#1  ");
        assert_eq!(callers.len(), 2, "{text}");
        // The stack's words hold the instruction's number; bit 0 of a return address is Thumb's.
        let word = |line: &String| {
            let address = line.split(' ').next().unwrap().trim_start_matches("0x");
            u64::from_str_radix(address, 16).unwrap() as u32
        };
        assert_eq!(callers.iter().map(word).collect::<Vec<u32>>(), words, "{text}");
    }
}

#[test]
fn writes_that_are_refused_say_why_and_functions_are_not_called() {
    let text = session(
        &Code::arm(),
        Manners::default(),
        &[
            "set var $r1 = 5",
            "set var ticks = 5",
            "monitor why",
            "x/x 0x40000000",
            "monitor why",
            "call (int)timer_stop()",
        ],
    );
    assert!(text.contains("this QEMU writes no registers"), "{text}");
    assert!(text.contains("Cannot access memory at address 0x20"), "{text}");
    assert!(text.contains("this run is not to be changed"), "{text}");
    assert!(text.contains("0x40000000 cannot be read without disturbing the run"), "{text}");
    assert!(text.contains("Cannot call functions in the program: may-call-functions is off"), "{text}");
    let manners = || Manners { is_writable: true, ..Manners::default() };
    let text = session(
        &Code::arm(),
        manners(),
        &[
            "set var $r1 = 5",
            "p $r1",
            "set var ticks = 7",
            "p ticks",
            "set may-call-functions on",
            "call (int)timer_stop()",
            "stepi",
            "p $r1",
        ],
    );
    assert_eq!(said(&text, "$"), ["1 = 5", "2 = 7", "3 = 5"], "{text}");
    assert!(text.contains("functions cannot be called"), "{text}");
}

#[test]
fn gdb_waits_for_a_command_as_long_as_it_takes() {
    let code = Code::arm();
    let at = format!("printf \"at %d\\n\", {}", counter(&code));
    let text = session(
        &code,
        Manners::default(),
        &["set remotetimeout 1", "monitor work", "monitor goto 77", &at, "stepi", "echo \\n", &at],
    );
    assert!(text.contains("\nwork: ") && text.contains("done\n"), "{text}");
    assert!(!text.contains("Ignoring packet error"), "{text}");
    assert_eq!(said(&text, "at "), ["77", "78"], "{text}");
}

#[test]
fn an_editors_interface_gets_its_records() {
    let code = Code::arm();
    let server = Server::start(&code, Manners::default());
    let commands = "-gdb-set mi-async on\n-target-select remote ADDRESS\n-break-insert timer_stop\n-exec-continue\n\
                    -stack-list-frames\n-data-list-register-values x 15\n-exec-finish\n\
                    -exec-step-instruction --reverse\n-thread-info\n-interpreter-exec console \"monitor goto 3\"\n-gdb-exit\n"
        .replace("ADDRESS", &server.address);
    // Wait for the record before giving the next command, as an editor does.
    let text = mi(server.line.split(' ').next().unwrap(), &code.elf, &commands);
    server.end().unwrap();
    for wanted in [
        "^connected",
        "bkpt={number=\"1\",type=\"breakpoint\"",
        "reason=\"breakpoint-hit\"",
        "func=\"timer_stop\"",
        "func=\"main\"",
        "reason=\"function-finished\"",
        "reason=\"end-stepping-range\"",
        "details=\"cpu 0: running\"",
        "@\"gone to 3\\n\"",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("^error"), "{text}");
}

#[test]
fn an_editor_interrupts_a_run_that_executes_and_looks_at_it() {
    let code = Code::riscv();
    let server = Server::start(&code, Manners { is_endless: true, ..Manners::default() });
    // Connect as cortex-debug and cppdbg do.
    let commands = "-gdb-set mi-async on\n-target-select extended-remote ADDRESS\n-exec-continue\n-exec-interrupt\n\
                    -data-evaluate-expression $pc\n-exec-step-instruction --reverse\n-target-detach\n-gdb-exit\n"
        .replace("ADDRESS", &server.address);
    let text = mi(server.line.split(' ').next().unwrap(), &code.elf, &commands);
    server.end().unwrap();
    assert!(text.contains("reason=\"signal-received\",signal-name=\"SIGINT\""), "{text}");
    assert!(!text.contains("^error"), "{text}");
}

#[test]
fn a_second_gdb_is_told_that_it_is_one() {
    let code = Code::arm();
    let server = Server::start(&code, Manners::default());
    let first = Client::greeted(&server.address);
    let text = gdb(&server, &[], &["p 1"]);
    assert!(text.contains("another debugger is connected; one at a time"), "{text}");
    drop(first);
    server.end().unwrap();
}

#[test]
fn gdb_that_is_started_here_ends_the_server() {
    use harness::debug::server::serve;
    use harness::debug::socket::Listener;
    use harness::debug::thread::Processor;
    use harness::debug::travel::Travel;

    // GDB reads the test's standard input, which is empty: it connects and leaves.
    let code = Code::arm();
    let mut listener = Listener::private().unwrap();
    let socket = listener.address();
    listener.start_gdb(code.isa, &code.elf, Stdio::null).unwrap();
    let mut fake = super::fake::Fake::new(code.clone(), Manners::default());
    let mut monitor = |_: &mut dyn Travel, _: &str, _: &mut dyn FnMut(&str)| String::new();
    serve(&mut fake, code.isa, &mut Processor, &mut monitor, &mut listener).unwrap();
    drop(listener);
    assert!(!std::path::Path::new(&socket).exists());
}
