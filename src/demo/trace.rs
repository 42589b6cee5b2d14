//! Traces of an inference service: which chains of KV-cache blocks its requests need.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::command::CommandError;

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceRequest {
    /// When it came, in milliseconds since the start of the trace.
    pub(crate) timestamp: u64,
    /// Tokens of the prompt.
    #[serde(default)]
    pub(crate) input_length: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub(crate) output_length: u64,
    /// The blocks of the prompt, in their order. Equal ids are equal blocks behind equal blocks.
    pub(crate) hash_ids: Vec<u64>,
}

/// Reads a trace of JSON lines, at most so many requests.
///
/// # Errors
/// `Arguments` naming file and line.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<TraceRequest>, CommandError> {
    let unreadable =
        |error: io::Error| CommandError::Arguments(format!("{}: {error}", path.display()));
    let file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut requests = Vec::new();
    for (index, line) in file.lines().enumerate() {
        if requests.len() >= limit {
            break;
        }
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let request = serde_json::from_str(&line).map_err(|error| {
            CommandError::Arguments(format!("{}: line {}: {error}", path.display(), index + 1))
        })?;
        requests.push(request);
    }
    Ok(requests)
}

/// Writes a trace as JSON lines.
///
/// # Errors
/// `Failed` naming the file.
pub(crate) fn write(path: &Path, requests: &[TraceRequest]) -> Result<(), CommandError> {
    let write_all = || {
        let mut file = BufWriter::new(File::create(path)?);
        for request in requests {
            serde_json::to_writer(&mut file, request)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write_all().map_err(|error| CommandError::failed(path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.jsonl");
        let requests: Vec<_> = (0..3)
            .map(|index| TraceRequest {
                timestamp: index,
                input_length: 1024,
                output_length: 7,
                hash_ids: vec![0, index],
            })
            .collect();
        write(&path, &requests).unwrap();
        assert_eq!(read(&path, usize::MAX).unwrap(), requests);
        assert_eq!(read(&path, 2).unwrap(), requests[..2]);
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.jsonl");
        std::fs::write(&path, "{\"timestamp\":0,\"hash_ids\":[1]}\n\n{\"timestamp\":1}\n").unwrap();
        let error = read(&path, usize::MAX).unwrap_err();
        assert!(error.to_string().contains("line 3"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
