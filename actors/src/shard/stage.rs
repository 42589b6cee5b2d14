//! A shard for unit tests, with memory that is granted to it and nobody around it.

use bytes::Bytes;
use mooring_proto::message::object::PutOptions;
use mooring_proto::{ClientId, Incarnation, SegmentId};

use super::config::ShardConfig;
use super::message::{
    KeyBatch, KeyRef, PutRequest, ShardEffect, ShardMessage, ShardReply, ShardRequest,
};
use super::state::Shard;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{Generation, Mount, PoolOrder, SegmentSlot};
use crate::request::RequestId;
use crate::route::{Route, ShardId};

const INCARNATION: Incarnation = Incarnation(7);

/// The shard, the time, and what the last message led to besides answers.
pub(super) struct Stage {
    pub(super) shard: Shard,
    pub(super) now: Moment,
    pub(super) effects: Vec<ShardEffect>,
    route: Route,
}

impl Stage {
    /// With so many segments of a gibibyte, and pages of all of them.
    pub(super) fn new(segments: u16, pages: u32) -> Stage {
        let route = Route::new(7, 1);
        let shard = Shard::new(ShardConfig::new(ShardId(0), route, INCARNATION));
        let (now, effects) = (Moment::from_ms(1_000), Vec::new());
        let mut stage = Stage { shard, now, effects, route };
        for slot in 0..segments {
            let mount = mount(slot);
            stage.tell(ShardMessage::Pool(PoolOrder::SegmentMounted {
                mount,
                segment: segment(slot),
                capacity_bytes: 1 << 30,
                page_bytes: 64 << 10,
                rests_until: None,
            }));
            let run = PageRun::new(0, pages);
            stage.tell(ShardMessage::Pool(PoolOrder::Grant { mount, run }));
        }
        stage
    }

    /// Takes a message; gives the answer if there is one.
    pub(super) fn tell(&mut self, message: ShardMessage) -> Option<ShardReply> {
        self.effects.clear();
        self.shard.apply(self.now, message, &mut self.effects);
        let is_reply = |effect: &ShardEffect| matches!(effect, ShardEffect::Reply { .. });
        let at = self.effects.iter().position(is_reply)?;
        match self.effects.remove(at) {
            ShardEffect::Reply { reply, .. } => Some(reply),
            _ => None,
        }
    }

    pub(super) fn ask(&mut self, request: ShardRequest) -> ShardReply {
        let message = ShardMessage::Request { id: RequestId(1), deadline: None, request };
        self.tell(message).expect("an answer at once")
    }

    /// Starts a put on a segment, and gives its number.
    pub(super) fn start(&mut self, slot: u16, key: &str, size_bytes: u64) -> u64 {
        let preferred_segments = vec![segment(slot)];
        let request = ShardRequest::PutStart {
            client: ClientId(1),
            options: PutOptions { preferred_segments, ..PutOptions::default() },
            extras: None,
            batch: self.batch(key),
            puts: vec![PutRequest { size_bytes, put_id: self.route.hash(key.as_bytes()).0 }],
        };
        match self.ask(request) {
            ShardReply::Started(grants) => grants[0].clone().expect("there is room").sequence,
            other => panic!("a start is answered with {other:?}"),
        }
    }

    pub(super) fn put(&mut self, slot: u16, key: &str, size_bytes: u64) {
        let sequences = vec![self.start(slot, key, size_bytes)];
        let batch = self.batch(key);
        self.ask(ShardRequest::PutEnd { incarnation: INCARNATION, batch, sequences });
    }

    /// Leases an object.
    pub(super) fn get(&mut self, key: &str) {
        let batch = self.batch(key);
        match self.ask(ShardRequest::Get { batch }) {
            ShardReply::Located(found) => assert!(found[0].is_ok(), "{found:?}"),
            other => panic!("a get is answered with {other:?}"),
        }
    }

    fn batch(&self, key: &str) -> KeyBatch {
        let hash = self.route.hash(key.as_bytes());
        let keys = vec![KeyRef { hash, at: 0, length: key.len() as u32 }];
        KeyBatch { frame: Bytes::copy_from_slice(key.as_bytes()), keys }
    }
}

/// The mount of a segment.
pub(super) fn mount(slot: u16) -> Mount {
    Mount { slot: SegmentSlot(slot), generation: Generation(1) }
}

fn segment(slot: u16) -> SegmentId {
    SegmentId(u128::from(slot) + 1)
}
