use mooring_proto::Incarnation;

use super::*;
use crate::handoff::error::ReadError;
use crate::handoff::notes::{PoisonNote, RefusedNote, ShutdownNote};
use crate::handoff::tests::sample::{self, CREATED_MS, WRITER};

const LIMITS: Limits = Limits { max_age_ms: 120_000, memory: None };

/// A master that came after the writer.
const NEXT: Incarnation = Incarnation(2);

fn ready() -> SnapshotFound {
    SnapshotFound { bytes: 1, format: Some(1), manifest: Ok(sample::manifest()) }
}

fn unreadable(error: ReadError) -> SnapshotFound {
    SnapshotFound { bytes: 1, format: None, manifest: Err(error) }
}

fn serving(incarnation: Incarnation) -> Option<Note<ServingNote>> {
    Some(Note::Sound(ServingNote {
        incarnation,
        pid: 1,
        since_wall_ms: 0,
        start: "none".to_owned(),
        last_shutdown: None,
    }))
}

fn left(incarnation: Incarnation, result: ShutdownResult) -> Option<Note<ShutdownNote>> {
    Some(Note::Sound(sample::left(incarnation, result)))
}

fn unsound<T>() -> Option<Note<T>> {
    Some(Note::Unsound("half a note".to_owned()))
}

/// What the writer leaves when all goes well.
fn handed_over() -> Found {
    Found {
        ready: Some(ready()),
        last_shutdown: left(WRITER, ShutdownResult::Ok),
        ..Found::default()
    }
}

/// What is found, and the reason why it is not restored.
fn table() -> Vec<(&'static str, Found, Option<Reason>)> {
    let failed = ShutdownResult::Failed;
    let poison = Note::Sound(PoisonNote { incarnation: NEXT, found: String::new() });
    let io = ReadError::Io { name: "manifest".to_owned(), source_text: "denied".to_owned() };
    let version = ReadError::Format { name: "manifest".to_owned(), found: 2 };
    let corrupt = ReadError::corrupt("manifest", "is damaged");
    let with_ready = |ready| Found { ready: Some(ready), ..handed_over() };
    let without_ready = |last_shutdown| Found { last_shutdown, ..Found::default() };
    let claimed = |serving| Found { claimed: Some(ready()), serving, ..Found::default() };
    vec![
        ("a first start", Found::default(), Some(Reason::None)),
        ("a snapshot", handed_over(), None),
        (
            "a snapshot whose writer was killed before it could say so",
            Found {
                serving: serving(WRITER),
                last_shutdown: left(WRITER, failed(Reason::Interrupted)),
                ..handed_over()
            },
            None,
        ),
        ("poison", Found { poison: Some(poison), ..handed_over() }, Some(Reason::Poisoned)),
        ("odd poison", Found { poison: unsound(), ..handed_over() }, Some(Reason::Poisoned)),
        (
            "a claim and a snapshot",
            Found { claimed: Some(ready()), ..handed_over() },
            Some(Reason::AbortedPrevious),
        ),
        ("a claim", claimed(None), Some(Reason::AbortedPrevious)),
        (
            "a claim of a snapshot whose writer was killed after it",
            claimed(serving(WRITER)),
            Some(Reason::AbortedPrevious),
        ),
        (
            "a claim of a start that had said that it serves, and did not yet",
            claimed(serving(NEXT)),
            Some(Reason::AbortedPrevious),
        ),
        (
            "one that had voided its claim too, and not how the master before had left",
            Found {
                serving: serving(NEXT),
                last_shutdown: left(WRITER, ShutdownResult::Ok),
                ..Found::default()
            },
            Some(Reason::AbortedPrevious),
        ),
        ("a claim with an odd note", claimed(unsound()), Some(Reason::AbortedPrevious)),
        (
            "a damaged claim",
            Found {
                claimed: Some(unreadable(corrupt.clone())),
                serving: serving(NEXT),
                ..Found::default()
            },
            Some(Reason::AbortedPrevious),
        ),
        ("a snapshot that is denied", with_ready(unreadable(io)), Some(Reason::Unreadable)),
        ("another format", with_ready(unreadable(version)), Some(Reason::Version)),
        ("a damaged snapshot", with_ready(unreadable(corrupt)), Some(Reason::Corrupt)),
        (
            "a snapshot of another master than left",
            Found { last_shutdown: left(NEXT, ShutdownResult::Ok), ..handed_over() },
            Some(Reason::Poisoned),
        ),
        (
            "a snapshot of another master than serves",
            Found { serving: serving(NEXT), ..handed_over() },
            Some(Reason::Poisoned),
        ),
        (
            "a snapshot that nobody left",
            Found { last_shutdown: None, ..handed_over() },
            Some(Reason::Poisoned),
        ),
        (
            "a snapshot with an odd note",
            Found { last_shutdown: unsound(), ..handed_over() },
            Some(Reason::Corrupt),
        ),
        (
            "no snapshot although one was left",
            without_ready(left(WRITER, ShutdownResult::Ok)),
            Some(Reason::Missing),
        ),
        (
            "no snapshot for a reason",
            without_ready(left(WRITER, failed(Reason::SkippedRestoreMemory))),
            Some(Reason::SkippedRestoreMemory),
        ),
        ("no snapshot and an odd note", without_ready(unsound()), Some(Reason::Corrupt)),
        ("a crash", Found { serving: serving(WRITER), ..Found::default() }, Some(Reason::Killed)),
        (
            "a crash after another master had left",
            Found {
                serving: serving(NEXT),
                last_shutdown: left(WRITER, failed(Reason::Deadline)),
                ..Found::default()
            },
            Some(Reason::Killed),
        ),
        (
            "killed while it wrote",
            Found {
                serving: serving(WRITER),
                last_shutdown: left(WRITER, failed(Reason::Interrupted)),
                ..Found::default()
            },
            Some(Reason::Interrupted),
        ),
        (
            "leftovers",
            Found { leftovers: vec!["WRITING-1-2".to_owned()], ..Found::default() },
            Some(Reason::None),
        ),
    ]
}

#[test]
fn a_start_does_what_the_table_says() {
    for (name, found, reason) in table() {
        for policy in [FailurePolicy::ServeEmpty, FailurePolicy::Refuse] {
            let decision = decide(&found, policy, &LIMITS, CREATED_MS + 5_000);
            let would = match reason {
                None => "restore",
                Some(reason) if policy == FailurePolicy::Refuse && reason.was_expected() => {
                    "refuse"
                }
                Some(_) => "serve_empty",
            };
            assert_eq!(decision.name(), would, "{name}: {decision:?}");
            assert_eq!(decision.cause().map(|cause| cause.reason), reason, "{name}");
        }
    }
}

#[test]
fn a_recorded_refusal_comes_before_everything() {
    let note = RefusedNote { reason: Reason::Memory, detail: "why".to_owned(), at_wall_ms: 1 };
    for (name, mut found, _) in table() {
        found.refused = Some(Note::Sound(note.clone()));
        for policy in [FailurePolicy::ServeEmpty, FailurePolicy::Refuse] {
            let decision = decide(&found, policy, &LIMITS, CREATED_MS);
            assert_eq!(decision, Decision::Refuse(note.cause()), "{name}");
        }
    }
}

#[test]
fn the_age_has_both_of_its_bounds() {
    let reason = |now_wall_ms| {
        let decision = decide(&handed_over(), FailurePolicy::Refuse, &LIMITS, now_wall_ms);
        decision.cause().map(|cause| cause.reason)
    };
    assert_eq!(reason(CREATED_MS + 120_000), None);
    assert_eq!(reason(CREATED_MS + 120_001), Some(Reason::Stale));
    assert_eq!(reason(CREATED_MS - 1_000), None);
    assert_eq!(reason(CREATED_MS - 1_001), Some(Reason::Clock));
    assert_eq!(reason(0), Some(Reason::Clock));
    assert_eq!(reason(u64::MAX), Some(Reason::Stale));
}

#[test]
fn a_snapshot_must_fit_the_memory() {
    let decide_with = |available_bytes| {
        let memory = Some(Admission { available_bytes, margin_percent: 15 });
        let limits = Limits { memory, ..LIMITS };
        decide(&handed_over(), FailurePolicy::Refuse, &limits, CREATED_MS)
    };
    assert_eq!(decide_with(1 << 30), Decision::Restore);
    let decision = decide_with(1 << 20);
    assert_eq!(decision.cause().map(|cause| cause.reason), Some(Reason::Memory));
}

#[test]
fn a_policy_has_two_spellings() {
    for (text, policy) in [
        ("serve_empty", FailurePolicy::ServeEmpty),
        ("serve-empty", FailurePolicy::ServeEmpty),
        ("refuse", FailurePolicy::Refuse),
    ] {
        assert_eq!(text.parse(), Ok(policy));
    }
    assert!("retry".parse::<FailurePolicy>().unwrap_err().contains("serve_empty"));
    assert_eq!(FailurePolicy::default().to_string(), "serve_empty");
}
