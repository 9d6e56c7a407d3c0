// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images without symbols: functions are named by address, and the findings are the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use harness::analysis::heap;
use harness::image::symbols::Symbols;

use crate::common::{built, image, measured, run_file};

#[test]
fn allocators_that_are_named_by_address_are_followed_as_they_are_by_name() {
    for (name, strip) in [("cortex-m3-heap", "arm-none-eabi-strip"), ("riscv64-heap", "riscv64-unknown-elf-strip")] {
        let elf = std::fs::read(image(name)).unwrap();
        let symbols = Symbols::new(Some(&elf), 0, name.starts_with("cortex"));
        let starts: BTreeMap<&str, u64> = symbols.entries().collect();
        let rules = [
            ("--heap-alloc", "malloc", "(size=arg0)"),
            ("--heap-alloc", "calloc", "(count=arg0, size=arg1)"),
            ("--heap-alloc", "realloc", "(old=arg0, size=arg1)"),
            ("--heap-alloc", "memalign", "(align=arg0, size=arg1)"),
            ("--heap-alloc", "posix_memalign", "(align=arg1, size=arg2) -> *arg0"),
            ("--heap-free", "free", ""),
        ];
        let rules = rules
            .map(|(option, function, arguments)| [option.to_owned(), format!("{:#x}{arguments}", starts[function])]);
        let args: Vec<&str> = rules.iter().flatten().map(String::as_str).collect();
        let folder = built::scratch();
        let stripped = folder.path().join("stripped.elf");
        strip_to(strip, &image(name), &stripped);
        let by_address = heap::replay(&run_file(&stripped, &args).expect_code(0).profile()).unwrap();
        let by_name = heap::replay(measured(name, &["--heap"]).profile()).unwrap();
        let sums = |found: &heap::HeapUse| (found.total, found.peak, found.peak_at_insns, found.at_end);
        assert!(by_name.total.allocated.blocks > 0);
        assert_eq!(sums(&by_address), sums(&by_name), "{name}");
    }
}

fn strip_to(strip: &str, image: &Path, stripped: &Path) {
    built::run(Command::new(strip).arg("-o").arg(stripped).arg(image));
}
