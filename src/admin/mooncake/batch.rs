//! Where objects lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use mooring_actors::core::SegmentTable;
use mooring_actors::shard::message::{Described, ShardReply, ShardRequest};
use mooring_proto::error::Refusal;
use mooring_proto::limits::BATCH_KEYS_MAX;
use mooring_proto::{ErrorCode, WireError};
use serde::Serialize;

use super::super::{Admin, Serving, query};
use super::problem::Problem;
use super::segments::protocol_of;
use super::serving;
use crate::frontend::bulk::wrong_answer;
use crate::frontend::split::{Gather, split};

/// One replica.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Value {
    size_: u64,
    buffer_address_: u64,
    protocol_: String,
    transport_endpoint_: String,
}

#[derive(Serialize)]
struct One {
    success: bool,
    data: Vec<Value>,
}

/// The replicas of one object. As there, the key stands as it is: nothing in it is decoded.
pub(super) async fn one(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let key = query::raw(query.as_deref(), "key").filter(|key| !key.is_empty());
    let key = key.ok_or(Problem::no_object())?;
    let found = locate(serving(&admin)?, &[key.as_bytes()]).await?.pop();
    let data = found.unwrap_or(Err(ErrorCode::NotFound)).map_err(|code| match code {
        ErrorCode::NotFound => Problem::no_object(),
        other => Problem::from(WireError::new(other, "the object cannot be looked for")),
    })?;
    Ok(Json(One { success: true, data }).into_response())
}

#[derive(Serialize)]
struct Many {
    success: bool,
    data: BTreeMap<String, Item>,
}

/// What is known of a key. There are no replicas on disks.
#[derive(Serialize)]
struct Item {
    ok: bool,
    error: Option<&'static str>,
    values: Option<Vec<Value>>,
    disk_values: Option<Vec<Value>>,
    local_disk_values: Option<Vec<Value>>,
    nof_values: Option<Vec<Value>>,
}

#[derive(Serialize)]
struct Failed {
    success: bool,
    error: &'static str,
}

/// The replicas of many objects, by their keys.
pub(super) async fn many(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let keys = query::decoded(query.as_deref(), "keys").unwrap_or_default();
    let failed =
        |error| (StatusCode::BAD_REQUEST, Json(Failed { success: false, error })).into_response();
    if keys.is_empty() {
        return Ok(failed("No keys provided. Use ?keys=key1,key2,..."));
    }
    // The answer is JSON, in which nothing else can be a key.
    let Ok(keys) = String::from_utf8(keys) else {
        return Ok(failed("keys: not UTF-8"));
    };
    let keys: Vec<&str> = keys.split(',').collect();
    if keys.len() > BATCH_KEYS_MAX {
        return Ok(failed("keys: more than 65536"));
    }
    let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let found = locate(serving(&admin)?, &bytes).await?;
    let items = keys.into_iter().zip(found).map(|(key, found)| {
        let (values, error) = match found {
            Ok(values) => (Some(values), None),
            Err(code) => (None, Some(name_of(code))),
        };
        let item = Item {
            ok: error.is_none(),
            error,
            values,
            disk_values: None,
            local_disk_values: None,
            nof_values: None,
        };
        (key.to_owned(), item)
    });
    Ok(Json(Many { success: true, data: items.collect() }).into_response())
}

type Found = Result<Vec<Value>, ErrorCode>;

/// As that master names it.
fn name_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotFound => "OBJECT_NOT_FOUND",
        _ => "UNAVAILABLE_IN_CURRENT_STATUS",
    }
}

/// Asks the shards without a lease. A shard that has no room fails all of it.
async fn locate(serving: &Serving, keys: &[&[u8]]) -> Result<Vec<Found>, Problem> {
    let core = &serving.context.core;
    let frame = Bytes::from(keys.concat());
    let mut at = 0;
    let places = keys.iter().map(|key| {
        at += key.len();
        &frame[at - key.len()..at]
    });
    let places: Vec<&[u8]> = places.collect();
    let mut sent = Vec::new();
    for part in split(core.route(), &frame, places.into_iter()) {
        let request = ShardRequest::Peek { batch: part.batch };
        sent.push((part.positions, core.shard(part.shard, None, request)?));
    }
    let mut gather = Gather::new(keys.len());
    for (positions, answer) in sent {
        match answer.await? {
            ShardReply::Described(items) => gather.place(&positions, items),
            _ => return Err(wrong_answer().into()),
        }
    }
    let table = core.table();
    let items = gather.finish(|| Err(Refusal::from(ErrorCode::NotFound)));
    Ok(items.into_iter().map(|item| found(&table, item)).collect())
}

fn found(table: &SegmentTable, item: Result<Described, Refusal>) -> Found {
    let object = item.map_err(|refusal| match refusal.code {
        // What cannot be a key has no object.
        ErrorCode::InvalidKey => ErrorCode::NotFound,
        code => code,
    })?;
    let values: Vec<Value> = object
        .replicas
        .iter()
        .filter_map(|replica| {
            let entry = table.segments.iter().find(|entry| {
                (entry.slot, entry.generation) == (replica.slot, replica.generation)
            })?;
            Some(Value {
                size_: object.size_bytes,
                buffer_address_: entry.segment.base + replica.offset_bytes,
                protocol_: protocol_of(&entry.segment).to_owned(),
                transport_endpoint_: entry.segment.endpoint.clone(),
            })
        })
        .collect();
    // Its segment went between the two questions.
    if values.is_empty() { Err(ErrorCode::NotFound) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use mooring_proto::message::object::RangeDescriptor;
    use mooring_proto::message::segment::{Segment, SegmentEntry};
    use mooring_proto::{ClientId, SegmentId};

    use super::*;

    fn table() -> SegmentTable {
        let segment = Segment {
            segment: SegmentId(1),
            base: 1 << 30,
            size_bytes: 1 << 20,
            endpoint: "somewhere:1".to_owned(),
            certificate_sha256: None,
            transfer_engine: None,
        };
        let entry = SegmentEntry { slot: 3, generation: 2, client: ClientId(1), segment };
        SegmentTable { epoch: 1, segments: vec![entry] }
    }

    fn object(places: &[(u32, u32)]) -> Described {
        let replica = |&(slot, generation)| RangeDescriptor { slot, generation, offset_bytes: 256 };
        Described {
            size_bytes: 1000,
            sequence: 1,
            replicas: places.iter().map(replica).collect(),
            checksum: None,
            data_type: 0,
            writer: None,
            group: None,
            lease_left_ms: 0,
            hard_pin: false,
            soft_pin_left_ms: None,
        }
    }

    #[test]
    fn an_object_lies_where_its_mounted_segments_are() {
        let values = found(&table(), Ok(object(&[(3, 2), (3, 1)]))).unwrap();
        let text = serde_json::to_string(&One { success: true, data: values }).unwrap();
        let expected = "{\"success\":true,\"data\":[{\"size_\":1000,\"buffer_address_\":1073742080,\
                        \"protocol_\":\"quic\",\"transport_endpoint_\":\"somewhere:1\"}]}";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_object_whose_segment_has_just_gone_is_missing() {
        assert_eq!(found(&table(), Ok(object(&[(3, 1)]))), Err(ErrorCode::NotFound));
        let refused = |code| found(&table(), Err(Refusal::from(code)));
        assert_eq!(refused(ErrorCode::NotFound), Err(ErrorCode::NotFound));
        assert_eq!(refused(ErrorCode::InvalidKey), Err(ErrorCode::NotFound));
        assert_eq!(refused(ErrorCode::Restarting), Err(ErrorCode::Restarting));
    }

    #[test]
    fn a_key_without_an_object_has_every_field() {
        let item = Item {
            ok: false,
            error: Some(name_of(ErrorCode::NotFound)),
            values: None,
            disk_values: None,
            local_disk_values: None,
            nof_values: None,
        };
        let expected = "{\"ok\":false,\"error\":\"OBJECT_NOT_FOUND\",\"values\":null,\
                        \"disk_values\":null,\"local_disk_values\":null,\"nof_values\":null}";
        assert_eq!(serde_json::to_string(&item).unwrap(), expected);
    }
}
