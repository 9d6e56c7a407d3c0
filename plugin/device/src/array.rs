// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memories that registers reach one byte at a time, as an EEPROM's.

use wire::chip::Array;

/// Contents of such a memory. An address without a byte reads as an erased one, and writing there changes nothing.
pub(crate) struct Contents {
    bytes: Vec<u8>,
    erased: u8,
}

impl Contents {
    /// The contents at reset.
    pub(crate) fn new(array: &Array) -> Contents {
        let erased = array.reset as u8;
        let mut bytes = array.contents.clone();
        bytes.resize(array.bytes as usize, erased);
        Contents { bytes, erased }
    }

    /// The byte at an address.
    pub(crate) fn read(&self, address: u32) -> u8 {
        self.bytes.get(address as usize).copied().unwrap_or(self.erased)
    }

    /// Gives the byte at an address a value.
    pub(crate) fn write(&mut self, address: u32, value: u8) {
        if let Some(byte) = self.bytes.get_mut(address as usize) {
            *byte = value;
        }
    }

    /// Clears the bits of the byte at an address that are 0 in `value`.
    pub(crate) fn program(&mut self, address: u32, value: u8) {
        self.write(address, self.read(address) & value);
    }

    /// Gives the byte at an address its value at reset.
    pub(crate) fn erase(&mut self, address: u32) {
        self.write(address, self.erased);
    }
}
