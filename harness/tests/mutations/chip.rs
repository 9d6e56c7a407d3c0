// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of chips: chip files, and vendors' SVD files.

use std::fs;
use std::path::Path;

use harness::chip::{self, svd::Svd};

use super::made;
use super::session::Seed;

/// SVD with each way of repeating and deriving.
const SVD: &str = r#"<?xml version="1.0"?>
<device><name>STM32F407</name><cpu><nvicPrioBits>4</nvicPrioBits></cpu><size>32</size><resetMask>0xffffffff</resetMask>
<peripherals>
<peripheral><name>SDIO</name><baseAddress>0x40012c00</baseAddress>
<addressBlock><offset>0</offset><size>0x400</size></addressBlock>
<registers>
<cluster><dim>2</dim><dimIncrement>0x20</dimIncrement><name>CH[%s]</name><addressOffset>0x40</addressOffset>
<register><dim>3</dim><dimIncrement>4</dimIncrement><dimIndex>A,B,C</dimIndex><name>D%s</name>
<addressOffset>0</addressOffset><size>16</size></register></cluster>
<register><name>ARG</name><addressOffset>0x8</addressOffset><resetValue>0x5</resetValue><access>read-only</access>
<fields><field><name>F%s</name><dim>4</dim><dimIncrement>8</dimIncrement><bitOffset>0</bitOffset><bitWidth>3</bitWidth>
</field></fields></register>
<register derivedFrom="ARG"><name>CMD</name><addressOffset>0xc</addressOffset></register>
</registers><interrupt><name>SDIO</name><value>49</value></interrupt></peripheral>
<peripheral derivedFrom="SDIO"><name>SDIO2</name><baseAddress>0x40013c00</baseAddress></peripheral>
<peripheral><name>RCC</name><baseAddress>0x40023800</baseAddress>
<addressBlock><offset>0</offset><size>0x400</size></addressBlock>
<registers>
<register><name>CR</name><addressOffset>0</addressOffset><resetValue>0x83</resetValue><fields>
<field><name>HSERDY</name><bitRange>[17:17]</bitRange></field><field><name>PLL</name><lsb>24</lsb><msb>25</msb></field>
</fields></register>
</registers></peripheral>
</peripherals></device>
"#;

pub(crate) fn chips(_: &Path) -> Vec<Seed> {
    made::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("chips"), ".toml")
}

pub(crate) fn svds(_: &Path) -> Vec<Seed> {
    vec![Seed { name: "chip.svd".to_owned(), bytes: SVD.into() }]
}

/// Reads a chip file, and asks for its names as a run's reports do.
pub(crate) fn read_chip(_: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    let path = scratch.join("mine.toml");
    fs::write(&path, bytes).unwrap();
    let Ok(chip) = chip::read(&path, None) else { return false };
    chip.describe();
    for block in &chip.wire.blocks {
        for offset in [0, 4, block.bytes.wrapping_sub(4)] {
            let address = block.start.wrapping_add(offset);
            drop(chip.name_of(address));
            drop(chip.register_name(address));
            chip.holds(address);
            let (reached, bits) = chip.reached(address, 0x8000_0001);
            chip.bit_names(reached, bits);
        }
    }
    true
}

/// Reads an SVD file, and names its bits.
pub(crate) fn read_svd(_: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    let path = scratch.join("chip.svd");
    fs::write(&path, bytes).unwrap();
    let Ok(svd) = Svd::open(&path) else { return false };
    for address in (0x4001_2c00..0x4001_2d00).step_by(4).chain([0x4001_3c0c, 0x4002_3800, 0, u64::MAX]) {
        for mask in [u32::MAX, 1 << 17] {
            drop(svd.name_of(address, mask));
        }
    }
    // A built-in chip takes its names, and keeps its own.
    chip::find_with("stm32f407", Some(&path)).is_ok_and(|chip| !chip.describe().is_empty())
}
