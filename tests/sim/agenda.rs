//! What is to happen, in the order of its moments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::Event;

/// Events with their moments. Events are large, so what is put in order is where they are kept.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Due>>,
    events: Vec<Option<Event>>,
    vacant: Vec<usize>,
}

/// The moment in milliseconds, a number that was drawn for the order within it, one that no other event
/// has, and the place of the event.
type Due = (u64, u32, u64, usize);

impl Agenda {
    /// Events of one moment come in the order of the numbers that were drawn.
    pub(crate) fn insert(&mut self, due_ms: u64, drawn: u32, number: u64, event: Event) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.heap.push(Reverse((due_ms, drawn, number, place)));
    }

    /// Takes the next event, if it is due before a moment, and says when it is.
    pub(crate) fn pop_before(&mut self, until_ms: u64) -> Option<(u64, Event)> {
        let Reverse((due_ms, _, _, place)) = *self.heap.peek()?;
        if due_ms >= until_ms {
            return None;
        }
        self.heap.pop();
        self.vacant.push(place);
        Some((due_ms, self.events[place].take()?))
    }

    /// Forgets all other events than these.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&Event) -> bool) {
        let Agenda { heap, events, vacant } = self;
        heap.retain(|Reverse((_, _, _, place))| {
            let keeps = events[*place].as_ref().is_some_and(&mut stays);
            if !keeps {
                events[*place] = None;
                vacant.push(*place);
            }
            keeps
        });
    }
}
