//! serde_json reads a document of some 20 KB into a tree of values, changes it, and writes it, over and over.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use serde_json::Value;
use support::large::start_heap;
use support::{exit, println, xorshift};

const ROUNDS: usize = 160;
const EXPECTED: u32 = 1_404_104_800;

/// Rows of a table, with numbers, texts that need escapes, and lists.
fn document() -> String {
    let mut seed = 2_463_534_242;
    let rows = (0..160).map(|row| {
        let [a, b, c] = [(); 3].map(|()| xorshift(&mut seed));
        format!(
            r#"{{"id":{row},"name":"row \"{a:x}\"\n\u00e9","size":{},"on":{},"tags":[{},{},null],"at":{{"x":{},"y":-{}}}}}"#,
            b % 100_000,
            c % 2 == 0,
            a % 97,
            b % 89,
            c % 4096,
            a % 4096,
        )
    });
    format!("[{}]", rows.reduce(|all, row| all + "," + &row).unwrap_or_default())
}

/// Changes each row, so that no two rounds are alike.
fn change(rows: &mut Value, round: usize) {
    for row in rows.as_array_mut().into_iter().flatten() {
        let size = row["size"].as_u64().unwrap_or_default() + round as u64;
        row["size"] = Value::from(size % 100_000);
        row["tags"].as_array_mut().into_iter().for_each(|tags| tags.rotate_left(1));
    }
}

#[entry]
fn main() -> ! {
    start_heap();
    let mut text = document();
    let mut sum = 0_u32;
    for round in 0..ROUNDS {
        let Ok(mut rows) = serde_json::from_str::<Value>(&text) else { exit(2) };
        change(&mut rows, round);
        text = format!("{rows}");
        sum = text.bytes().fold(sum, |sum, byte| sum.rotate_left(5) ^ u32::from(byte));
    }
    println!("{sum}");
    exit(usize::from(sum != EXPECTED))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
