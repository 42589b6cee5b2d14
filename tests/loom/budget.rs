//! Bytes that connections take and give back at once.

use std::sync::Arc;

use loom::model;
use loom::thread::{self, JoinHandle};

use super::budget::{Budget, Charge, ConnectionBudget};
use crate::model_of_many;

/// The budgets that connections share.
#[derive(Clone)]
struct Shared {
    of_address: Arc<Budget>,
    of_all: Arc<Budget>,
}

impl Shared {
    fn new(address_limit: usize, all_limit: usize) -> Shared {
        Shared { of_address: Budget::new(address_limit), of_all: Budget::new(all_limit) }
    }

    /// A request of a connection of its own, of no bytes yet.
    fn open(&self) -> Charge {
        ConnectionBudget::new([self.of_address.clone(), self.of_all.clone()], ROOM).open()
    }

    /// A connection that asks for so many bytes; with what it has got, if it has got them.
    fn asks(&self, bytes: usize) -> JoinHandle<Option<Charge>> {
        let mut charge = self.open();
        thread::spawn(move || charge.try_add(bytes).then_some(charge))
    }

    /// Of the address, and of all.
    fn kept(&self) -> [usize; 2] {
        [self.of_address.kept_bytes(), self.of_all.kept_bytes()]
    }
}

#[test]
fn of_two_that_an_address_has_no_room_for_together_one_is_let_in() {
    model(|| {
        let shared = Shared::new(10, ROOM);
        let asked = [6, 7].map(|bytes| (bytes, shared.asks(bytes)));
        let got = asked.map(|(bytes, asked)| asked.join().unwrap().map(|charge| (bytes, charge)));
        let kept: Vec<usize> = got.iter().flatten().map(|(bytes, _)| *bytes).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(shared.kept(), [kept[0]; 2]);
        drop(got);
        assert_eq!(shared.kept(), [0; 2]);
    });
}

#[test]
fn of_three_that_find_no_room_together_two_are_let_in() {
    model_of_many(|| {
        let shared = Shared::new(ROOM, 10);
        let asked = [5, 5, 5].map(|bytes| shared.asks(bytes));
        let got = asked.map(|asked| asked.join().unwrap());
        assert_eq!(got.iter().flatten().count(), 2);
        assert_eq!(shared.kept(), [10; 2]);
        drop(got);
        assert_eq!(shared.kept(), [0; 2]);
    });
}

#[test]
fn whoever_is_refused_takes_nothing_from_one_for_whom_there_is_room() {
    model(|| {
        let shared = Shared::new(ROOM, 10);
        let (large, small) = (shared.asks(11), shared.asks(10));
        assert!(large.join().unwrap().is_none());
        let small = small.join().unwrap();
        assert!(small.is_some());
        assert_eq!(shared.kept(), [10; 2]);
    });
}

#[test]
fn parts_that_are_given_back_at_once_make_room_and_no_more_than_they_had() {
    model_of_many(|| {
        let shared = Shared::new(ROOM, 10);
        let mut whole = shared.open();
        assert!(whole.try_add(10));
        let part = whole.split_off(4);
        let asked = shared.asks(6);
        let gives_back = thread::spawn(move || drop(part));
        drop(whole);
        assert!(shared.of_all.kept_bytes() <= 10);
        gives_back.join().unwrap();
        let got = asked.join().unwrap();
        assert_eq!(shared.kept(), [if got.is_some() { 6 } else { 0 }; 2]);
        drop(got);
        assert_eq!(shared.kept(), [0; 2]);
        assert!(shared.open().try_add(10));
    });
}

#[test]
fn what_has_to_be_told_is_counted_beside_those_who_ask() {
    model(|| {
        let shared = Shared::new(ROOM, 10);
        let asked = shared.asks(6);
        let mut told = shared.open();
        told.add(20);
        assert!(shared.of_all.kept_bytes() >= 20);
        assert!(!shared.open().try_add(1));
        let got = asked.join().unwrap();
        assert_eq!(shared.kept(), [if got.is_some() { 26 } else { 20 }; 2]);
        drop((got, told));
        assert_eq!(shared.kept(), [0; 2]);
    });
}

/// More than all ask for together.
const ROOM: usize = 1_000;
