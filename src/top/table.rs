//! A table that fits into the columns that there are: what matters least is left out first.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::text::{fit, width};

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Numbers stand to the right.
    pub(super) is_number: bool,
    /// The higher, the earlier it is left out; 0 always stays.
    pub(super) rank: u8,
}

/// A name or a state.
pub(super) const fn text(title: &'static str, rank: u8) -> Column {
    Column { title, is_number: false, rank }
}

/// A figure.
pub(super) const fn number(title: &'static str, rank: u8) -> Column {
    Column { title, is_number: true, rank }
}

/// What stands in one place.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) shown: String,
    pub(super) order: Order,
    pub(super) style: Style,
}

/// By what rows are sorted.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) enum Order {
    Number(f64),
    Text(String),
}

impl Cell {
    /// A text, sorted as such.
    pub(super) fn text(shown: impl Into<String>) -> Cell {
        let shown = shown.into();
        Cell { order: Order::Text(shown.clone()), shown, style: Style::new() }
    }

    /// A figure, sorted by its value.
    pub(super) fn number(shown: impl Into<String>, value: f64) -> Cell {
        Cell { shown: shown.into(), order: Order::Number(value), style: Style::new() }
    }

    /// A figure that may be missing.
    pub(super) fn maybe(value: Option<f64>, shown: impl Fn(f64) -> String) -> Cell {
        match value {
            Some(value) => Cell::number(shown(value), value),
            None => Cell::number("-", -1.0),
        }
    }

    /// The same in a style.
    pub(super) fn styled(self, style: Style) -> Cell {
        Cell { style, ..self }
    }
}

/// A row, known by a name that it keeps from one answer to the next.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) cells: Vec<Cell>,
}

/// Sorts rows by a column.
pub(super) fn sort(rows: &mut [Row], column: usize, descending: bool) {
    rows.sort_by(|one, other| {
        let ordering = one.cells[column]
            .order
            .partial_cmp(&other.cells[column].order)
            .unwrap_or(std::cmp::Ordering::Equal);
        if descending { ordering.reverse() } else { ordering }
    });
}

/// By which column a table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sorting {
    pub(super) column: usize,
    pub(super) is_descending: bool,
}

impl Sorting {
    /// The title of a column, which says so of that column.
    fn title(self, index: usize, column: &Column) -> String {
        let mark = match (index == self.column, self.is_descending) {
            (false, _) => "",
            (true, true) => "↓",
            (true, false) => "↑",
        };
        format!("{}{mark}", column.title)
    }
}

/// The title line and the rows, at most as wide as `columns_max`. Of the first column, which is a
/// name, as much is shown as there is room for.
pub(super) fn lines(
    columns: &[Column],
    rows: &[&Row],
    sorting: Sorting,
    columns_max: usize,
) -> Vec<Line<'static>> {
    let titles: Vec<String> =
        columns.iter().enumerate().map(|(index, column)| sorting.title(index, column)).collect();
    let widths = widths(columns, &titles, rows, columns_max);
    let style = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![line(columns, &widths, titles.iter().map(|it| (it.as_str(), style)))];
    lines.extend(rows.iter().map(|row| {
        line(columns, &widths, row.cells.iter().map(|cell| (cell.shown.as_str(), cell.style)))
    }));
    lines
}

fn line<'a>(
    columns: &[Column],
    widths: &[Option<usize>],
    cells: impl Iterator<Item = (&'a str, Style)>,
) -> Line<'static> {
    let mut spans = Vec::new();
    for ((column, room), (shown, style)) in columns.iter().zip(widths).zip(cells) {
        let Some(room) = *room else { continue };
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        let shown = fit(shown, room);
        let blanks = Span::raw(" ".repeat(room.saturating_sub(width(&shown))));
        let shown = Span::styled(shown, style);
        spans.extend(if column.is_number { [blanks, shown] } else { [shown, blanks] });
    }
    Line::from(spans)
}

/// How wide each column is; `None` leaves it out.
fn widths(
    columns: &[Column],
    titles: &[String],
    rows: &[&Row],
    columns_max: usize,
) -> Vec<Option<usize>> {
    let widest = |(index, title): (usize, &String)| {
        let cells = rows.iter().map(|row| width(&row.cells[index].shown));
        Some(cells.max().unwrap_or(0).max(width(title)))
    };
    let mut widths: Vec<Option<usize>> = titles.iter().enumerate().map(widest).collect();
    loop {
        let kept = widths.iter().flatten().count();
        let wanted = widths.iter().flatten().sum::<usize>() + GAP * kept.saturating_sub(1);
        let excess = wanted.saturating_sub(columns_max);
        // A name can be cut down to what still tells it from others.
        let first = widths[0].unwrap_or(0);
        if excess <= first.saturating_sub(NAME_MIN) {
            widths[0] = Some(first - excess);
            return widths;
        }
        let dispensable = columns
            .iter()
            .enumerate()
            .filter(|(index, column)| widths[*index].is_some() && column.rank > 0);
        match dispensable.max_by_key(|(_, column)| column.rank) {
            Some((index, _)) => widths[index] = None,
            None => {
                widths[0] = Some(first.saturating_sub(excess));
                return widths;
            }
        }
    }
}

const GAP: usize = 2;

/// Columns of a name that are left to it while there is something else to leave out.
const NAME_MIN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [text("NAME", 0), number("SIZE", 0), number("RARE", 3)];

    fn row(name: &str, size: f64) -> Row {
        let cells = vec![
            Cell::text(name),
            Cell::number(format!("{size}"), size),
            Cell::maybe(None, |_| String::new()),
        ];
        Row { id: name.to_owned(), cells }
    }

    fn shown(rows: &[Row], columns_max: usize) -> Vec<String> {
        let rows: Vec<&Row> = rows.iter().collect();
        let sorting = Sorting { column: 1, is_descending: true };
        lines(&COLUMNS, &rows, sorting, columns_max).iter().map(Line::to_string).collect()
    }

    #[test]
    fn numbers_stand_to_the_right_below_their_titles() {
        let rows = [row("a", 7.0), row("bcdef", 12_345.0)];
        assert_eq!(
            shown(&rows, 80),
            ["NAME   SIZE↓  RARE", "a          7     -", "bcdef  12345     -"]
        );
    }

    #[test]
    fn a_narrow_table_leaves_out_what_matters_least_and_then_cuts_the_name() {
        let rows = [row("a-very-long-name-of-a-host", 7.0)];
        assert_eq!(shown(&rows, 33)[1], "a-very-long-name-of~      7     -");
        assert_eq!(shown(&rows, 22)[1], "a-very-long-na~      7");
        for columns_max in 0..40 {
            for line in shown(&rows, columns_max) {
                assert!(width(&line) <= columns_max.max(7), "{columns_max}: {line:?}");
            }
        }
    }

    #[test]
    fn rows_are_sorted_by_value_and_not_by_what_is_shown() {
        let mut rows = [row("a", 9.0), row("b", 100.0), row("c", 20.0)];
        sort(&mut rows, 1, true);
        let names: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        sort(&mut rows, 0, false);
        assert_eq!(rows[0].id, "a");
    }
}
