// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: no input makes harness panic, hang or take memory without bound.
//!
//! Each test makes inputs from well-formed ones, by reproducible chance, and reads and shows them as the commands do.
//! `cargo test` tries as many as take some seconds; docs/security.md has the command for more.

mod cache;
mod chip;
mod container;
mod gate;
mod image;
mod made;
mod mutate;
mod random;
mod records;
mod saved;
mod session;

use session::Target;

#[test]
fn elf() {
    let (mutate, seeds) = (image::mutated_elf, image::elves);
    Target { name: "elf", count: 500, prepare: |_| {}, seeds, mutate, read: image::read }.run();
}

#[test]
fn hex() {
    let (mutate, seeds) = (image::mutated_hex, image::hexes);
    Target { name: "hex", count: 1_000, prepare: |_| {}, seeds, mutate, read: image::read }.run();
}

#[test]
fn records() {
    let (mutate, seeds) = (records::mutated, records::seeds);
    Target { name: "records", count: 500, prepare: made::runs, seeds, mutate, read: records::read }.run();
}

#[test]
fn profile() {
    let (mutate, seeds) = (saved::mutated, saved::seeds);
    Target { name: "profile", count: 500, prepare: made::runs, seeds, mutate, read: saved::read }.run();
}

#[test]
fn suite() {
    let (mutate, seeds) = (gate::mutated, gate::suites);
    Target { name: "suite", count: 1_000, prepare: |_| {}, seeds, mutate, read: gate::read_suite }.run();
}

#[test]
fn baseline() {
    let (mutate, seeds) = (gate::mutated, gate::baselines);
    Target { name: "baseline", count: 500, prepare: |_| {}, seeds, mutate, read: gate::read_baseline }.run();
}

#[test]
fn report() {
    let (mutate, seeds) = (gate::mutated, gate::reports);
    Target { name: "report", count: 1_000, prepare: made::reports, seeds, mutate, read: gate::read_report }.run();
}

#[test]
fn container() {
    let (mutate, seeds) = (container::mutated, container::seeds);
    Target { name: "container", count: 500, prepare: |_| {}, seeds, mutate, read: container::read }.run();
}

#[test]
fn chip_file() {
    let (mutate, seeds) = (gate::mutated, chip::chips);
    Target { name: "chip_file", count: 500, prepare: |_| {}, seeds, mutate, read: chip::read_chip }.run();
}

#[test]
fn svd() {
    let (mutate, seeds) = (gate::mutated, chip::svds);
    Target { name: "svd", count: 500, prepare: |_| {}, seeds, mutate, read: chip::read_svd }.run();
}

#[test]
fn cache() {
    let (mutate, seeds) = (cache::mutated, cache::seeds);
    Target { name: "cache", count: 500, prepare: cache::runs, seeds, mutate, read: cache::read }.run();
}
