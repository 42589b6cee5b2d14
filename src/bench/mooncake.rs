//! The protocol of Mooncake, so that its master can be measured as this one is.
//!
//! A client of Mooncake takes a connection from its pool for each call, so each request that is
//! under way has a connection of its own.

mod owner;
mod skim;

use mooring_proto::mooncake::{
    BatchExistKey, BatchGetReplicaList, BatchPutEnd, BatchPutStart, BatchRemove, Form, ObjectMeta,
    ReplicaType, ReplicateConfig, ReplyError, Request, Str, Unpack, Uuid, append_request,
    decode_body, decode_reply, split_reply,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) use self::owner::MooncakeOwner;
use self::skim::{Counted, Done, Exists, Flags, Located, Started};
use super::tally::{Answer, Call};
use super::wire::{Keys, WireFault};
use crate::command::CommandError;

/// One connection, with one request at a time.
#[derive(Debug)]
pub(super) struct MooncakeWire {
    stream: TcpStream,
    client: Uuid,
    lengths: Vec<u64>,
    value_bytes: u64,
    seq: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl MooncakeWire {
    /// Connects as this client. Puts are of this size.
    pub(super) async fn connect(
        target: &str,
        client: Uuid,
        value_bytes: u64,
    ) -> Result<MooncakeWire, CommandError> {
        let fault = |error| CommandError::failed(format!("cannot connect to {target}"), error);
        let stream = TcpStream::connect(target).await.map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        let (lengths, request, answer) = (Vec::new(), Vec::new(), Vec::new());
        Ok(MooncakeWire { stream, client, lengths, value_bytes, seq: 0, request, answer })
    }

    pub(super) fn prepare(&mut self, call: Call, keys: &Keys) -> Result<(), WireFault> {
        let listed = keys.iter().map(Str).collect::<Vec<Str<'_>>>();
        match call {
            Call::Put => {
                let mut slice_lengths = std::mem::take(&mut self.lengths);
                slice_lengths.clear();
                slice_lengths.resize(listed.len(), self.value_bytes);
                let client = self.client;
                let request = BatchPutStart {
                    client,
                    keys: listed,
                    slice_lengths,
                    config: put_config(),
                    tenant: TENANT,
                };
                let encoded = self.encode(&request);
                self.lengths = request.slice_lengths;
                encoded
            }
            Call::Get => self.encode(&BatchGetReplicaList { keys: listed, tenant: TENANT }),
            Call::Exist => self.encode(&BatchExistKey { keys: listed, tenant: TENANT }),
            Call::Remove => self.encode(&BatchRemove { keys: listed, force: true, tenant: TENANT }),
            // Arguments that would lead here are refused before anything starts.
            Call::MatchPrefix => Err(WireFault::lost("Mooncake has no such function")),
        }
    }

    pub(super) async fn perform(&mut self, call: Call, keys: &Keys) -> Result<Answer, WireFault> {
        self.exchange().await?;
        match call {
            Call::Put => self.end_puts(keys).await,
            Call::Get => Ok(self.reread::<BatchGetReplicaList<'_>, Counted<Located>>()?.answer(1)),
            Call::Exist => Ok(self.reread::<BatchExistKey<'_>, Counted<Exists>>()?.answer(1)),
            Call::Remove => Ok(self.reread::<BatchRemove<'_>, Counted<Done>>()?.answer(1)),
            Call::MatchPrefix => Err(WireFault::lost("Mooncake has no such function")),
        }
    }

    /// Ends what was granted by the answer to a start.
    async fn end_puts(&mut self, keys: &Keys) -> Result<Answer, WireFault> {
        let asked = keys.len() as u64;
        let started = self.reread::<BatchPutStart<'_>, Flags<Started>>()?;
        let metas: Vec<ObjectMeta<'_>> = keys
            .iter()
            .zip(&started.flags)
            .filter(|(_, granted)| **granted)
            .map(|(key, _)| ObjectMeta { key: Str(key), object_checksum: None })
            .collect();
        if metas.is_empty() {
            return Ok(Answer { refused: asked, requests: 1, ..Answer::default() });
        }
        let (client, replica_type) = (self.client, ReplicaType::MEMORY);
        self.encode(&BatchPutEnd { client, metas, replica_type, tenant: TENANT })?;
        self.exchange().await?;
        let done = self.reread::<BatchPutEnd<'_>, Counted<Done>>()?.answer(2).done;
        Ok(Answer { done, refused: asked.saturating_sub(done), requests: 2, missing: 0 })
    }

    /// One call with its whole result.
    async fn call<R: Request, T>(
        &mut self,
        request: &R,
        look: impl FnOnce(R::Reply<'_>) -> T,
    ) -> Result<T, WireFault> {
        self.encode(request)?;
        self.exchange().await?;
        let frame = split_reply(&self.answer, usize::MAX).map_err(WireFault::lost)?;
        let frame = frame.ok_or_else(|| WireFault::lost(CUT_OFF))?;
        decode_reply::<R>(&frame.header, frame.body).map(look).map_err(refused)
    }

    fn encode<R: Request>(&mut self, request: &R) -> Result<(), WireFault> {
        self.seq = self.seq.wrapping_add(1);
        self.request.clear();
        append_request(&mut self.request, self.seq, request, Form::WithLiteral)
            .map_err(WireFault::lost)
    }

    async fn exchange(&mut self) -> Result<(), WireFault> {
        self.stream.write_all(&self.request).await.map_err(WireFault::lost)?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await.map_err(WireFault::lost)? == 0 {
                return Err(WireFault::lost("the master closed the connection"));
            }
            let frame = split_reply(&self.answer, usize::MAX).map_err(WireFault::lost)?;
            if frame.is_some() {
                return Ok(());
            }
            // Room for much at once: a large answer would else come in pieces.
            self.answer.reserve(READ_BYTES);
        }
    }

    /// The result of a batch as another type of the same shape, which only counts.
    fn reread<'a, R: Request, T: Unpack<'a>>(&'a self) -> Result<T, WireFault> {
        const {
            assert!(T::CODE == <R::Reply<'static> as mooring_proto::mooncake::Shape>::CODE);
        }
        let frame = split_reply(&self.answer, usize::MAX).map_err(WireFault::lost)?;
        let frame = frame.ok_or_else(|| WireFault::lost(CUT_OFF))?;
        if frame.header.error != 0 {
            let error = decode_reply::<R>(&frame.header, frame.body).err();
            return Err(error.map_or_else(|| WireFault::lost(CUT_OFF), refused));
        }
        decode_body(frame.body).map_err(WireFault::lost)
    }
}

/// A master of Mooncake refuses a call as a whole only when both do not speak the same protocol.
fn refused(error: ReplyError) -> WireFault {
    match error {
        ReplyError::Rpc { .. } => WireFault::Refused(error.to_string()),
        ReplyError::Body(_) => WireFault::lost(error),
    }
}

/// One replica, and nothing special.
fn put_config() -> ReplicateConfig<'static> {
    ReplicateConfig::default()
}

/// The tenant that clients name when they have none.
const TENANT: Str<'static> = Str(b"default");

const READ_BYTES: usize = 64 << 10;

const CUT_OFF: &str = "the answer is cut off";
