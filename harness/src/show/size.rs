// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flash and static RAM on the terminal and in Markdown: one table for each level, whose rows add up to the totals.

use std::cmp::Reverse;
use std::io::{self, Write};

use crate::analysis::size::{Change, Full, Level, Size, Used, compare};
use crate::show::names;
use crate::text::markdown;
use crate::text::number::{Hex, group, group_known, plural, share, signed};
use crate::text::table::write_table;

/// Content of the tables.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Levels that are shown.
    pub levels: Vec<Level>,
    /// Most rows of each table; None: all.
    pub top_rows: Option<usize>,
    /// Columns of the terminal, to which names are cut; None: names are whole.
    pub width_columns: Option<usize>,
}

impl Tables {
    /// Columns that a name is cut to.
    fn name_columns(&self) -> usize {
        let room = |width: usize| width.saturating_sub(NUMBER_COLUMNS).max(MIN_NAME_COLUMNS);
        self.width_columns.map_or(usize::MAX, room)
    }
}

/// Names are not shortened below this, however narrow the terminal is.
const MIN_NAME_COLUMNS: usize = 20;

/// Columns that a table's numbers take at most.
const NUMBER_COLUMNS: usize = 48;

/// Writes the sizes of one image, and the memory that a run used.
///
/// # Errors
/// Errors of `out`.
pub fn write(size: &Size, used: &[Used], tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    for line in summary(size) {
        writeln!(out, "{line}")?;
    }
    for level in &tables.levels {
        match level {
            Level::Region => regions(size, out)?,
            level => table(&heading(*level), rows(size, *level), tables, out)?,
        }
    }
    if !used.is_empty() {
        let mut lines = vec![["Used by the run", "Bytes", "Of", "Share", "Number is"].map(str::to_owned)];
        for row in used {
            lines.push(used_row(row));
        }
        write_table(&lines, out)?;
    }
    Ok(())
}

/// Sums in words: flash by use, RAM, and the origin of the regions.
pub fn summary(size: &Size) -> Vec<String> {
    let [code, constants, initial, rest] = size.flash_by_use;
    let parts = [(code, "code"), (constants, "constants"), (initial, "initial values"), (rest, "between sections")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("{} {what}", group(*bytes)))
        .collect();
    let of = |full: Option<Full>| {
        let Some(Full { region, used_bytes, room_bytes, is_only }) = full else { return String::new() };
        let share = format!("{} of {}", share(used_bytes, room_bytes), group(room_bytes));
        match is_only {
            true => format!(", {share}"),
            false => format!(", the fullest region is {}: {share}", size.region_name(Some(region))),
        }
    };
    let mut lines = vec![
        format!("flash: {} ({}){}", plural(size.total.flash, "byte"), parts.join(", "), of(size.fullest[0])),
        format!("static RAM: {}{}", plural(size.total.ram, "byte"), of(size.fullest[1])),
        format!("regions: {}", size.regions_from),
    ];
    if !size.elsewhere.is_empty() {
        let sum = size.elsewhere.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let sections: Vec<String> =
            size.elsewhere.iter().map(|(section, bytes)| format!("{} {section}", group(*bytes))).collect();
        lines.insert(2, format!("neither: {} ({})", plural(sum, "byte"), sections.join(", ")));
    }
    lines.extend(size.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

fn heading(level: Level) -> String {
    let word = level.word();
    word[..1].to_uppercase() + &word[1..]
}

/// Rows of a level, largest first.
fn rows(size: &Size, level: Level) -> Vec<(String, [u64; 2])> {
    let mut rows: Vec<(String, [u64; 2])> =
        size.rows(level).into_iter().map(|(name, bytes)| (name, [bytes.flash, bytes.ram])).collect();
    rows.sort_by_key(|(name, [flash, ram])| (Reverse(flash.max(ram).to_owned()), name.clone()));
    rows
}

fn regions(size: &Size, out: &mut impl Write) -> io::Result<()> {
    let used: Vec<_> = size.regions.iter().filter(|region| region.used_bytes > 0).collect();
    if used.is_empty() {
        return Ok(());
    }
    let mut lines = vec![["Region", "From", "Size", "Used", "Share", "Free"].map(str::to_owned)];
    for region in used {
        let memory = &region.memory;
        lines.push([
            memory.name.clone(),
            Hex(memory.start).to_string(),
            group(memory.bytes),
            group(region.used_bytes),
            share(region.used_bytes, memory.bytes),
            signed_free(memory.bytes, region.used_bytes),
        ]);
    }
    write_table(&lines, out)
}

/// Free bytes, negative for a region that is too small.
fn signed_free(size: u64, used: u64) -> String {
    let free = i128::from(size) - i128::from(used);
    if free < 0 { signed(free) } else { group(size - used) }
}

/// Flash and RAM of all rows together.
fn sum(rows: &[(String, [u64; 2])]) -> [u64; 2] {
    rows.iter().fold([0; 2], |sum, (_, bytes)| [0, 1].map(|which| sum[which].saturating_add(bytes[which])))
}

fn table(heading: &str, mut rows: Vec<(String, [u64; 2])>, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    let total = sum(&rows);
    let shown = tables.top_rows.filter(|top| top + 1 < rows.len()).unwrap_or(rows.len());
    let rest = rows.split_off(shown);
    let line = |name: String, [flash, ram]: [u64; 2]| {
        [name, group(flash), share(flash, total[0]), group(ram), share(ram, total[1])]
    };
    let width = tables.name_columns();
    let cut: Vec<(&str, usize)> = rows.iter().map(|(name, _)| (name.as_str(), width)).collect();
    let mut lines = vec![[heading, "Flash", "Share", "RAM", "Share"].map(str::to_owned)];
    lines.extend(names::cells(&cut).into_iter().zip(&rows).map(|(name, (_, bytes))| line(name, *bytes)));
    if !rest.is_empty() {
        lines.push(line(format!("{} others (--top 0)", group(rest.len() as u64)), sum(&rest)));
    }
    lines.push(line("total".to_owned(), total));
    write_table(&lines, out)
}

fn used_row(row: &Used) -> [String; 5] {
    let reserved = row.reserved.map(|(_, bytes)| bytes);
    let of = row.used_bytes.zip(reserved).map_or_else(|| "-".to_owned(), |(used, of)| share(used, of));
    let certainty = if row.used_bytes.is_some() { row.certainty } else { "unknown" };
    [row.what.clone(), group_known(row.used_bytes), group_known(reserved), of, certainty.to_owned()]
}

/// Writes the difference of two builds.
///
/// # Errors
/// Errors of `out`.
pub fn write_difference(before: &Size, after: &Size, tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    for line in totals(before, after) {
        writeln!(out, "{line}")?;
    }
    for level in &tables.levels {
        let changes = compare(before, after, *level);
        if changes.is_empty() {
            continue;
        }
        let shown = tables.top_rows.filter(|top| top + 1 < changes.len()).unwrap_or(changes.len());
        let width = tables.name_columns();
        let cut: Vec<(&str, usize)> = changes[..shown].iter().map(|change| (change.name.as_str(), width)).collect();
        let mut lines = vec![
            [&*heading(*level), "Flash before", "after", "Change", "RAM before", "after", "Change"]
                .map(str::to_owned),
        ];
        for (name, change) in names::cells(&cut).into_iter().zip(&changes) {
            lines.push(change_row(name, change));
        }
        if shown < changes.len() {
            let sum = growth(&changes[shown..]);
            let name = format!("{} others (--top 0)", group((changes.len() - shown) as u64));
            let none = String::new;
            lines.push([name, none(), none(), change_cell(sum[0]), none(), none(), change_cell(sum[1])]);
        }
        write_table(&lines, out)?;
    }
    Ok(())
}

/// Growth of all rows together.
fn growth(changes: &[Change]) -> [i128; 2] {
    changes.iter().map(Change::growth).fold([0; 2], |sum, own| [0, 1].map(|which| sum[which] + own[which]))
}

/// Change with its sign; empty for none.
fn change_cell(change: i128) -> String {
    if change == 0 { String::new() } else { signed(change) }
}

fn change_row(name: String, change: &Change) -> [String; 7] {
    let [flash, ram] = change.growth();
    let cell = |bytes: Option<u64>, is_changed: bool| if is_changed { group_known(bytes) } else { String::new() };
    [
        name,
        cell(change.before.map(|bytes| bytes.flash), flash != 0),
        cell(change.after.map(|bytes| bytes.flash), flash != 0),
        change_cell(flash),
        cell(change.before.map(|bytes| bytes.ram), ram != 0),
        cell(change.after.map(|bytes| bytes.ram), ram != 0),
        change_cell(ram),
    ]
}

/// Totals of two builds, with what accounts for most of the growth.
fn totals(before: &Size, after: &Size) -> Vec<String> {
    let changes = compare(before, after, Level::Symbol);
    let line = |what: &str, which: usize, [before, after]: [u64; 2]| {
        let growth = i128::from(after) - i128::from(before);
        let mut by: Vec<&Change> = changes.iter().filter(|change| change.growth()[which] != 0).collect();
        by.sort_by_key(|change| (Reverse(change.growth()[which].abs()), change.name.clone()));
        let by: Vec<String> =
            by.iter().take(3).map(|change| format!("{} {}", change.name, signed(change.growth()[which]))).collect();
        let because = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
        format!("{what}: {} to {} bytes, {}{because}", group(before), group(after), signed(growth))
    };
    vec![
        line("flash", 0, [before.total.flash, after.total.flash]),
        line("static RAM", 1, [before.total.ram, after.total.ram]),
    ]
}

/// Writes the sizes as Markdown, as for a pull request.
///
/// # Errors
/// Errors of `out`.
pub fn write_markdown(size: &Size, used: &[Used], tables: &Tables, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### Size of {}\n", markdown::code(&size.image))?;
    for line in summary(size) {
        writeln!(out, "- {}", markdown::code(&line))?;
    }
    for level in &tables.levels {
        let rows = rows(size, *level);
        let shown = tables.top_rows.unwrap_or(rows.len()).min(rows.len());
        writeln!(out, "\n| {} | flash | RAM |\n|---|--:|--:|", heading(*level))?;
        for (name, [flash, ram]) in &rows[..shown] {
            writeln!(out, "| {} | {} | {} |", markdown::cell(name), group(*flash), group(*ram))?;
        }
        if shown < rows.len() {
            let sum = sum(&rows[shown..]);
            writeln!(out, "| {} others | {} | {} |", rows.len() - shown, group(sum[0]), group(sum[1]))?;
        }
    }
    if !used.is_empty() {
        writeln!(out, "\n| used by the run | bytes | of | share | number is |\n|---|--:|--:|--:|---|")?;
        for row in used {
            let [what, bytes, of, share, certainty] = used_row(row);
            writeln!(out, "| {} | {bytes} | {of} | {share} | {certainty} |", markdown::cell(&what))?;
        }
    }
    Ok(())
}

/// Writes the difference of two builds as Markdown.
///
/// # Errors
/// Errors of `out`.
pub fn write_markdown_difference(
    before: &Size,
    after: &Size,
    tables: &Tables,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "### Size: {} to {}\n", markdown::code(&before.image), markdown::code(&after.image))?;
    for line in totals(before, after) {
        writeln!(out, "- {}", markdown::code(&line))?;
    }
    for level in &tables.levels {
        let changes = compare(before, after, *level);
        if changes.is_empty() {
            continue;
        }
        let shown = tables.top_rows.unwrap_or(changes.len()).min(changes.len());
        writeln!(out, "\n| {} | flash | RAM |\n|---|--:|--:|", heading(*level))?;
        let row = |name: String, [flash, ram]: [i128; 2]| {
            format!("| {name} | {} | {} |", change_cell(flash), change_cell(ram))
        };
        for change in &changes[..shown] {
            writeln!(out, "{}", row(markdown::cell(&change.name), change.growth()))?;
        }
        if shown < changes.len() {
            writeln!(out, "{}", row(format!("{} others", changes.len() - shown), growth(&changes[shown..])))?;
        }
    }
    Ok(())
}
