// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of each packet, tested without GDB.

use harness::debug::socket::Listener;

use super::client::{Client, bytes, hex};
use super::fake::{Code, INSNS, Manners, Server};

/// Starts a fake's server and connects a client.
fn served(code: &Code, manners: Manners) -> (Server, Client) {
    let server = Server::start(code, manners);
    let client = Client::greeted(&server.address);
    (server, client)
}

/// Instruction at which the run is held: r0 or a0 of the `g` packet.
fn insn(client: &mut Client, code: &Code) -> u64 {
    let word = if code.is_arm() { 8 } else { 16 };
    let at = if code.is_arm() { 0 } else { 10 * word };
    let registers = client.ask("g");
    let value = bytes(&registers[at..at + 8]);
    u64::from(u32::from_le_bytes(value.try_into().unwrap()))
}

const STEP: &str = "vCont;s:p1.1;c:p1.-1";
const CONTINUE: &str = "vCont;c:p1.-1";

#[test]
fn steps_go_by_one_instruction_both_ways_and_the_start_is_told() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask("?"), "T05thread:p01.01;");
    assert_eq!(insn(&mut client, &code), 1);
    for at in 2..6 {
        assert_eq!(client.ask(STEP), "T05thread:p01.01;");
        assert_eq!(insn(&mut client, &code), at);
    }
    for at in (1..5).rev() {
        assert_eq!(client.ask("bs"), "T05thread:p01.01;");
        assert_eq!(insn(&mut client, &code), at);
    }
    assert_eq!(client.ask("bs"), "T05thread:p01.01;replaylog:begin;");
    assert_eq!(insn(&mut client, &code), 1);
    assert_eq!(client.ask("D;1"), "OK");
    server.end().unwrap();
}

#[test]
fn breakpoints_hit_backwards_as_forwards_in_reverse() {
    for code in [Code::arm(), Code::riscv()] {
        for (kind, word) in [(0, "swbreak"), (1, "hwbreak")] {
            let (server, mut client) = served(&code, Manners::default());
            let leaf = code.round[code.call + 1];
            assert_eq!(client.ask(&format!("Z{kind},{leaf:x},2")), "OK");
            let mut forwards = Vec::new();
            loop {
                match client.ask(CONTINUE).as_str() {
                    "T05thread:p01.01;replaylog:end;" => break,
                    held => assert_eq!(held, format!("T05thread:p01.01;{word}:;")),
                }
                forwards.push(insn(&mut client, &code));
            }
            assert_eq!(insn(&mut client, &code), INSNS);
            assert_eq!(client.shown, "harness: the run ends here, at instruction 200: the firmware exited\n");
            let mut backwards = Vec::new();
            loop {
                match client.ask("bc").as_str() {
                    "T05thread:p01.01;replaylog:begin;" => break,
                    held => assert_eq!(held, format!("T05thread:p01.01;{word}:;")),
                }
                backwards.push(insn(&mut client, &code));
            }
            let rounds = (0..).map(|round| code.nth(code.call + 1, round)).take_while(|insn| *insn <= INSNS);
            assert_eq!(forwards, rounds.collect::<Vec<u64>>());
            backwards.reverse();
            assert_eq!(backwards, forwards);
            assert_eq!(client.ask(&format!("z{kind},{leaf:x},2")), "OK");
            assert_eq!(client.ask(CONTINUE), "T05thread:p01.01;replaylog:end;");
            drop(client);
            server.end().unwrap();
        }
    }
}

#[test]
fn a_watched_access_is_shown_with_the_instruction_that_is_about_to_make_it() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    let write = code.call + code.leaf - 1;
    let read = code.call + code.leaf + 1;
    for (kind, word, places) in
        [(2, "watch", vec![write]), (3, "rwatch", vec![read]), (4, "awatch", vec![write, read])]
    {
        // Watched bytes in the middle of the access: the answer must name an address that GDB watches.
        let watched = code.ticks + 2;
        assert_eq!(client.ask(STEP), "T05thread:p01.01;");
        assert_eq!(client.ask("bc"), "T05thread:p01.01;replaylog:begin;");
        assert_eq!(client.ask(&format!("Z{kind},{watched:x},2")), "OK");
        for place in &places {
            let held = client.ask(CONTINUE);
            assert_eq!(held, format!("T05thread:p01.01;{word}:{watched:x};"), "{place}");
            assert_eq!(insn(&mut client, &code), code.nth(*place, 0));
            // Remove and restore the watch, as GDB does to step over it.
            assert_eq!(client.ask(&format!("z{kind},{watched:x},2")), "OK");
            assert_eq!(client.ask(STEP), "T05thread:p01.01;");
            assert_eq!(client.ask(&format!("Z{kind},{watched:x},2")), "OK");
        }
        // Backwards, the stop is after the accessing instruction, and GDB's next step undoes it.
        for place in places.iter().rev() {
            assert_eq!(client.ask("bc"), format!("T05thread:p01.01;{word}:{watched:x};"));
            assert_eq!(insn(&mut client, &code), code.nth(*place, 0) + 1);
            assert_eq!(client.ask(&format!("z{kind},{watched:x},2")), "OK");
            assert_eq!(client.ask("bs"), "T05thread:p01.01;");
            assert_eq!(insn(&mut client, &code), code.nth(*place, 0));
            assert_eq!(client.ask(&format!("Z{kind},{watched:x},2")), "OK");
        }
        assert_eq!(client.ask(&format!("z{kind},{watched:x},2")), "OK");
    }
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_range_step_ends_outside_of_its_range_or_at_a_breakpoint_within() {
    for is_terse in [false, true] {
        range_step(Manners { is_terse, ..Manners::default() });
    }
}

fn range_step(manners: Manners) {
    let code = Code::arm();
    let (server, mut client) = served(&code, manners);
    let (first, call) = (code.round[0], code.round[code.call]);
    let within = format!("vCont;r{first:x},{:x}:p1.1;c:p1.-1", call + 4);
    assert_eq!(client.ask(&within), "T05thread:p01.01;");
    assert_eq!(insn(&mut client, &code), code.nth(code.call + 1, 0));
    assert_eq!(client.ask("bc"), "T05thread:p01.01;replaylog:begin;");
    assert_eq!(client.ask(&format!("Z0,{:x},2", code.round[1])), "OK");
    assert_eq!(client.ask(&within), "T05thread:p01.01;swbreak:;");
    assert_eq!(insn(&mut client, &code), 2);
    drop(client);
    server.end().unwrap();
}

#[test]
fn what_cannot_be_read_is_an_error_and_unknown_registers_are_said_to_be() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask("m40000000,4"), "E79");
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("why"))), "OK");
    assert_eq!(client.shown, "0x40000000 cannot be read without disturbing the run\n");
    // A read across the end of memory returns the bytes that exist.
    let code_end = client.ask(&format!("m{:x},4", code.ticks + 0x100 + 0x3fe));
    assert_eq!(code_end, "0000");
    let registers = client.ask("g");
    // Registers in order: r0 to r12, sp, lr, pc, xpsr; msp, psp, primask, control.
    assert_eq!(&registers[20 * 8..21 * 8], "xxxxxxxx");
    assert_eq!(&registers[19 * 8..20 * 8], "01000000");
    assert_eq!(client.ask("p13"), "01000000");
    assert_eq!(client.ask("p14"), "E79");
    drop(client);
    server.end().unwrap();
}

#[test]
fn writes_are_done_or_refused_with_the_reason_and_control_is_never_moved() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask("P1=78563412"), "E.this QEMU writes no registers");
    assert_eq!(client.ask(&format!("M{:x},1:ff", code.ticks)), "E79");
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("why"))), "OK");
    assert_eq!(client.shown, "this run is not to be changed\n");
    drop(client);
    server.end().unwrap();

    let (server, mut client) = served(&code, Manners { is_writable: true, ..Manners::default() });
    assert_eq!(client.ask("P1=78563412"), "OK");
    assert_eq!(client.ask("p1"), "78563412");
    assert_eq!(client.ask(&format!("M{:x},2:abcd", code.ticks)), "OK");
    assert_eq!(client.ask(&format!("m{:x},2", code.ticks)), "abcd");
    // Numbers of sp, lr, pc.
    for number in ["d", "e", "f"] {
        let refused = client.ask(&format!("P{number}=00000000"));
        assert!(refused.starts_with("E.the registers pc, sp"), "{refused}");
    }
    // `G` has all registers: only those that differ are written.
    let registers = client.ask("g").replace('x', "0").replacen("02000000", "99000000", 1);
    assert_eq!(client.ask(&format!("G{registers}")), "OK");
    assert_eq!(client.ask("p2"), "99000000");
    drop(client);
    server.end().unwrap();
}

#[test]
fn an_interrupt_holds_a_run_that_executes_and_a_late_one_is_nothing() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners { is_endless: true, ..Manners::default() });
    client.send(CONTINUE);
    client.raw(&[3]);
    assert_eq!(client.answer(), "T02thread:p01.01;");
    // An interrupt that arrives while the run is held does not end the next command.
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 5"))), "OK");
    client.raw(&[3]);
    assert_eq!(client.ask(STEP), "T05thread:p01.01;");
    assert_eq!(insn(&mut client, &code), 6);
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_client_that_goes_away_while_the_run_executes_ends_the_server() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners { is_endless: true, ..Manners::default() });
    client.send(CONTINUE);
    drop(client);
    server.end().unwrap();
    // The client leaves in the middle of a packet, and before the first.
    let (server, mut client) = served(&code, Manners::default());
    client.raw(b"$m400");
    drop(client);
    server.end().unwrap();
}

#[test]
fn whoever_is_no_debugger_is_no_matter_and_a_debugger_comes_after_it() {
    let code = Code::arm();
    let server = Server::start(&code, Manners::default());
    // A silent client that stays, and other traffic on the port.
    let silent = Client::new(&server.address);
    let mut half = Client::new(&server.address);
    half.raw(b"+$qSupp");
    drop(Client::new(&server.address));
    for strange in [&b"GET / HTTP/1.1\r\nHost: $?#3f\r\n\r\n"[..], b"\x16\x03\x01", b"$?#00", &[b'$'; 8192]] {
        let mut client = Client::new(&server.address);
        client.try_raw(strange);
        assert_eq!(client.packet(), None, "{}", strange[..8.min(strange.len())].escape_ascii());
    }
    let mut client = Client::greeted(&server.address);
    // Now the first packet is complete.
    half.raw(b"orted#37");
    assert_eq!(half.packet().unwrap(), "E.another debugger is connected; one at a time");
    Client::new(&server.address).try_raw(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.ask(STEP), "T05thread:p01.01;");
    drop(client);
    server.end().unwrap();
    drop(silent);
}

#[test]
fn a_command_that_takes_long_shows_what_it_is_at_and_nothing_is_sent_twice() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    client.send(&format!("qRcmd,{}", hex("wait")));
    assert_eq!(client.shows(), "it waits\n");
    for _ in 0..3 {
        // A negative acknowledgement, as GDB sends after its timeout.
        client.raw(b"-");
        let said = client.shows();
        assert!(said.starts_with("wait: ") && said.ends_with(" s, instruction 1,234\n"), "{said}");
    }
    client.raw(b"-\x03-");
    assert_eq!(client.answer(), "OK");
    assert!(client.shown.ends_with("it was interrupted\n"), "{}", client.shown);
    client.raw(b"-");
    assert_eq!(client.ask("p0"), "01000000");
    client.raw(b"--");
    assert_eq!(client.ask("p1"), "01000000");
    assert_eq!(client.ask("p2"), "02000000");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_packet_is_acknowledged_before_it_is_answered() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    client.send(&format!("qRcmd,{}", hex("wait")));
    assert_eq!(client.byte(), Some(b'+'));
    assert_eq!(client.shows(), "it waits\n");
    client.raw(b"\x03");
    assert_eq!(client.answer(), "OK");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_client_that_waits_no_more_for_a_command_has_its_next_request_answered_once() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    client.send(&format!("qRcmd,{}", hex("wait")));
    assert_eq!(client.shows(), "it waits\n");
    // Ctrl-C in GDB: it gives up the answer, and repeats its next request until that is acknowledged.
    for _ in 0..3 {
        client.send("p2");
    }
    // All stale answers arrive before the acknowledgement.
    assert_eq!(client.shows(), "it was interrupted\n");
    assert_eq!(client.packet().unwrap(), "OK");
    assert_eq!(client.byte(), Some(b'+'));
    assert_eq!(client.packet().unwrap(), "02000000");
    assert_eq!(client.ask("p0"), "01000000");
    // An identical request after the answer is answered again.
    assert_eq!((client.ask("p2"), client.ask("p2")), ("02000000".to_owned(), "02000000".to_owned()));
    drop(client);
    server.end().unwrap();
}

#[test]
fn ctrl_c_at_the_server_ends_it_whatever_it_does() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let code = Code::arm();
    let processor = || Box::new(harness::debug::thread::Processor) as Box<dyn harness::debug::thread::Threads>;
    for state in ["waits", "is held", "executes"] {
        let ends: &'static AtomicU32 = Box::leak(Box::default());
        let listener = Listener::private().unwrap().ending_by(ends);
        let manners = Manners { is_endless: true, ..Manners::default() };
        let server = Server::with(&code, manners, listener, processor);
        let mut client = None;
        if state != "waits" {
            let client = client.insert(Client::greeted(&server.address));
            if state == "executes" {
                client.send(CONTINUE);
            }
        }
        ends.store(1, Ordering::Relaxed);
        server.end().unwrap();
        assert!(client.is_none_or(|mut client| client.packet().is_none()), "{state}");
    }
}

#[test]
fn kill_and_detach_end_the_server() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    client.send("k");
    assert_eq!(client.packet(), None);
    server.end().unwrap();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask("D;1"), "OK");
    assert_eq!(client.packet(), None);
    server.end().unwrap();
}

#[test]
fn what_the_run_fails_at_and_what_is_no_protocol_are_errors() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners { fails: true, ..Manners::default() });
    client.send(CONTINUE);
    assert_eq!(client.packet(), None);
    assert_eq!(server.end().unwrap_err().to_string(), "the fake has failed");
    let (server, mut client) = served(&code, Manners::default());
    client.raw(b"$?#00");
    assert_eq!(client.packet(), None);
    let error = server.end().unwrap_err().to_string();
    assert!(error.starts_with("the debugger's packets cannot be understood"), "{error}");
}

#[test]
fn what_the_run_refuses_is_told_and_the_session_goes_on() {
    let code = Code::arm();
    let manners = Manners { refuses_at: Some(5), is_writable: true, ..Manners::default() };
    let (server, mut client) = served(&code, manners);
    assert_eq!(client.ask(&format!("Z2,{:x},4", code.ticks)), "OK");
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 5"))), "OK");
    let refusal = "harness: the fake will not\n";
    for (command, held) in [
        (CONTINUE, "T02thread:p01.01;"),
        (STEP, "T02thread:p01.01;"),
        ("bc", "T05thread:p01.01;replaylog:begin;"),
        ("bs", "T05thread:p01.01;replaylog:begin;"),
    ] {
        client.shown.clear();
        assert_eq!(client.ask(command), held, "{command}");
        assert_eq!(client.shown, refusal, "{command}");
    }
    assert!(client.ask("g").bytes().all(|byte| byte == b'x'));
    assert_eq!(client.ask(&format!("m{:x},4", code.ticks)), "E79");
    assert_eq!(client.ask(&format!("M{:x},1:ff", code.ticks)), "E79");
    assert_eq!(client.ask("P1=78563412"), "E.the fake will not");
    assert_eq!(client.ask(&format!("Z2,{:x},4", code.ticks)), "E16");
    client.shown.clear();
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("why"))), "OK");
    assert_eq!(client.shown, "the fake will not\n".repeat(3));
    // At other instructions it stops.
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 6"))), "OK");
    assert_eq!(client.ask("bs"), "T05thread:p01.01;");
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 7"))), "OK");
    assert_eq!(client.ask(STEP), "T05thread:p01.01;");
    assert_eq!(insn(&mut client, &code), 8);
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_second_client_is_told_and_the_first_is_not_disturbed() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    let mut second = Client::new(&server.address);
    assert_eq!(second.ask("qSupported:swbreak+"), "E.another debugger is connected; one at a time");
    assert_eq!(second.packet(), None);
    assert_eq!(client.ask(STEP), "T05thread:p01.01;");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_crash_is_a_signal_once_and_then_the_end() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners { crashes: true, ..Manners::default() });
    assert_eq!(client.ask(CONTINUE), "T0bthread:p01.01;");
    assert_eq!(client.shown, "harness: the run ends here, with QEMU: qemu: fatal: Lockup\n");
    assert_eq!(client.ask(CONTINUE), "T05thread:p01.01;replaylog:end;");
    // Arriving there again reports it again.
    assert_eq!(client.ask("bs"), "T05thread:p01.01;");
    assert_eq!(client.ask(CONTINUE), "T0bthread:p01.01;");
    assert_eq!(insn(&mut client, &code), INSNS);
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_command_that_goes_elsewhere_says_what_gdb_has_to_forget() {
    let code = Code::arm();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 77"))), "OK");
    assert_eq!(client.shown, "gone to 77\nthe debugger still shows the old place: type monitor stay, then stepi\n");
    assert_eq!(insn(&mut client, &code), 77);
    // With the hooks, GDB drops its caches and asks for a stop.
    let follow = std::path::Path::new(&server.address).with_file_name("follow");
    let followed = || std::fs::read_to_string(&follow).unwrap();
    client.shown.clear();
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("client follows"))), "OK");
    assert!(followed().ends_with("monitor stay\nstepi\n"), "{}", followed());
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 78"))), "OK");
    assert!(followed().ends_with("monitor stay\nstepi\n"), "{}", followed());
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("stay"))), "OK");
    assert_eq!(client.ask(STEP), "T00thread:p01.01;");
    assert_eq!(insn(&mut client, &code), 78);
    assert_eq!(client.ask(STEP), "T05thread:p01.01;");
    assert_eq!(insn(&mut client, &code), 79);
    for words in ["help", "why", "goto 79"] {
        assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 78"))), "OK");
        assert_eq!(client.ask(&format!("qRcmd,{}", hex("goto 79"))), "OK");
        assert_eq!(client.ask(&format!("qRcmd,{}", hex(words))), "OK");
        assert_eq!(followed(), "", "{words}");
    }
    assert!(!client.shown.contains("still shows"), "{}", client.shown);
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_command_that_looks_for_something_leaves_breakpoints_and_watches() {
    let code = Code::riscv();
    let (server, mut client) = served(&code, Manners::default());
    assert_eq!(client.ask(&format!("Z0,{:x},2", code.round[1])), "OK");
    assert_eq!(client.ask(&format!("Z2,{:x},4", code.ticks)), "OK");
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("look"))), "OK");
    assert_eq!(client.ask(CONTINUE), "T05thread:p01.01;swbreak:;");
    assert!(client.ask(CONTINUE).starts_with("T05thread:p01.01;watch:"));
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_port_serves_this_machine() {
    use std::io::{Read, Write};
    let code = Code::riscv();
    let listener = Listener::port(0).unwrap();
    let address = listener.address();
    let server = Server::with(&code, Manners::default(), listener, || Box::new(harness::debug::thread::Processor));
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    stream.write_all(b"$?#3f").unwrap();
    let mut answer = [0; 18];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"+$T05thread:01;#"), "{}", answer.escape_ascii());
    drop(stream);
    server.end().unwrap();
}
