//! What is asked for and is not there ends with 2 and says why.

use crate::common::refused;

#[test]
fn a_trace_that_matches_nothing_names_what_is_near() {
    refused(
        "cortex-m3-bare",
        &["--trace", "crc32_tabel*"],
        &["--trace crc32_tabel*: no function's name matches", "crc32_table"],
    );
    refused("cortex-m3-bare", &["--trace", "crc32_tabel"], &["--trace crc32_tabel: ", "crc32_table"]);
    refused("cortex-m3-bare-stripped", &["--trace", "crc*"], &["--trace crc*: ", "no symbols"]);
    // The beginning of a much longer name, and nothing like any.
    refused("cortex-m3-bare", &["--trace", "crc32_bitm*"], &["--trace crc32_bitm*: ", "; nearest: `crc32_bitwise`"]);
    refused("cortex-m3-bare", &["--trace", "qqzzyyxxq*"], &["no function's name matches, and none has a similar name"]);
}
