//! wasmi, an interpreter of WebAssembly, runs the program of ours in work.wat.
#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use support::large::start_heap;
use support::{exit, println};
use wasmi::{Engine, Error, Linker, Module, Store};

const ROUNDS: i32 = 30;
const EXPECTED: i32 = 220_317_810;

static WORK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/work.wasm"));

fn work() -> Result<i32, Error> {
    let engine = Engine::default();
    let module = Module::new(&engine, WORK)?;
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module)?;
    instance.get_typed_func::<i32, i32>(&store, "work")?.call(&mut store, ROUNDS)
}

#[entry]
fn main() -> ! {
    start_heap();
    match work() {
        Ok(sum) => {
            println!("{sum}");
            exit(usize::from(sum != EXPECTED))
        }
        Err(error) => {
            println!("{error}");
            exit(2)
        }
    }
}
// SPDX-License-Identifier: MIT OR Apache-2.0
