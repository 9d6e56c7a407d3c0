// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sentences about the durations of masked interrupts, PendSV and `--span`.

use crate::analysis::cycles;
use crate::analysis::owner::{Owner, between};
use crate::profile::{Profile, Span, SpanKind};
use crate::text::number::{group, plural};

/// Lines about all spans except calls and exceptions: masked interrupts, PendSV, and `--span`.
pub fn remarks(profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    for span in &profile.spans {
        let name = match span.kind {
            SpanKind::Call { .. } | SpanKind::Exception { .. } => continue,
            SpanKind::Masked => "interrupts masked".to_owned(),
            SpanKind::PendSv => "PendSV pending".to_owned(),
            SpanKind::Between { from, until } => between(profile, from, until),
        };
        if span.count == 0 {
            lines.push(format!("{name}: never"));
            continue;
        }
        let [min, mean, max] = insns(span);
        let times = plural(span.count, "time");
        let mut line = format!("{name}: {times}, {min} to {max} instructions, mean {mean}");
        if cycles::are_known(profile) {
            let [min, mean, max] = cycles(span);
            line = format!("{line}; {min} to {max} cycles, mean {mean}");
        }
        lines.push(match span.kind {
            SpanKind::Between { .. } => line,
            _ => format!("{line}; the longest from {}", place(profile, span.longest_at)),
        });
    }
    lines
}

/// Least, mean and most instructions of a span, as text.
pub fn insns(span: &Span) -> [String; 3] {
    [span.min_insns, span.mean_insns(), span.max_insns].map(group)
}

/// Least, mean and most cycles of a span, as text.
pub fn cycles(span: &Span) -> [String; 3] {
    [span.cycles.min, span.mean_cycles(), span.cycles.max].map(group)
}

/// Function of an executed instruction, with file and line if they are known.
fn place(profile: &Profile, pc: u64) -> String {
    let function = Owner::of(profile, pc);
    match profile.names.line_at(pc) {
        Some((file, line)) => format!("{function} ({file}:{line})"),
        None => function.to_string(),
    }
}
