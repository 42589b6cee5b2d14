//! A master with one object table and stores with modelled memory, for tests that move bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use mooring_proto::client::{Client, ClientConfig};
use mooring_proto::frame::{decode_request, encode_reply};
use mooring_proto::message::Kind;
use mooring_proto::message::data::{
    MountedRange, ReadRangeReply, ReadRangeRequest, WriteRangeReply, WriteRangeRequest,
};
use mooring_proto::message::object::{
    GetReply, GetRequest, ItemsReply, Located, PutEndRequest, PutRevokeRequest, PutStartGrant,
    PutStartReply, PutStartRequest, RangeDescriptor, ValidateRequest,
};
use mooring_proto::message::replicas::Replicas;
use mooring_proto::message::segment::{
    Segment, SegmentEntry, SegmentTableReply, SegmentTableRequest,
};
use mooring_proto::{ClientId, ErrorCode, Incarnation, Refusal, SegmentId};

use crate::fake::{Answer, Call, Server, greet, refuse_with, reply};
use crate::soon;

pub(crate) const MASTER: Incarnation = Incarnation(1);
pub(crate) const STORE_BYTES: usize = 32 << 20;

/// What a store does with the next requests, before it serves again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Refuse(ErrorCode),
    CorruptRead,
    Close,
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) reads: Vec<MountedRange>,
    pub(crate) writes: Vec<MountedRange>,
}

impl Memory {
    fn answer(&mut self, call: &Call) -> Answer {
        match call.kind {
            Kind::ReadRange => self.read(call),
            Kind::WriteRange => self.write(call),
            _ => refuse_with(call, ErrorCode::UnknownKind),
        }
    }

    fn read(&mut self, call: &Call) -> Answer {
        let range = call.message::<ReadRangeRequest>().range;
        let start = usize::try_from(range.offset_bytes).unwrap();
        self.reads.push(range);
        let mut bytes = self.bytes[start..start + range.length_bytes as usize].to_vec();
        let crc32c = crc32c(&bytes);
        match self.faults.pop_front() {
            Some(Fault::Refuse(code)) => return refuse_with(call, code),
            Some(Fault::Close) => return Answer::Close(mooring_proto::close::RESTARTING),
            Some(Fault::CorruptRead) => bytes[0] ^= 1,
            None => {}
        }
        let head = ReadRangeReply { length_bytes: range.length_bytes, crc32c };
        let mut frame = encode_reply(Kind::ReadRange, Ok(&head));
        frame.extend_from_slice(&bytes);
        Answer::Bytes(frame)
    }

    fn write(&mut self, call: &Call) -> Answer {
        let request = call.message::<WriteRangeRequest>();
        self.writes.push(request.range);
        match self.faults.pop_front() {
            Some(Fault::Refuse(code)) => return refuse_with(call, code),
            Some(_) => return Answer::Close(mooring_proto::close::RESTARTING),
            None => {}
        }
        if request.crc32c != crc32c(&call.rest) {
            return refuse_with(call, ErrorCode::ChecksumMismatch);
        }
        let start = usize::try_from(request.range.offset_bytes).unwrap();
        self.bytes[start..start + call.rest.len()].copy_from_slice(&call.rest);
        reply::<WriteRangeRequest>(&WriteRangeReply {})
    }
}

/// CRC-32C by its definition: bit by bit over the reflected polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    let table: Vec<u32> = (0..256).map(|byte| (0..8).fold(byte, |crc, _| shift(crc))).collect();
    !bytes
        .iter()
        .fold(!0_u32, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[derive(Default)]
pub(crate) struct Master {
    pub(crate) lease_ttl_ms: u64,
    pub(crate) discard_timeout_ms: u64,
    pub(crate) table: Vec<SegmentEntry>,
    pub(crate) epoch: u64,
    pub(crate) objects: HashMap<Vec<u8>, Located>,
    unfinished: HashMap<u64, (Vec<u8>, Located)>,
    next_offset_bytes: u64,
    sequence: u64,
    /// So many of the next requests to start are answered by the end of their connection.
    pub(crate) lost_starts: usize,
    /// Refusals of the next items that are started.
    pub(crate) start_refusals: VecDeque<Refusal>,
    /// Answers to the next items that are validated; those after them are confirmed.
    pub(crate) invalid: VecDeque<ErrorCode>,
    pub(crate) validated: usize,
    /// Per request: whether no write was said to be in flight, and how many items.
    pub(crate) revoked: Vec<(bool, usize)>,
    pub(crate) starts: Vec<usize>,
    pub(crate) ends: Vec<usize>,
    pub(crate) gets: usize,
    pub(crate) put_ids: Vec<u64>,
}

impl Master {
    fn answer(&mut self, call: &Call) -> Answer {
        match call.kind {
            Kind::SegmentTable => {
                let request: SegmentTableRequest = call.message();
                let current = request.known == Some((MASTER, self.epoch));
                reply::<SegmentTableRequest>(&SegmentTableReply {
                    incarnation: MASTER,
                    epoch: self.epoch,
                    segments: (!current).then(|| self.table.clone()),
                })
            }
            Kind::PutStart => self.put_start(&decode_request(call.body()).unwrap()),
            Kind::PutEnd => self.put_end(&decode_request(call.body()).unwrap()),
            Kind::PutRevoke => self.put_revoke(&decode_request(call.body()).unwrap()),
            Kind::Get => self.get(&decode_request(call.body()).unwrap()),
            Kind::Validate => self.validate(&decode_request(call.body()).unwrap()),
            _ => greet(call, MASTER, 60_000),
        }
    }

    fn put_start(&mut self, request: &PutStartRequest<'_>) -> Answer {
        self.starts.push(request.items.len());
        if self.lost_starts > 0 {
            self.lost_starts -= 1;
            self.put_ids.extend(request.items.iter().map(|item| item.put_id));
            return Answer::Close(mooring_proto::close::RESTARTING);
        }
        let mut items = Vec::new();
        for item in &request.items {
            self.put_ids.push(item.put_id);
            if let Some(refusal) = self.start_refusals.pop_front() {
                items.push(Err(refusal));
                continue;
            }
            self.sequence += 1;
            let preferred = &request.options.preferred_segments;
            let mut rows: Vec<&SegmentEntry> = self.table.iter().collect();
            rows.sort_by_key(|row| !preferred.contains(&row.segment.segment));
            let replicas: Replicas = rows
                .into_iter()
                .take(usize::from(request.options.replicas))
                .map(|row| RangeDescriptor {
                    slot: row.slot,
                    generation: row.generation,
                    offset_bytes: self.next_offset_bytes,
                })
                .collect();
            self.next_offset_bytes += item.size_bytes;
            let located = Located {
                size_bytes: item.size_bytes,
                sequence: self.sequence,
                replicas: replicas.clone(),
            };
            self.unfinished.insert(self.sequence, (item.key.to_vec(), located));
            items.push(Ok(PutStartGrant { sequence: self.sequence, replicas }));
        }
        reply::<PutStartRequest<'_>>(&PutStartReply {
            incarnation: MASTER,
            segment_epoch: self.epoch,
            discard_timeout_ms: self.discard_timeout_ms,
            items,
        })
    }

    fn put_end(&mut self, request: &PutEndRequest<'_>) -> Answer {
        self.ends.push(request.items.len());
        let end = |item: &mooring_proto::message::object::PutItem<'_>| {
            let (key, located) = self
                .unfinished
                .remove(&item.sequence)
                .ok_or_else(|| Refusal::from(ErrorCode::StaleToken))?;
            assert_eq!(key, item.key.as_ref());
            self.objects.insert(key, located);
            Ok(())
        };
        reply::<PutEndRequest<'_>>(&ItemsReply { items: request.items.iter().map(end).collect() })
    }

    fn put_revoke(&mut self, request: &PutRevokeRequest<'_>) -> Answer {
        self.revoked.push((request.no_write_in_flight, request.items.len()));
        let items = vec![Ok(()); request.items.len()];
        reply::<PutRevokeRequest<'_>>(&ItemsReply { items })
    }

    fn get(&mut self, request: &GetRequest<'_>) -> Answer {
        self.gets += 1;
        let find = |key: &&serde_bytes::Bytes| {
            let found = self.objects.get(key.as_ref()).cloned();
            found.ok_or_else(|| Refusal::from(ErrorCode::NotFound))
        };
        reply::<GetRequest<'_>>(&GetReply {
            incarnation: MASTER,
            segment_epoch: self.epoch,
            lease_ttl_ms: self.lease_ttl_ms,
            items: request.keys.iter().map(find).collect(),
        })
    }

    fn validate(&mut self, request: &ValidateRequest<'_>) -> Answer {
        self.validated += request.items.len();
        let mut confirm = || self.invalid.pop_front().map_or(Ok(()), |code| Err(code.into()));
        let items = request.items.iter().map(|_| confirm()).collect();
        reply::<ValidateRequest<'_>>(&ItemsReply { items })
    }
}

/// A master and its stores.
pub(crate) struct Cluster {
    pub(crate) master: Arc<Mutex<Master>>,
    pub(crate) stores: Vec<Arc<Mutex<Memory>>>,
    server: Server,
    _store_servers: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start(stores: usize) -> Cluster {
        let mut master = Master {
            lease_ttl_ms: 10_000,
            discard_timeout_ms: 30_000,
            epoch: 1,
            ..Master::default()
        };
        let mut memories = Vec::new();
        let mut store_servers = Vec::new();
        for slot in 0..u32::try_from(stores).unwrap() {
            let memory = Memory { bytes: vec![0; STORE_BYTES], ..Memory::default() };
            let memory = Arc::new(Mutex::new(memory));
            let answering = memory.clone();
            let server = Server::store(move |call| answering.lock().unwrap().answer(call));
            master.table.push(entry(slot, &server));
            memories.push(memory);
            store_servers.push(server);
        }
        let master = Arc::new(Mutex::new(master));
        let answering = master.clone();
        let server = Server::master(move |call| answering.lock().unwrap().answer(call));
        Cluster { master, stores: memories, server, _store_servers: store_servers }
    }

    pub(crate) fn config(&self) -> ClientConfig {
        self.server.config()
    }

    pub(crate) async fn client(&self) -> Client {
        soon(Client::connect(self.config())).await.unwrap()
    }
}

fn entry(slot: u32, server: &Server) -> SegmentEntry {
    SegmentEntry {
        slot,
        generation: 3,
        client: ClientId(9),
        segment: Segment {
            segment: SegmentId(u128::from(slot) + 1),
            base: 4096,
            size_bytes: STORE_BYTES as u64,
            endpoint: server.address.to_string(),
            certificate_sha256: Some(server.certificate.sha256()),
            transfer_engine: None,
        },
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(length: usize) -> Bytes {
    (0..length).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
