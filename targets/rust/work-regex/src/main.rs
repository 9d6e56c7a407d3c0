//! Regular expressions of several kinds search a log of some 30 KB, over and over: literals, classes, alternatives,
//! repetitions, groups.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "arm")]
use cortex_m_rt::entry;
use regex::Regex;
#[cfg(not(target_arch = "arm"))]
use riscv as _;
#[cfg(not(target_arch = "arm"))]
use riscv_rt::entry;
use support::large::start_heap;
use support::{exit, println, xorshift};

const ROUNDS: usize = 80;
const EXPECTED: usize = 180_771;

const PATTERNS: [&str; 6] = [
    r"error [0-9a-f]{4}",
    r"(?:GET|PUT|POST) /[a-z]+/(\d+)",
    r"\b(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\b",
    r"[a-z]+=[^;]*;",
    r"(?i)warning|fatal",
    r"took (\d+)(ms|us)$",
];

/// Lines of a server's log.
fn log() -> String {
    let mut seed = 88_172_645;
    let mut text = String::new();
    for line in 0..300 {
        let [a, b, c] = [(); 3].map(|()| xorshift(&mut seed));
        let ip = a.to_le_bytes();
        let method = ["GET", "PUT", "POST", "HEAD"][b as usize % 4];
        let unit = ["ms", "us", "s"][c as usize % 3];
        let word = ["ok", "Warning", "error 12ef", "FATAL", "error none"][(a ^ c) as usize % 5];
        text += &format!(
            "{}.{}.{}.{} {method} /items/{} user={:x};mode={}; {word} line {line} took {}{unit}\n",
            ip[0],
            ip[1],
            ip[2],
            ip[3],
            b % 1000,
            a % 65536,
            c % 8,
            c % 997,
        );
    }
    text
}

#[entry]
fn main() -> ! {
    start_heap();
    let text = log();
    let Ok(regexes) = PATTERNS.map(Regex::new).into_iter().collect::<Result<Vec<Regex>, _>>() else { exit(2) };
    let mut sum = 0_usize;
    for round in 0..ROUNDS {
        for regex in &regexes {
            for line in text.lines() {
                let Some(captures) = regex.captures(line) else { continue };
                let last = captures.iter().flatten().last().map_or(0, |group| group.start() + group.len());
                sum = (sum * 31 + last + round) % 1_000_003;
            }
        }
    }
    println!("{sum}");
    exit(usize::from(sum != EXPECTED))
}
// SPDX-License-Identifier: MIT OR Apache-2.0
