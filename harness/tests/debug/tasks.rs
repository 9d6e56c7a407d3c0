// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's tasks as threads.

use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;
use harness::debug::socket::Listener;
use harness::debug::thread::{Thread, Threads};
use harness::debug::travel::Travel;

use super::client::{Client, hex};
use super::fake::{Code, Manners, Server};

/// Two tasks that take turns: an odd `ticks` selects the second. The kernel may have a cell that names the running
/// task, or none.
struct Two {
    cell: Option<Range<u64>>,
    ticks: u64,
}

impl Threads for Two {
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let turn = usize::from(travel.read(self.ticks, 1)?[0]) % 2;
        let thread = |number: usize| Thread {
            id: NonZeroUsize::new(number + 1).unwrap(),
            name: ["idle", "blinky"][number].to_owned(),
            state: if number == turn { "running".to_owned() } else { "ready".to_owned() },
            saved: (number != turn).then(|| vec![("r0".to_owned(), vec![0xee, 0, 0, 0])]),
        };
        Ok(vec![thread(turn), thread(1 - turn)])
    }

    fn current(&self) -> Option<Range<u64>> {
        self.cell.clone()
    }
}

fn served(code: &Code, has_cell: bool) -> (Server, Client) {
    let ticks = code.ticks;
    let cell = has_cell.then(|| ticks..ticks + 4);
    let server =
        Server::with(code, Manners::default(), Listener::private().unwrap(), move || Box::new(Two { cell, ticks }));
    let client = Client::greeted(&server.address);
    (server, client)
}

#[test]
fn each_task_is_a_thread_with_name_state_and_its_own_registers() {
    let code = Code::arm();
    let (server, mut client) = served(&code, true);
    assert_eq!(client.ask("qfThreadInfo"), "mp01.01,p01.02");
    assert_eq!(client.ask("qsThreadInfo"), "l");
    assert_eq!(client.ask("qThreadExtraInfo,p1.1"), hex("idle: running"));
    assert_eq!(client.ask("qThreadExtraInfo,p1.2"), hex("blinky: ready"));
    assert_eq!(client.ask("Tp1.2"), "OK");
    assert_eq!(client.ask("Tp1.3"), "E01");
    assert_eq!(client.ask("p0"), "01000000");
    assert_eq!(client.ask("Hgp1.2"), "OK");
    assert_eq!(client.ask("p0"), "ee000000");
    assert_eq!(&client.ask("g")[..16], "ee000000xxxxxxxx");
    let refused = client.ask("P0=00000000");
    assert_eq!(refused, "E.registers of a task that is switched out cannot be written");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_step_within_a_task_passes_over_the_time_of_others() {
    let code = Code::arm();
    let write = code.nth(code.call + code.leaf - 1, 0);
    for (has_cell, held, at) in [
        // The stop is two rounds later, after the write that gives the processor back.
        (true, "T05thread:p01.01;", code.nth(code.call + code.leaf - 1, 1) + 1),
        (false, "T05thread:p01.02;", write + 1),
    ] {
        let (server, mut client) = served(&code, has_cell);
        assert_eq!(client.ask(&format!("qRcmd,{}", hex(&format!("goto {write}")))), "OK");
        assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), held);
        assert_eq!(client.ask("Hgp1.0"), "OK");
        assert_eq!(client.ask("p0"), format!("{at:02x}000000"));
        drop(client);
        server.end().unwrap();
    }
}

#[test]
fn a_breakpoint_in_another_task_ends_the_step() {
    let code = Code::arm();
    let write = code.nth(code.call + code.leaf - 1, 0);
    let (server, mut client) = served(&code, true);
    assert_eq!(client.ask(&format!("qRcmd,{}", hex(&format!("goto {write}")))), "OK");
    assert_eq!(client.ask(&format!("Z0,{:x},2", code.round[0])), "OK");
    assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), "T05thread:p01.02;swbreak:;");
    drop(client);
    server.end().unwrap();
}

/// `r0` of a thread: the executing thread has the instruction's number there.
fn r0(client: &mut Client, thread: u32) -> String {
    assert_eq!(client.ask(&format!("Hgp1.{thread:x}")), "OK");
    client.ask("p0")
}

fn goto(client: &mut Client, insn: u64) {
    assert_eq!(client.ask(&format!("qRcmd,{}", hex(&format!("goto {insn}")))), "OK");
}

#[test]
fn a_thread_that_gdb_takes_for_the_executing_one_is_it_until_gdb_is_told_of_another() {
    let code = Code::arm();
    // The second task executes for one round from there.
    let second = code.nth(code.call + code.leaf, 0) + 1;
    let (server, mut client) = served(&code, true);
    assert_eq!(client.ask("?"), "T05thread:p01.01;");
    goto(&mut client, second);
    let told = || format!("{second:02x}000000");
    // GDB asks for the thread that it knows.
    assert_eq!(r0(&mut client, 1), told());
    assert_eq!(r0(&mut client, 2), "ee000000");
    assert_eq!(client.ask("qfThreadInfo"), "mp01.01,p01.02");
    assert_eq!(client.ask("qThreadExtraInfo,p1.1"), hex("blinky: running"));
    assert_eq!(client.ask("qThreadExtraInfo,p1.2"), hex("idle: ready"));
    // GDB steps that thread, and the step is one of the executing task.
    assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), "T05thread:p01.01;");
    assert_eq!(r0(&mut client, 1), format!("{:02x}000000", second + 1));
    // Back to where the first task executes, and to the second's start again.
    goto(&mut client, 1);
    assert_eq!(client.ask("qThreadExtraInfo,p1.1"), hex("idle: running"));
    goto(&mut client, second);
    assert_eq!(client.ask("qThreadExtraInfo,p1.1"), hex("blinky: running"));
    // A stop for this purpose only tells GDB the executing thread.
    assert_eq!(client.ask(&format!("qRcmd,{}", hex("stay"))), "OK");
    assert_eq!(client.ask("vCont;s:p1.1;c:p1.-1"), "T00thread:p01.02;");
    assert_eq!(r0(&mut client, 2), told());
    assert_eq!(r0(&mut client, 1), "ee000000");
    assert_eq!(client.ask("qThreadExtraInfo,p1.1"), hex("idle: ready"));
    // Thread 2 stands for the executing code while no task of that name exists.
    goto(&mut client, 1);
    assert_eq!(r0(&mut client, 2), "01000000");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_thread_that_is_no_more_has_the_processors_registers_and_is_no_thread() {
    let code = Code::arm();
    let (server, mut client) = served(&code, true);
    goto(&mut client, 3);
    assert_eq!(r0(&mut client, 7), "03000000");
    assert!(client.ask("g").starts_with("03000000"));
    assert_eq!(client.ask("Tp1.7"), "E01");
    assert_eq!(client.ask("vCont;s:p1.7;c:p1.-1"), "T05thread:p01.01;");
    assert_eq!(r0(&mut client, 1), "04000000");
    drop(client);
    server.end().unwrap();
}
