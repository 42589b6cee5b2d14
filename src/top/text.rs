//! Figures as short as they can be read.

use ratatui::text::Span;

use crate::command::table::printable;

/// A number of things or a rate, to three digits.
pub(super) fn count(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{}{name}", digits(number / unit)),
        None if number > 0.0 && number < 9.95 && number.fract() > 0.0 => format!("{number:.1}"),
        None => format!("{number:.0}"),
    }
}

/// A size, to three digits.
pub(super) fn bytes(number: u64) -> String {
    let number = number as f64;
    let units = ["K", "M", "G", "T", "P"];
    let mut unit = None;
    let mut scaled = number;
    for name in units {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1024.0;
        unit = Some(name);
    }
    match unit {
        Some(name) => format!("{}{name}", digits(scaled)),
        None => format!("{number:.0}B"),
    }
}

/// How long a request takes.
pub(super) fn latency(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{}us", digits(us)),
        us if us < 1e6 => format!("{}ms", digits(us / 1e3)),
        us => format!("{}s", digits(us / 1e6)),
    }
}

/// How long something goes on.
pub(super) fn age(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..10 => format!("{seconds:.1}s"),
        10..60 => format!("{whole}s"),
        60..3_600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// A part of a whole.
pub(super) fn percent(ratio: f64) -> String {
    // A miss in ten thousand must not read as none.
    match ratio * 100.0 {
        percent if percent > 99.9 && percent < 100.0 => "99.9%".to_owned(),
        percent if percent >= 99.95 => "100%".to_owned(),
        percent => format!("{percent:.1}%"),
    }
}

fn digits(number: f64) -> String {
    match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

/// How full something is: objects, then what is held.
pub(super) fn bar(used: f64, held: f64, width: usize) -> String {
    let inner = width.saturating_sub(2);
    let cells = |ratio: f64| (ratio.clamp(0.0, 1.0) * inner as f64).round() as usize;
    let all = cells(used + held);
    let objects = cells(used).min(all);
    let (objects, held, free) = ("|".repeat(objects), "+".repeat(all - objects), inner - all);
    format!("[{objects}{held}{}]", " ".repeat(free))
}

/// How many columns of a terminal a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text of a peer, which steers no terminal, cut to so many columns; what is cut ends in a tilde.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let text = printable(text);
    if width(&text) <= columns {
        return text;
    }
    let mut cut = String::new();
    let mut taken = 0;
    for letter in text.chars() {
        let wide = width(letter.encode_utf8(&mut [0; 4]));
        if taken + wide + 1 > columns {
            break;
        }
        cut.push(letter);
        taken += wide;
    }
    if columns > 0 {
        cut.push('~');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let counts = [0.0, 0.25, 7.0, 999.0, 1_000.0, 12_345.0, 999_499.0, 2e6, 3e9];
        let shown = counts.map(count);
        assert_eq!(shown, ["0", "0.2", "7", "999", "1.00k", "12.3k", "999k", "2.00M", "3.00G"]);
        let sizes = [0, 999, 1_000, 1 << 20, 675 << 30].map(bytes);
        assert_eq!(sizes, ["0B", "999B", "0.98K", "1.00M", "675G"]);
        assert_eq!(
            [8.0, 850.0, 1_500.0, 2.5e6].map(latency),
            ["8.00us", "850us", "1.50ms", "2.50s"]
        );
        assert_eq!(
            [0.5, 59.0, 61.0, 7_260.0, 90_000.0].map(age),
            ["0.5s", "59s", "1m01s", "2h01m", "1d01h"]
        );
    }

    #[test]
    fn a_single_miss_does_not_read_as_none() {
        assert_eq!([1.0, 0.999_99, 0.5, 0.0].map(percent), ["100%", "99.9%", "50.0%", "0.0%"]);
    }

    #[test]
    fn a_bar_is_as_wide_as_asked_whatever_it_shows() {
        for (used, held) in [(0.0, 0.0), (0.5, 0.2), (0.9, 0.4), (7.0, 0.0), (f64::NAN, 0.0)] {
            assert_eq!(bar(used, held, 12).len(), 12, "{used} {held}");
        }
        assert_eq!(bar(0.5, 0.2, 12), "[|||||++   ]");
        assert_eq!(bar(0.5, 0.0, 1), "[]");
    }

    #[test]
    fn a_text_is_cut_to_its_columns_and_steers_nothing() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long~");
        assert_eq!(fit("a\u{1b}[2J", 20), r"a\u{1b}[2J");
        assert_eq!(fit("日本語", 5), "日本~");
        assert_eq!(fit("x", 0), "");
    }
}
