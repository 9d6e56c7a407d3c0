// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listing of a function's instructions under their source lines, as terminal text.

use std::io::{self, Write};

use console::Style;

use crate::analysis::functions::{Row, RowKind};
use crate::analysis::listing::{Instruction, Listing, Run, SourceLine};
use crate::image::symbols;
use crate::text::columns::clip;
use crate::text::number::{Hex, group, share};
use crate::text::printable::{printable, source};
use crate::text::symbol_name::file_name;
use crate::text::tone::Tone;

/// Most rows of the table of lines.
pub const MOST_LINES: usize = 10;

/// Properties of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// Whether to write in colour.
    pub color: bool,
    /// Width that lines are cut to; None: lines are whole.
    pub width_columns: Option<usize>,
}

/// Writes the listing of a function, or of all instances of a generic: first a summary of all, each with the number
/// that selects it, then one after another.
///
/// # Errors
/// Errors of `out`.
pub fn write_all(listings: &[Listing], screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    if let [listing] = listings {
        return write(listing, screen, out);
    }
    let total_insns = listings.first().map_or(0, |listing| listing.total_insns);
    let sum = |of: fn(&Row) -> u64| listings.iter().map(|listing| of(&listing.row)).sum::<u64>();
    let inlined = listings.first().and_then(|listing| listing.inlined.as_deref());
    let generic = listings.first().map(|listing| symbols::generic(&listing.row.name)).unwrap_or_default();
    let name = inlined.unwrap_or(&generic);
    let (many, calls) = match inlined {
        Some(_) => (format!("inlined into {} functions", listings.len()), String::new()),
        None => (format!("{} instances", listings.len()), format!("{} calls, ", group(sum(|row| row.calls)))),
    };
    writeln!(
        out,
        "{}: {many}, {} instructions ({} of {}){}, {calls}{} samples\n",
        Style::new().bold().force_styling(screen.color).apply_to(printable(name)),
        group(sum(|row| row.self_insns)),
        share(sum(|row| row.self_insns), total_insns),
        group(total_insns),
        match inlined {
            Some(_) => own_lines(listings.iter().map(|listing| listing.own_insns).sum(), sum(|row| row.self_insns)),
            None => String::new(),
        },
        group(sum(|row| row.samples)),
    )?;
    let insns = |listing: &Listing| group(listing.row.self_insns);
    let width = listings.iter().map(|listing| insns(listing).len()).max().unwrap_or(0);
    for (index, listing) in listings.iter().enumerate() {
        let Row { self_insns, name, start, .. } = &listing.row;
        let (share, insns, at) = (share(*self_insns, total_insns), insns(listing), Hex(start.unwrap_or(0)));
        writeln!(out, "  #{}  {share:>7}  {insns:>width$}  {at}  {}", index + 1, printable(name))?;
    }
    for (index, listing) in listings.iter().enumerate() {
        write!(out, "\n#{}  ", index + 1)?;
        write(listing, screen, out)?;
    }
    Ok(())
}

/// Writes the function's totals, its hottest source lines, and all of its code.
///
/// # Errors
/// Errors of `out`.
pub fn write(listing: &Listing, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { listing, screen, out };
    page.head()?;
    if listing.runs.is_empty() {
        return writeln!(page.out, "\nno instruction of it is known");
    }
    page.hottest()?;
    page.code()
}

/// Shows the instructions of the function's own lines, if they differ from those of its code. Comparisons show the
/// same number.
fn own_lines(own_insns: u64, insns: u64) -> String {
    if own_insns == insns { String::new() } else { format!(", own lines: {}", group(own_insns)) }
}

struct Page<'a> {
    listing: &'a Listing,
    screen: Screen,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn put(&mut self, style: &Style, text: &str) -> io::Result<()> {
        let text = self.screen.width_columns.map_or(text.into(), |width| clip(text, width));
        let style = style.clone().force_styling(self.screen.color);
        writeln!(self.out, "{}", style.apply_to(text.trim_end()))
    }

    fn head(&mut self) -> io::Result<()> {
        let Listing { row, size_bytes, total_insns, total_samples, own_insns, inlined, .. } = self.listing;
        let Row { kind, name, file, line, self_insns, calls, samples, .. } = row;
        let title = match inlined {
            Some(inlined) => format!("{inlined}, inlined into {name}"),
            None => name.clone(),
        };
        writeln!(self.out, "{}", Style::new().bold().force_styling(self.screen.color).apply_to(printable(&title)))?;
        if let Some(file) = file.as_ref().filter(|_| inlined.is_none()) {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            writeln!(self.out, "defined at {}{line}", printable(file))?;
        }
        if let (Some(start), Some(size_bytes)) = (row.start, size_bytes) {
            let at = if inlined.is_some() { "in the function at" } else { "at" };
            writeln!(self.out, "{} bytes of code {at} {}", group(*size_bytes), Hex(start))?;
        }
        let insns = group(*self_insns);
        writeln!(
            self.out,
            "instructions: {insns} ({} of {}){}",
            share(*self_insns, *total_insns),
            group(*total_insns),
            own_lines(*own_insns, *self_insns)
        )?;
        if let Some(cycles) = row.cycles {
            writeln!(self.out, "cycles: {}", group(cycles))?;
        }
        if *kind == RowKind::Function && inlined.is_none() {
            writeln!(self.out, "calls: {}", group(*calls))?;
        }
        writeln!(self.out, "samples: {} of {}", group(*samples), group(*total_samples))
    }

    fn hottest(&mut self) -> io::Result<()> {
        let hottest = self.listing.hottest();
        if hottest.is_empty() {
            return Ok(());
        }
        let self_insns = self.listing.row.self_insns;
        let width = hottest.iter().map(|line| group(line.insns).len()).max().unwrap_or(0).max("Instructions".len());
        let cycles = CyclesColumn::of(hottest.iter().map(|line| line.cycles));
        self.put(&Style::new(), "")?;
        let heading = format!("  Share  {:>width$}{}  Samples  Source line", "Instructions", cycles.heading());
        self.put(&Tone::Heading.style(), &heading)?;
        for line in hottest.iter().take(MOST_LINES) {
            let SourceLine { insns, samples, .. } = line;
            let text = format!(
                "{:>7}  {:>width$}{}  {:>7}  {}",
                share(*insns, self_insns),
                group(*insns),
                cycles.cell(line.cycles),
                group(*samples),
                line_text(line)
            );
            self.put(&Tone::of(*insns, self_insns).style(), &text)?;
        }
        if let Some(rest) = hottest.get(MOST_LINES..).filter(|rest| !rest.is_empty()) {
            let insns: u64 = rest.iter().map(|line| line.insns).sum();
            let cycles = cycles.cell(rest.iter().map(|line| line.cycles).sum());
            let samples: u64 = rest.iter().map(|line| line.samples).sum();
            let noun = if rest.len() == 1 { "line" } else { "lines" };
            let (share, insns, samples) = (share(insns, self_insns), group(insns), group(samples));
            let text = format!("{share:>7}  {insns:>width$}{cycles}  {samples:>7}  {} more {noun}", rest.len());
            self.put(&Style::new(), &text)?;
        }
        Ok(())
    }

    fn code(&mut self) -> io::Result<()> {
        let listing = self.listing;
        let self_insns = listing.row.self_insns;
        let count_width =
            listing.instructions().map(|insn| group(insn.count).len()).max().unwrap_or(0).max("Count".len());
        let cycles = CyclesColumn::of(listing.instructions().map(|insn| insn.cycles));
        let address_width = listing.instructions().map(|insn| address(insn).len()).max().unwrap_or(0);
        self.put(&Style::new(), "")?;
        let heading = format!(
            "  Share  {:>count_width$}{}  Samples  {:<address_width$}  Instruction",
            "Count",
            cycles.heading(),
            "Address"
        );
        self.put(&Tone::Heading.style(), &heading)?;
        for run in &listing.runs {
            if let Some(heading) = heading_of(run, listing) {
                self.put(&Tone::Source.style(), &heading)?;
            }
            for insn in &run.instructions {
                let samples = if insn.samples == 0 { String::new() } else { group(insn.samples) };
                let share = if insn.count == 0 { String::new() } else { share(insn.count, self_insns) };
                let (count, cycles) = (group(insn.count), cycles.cell(insn.cycles));
                let text = if insn.text.is_empty() { "(not in the image)" } else { &insn.text };
                let text = format!(
                    "{share:>7}  {count:>count_width$}{cycles}  {samples:>7}  {:<address_width$}  {}{}",
                    address(insn),
                    printable(text),
                    insn.branch.as_ref().map(|branch| format!("  [{branch}]")).unwrap_or_default()
                );
                self.put(&Tone::of(insn.count, self_insns).style(), &text)?;
            }
        }
        let count: u64 = listing.instructions().map(|insn| insn.count).sum();
        let samples: u64 = listing.instructions().map(|insn| insn.samples).sum();
        let cycles = cycles.cell(listing.instructions().map(|insn| insn.cycles).sum());
        let (share, count, samples) = (share(count, self_insns), group(count), group(samples));
        self.put(&Tone::Heading.style(), &format!("{share:>7}  {count:>count_width$}{cycles}  {samples:>7}  Total"))
    }
}

/// Column of cycles with the gap before it, which is empty where they are not known.
struct CyclesColumn(usize);

impl CyclesColumn {
    /// A column for these values and their sum.
    fn of(values: impl Iterator<Item = Option<u64>>) -> CyclesColumn {
        CyclesColumn(values.sum::<Option<u64>>().map_or(0, |sum| group(sum).len().max("Cycles".len()) + 2))
    }

    fn heading(&self) -> String {
        if self.0 == 0 { String::new() } else { format!("{:>width$}", "Cycles", width = self.0) }
    }

    fn cell(&self, cycles: Option<u64>) -> String {
        format!("{:>width$}", cycles.map(group).unwrap_or_default(), width = self.0)
    }
}

/// Heading of a run of instructions: their source line, its text, and the functions through which it was inlined.
pub fn heading_of(run: &Run, listing: &Listing) -> Option<String> {
    let line = run.line.and_then(|index| listing.lines.get(index));
    let inlined = match run.inlined.as_slice() {
        [] => String::new(),
        names => format!("  [inlined: {}]", names.iter().map(|name| printable(name)).collect::<Vec<_>>().join(" > ")),
    };
    match line {
        Some(line) => Some(line_text(line) + &inlined),
        None if !inlined.is_empty() => Some(inlined.trim_start().to_owned()),
        // If no instruction has a line, headings that say so would only be repetition.
        None if listing.lines.is_empty() => None,
        None => Some("(no source line)".to_owned()),
    }
}

/// Source line with its place: `crc.c:13 crc = table[crc & 0xff];`
pub fn line_text(line: &SourceLine) -> String {
    let place = format!("{}:{}", printable(file_name(&line.file)), line.line);
    let text = line.text.as_deref().map(source).unwrap_or_default();
    format!("{place}  {text}").trim_end().to_owned()
}

fn address(insn: &Instruction) -> String {
    Hex(insn.address).to_string()
}
