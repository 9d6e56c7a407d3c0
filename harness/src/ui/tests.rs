// SPDX-License-Identifier: MIT OR Apache-2.0
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use crate::analysis::source::Sources;
use crate::profile::testing::{empty, freertos};
use crate::profile::{Cycles, InsnCycles, Profile};
use crate::text::printable::is_command;

/// A view, and the screen that it is drawn on.
struct Seen<'p> {
    app: App<'p>,
    terminal: Terminal<TestBackend>,
}

impl<'p> Seen<'p> {
    fn of(profile: &'p Profile, before: Option<&'p Profile>, (width, height): (u16, u16)) -> Seen<'p> {
        let before = before.map(|profile| (profile, "old.profile"));
        let book = Book::new((profile, "fw.profile"), before, Sources::default()).unwrap();
        let mut seen =
            Seen { app: App::new(book, true), terminal: Terminal::new(TestBackend::new(width, height)).unwrap() };
        seen.draw();
        seen
    }

    fn draw(&mut self) {
        self.terminal.draw(|frame| self.app.draw(frame)).unwrap();
    }

    /// Types keys: letters, and names in angle brackets.
    fn keys(&mut self, keys: &str) -> &mut Seen<'p> {
        let mut rest = keys;
        while !rest.is_empty() {
            let named =
                rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).filter(|(name, _)| !name.is_empty());
            let code = match named {
                Some((name, after)) => {
                    rest = after;
                    match name {
                        "Enter" => KeyCode::Enter,
                        "Esc" => KeyCode::Esc,
                        "Down" => KeyCode::Down,
                        "Up" => KeyCode::Up,
                        "PgDn" => KeyCode::PageDown,
                        "End" => KeyCode::End,
                        "Home" => KeyCode::Home,
                        "Back" => KeyCode::Backspace,
                        other => panic!("no key {other}"),
                    }
                }
                None => {
                    let letter = rest.chars().next().unwrap();
                    rest = &rest[letter.len_utf8()..];
                    KeyCode::Char(letter)
                }
            };
            self.app.key(KeyEvent::new(code, KeyModifiers::NONE));
            self.draw();
        }
        self
    }

    fn lines(&self) -> Vec<String> {
        let buffer = self.terminal.backend().buffer();
        let line = |y: u16| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Cells of the selected row, by the spaces between them.
    fn selected(&self) -> String {
        let grid = &self.app.screen().grid;
        let texts: Vec<&str> = grid.row().unwrap().cells.iter().map(|cell| &*cell.text).collect();
        texts.join(" ")
    }
}

/// The FreeRTOS profile with the calls that its stacks show.
fn called() -> Profile {
    freertos()
        .arc((0x52, 0x60), Some(0x54), true, 500)
        .arc((0x64, 0x70), Some(0x66), true, 5_000)
        .arc((0x64, 0xa0), Some(0x66), true, 7)
        .arc((0x92, 0xa0), Some(0x94), true, 900)
}

#[test]
fn the_first_view_has_the_hottest_function_selected_and_the_run_in_its_head() {
    let profile = called();
    let seen = Seen::of(&profile, None, (100, 12));
    let lines = seen.lines();
    assert!(lines[0].starts_with(" fw.profile: blinky.elf") && lines[0].ends_with("scope: whole run"), "{lines:#?}");
    assert!(
        lines[1].starts_with(" Functions") && lines[1].ends_with("579,200 instructions, 57,900 samples"),
        "{lines:#?}"
    );
    assert!(lines[2].starts_with("Function ") && lines[2].contains("Instructions \u{25bc}"), "{lines:#?}");
    assert!(lines[3].starts_with("multiply_accumulate "), "{lines:#?}");
    assert!(lines[3].contains("250,000  43.16%") && lines[3].ends_with("src/blinky.c:7"), "{lines:#?}");
    assert!(lines[11].contains("q quit") && lines[11].ends_with("1 of 11"), "{lines:#?}");
}

#[test]
fn callers_and_callees_have_cycles_where_these_are_known() {
    let mut profile = called();
    let insns = profile.insns().into_iter().map(|(pc, insns)| InsnCycles {
        pc,
        usual: 3,
        cycles: 3 * insns,
        ..InsnCycles::default()
    });
    profile.cycles = Some(Cycles { insns: insns.collect(), ..Cycles::default() });
    let mut seen = Seen::of(&profile, None, (90, 24));
    seen.keys("/filter<Enter>c");
    assert!(seen.lines()[2].contains("Cycles  Callers, function, callees"), "{}", seen.text());
    let number = |cell: usize| {
        let text = &seen.app.screen().grid.row().unwrap().cells[cell].text;
        text.replace(',', "").parse::<u64>().unwrap()
    };
    assert!(number(1) > 0 && number(3) == 3 * number(1), "{}", seen.text());
    let without = called();
    let mut seen = Seen::of(&without, None, (90, 24));
    assert!(!seen.keys("/filter<Enter>c").text().contains("Cycles"), "{}", seen.text());
}

#[test]
fn views_are_opened_and_left_again() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    seen.keys("/filter<Enter>c");
    assert!(seen.text().contains("Callers and callees of filter"), "{}", seen.text());
    let lines = seen.lines();
    let at = |text: &str| lines.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(at("    sensor_task") < at("  filter") && at("  filter") < at("    multiply_accumulate"));
    assert!(lines[at("    multiply_accumulate")].trim_start().starts_with("5,000"), "{lines:#?}");
    // Itself, then its most expensive callee.
    seen.keys("<Down><Down><Enter>");
    assert!(seen.text().contains("Callers and callees of multiply_accumulate"), "{}", seen.text());
    seen.keys("a");
    assert!(seen.text().contains("Code of multiply_accumulate"), "{}", seen.text());
    seen.keys("<Esc><Back>");
    assert!(seen.text().contains("Callers and callees of filter"), "{}", seen.text());
    seen.keys("<Esc><Esc>");
    assert!(seen.text().contains(" Functions ") && seen.text().contains("this is the first view"), "{}", seen.text());
    assert!(!seen.app.is_over() && seen.keys("q").app.is_over());
}

#[test]
fn enter_on_a_call_goes_to_what_it_called() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    // `sensor_task` calls one function.
    seen.keys("/sensor_task<Enter><Enter>/0x00000052<Enter><Enter>");
    assert!(seen.text().contains("Code of filter"), "{}", seen.text());
    // `filter` calls two from one place.
    seen.keys("/0x00000064<Enter><Enter>");
    assert!(seen.text().contains("It called") && seen.text().contains("5,000"), "{}", seen.text());
    seen.keys("<Down><Enter>");
    assert!(seen.text().contains("Code of memcpy"), "{}", seen.text());
    seen.keys("<Esc>/0x0000006a<Enter><Enter>");
    assert!(seen.text().contains("neither calls nor jumps"), "{}", seen.text());
    seen.keys("H");
    assert!(seen.selected().contains("0x00000064"), "the most executed one: {}", seen.selected());
}

#[test]
fn one_scope_holds_in_every_view_and_is_in_the_head() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    seen.keys("f/");
    assert!(seen.text().contains("whole run") && seen.text().contains("task sensor (2)"), "{}", seen.text());
    seen.keys("<Esc>t/sensor (2)<Enter><Enter>");
    let text = seen.text();
    assert!(text.contains("scope: task sensor (2)") && text.contains("80,000 instructions by samples"), "{text}");
    assert!(text.contains("multiply_accumulate") && !text.contains("memcpy"), "{text}");
    seen.keys("/filter<Enter>c");
    assert!(seen.text().contains("scope: task sensor (2)"), "{}", seen.text());
    assert!(seen.selected().contains("80,000 100.00% filter"), "{}", seen.selected());
    seen.keys("a");
    assert!(seen.text().contains("(counts of the whole run)"), "{}", seen.text());
    // Samples are known by scope: 2,000 of the 6,000 here.
    seen.keys("H");
    assert!(seen.selected().contains("60,000 2,000 0x00000064"), "{}", seen.selected());
    seen.keys("f<Home><Enter>");
    assert!(
        seen.text().contains("scope: whole run") && seen.selected().contains("60,000 6,000"),
        "{}",
        seen.selected()
    );
}

#[test]
fn two_runs_are_compared_by_the_largest_change() {
    let before = called();
    let mut after = empty()
        .function("main", 0x40, 0x10)
        .function("filter", 0x60, 0x10)
        .function("fresh", 0x100, 0x10)
        .insn(0x42, 4_000)
        .insn(0x64, 90_000)
        .insn(0x102, 10_000);
    after.facts.image_name = "next.elf".to_owned();
    let mut seen = Seen::of(&after, Some(&before), (120, 24));
    let lines = seen.lines();
    assert!(lines[0].starts_with(" old.profile \u{2192} fw.profile"), "{lines:#?}");
    assert!(lines[1].contains("579,200 \u{2192} 104,000 instructions"), "{lines:#?}");
    assert!(
        lines[3].starts_with("multiply_accumulate [vanished]") && lines[3].contains("\u{2212}250,000"),
        "{lines:#?}"
    );
    seen.keys("<Enter>");
    assert!(seen.text().contains("Code of multiply_accumulate, before"), "{}", seen.text());
    seen.keys("<Esc>/saturate<Enter><Enter>");
    assert!(seen.text().contains("it is inlined into other functions"), "{}", seen.text());
    seen.keys("/fresh<Enter>");
    assert!(seen.selected().starts_with("fresh [new] - 10,000 +10,000"), "{}", seen.selected());
    seen.keys("<Enter>");
    assert!(seen.text().contains("Code of fresh") && !seen.text().contains(", before"), "{}", seen.text());
    seen.keys("<Esc>f/<End><Enter>");
    assert!(seen.text().contains("scope: [irq UART0]"), "{}", seen.text());
    assert!(seen.selected().starts_with("UART0_IRQHandler 9,200 - \u{2212}9,200"), "{}", seen.selected());
}

#[test]
fn a_search_is_shown_while_it_is_typed_and_goes_on_both_ways() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    seen.keys("/task");
    assert!(seen.lines()[23].starts_with("/task"), "{}", seen.text());
    let first = seen.selected();
    assert!(first.to_lowercase().contains("task"), "{first}");
    seen.keys("<Esc>");
    assert!(seen.selected().starts_with("multiply_accumulate"), "dropped: {}", seen.selected());
    seen.keys("/task<Enter>n");
    let second = seen.selected();
    assert!(second != first && second.to_lowercase().contains("task"), "{second}");
    seen.keys("N");
    assert_eq!(seen.selected(), first);
    seen.keys("/nowhere<Enter>");
    assert!(seen.text().contains("no row holds `nowhere`"), "{}", seen.text());
}

#[test]
fn the_table_is_sorted_by_any_of_its_columns() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    seen.keys("sss");
    // Own lines have no column here.
    assert!(seen.lines()[2].contains("Samples \u{25bc}"), "{}", seen.text());
    seen.keys("s<Home>");
    assert!(seen.lines()[2].contains("Function \u{25b2}"), "{}", seen.text());
    assert!(seen.selected().starts_with("SysTick_Handler"), "{}", seen.selected());
    seen.keys("r<Home>");
    assert!(seen.selected().starts_with("xTaskIncrementTick"), "{}", seen.selected());
    seen.keys("a<Esc>cs");
    assert!(seen.text().contains("one order only"), "{}", seen.text());
}

#[test]
fn what_is_copied_is_the_name_or_the_address() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    assert_eq!(seen.keys("y").app.take_copied().as_deref(), Some("multiply_accumulate"));
    assert_eq!(seen.app.take_copied(), None);
    assert!(seen.text().contains("copied: multiply_accumulate"), "{}", seen.text());
    assert_eq!(seen.keys("aHy").app.take_copied().as_deref(), Some("0x00000072"));
}

#[test]
fn strips_show_when_what_ran() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 40));
    seen.keys("w");
    let lines = seen.lines();
    assert!(lines[2].ends_with("579,000"), "the end of the axis: {lines:#?}");
    // Bars begin after the share, and are empty while others ran.
    let bars = |name: &str| {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{lines:#?}"));
        line.split_once("%  ").map(|(_, bars)| bars.to_owned()).unwrap_or_default()
    };
    let (sensor, idle) = (bars("task sensor "), bars("task IDLE"));
    assert!(sensor.starts_with(|bar: char| bar != '\u{2588}') && sensor.contains('\u{2588}'), "{sensor:?}");
    let first = |bars: &str| bars.chars().position(|bar| bar != ' ');
    assert!(first(&sensor) < first(&idle), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("functions of the whole run")), "{lines:#?}");
}

/// Every view of a profile.
const EVERYWHERE: [&str; 9] = ["", "a", "c", "t", "b", "w", "f", "?", "/x"];

#[test]
fn nothing_of_the_firmware_commands_the_terminal() {
    let evil = "a\x1b]0;title\x07\u{202e}\u{9b}2Jb";
    let mut profile = empty().function(evil, 0x40, 0x10).function("main", 0x50, 0x10).task_called(evil);
    profile = profile.frames(0x42, &[evil, "in\x1b[2Jlined"]).executed(0x42, 900, 0, 1).executed(0x52, 100, 0, 1);
    profile = profile.arc((0x52, 0x40), Some(0x54), true, 3).arc((0x52, 0x50), Some(0x54), true, 3);
    profile.names.functions[0].file = Some("src/\x1b[31mx.c".to_owned());
    profile.facts.image_name = evil.to_owned();
    for before in [None, Some(&profile)] {
        for keys in EVERYWHERE {
            let mut seen = Seen::of(&profile, before, (120, 30));
            seen.keys(keys);
            let buffer = seen.terminal.backend().buffer();
            let wrong = buffer.content().iter().find(|cell| cell.symbol().contains(is_command));
            assert!(wrong.is_none(), "{keys:?}: {wrong:?}");
            let copied = seen.keys("<Esc>y").app.take_copied().unwrap_or_default();
            assert!(!copied.contains(is_command), "{copied:?}");
        }
    }
}

#[test]
fn every_view_is_drawn_at_every_size() {
    let profile = called();
    for before in [None, Some(&profile)] {
        for keys in EVERYWHERE {
            let mut seen = Seen::of(&profile, before, (80, 24));
            seen.keys(keys);
            for (width, height) in
                [(1, 1), (39, 24), (40, 6), (80, 5), (80, 7), (57, 9), (80, 24), (140, 40), (300, 100)]
            {
                seen.terminal.backend_mut().resize(width, height);
                seen.draw();
                seen.keys("<End><Down>");
                assert_eq!(seen.lines().len(), usize::from(height));
            }
        }
    }
}

#[test]
fn a_wider_terminal_has_more_columns_and_a_narrow_one_the_needed_ones() {
    let profile = called();
    let mut seen = Seen::of(&profile, None, (80, 24));
    assert!(!seen.lines()[2].contains("Own lines") && seen.lines()[2].contains("Defined at"), "{}", seen.text());
    assert!(seen.lines()[23].contains("? help") && seen.lines()[23].contains("q quit"), "{}", seen.text());
    seen.terminal.backend_mut().resize(140, 40);
    seen.draw();
    assert!(seen.lines()[2].contains("Own lines"), "{}", seen.text());
    seen.terminal.backend_mut().resize(40, 24);
    seen.draw();
    let lines = seen.lines();
    assert!(!lines[2].contains("Defined at") && lines[2].contains("Share"), "{lines:#?}");
    assert!(lines[23].contains("q quit"), "{lines:#?}");
}

#[test]
fn without_colours_there_are_none() {
    let profile = called();
    let colors = |has_color: bool| {
        let book = Book::new((&profile, "fw.profile"), None, Sources::default()).unwrap();
        let mut seen =
            Seen { app: App::new(book, has_color), terminal: Terminal::new(TestBackend::new(80, 24)).unwrap() };
        seen.keys("a");
        let buffer = seen.terminal.backend().buffer();
        buffer.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colors(false), 0);
    assert!(colors(true) > 0);
}

#[test]
fn an_empty_profile_and_one_without_tasks_say_so() {
    let profile = empty();
    let mut seen = Seen::of(&profile, None, (80, 24));
    assert!(seen.text().contains("(nothing)"), "{}", seen.text());
    for keys in ["a", "c", "<Enter>", "y", "n", "s", "r", "b", "<Esc>", "w"] {
        seen.keys(keys);
    }
    let mut seen = Seen::of(&profile, None, (80, 24));
    assert!(seen.keys("t").text().contains("neither tasks nor interrupts"), "{}", seen.text());
    assert!(seen.keys("f").text().contains("nothing to filter by"), "{}", seen.text());
    assert!(seen.keys("a").text().contains("no function is in this row"), "{}", seen.text());
}

#[test]
fn every_key_of_the_help_has_its_action() {
    for (names, _) in keys::HELP {
        for name in names.split([' ', ',']).filter(|name| !name.is_empty()) {
            let (code, modifiers) = match name {
                "Up" => (KeyCode::Up, KeyModifiers::NONE),
                "Down" => (KeyCode::Down, KeyModifiers::NONE),
                "PgUp" => (KeyCode::PageUp, KeyModifiers::NONE),
                "PgDn" => (KeyCode::PageDown, KeyModifiers::NONE),
                "Space" => (KeyCode::Char(' '), KeyModifiers::NONE),
                "Home" => (KeyCode::Home, KeyModifiers::NONE),
                "End" => (KeyCode::End, KeyModifiers::NONE),
                "Enter" => (KeyCode::Enter, KeyModifiers::NONE),
                "Right" => (KeyCode::Right, KeyModifiers::NONE),
                "Left" => (KeyCode::Left, KeyModifiers::NONE),
                "Esc" => (KeyCode::Esc, KeyModifiers::NONE),
                "Backspace" => (KeyCode::Backspace, KeyModifiers::NONE),
                "Ctrl-C" => (KeyCode::Char('c'), KeyModifiers::CONTROL),
                name if name.len() > 1 && name.starts_with('F') => {
                    (KeyCode::F(name[1..].parse().unwrap()), KeyModifiers::NONE)
                }
                letter => (KeyCode::Char(letter.chars().next().unwrap()), KeyModifiers::NONE),
            };
            assert!(keys::action(KeyEvent::new(code, modifiers)).is_some(), "{name}");
        }
    }
}
