//! Following a request through the shells, and the long jobs that run for one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooring_actors::ShardId;
use mooring_actors::core::{Core, CoreConfig};
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_actors::shard::message::{KeyBatch, KeyRef, PutRequest, ShardReply, ShardRequest};
use mooring_actors::shard::{JobKind, JobReport};
use mooring_actors::watch::Watch;
use mooring_proto::frame::TraceContext;
use mooring_proto::message::object::PutOptions;
use mooring_proto::message::segment::{MountRequest, Segment};
use mooring_proto::{ClientId, Incarnation, SegmentId};

fn trace(number: u8) -> TraceContext {
    TraceContext { trace_id: [number; 16], span_id: [number; 8], flags: 1 }
}

fn mount(size_bytes: u64) -> PoolRequest {
    let segment = Segment {
        segment: SegmentId(1),
        base: 1 << 30,
        size_bytes,
        endpoint: "host-1:1".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    };
    PoolRequest::Mount { client: CLIENT, mount: MountRequest { segment, mounted_with: None } }
}

/// A batch of one key.
fn batch(core: &Core, key: &str) -> KeyBatch {
    let hash = core.route().hash(key.as_bytes());
    let frame = Bytes::copy_from_slice(key.as_bytes());
    KeyBatch { frame, keys: vec![KeyRef { hash, at: 0, length: key.len() as u32 }] }
}

/// Puts an object and makes it readable. The start may be followed.
async fn put(core: &Core, key: &str, size_bytes: u64, watch: Option<Arc<Watch>>) {
    let start = ShardRequest::PutStart {
        client: CLIENT,
        options: PutOptions::default(),
        extras: None,
        batch: batch(core, key),
        puts: vec![PutRequest { size_bytes, put_id: 1 }],
    };
    let answer = core.shard_watched(ShardId(0), None, start, watch).expect("there is room");
    let Ok(ShardReply::Started(grants)) = answer.await else { panic!("a start") };
    let sequence = grants[0].as_ref().expect("it is granted").sequence;
    let (incarnation, sequences) = (core.incarnation(), vec![sequence]);
    let end = ShardRequest::PutEnd { incarnation, batch: batch(core, key), sequences };
    let answer = core.shard(ShardId(0), None, end).expect("there is room");
    assert_eq!(answer.await, Ok(ShardReply::Done(vec![Ok(())])));
}

/// The first report of this kind, when it comes.
async fn report_of(reports: &Mutex<Vec<JobReport>>, kind: JobKind) -> JobReport {
    let found = async {
        loop {
            let found =
                reports.lock().expect("no panic").iter().find(|it| it.kind == kind).cloned();
            match found {
                Some(report) => return report,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("the job ends")
}

#[tokio::test]
async fn a_followed_request_tells_when_it_was_taken_and_when_it_was_done_with() {
    let core = Core::start(CoreConfig::new(1, 7, Incarnation(1)));
    let watch = Arc::new(Watch::new(trace(1)));
    assert_eq!((watch.taken(), watch.worked()), (None, None));
    let sent = Instant::now();
    let exist = ShardRequest::Exist { lease: false, batch: batch(&core, "k") };
    let answer = core.shard_watched(ShardId(0), None, exist, Some(watch.clone()));
    assert_eq!(answer.expect("there is room").await, Ok(ShardReply::Existing(vec![false])));
    let (taken, worked) = (watch.taken().expect("taken"), watch.worked().expect("worked"));
    let answered = watch.answered().expect("answered");
    assert!(sent <= taken && taken <= worked && worked <= answered && answered <= Instant::now());

    let watch = Arc::new(Watch::new(trace(2)));
    core.pool_watched(PoolRequest::Totals, Some(watch.clone())).await.expect("the pool lives");
    assert!(watch.taken().expect("taken") <= watch.worked().expect("worked"));
}

#[tokio::test]
async fn a_sweep_is_told_with_the_request_that_it_ran_for() {
    static REPORTS: Mutex<Vec<JobReport>> = Mutex::new(Vec::new());
    let on_job = |report| REPORTS.lock().expect("no panic").push(report);
    let core =
        Core::start(CoreConfig { on_job: Some(on_job), ..CoreConfig::new(1, 7, Incarnation(1)) });
    core.pool(mount(1 << 20)).await.expect("the pool lives");
    put(&core, "a", 4096, None).await;
    put(&core, "b", 4096, None).await;

    let watch = Arc::new(Watch::new(trace(3)));
    let all = ShardRequest::RemoveAll { force: true };
    let answer = core.shard_watched(ShardId(0), None, all, Some(watch)).expect("there is room");
    assert_eq!(answer.await, Ok(ShardReply::Removed { removed: 2, kept: 0 }));
    let report = report_of(&REPORTS, JobKind::RemoveAll).await;
    assert_eq!((report.objects, report.slices, report.causes), (2, 1, vec![trace(3)]));
    assert!(report.began <= report.ended && report.worked <= report.ended - report.began);

    put(&core, "c", 4096, None).await;
    let unmount = PoolRequest::Unmount { client: Some(CLIENT), segment: SegmentId(1), grace_ms: 0 };
    let watch = Arc::new(Watch::new(trace(4)));
    let unmounted = core.pool_watched(unmount, Some(watch)).await.expect("the pool lives");
    assert_eq!(unmounted, PoolReply::Unmounted(Ok(0)));
    let report = report_of(&REPORTS, JobKind::SweepSegment).await;
    assert_eq!((report.objects, report.causes), (1, vec![trace(4)]));
}

#[tokio::test]
async fn an_eviction_is_told_with_the_put_that_needed_room() {
    static REPORTS: Mutex<Vec<JobReport>> = Mutex::new(Vec::new());
    let on_job = |report| REPORTS.lock().expect("no panic").push(report);
    let core =
        Core::start(CoreConfig { on_job: Some(on_job), ..CoreConfig::new(1, 7, Incarnation(1)) });
    core.pool(mount(1 << 20)).await.expect("the pool lives");
    // Up to the watermark, and the one that goes beyond it is followed.
    for number in 0..14 {
        put(&core, &format!("k{number}"), 64 << 10, None).await;
    }
    assert!(REPORTS.lock().expect("no panic").is_empty());
    put(&core, "one more", 64 << 10, Some(Arc::new(Watch::new(trace(5))))).await;
    let report = report_of(&REPORTS, JobKind::Evict).await;
    assert!(report.objects > 0 && report.bytes >= report.objects << 16, "{report:?}");
    assert_eq!(report.causes, [trace(5)]);
}

const CLIENT: ClientId = ClientId(9);
