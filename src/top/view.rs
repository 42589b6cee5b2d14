//! What is on the screen: takes answers and keys, and has no terminal, clock or socket.

use super::rates::Rates;
use super::status::Status;
use super::table::{Row, Sorting, sort};
use super::tables::Kind;

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Where the master is.
    pub(super) address: String,
    /// The latest answer.
    pub(super) latest: Option<Status>,
    /// Since the answer before it; `None` after the first one, and after another process answers.
    pub(super) rates: Option<Rates>,
    /// Why the last question has no answer.
    pub(super) lost: Option<Lost>,
    pub(super) screen: Screen,
    /// The table that keys are for.
    pub(super) focus: Kind,
    pub(super) is_paused: bool,
    tables: [TableState; Kind::ALL.len()],
}

/// The master does not answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) reason: String,
    /// Questions without an answer, one after the other.
    pub(super) tries: u64,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// Everything at a glance.
    Overview,
    /// One segment, by its id.
    Segment(String),
    /// One client, by its id.
    Client(String),
    Help,
}

/// What somebody has chosen for a table.
#[derive(Clone, Debug)]
struct TableState {
    sorted_by: usize,
    is_descending: bool,
    /// The row by its id, so that it stays the same one when others come before it.
    selected: Option<String>,
}

/// What can be pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Escape,
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Quit,
}

impl View {
    /// Before the first answer.
    pub(super) fn new(address: String) -> View {
        let tables = Kind::ALL.map(|kind| {
            let (sorted_by, is_descending) = kind.sorted_by_default();
            TableState { sorted_by, is_descending, selected: None }
        });
        View {
            address,
            latest: None,
            rates: None,
            lost: None,
            screen: Screen::Overview,
            focus: Kind::Segments,
            is_paused: false,
            tables,
        }
    }

    /// Takes an answer, or why there is none. The latest answer stays on the screen until another one
    /// comes. While it is paused nothing changes.
    pub(super) fn take(&mut self, answer: Result<Status, String>) {
        if self.is_paused {
            return;
        }
        match answer {
            Ok(status) => {
                self.rates = self.latest.as_ref().and_then(|it| Rates::between(it, &status));
                self.latest = Some(status);
                self.lost = None;
            }
            Err(reason) => {
                let tries = self.lost.as_ref().map_or(0, |lost| lost.tries) + 1;
                self.lost = Some(Lost { reason, tries });
                // A rate of before would look like one of now.
                self.rates = None;
            }
        }
    }

    /// Does what a key asks for.
    pub(super) fn press(&mut self, key: Key) -> Next {
        match key {
            Key::Letter('q') => return Next::Quit,
            Key::Letter('?' | 'h') if self.screen == Screen::Help => self.screen = Screen::Overview,
            Key::Letter('?' | 'h') => self.screen = Screen::Help,
            Key::Letter('p' | ' ') => self.is_paused = !self.is_paused,
            // Out of a page, and at last out of the program.
            Key::Escape if self.screen == Screen::Overview => return Next::Quit,
            Key::Escape => self.screen = Screen::Overview,
            _ if self.screen != Screen::Overview => {}
            Key::Tab => self.turn(1),
            Key::BackTab => self.turn(Kind::ALL.len() - 1),
            Key::Letter('s' | '>') => self.sort_by_next(1),
            Key::Letter('<') => self.sort_by_next(self.focus.columns().len() - 1),
            Key::Letter('r') => {
                let state = self.state_mut();
                state.is_descending = !state.is_descending;
            }
            Key::Up | Key::Letter('k') => self.select(|at, _| at.saturating_sub(1)),
            Key::Down | Key::Letter('j') => self.select(|at, _| at + 1),
            Key::PageUp => self.select(|at, _| at.saturating_sub(PAGE)),
            Key::PageDown => self.select(|at, _| at + PAGE),
            Key::Home => self.select(|_, _| 0),
            Key::End => self.select(|_, last| last),
            Key::Enter => self.open(),
            Key::Letter(_) => {}
        }
        Next::GoOn
    }

    /// The rows of a table in the order that was chosen.
    pub(super) fn rows(&self, kind: Kind) -> Vec<Row> {
        let Some(status) = &self.latest else { return Vec::new() };
        let mut rows = kind.rows(status, self.rates.as_ref());
        let state = self.state(kind);
        sort(&mut rows, state.sorted_by, state.is_descending);
        rows
    }

    /// How a table is sorted.
    pub(super) fn sorting(&self, kind: Kind) -> Sorting {
        let state = self.state(kind);
        Sorting { column: state.sorted_by, is_descending: state.is_descending }
    }

    /// Which of the rows is selected: one that is gone leaves the first one.
    pub(super) fn selected(&self, kind: Kind, rows: &[Row]) -> usize {
        let selected = self.state(kind).selected.as_ref();
        selected.and_then(|id| rows.iter().position(|row| row.id == *id)).unwrap_or(0)
    }

    fn turn(&mut self, steps: usize) {
        let at = Kind::ALL.iter().position(|kind| *kind == self.focus).unwrap_or(0);
        self.focus = Kind::ALL[(at + steps) % Kind::ALL.len()];
    }

    fn sort_by_next(&mut self, steps: usize) {
        let columns = self.focus.columns();
        let state = self.state_mut();
        state.sorted_by = (state.sorted_by + steps) % columns.len();
        // Of figures the largest ones are looked for, of names the first.
        state.is_descending = columns[state.sorted_by].is_number;
    }

    fn select(&mut self, place: impl Fn(usize, usize) -> usize) {
        let rows = self.rows(self.focus);
        let Some(last) = rows.len().checked_sub(1) else { return };
        let at = self.selected(self.focus, &rows);
        let id = rows[place(at, last).min(last)].id.clone();
        self.state_mut().selected = Some(id);
    }

    fn open(&mut self) {
        let rows = self.rows(self.focus);
        let Some(row) = rows.get(self.selected(self.focus, &rows)) else { return };
        let id = row.id.clone();
        match self.focus {
            Kind::Segments => self.screen = Screen::Segment(id),
            Kind::Clients => self.screen = Screen::Client(id),
            // Everything about them is on the screen.
            Kind::Operations | Kind::Shards => {}
        }
    }

    fn state(&self, kind: Kind) -> &TableState {
        &self.tables[kind as usize]
    }

    fn state_mut(&mut self) -> &mut TableState {
        &mut self.tables[self.focus as usize]
    }
}

/// Rows that a page key goes on by.
const PAGE: usize = 10;
