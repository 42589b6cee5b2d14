//! What was found, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use super::policy::{Figures, PolicyName, distinct};
use crate::command::CommandError;
use crate::demo::trace::TraceRequest;

/// A table of hit rates in per cent: a policy a row, a size a column.
pub(super) fn table(
    trace: &str,
    requests: &[TraceRequest],
    sizes: &[u64],
    rows: &[(PolicyName, Vec<Figures>)],
) -> String {
    let references: usize = requests.iter().map(|request| request.hash_ids.len()).sum();
    let mut text = format!(
        "### {trace}\n\n{} requests, {references} references to {} blocks\n\n| policy |",
        requests.len(),
        distinct(requests)
    );
    for blocks in sizes {
        let _ = write!(text, " {blocks} |");
    }
    text.push_str("\n| --- |");
    text.push_str(&" ---: |".repeat(sizes.len()));
    text.push('\n');
    for (policy, figures) in rows {
        let _ = write!(text, "| {} |", policy.name());
        for one in figures {
            let _ = write!(text, " {:.2} |", 100.0 * one.hit_rate());
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Line<'a> {
    trace: &'a str,
    policy: String,
    blocks: u64,
    hit_rate: f64,
    prefix_hit_rate: f64,
    #[serde(flatten)]
    figures: Figures,
}

/// One JSON object a line.
///
/// # Errors
/// None in practice: what is printed has no part that JSON cannot express.
pub(super) fn json_lines(
    trace: &str,
    sizes: &[u64],
    rows: &[(PolicyName, Vec<Figures>)],
) -> Result<String, CommandError> {
    let mut text = String::new();
    for (policy, figures) in rows {
        for (blocks, figures) in sizes.iter().zip(figures) {
            let line = Line {
                trace,
                policy: policy.name(),
                blocks: *blocks,
                hit_rate: figures.hit_rate(),
                prefix_hit_rate: figures.prefix_hit_rate(),
                figures: *figures,
            };
            let line = serde_json::to_string(&line);
            text += &line.map_err(|error| CommandError::failed("cannot print", error))?;
            text.push('\n');
        }
    }
    Ok(text)
}
