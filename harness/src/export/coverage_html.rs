// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage as one page for the browser, without scripts: a table of the files, and each file's lines with their
//! counts.

use std::io::{self, Write};

use crate::analysis::coverage::{Branch, Coverage, Decision, File, Tally};
use crate::analysis::flow::Count;
use crate::analysis::source::Sources;
use crate::text::markup::{escape, shown};
use crate::text::number::{group, share};
use crate::text::printable::source;

/// Most lines without code that are shown between two with code.
const MAX_GAP_LINES: u32 = 12;

/// Explanation of the column about MC/DC.
const MCDC: &str = "MC/DC by object branches: <b>implied</b> where no condition of the decision is reached in two ways, so \
                    that whoever has taken both ways of each branch has shown MC/DC; <b>not provable</b> elsewhere. This \
                    is a statement about the code of this image, no certificate.";

const STYLE: &str = "\
body{font:14px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}\
table{border-collapse:collapse;width:100%}td,th{padding:.1rem .6rem;text-align:right;white-space:pre}\
th:first-child,td:first-child,td.s{text-align:left}td:first-child{white-space:normal;overflow-wrap:anywhere}td.s{width:100%;font-family:monospace}td.n{color:#666}\
tr.y td.s{background:#e6f4e6}tr.n td.s{background:#fbe3e3}tr.p td.s{background:#fdf3d6}\
details{margin:.7rem 0}summary{cursor:pointer;font-weight:600}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td.n{color:#999}\
tr.y td.s{background:#1e3a22}tr.n td.s{background:#4a2020}tr.p td.s{background:#463a17}}";

/// Writes the page; `title` names the runs.
///
/// # Errors
/// Errors of `out`.
pub fn write(coverage: &Coverage, title: &str, sources: &mut Sources, out: &mut dyn Write) -> io::Result<()> {
    let title = escape(&shown(title));
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )?;
    writeln!(out, "<title>Coverage of {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>")?;
    writeln!(out, "<h1>Coverage of {title}</h1>\n<table>")?;
    writeln!(out, "<tr><th>File</th><th>Lines</th><th>Functions</th><th>Branches</th></tr>")?;
    let row = |name: &str, [lines, functions, branches]: [Tally; 3], out: &mut dyn Write| {
        let [lines, functions, branches] = [lines, functions, branches].map(of);
        writeln!(out, "<tr><td>{name}</td><td>{lines}</td><td>{functions}</td><td>{branches}</td></tr>")
    };
    for (number, (path, file)) in coverage.files.iter().enumerate() {
        let name = format!("<a href=\"#f{number}\">{}</a>", escape(&shown(path)));
        row(&name, tallies(file), out)?;
    }
    let all = [File::line_tally, File::function_tally, File::branch_tally].map(|of| coverage.tally(of));
    row("<b>Total</b>", all, out)?;
    writeln!(out, "</table>")?;
    let open = all[2].open;
    if open > 0 {
        writeln!(
            out,
            "<p>Of the branches that do not count as covered, {} ways may have been taken: their counts are only \
             bounded.</p>",
            group(open)
        )?;
    }
    if coverage.files.values().any(|file| !file.decisions.is_empty()) {
        writeln!(out, "<p>{MCDC}</p>")?;
    }
    for (number, (path, file)) in coverage.files.iter().enumerate() {
        write_file(number, path, file, sources, out)?;
    }
    writeln!(out, "</body>\n</html>")
}

fn tallies(file: &File) -> [Tally; 3] {
    [file.line_tally(), file.function_tally(), file.branch_tally()]
}

fn of(Tally { hit, found, .. }: Tally) -> String {
    if found == 0 { String::new() } else { format!("{}  {hit} of {found}", share(hit, found)) }
}

fn write_file(number: usize, path: &str, file: &File, sources: &mut Sources, out: &mut dyn Write) -> io::Result<()> {
    let lines = of(file.line_tally());
    writeln!(out, "<details id=\"f{number}\"><summary>{}: {lines}</summary>\n<table>", escape(&shown(path)))?;
    let mut next = None;
    for (&line, &count) in &file.lines {
        let first = next.unwrap_or(line);
        if line.saturating_sub(first) <= MAX_GAP_LINES {
            for between in first..line {
                if let Some(text) = sources.line(path, between) {
                    write_line(between, [""; 4], text, out)?;
                }
            }
        } else {
            writeln!(out, "<tr><td class=\"n\">⋮</td><td></td><td></td><td></td><td class=\"s\"></td></tr>")?;
        }
        next = line.checked_add(1);
        let branches = file.branches.get(&line).map_or(&[][..], Vec::as_slice);
        let tally = file.branch_tally_at(line);
        let class = if count == 0 {
            "n"
        } else if tally.hit < tally.found {
            "p"
        } else {
            "y"
        };
        let text = sources.line(path, line).unwrap_or_default().to_owned();
        let decision = file.decision_at(line).map_or("", decision_word);
        write_line(line, [class, &group(count), &words(branches), decision], &text, out)?;
    }
    writeln!(out, "</table></details>")
}

/// Words for MC/DC of a line's decision.
fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Shown => "MC/DC implied",
        Decision::Missing => "MC/DC implied, ways missing",
        Decision::NotProvable(_) => "not provable",
    }
}

fn write_line(
    line: u32,
    [class, count, branches, decision]: [&str; 4],
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let text = escape(&source(text));
    writeln!(
        out,
        "<tr{class}><td class=\"n\">{line}</td><td>{count}</td><td>{branches}</td><td class=\"n\">{decision}</td>\
         <td class=\"s\">{text}</td></tr>"
    )
}

/// Ways of a line's branches: `40/60`; one that never ran is `-`.
fn words(branches: &[Branch]) -> String {
    let way = |count: &Count| count.to_string();
    let branch = |branch: &Branch| match branch.executions {
        0 => "-".to_owned(),
        _ => branch.ways.iter().map(way).collect::<Vec<_>>().join(" / "),
    };
    branches.iter().map(branch).collect::<Vec<_>>().join("; ")
}
