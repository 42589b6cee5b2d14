//! Requests that are taken on while a drain begins.

use std::sync::Arc;

use loom::future::block_on;
use loom::model;
use loom::thread::{self, JoinHandle};

use super::stage::Stage;
use super::sync::{AtomicUsize, Ordering};
use crate::model_of_many;

#[derive(Default)]
struct Process {
    stage: Stage,
    /// Relaxed everywhere: whoever has to see an answer sees it by the stage, or not at all.
    answered: AtomicUsize,
}

/// Threads that ask for one thing each and say how many of it were taken on.
fn askers<const N: usize>(process: &Arc<Process>) -> [JoinHandle<usize>; N] {
    [(); N].map(|()| {
        let process = process.clone();
        thread::spawn(move || {
            let Some(_admitted) = process.stage.admit() else { return 0 };
            process.answered.fetch_add(1, Ordering::Relaxed);
            1
        })
    })
}

fn taken_on<const N: usize>(askers: [JoinHandle<usize>; N]) -> usize {
    askers.map(|asker| asker.join().unwrap()).iter().sum()
}

/// A drain from its begin to its end, beside so many.
fn drain<const N: usize>() {
    let process = Arc::new(Process::default());
    let askers = askers::<N>(&process);
    process.stage.begin_drain();
    block_on(process.stage.idle());
    let answered = process.answered.load(Ordering::Relaxed);
    assert_eq!(answered, taken_on(askers));
    assert_eq!(process.stage.in_flight(), 0);
    assert!(process.stage.admit().is_none());
}

#[test]
fn a_drain_ends_when_whoever_was_taken_on_is_answered() {
    model(drain::<1>);
    model_of_many(drain::<2>);
}

#[test]
fn whoever_is_taken_on_is_answered_or_counted_when_a_drain_looks() {
    model(|| {
        let process = Arc::new(Process::default());
        let askers = askers::<2>(&process);
        process.stage.begin_drain();
        let in_flight = process.stage.in_flight();
        let answered = process.answered.load(Ordering::Relaxed);
        assert!(taken_on(askers) <= in_flight + answered);
    });
}

#[test]
fn two_who_wait_for_the_last_answer_are_both_woken() {
    model_of_many(|| {
        let process = Arc::new(Process::default());
        let askers = askers::<1>(&process);
        let other = {
            let process = process.clone();
            thread::spawn(move || block_on(process.stage.idle()))
        };
        block_on(process.stage.idle());
        other.join().unwrap();
        assert_eq!(taken_on(askers), 1, "there is no drain");
    });
}
