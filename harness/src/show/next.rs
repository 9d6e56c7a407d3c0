// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestions after a run: commands that show more of the profile, ready to be copied.

use crate::analysis::culprit;
use crate::analysis::debug_hints;
use crate::analysis::functions::{RowKind, Table};
use crate::exit_code::ExitCode;
use crate::profile::{Facts, Profile};
use crate::text::printable::printable;
use crate::text::shell::quoted;

/// Suggests the next step: after a failure of the firmware the debugger at the failure and the code of the function
/// that it is about, else the profile's page and the code of its hottest function. None: no instruction was executed.
///
/// `path` is the profile's; `elf` the firmware's, if the debugger would not find it by itself.
pub fn sentence(profile: &Profile, table: &Table, path: &str, elf: Option<&str>) -> Option<String> {
    // With several CPUs the instruction of the failure has no number that a debugger could go to.
    let can_debug = profile.vcpus.len() == 1 && profile.total_insns() > 0;
    if ExitCode::of_end(&profile.facts.end) == ExitCode::Firmware && can_debug {
        return Some(after_failure(profile, path, elf));
    }
    glance(table, path)
}

/// Suggests the debugger at the failure, and the code of the function that it is about.
fn after_failure(profile: &Profile, path: &str, elf: Option<&str>) -> String {
    let Facts { only, .. } = &profile.facts;
    let elf = elf.map(|elf| format!(" --elf {}", quoted(elf))).unwrap_or_default();
    let debug = format!("`{}{elf} --gdb`", debug_hints::command(path, "crash"));
    let place = if only.handler.as_ref().is_some_and(|handler| handler.is_fault) {
        "at the instruction that faulted"
    } else {
        "where the firmware failed"
    };
    let code = culprit::of_end(profile).map(|culprit| {
        let name = quoted(&debug_hints::named(profile, culprit.function.start));
        format!(", `harness annotate {} {name}` shows the code of {}", quoted(path), culprit.what)
    });
    format!("{debug} puts GDB {place}{}", code.unwrap_or_default())
}

/// Suggests the profile's page, and the code of its hottest function.
fn glance(table: &Table, profile: &str) -> Option<String> {
    let profile = quoted(profile);
    let page = format!("`harness report {profile}` makes a page of it");
    let hottest = table.rows.iter().find(|row| row.kind == RowKind::Function && row.self_insns > 0);
    let Some(row) = hottest else { return (!table.rows.is_empty()).then_some(page) };
    // An ambiguous name would be refused, and an unprintable one cannot be typed: use the address.
    let is_plain = table.rows.iter().filter(|other| other.name == row.name).count() == 1
        && printable(&row.name) == row.name.as_str();
    let name = match row.start {
        Some(start) if !is_plain => format!("{start:#x}"),
        _ => quoted(&row.name),
    };
    Some(format!("{page}, `harness annotate {profile} {name}` shows the code of the hottest function"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::functions;
    use crate::profile::End;
    use crate::profile::testing::empty;

    fn said(profile: &Profile) -> String {
        sentence(profile, &functions::table(profile), "a b.profile", None).unwrap_or_default()
    }

    #[test]
    fn the_commands_can_be_copied_as_they_are() {
        let one = empty().function("crc32", 0x40, 4).function("main", 0x44, 4).insn(0x40, 7).insn(0x44, 3);
        assert_eq!(
            said(&one),
            "`harness report 'a b.profile'` makes a page of it, `harness annotate 'a b.profile' crc32` shows the code of \
             the hottest function"
        );
        let generic = empty().function("fold<u8>(int)", 0x40, 4).insn(0x40, 7);
        assert!(said(&generic).contains(" 'fold<u8>(int)'` shows"), "{}", said(&generic));
        let namesakes = empty().function("init", 0x40, 4).function("init", 0x44, 4).insn(0x40, 7).insn(0x44, 3);
        assert!(said(&namesakes).contains(" 0x40` shows"), "{}", said(&namesakes));
        assert!(said(&empty().function("a\u{202e}", 0x40, 4).insn(0x40, 7)).contains(" 0x40` shows"));
    }

    #[test]
    fn after_a_failure_the_next_step_is_where_it_happened() {
        let mut profile = empty().function("main", 0x40, 0x10).function("handler", 0x50, 0x10).insn(0x50, 1_000);
        profile.facts.end = End::Exit { status: 1, pc: 0x44 };
        assert_eq!(
            said(&profile),
            "`harness debug 'a b.profile' --at crash --gdb` puts GDB where the firmware failed"
        );
        profile = profile.arc((0x20, 0x40), Some(0x22), true, 1);
        profile.facts.end = End::LockUp { pc: 0x44, fault: String::new() };
        assert_eq!(
            said(&profile),
            "`harness debug 'a b.profile' --at crash --gdb` puts GDB where the firmware failed, `harness annotate 'a \
             b.profile' main` shows the code of the function that faulted"
        );
        let table = functions::table(&profile);
        let elsewhere = sentence(&profile, &table, "p", Some("../fw 1.elf")).unwrap();
        assert!(elsewhere.starts_with("`harness debug p --at crash --elf '../fw 1.elf' --gdb` puts"), "{elsewhere}");
        // A limit is not the firmware's failure, and of several CPUs no instruction has a number.
        profile.facts.end = End::Timeout;
        assert!(said(&profile).ends_with("the hottest function"));
        profile.facts.end = End::LockUp { pc: 0x44, fault: String::new() };
        profile.vcpus.push(Default::default());
        assert!(said(&profile).ends_with("the hottest function"));
    }

    #[test]
    fn of_nothing_nothing_is_to_be_seen() {
        assert_eq!(said(&empty()), "");
        assert_eq!(said(&empty().insn(0x300, 1)), "`harness report 'a b.profile'` makes a page of it");
    }
}
