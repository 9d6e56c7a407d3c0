// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of the stacks on the terminal: a table, the deepest path of each stack, and why a number is not a bound.

use std::io::{self, Write};

use crate::analysis::stack_bound::{Bound, Certainty, Program, Row, Witness};
use crate::show::names;
use crate::show::table_size::TableSize;
use crate::text::number::{group, group_known, plural, share};
use crate::text::table::write_table;

/// Most functions of a path that are shown.
const MAX_STEPS: usize = 24;

/// Remedy for tasks of which no size is known.
const HAS_OF_TASKS: &str = "has: a task's size is known if its kernel keeps both ends: FreeRTOS with \
     configRECORD_STACK_HIGH_ADDRESS 1, Zephyr with CONFIG_THREAD_STACK_INFO, RIOT with DEVELHELP";

/// Writes the stacks. At most `size.top_rows` reasons are shown for each number (None: all).
///
/// # Errors
/// Errors of `out`.
pub fn write(
    program: &Program,
    rows: &[Row],
    witness: Option<&Witness>,
    size: TableSize,
    out: &mut impl Write,
) -> io::Result<()> {
    let top_rows = size.top_rows;
    let heads = ["Stack", "Most", "Number is", "Of it exceptions", "Without failures", "Has", "Left", "Seen in runs"];
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    names::fit(&mut lines, 0, size.width_columns);
    write_table(&lines, out)?;
    writeln!(out, "{}", program.indirect())?;
    if rows.iter().any(|row| row.returning.bytes != row.bound.bytes) {
        let what = "without failures: no call of a function that never returns (a failed assertion, a panic), unless a run made it";
        writeln!(out, "{what}")?;
    }
    for reserved in rows.iter().filter_map(|row| row.reserved_bytes) {
        writeln!(
            out,
            "reserved by the linker script: {} (_Min_Stack_Size); the main stack may use more",
            group(reserved)
        )?;
    }
    if rows.iter().any(|row| row.is_task && row.has_bytes.is_none()) {
        writeln!(out, "{HAS_OF_TASKS}")?;
    }
    for row in rows {
        writeln!(out, "\n{}: {}", title(row), group(row.bound.bytes))?;
        for step in row.bound.path.iter().take(MAX_STEPS) {
            writeln!(out, "  {:>8}  {}", group(step.bytes), step.function)?;
        }
        if row.bound.path.len() > MAX_STEPS {
            writeln!(out, "  and {} more functions", row.bound.path.len() - MAX_STEPS)?;
        }
        let shown = top_rows.unwrap_or(usize::MAX);
        for reason in row.bound.reasons.iter().take(shown) {
            writeln!(out, "  {}: {reason}", row.bound.certainty.word())?;
        }
        if row.bound.reasons.len() > shown {
            writeln!(out, "  {} more reasons (--top 0)", row.bound.reasons.len() - shown)?;
        }
    }
    match witness {
        Some(witness) => compared(witness, top_rows, out),
        None => Ok(()),
    }
}

/// Name of a stack: `main`, `task net`.
fn title(row: &Row) -> String {
    if row.is_task { format!("task {}", row.name) } else { "main stack".to_owned() }
}

fn cells(row: &Row) -> [String; 8] {
    // A bound that a run has exceeded says nothing about what is left.
    let left = row.has_bytes.filter(|_| !row.is_contradicted());
    let left = left.map(|has| i128::from(has) - i128::from(row.bound.bytes));
    let word = if row.is_contradicted() { "WRONG" } else { row.bound.certainty.word() };
    let seen = row
        .seen_bytes
        .map_or_else(|| "-".to_owned(), |seen| format!("{} ({})", group(seen), share(seen, row.bound.bytes)));
    [
        title(row),
        most(&row.bound),
        word.to_owned(),
        group(row.exceptions_bytes),
        most(&row.returning),
        group_known(row.has_bytes),
        left.map_or_else(|| "-".to_owned(), bytes_left),
        seen,
    ]
}

/// Bytes left of a stack; a stack that is too small has a minus.
fn bytes_left(left: i128) -> String {
    let digits = group(u64::try_from(left.unsigned_abs()).unwrap_or(u64::MAX));
    if left < 0 { format!("\u{2212}{digits}") } else { digits }
}

/// Bytes of a bound; without a bound, the known part as a lower limit.
fn most(bound: &Bound) -> String {
    match bound.certainty {
        Certainty::Bounded | Certainty::Estimated => group(bound.bytes),
        Certainty::Unbounded => format!("\u{2265} {}", group(bound.bytes)),
    }
}

/// Writes the comparison with the compiler's numbers.
fn compared(witness: &Witness, top_rows: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n-fstack-usage: {} with the same number, {} larger in the code, {} larger in the compiler's file; {} not in the \
         image",
        plural(witness.equal, "function"),
        witness.code_has_more.len(),
        witness.compiler_says_more.len(),
        witness.absent
    )?;
    let shown = top_rows.unwrap_or(usize::MAX);
    for (name, said, code) in witness.compiler_says_more.iter().take(shown) {
        writeln!(out, "  {name}: the compiler says {said}, the code has {code}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_the_kind_of_its_number_and_groups_what_is_left() {
        let bound = |bytes, certainty| Bound { bytes, certainty, path: Vec::new(), reasons: Vec::new() };
        let mut row = Row {
            name: "net".to_owned(),
            is_task: true,
            bound: bound(1_800, Certainty::Bounded),
            returning: bound(1_200, Certainty::Bounded),
            exceptions_bytes: 80,
            has_bytes: Some(4_096),
            reserved_bytes: None,
            seen_bytes: Some(900),
        };
        assert_eq!(cells(&row), ["task net", "1,800", "bounded", "80", "1,200", "4,096", "2,296", "900 (50.00%)"]);
        row.seen_bytes = Some(2_700);
        assert_eq!(cells(&row)[1..3], ["1,800", "WRONG"]);
        assert_eq!(cells(&row)[6..], ["-", "2,700 (150.00%)"]);
        row.bound = bound(6_000, Certainty::Unbounded);
        assert_eq!(cells(&row)[1..3], ["\u{2265} 6,000", "unbounded"]);
        assert_eq!(cells(&row)[6], "\u{2212}1,904");
    }
}
