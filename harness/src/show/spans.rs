// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations of handlers, masked interrupts, PendSV and `--span`, below the tables of tasks.

use std::io::{self, Write};

use crate::analysis::stacks::Exceptions;
use crate::analysis::{cycles, span_remarks};
use crate::profile::{Profile, SpanKind};
use crate::show::names;
use crate::text::number::group;
use crate::text::table::write_table;

/// Writes the table of handlers, and a line for each other kind of span; nothing for a profile without spans. Names are
/// shortened to a width (None: whole).
///
/// # Errors
/// Errors of `out`.
pub fn write(profile: &Profile, width_columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let exceptions = Exceptions::new(profile);
    let mut lines = vec![["Handler (instructions)", "Times", "Shortest", "Mean", "Longest"].map(str::to_owned)];
    for span in &profile.spans {
        if let SpanKind::Exception { number } = span.kind {
            let [min, mean, max] = span_remarks::insns(span);
            lines.push([exceptions.name(number, span.longest_at), group(span.count), min, mean, max]);
        }
    }
    if lines.len() > 1 {
        names::fit(&mut lines, 0, width_columns);
        write_table(&lines, out)?;
        if cycles::are_known(profile) {
            write_cycles(profile, &exceptions, width_columns, out)?;
        }
    }
    for line in span_remarks::remarks(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes the table of handlers in cycles.
fn write_cycles(
    profile: &Profile,
    exceptions: &Exceptions<'_>,
    width_columns: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut lines = vec![["Handler (cycles)", "Times", "Shortest", "Mean", "Longest"].map(str::to_owned)];
    for span in &profile.spans {
        if let SpanKind::Exception { number } = span.kind {
            let [min, mean, max] = span_remarks::cycles(span);
            lines.push([exceptions.name(number, span.longest_at), group(span.count), min, mean, max]);
        }
    }
    names::fit(&mut lines, 0, width_columns);
    write_table(&lines, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::{LengthCycles, Span};

    #[test]
    fn handlers_are_a_table_and_the_rest_has_a_line_each() {
        let mut profile = empty().function("main", 0x40, 4).function("UART0_Handler", 0x60, 4).insn(0x40, 10);
        let span = |kind, count, insns: [u64; 3], longest_at| Span {
            kind,
            count,
            min_insns: insns[0],
            max_insns: insns[1],
            sum_insns: insns[2],
            longest_at,
            longest_since_insns: 0,
            cycles: LengthCycles::default(),
        };
        profile.spans = vec![
            span(SpanKind::Call { entry: 0x40 }, 1, [10, 10, 10], 0x40),
            span(SpanKind::Exception { number: 15 }, 1000, [9, 1200, 20_000], 0x60),
            span(SpanKind::Exception { number: 20 }, 3, [5, 7, 17], 0x60),
            span(SpanKind::Masked, 1, [3, 3, 3], 0x42),
            span(SpanKind::PendSv, 2, [0, 4, 4], 0x900),
            span(SpanKind::Between { from: 0x40, until: 0x60 }, 0, [0, 0, 0], 0),
        ];
        let mut out = Vec::new();
        write(&profile, None, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "
Handler (instructions)  Times  Shortest  Mean  Longest
[irq SysTick]           1,000         9    20    1,200
[irq UART0]                 3         5     6        7

interrupts masked: 1 time, 3 to 3 instructions, mean 3; the longest from main
PendSV pending: 2 times, 0 to 4 instructions, mean 2; the longest from [0x00000900..0x000009ff]
main..UART0_Handler: never
"
        );
    }
}
