//! What the codec takes for the usual batches: decoding what a master is asked, and encoding what it
//! answers. `cargo bench -p mooring-proto --bench codec`.

#![expect(clippy::unwrap_used, reason = "a measurement ends at what it did not expect")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mooring_proto::Incarnation;
use mooring_proto::frame::{self, REQUEST_HEADER_BYTES};
use mooring_proto::message::Kind;
use mooring_proto::message::object::{
    GetReply, GetRequest, Located, PutOptions, PutStartItem, PutStartRequest, RangeDescriptor,
};
use mooring_proto::message::replicas::Replicas;
use serde_bytes::Bytes;

/// As long as the keys of vLLM and LMCache mostly are.
const KEY_BYTES: usize = 96;

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{number:0KEY_BYTES$x}").into_bytes()).collect()
}

fn body_of(frame: &[u8]) -> &[u8] {
    &frame[REQUEST_HEADER_BYTES..]
}

fn gets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get");
    for count in [128, 4096] {
        group.throughput(Throughput::Elements(count as u64));
        let keys = keys(count);
        let request = GetRequest { keys: keys.iter().map(|key| Bytes::new(key)).collect() };
        let asked = frame::encode_request(&request, 0, None).unwrap();
        group.bench_with_input(BenchmarkId::new("decode", count), &asked, |bencher, asked| {
            bencher.iter(|| frame::decode_request::<GetRequest<'_>>(body_of(asked)).unwrap());
        });
        let reply = GetReply {
            incarnation: Incarnation(0x9e37_79b9_7f4a_7c15),
            segment_epoch: 7,
            lease_ttl_ms: 5_000,
            items: (0..count as u64).map(|number| Ok(located(number))).collect(),
        };
        group.bench_with_input(BenchmarkId::new("encode", count), &reply, |bencher, reply| {
            bencher.iter(|| frame::encode_reply(Kind::Get, Ok(reply)));
        });
    }
    group.finish();
}

fn located(number: u64) -> Located {
    let range = RangeDescriptor { slot: 3, generation: 1, offset_bytes: number << 18 };
    Located { size_bytes: 1 << 18, sequence: 1 << 32 | number, replicas: Replicas::from(range) }
}

fn puts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put_start");
    let keys = keys(64);
    group.throughput(Throughput::Elements(keys.len() as u64));
    let items = keys.iter().zip(1..).map(|(key, put_id)| PutStartItem {
        key: Bytes::new(key),
        size_bytes: 1 << 18,
        put_id,
    });
    let request = PutStartRequest { options: PutOptions::default(), items: items.collect() };
    let asked = frame::encode_request(&request, 0, None).unwrap();
    group.bench_function("decode/64", |bencher| {
        bencher.iter(|| frame::decode_request::<PutStartRequest<'_>>(body_of(&asked)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, gets, puts);
criterion_main!(benches);
