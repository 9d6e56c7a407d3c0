// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of debug sections, made where a reader would be led astray or would never end.

use gimli::{EndianSlice, LittleEndian, SectionId};

/// Bytes of a debug section.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes to write into a section.
pub(super) struct Patch {
    pub(super) section: SectionId,
    pub(super) start: usize,
    pub(super) bytes: Vec<u8>,
}
