// SPDX-License-Identifier: MIT OR Apache-2.0
//! `.su` files of `-fstack-usage` as a second witness: the compiler's own number for each function.

use std::collections::BTreeMap;

use super::Program;
use crate::text::symbol_name::file_name;

/// Line of a `.su` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Su {
    /// Source file, without its directory.
    pub file: String,
    /// Function.
    pub function: String,
    /// Bytes of its frame.
    pub bytes: u64,
    /// Whether the frame has a fixed size.
    pub is_static: bool,
}

/// Comparison of the compiler's numbers with those of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// Functions with equal numbers.
    pub equal: u64,
    /// Functions for which the code has more: outgoing arguments, saved registers that the compiler leaves out.
    pub code_has_more: Vec<(String, u64, u64)>,
    /// Functions for which the compiler says more: name, its bytes, the code's bytes.
    pub compiler_says_more: Vec<(String, u64, u64)>,
    /// Lines about functions that the image does not have: inlined, or discarded.
    pub absent: u64,
}

impl Su {
    /// Reads the lines of a file: `file.c:12:5:name`, bytes, and `static`, `dynamic` or `dynamic,bounded`, separated by
    /// tabs. Other lines are left out.
    pub fn parse(text: &str) -> Vec<Su> {
        let line = |line: &str| {
            let [place, bytes, kind] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
            let mut parts = place.splitn(4, ':');
            let (file, _, _, function) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let (file, function) = (file_name(file).to_owned(), function.to_owned());
            Some(Su { file, function, bytes: bytes.parse().ok()?, is_static: kind == "static" })
        };
        text.lines().filter_map(line).collect()
    }
}

impl Witness {
    /// Compares the lines with the functions of an image, by name and file.
    pub fn compare(lines: &[Su], program: &Program) -> Witness {
        let mut witness = Witness::default();
        let mut frames: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (name, file, bytes) in program.frames() {
            frames.insert((name, file), bytes);
        }
        for line in lines.iter().filter(|line| line.is_static) {
            // C++ names come with their arguments.
            let plain = line.function.split('(').next().unwrap_or_default();
            let plain = plain.rsplit([' ']).next().unwrap_or(plain);
            let found = [&*line.function, plain].into_iter().find_map(|name| frames.get(&(name, &*line.file)));
            match found {
                None => witness.absent += 1,
                Some(&bytes) if bytes == line.bytes => witness.equal += 1,
                Some(&bytes) if bytes > line.bytes => {
                    witness.code_has_more.push((line.function.clone(), line.bytes, bytes));
                }
                Some(&bytes) => witness.compiler_says_more.push((line.function.clone(), line.bytes, bytes)),
            }
        }
        witness.code_has_more.sort();
        witness.compiler_says_more.sort();
        witness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_gcc_are_read_and_others_left_out() {
        let text = "src/main.c:12:5:main\t24\tstatic\nmain.c:20:6:fill\t16\tdynamic\nx.cpp:1:2:int ns::f(int)\t8\tstatic\nnot a line\n";
        let lines = Su::parse(text);
        assert_eq!(lines.len(), 3);
        let main = Su { file: "main.c".to_owned(), function: "main".to_owned(), bytes: 24, is_static: true };
        assert_eq!(lines[0], main);
        assert!(!lines[1].is_static && lines[2].function == "int ns::f(int)");
    }
}
