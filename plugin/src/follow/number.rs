//! Numbers as keys of maps that callbacks look into: addresses, and ids that are given here. Nothing that the firmware does
//! makes many of them collide, for it does not choose the keys, and there are as many as its code is long.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such keys.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Numbers>>;

/// Hashes them: each is mixed in by a multiplication.
#[derive(Default)]
pub(crate) struct Numbers(u64);

impl Hasher for Numbers {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's digits, as Knuth has it (The Art of Computer Programming, 6.4).
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}
