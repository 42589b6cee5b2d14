//! Many small objects in a text file: batches of its lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::CommandError;

/// Reads a file, or the standard input for `-`, as batches of lines.
pub(super) struct Batches {
    input: Box<dyn BufRead>,
    name: String,
}

impl Batches {
    /// Opens the file.
    ///
    /// # Errors
    /// `Failed` naming the file.
    pub(super) fn open(path: &Path) -> Result<Batches, CommandError> {
        if path.as_os_str() == "-" {
            let input = Box::new(BufReader::new(io::stdin()));
            return Ok(Batches { input, name: "standard input".to_owned() });
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| CommandError::failed(&name, error))?;
        Ok(Batches { input: Box::new(BufReader::with_capacity(READ_BYTES, file)), name })
    }

    /// The next lines without their ends, as many as make a good request; none at the end. Empty
    /// lines are skipped.
    ///
    /// # Errors
    /// `Failed` naming the file.
    pub(super) fn next(&mut self) -> Result<Vec<Vec<u8>>, CommandError> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while lines.len() < BATCH_LINES && bytes < BATCH_BYTES {
            let mut line = Vec::new();
            let read = self.input.read_until(b'\n', &mut line);
            if read.map_err(|error| CommandError::failed(&self.name, error))? == 0 {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if !line.is_empty() {
                bytes += line.len();
                lines.push(line);
            }
        }
        Ok(lines)
    }
}

/// The key and the value of a line.
pub(super) fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    Some((&line[..tab], &line[tab + 1..]))
}

/// Enough that the round trips do not count.
const BATCH_LINES: usize = 2_048;

/// Bounds what is in memory when the lines are long.
const BATCH_BYTES: usize = 16 << 20;

const READ_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: &str) -> Vec<Vec<Vec<u8>>> {
        let input = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let mut batches = Batches { input, name: "test".to_owned() };
        let mut found = Vec::new();
        loop {
            match batches.next().unwrap() {
                lines if lines.is_empty() => return found,
                lines => found.push(lines),
            }
        }
    }

    #[test]
    fn lines_come_without_their_ends_and_empty_ones_not_at_all() {
        let expected = vec![vec![b"a\t1".to_vec(), b"b".to_vec(), b"c".to_vec()]];
        assert_eq!(batches("a\t1\n\nb\nc"), expected);
        assert!(batches("").is_empty());
    }

    #[test]
    fn a_batch_has_a_bounded_number_of_lines_and_bytes() {
        let found = batches(&"x\n".repeat(BATCH_LINES + 1));
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [BATCH_LINES, 1]);
        let long = format!("{}\n", "x".repeat(BATCH_BYTES / 2));
        let found = batches(&long.repeat(3));
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn the_first_tab_separates_key_and_value() {
        assert_eq!(split(b"key\tva\tlue"), Some((&b"key"[..], &b"va\tlue"[..])));
        assert_eq!(split(b"key\t"), Some((&b"key"[..], &b""[..])));
        assert_eq!(split(b"key"), None);
    }
}
