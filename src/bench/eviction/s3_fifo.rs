//! S3-FIFO: a short queue of what is new, a long one of what was used in it, and what was used
//! meanwhile goes round (Yang and others, 2023).

use std::collections::HashMap;

use mooring_actors::Moment;

use super::lists::Lists;
use super::policy::Policy;

pub(super) struct S3Fifo {
    room: usize,
    lists: Lists<3>,
    /// How often a block was used since it came into its queue, up to three.
    uses: HashMap<u64, u8>,
}

impl S3Fifo {
    pub(super) fn new(blocks: u64) -> S3Fifo {
        S3Fifo { room: blocks as usize, lists: Lists::new(), uses: HashMap::new() }
    }

    fn make_room(&mut self) {
        while self.lists.len(NEW) + self.lists.len(MAIN) >= self.room {
            let new_goes =
                self.lists.len(NEW) >= (self.room / 10).max(1) || self.lists.len(MAIN) == 0;
            let from = if new_goes { NEW } else { MAIN };
            let Some(oldest) = self.lists.oldest(from) else { return };
            let uses = self.uses.remove(&oldest).unwrap_or(0);
            match (from, uses) {
                (NEW, 0) => self.lists.push(GONE, oldest),
                (NEW, _) => self.lists.push(MAIN, oldest),
                (_, 0) => self.lists.remove(oldest),
                (_, uses) => {
                    self.uses.insert(oldest, uses - 1);
                    self.lists.push(MAIN, oldest);
                }
            }
            if self.lists.len(GONE) > self.room
                && let Some(forgotten) = self.lists.oldest(GONE)
            {
                self.lists.remove(forgotten);
            }
        }
    }
}

impl Policy for S3Fifo {
    fn note_use(&mut self, _now: Moment, block: u64) -> bool {
        match self.lists.place(block) {
            Some(NEW | MAIN) => {
                let uses = self.uses.entry(block).or_insert(0);
                *uses = (*uses + 1).min(3);
                true
            }
            gone => {
                self.make_room();
                self.lists.push(if gone.is_some() { MAIN } else { NEW }, block);
                false
            }
        }
    }
}

const NEW: usize = 0;
const MAIN: usize = 1;
const GONE: usize = 2;
