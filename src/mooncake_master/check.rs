//! What `--check_flags` prints.

use std::fmt::{Display, Write as _};

use super::map::Plan;

/// What becomes of each setting, and the same start with the flags of `mooring master`.
pub(super) fn report(plan: &Plan) -> String {
    let mut text = String::new();
    part(&mut text, "works", plan.works.iter().map(|setting| format!("--{setting}")));
    let told = plan.ineffective.iter().map(|it| format!("--{}: {}", it.name, it.why));
    part(&mut text, "no effect", told);
    part(&mut text, "refused", plan.refused.iter());
    if plan.refused.is_empty() {
        part(&mut text, "the same start", [format!("mooring master {}", plan.flags.join(" "))]);
    }
    text
}

/// One that is empty is left out.
fn part(text: &mut String, title: &str, lines: impl IntoIterator<Item = impl Display>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "{title}:");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::Ineffective;
    use super::*;

    #[test]
    fn each_setting_stands_below_what_becomes_of_it() {
        let mut plan = Plan {
            flags: vec!["--client-ttl=7s".to_owned(), "--dev".to_owned()],
            works: vec!["client_ttl=7".to_owned()],
            ineffective: vec![Ineffective { name: "v".to_owned(), why: "because" }],
            refused: Vec::new(),
        };
        let works = "works:\n  --client_ttl=7\nno effect:\n  --v: because\n";
        let same = "the same start:\n  mooring master --client-ttl=7s --dev\n";
        assert_eq!(report(&plan), format!("{works}{same}"));
        plan.refused.push("--enable_ha=true is not supported".to_owned());
        assert_eq!(
            report(&plan),
            format!("{works}refused:\n  --enable_ha=true is not supported\n")
        );
    }
}
