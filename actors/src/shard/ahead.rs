//! Looking ahead in a batch.
//!
//! A lookup costs several cache misses, each of which has to wait for the one before it: the slot of
//! the index, the record of the object, its key and its range, and the neighbours of the range in its
//! recency list. A batch lets those of different keys overlap. It goes in blocks of keys and brings
//! one thing after the other for all keys of a block: where the translation of an address is not
//! cached either, the processor overlaps only what stands close together.

use std::ops::Range;

use super::ledger::Ledger;
use super::message::KeyBatch;
use super::objects::ObjectHandle;
use crate::moment::Moment;

/// What a batch does with the places of its objects in their recency lists, in which their neighbours there
/// have a part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// It leaves them, or adds new ones.
    None,
    /// It leases the objects until then.
    Leased(Moment),
    /// It takes them out.
    Out,
}

/// Brings what the keys ahead in a batch need nearer to the processor.
///
/// What it finds is kept for the lookup itself, if the batch neither makes nor removes objects as it
/// goes. Otherwise it is a guess, and the lookup has to look for itself.
pub(super) struct LookAhead<'a> {
    batch: &'a KeyBatch,
    moves: Moves,
    /// The likely objects of the keys of this block and the next ones, by place modulo the length.
    likely: [Option<ObjectHandle>; KEPT],
}

impl<'a> LookAhead<'a> {
    /// Before the first key of a batch that does so with its objects.
    pub(super) fn new(batch: &'a KeyBatch, moves: Moves) -> LookAhead<'a> {
        LookAhead { batch, moves, likely: [None; KEPT] }
    }

    /// Goes on to a key, from the first one on and without leaving one out, and gives its likely
    /// object: `None` if no key of this hash had one.
    pub(super) fn advance(&mut self, ledger: &Ledger, index: usize) -> Option<ObjectHandle> {
        if index.is_multiple_of(BLOCK) {
            if index == 0 {
                ask_for_slots(ledger, self.batch, 0..3 * BLOCK);
            }
            ask_for_slots(ledger, self.batch, blocks_from(index, 3));
        }
        let batch = self.batch;
        self.advance_by(ledger, index, |at| ledger.probe(batch.keys[at].hash))
    }

    /// The same where something else than the index tells the likely objects, and asks for their records.
    pub(super) fn advance_by(
        &mut self,
        ledger: &Ledger,
        index: usize,
        ask_for_record: impl Fn(usize) -> Option<ObjectHandle>,
    ) -> Option<ObjectHandle> {
        if index.is_multiple_of(BLOCK) {
            if index == 0 {
                self.ask_for_records(0..2 * BLOCK, &ask_for_record);
                self.ask_for_objects(ledger, 0..BLOCK);
            }
            self.ask_for_records(blocks_from(index, 2), &ask_for_record);
            self.ask_for_objects(ledger, blocks_from(index, 1));
            self.ask_for_neighbours(ledger, blocks_from(index, 0));
        }
        self.likely[index % KEPT]
    }

    fn ask_for_neighbours(&self, ledger: &Ledger, range: Range<usize>) {
        if self.moves == Moves::None {
            return;
        }
        for at in within(self.batch, range) {
            match (self.likely[at % KEPT], self.moves) {
                (Some(object), Moves::Leased(until)) => ledger.prefetch_for_lease(object, until),
                (Some(object), _) => ledger.prefetch_neighbours(object),
                (None, _) => {}
            }
        }
    }

    fn ask_for_records(
        &mut self,
        range: Range<usize>,
        ask_for_record: impl Fn(usize) -> Option<ObjectHandle>,
    ) {
        for at in within(self.batch, range) {
            self.likely[at % KEPT] = ask_for_record(at);
        }
    }

    fn ask_for_objects(&self, ledger: &Ledger, range: Range<usize>) {
        for at in within(self.batch, range) {
            if let Some(object) = self.likely[at % KEPT] {
                ledger.prefetch_object(object);
            }
        }
    }
}

fn ask_for_slots(ledger: &Ledger, batch: &KeyBatch, range: Range<usize>) {
    for at in within(batch, range) {
        ledger.prefetch_slot(batch.keys[at].hash);
    }
}

/// The block that is so many ahead of the one that begins at a key.
fn blocks_from(index: usize, ahead: usize) -> Range<usize> {
    index + ahead * BLOCK..index + (ahead + 1) * BLOCK
}

fn within(batch: &KeyBatch, range: Range<usize>) -> Range<usize> {
    range.start.min(batch.len())..range.end.min(batch.len())
}

/// Keys in a block. The work on so many takes longer than a miss, and the loop over them fits what the
/// processor looks at at once.
const BLOCK: usize = 32;

/// Likely objects that are kept: of the block at hand and of the two blocks whose records were asked for.
const KEPT: usize = 4 * BLOCK;
