// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that the image gives its code.

use serde::{Deserialize, Serialize};

/// Names that the image gives its code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// All functions of the image, executed or not, as the linker placed them, sorted by address. They do not
    /// overlap.
    pub functions: Vec<Function>,
    /// Other names of functions, by address: several symbols may have the same one.
    pub aliases: Vec<Alias>,
    /// Demangled paths of the Rust closures that are bodies of async functions, sorted. Only DWARF tells them from
    /// other closures.
    pub async_bodies: Vec<String>,
    /// Names and paths that [`Frame`]s refer to.
    pub strings: Vec<String>,
    /// Distinct frame lists, outermost function first.
    pub stacks: Vec<Vec<Frame>>,
    /// Addresses that were executed, or that lie just before a return address (in the call that left it), sorted.
    /// Each has the index of its frame list in `stacks`. Addresses without a name are absent.
    pub locations: Vec<(u64, u32)>,
    /// Source lines of all the image's code, executed or not, by address.
    pub lines: Vec<LineCode>,
    /// Places of executed code in the source: distinct lists, outermost function first.
    pub places: Vec<Vec<Place>>,
    /// Executed addresses, sorted, from which on the executed code has these places (index into `places`) or none.
    pub placed: Vec<(u64, Option<u32>)>,
    /// Starts of the functions whose compiler says that it did not optimise, sorted.
    pub unoptimised: Vec<u64>,
    /// Compilers that made the image, with their options, from DWARF, sorted.
    pub producers: Vec<String>,
}

/// Code of one source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCode {
    /// First address, load bias included.
    pub start: u64,
    /// Bytes of code.
    pub size_bytes: u64,
    /// Source file, as an index into [`Names::strings`].
    pub file: u32,
    /// Line in that file.
    pub line: u32,
}

/// Place in the source as an optimising compiler finds it again in its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Linkage name of the function, or its name if it has none; index into [`Names::strings`].
    pub function: u32,
    /// Line of the function's definition.
    pub start_line: u32,
    /// Line of the instruction, or of the call through which the next place's function was inlined.
    pub line: u32,
    /// Number that tells apart the code of one line; 0: the compiler gave none.
    pub discriminator: u32,
    /// Number of copies that the compiler made of this code, as by unrolling a loop; at least 1.
    pub copies: u32,
}

/// A function as the linker placed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Name in the symbol table.
    pub linkage_name: String,
    /// First address (without Thumb's bit 0), load bias included.
    pub start: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Source file, if DWARF names it.
    pub file: Option<String>,
    /// Line of its definition.
    pub line: Option<u32>,
}

/// Symbol at the start of a function that is shown by another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// First address of the function.
    pub address: u64,
    /// Name in the symbol table.
    pub linkage_name: String,
}

/// Frame at an address: the function itself or one inlined into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name, index into [`Names::strings`].
    pub function: u32,
    /// Source file, index into [`Names::strings`].
    pub file: Option<u32>,
    /// Line in that file at this address.
    pub line: Option<u32>,
    /// Whether the compiler inlined this function into the frame before it.
    pub inlined: bool,
}

impl Names {
    /// Function that contains `address`.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        Some(&self.functions[self.function_index_at(address)?])
    }

    /// Index of the function that contains `address`.
    pub fn function_index_at(&self, address: u64) -> Option<usize> {
        let index = self.functions.partition_point(|function| function.start <= address).checked_sub(1)?;
        let function = &self.functions[index];
        (address - function.start < function.size_bytes).then_some(index)
    }

    /// File and line of an executed address, in the innermost inlined function.
    pub fn line_at(&self, pc: u64) -> Option<(&str, u32)> {
        let frame = self.frames_at(pc).last()?;
        Some((self.strings.get(frame.file? as usize)?, frame.line?))
    }

    /// File and line of the code at an address, executed or not.
    pub fn code_line_at(&self, address: u64) -> Option<(&str, u32)> {
        let after = self.lines.partition_point(|code| code.start <= address);
        let code = &self.lines[after.checked_sub(1)?];
        let file = self.strings.get(code.file as usize)?;
        (address - code.start < code.size_bytes).then_some((file, code.line))
    }

    /// Places of an executed address, outermost function first; empty if they are not known.
    pub fn places_at(&self, pc: u64) -> &[Place] {
        let after = self.placed.partition_point(|&(start, _)| start <= pc);
        let list = after.checked_sub(1).and_then(|index| self.placed[index].1);
        list.and_then(|list| self.places.get(list as usize)).map_or(&[], Vec::as_slice)
    }

    /// Index of the frame list at an executed address; None when it has no name.
    pub fn stack_at(&self, pc: u64) -> Option<u32> {
        let index = self.locations.binary_search_by_key(&pc, |&(at, _)| at).ok()?;
        Some(self.locations[index].1)
    }

    /// Frames at an executed address, outermost first; empty when it has no name.
    pub fn frames_at(&self, pc: u64) -> &[Frame] {
        let stack = self.stack_at(pc).and_then(|stack| self.stacks.get(stack as usize));
        stack.map_or(&[], Vec::as_slice)
    }
}
