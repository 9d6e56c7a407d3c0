// SPDX-License-Identifier: MIT OR Apache-2.0
//! The image's functions, with what their code tells, and its vectors.

use crate::image::Image;
use crate::image::unwind::Frame;

/// Function of the image.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// Names: the key of reports, and the symbol.
    pub(super) name: String,
    pub(super) linkage_name: String,
    pub(super) file: String,
    pub(super) frame: Frame,
    /// Reasons why its own numbers are not bounds.
    pub(super) reasons: Vec<String>,
}

impl Function {
    /// Names by which the user may mean the function.
    pub(super) fn names(&self) -> [&str; 2] {
        [&self.name, &self.linkage_name]
    }
}

/// Index of the function that contains an address; the functions are sorted.
pub(super) fn at(functions: &[Function], address: u64) -> Option<usize> {
    let after = functions.partition_point(|function| function.frame.function.start <= address);
    let index = after.checked_sub(1)?;
    functions[index].frame.function.contains(&address).then_some(index)
}

/// Most vectors of a Cortex-M (Armv8-M: 16 and 480 interrupts).
const MAX_VECTORS: u64 = 496;

/// Words of a Cortex-M's vector table: address and handler, from the initial stack pointer on. The table ends at the
/// first word that is neither empty nor the address of Thumb code in the image.
pub(super) fn vectors(image: &Image) -> impl Iterator<Item = (u64, u64)> {
    let table = image.vector_table.map(|table| table.address);
    let words =
        table.into_iter().flat_map(|start| (0..MAX_VECTORS).filter_map(move |number| start.checked_add(4 * number)));
    let words = words.map_while(|address| Some((address, u64::from(image.loaded_u32(address)?))));
    words
        .enumerate()
        .take_while(|&(number, (_, word))| {
            number == 0 || word == 0 || (word & 1 == 1 && image.code_at(word & !1).is_some())
        })
        .map(|(_, row)| row)
}
