// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage in Cobertura's XML, which GitLab, Jenkins and Azure show
//! (<https://cobertura.sourceforge.net/xml/coverage-04.dtd>).
//!
//! A way of a branch counts as covered only if it was taken for certain.

use std::io::{self, Write};

use crate::analysis::coverage::{Coverage, File, Tally};
use crate::text::markup;
use crate::text::symbol_name::file_name;

/// Writes the document.
///
/// # Errors
/// Errors of `out`.
pub fn write(coverage: &Coverage, out: &mut dyn Write) -> io::Result<()> {
    let (lines, branches) = (coverage.tally(File::line_tally), coverage.tally(File::branch_tally));
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<!DOCTYPE coverage SYSTEM \"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">")?;
    // The format wants a time; that of the run would make two equal runs differ.
    writeln!(
        out,
        "<coverage line-rate=\"{}\" branch-rate=\"{}\" lines-covered=\"{}\" lines-valid=\"{}\" \
         branches-covered=\"{}\" branches-valid=\"{}\" complexity=\"0\" version=\"{}\" timestamp=\"0\">",
        rate(lines),
        rate(branches),
        lines.hit,
        lines.found,
        branches.hit,
        branches.found,
        env!("CARGO_PKG_VERSION"),
    )?;
    writeln!(out, "<sources><source>.</source></sources>\n<packages>")?;
    let rates = rates(lines, branches);
    writeln!(out, "<package name=\"firmware\" {rates}>\n<classes>")?;
    for (path, file) in &coverage.files {
        write_file(path, file, out)?;
    }
    writeln!(out, "</classes>\n</package>\n</packages>\n</coverage>")
}

fn write_file(path: &str, file: &File, out: &mut dyn Write) -> io::Result<()> {
    let rates = rates(file.line_tally(), file.branch_tally());
    let (name, path) = (attribute(file_name(path)), attribute(path));
    writeln!(out, "<class name=\"{name}\" filename=\"{path}\" {rates}>\n<methods/>\n<lines>")?;
    for (line, hits) in &file.lines {
        let Tally { hit, found, .. } = file.branch_tally_at(*line);
        let branches = match (100 * hit).checked_div(found) {
            Some(percent) => format!("branch=\"true\" condition-coverage=\"{percent}% ({hit}/{found})\""),
            None => "branch=\"false\"".to_owned(),
        };
        writeln!(out, "<line number=\"{line}\" hits=\"{hits}\" {branches}/>")?;
    }
    writeln!(out, "</lines>\n</class>")
}

fn rates(lines: Tally, branches: Tally) -> String {
    format!("line-rate=\"{}\" branch-rate=\"{}\" complexity=\"0\"", rate(lines), rate(branches))
}

/// Share of what ran, from 0 to 1; of nothing all ran.
fn rate(tally: Tally) -> String {
    if tally.found == 0 { "1".to_owned() } else { format!("{:.4}", tally.hit as f64 / tally.found as f64) }
}

fn attribute(text: &str) -> String {
    markup::escape(&markup::line(text)).replace('"', "&quot;")
}
