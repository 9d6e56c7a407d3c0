// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys and their actions, as in `perf report`, `htop` and `less`.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Action that a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    Code,
    Callers,
    Functions,
    Tasks,
    Bins,
    Time,
    Hottest,
    Sort,
    SortBack,
    Reverse,
    Search,
    Next,
    Previous,
    Filter,
    Copy,
    Help,
    Quit,
}

/// Help: keys, and what they do.
pub(super) const HELP: [(&str, &str); 22] = [
    ("Up Down, k j", "the row before, the next row"),
    ("PgUp PgDn, Space", "one screen up, one down"),
    ("Home End, g G", "the first row, the last one"),
    ("Enter, Right", "open the row: code of a function, target of a call, a task alone"),
    ("Esc, Backspace, Left", "back to the view before"),
    ("a", "annotate: source and machine code of the function, with counts"),
    ("c", "callers and callees of the function"),
    ("m", "the functions (the first view)"),
    ("t", "tasks and interrupts"),
    ("b", "address bins"),
    ("w", "when what ran: a strip of time for tasks, interrupts and functions"),
    ("H", "the hottest instruction, in code"),
    ("s, >", "sort by the next column"),
    ("S, <", "sort by the column before"),
    ("r", "reverse the order"),
    ("/, F3", "search, in small letters for both cases; Enter keeps it, Esc drops it"),
    ("n N", "the next match, the one before"),
    ("f, F4", "filter: only one task or interrupt, in every view"),
    ("y", "copy the name or address of the row (OSC 52; in tmux: set -g set-clipboard on)"),
    ("?, F1", "this help"),
    ("q, F10, Ctrl-C", "quit"),
    ("", "instructions are exact; shares are of the scope in the first line"),
];

/// Action of a key; None: it has none.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('b' | 'u') => Some(Action::PageUp),
            KeyCode::Char('f' | 'd') => Some(Action::PageDown),
            KeyCode::Char('p') => Some(Action::Up),
            KeyCode::Char('n') => Some(Action::Down),
            // What terminals send for Backspace.
            KeyCode::Char('h') => Some(Action::Back),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Action::Up,
        KeyCode::Down | KeyCode::Char('j') => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => Action::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Enter | KeyCode::Right => Action::Open,
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => Action::Back,
        KeyCode::Char('a') => Action::Code,
        KeyCode::Char('c') => Action::Callers,
        KeyCode::Char('m') => Action::Functions,
        KeyCode::Char('t') => Action::Tasks,
        KeyCode::Char('b') => Action::Bins,
        KeyCode::Char('w') => Action::Time,
        KeyCode::Char('H') => Action::Hottest,
        KeyCode::Char('s' | '>') | KeyCode::F(6) => Action::Sort,
        KeyCode::Char('S' | '<') => Action::SortBack,
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Char('/') | KeyCode::F(3) => Action::Search,
        KeyCode::Char('n') => Action::Next,
        KeyCode::Char('N') => Action::Previous,
        KeyCode::Char('f') | KeyCode::F(4) => Action::Filter,
        KeyCode::Char('y') => Action::Copy,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char('q') | KeyCode::F(10) => Action::Quit,
        _ => return None,
    })
}
