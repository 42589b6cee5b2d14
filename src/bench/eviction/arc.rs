//! ARC: two lists, of what was used once and of what was used again, whose share of the room follows
//! what each would have needed (Megiddo and Modha, 2003).

use mooring_actors::Moment;

use super::lists::Lists;
use super::policy::Policy;

pub(super) struct Arc {
    room: usize,
    /// How much of the room is for what was used once.
    once_target: usize,
    lists: Lists<{ LISTS }>,
}

impl Arc {
    pub(super) fn new(blocks: u64) -> Arc {
        Arc { room: blocks as usize, once_target: 0, lists: Lists::new() }
    }

    fn make_room(&mut self, wanted_again: bool) {
        let once = self.lists.len(ONCE);
        if once + self.lists.len(AGAIN) < self.room {
            return;
        }
        let once_is_over =
            once > self.once_target || wanted_again && once == self.once_target && once > 0;
        let (from, to) = if once_is_over || self.lists.len(AGAIN) == 0 {
            (ONCE, GONE_ONCE)
        } else {
            (AGAIN, GONE_AGAIN)
        };
        if let Some(victim) = self.lists.oldest(from) {
            self.lists.push(to, victim);
        }
    }

    fn drop_oldest(&mut self, list: usize) {
        if let Some(oldest) = self.lists.oldest(list) {
            self.lists.remove(oldest);
        }
    }
}

impl Policy for Arc {
    fn note_use(&mut self, _now: Moment, block: u64) -> bool {
        let lists = &self.lists;
        let (gone_once, gone_again) = (lists.len(GONE_ONCE), lists.len(GONE_AGAIN));
        match lists.place(block) {
            Some(ONCE | AGAIN) => {
                self.lists.push(AGAIN, block);
                return true;
            }
            Some(GONE_ONCE) => {
                let step = (gone_again / gone_once.max(1)).max(1);
                self.once_target = (self.once_target + step).min(self.room);
                self.make_room(false);
                self.lists.push(AGAIN, block);
            }
            Some(_) => {
                let step = (gone_once / gone_again.max(1)).max(1);
                self.once_target = self.once_target.saturating_sub(step);
                self.make_room(true);
                self.lists.push(AGAIN, block);
            }
            None => {
                let once = lists.len(ONCE);
                if once + gone_once >= self.room {
                    if once < self.room {
                        self.drop_oldest(GONE_ONCE);
                        self.make_room(false);
                    } else {
                        self.drop_oldest(ONCE);
                    }
                } else {
                    if once + lists.len(AGAIN) + gone_once + gone_again >= 2 * self.room {
                        self.drop_oldest(GONE_AGAIN);
                    }
                    self.make_room(false);
                }
                self.lists.push(ONCE, block);
            }
        }
        false
    }
}

const ONCE: usize = 0;
const AGAIN: usize = 1;
const GONE_ONCE: usize = 2;
const GONE_AGAIN: usize = 3;
const LISTS: usize = 4;
