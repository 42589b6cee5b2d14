//! What the parts of a shard take by themselves: the index, the allocator of ranges, and the choice of a
//! shard. `cargo bench -p mooring-actors --features bench --bench parts`.

#![expect(clippy::unwrap_used, reason = "a measurement ends at what it did not expect")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mooring_actors::Route;
use mooring_actors::bench::{IndexPart, RangesPart};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Many times what caches hold, and filled within a second.
const OBJECTS: u32 = 1_000_000;

/// Keys in one measured step: a batch of the usual size.
const BATCH: usize = 128;

fn index(criterion: &mut Criterion) {
    let mut random = SmallRng::seed_from_u64(1);
    let tags: Vec<u32> = (0..OBJECTS).map(|_| random.random()).collect();
    let mut index = IndexPart::default();
    for (handle, tag) in tags.iter().enumerate() {
        index.insert(*tag, handle as u32);
    }
    let mut order: Vec<usize> = (0..tags.len()).collect();
    order.shuffle(&mut random);
    let mut at = order.iter().cycle();
    let mut group = criterion.benchmark_group("index");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("find", |bencher| {
        bencher.iter(|| {
            let asked: [u32; BATCH] = std::array::from_fn(|_| tags[*at.next().unwrap()]);
            asked.iter().for_each(|tag| index.prefetch(*tag));
            asked.iter().filter(|tag| index.find(**tag).is_some()).count()
        });
    });
    group.bench_function("remove and insert", |bencher| {
        bencher.iter(|| {
            for _ in 0..BATCH {
                let handle = *at.next().unwrap();
                assert!(index.remove(tags[handle], handle as u32));
                index.insert(tags[handle], handle as u32);
            }
        });
    });
    group.finish();
}

fn ranges(criterion: &mut Criterion) {
    let mut random = SmallRng::seed_from_u64(2);
    let mut group = criterion.benchmark_group("ranges");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, sizes_bytes) in [("one size", 262_144..262_145_u64), ("mixed sizes", 256..16_384)] {
        // Room for all of them and an eighth more.
        let mean_bytes = (sizes_bytes.start + sizes_bytes.end) / 2;
        let pages = u64::from(OBJECTS) * mean_bytes * 9 / 8 / u64::from(RangesPart::PAGE_BYTES);
        let mut part = RangesPart::new(u32::try_from(pages).unwrap());
        let mut live: Vec<_> = (0..OBJECTS)
            .map(|owner| part.allocate(random.random_range(sizes_bytes.clone()), owner).unwrap())
            .collect();
        group.bench_function(format!("free and allocate, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    let chosen = random.random_range(0..live.len());
                    part.free(live[chosen]);
                    let size_bytes = random.random_range(sizes_bytes.clone());
                    live[chosen] = part.allocate(size_bytes, chosen as u32).unwrap();
                }
            });
        });
    }
    group.finish();
}

fn route(criterion: &mut Criterion) {
    let route = Route::new(7, 4);
    let keys: Vec<Vec<u8>> = (0..BATCH).map(|key| format!("{key:096x}").into_bytes()).collect();
    let mut group = criterion.benchmark_group("route");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("96-byte keys to 4 shards", |bencher| {
        bencher.iter_batched_ref(
            || [0_u32; 4],
            |by_shard| {
                for key in &keys {
                    by_shard[usize::from(route.shard(route.hash(key)).0)] += 1;
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, index, ranges, route);
criterion_main!(benches);
