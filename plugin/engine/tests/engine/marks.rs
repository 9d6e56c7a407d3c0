// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks on the console: which samples look at the output, and what they note.

use std::fs;
use std::path::PathBuf;

use engine::ledger::Ledger;
use engine::marks::{Marks, printed};
use wire::counters::CLOCK;
use wire::definition::Definition;
use wire::request::{Isa, Measure, Request};

use crate::fake::{Books, ledger, request};

/// An instruction so late that a device has long sent what it held at the beginning.
const LATE: u64 = 1 << 27;

/// A request for marks on a console of this name in the system's folder for temporary files, which is empty.
fn marked(name: &str) -> (Request, PathBuf) {
    let measure = Measure { has_marks: true, ..Measure::default() };
    let console = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let console = console.to_str().unwrap().to_owned();
    let request = Request { console, ..request(Isa::Riscv64, None, measure) };
    let file = PathBuf::from(printed(&request));
    fs::write(&file, "").unwrap();
    (request, file)
}

/// Marks so far: instruction and bytes.
fn marks(ledger: &Ledger<Books>) -> Vec<(u64, u64)> {
    let definitions = ledger.records().definitions();
    let marks = definitions.iter().filter_map(|definition| match *definition {
        Definition::Mark { at_insns, bytes } => Some((at_insns, bytes)),
        _ => None,
    });
    marks.collect()
}

#[test]
fn output_is_marked_at_the_next_sample_and_also_where_a_device_sends_later() {
    let (request, file) = marked("marks-follow");
    let (mut marks_of, mut ledger) = (Marks::open(&request, 1).unwrap().unwrap(), ledger(1));
    // Far behind the last store to a device.
    ledger.set(CLOCK, 0, LATE);
    marks_of.may_print(0, &ledger);
    fs::write(&file, "one").unwrap();
    marks_of.mark(0, &mut ledger);
    ledger.add(CLOCK, 0, 1_000_000);
    fs::write(&file, "one, two").unwrap();
    marks_of.mark(0, &mut ledger);
    fs::remove_file(&file).unwrap();
    assert_eq!(marks(&ledger), [(LATE, 3), (LATE + 1_000_000, 8)]);
}

#[test]
fn a_sample_long_after_the_last_access_of_a_device_does_not_look() {
    let (request, file) = marked("marks-rest");
    let [mut one, mut several] = [1, 2].map(|vcpus| Marks::open(&request, vcpus).unwrap().unwrap());
    let mut ledgers = [ledger(1), ledger(2)];
    fs::write(&file, "unseen").unwrap();
    ledgers.iter().for_each(|ledger| ledger.set(CLOCK, 0, LATE));
    one.mark(0, &mut ledgers[0]);
    // Each vCPU's clock counts its own instructions only, so that there each sample looks, also long after an access.
    several.may_print(0, &ledgers[1]);
    ledgers[1].set(CLOCK, 0, 2 * LATE);
    several.mark(0, &mut ledgers[1]);
    // Nothing was printed since.
    ledgers[1].add(CLOCK, 0, 1000);
    several.mark(0, &mut ledgers[1]);
    fs::remove_file(&file).unwrap();
    assert_eq!(marks(&ledgers[0]), []);
    assert_eq!(marks(&ledgers[1]), [(2 * LATE, 6)]);
}
