// SPDX-License-Identifier: MIT OR Apache-2.0
//! lcov's tracefile: executions of lines, functions and branches, for firmware that was built without gcov and
//! spends no memory on counting.
//!
//! [`crate::analysis::coverage`] defines the counts. Functions have the names of the symbol table, since lcov's names
//! have no commas; `genhtml --demangle-cpp` demangles them.
//!
//! Each branch instruction of a line is a block of its own. A way whose count is only bounded has its least number, so
//! that nothing counts as covered without proof.
//!
//! The format: geninfo(1), FILES.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;

use crate::analysis::coverage::{Coverage, File, Tally};
use crate::error::InputError;
use crate::export::settings::Settings;
use crate::profile::Profile;

/// Names of a file's functions for lcov. A name that occurs several times in the file gets its line appended.
fn names(file: &File) -> Vec<String> {
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, name) in file.functions.keys() {
        *lines.entry(name).or_default() += 1;
    }
    let name = |(line, name): &(u32, String)| {
        let escaped = function_name(name);
        if lines[name.as_str()] > 1 { format!("{escaped}@{line}") } else { escaped.into_owned() }
    };
    file.functions.keys().map(name).collect()
}

/// Writes the tracefile.
///
/// # Errors
/// When the image has no source lines; errors of `out`.
pub fn write(profile: &Profile, _settings: &Settings, out: &mut dyn Write) -> Result<()> {
    if profile.names.lines.is_empty() {
        let why = "the profile has no source lines, because the image had no debug information";
        let next = "build the firmware with -g, or give the ELF that has it with --symbols, and profile it again";
        return Err(InputError::new(format!("{why}; {next}")).into());
    }
    write_coverage(&Coverage::of(&[profile]), &profile.facts.image_name, out)?;
    Ok(())
}

/// Writes the tracefile of a coverage, with the name of the image, or of what else was run.
///
/// # Errors
/// Errors of `out`.
pub fn write_coverage(coverage: &Coverage, name: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "TN:{}", test_name(name))?;
    for (path, file) in &coverage.files {
        writeln!(out, "SF:{}", one_line(path))?;
        let names = names(file);
        for ((line, _), name) in file.functions.keys().zip(&names) {
            writeln!(out, "FN:{line},{name}")?;
        }
        for (calls, name) in file.functions.values().zip(&names) {
            writeln!(out, "FNDA:{calls},{name}")?;
        }
        let Tally { hit, found, .. } = file.function_tally();
        writeln!(out, "FNF:{found}\nFNH:{hit}")?;
        for (line, branches) in &file.branches {
            for (block, branch) in branches.iter().enumerate() {
                for (way, count) in branch.ways.iter().enumerate() {
                    let taken = if branch.executions == 0 { "-".to_owned() } else { count.least().to_string() };
                    writeln!(out, "BRDA:{line},{block},{way},{taken}")?;
                }
            }
        }
        let Tally { hit, found, .. } = file.branch_tally();
        if found > 0 {
            writeln!(out, "BRF:{found}\nBRH:{hit}")?;
        }
        for (line, count) in &file.lines {
            writeln!(out, "DA:{line},{count}")?;
        }
        let Tally { hit, found, .. } = file.line_tally();
        writeln!(out, "LF:{found}\nLH:{hit}\nend_of_record")?;
    }
    Ok(())
}

/// Test name for an image: letters, digits and `_`, since lcov accepts only words.
fn test_name(image_name: &str) -> String {
    image_name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Path for lcov, which reads a path to the end of the line.
fn one_line(path: &str) -> Cow<'_, str> {
    escaped(path, char::is_control)
}

/// Function's name for lcov, which reads a name to the next comma.
fn function_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() { Cow::Borrowed("[no name]") } else { escaped(name, |c| c == ',' || c.is_control()) }
}

/// Escapes the characters for which `needs` holds, as in `%2C`.
fn escaped(text: &str, needs: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&needs) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if needs(c) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| escaped.push_str(&format!("%{byte:02X}")));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::LineCode;
    use crate::profile::testing::empty;

    /// Adds code of one line, with the index of its file.
    fn line(profile: &mut Profile, start: u64, size_bytes: u64, file: u32, line: u32) {
        profile.names.lines.push(LineCode { start, size_bytes, file, line });
    }

    fn with_files(files: &[&str]) -> Profile {
        let mut profile = empty();
        profile.names.strings.extend(files.iter().map(|&file| file.to_owned()));
        profile
    }

    fn info(profile: &Profile) -> String {
        let mut bytes = Vec::new();
        write(profile, &Settings::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[track_caller]
    fn assert_has(info: &str, lines: &[&str]) {
        for line in lines {
            assert!(info.lines().any(|known| known == *line), "no {line} in\n{info}");
        }
    }

    #[test]
    fn a_loop_runs_as_often_as_its_condition() {
        // for (i = 0; i < 10; i++) f(i): the start runs once, the condition 11 times, the step and the body 10 times.
        let mut profile = with_files(&["a.c"]).function("main", 0x40, 0x10);
        profile = profile.insn(0x40, 1).insn(0x42, 11).insn(0x44, 10).insn(0x46, 10);
        line(&mut profile, 0x40, 4, 0, 5);
        line(&mut profile, 0x44, 2, 0, 6);
        line(&mut profile, 0x46, 2, 0, 5);
        line(&mut profile, 0x48, 2, 0, 7);
        assert_has(&info(&profile), &["TN:blinky_elf", "SF:a.c", "DA:5,11", "DA:6,10", "DA:7,0", "LF:3", "LH:2"]);
    }

    #[test]
    fn branches_that_ran_have_their_ways_and_others_a_dash() {
        // 0x40: beq 0x44; 0x42: beq 0x44, which never ran; 0x44: bx lr
        let mut profile = with_files(&["a.c"]).function("main", 0x40, 6).insn(0x40, 3).insn(0x44, 3);
        profile.code = vec![crate::profile::Code { start: 0x40, bytes: vec![0, 0xd0, 0xff, 0xd0, 0x70, 0x47] }];
        line(&mut profile, 0x40, 6, 0, 5);
        let expected = ["BRDA:5,0,0,3", "BRDA:5,0,1,0", "BRDA:5,1,0,-", "BRDA:5,1,1,-", "BRF:4", "BRH:1"];
        assert_has(&info(&profile), &expected);
    }

    #[test]
    fn copies_of_a_line_are_added_up() {
        // A function in a header has code of its own and is inlined into two others, into one of them twice.
        let mut profile = with_files(&["swap.h"]).function("swap", 0x40, 4).function("sort", 0x50, 8);
        profile = profile.function("shuffle", 0x60, 4);
        profile = profile.insn(0x40, 1).insn(0x50, 10).insn(0x52, 10).insn(0x54, 100).insn(0x60, 1000);
        profile =
            profile.frames(0x50, &["sort", "swap"]).frames(0x52, &["sort", "swap"]).frames(0x54, &["sort", "swap"]);
        let swap = profile.names.stacks[0][1].function;
        for (stack, call) in [(0, 8), (1, 8), (2, 9)] {
            let frames = &mut profile.names.stacks[stack];
            (frames[0].function, frames[0].line, frames[1].function) = (swap - 1, Some(call), swap);
        }
        for (start, size_bytes) in [(0x40, 4), (0x50, 8), (0x60, 4)] {
            line(&mut profile, start, size_bytes, 0, 3);
        }
        assert_has(&info(&profile), &["DA:3,1111"]);
    }

    #[test]
    fn clones_are_one_function_and_their_pieces_are_none() {
        let mut profile = with_files(&["src/blinky.c"]).function("f.constprop.0", 0x40, 4).function("f", 0x50, 4);
        profile = profile.function("f.part.0", 0x60, 4).function("g.part.0", 0x70, 4).function("g.cold", 0x80, 4);
        profile = profile.insn(0x40, 1).insn(0x50, 2).insn(0x60, 4).insn(0x70, 8);
        line(&mut profile, 0x40, 4, 0, 8);
        assert_has(&info(&profile), &["FN:7,f", "FNDA:3,f", "FN:7,g", "FNDA:8,g", "FNF:2", "FNH:2"]);
    }

    #[test]
    fn namesakes_in_two_files_stay_two_and_those_in_one_have_lines() {
        let mut profile = with_files(&["src/blinky.c"]);
        for start in [0x40, 0x50, 0x60, 0x70] {
            profile = profile.function("init", start, 4).insn(start, start);
        }
        profile.names.functions[1].file = Some("src/other.c".to_owned());
        profile.names.functions[2].line = Some(9);
        profile.names.functions[3].file = None;
        line(&mut profile, 0x70, 4, 0, 12);
        let info = info(&profile);
        assert_has(&info, &["FN:7,init@7", "FNDA:64,init@7", "FNDA:96,init@9", "FN:12,init@12", "FNDA:112,init@12"]);
        assert_has(info.split_once("SF:src/other.c\n").unwrap().1, &["FN:7,init", "FNDA:80,init"]);
    }

    #[test]
    fn sources_that_end_up_in_one_place_are_one() {
        let mut profile = with_files(&["/build/a.c", "a.c"]).insn(0x40, 1).insn(0x50, 2);
        line(&mut profile, 0x40, 2, 0, 3);
        line(&mut profile, 0x50, 2, 1, 3);
        let relocated = |rule: &str| {
            let mut profile = profile.clone();
            crate::analysis::source::SourceMap::parse([rule]).unwrap().relocate(&mut profile.names);
            let mut bytes = Vec::new();
            write(&profile, &Settings::default(), &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_has(&relocated("/build=."), &["SF:./a.c", "SF:a.c", "DA:3,1", "DA:3,2"]);
        assert_has(&relocated("/build/="), &["SF:a.c", "DA:3,3", "LF:1"]);
    }
}
