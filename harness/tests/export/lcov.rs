// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: lcov and genhtml show the executed lines and functions of firmware that was built without gcov. All
//! numbers here are read from these tools' output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::analysis::functions;
use harness::profile::{Function, Profile};
use tempfile::TempDir;

use crate::common::{alone, run, run_file};

/// Makes a directory with a saved profile.
fn saved(profile: &Profile) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("profile.fwp"), profile.to_bytes().unwrap()).unwrap();
    dir
}

fn export(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.args(["export", "profile.fwp", "--format", "lcov"]).args(args).current_dir(dir);
    command
}

/// Writes `firmware.info` with resolved source paths.
#[track_caller]
fn exported(dir: &Path) -> String {
    let output = export(dir, &["-o", "firmware.info", "--source-map", &format!("={}", root().display())]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(dir.join("firmware.info")).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap()
}

#[track_caller]
fn tool(name: &str, dir: &Path, args: &[&str]) -> String {
    let output = Command::new(name).args(args).arg("firmware.info").current_dir(dir).output();
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{name}: {error}: run ci/setup --viewers"));
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name}: {said}");
    // Problems that the tools only warn of.
    assert!(!said.contains("ERROR") && !said.contains("mismatch") && !said.contains("negative"), "{name}: {said}");
    said
}

/// Numbers of lines and of functions, as `(hit, found)`.
fn summary(dir: &Path) -> [(usize, usize); 2] {
    let text = tool("lcov", dir, &["--summary"]);
    ["lines.", "functions."].map(|label| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap_or_else(|| panic!("{text}"));
        let (_, counts) = line.split_once('(').unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = counts.split_whitespace().collect();
        (words[0].parse().unwrap(), words[2].parse().unwrap())
    })
}

/// genhtml's pages whose names have this ending, by the source's path.
fn pages(dir: &Path, options: &[&str], ending: &str) -> BTreeMap<String, String> {
    fn visit(dir: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { visit(&path, pages) } else { pages.push(path) }
        }
    }
    tool("genhtml", dir, &[&["--no-prefix", "--quiet", "-o", "html"], options].concat());
    let mut files = Vec::new();
    visit(&dir.join("html"), &mut files);
    let html = dir.join("html");
    let page = |path: PathBuf| {
        let source = path.strip_prefix(&html).unwrap().to_str()?.strip_suffix(ending)?.to_owned();
        Some((format!("/{source}"), fs::read_to_string(path).unwrap()))
    };
    files.into_iter().filter_map(page).collect()
}

/// Removes tags from a text and decodes entities.
fn plain(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Counts by line of a page, for lines with code.
fn line_counts(page: &str) -> BTreeMap<u32, u64> {
    let text = plain(page);
    let counts = text.lines().filter_map(|line| {
        let (numbers, _) = line.split_once(" : ")?;
        let mut numbers = numbers.split_whitespace();
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    counts.collect()
}

/// Calls by function, from a page of functions.
fn calls(page: &str) -> BTreeMap<String, u64> {
    let cells: Vec<String> = page.lines().filter(|line| line.contains("\"coverFn")).map(plain).collect();
    cells.chunks(2).map(|cells| (cells[0].trim().to_owned(), cells[1].trim().parse().unwrap())).collect()
}

/// Path that [`exported`] gives a source.
fn mapped(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", root().display()) }
}

/// Lines with code by file, and whether one of their instructions was executed.
fn lines(profile: &Profile) -> BTreeMap<String, BTreeMap<u32, bool>> {
    let executed: BTreeSet<u64> = profile.insns().into_keys().collect();
    let mut lines: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
    for code in &profile.names.lines {
        let file = lines.entry(mapped(&profile.names.strings[code.file as usize])).or_default();
        *file.entry(code.line).or_default() |= executed.range(code.start..code.start + code.size_bytes).count() > 0;
    }
    lines
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn genhtml_and_lcov_show_the_lines_that_ran_and_the_calls_of_every_function() {
    for name in ["riscv64-freertos", "cortex-m3-freertos"] {
        let profile = run(name, &[]).expect_code(0).profile();
        let dir = saved(&profile);
        let info = exported(dir.path());
        let expected = lines(&profile);
        let all: Vec<bool> = expected.values().flat_map(|lines| lines.values().copied()).collect();
        let [lines_hit_found, functions_hit_found] = summary(dir.path());
        assert_eq!(lines_hit_found, (all.iter().filter(|ran| **ran).count(), all.len()), "{name}");
        assert!(lines_hit_found.0 > 800 && lines_hit_found.0 < lines_hit_found.1, "{name}");

        let sources = pages(dir.path(), &[], ".gcov.html");
        let shown: BTreeMap<_, _> =
            sources.iter().map(|(source, page)| (source.clone(), line_counts(page))).collect();
        let ran = |counts: &BTreeMap<u32, u64>| counts.iter().map(|(&line, &count)| (line, count > 0)).collect();
        let shown_ran: BTreeMap<String, BTreeMap<u32, bool>> =
            shown.iter().map(|(source, counts)| (source.clone(), ran(counts))).collect();
        assert_eq!(shown_ran, expected, "{name}");

        // Calls in the tool's pages equal those in harness's table.
        let table = functions::table(&profile);
        let functions: BTreeMap<_, _> = pages(dir.path(), &[], ".func.html")
            .into_iter()
            .flat_map(|(source, page)| {
                calls(&page).into_iter().map(move |(function, calls)| ((source.clone(), function), calls))
            })
            .collect();
        assert_eq!(functions.len(), functions_hit_found.1, "{name}");
        assert_eq!(functions.values().filter(|calls| **calls > 0).count(), functions_hit_found.0, "{name}");
        let mut checked = 0;
        for row in table.rows.iter().filter(|row| !row.linkage_name.contains('.')) {
            let Some(file) = &row.file else { continue };
            assert_eq!(functions[&(mapped(file), row.linkage_name.clone())], row.calls, "{name}: {}", row.name);
            // A function's first line ran at every call.
            let start = row.start.unwrap();
            let first =
                profile.names.lines.iter().find(|code| (code.start..code.start + code.size_bytes).contains(&start));
            let first = first.unwrap();
            let counts = &shown[&mapped(&profile.names.strings[first.file as usize])];
            assert!(counts[&first.line] >= row.calls, "{name}: {}", row.name);
            checked += 1;
        }
        assert!(checked > 60, "{name}: only {checked} functions");
        // Functions that never ran are listed, too.
        let executed: BTreeSet<u64> = table.rows.iter().filter_map(|row| row.start).collect();
        let never = profile.names.functions.iter().filter(|function| !executed.contains(&function.start));
        let never: Vec<&Function> = never.filter(|function| function.file.is_some()).collect();
        assert!(!never.is_empty(), "{name}");
        for function in never {
            let key = (mapped(function.file.as_ref().unwrap()), function.linkage_name.clone());
            assert_eq!(functions.get(&key), Some(&0), "{name}: {}", function.name);
        }
        assert_eq!(info, exported(dir.path()), "{name}: the same bytes twice");
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_line_counts_as_often_as_its_source_says() {
    let profile = run("cortex-m3-freertos", &[]).expect_code(0).profile();
    let dir = saved(&profile);
    exported(dir.path());
    let sources = pages(dir.path(), &[], ".gcov.html");
    let crc = &sources[&mapped("targets/apps/work/crc.c")];
    let text = fs::read_to_string(root().join("targets/apps/work/crc.c")).unwrap();
    let count = |wanted: &str| {
        let line = text.lines().position(|line| line.contains(wanted)).unwrap() as u32 + 1;
        line_counts(crc)[&line]
    };
    // 400 blocks of 2,048 bytes of 8 bits; and a table of 256 entries, made once. `shift_byte` is inlined in both.
    assert_eq!(count("crc = shift_byte(crc ^ *p)"), 400 * 2048);
    assert_eq!(count("table[i] = shift_byte(i)"), 256);
    assert_eq!(count("static inline uint32_t shift_bit"), (400 * 2048 + 256) * 8);
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn cpp_names_are_demangled_by_genhtml() {
    let profile = run("cortex-m3-cpp", &[]).expect_code(0).profile();
    let dir = saved(&profile);
    exported(dir.path());
    let pages = pages(dir.path(), &["--demangle-cpp"], ".func.html");
    let calls: BTreeMap<String, u64> = pages.values().flat_map(|page| calls(page)).collect();
    let table = functions::table(&profile);
    let mut checked = 0;
    for row in table.rows.iter().filter(|row| row.file.is_some() && row.name.contains("firmware::")) {
        if !row.linkage_name.contains('.') && !row.linkage_name.contains("D2") && !row.linkage_name.contains("C2") {
            assert_eq!(calls.get(&row.name), Some(&row.calls), "{}: {calls:#?}", row.name);
            checked += 1;
        }
    }
    assert!(checked >= 3, "{table:#?}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn names_and_paths_that_hurt_arrive() {
    let mut profile = run("cortex-m3-bare", &[]).expect_code(0).profile();
    let long = "x".repeat(1000);
    let names = ["f(int, char)", "f(int, long)", "a<b;c> \"d\" 7", "größe\nzwei", &long, ""];
    let dir = saved(&profile);
    let paths = ["src/a, b.c", "src/with space/größe.c", "src/two\nlines.c"];
    let used: Vec<u64> =
        functions::table(&profile).rows.iter().filter_map(|row| row.start).take(names.len()).collect();
    for (index, (name, start)) in names.iter().zip(&used).enumerate() {
        let function = profile.names.functions.iter_mut().find(|function| function.start == *start).unwrap();
        function.linkage_name = (*name).to_owned();
        function.file = Some(dir.path().join(paths[index / 2]).to_str().unwrap().to_owned());
        function.line = Some(1 + index as u32);
        // lcov forgets sources without lines.
        let file = profile.names.strings.len() as u32;
        profile.names.strings.push(function.file.clone().unwrap());
        let code = function.start..function.start + function.size_bytes;
        profile.names.lines.iter_mut().filter(|line| code.contains(&line.start)).for_each(|line| line.file = file);
    }
    // Two functions of one name in one file.
    profile.names.functions.iter_mut().find(|function| function.start == used[5]).unwrap().linkage_name =
        long.clone();
    fs::write(dir.path().join("profile.fwp"), profile.to_bytes().unwrap()).unwrap();
    exported(dir.path());
    let [_, (hit, found)] = summary(dir.path());
    let pages = pages(dir.path(), &["--ignore-errors", "source"], ".func.html");
    let shown: BTreeMap<(&str, String), u64> = pages
        .iter()
        .filter_map(|(path, page)| Some((path.strip_prefix(dir.path().to_str().unwrap())?, page)))
        .flat_map(|(path, page)| calls(page).into_iter().map(move |(name, calls)| ((path, name), calls)))
        .collect();
    let table = functions::table(&profile);
    let calls = |at: usize| table.rows.iter().find(|row| row.start == Some(used[at])).unwrap().calls;
    let expected = [
        (("/src/a, b.c", "f(int%2C char)".to_owned()), calls(0)),
        (("/src/a, b.c", "f(int%2C long)".to_owned()), calls(1)),
        (("/src/with space/größe.c", "a<b;c> \"d\" 7".to_owned()), calls(2)),
        (("/src/with space/größe.c", "größe%0Azwei".to_owned()), calls(3)),
        (("/src/two%0Alines.c", format!("{long}@5")), calls(4)),
        (("/src/two%0Alines.c", format!("{long}@6")), calls(5)),
    ];
    assert_eq!(shown, BTreeMap::from(expected));
    assert!(hit >= 6 && found > hit, "{hit} of {found}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_profile_of_nothing_covers_nothing() {
    let mut profile = run("cortex-m3-exit0", &[]).expect_code(0).profile();
    profile.vcpus.clear();
    profile.samples.clear();
    let dir = saved(&profile);
    exported(dir.path());
    let [lines, functions] = summary(dir.path());
    assert!(lines.0 == 0 && lines.1 > 0 && functions.0 == 0 && functions.1 > 0, "{lines:?} {functions:?}");
}

#[test]
fn without_debug_information_it_says_what_to_do() {
    let (_dir, raw) = alone("cortex-m3-bare.bin");
    let raw = run_file(&raw, &["--load-addr", "0", "--machine", "mps2-an385"]);
    for profile in
        [run("cortex-m3-bare-nodwarf", &[]).profile(), run("cortex-m3-bare-stripped", &[]).profile(), raw.profile()]
    {
        let dir = saved(&profile);
        let output = export(dir.path(), &["-o", "firmware.info"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("build the firmware with -g, or give the ELF that has it with --symbols"),
            "{stderr}"
        );
    }
}

#[test]
fn a_reader_that_leaves_and_a_map_without_equals_sign() {
    let dir = saved(&run("riscv64-freertos", &[]).profile());
    let mut child = export(dir.path(), &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = export(dir.path(), &["--source-map", "/build"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("there is no = in it"), "{stderr}");
}
