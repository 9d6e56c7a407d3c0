// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that name missing things end with 2 and the reason.

use wire::timeline::What;

use crate::common::{Run, refused, run};

#[test]
fn a_trace_that_matches_nothing_names_what_is_near() {
    refused(
        "cortex-m3-bare",
        &["--trace", "crc32_tabel*"],
        &["--trace crc32_tabel*: no function's name matches", "crc32_table"],
    );
    refused("cortex-m3-bare", &["--trace", "crc32_tabel"], &["--trace crc32_tabel: ", "crc32_table"]);
    refused("cortex-m3-bare-stripped", &["--trace", "crc*"], &["--trace crc*: ", "no symbols"]);
    // First the beginning of a much longer name, then a name like no other.
    refused("cortex-m3-bare", &["--trace", "crc32_bitm*"], &["--trace crc32_bitm*: ", "; nearest: `crc32_bitwise`"]);
    refused(
        "cortex-m3-bare",
        &["--trace", "qqzzyyxxq*"],
        &["no function's name matches, and none has a similar name"],
    );
}

#[test]
fn functions_of_an_image_without_symbols_are_traced_by_address_as_they_are_by_name() {
    let named = run("cortex-m3-bare", &["--trace", "crc32_table"]);
    let function = named.profile().names.find("crc32_table").unwrap().remove(0);
    let bare = run("cortex-m3-bare-stripped", &["--trace", &format!("{:#x}", function.address)]);
    let calls = |run: &Run| {
        let profile = run.profile();
        let events: Vec<_> = profile.timeline.as_ref().unwrap().events().collect();
        let calls = events.iter().filter(|event| matches!(event.what, What::Called { .. })).count();
        let returns = events.iter().filter(|event| matches!(event.what, What::Returned { .. })).count();
        (calls, returns)
    };
    assert!(calls(&named).0 > 0);
    assert_eq!(calls(&bare), calls(&named));
    refused(
        "cortex-m3-bare-stripped",
        &["--trace", "0xf0000000"],
        &["--trace 0xf0000000: no function is at 0xf0000000: "],
    );
    // An address works, as for spans and the window.
    let from = format!("{:#x}", function.address);
    let window =
        |name: &str, from: &str| run(name, &["--from", from, "--for", "1000"]).profile().facts.before_window_insns;
    assert_eq!(window("cortex-m3-bare-stripped", &from), window("cortex-m3-bare", "crc32_table"));
}
