//! What tells the frequent events of a run apart.

use mooring_actors::RequestId;
use mooring_actors::clients::ClientsMessage;
use mooring_actors::pool::message::{Mount, PoolMessage, PoolOrder, ShardReport};
use mooring_actors::shard::message::{
    KeyBatch, ShardMessage, ShardReply, ShardRequest, ShardTotals,
};
use mooring_proto::Incarnation;
use mooring_proto::error::Refusal;
use mooring_proto::message::object::RangeDescriptor;

use crate::audit::{Digest, Mix};
use crate::cluster::{Answer, Envelope};
use crate::event::End;
use crate::store::Fault;

impl Digest for (End, &Envelope) {
    /// The receiver is known by the message.
    fn digest(&self, into: &mut Mix) {
        into.add(match self.0 {
            End::Clock => 0,
            End::Process => 1,
            End::Clients => 2,
            End::Pool => 3,
            End::Shard(shard) => 4 + u64::from(shard.0),
            End::Stray(number) => 2 << 32 | number,
            End::Client(client) => 1 << 32 | client as u64,
        });
        match self.1 {
            Envelope::ToShard(shard, message) => {
                into.add(u64::from(shard.0));
                digest_shard_message(message, into);
            }
            Envelope::ToPool(PoolMessage::Tick) | Envelope::ToClients(ClientsMessage::Tick) => {}
            Envelope::ToClients(ClientsMessage::Ping { id, client, mounted_segments, kept }) => {
                into.add(id.0);
                into.add(client.0 as u64);
                into.add(u64::from(*mounted_segments));
                into.add(kept.map_or(0, |kept| kept.0));
            }
            Envelope::ToPool(PoolMessage::Shard { shard, report }) => {
                into.add(u64::from(shard.0));
                digest_report(report, into);
            }
            Envelope::ToPool(message) => into.text(message),
            Envelope::ToClients(message) => into.text(message),
        }
    }
}

fn digest_shard_message(message: &ShardMessage, into: &mut Mix) {
    match message {
        ShardMessage::Tick | ShardMessage::Continue => {}
        ShardMessage::Request { id, deadline, request } => {
            into.add(id.0);
            into.add(deadline.map_or(0, |deadline| deadline.as_ms()));
            digest_request(request, into);
        }
        ShardMessage::Pool(PoolOrder::Space(segments)) => {
            for space in segments {
                digest_mount(space.mount, into);
                into.add(space.free_bytes);
                into.add(space.largest_free_run_bytes);
            }
        }
        ShardMessage::Pool(PoolOrder::Deny { mount }) => digest_mount(*mount, into),
        ShardMessage::Pool(PoolOrder::Evict { mount, evicted_total_bytes }) => {
            digest_mount(*mount, into);
            into.add(*evicted_total_bytes);
        }
        ShardMessage::Pool(PoolOrder::Survey { survey, mount, window, chunk_pages }) => {
            digest_mount(*mount, into);
            into.add(*survey);
            into.add(u64::from(window.first_page) << 32 | u64::from(window.pages));
            into.add(u64::from(*chunk_pages));
        }
        message => into.text(message),
    }
}

fn digest_report(report: &ShardReport, into: &mut Mix) {
    match report {
        ShardReport::Usage(segments) => {
            for usage in segments {
                digest_mount(usage.mount, into);
                into.add(usage.allocated_bytes);
                into.add(usage.held_bytes);
                into.add(usage.leased_bytes);
                into.add(usage.free_bytes);
                into.add(usage.evicted_total_bytes);
            }
        }
        ShardReport::Surveyed { survey, chunks } => {
            into.add(*survey);
            for chunk in chunks {
                into.add(chunk.evict_bytes);
                into.add(chunk.newest_access.as_ms());
                into.add(chunk.blocked_until.map_or(0, |until| until.as_ms()));
            }
        }
        report => into.text(report),
    }
}

fn digest_mount(mount: Mount, into: &mut Mix) {
    into.add(u64::from(mount.slot.0) << 32 | u64::from(mount.generation.0));
}

fn digest_request(request: &ShardRequest, into: &mut Mix) {
    match request {
        ShardRequest::PutStart { client, options, batch, puts, .. }
        | ShardRequest::UpsertStart { client, options, batch, puts, .. } => {
            into.add(client.0 as u64);
            into.add(u64::from(options.replicas));
            into.add(u64::from(options.hard_pin));
            into.add(options.soft_pin_ttl_ms.unwrap_or_default());
            options.preferred_segments.iter().for_each(|segment| into.add(segment.0 as u64));
            digest_keys(batch, into);
            for put in puts {
                into.add(put.size_bytes);
                into.add(put.put_id);
            }
        }
        ShardRequest::PutEnd { batch, sequences, .. }
        | ShardRequest::PutRevoke { batch, sequences, .. }
        | ShardRequest::Validate { batch, sequences, .. } => {
            digest_keys(batch, into);
            sequences.iter().for_each(|sequence| into.add(*sequence));
        }
        ShardRequest::Get { batch } | ShardRequest::GetDetailed { batch } => {
            digest_keys(batch, into);
        }
        ShardRequest::Exist { lease: flag, batch }
        | ShardRequest::Remove { force: flag, batch } => {
            into.add(u64::from(*flag));
            digest_keys(batch, into);
        }
        ShardRequest::EndByWriter { client, batch, .. }
        | ShardRequest::RevokeByWriter { client, batch } => {
            into.add(client.0 as u64);
            digest_keys(batch, into);
        }
        request => into.text(request),
    }
}

fn digest_keys(batch: &KeyBatch, into: &mut Mix) {
    batch.keys.iter().for_each(|key| into.add(key.hash.0));
}

impl Digest for (RequestId, &Answer) {
    fn digest(&self, into: &mut Mix) {
        into.add(self.0.0);
        match self.1 {
            Answer::Shard(ShardReply::Started(answers)) => {
                for answer in answers {
                    digest_result(answer, into, |grant, into| {
                        into.add(grant.sequence);
                        digest_replicas(&grant.replicas, into);
                    });
                }
            }
            Answer::Shard(ShardReply::Located(answers)) => {
                for answer in answers {
                    digest_result(answer, into, |located, into| {
                        into.add(located.sequence);
                        into.add(located.size_bytes);
                        digest_replicas(&located.replicas, into);
                    });
                }
            }
            Answer::Shard(ShardReply::Described(answers)) => {
                for answer in answers {
                    digest_result(answer, into, |described, into| {
                        into.add(described.sequence);
                        into.add(described.lease_left_ms);
                        into.add(u64::from(described.hard_pin));
                        digest_replicas(&described.replicas, into);
                    });
                }
            }
            Answer::Shard(ShardReply::Done(answers)) => {
                answers.iter().for_each(|answer| digest_result(answer, into, |(), _| ()));
            }
            Answer::Shard(ShardReply::Existing(answers)) => {
                answers.iter().for_each(|exists| into.add(u64::from(*exists)));
            }
            // How much memory a map takes depends on where its keys have fallen.
            Answer::Shard(ShardReply::Totals(totals)) => {
                into.text(&ShardTotals { memory_bytes: 0, ..(**totals).clone() });
            }
            Answer::Shard(reply) => into.text(reply),
            Answer::Pool(reply) => into.text(reply),
            Answer::Ping { need_remount } => into.add(u64::from(*need_remount)),
        }
    }
}

/// The number of a put, where it was written to, from which byte on, and whether it was.
impl Digest for (u64, (Incarnation, RangeDescriptor), u64, Result<(), Fault>) {
    fn digest(&self, into: &mut Mix) {
        into.add(self.0);
        digest_replicas(&[self.1.1], into);
        into.add(self.2);
        into.add(u64::from(self.3.is_ok()));
    }
}

/// The key and the number of the put that were read, and what was wrong.
impl Digest for (u32, u64, &Result<Option<String>, Fault>) {
    fn digest(&self, into: &mut Mix) {
        into.add(u64::from(self.0));
        into.add(self.1);
        into.add(match self.2 {
            Ok(None) => 0,
            Ok(Some(_)) => 1,
            Err(_) => 2,
        });
    }
}

fn digest_result<T>(
    answer: &Result<T, Refusal>,
    into: &mut Mix,
    of_success: impl Fn(&T, &mut Mix),
) {
    match answer {
        Ok(success) => of_success(success, into),
        Err(refusal) => {
            into.add(refusal.code as u64);
            into.add(u64::from(refusal.retry_after_ms.unwrap_or_default()));
        }
    }
}

fn digest_replicas(replicas: &[RangeDescriptor], into: &mut Mix) {
    for replica in replicas {
        into.add(u64::from(replica.slot) << 32 | u64::from(replica.generation));
        into.add(replica.offset_bytes);
    }
}
