//! Progress on a terminal, and silence elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether a person watches the standard error output.
pub(crate) fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Turns while an object is under way; shown only when someone watches and there is something to
/// wait for.
pub(crate) fn transfer_spinner(bytes: u64, label: &'static str) -> ProgressBar {
    if bytes <= SHOWN_ABOVE_BYTES || !watched() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    spinner.set_message(label);
    spinner.enable_steady_tick(TICK);
    spinner
}

/// A bar that counts things; shown only when someone watches.
pub(crate) fn count_bar(total: u64, label: &'static str) -> ProgressBar {
    if !watched() {
        return ProgressBar::hidden();
    }
    styled(total, label, "{msg} {bar:32} {human_pos}/{human_len} {per_sec} {eta}")
}

/// A line that says how it goes; shown only when someone watches.
pub(crate) fn status_line() -> ProgressBar {
    if !watched() {
        return ProgressBar::hidden();
    }
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    line.set_style(
        ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    line
}

fn styled(total: u64, label: &'static str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style);
    bar.set_message(label);
    bar.enable_steady_tick(TICK);
    bar
}

/// Below this a transfer is over before anybody has read the bar.
const SHOWN_ABOVE_BYTES: u64 = 64 << 20;

const TICK: Duration = Duration::from_millis(200);
