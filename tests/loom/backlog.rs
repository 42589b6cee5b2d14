//! Ages of requests that are sent while someone looks.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::backlog::Backlog;
use crate::model_of_many;
use crate::moment::Moment;

fn at(ms: u64) -> Moment {
    Moment::from_ms(ms)
}

/// A backlog of two places, both of which were used long ago.
fn used() -> Arc<Backlog> {
    let backlog = Backlog::new(1);
    for ms in [1, 2] {
        backlog.note_sent(at(ms));
        backlog.note_taken();
    }
    Arc::new(backlog)
}

fn sends(backlog: &Arc<Backlog>, is_refused: bool) -> JoinHandle<()> {
    let backlog = backlog.clone();
    thread::spawn(move || {
        backlog.note_sent(at(1_000));
        if is_refused {
            backlog.note_refused();
        }
    })
}

#[test]
fn nobody_sees_the_age_of_a_request_that_was_taken_long_ago() {
    model_of_many(|| {
        let backlog = used();
        let (one, other) = (sends(&backlog, false), sends(&backlog, false));
        assert_eq!(backlog.oldest_ms(at(1_000)), 0);
        one.join().unwrap();
        backlog.note_taken();
        assert_eq!(backlog.oldest_ms(at(1_000)), 0);
        other.join().unwrap();
        assert_eq!(backlog.oldest_ms(at(1_500)), 500);
        backlog.note_taken();
        assert_eq!(backlog.oldest_ms(at(1_500)), 0);
    });
}

#[test]
fn one_who_is_refused_beside_another_leaves_one_who_waits() {
    model_of_many(|| {
        let backlog = used();
        let (refused, sent) = (sends(&backlog, true), sends(&backlog, false));
        assert_eq!(backlog.oldest_ms(at(1_000)), 0);
        refused.join().unwrap();
        sent.join().unwrap();
        assert_eq!(backlog.oldest_ms(at(1_500)), 500);
        backlog.note_taken();
        assert_eq!((backlog.oldest_ms(at(1_500)), backlog.refused()), (0, 1));
    });
}
