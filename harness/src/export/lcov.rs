//! lcov's tracefile: executions of lines and functions, for firmware that was built without gcov and spends no memory
//! on counting.
//!
//! A line's count is its number of executions, not of instructions. It is the count of the line's most executed
//! instruction: a loop's condition runs once more than its body, and gcov gives the condition's number, too. The counts
//! of all copies of a line are added up. There is one copy in each function, and one in each place into which the
//! compiler inlined the line; copies differ by the lines of the calls. So a line has a count above 0 exactly if one of
//! its instructions ran. The count differs from gcov's if the compiler unrolled a loop (only one of the copies counts),
//! inlined two calls of one line (only the call that ran more often counts), or merged, moved or removed code.
//!
//! A function's count is its calls, as in [`functions::table`]. Functions that compilers split or copied under other
//! names (`crc32.constprop.0`) are added to the function in the source. `.part` and `.cold` pieces are entered from
//! their function, so they count only if the function has no other code left. A function that exists only inlined into
//! others is not listed, but its lines are. Functions have the names of the symbol table, since lcov's names have no
//! commas; `genhtml --demangle-cpp` demangles them.
//!
//! Branches are not listed: counts of instructions alone do not tell which jumps were taken.
//!
//! The format: geninfo(1), FILES.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;

use crate::analysis::functions::{self, RowKind};
use crate::analysis::owner::Owner;
use crate::error::InputError;
use crate::export::settings::Settings;
use crate::profile::{Frame, Function, Profile};
use crate::text::symbol_name::{is_piece, stable_name};

/// Lines and functions of one source file.
#[derive(Default)]
struct Source<'a> {
    functions: BTreeMap<(u32, &'a str), Calls>,
    /// Executions by line.
    lines: BTreeMap<u32, u64>,
}

impl Source<'_> {
    /// Names of the functions for lcov. A name that occurs several times in the file gets its line appended.
    fn names(&self) -> Vec<String> {
        let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
        for &(_, name) in self.functions.keys() {
            *lines.entry(name).or_default() += 1;
        }
        let name = |&(line, name): &(u32, &str)| {
            let escaped = function_name(name);
            if lines[name] > 1 { format!("{escaped}@{line}") } else { escaped.into_owned() }
        };
        self.functions.keys().map(name).collect()
    }
}

/// Entries of a function, and separately of its pieces.
#[derive(Default)]
struct Calls {
    whole: Option<u64>,
    pieces: u64,
}

impl Calls {
    fn count(&self) -> u64 {
        self.whole.unwrap_or(self.pieces)
    }
}

/// Copy of a line: the function that contains its code, and the calls through which it was inlined there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Copy<'a> {
    function: Option<u64>,
    callers: &'a [Frame],
    inlined: Option<u32>,
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
    let sources = sources(profile);
    writeln!(out, "TN:{}", test_name(&profile.facts.image_name))?;
    for (path, source) in sources {
        writeln!(out, "SF:{}", one_line(path))?;
        let names = source.names();
        for ((line, _), name) in source.functions.keys().zip(&names) {
            writeln!(out, "FN:{line},{name}")?;
        }
        for (calls, name) in source.functions.values().zip(&names) {
            writeln!(out, "FNDA:{},{name}", calls.count())?;
        }
        writeln!(out, "FNF:{}", source.functions.len())?;
        writeln!(out, "FNH:{}", source.functions.values().filter(|calls| calls.count() > 0).count())?;
        for (line, count) in &source.lines {
            writeln!(out, "DA:{line},{count}")?;
        }
        writeln!(out, "LF:{}", source.lines.len())?;
        writeln!(out, "LH:{}", source.lines.values().filter(|count| **count > 0).count())?;
        writeln!(out, "end_of_record")?;
    }
    Ok(())
}

fn sources(profile: &Profile) -> BTreeMap<&str, Source<'_>> {
    let mut sources: BTreeMap<&str, Source<'_>> = BTreeMap::new();
    for ((file, line), count) in lines(profile) {
        let Some(path) = profile.names.strings.get(file as usize) else { continue };
        *sources.entry(path.as_str()).or_default().lines.entry(line).or_default() += count;
    }
    let table = functions::table(profile);
    let rows = table.rows.iter().filter(|row| row.kind == RowKind::Function);
    let calls: BTreeMap<u64, u64> = rows.filter_map(|row| Some((row.start?, row.calls))).collect();
    for function in &profile.names.functions {
        let Some((file, line)) = definition(profile, function) else { continue };
        let name = stable_name(&function.linkage_name);
        let source = sources.entry(file).or_default();
        let sums = source.functions.entry((line, name)).or_default();
        let calls = calls.get(&function.start).copied().unwrap_or(0);
        if is_piece(&function.linkage_name) {
            sums.pieces += calls;
        } else {
            *sums.whole.get_or_insert(0) += calls;
        }
    }
    sources
}

/// Place of a function's definition; if it is unknown (assembly), the line of the first instruction.
fn definition<'a>(profile: &'a Profile, function: &'a Function) -> Option<(&'a str, u32)> {
    if let (Some(file), Some(line)) = (&function.file, function.line) {
        return Some((file, line));
    }
    profile.names.code_line_at(function.start)
}

/// Executions of each line with code, by file (index into the profile's strings) and line.
fn lines(profile: &Profile) -> BTreeMap<(u32, u32), u64> {
    let names = &profile.names;
    let insns = profile.insns();
    let mut copies: BTreeMap<(u32, u32), BTreeMap<Copy<'_>, u64>> = BTreeMap::new();
    for code in &names.lines {
        let copies = copies.entry((code.file, code.line)).or_default();
        for (&pc, &count) in insns.range(code.start..code.start.saturating_add(code.size_bytes)) {
            let frames = names.frames_at(pc);
            let (inlined, callers) = frames
                .split_last()
                .map_or((None, frames), |(innermost, callers)| (Some(innermost.function), callers));
            let copy = Copy { function: Owner::of(profile, pc).start(), callers, inlined };
            let most = copies.entry(copy).or_default();
            *most = count.max(*most);
        }
    }
    copies.into_iter().map(|(line, copies)| (line, copies.into_values().sum())).collect()
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
