// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the state into a frame: two lines about the run, the table, and a line of keys or the answer to the last one.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::analysis::scope::Scope;
use crate::show::{names, summary};
use crate::text::columns::{clip, columns, pad};
use crate::text::number::{group, plural};
use crate::text::printable::printable;
use crate::text::tone::Tone;
use crate::ui::grid::{Column, Fit, Grid, Row};
use crate::ui::keys::HELP;
use crate::ui::view::time;
use crate::ui::{App, Mode, View};

/// Smallest terminal that a table is drawn on.
const LEAST: (u16, u16) = (40, 6);

/// Lines above the table's rows, with its headings, and below them.
const ABOVE: u16 = 3;
const BELOW: u16 = 1;

/// Gap between two columns.
const GAP: usize = 2;

/// Names are not shortened below this while another column could go.
const LEAST_NAME_COLUMNS: usize = 16;

/// Most columns of a place in a source file.
const LOCATION_COLUMNS: usize = 40;

/// Draws everything.
pub(super) fn draw(app: &mut App<'_>, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        put(buffer, area, 0, &format!("{} x {} columns at least", LEAST.0, LEAST.1), Style::new());
        return;
    }
    app.width_columns = area.width.into();
    app.height_rows = (area.height - ABOVE - BELOW).into();
    let inks = Inks { has_color: app.has_color };
    head(app, area, buffer, inks);
    let end = time::end(&app.book);
    let table = Rect { y: area.y + ABOVE - 1, height: area.height - ABOVE - BELOW + 1, ..area };
    let last = app.screens.len() - 1;
    draw_grid(&mut app.screens[last].grid, table, buffer, inks, &end);
    foot(app, area, buffer, inks);
    match &mut app.mode {
        Mode::Browse | Mode::Search { .. } => {}
        Mode::Choose(grid) => {
            let rows = u16::try_from(grid.rows.len()).unwrap_or(u16::MAX);
            let inner = popup(area, 70, rows.saturating_add(1), buffer);
            draw_grid(grid, inner, buffer, inks, &end);
        }
        Mode::Help { first } => help(first, area, buffer, inks),
    }
}

/// Styles of tones, with colours or without.
#[derive(Clone, Copy)]
struct Inks {
    has_color: bool,
}

impl Inks {
    fn of(self, tone: Tone) -> Style {
        let colored = |style: Style, color: Color| if self.has_color { style.fg(color) } else { style };
        let style = Style::new();
        match tone {
            Tone::Heading => style.add_modifier(Modifier::BOLD),
            Tone::Source => colored(style, Color::Cyan),
            Tone::Hot => colored(style, Color::Red).add_modifier(Modifier::BOLD),
            Tone::Warm => colored(style, Color::Yellow),
            Tone::Plain => style,
            Tone::Never => style.add_modifier(Modifier::DIM),
        }
    }

    fn bar() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Writes a line of an area, cut to it; everything that is drawn goes through here.
fn put(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    if row < area.height {
        let text = printable(text);
        buffer.set_stringn(area.x, area.y + row, clip(&text, area.width.into()), area.width.into(), style);
    }
}

/// Two texts in one line: at its left and at its right, as far as both have room.
fn both(left: &str, right: &str, width: usize) -> String {
    let room = width.saturating_sub(columns(right) + 1);
    if room < 20 {
        return pad(&clip(left, width), width);
    }
    format!("{} {right}", pad(&clip(left, room), room))
}

fn head(app: &App<'_>, area: Rect, buffer: &mut Buffer, inks: Inks) {
    let width = usize::from(area.width);
    let run = &app.book.run;
    let label = match &app.book.before {
        Some(before) => format!(" {} \u{2192} {}", before.label, run.label),
        None => format!(" {}: {}", run.label, run.profile.facts.image_name),
    };
    let scope = format!("scope: {} ", app.scope);
    put(buffer, area, 0, &both(&label, &scope, width), Inks::bar());
    let sums = run.total(&app.scope);
    let before =
        app.book.before.as_ref().map(|before| format!("{} \u{2192} ", group(before.total(&app.scope).insns)));
    // Without the exact tree, a task's instructions in a function are divided as its samples are.
    let how = if app.scope != Scope::Run && run.profile.tree.is_empty() { " by samples" } else { "" };
    let insns = format!("{}{}{how} ", before.unwrap_or_default(), plural(sums.insns, "instruction"));
    let title = format!(" {}", title(app));
    // The number of samples goes first where there is little room.
    let with_samples = format!("{}, {} ", insns.trim_end(), plural(sums.samples, "sample"));
    let counts = if columns(&title) + columns(&with_samples) < width { with_samples } else { insns };
    put(buffer, area, 1, &both(&title, &counts, width), inks.of(Tone::Heading));
}

/// Name of the view, and what its numbers are of where that is not the scope.
fn title(app: &App<'_>) -> String {
    let is_whole = app.scope == Scope::Run;
    match app.screen().view {
        View::Functions if app.book.before.is_some() => "Changes by function".to_owned(),
        View::Functions => "Functions".to_owned(),
        View::Callers(place) => format!("Callers and callees of {}", app.book.name(place)),
        View::Code(place) => {
            let of = if place.is_before { ", before" } else { "" };
            let note = if is_whole { "" } else { " (counts of the whole run)" };
            format!("Code of {}{of}{note}", app.book.name(place))
        }
        View::Tasks => "Tasks and interrupts (whole run)".to_owned(),
        View::Bins => format!("Bins of {} (whole run)", plural(app.book.bin_bytes(), "byte")),
        View::Time => "When what ran".to_owned(),
    }
}

/// Keys of the bottom line, by view: the most needed first, as many as fit.
fn hints(view: View) -> &'static [&'static str] {
    match view {
        View::Functions => {
            &["Enter code", "c callers", "/ search", "s sort", "f filter", "t tasks", "w when", "? help", "q quit"]
        }
        View::Bins => &["Enter code", "Esc back", "c callers", "/ search", "s sort", "? help", "q quit"],
        View::Callers(_) => &["Enter go there", "Esc back", "a code", "/ search", "f filter", "? help", "q quit"],
        View::Code(_) => {
            &["Enter follow", "Esc back", "H hottest", "c callers", "/ search", "y copy", "? help", "q quit"]
        }
        View::Tasks => &["Enter only this", "Esc back", "s sort", "w when", "? help", "q quit"],
        View::Time => &["Enter open", "Esc back", "f filter", "? help", "q quit"],
    }
}

fn foot(app: &App<'_>, area: Rect, buffer: &mut Buffer, inks: Inks) {
    let row = area.height - 1;
    match &app.mode {
        Mode::Search { typed, .. } => put(buffer, area, row, &format!("/{typed}\u{2588}"), inks.of(Tone::Heading)),
        _ if !app.said.is_empty() => put(buffer, area, row, &format!(" {}", app.said), inks.of(Tone::Heading)),
        _ => {
            let width = usize::from(area.width);
            let grid = &app.screen().grid;
            let place = format!(
                "{} of {} ",
                group((grid.selected + 1).min(grid.rows.len()) as u64),
                group(grid.rows.len() as u64)
            );
            let wanted = &app.wanted;
            let found = if wanted.is_empty() { String::new() } else { format!("n next `{wanted}`  ") };
            let mut keys = format!(" {found}");
            let room = width.saturating_sub(columns(&place) + 1);
            let hints = hints(app.screen().view);
            // The last two, help and quit, stay on narrow terminals.
            let (first, last) = hints.split_at(hints.len() - 2);
            let last = last.join("  ");
            for hint in first {
                if columns(&keys) + columns(hint) + GAP + columns(&last) <= room {
                    keys = format!("{keys}{hint}  ");
                }
            }
            put(buffer, area, row, &both(&(keys + &last), &place, width), Inks::bar());
        }
    }
}

/// Columns of a table that a width has room for, as indices with their widths.
fn layout(grid: &Grid, width: usize) -> Vec<(usize, usize)> {
    let shown = |(_, column): &(usize, &Column)| column.from_columns <= width;
    let is_flexible = |column: &Column| matches!(column.fit, Fit::Name | Fit::Text);
    let columns: Vec<(usize, &Column)> = grid.columns.iter().enumerate().filter(shown).collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    let fixed: usize =
        columns.iter().filter(|(_, column)| column.fit == Fit::Number).map(|(index, _)| grid.width(*index)).sum();
    let room = width.saturating_sub(fixed + gaps);
    let names: usize =
        columns.iter().filter(|(_, column)| is_flexible(column)).map(|(index, _)| grid.width(*index)).sum();
    let has = |fit: Fit| columns.iter().any(|(_, column)| column.fit == fit);
    let locations: usize =
        columns.iter().filter(|(_, column)| column.fit == Fit::Location).map(|(index, _)| grid.width(*index)).sum();
    let (name, location, strip) = if has(Fit::Strip) {
        let name = names.min(room / 3).max(LEAST_NAME_COLUMNS.min(room));
        (name, 0, room.saturating_sub(name))
    } else if has(Fit::Location) {
        // Files with their lines stay whole, then come the names, then the files' directories.
        let least = grid.place_columns.min(LOCATION_COLUMNS).min(room.saturating_sub(LEAST_NAME_COLUMNS));
        let location = locations.min(LOCATION_COLUMNS).min(room.saturating_sub(names).max(least));
        (room.saturating_sub(location).min(names.max(LEAST_NAME_COLUMNS)), location, 0)
    } else {
        (room, 0, 0)
    };
    let width_of = |(index, column): (usize, &Column)| match column.fit {
        Fit::Number => (index, grid.width(index)),
        Fit::Name | Fit::Text => (index, name),
        Fit::Location => (index, location),
        Fit::Strip => (index, strip),
    };
    columns.into_iter().map(width_of).collect()
}

fn draw_grid(grid: &mut Grid, area: Rect, buffer: &mut Buffer, inks: Inks, end: &str) {
    let height = usize::from(area.height.saturating_sub(1));
    grid.scroll(height);
    let layout = layout(grid, area.width.into());
    let heading: Vec<String> = layout
        .iter()
        .map(|&(index, width)| {
            let column = &grid.columns[index];
            let mark = match grid.order.filter(|order| order.column == index) {
                Some(order) if order.is_falling => " \u{25bc}",
                Some(_) => " \u{25b2}",
                None => "",
            };
            match column.fit {
                Fit::Strip => both("0", end, width),
                fit => aligned(&format!("{}{mark}", column.title), fit, width),
            }
        })
        .collect();
    put(buffer, area, 0, &heading.join("  "), inks.of(Tone::Heading));
    let rows = &grid.rows[grid.top.min(grid.rows.len())..];
    let rows = &rows[..rows.len().min(height)];
    let names = short_names(grid, rows, &layout);
    for (line, (row, name)) in rows.iter().zip(names).enumerate() {
        let text = if row.is_heading(grid.columns.len()) {
            row.cells.first().map(|cell| cell.text.clone()).unwrap_or_default()
        } else {
            let cell = |&(index, width): &(usize, usize)| {
                let text = row.cells.get(index).map_or("", |cell| &*cell.text);
                match grid.columns[index].fit {
                    Fit::Name => pad(&name, width),
                    Fit::Location => pad(&summary::short_place(text, width), width),
                    Fit::Strip => strip(&row.strip, width),
                    fit => aligned(text, fit, width),
                }
            };
            layout.iter().map(cell).collect::<Vec<_>>().join("  ")
        };
        let mut style = inks.of(row.tone);
        let mut text = text;
        if grid.top + line == grid.selected {
            style = style.add_modifier(Modifier::REVERSED).remove_modifier(Modifier::DIM);
            text = pad(&text, area.width.into());
        }
        put(buffer, area, line as u16 + 1, &text, style);
    }
    if rows.is_empty() {
        put(buffer, area, 1, "(nothing)", inks.of(Tone::Never));
    }
}

/// Text in its column.
fn aligned(text: &str, fit: Fit, width: usize) -> String {
    let text = clip(text, width);
    match fit {
        Fit::Number => format!("{}{text}", " ".repeat(width.saturating_sub(columns(&text)))),
        _ => pad(&text, width),
    }
}

/// Names of the rows on the screen, shortened to their column without two of them becoming alike.
fn short_names(grid: &Grid, rows: &[Row], layout: &[(usize, usize)]) -> Vec<String> {
    let named = layout.iter().find(|(index, _)| grid.columns[*index].fit == Fit::Name);
    let Some(&(index, width)) = named else { return vec![String::new(); rows.len()] };
    let cell = |row: &Row| row.cells.get(index).map(|cell| cell.text.clone()).unwrap_or_default();
    let texts: Vec<String> = rows.iter().map(cell).collect();
    let cells: Vec<(&str, usize)> = texts.iter().map(|text| (text.as_str(), width)).collect();
    names::cells(&cells)
}

/// Draws a strip of time: the higher a bar, the larger its part of that time.
fn strip(parts: &[f32], width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |column: usize| {
        let from = column * parts.len() / width.max(1);
        let to = ((column + 1) * parts.len() / width.max(1)).max(from + 1).min(parts.len());
        let Some(parts) = parts.get(from..to).filter(|parts| !parts.is_empty()) else { return ' ' };
        let share = parts.iter().sum::<f32>() / parts.len() as f32;
        // Never empty where something ran.
        let eighths = (share * 8.0).round() as usize;
        BARS[eighths.max(usize::from(share > 0.0)).min(8)]
    };
    (0..width).map(bar).collect()
}

/// Clears a box in the middle of the screen and draws its frame. Returns its inside.
fn popup(area: Rect, width: u16, rows: u16, buffer: &mut Buffer) -> Rect {
    let width = width.min(area.width);
    let height = rows.saturating_add(2).min(area.height);
    let at = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    for line in 0..height {
        let inner = usize::from(width.saturating_sub(2));
        let text = match line {
            0 => format!("┌{}┐", "─".repeat(inner)),
            line if line == height - 1 => format!("└{}┘", "─".repeat(inner)),
            _ => format!("│{}│", " ".repeat(inner)),
        };
        put(buffer, at, line, &text, Style::reset());
    }
    Rect { x: at.x + 1, y: at.y + 1, width: width.saturating_sub(2), height: height.saturating_sub(2) }
}

fn help(first: &mut usize, area: Rect, buffer: &mut Buffer, inks: Inks) {
    let keys = HELP.iter().map(|(keys, _)| columns(keys)).max().unwrap_or(0);
    let inner = popup(area, area.width.min(100), HELP.len() as u16 + 1, buffer);
    let room = usize::from(inner.width).saturating_sub(keys + GAP + 1);
    let mut lines: Vec<String> = Vec::new();
    for (keys_of, text) in HELP {
        for (index, part) in crate::text::fold::words(text, room.max(1)).into_iter().enumerate() {
            lines.push(format!(" {}  {part}", pad(if index == 0 { keys_of } else { "" }, keys)));
        }
    }
    let height = usize::from(inner.height.saturating_sub(1));
    *first = (*first).min(lines.len().saturating_sub(height));
    let more = if lines.len() > height {
        "Keys (Up and Down show the rest; any other key closes)"
    } else {
        "Keys (any key closes)"
    };
    put(buffer, inner, 0, &format!(" {more}"), inks.of(Tone::Heading));
    for (line, text) in lines.iter().skip(*first).take(height).enumerate() {
        put(buffer, inner, line as u16 + 1, text, Style::reset());
    }
}
