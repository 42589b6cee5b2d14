//! What is logged, read from its directives, as `warn,mooring=debug`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The filter of directives that somebody wrote for this program.
///
/// # Errors
/// What cannot be understood, in words.
pub(super) fn strict(directives: &str) -> Result<EnvFilter, String> {
    check(directives)?;
    lenient(directives)
}

/// The filter of directives that may be for other programs as well: a word that is no level is taken for
/// a part of one.
///
/// # Errors
/// What cannot be understood, in words.
pub(super) fn lenient(directives: &str) -> Result<EnvFilter, String> {
    // Values of fields are compared as they stand. As patterns they would be made into tables, for which
    // a dozen letters can ask for gigabytes.
    let filter = EnvFilter::builder().with_regex(false);
    filter.parse(directives).map_err(|error| error.to_string())
}

/// A word alone would be taken for a part of the program, and a mistyped level for one that logs
/// nothing.
fn check(directives: &str) -> Result<(), String> {
    let wrong = |directive: &&str| {
        !directive.contains(['=', '[', ']', '}']) && directive.parse::<LevelFilter>().is_err()
    };
    match directives.split(',').find(|part| part.is_empty() || wrong(part)) {
        None => Ok(()),
        Some(part) => Err(format!(
            "`{part}` is neither a level (off, error, warn, info, debug or trace) nor a directive as \
             mooring=debug"
        )),
    }
}
