//! Tables for people: columns as wide as their widest cell.

use std::fmt::Write;

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// A table that is printed as a whole.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty. What would not stay in its cell is escaped, as
    /// [`printable`] does.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The table with its head, each line ended.
    pub(crate) fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let head: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut text = String::new();
        for cells in std::iter::once(&head).chain(&self.rows) {
            self.render_row(&mut text, cells, &widths);
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        longest.max(self.columns[column].0.chars().count())
    }

    fn render_row(&self, text: &mut String, cells: &[String], widths: &[usize]) {
        let start = text.len();
        for (column, width) in widths.iter().enumerate() {
            let cell = cells.get(column).map_or("", String::as_str);
            let gap = if column == 0 { "" } else { "  " };
            // Writing into a string cannot fail.
            let _ = match self.columns[column].1 {
                Align::Left => write!(text, "{gap}{cell:<width$}"),
                Align::Right => write!(text, "{gap}{cell:>width$}"),
            };
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    }
}

/// A list of names with their values, the values aligned.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// A text of a peer for a terminal: characters that end the line, steer the terminal or turn the
/// direction of writing are shown as escapes.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || steers(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Separators of lines, marks of direction, and characters that take no place.
fn steers(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(letter, '\u{61c}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("BYTES", Align::Right)]);
        table.row(["a-long-name".to_owned(), "7".to_owned()]);
        table.row(["b".to_owned(), "1234567".to_owned()]);
        let expected = "NAME           BYTES\na-long-name        7\nb            1234567\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn what_a_peer_calls_itself_stays_in_its_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("STATE", Align::Left)]);
        table.row(["a\nb\u{1b}[2J\u{9b}\u{202e}".to_owned(), "open".to_owned()]);
        table.row(["Zoë".to_owned(), "open".to_owned()]);
        let shown = table.render();
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.contains(r"a\nb\u{1b}[2J\u{9b}\u{202e}  open"), "{shown}");
        assert!(shown.contains("Zoë "), "{shown}");
    }

    #[test]
    fn lines_have_no_trailing_blanks() {
        let mut table = Table::new(&[("NAME", Align::Left), ("STATE", Align::Left)]);
        table.row(["x".to_owned(), String::new()]);
        table.row(["y".to_owned()]);
        assert_eq!(table.render(), "NAME  STATE\nx\ny\n");
    }
}
