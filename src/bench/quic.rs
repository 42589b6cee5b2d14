//! The protocol of this master, on a QUIC connection without the client around it.
//!
//! Buffers are used again, and replies are counted instead of built, so that the generator leaves
//! the processor to the master.

mod skim;

use std::sync::Arc;
use std::time::Duration;

use mooring_proto::client::ClientTls;
use mooring_proto::client::transport::{endpoint_towards, transport_config};
use mooring_proto::error::WireError;
use mooring_proto::frame::{self, REPLY_HEADER_BYTES, ReplyHeader};
use mooring_proto::message::Request;
use mooring_proto::message::object::{
    ExistReply, ExistRequest, GetRequest, MatchPrefixReply, MatchPrefixRequest, PutEndRequest,
    PutItem, PutOptions, PutStartItem, PutStartRequest, RemoveRequest,
};
use mooring_proto::message::session::{ALPN_MASTER, HelloRequest, VERSION, VERSION_MIN};
use mooring_proto::{ClientId, Incarnation};
use quinn::Connection;
use serde::Deserialize;
use serde_bytes::Bytes;

use self::skim::{Counted, GetSkim, ItemsSkim, PutStartSkim};
use super::tally::{Answer, Call};
use super::wire::{Keys, WireFault};
use crate::command::CommandError;

/// Opens connections to one master.
#[derive(Clone, Debug)]
pub(super) struct QuicDialer {
    target: String,
    tls: ClientTls,
    client: ClientId,
}

impl QuicDialer {
    /// As the client that mounted the segments.
    pub(super) fn new(target: String, tls: ClientTls, client: ClientId) -> QuicDialer {
        QuicDialer { target, tls, client }
    }

    /// Connects, and says hello.
    pub(super) async fn dial(&self) -> Result<Connection, CommandError> {
        let fault = |error: &dyn std::fmt::Display| {
            CommandError::failed(format!("cannot connect to {}", self.target), error)
        };
        let mut config = self.tls.load(ALPN_MASTER)?;
        config.transport_config(Arc::new(transport_config(INITIAL_MTU_BYTES, IDLE_TIMEOUT)));
        let mut addresses =
            tokio::net::lookup_host(&self.target).await.map_err(|error| fault(&error))?;
        let address = addresses.next().ok_or_else(|| fault(&"the name has no address"))?;
        let host = self.target.rsplit_once(':').map_or(self.target.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.tls.server_name().unwrap_or(host);
        let endpoint = endpoint_towards(address).map_err(|error| fault(&error))?;
        let connecting =
            endpoint.connect_with(config, address, name).map_err(|error| fault(&error))?;
        let connection = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| fault(&"no answer"))?
            .map_err(|error| fault(&error))?;
        let mut wire = QuicWire::new(connection.clone(), 1);
        let hello = HelloRequest {
            client: self.client,
            name: "mooring bench".to_owned(),
            version_min: VERSION_MIN,
            version_max: VERSION,
            features: 0,
        };
        let greeted = async {
            wire.encode(&hello)?;
            wire.exchange().await?;
            wire.reply().map(drop)
        };
        greeted.await.map_err(|error| fault(&error.text()))?;
        Ok(connection)
    }
}

/// One request at a time on a connection that others share.
#[derive(Debug)]
pub(super) struct QuicWire {
    connection: Connection,
    value_bytes: u64,
    next_put_id: u64,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl QuicWire {
    /// Puts are of this size.
    pub(super) fn new(connection: Connection, value_bytes: u64) -> QuicWire {
        QuicWire {
            connection,
            value_bytes,
            // Another one for each put, of whichever worker.
            next_put_id: rand::random(),
            request: Vec::new(),
            answer: Vec::new(),
        }
    }

    pub(super) fn prepare(&mut self, call: Call, keys: &Keys) -> Result<(), WireFault> {
        let listed = || keys.iter().map(Bytes::new).collect::<Vec<&Bytes>>();
        match call {
            Call::Put => {
                let (first, size_bytes) = (self.next_put_id, self.value_bytes);
                self.next_put_id = first.wrapping_add(keys.len() as u64);
                let items = keys.iter().enumerate().map(|(index, key)| PutStartItem {
                    key: Bytes::new(key),
                    size_bytes,
                    put_id: first.wrapping_add(index as u64),
                });
                let items = items.collect();
                self.encode(&PutStartRequest { options: PutOptions::default(), items })
            }
            Call::Get => self.encode(&GetRequest { keys: listed() }),
            Call::Exist => self.encode(&ExistRequest { lease: true, keys: listed() }),
            Call::MatchPrefix => self.encode(&MatchPrefixRequest { lease: true, keys: listed() }),
            Call::Remove => self.encode(&RemoveRequest { force: true, keys: listed() }),
        }
    }

    pub(super) async fn perform(&mut self, call: Call, keys: &Keys) -> Result<Answer, WireFault> {
        self.exchange().await?;
        let asked = keys.len() as u64;
        match call {
            Call::Put => self.end_puts(keys).await,
            Call::Get => Ok(self.decode::<GetSkim>()?.items.answer(1)),
            Call::Exist => {
                let reply: ExistReply = self.decode()?;
                let done = reply.bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
                Ok(found(done, asked))
            }
            Call::MatchPrefix => {
                let reply: MatchPrefixReply = self.decode()?;
                Ok(found(u64::from(reply.matched), asked))
            }
            Call::Remove => Ok(self.decode::<ItemsSkim>()?.items.answer(1)),
        }
    }

    /// Ends what was granted by the answer to a start.
    async fn end_puts(&mut self, keys: &Keys) -> Result<Answer, WireFault> {
        let asked = keys.len() as u64;
        let started: PutStartSkim = self.decode()?;
        let granted = keys.iter().zip(&started.items.0);
        let items: Vec<PutItem<'_>> = granted
            .filter_map(|(key, sequence)| {
                Some(PutItem { key: Bytes::new(key), sequence: (*sequence)? })
            })
            .collect();
        if items.is_empty() {
            return Ok(Answer { refused: asked, requests: 1, ..Answer::default() });
        }
        self.encode(&PutEndRequest { incarnation: Incarnation(started.incarnation.0), items })?;
        self.exchange().await?;
        let ended: Counted<()> = self.decode::<ItemsSkim>()?.items;
        let done = ended.done;
        Ok(Answer { done, refused: asked.saturating_sub(done), requests: 2, missing: 0 })
    }

    fn encode<R: Request>(&mut self, request: &R) -> Result<(), WireFault> {
        let buffer = std::mem::take(&mut self.request);
        self.request = frame::encode_request_into(buffer, request, NO_DEADLINE_MS, None)
            .map_err(WireFault::lost)?;
        Ok(())
    }

    /// Sends the request on a stream of its own, and reads the whole answer.
    async fn exchange(&mut self) -> Result<(), WireFault> {
        let (mut send, mut receive) = self.connection.open_bi().await.map_err(WireFault::lost)?;
        match send.write_all(&self.request).await {
            // A peer that refuses may stop the stream; its answer stands on the other half.
            Ok(()) | Err(quinn::WriteError::Stopped(_)) => {}
            Err(error) => return Err(WireFault::lost(error)),
        }
        // Fails only if the peer stopped the stream meanwhile.
        let _ = send.finish();
        self.answer.clear();
        while let Some(chunk) =
            receive.read_chunk(usize::MAX, true).await.map_err(WireFault::lost)?
        {
            self.answer.extend_from_slice(&chunk.bytes);
        }
        Ok(())
    }

    /// The body of the answer, or why the request was refused.
    fn reply(&self) -> Result<&[u8], WireFault> {
        let (head, body) = self
            .answer
            .split_first_chunk::<REPLY_HEADER_BYTES>()
            .ok_or_else(|| WireFault::lost("an answer without a header"))?;
        let header = ReplyHeader::decode(head).map_err(WireFault::lost)?;
        if header.status == 0 {
            return Ok(body);
        }
        let error: WireError = frame::decode_body(body).map_err(WireFault::lost)?;
        Err(WireFault::Refused(error.to_string()))
    }

    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, WireFault> {
        frame::decode_body(self.reply()?).map_err(WireFault::lost)
    }
}

/// The answer to a question of which keys are there.
fn found(done: u64, asked: u64) -> Answer {
    Answer { done, missing: asked.saturating_sub(done), refused: 0, requests: 1 }
}

/// The generator waits as long as it takes: giving up would hide the slowest answers.
const NO_DEADLINE_MS: u32 = 0;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// As long as the client's own before it knows the client TTL.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

const INITIAL_MTU_BYTES: u16 = 1_452;
