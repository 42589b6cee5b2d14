//! Starts that replace what the key has, and what goes on from the one to the other.
//!
//! The key changes hands at the moment when space is granted. Until then the old object is read as
//! before; from then on it is gone like one that was removed by force, and the ranges are held for
//! as long as somebody may still read or write them. Nothing is ever written in place.

use std::sync::Arc;

use mooring_proto::error::{ErrorCode, Refusal};

use super::message::{GROUP_BYTES_MAX, PutExtras, SoftPinAction};
use super::objects::ObjectHandle;
use super::put::{Start, in_progress};
use super::state::Shard;
use crate::moment::Moment;

/// What a start does with a key that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It leaves it alone.
    Put,
    /// It replaces what is there.
    Upsert,
}

/// What a writer says of one object beyond the options.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra<'a> {
    pub(super) data_type: u8,
    pub(super) soft_pin: SoftPinAction,
    /// `None` if the writer has not said; an empty name is no group.
    pub(super) group: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    /// What stands for one key of a batch.
    ///
    /// # Errors
    /// When the names of groups are not one for each key, or one is too long.
    pub(super) fn of(
        extras: Option<&'a PutExtras>,
        keys: usize,
        index: usize,
    ) -> Result<Extra<'a>, ErrorCode> {
        let Some(PutExtras { data_type, soft_pin, groups }) = extras else {
            return Ok(Extra::default());
        };
        let group = groups.get(index).map(|name| &**name);
        let named = groups.is_empty() || groups.len() == keys;
        if !named || group.is_some_and(|name| name.len() > GROUP_BYTES_MAX) {
            return Err(ErrorCode::InvalidArgument);
        }
        Ok(Extra { data_type: *data_type, soft_pin: *soft_pin, group })
    }
}

/// What a key has that an upsert replaces.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    object: ObjectHandle,
    pub(super) hard_pin: bool,
    /// The end of its soft pin, if that has not come.
    pub(super) soft_pin_until: Option<Moment>,
    /// The name of its group.
    group: Option<Arc<[u8]>>,
}

impl Start<'_> {
    /// For how long the object is to be pinned softly once it is readable.
    pub(super) fn soft_pin_ttl_ms(&self) -> Option<u64> {
        let asked = self.mode == Mode::Put || self.extra.soft_pin == SoftPinAction::Enable;
        self.options.soft_pin_ttl_ms.filter(|_| asked)
    }
}

impl Shard {
    /// Whether an upsert may go on. An unfinished put of another client is no hindrance, but one of the
    /// same client is while it is young: nothing tells its end from that of the upsert, whose bytes
    /// are not there yet.
    pub(super) fn admit_upsert(&self, now: Moment, start: &Start<'_>) -> Result<(), Refusal> {
        let object = self.ledger.find(start.hash, start.key);
        let put = object.and_then(|object| self.put_of(object));
        let Some(own) = put.filter(|put| put.client == start.client) else { return Ok(()) };
        let age_ms = now.since_ms(own.started);
        if age_ms < self.config.put_discard_timeout_ms {
            return Err(in_progress(self.config.put_discard_timeout_ms - age_ms));
        }
        Ok(())
    }

    /// What the key of a start has that the start replaces.
    pub(super) fn replaced(&self, now: Moment, start: &Start<'_>) -> Option<Replaced> {
        if start.mode != Mode::Upsert {
            return None;
        }
        let object = self.ledger.find(start.hash, start.key)?;
        // Of an object that went with its segment nothing goes on.
        let reachable = self.reachable(object);
        // An upsert that never came to its end has a pin only from the object before it.
        let inherited = self.put_of(object).and_then(|put| put.inherited_soft_pin_until);
        let soft_pin_until = self.soft_pins.until(object).or(inherited);
        Some(Replaced {
            object,
            hard_pin: reachable && self.ledger.objects().flags(object).hard_pin,
            soft_pin_until: soft_pin_until.filter(|until| reachable && *until > now),
            group: self.ledger.group_name(object).filter(|_| reachable),
        })
    }

    /// Notes beside a new object what its writer has said of it, or has left to what it replaces.
    pub(super) fn note_extra(
        &mut self,
        object: ObjectHandle,
        extra: &Extra<'_>,
        replaced: Option<&Replaced>,
    ) {
        self.ledger.note_data_type(object, extra.data_type);
        let inherited = replaced.and_then(|replaced| replaced.group.as_deref());
        let group = extra.group.or(inherited).filter(|name| !name.is_empty());
        if let Some(name) = group {
            self.ledger.join_group(object, name);
        }
    }

    /// Removes what was replaced. Its ranges are held until nobody reads or writes them any more.
    pub(super) fn replace(&mut self, now: Moment, replaced: Replaced) {
        let object = replaced.object;
        let in_use_until = match self.put_of(object) {
            Some(put) => {
                let writable_until = put.started.after_ms(self.config.put_release_timeout_ms);
                self.counters.put_discarded += 1;
                Some(writable_until)
            }
            None => self.leased_until(object),
        };
        self.erase(now, object, in_use_until);
    }
}
