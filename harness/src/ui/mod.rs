// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interactive view of a profile: a state machine. Keys go in, and frames are drawn from the state; only `session`
//! knows a real terminal. So everything else is tested without one.

pub mod book;
mod draw;
mod grid;
mod keys;
pub mod session;
mod view;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::analysis::scope::Scope;
use crate::ui::book::Book;
use crate::ui::grid::{Grid, Place, Row, Target, Way};
use crate::ui::keys::Action;
use crate::ui::view::code::Leads;
use crate::ui::view::{bins, callers, change, code, functions, tasks, time};

/// Most views to go back through.
const MOST_SCREENS: usize = 100;

/// Subject of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Functions,
    Callers(Place),
    Code(Place),
    Tasks,
    Bins,
    Time,
}

/// A view with its table.
#[derive(Clone, Debug)]
struct Screen {
    view: View,
    grid: Grid,
}

/// Meaning of keys at the moment.
#[derive(Clone, Debug)]
enum Mode {
    /// Moving in the table.
    Browse,
    /// Typing a text to search, from this row on.
    Search { typed: String, from: usize },
    /// Choosing one of several rows: a scope, or the function that a call led to.
    Choose(Grid),
    /// Reading the keys.
    Help { first: usize },
}

/// The state of the view.
pub struct App<'p> {
    book: Book<'p>,
    /// The screens that led here; the last one is shown.
    screens: Vec<Screen>,
    scope: Scope,
    mode: Mode,
    /// Text of the last search.
    wanted: String,
    /// Answer to the last key, instead of the list of keys.
    said: String,
    copied: Option<String>,
    is_over: bool,
    has_color: bool,
    /// Size of the last frame's table, and width of the frame.
    height_rows: usize,
    width_columns: usize,
}

impl<'p> App<'p> {
    /// The view of a book, at its functions.
    pub fn new(book: Book<'p>, has_color: bool) -> App<'p> {
        let mut app = App {
            book,
            screens: Vec::new(),
            scope: Scope::Run,
            mode: Mode::Browse,
            wanted: String::new(),
            said: String::new(),
            copied: None,
            is_over: false,
            has_color,
            height_rows: 1,
            width_columns: 80,
        };
        let grid = app.fill(View::Functions);
        app.screens.push(Screen { view: View::Functions, grid });
        app
    }

    /// Whether the user has quit.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes the text that is to be copied, if the last key asked for that. It is printable.
    pub fn take_copied(&mut self) -> Option<String> {
        self.copied.take()
    }

    /// Draws the state.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        draw::draw(self, frame);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        self.said.clear();
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt {
            self.is_over = true;
            return;
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => {
                if let Some(action) = keys::action(key) {
                    self.act(action);
                }
            }
            Mode::Search { typed, from } => self.typed(key, typed, from),
            Mode::Choose(grid) => self.choose(key, grid),
            Mode::Help { first } => match keys::action(key) {
                Some(Action::Down) => self.mode = Mode::Help { first: first + 1 },
                Some(Action::Up) => self.mode = Mode::Help { first: first.saturating_sub(1) },
                Some(Action::Quit) => self.is_over = true,
                _ => {}
            },
        }
    }

    fn fill(&self, view: View) -> Grid {
        match (view, &self.book.before) {
            (View::Functions, None) => functions::grid(&self.book, &self.scope),
            (View::Functions, Some(before)) => change::grid(&self.book, before, &self.scope),
            (View::Callers(place), _) => callers::grid(&self.book, place, &self.scope),
            (View::Code(place), _) => code::grid(&self.book, place, &self.scope),
            (View::Tasks, _) => tasks::grid(&self.book),
            (View::Bins, _) => bins::grid(&self.book),
            (View::Time, _) => time::grid(&self.book, &self.scope),
        }
    }

    /// The screen that is shown.
    fn screen(&self) -> &Screen {
        // There is always one: `back` keeps the first.
        &self.screens[self.screens.len() - 1]
    }

    fn grid(&mut self) -> &mut Grid {
        let last = self.screens.len() - 1;
        &mut self.screens[last].grid
    }

    fn open(&mut self, view: View) {
        if self.screen().view == view {
            return;
        }
        let grid = self.fill(view);
        if self.screens.len() == MOST_SCREENS {
            self.screens.remove(1);
        }
        self.screens.push(Screen { view, grid });
    }

    fn back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
        } else if self.scope != Scope::Run {
            self.look_at(Scope::Run);
        } else {
            self.said = "this is the first view; q quits".to_owned();
        }
    }

    /// Changes the scope of all screens. Each keeps its row, where that is still there.
    fn look_at(&mut self, scope: Scope) {
        self.scope = scope;
        for index in 0..self.screens.len() {
            let Screen { view, grid: old } = &self.screens[index];
            let (target, selected, order) = (old.row().map(|row| row.target.clone()), old.selected, old.order);
            let mut grid = self.fill(*view);
            if let Some(order) = order.filter(|order| grid.order.is_some_and(|new| new != *order)) {
                grid.sort(order);
            }
            if !target.is_some_and(|target| grid.find_target(&target)) {
                let is_code = matches!(view, View::Code(_));
                grid.select(if is_code { selected } else { 0 });
            }
            self.screens[index].grid = grid;
        }
        self.said = format!("scope: {}", self.scope);
    }

    fn act(&mut self, action: Action) {
        let page = self.height_rows.saturating_sub(1).max(1);
        match action {
            Action::Up => self.grid().step(Way::Up, 1),
            Action::Down => self.grid().step(Way::Down, 1),
            Action::PageUp => self.grid().step(Way::Up, page),
            Action::PageDown => self.grid().step(Way::Down, page),
            Action::First => self.grid().select(0),
            Action::Last => self.grid().select(usize::MAX),
            Action::Open => self.enter(),
            Action::Back => self.back(),
            Action::Code => self.of_function(View::Code),
            Action::Callers => self.of_function(View::Callers),
            Action::Functions => self.screens.truncate(1),
            Action::Tasks if self.book.scopes().is_empty() && self.book.run.profile.tasks.is_empty() => {
                self.said = "the run has neither tasks nor interrupts".to_owned();
            }
            Action::Tasks => self.open(View::Tasks),
            Action::Bins => self.open(View::Bins),
            Action::Time => self.open(View::Time),
            Action::Hottest => match code::hottest(&self.screen().grid).filter(|_| self.is_code()) {
                Some(index) => self.grid().select(index),
                None => self.said = "H is for code: a shows that of a function".to_owned(),
            },
            Action::Sort => self.sort(Way::Down),
            Action::SortBack => self.sort(Way::Up),
            Action::Reverse => {
                if !self.grid().reverse() {
                    self.said = "this view has one order only".to_owned();
                }
            }
            Action::Search => self.mode = Mode::Search { typed: String::new(), from: self.screen().grid.selected },
            Action::Next => self.again(Way::Down),
            Action::Previous => self.again(Way::Up),
            Action::Filter if self.book.scopes().is_empty() => {
                self.said = "nothing to filter by: the run has neither tasks nor interrupts".to_owned();
            }
            Action::Filter => self.mode = Mode::Choose(tasks::choice(&self.book, &self.scope)),
            Action::Copy => self.copy(),
            Action::Help => self.mode = Mode::Help { first: 0 },
            Action::Quit => self.is_over = true,
        }
    }

    fn is_code(&self) -> bool {
        matches!(self.screen().view, View::Code(_))
    }

    fn sort(&mut self, way: Way) {
        let width_columns = self.width_columns;
        if !self.grid().sort_by_next(way, width_columns) {
            self.said = "this view has one order only".to_owned();
        }
    }

    /// Function of the selected row; in views of one function, that one if the row has none.
    fn function(&self) -> Option<Place> {
        let screen = self.screen();
        match (screen.grid.row().map(|row| &row.target), screen.view) {
            (Some(Target::Function(place)), _) => Some(*place),
            (_, View::Callers(place) | View::Code(place)) => Some(place),
            _ => None,
        }
    }

    fn of_function(&mut self, view: fn(Place) -> View) {
        match self.function() {
            Some(place) => self.open(view(place)),
            None => self.said = "no function is in this row".to_owned(),
        }
    }

    /// Opens what the selected row leads to.
    fn enter(&mut self) {
        let (view, row) = (self.screen().view, self.screen().grid.row().cloned());
        let Some(row) = row else { return };
        match (row.target.clone(), view) {
            (Target::Row(index), _) => self.grid().select(index),
            (Target::Scope(scope), _) => {
                self.screens.truncate(1);
                self.look_at(scope);
            }
            (Target::Function(place), View::Callers(shown)) if place != shown => self.open(View::Callers(place)),
            (Target::Function(place), _) => self.open(View::Code(place)),
            (Target::Nothing, View::Code(place)) => self.follow(place, &row),
            (Target::Nothing, View::Functions) if self.book.before.is_some() => {
                self.said = "it has no code of its own: it is inlined into other functions".to_owned();
            }
            (Target::Nothing, _) => self.said = "this row leads nowhere".to_owned(),
        }
    }

    /// Follows the call or jump of an instruction.
    fn follow(&mut self, place: Place, row: &Row) {
        let Some(address) = code::address(row) else {
            self.said = "Enter follows a call or jump of an instruction".to_owned();
            return;
        };
        match code::leads(self.book.run_of(place).profile, address) {
            Leads::On => self.said = "the instruction neither calls nor jumps".to_owned(),
            Leads::Inside(address) => {
                let at = self.screen().grid.rows.iter().position(|row| code::address(row) == Some(address));
                match at {
                    Some(index) => self.grid().select(index),
                    None => self.said = "its target has no instruction here".to_owned(),
                }
            }
            Leads::Functions(functions) => match functions[..] {
                [(start, _)] => self.open(View::Code(Place { start, ..place })),
                _ => self.mode = Mode::Choose(code::choice(&self.book, place, &functions)),
            },
        }
    }

    /// Takes a key while a text to search is typed.
    fn typed(&mut self, key: KeyEvent, mut typed: String, from: usize) {
        match key.code {
            KeyCode::Enter if typed.is_empty() => {}
            KeyCode::Enter => {
                if !self.grid().search(&typed, from, Way::Down) {
                    self.said = format!("no row holds `{typed}`");
                }
                self.wanted = typed;
                return;
            }
            KeyCode::Esc => {
                self.grid().select(from);
                return;
            }
            KeyCode::Backspace if typed.is_empty() => return,
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => typed.clear(),
            KeyCode::Char(letter) if !key.modifiers.contains(KeyModifiers::CONTROL) => typed.push(letter),
            _ => {}
        }
        if typed.is_empty() || !self.grid().search(&typed, from, Way::Down) {
            self.grid().select(from);
        }
        self.mode = Mode::Search { typed, from };
    }

    /// Searches the last text again.
    fn again(&mut self, way: Way) {
        if self.wanted.is_empty() {
            self.said = "nothing was searched yet: / searches".to_owned();
            return;
        }
        let (wanted, count) = (self.wanted.clone(), self.screen().grid.rows.len());
        let next = match way {
            Way::Down => self.screen().grid.selected + 1,
            Way::Up => self.screen().grid.selected + count.saturating_sub(1),
        };
        if !self.grid().search(&wanted, next, way) {
            self.said = format!("no row holds `{wanted}`");
        }
    }

    /// Takes a key while a row is chosen.
    fn choose(&mut self, key: KeyEvent, mut grid: Grid) {
        let page = self.height_rows.saturating_sub(1).max(1);
        match keys::action(key) {
            Some(Action::Up) => grid.step(Way::Up, 1),
            Some(Action::Down) => grid.step(Way::Down, 1),
            Some(Action::PageUp) => grid.step(Way::Up, page),
            Some(Action::PageDown) => grid.step(Way::Down, page),
            Some(Action::First) => grid.select(0),
            Some(Action::Last) => grid.select(usize::MAX),
            Some(Action::Open) => {
                match grid.row().map(|row| row.target.clone()) {
                    Some(Target::Scope(scope)) => self.look_at(scope),
                    Some(Target::Function(place)) => self.open(View::Code(place)),
                    _ => {}
                }
                return;
            }
            Some(Action::Back | Action::Filter) => return,
            Some(Action::Quit) => {
                self.is_over = true;
                return;
            }
            _ => {}
        }
        self.mode = Mode::Choose(grid);
    }

    /// Copies the name or the address of the selected row.
    fn copy(&mut self) {
        let grid = &self.screen().grid;
        let name = |row: &Row| {
            let index = grid.columns.iter().position(|column| column.fit != grid::Fit::Number).unwrap_or(0);
            row.cells.get(index).or(row.cells.first()).map(|cell| cell.text.clone())
        };
        let text = grid.row().and_then(|row| row.copied.clone().or_else(|| name(row)));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let text = crate::text::printable::printable(&text).into_owned();
            self.said = format!("copied: {text}");
            self.copied = Some(text);
        }
    }
}

#[cfg(test)]
mod tests;
