// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table of functions on the terminal, hottest first.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use crate::analysis::column::Values;
use crate::analysis::crosscheck::CrossCheck;
use crate::analysis::functions::{Row, RowKind, Table};
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::columns::{columns, pad, shorten};
use crate::text::number::{group, group_known, share};
use crate::text::printable::printable;
use crate::text::terminal::DEFAULT_WIDTH_COLUMNS;
use crate::text::tone::{self, Tone};

/// Gap between two columns.
const GAP: &str = "  ";

/// Widest name that widens its column when there is no terminal to fit into.
const DEFAULT_NAME_COLUMNS: usize = 60;

/// Room for source file and line: the most, and the least if names need more.
const LOCATION_COLUMNS: RangeInclusive<usize> = 20..=40;

/// Limits of the table of functions.
#[derive(Clone, Copy, Debug)]
pub struct SummarySize {
    /// Most functions shown; None: all.
    pub top_rows: Option<usize>,
    /// Width that the table is cut to; None: names are whole.
    pub width_columns: Option<usize>,
    /// Whether paths are whole, too.
    pub is_wide: bool,
    /// Whether the error of the sampled shares is shown even if it is small.
    pub is_verbose: bool,
}

impl SummarySize {
    /// Limits on the terminal.
    pub fn on_terminal(top_rows: Option<usize>, is_wide: bool, is_verbose: bool) -> SummarySize {
        let TableSize { top_rows, width_columns } = TableSize::on_terminal(top_rows, is_wide);
        SummarySize { top_rows, width_columns, is_wide, is_verbose }
    }

    /// Limits of the tables below.
    pub fn table(self) -> TableSize {
        TableSize { top_rows: self.top_rows, width_columns: self.width_columns }
    }
}

impl Default for SummarySize {
    fn default() -> Self {
        SummarySize {
            top_rows: Some(20),
            width_columns: Some(DEFAULT_WIDTH_COLUMNS),
            is_wide: false,
            is_verbose: false,
        }
    }
}

/// Cells of one row: name, cost, doubt, share, instructions beside cycles, own lines, the additional column, calls, samples,
/// location.
type Cells = [String; 10];

/// Index of the location in the cells.
const LOCATION: usize = 9;

/// Terminals narrower than this get no column of own lines.
const OWN_LINES_FROM_COLUMNS: usize = 100;

/// Explains which instructions are counted, where there is another number.
const LEGEND: &str = "instructions: a function's code, with what is inlined into it; own lines: its own source, \
     wherever it is inlined (harness diff and suites compare these)";

/// Additional column: its heading and its values.
pub type More<'a> = Option<(&'a str, &'a Values)>;

/// Values for columns that the table itself lacks.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// Instructions of functions' own lines, by first address ([`crate::analysis::metrics::own_lines`]). They get a
    /// column if they differ from those of the code.
    pub own_lines: &'a Values,
    /// Additional column that was asked for.
    pub more: More<'a>,
}

/// Writes the table, the share of instructions without a name, and the verdict of the cross-check.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    table: &Table,
    check: &CrossCheck,
    size: SummarySize,
    beside: Beside<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    if table.total_insns == 0 {
        return writeln!(out, "No instruction was executed in the measuring window.");
    }
    let shown = size.top_rows.unwrap_or(usize::MAX).min(table.rows.len());
    let (top, rest) = table.rows.split_at(shown);
    let own = |row: &Row| beside.own_lines.get(&row.start).copied().unwrap_or(row.self_insns);
    let has_others = top.iter().any(|row| own(row) != row.self_insns);
    let has_own = has_others && size.width_columns.is_none_or(|width| width >= OWN_LINES_FROM_COLUMNS);
    let headings = [
        "Function",
        if table.total_cycles.is_some() { "Cycles" } else { "Instructions" },
        if table.total_doubt.is_some() { "±" } else { "" },
        "Share",
        if table.total_cycles.is_some() { "Instructions" } else { "" },
        if has_own { "Own lines" } else { "" },
        beside.more.map_or("", |(title, _)| title),
        "Calls",
        "Samples",
        "Defined at",
    ];
    let mut lines: Vec<Cells> = vec![headings.map(str::to_owned)];
    lines.extend(top.iter().map(|row| line(row, table, has_own.then(|| own(row)), beside.more)));
    if !rest.is_empty() {
        let noun = match rest {
            rest if rest.iter().any(|row| row.kind == RowKind::Unnamed) => "rows",
            [_] => "function",
            _ => "functions",
        };
        let insns = rest.iter().map(|row| row.self_insns).sum();
        let cycles = rest.iter().map(|row| row.cycles).sum();
        let samples = rest.iter().map(|row| row.samples).sum();
        let doubts = rest.iter().filter_map(|row| row.doubt);
        let doubt = doubts.reduce(|(fewer, more), doubt| (fewer + doubt.0, more + doubt.1));
        let sums = Sums { insns, cycles, doubt, samples };
        lines.push(sum_line(format!("{} more {noun}", group(rest.len() as u64)), sums, table));
    }
    let (insns, samples) = (table.total_insns, table.total_samples);
    let total = Sums { insns, cycles: table.total_cycles, doubt: table.total_doubt, samples };
    lines.push(sum_line("Total".to_owned(), total, table));

    let name_columns = match size.width_columns {
        Some(width) => fit(&mut lines, top, width),
        None => {
            let most = if size.is_wide { usize::MAX } else { *LOCATION_COLUMNS.end() };
            for (line, row) in lines.iter_mut().skip(1).zip(top) {
                line[LOCATION] = location(row, most);
            }
            // A single long name must not push all numbers out of sight, so it sticks out.
            let names = lines.iter().map(|line| columns(&line[0]));
            names.filter(|&width| width <= DEFAULT_NAME_COLUMNS).max().unwrap_or(0)
        }
    };
    let widths = widths_of(&lines);
    let tones = top.iter().map(|row| Tone::of(row.cost(), table.total_cost()));
    for ([name, numbers @ .., location], tone) in lines.iter().zip(tone::of_lines(tones)) {
        let mut text = pad(name, name_columns);
        for (number, width) in numbers.iter().zip(&widths[1..]).filter(|(_, width)| **width > 0) {
            text += &format!("{GAP}{number:>width$}");
        }
        text = text + GAP + location;
        writeln!(out, "{}", tone.line(text.trim_end()))?;
    }

    writeln!(out)?;
    if has_others {
        writeln!(out, "{LEGEND}")?;
    }
    let unnamed = table.unnamed_insns;
    writeln!(out, "not named: {} instructions ({})", group(unnamed), share(unnamed, table.total_insns))?;
    if size.is_verbose {
        writeln!(out, "{check:#}")?;
    } else {
        writeln!(out, "{check}")?;
    }
    for line in check.in_target_lines(size.top_rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Shortens locations and names so that the lines fit into a width. The first line is the heading, the next are the
/// rows'. Returns the columns of the names.
fn fit(lines: &mut [Cells], rows: &[Row], width_columns: usize) -> usize {
    // Take the widest location that leaves room for all names, or the narrowest one.
    let mut widths = [0; LOCATION + 1];
    for most in LOCATION_COLUMNS.rev() {
        for (line, row) in lines.iter_mut().skip(1).zip(rows) {
            line[LOCATION] = location(row, most);
        }
        widths = widths_of(lines);
        if widths[0] + others(&widths) <= width_columns {
            break;
        }
    }
    let others = others(&widths);
    let name_columns = widths[0].min(width_columns.saturating_sub(others).max(names::MIN_COLUMNS));
    let names: Vec<(&str, usize)> = lines.iter().map(|line| (line[0].as_str(), name_columns)).collect();
    let cells = names::cells(&names);
    for (line, cell) in lines.iter_mut().zip(cells) {
        line[0] = cell;
    }
    name_columns
}

/// Width of the columns beside the names, with the gaps before them.
fn others(widths: &[usize]) -> usize {
    widths[1..].iter().filter(|width| **width > 0).map(|width| width + GAP.len()).sum()
}

fn widths_of(lines: &[Cells]) -> [usize; LOCATION + 1] {
    let mut widths = [0; LOCATION + 1];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = columns(cell).max(*width);
        }
    }
    widths
}

fn line(row: &Row, table: &Table, own_lines: Option<u64>, more: More<'_>) -> Cells {
    [
        printable(&row.name).into_owned(),
        group(row.cost()),
        row.doubt.map(|doubt| within(row.cost(), doubt)).unwrap_or_default(),
        share(row.cost(), table.total_cost()),
        row.cycles.map(|_| group(row.self_insns)).unwrap_or_default(),
        own_lines.map(group).unwrap_or_default(),
        more.map(|(_, values)| group_known(values.get(&row.start).copied())).unwrap_or_default(),
        if row.kind == RowKind::Function { group(row.calls) } else { "-".to_owned() },
        group(row.samples),
        String::new(),
    ]
}

/// Numbers of several rows together.
struct Sums {
    insns: u64,
    cycles: Option<u64>,
    /// Cycles by which these may be too many, and too few.
    doubt: Option<(u64, u64)>,
    samples: u64,
}

fn sum_line(name: String, Sums { insns, cycles, doubt, samples }: Sums, table: &Table) -> Cells {
    let none = String::new;
    let (cost, beside) = cycles.map_or((insns, none()), |cycles| (cycles, group(insns)));
    let doubt = doubt.map(|doubt| within(cost, doubt)).unwrap_or_default();
    let share = share(cost, table.total_cost());
    [name, group(cost), doubt, share, beside, none(), none(), none(), group(samples), none()]
}

/// Part of a number of cycles by which it may be wrong, in the direction in which that is more.
fn within(cycles: u64, (fewer, more): (u64, u64)) -> String {
    share(fewer.max(more), cycles)
}

/// Place of a function's definition, `…/work/crc.c:13`, with as many directories as fit.
fn location(row: &Row, most_columns: usize) -> String {
    let Some(file) = &row.file else { return String::new() };
    let line = row.line.map_or_else(String::new, |line| format!(":{line}"));
    short_place(&format!("{}{line}", printable(file)), most_columns)
}

/// Shortens a place in a source file at its left, to whole directories. The file with its line stays whole, unless it
/// is wider than any column for places.
pub fn short_place(place: &str, most_columns: usize) -> String {
    if columns(place) <= most_columns {
        return place.to_owned();
    }
    let starts = place.char_indices().filter(|&(_, character)| matches!(character, '/' | '\\')).map(|(at, _)| at + 1);
    let suffixes: Vec<&str> = starts.map(|start| &place[start..]).collect();
    let shortened = suffixes.iter().map(|suffix| format!("…/{suffix}"));
    if let Some(fitting) = shortened.into_iter().find(|suffix| columns(suffix) <= most_columns) {
        return fitting;
    }
    let file = suffixes.last().copied().unwrap_or(place);
    let (name, line) = file.rsplit_once(':').map_or((file, String::new()), |(name, line)| (name, format!(":{line}")));
    let most_columns = most_columns.max(*LOCATION_COLUMNS.end()).saturating_sub(line.len());
    shorten(name, most_columns).into_owned() + &line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::crosscheck;
    use crate::analysis::{functions, metrics};
    use crate::profile::Profile;
    use crate::profile::testing::empty;

    fn shown(profile: &Profile, size: SummarySize) -> String {
        let table = functions::table(profile);
        let own_lines = metrics::own_lines(profile);
        let (beside, mut out) = (Beside { own_lines: &own_lines, more: None }, Vec::new());
        write(&table, &crosscheck::check(profile, &table), size, beside, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_has_the_hottest_first_and_adds_up() {
        let profile = empty()
            .function("cold", 0x40, 4)
            .function("hot", 0x44, 4)
            .function("rare", 0x48, 4)
            .insn(0x40, 500)
            .insn(0x44, 1_234_000)
            .insn(0x48, 6)
            .insn(0x100, 10)
            .sampled();
        let size = SummarySize { top_rows: Some(2), ..SummarySize::default() };
        assert_eq!(
            shown(&profile, size),
            "\
Function     Instructions    Share      Calls  Samples  Defined at
hot             1,234,000   99.96%  1,234,000  123,400  src/blinky.c:7
cold                  500    0.04%        500       50  src/blinky.c:7
2 more rows            16    0.00%                   1
Total           1,234,516  100.00%             123,451

not named: 10 instructions (0.00%)
cross-check: 123,451 samples agree with the exact counts of 4 functions and address ranges
"
        );
        let verbose = shown(&profile, SummarySize { is_verbose: true, ..size });
        assert!(verbose.ends_with(" and address ranges (largest deviation: 0.6 standard deviations)\n"), "{verbose}");
    }

    #[test]
    fn a_column_that_was_asked_for_stands_beside_the_share() {
        let profile = empty().function("main", 0x40, 4).function("leaf", 0x44, 4).insn(0x40, 5).insn(0x44, 95);
        let (table, values) = (functions::table(&profile), Values::from([(Some(0x40), 100)]));
        let check = crosscheck::check(&profile, &table);
        let mut out = Vec::new();
        let beside = Beside { own_lines: &metrics::own_lines(&profile), more: Some(("Inclusive", &values)) };
        write(&table, &check, SummarySize::default(), beside, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "Function  Instructions    Share  Inclusive  Calls  Samples  Defined at",
                "leaf                95   95.00%          -     95        0  src/blinky.c:7",
                "main                 5    5.00%        100      5        0  src/blinky.c:7",
            ]
        );
    }

    #[test]
    fn own_lines_stand_beside_the_code_where_they_are_others() {
        let mut profile = empty()
            .function("filter_block", 0x40, 0x10)
            .function("other", 0x50, 0x10)
            .frames(0x44, &["filter_block", "tap"])
            .frames(0x54, &["other", "filter_block"])
            .insn(0x40, 300)
            .insn(0x44, 2000)
            .insn(0x50, 50)
            .insn(0x54, 8);
        let file = profile.names.strings.len() as u32;
        profile.names.strings.push("src/blinky.c".to_owned());
        profile.names.stacks.iter_mut().flatten().for_each(|frame| frame.file = Some(file));
        let text = shown(&profile, SummarySize::default());
        let lines: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "Function      Instructions    Share  Own lines  Calls  Samples  Defined at",
                "filter_block         2,300   97.54%        308    300        0  src/blinky.c:7",
                "other                   58    2.46%         50     50        0  src/blinky.c:7",
            ]
        );
        assert!(text.contains("\ninstructions: a function's code, with what is inlined into it; own"), "{text}");
        let narrow = shown(&profile, SummarySize { width_columns: Some(80), ..SummarySize::default() });
        assert!(!narrow.contains("Own lines") && narrow.contains("; own lines: its own source"), "{narrow}");
    }

    #[test]
    fn a_profile_of_nothing_is_said_to_be_one() {
        assert_eq!(shown(&empty(), SummarySize::default()), "No instruction was executed in the measuring window.\n");
    }

    #[test]
    fn long_names_keep_the_table_within_the_terminal() {
        let names = [
            "unsigned int firmware::fold<unsigned int, main::{lambda(unsigned int, int)#1}, 20000>(unsigned int)",
            "firmware::drivers::Thermometer::read(firmware::drivers::Sensor const&, unsigned int, unsigned int) const",
            "größe::寸法::größe::寸法::größe::寸法::größe::寸法::größe::寸法::größe::寸法::größe::寸法::größe",
        ];
        let mut profile = empty();
        for (at, name) in (0x40..).step_by(4).zip(names) {
            profile = profile.function(name, at, 4).insn(at, at);
        }
        for width_columns in [60, 80, 100, 200] {
            let size = SummarySize { width_columns: Some(width_columns), ..SummarySize::default() };
            let text = shown(&profile, size);
            let widest = text.lines().take(6).map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width_columns.max(75), "{widest}:\n{text}");
        }
        let text = shown(&profile, SummarySize::default());
        assert!(text.contains("firmware::drivers::Thermometer::read(…)"), "{text}");
    }

    #[test]
    fn paths_lose_their_directories_first() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1);
        profile.names.functions[0].file = Some("/home/somebody/projects/firmware/src/drivers/uart.c".to_owned());
        assert!(shown(&profile, SummarySize::default()).contains("  …/projects/firmware/src/drivers/uart.c:7\n"));
        profile.names.functions[0].file = Some(format!("/{}/{}.c", "x".repeat(300), "ü".repeat(300)));
        assert!(shown(&profile, SummarySize::default()).lines().all(|line| line.chars().count() <= 100));
        // The file and its line stay whole where a long name needs the room.
        profile.names.functions[0].name = "firmware::drivers::".repeat(6);
        profile.names.functions[0].file = Some("/build/hal/stm32f4xx_hal_uart_ex.c".to_owned());
        let text = shown(&profile, SummarySize { width_columns: Some(80), ..SummarySize::default() });
        assert!(
            text.contains("  …/stm32f4xx_hal_uart_ex.c:7\n") || text.contains("  stm32f4xx_hal_uart_ex.c:7\n"),
            "{text}"
        );
        assert!(text.lines().take(3).all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_place_is_cut_at_its_left() {
        for (most, shown) in [
            (40, "src/drivers/uart.c:1234"),
            (20, "…/uart.c:1234"),
            (22, "…/drivers/uart.c:1234"),
            (5, "uart.c:1234"),
        ] {
            assert_eq!(short_place("src/drivers/uart.c:1234", most), shown, "{most}");
        }
        assert_eq!(short_place(r"C:\src\drivers\uart.c:7", 20), "…/drivers\\uart.c:7");
    }
}
