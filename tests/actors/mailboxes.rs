//! The shells on kameo: full mailboxes, coming to rest with requests waiting, callers that leave.

use bytes::Bytes;
use mooring_actors::ShardId;
use mooring_actors::beside::refused_thread;
use mooring_actors::core::{CallError, Core, CoreConfig, Layout};
use mooring_actors::handoff::{ExportError, RangeRecord, RecordSink, ShardRecord};
use mooring_actors::shard::message::{KeyBatch, KeyRef, ShardReply, ShardRequest};
use mooring_proto::Incarnation;

fn core(mailbox_requests: usize) -> Core {
    Core::start(CoreConfig { mailbox_requests, ..CoreConfig::new(1, 7, Incarnation(1)) })
}

fn exist(core: &Core) -> ShardRequest {
    let key = KeyRef { hash: core.route().hash(b"k"), at: 0, length: 1 };
    let batch = KeyBatch { frame: Bytes::from_static(b"k"), keys: vec![key] };
    ShardRequest::Exist { lease: false, batch }
}

// R55
#[tokio::test]
async fn a_full_mailbox_refuses_at_once_and_every_accepted_request_is_answered() {
    let core = core(1);
    let mut accepted = Vec::new();
    let mut refused = 0;
    // Nothing else runs on this thread meanwhile, so the mailbox of one stays full.
    for _ in 0..1_000 {
        match core.shard(ShardId(0), None, exist(&core)) {
            Ok(answer) => accepted.push(answer),
            Err(CallError::Overloaded { retry_after_ms }) => {
                assert!(retry_after_ms > 0);
                refused += 1;
            }
            Err(CallError::Gone) => panic!("the shard lives"),
        }
    }
    assert!(refused > 900, "only {refused} were refused");
    assert!(!accepted.is_empty());
    for answer in accepted {
        assert_eq!(answer.await, Ok(ShardReply::Existing(vec![false])));
    }
    let answer = core.shard(ShardId(0), None, exist(&core)).expect("the mailbox is empty again");
    assert_eq!(answer.await, Ok(ShardReply::Existing(vec![false])));
}

// R55
#[tokio::test]
async fn requests_that_wait_when_the_actors_come_to_rest_are_answered() {
    let core = core(1_024);
    let waiting: Vec<_> = (0..500)
        .map(|_| core.shard(ShardId(0), None, exist(&core)).expect("there is room"))
        .collect();
    core.quiesce(true).await.expect("the actors live");
    for answer in waiting {
        let answer = answer.await;
        assert!(
            matches!(answer, Ok(ShardReply::Existing(_)) | Err(CallError::Gone)),
            "a result or restarting, not {answer:?}"
        );
    }
    let late = core.shard(ShardId(0), None, exist(&core)).expect("the mailbox is open");
    assert_eq!(late.await, Err(CallError::Gone), "nothing is decided at rest");
}

// R55
#[tokio::test]
async fn a_caller_that_leaves_before_its_answer_harms_nobody() {
    let core = core(1_024);
    for _ in 0..100 {
        drop(core.shard(ShardId(0), None, exist(&core)).expect("there is room"));
    }
    let answer = core.shard(ShardId(0), None, exist(&core)).expect("there is room");
    assert_eq!(answer.await, Ok(ShardReply::Existing(vec![false])));
}

/// Takes nothing and is content with it.
struct Nothing;

impl RecordSink for Nothing {
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        panic!("an empty shard has no {record:?}")
    }

    fn finish(&mut self, _: &ShardRecord) -> Result<(), ExportError> {
        Ok(())
    }
}

/// The note that it serves stands by then, so what was restored has no other copy any more.
#[tokio::test]
async fn actors_that_are_refused_their_threads_serve_rest_and_hand_over_all_the_same() {
    let core = Core::start(CoreConfig {
        layout: Layout::Threads,
        thread: refused_thread,
        ..CoreConfig::new(2, 7, Incarnation(1))
    });
    let answer = core.shard(ShardId(0), None, exist(&core)).unwrap();
    assert_eq!(answer.await, Ok(ShardReply::Existing(vec![false])));
    core.stop_judging();
    core.quiesce(true).await.unwrap();
    let (pool, clients) = core.export_tables().await.unwrap();
    assert_eq!(clients, []);
    for shard in 0..2 {
        let exported = core.export_shard(ShardId(shard), &pool, Box::new(Nothing)).await;
        assert_eq!(exported.map(|record| record.objects), Ok(0));
    }
}
