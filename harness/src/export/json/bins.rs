// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address bins as JSON (`harness bins --json`): instructions and samples by address. Keys are named as in a
//! profile's JSON (`json`).

use std::io::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::bins::bins;
use crate::analysis::owner::Owner;
use crate::export::json::{Address, VERSION, document};
use crate::profile::Profile;

/// Bins of a profile.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Bins")]
struct Document<'a> {
    /// Always "harness-bins".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Instructions of all bins. Exact.
    total_insns: u64,
    /// Samples of these instructions.
    total_samples: u64,
    /// Width of a bin in bytes.
    bin_bytes: u64,
    /// Bins with executed instructions, by address.
    bins: Vec<Bin>,
}

/// Address bin.
#[derive(Serialize, JsonSchema)]
struct Bin {
    /// First address.
    address: Address,
    /// Instructions executed in it. Exact.
    insns: u64,
    /// Samples of these instructions.
    samples: u64,
    /// Function that contains the bin's most executed instruction; for code without a name, the boot ROM or a range
    /// of addresses.
    function: String,
}

/// Writes bins of `bin_bytes` bytes each.
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, bin_bytes: u64, out: &mut dyn Write) -> Result<()> {
    let bins: Vec<Bin> = bins(profile, bin_bytes)
        .into_iter()
        .map(|bin| Bin {
            address: Address(bin.start),
            insns: bin.insns,
            samples: bin.samples,
            function: Owner::of(profile, bin.hottest).to_string(),
        })
        .collect();
    let document = Document {
        format: "harness-bins",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        total_insns: bins.iter().map(|bin| bin.insns).sum(),
        total_samples: bins.iter().map(|bin| bin.samples).sum(),
        bin_bytes,
        bins,
    };
    document::write_line(&document, out)
}

/// JSON Schema of the output.
///
/// # Errors
/// No known errors.
pub fn schema() -> Result<String> {
    document::schema::<Document<'_>>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;

    #[test]
    fn bins_add_up_and_say_what_lies_there() {
        let profile = empty().function("main", 0x40, 8).insn(0x40, 20).insn(0x46, 30).insn(0x100, 50).sampled();
        let mut out = Vec::new();
        write(&profile, 4, &mut out).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["total_insns"], 100);
        let bins: Vec<(&str, u64, &str)> = document["bins"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bin| {
                let text = |key: &str| bin[key].as_str().unwrap();
                (text("address"), bin["insns"].as_u64().unwrap(), text("function"))
            })
            .collect();
        assert_eq!(bins[..2], [("0x40", 20, "main"), ("0x44", 30, "main")]);
        assert_eq!((bins[2].0, bins[2].1), ("0x100", 50));
    }
}
