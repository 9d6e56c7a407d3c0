//! A kernel's tasks as threads.

use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;
use harness::debug::socket::Listener;
use harness::debug::thread::{Thread, Threads};
use harness::debug::travel::Travel;

use crate::client::{Client, hex};
use crate::fake::{Code, Manners, Server};

/// Two tasks that take turns: which of them it is says whether `ticks` is odd. With a cell, or without.
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
        // Two rounds on, after the write that gives the processor back.
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
