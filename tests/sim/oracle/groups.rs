//! What becomes of members of a group. A read of one keeps all those in its shard that are members by
//! then, and what is known of an object names the group that its writer has put it into.
//!
//! Whether an object was still there when another member was read is known of those that were leased
//! then, and of those that somebody has found since.

use mooring_actors::Moment;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::shard::message::Described;

use super::{Oracle, readable};

/// A group, and when in the order of answers one of its members was last read.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupRead {
    answer: u64,
    at: Moment,
    until: Moment,
}

impl Oracle {
    /// The number of the next answer that makes a member, or reads one.
    pub(super) fn next_answer(&mut self) -> u64 {
        self.answers += 1;
        self.answers
    }

    /// A member was read, so no other one goes meanwhile. Those who join later may be in another group
    /// of that name, if no member was left in between.
    pub(super) fn lease_group(&mut self, now: Moment, key: u32, until: Moment) {
        let put = self.key(key).readable.map(|sequence| &self.puts[&sequence]);
        if let Some(put) = put
            && let Some(group) = put.asked.group
        {
            let place = (put.shard, group);
            let answer = self.next_answer();
            self.group_reads.insert(place, GroupRead { answer, at: now, until });
        }
    }

    /// The object of a key is there.
    pub(super) fn found(&mut self, key: u32) {
        let answer = self.next_answer();
        if let Some(sequence) = self.key(key).readable
            && let Some(put) = self.puts.get_mut(&sequence)
        {
            put.found = answer;
        }
    }

    /// Until when a key stays for a reader of its own, or of its group.
    pub(super) fn stays_until(&self, key: u32) -> Moment {
        let model = self.key(key);
        let put = model.readable.map(|sequence| &self.puts[&sequence]);
        let with_group = put.filter(|put| !put.left_group).and_then(|put| {
            let read = self.group_reads.get(&(put.shard, put.asked.group?))?;
            let was_there = put.found > read.answer || model.leased_until > read.at;
            (put.joined < read.answer && was_there).then_some(read.until)
        });
        with_group.map_or(model.leased_until, |until| until.max(model.leased_until))
    }

    /// Whether others may have leased the object of a key, by reading members of its group.
    pub(super) fn is_member(&self, key: u32) -> bool {
        let put = self.key(key).readable.map(|sequence| &self.puts[&sequence]);
        put.is_some_and(|put| put.asked.group.is_some())
    }

    /// What is known of an object, beside where it lies.
    pub(super) fn described(&self, key: u32, described: &Described) -> Result<(), Violation> {
        let put = &self.puts[&described.sequence];
        let expected = put.asked.group.map(group_name);
        // What follows the name is of a planted fault.
        let named = described.group.as_ref().map(|name| &name[..GROUP_NAME_BYTES.min(name.len())]);
        if named != expected.as_deref() {
            let fault = format!("key {key} of {put:?} is in group {:?}", described.group);
            return Err(Invariant::Conservation.violated(fault));
        }
        let pin_is_known = described.hard_pin == put.hard_pin || put.may_be_pinned;
        if !pin_is_known || put.hard_pin && !described.hard_pin {
            return Err(readable(key, &format!("of {put:?} has the pins of {described:?}")));
        }
        Ok(())
    }
}

/// The name of a group.
pub(crate) fn group_name(group: u32) -> Box<[u8]> {
    format!("group-{group:04}").into_bytes().into()
}

/// The length of each.
const GROUP_NAME_BYTES: usize = 10;
