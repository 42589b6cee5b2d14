//! 2Q: what is new is in a short queue, and only what is wanted again after it has left it comes into
//! a list in order of use (Johnson and Shasha, 1994).

use mooring_actors::Moment;

use super::lists::Lists;
use super::policy::Policy;

pub(super) struct TwoQueues {
    room: usize,
    lists: Lists<3>,
}

impl TwoQueues {
    pub(super) fn new(blocks: u64) -> TwoQueues {
        TwoQueues { room: blocks as usize, lists: Lists::new() }
    }

    fn make_room(&mut self) {
        let (new, used) = (self.lists.len(NEW), self.lists.len(USED));
        if new + used < self.room {
            return;
        }
        if new > self.room / 4 || used == 0 {
            if let Some(victim) = self.lists.oldest(NEW) {
                self.lists.push(GONE, victim);
            }
            // The paper remembers half as many as there are.
            if self.lists.len(GONE) > self.room / 2
                && let Some(forgotten) = self.lists.oldest(GONE)
            {
                self.lists.remove(forgotten);
            }
        } else if let Some(victim) = self.lists.oldest(USED) {
            self.lists.remove(victim);
        }
    }
}

impl Policy for TwoQueues {
    fn note_use(&mut self, _now: Moment, block: u64) -> bool {
        match self.lists.place(block) {
            Some(NEW) => true,
            Some(USED) => {
                self.lists.push(USED, block);
                true
            }
            gone => {
                self.make_room();
                self.lists.push(if gone.is_some() { USED } else { NEW }, block);
                false
            }
        }
    }
}

const NEW: usize = 0;
const USED: usize = 1;
const GONE: usize = 2;
