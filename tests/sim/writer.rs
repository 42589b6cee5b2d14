//! Clients without tokens, as those of the TCP protocol are: what they say of a put names key and
//! client alone, so they have one put of a key under way at a time, and nothing that they say is
//! repeated or overtaken.

use mooring_actors::shard::message::{Described, ShardRequest};
use mooring_proto::message::object::Located;
use mooring_proto::{ClientId, Incarnation};

use crate::asked::{Asked, PutAsked};
use crate::client::{Intent, Put};
use crate::plan::Canary;
use crate::world::World;

impl World {
    /// Whether a client without tokens may start a put of a key.
    pub(crate) fn begin_under_way(&mut self, client: usize, key: u32) -> bool {
        self.under_way.insert((client, key)) || self.plan.canary == Some(Canary::HastyWriters)
    }

    /// The writer knows what became of its put. Otherwise it never starts that key again.
    pub(crate) fn end_under_way(&mut self, put: &PutAsked) {
        if let Some(number) = self.puts.get(put.put_id as usize)
            && self.clients[number.client].id == put.client
        {
            self.under_way.remove(&(number.client, put.key));
        }
    }

    /// Whether a process has no tokens.
    pub(crate) fn is_tokenless(&self, process: ClientId) -> bool {
        self.clients.iter().any(|client| client.tokenless && client.id == process)
    }

    pub(crate) fn conclude_by_writer(&mut self, put: &Put) {
        let asked = put.asked;
        let batch = self.batch(&[asked.key]);
        let client = asked.client;
        let (request, asked) = match put.intent {
            Intent::Abandon => {
                self.plan_late_writes(asked.put_id as usize);
                return self.end_under_way(&asked);
            }
            Intent::End | Intent::EndSlowly if !put.failed => (
                ShardRequest::EndByWriter { client, batch, checksums: vec![None] },
                Asked::EndByWriter { put: asked },
            ),
            _ => {
                self.plan_late_writes(asked.put_id as usize);
                (
                    ShardRequest::RevokeByWriter { client, batch },
                    Asked::RevokeByWriter { put: asked },
                )
            }
        };
        let shard = self.shard_of(put.asked.key);
        self.ask_shard(client, shard, request, asked);
    }

    /// Where memory is reached without asking its store, nothing but an operator keeps the writers of
    /// a master that was killed away from it. They are stopped before the next one has it.
    pub(crate) fn was_stopped(&self, put: usize, memory: usize) -> bool {
        self.killed.contains(&self.puts[put].master)
            && !self.memories.all[memory].checks_mounts
            && self.plan.canary != Some(Canary::RestlessWriters)
    }

    /// A master has ended and handed nothing over. It takes those along that it had taken over from.
    pub(crate) fn note_killed(&mut self, master: Incarnation) {
        self.killed.insert(master);
        self.killed.extend(self.puts.iter().map(|put| put.master));
    }
}

/// What a reader needs of all that is known of an object.
pub(crate) fn located(described: &Described) -> Located {
    Located {
        size_bytes: described.size_bytes,
        sequence: described.sequence,
        replicas: described.replicas.clone(),
    }
}
