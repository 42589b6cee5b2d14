//! What was asked, kept until the answer.

use mooring_actors::Moment;
use mooring_proto::{ClientId, SegmentId};

/// One put of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PutAsked {
    pub(crate) key: u32,
    pub(crate) size_bytes: u64,
    pub(crate) client: ClientId,
    pub(crate) put_id: u64,
}

/// A request that waits for its answer. Pairs are a key and the number of a put.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Start {
        puts: Vec<PutAsked>,
        hard_pin: bool,
        replicas: u8,
    },
    End {
        puts: Vec<(u32, u64)>,
    },
    Revoke {
        puts: Vec<(u32, u64)>,
        quiet: bool,
    },
    Get {
        keys: Vec<u32>,
        sent: Moment,
        client: usize,
    },
    Exist {
        keys: Vec<u32>,
        lease: bool,
    },
    /// With whether the bytes were right that the reader wants to use.
    Validate {
        puts: Vec<(u32, u64)>,
        intact: bool,
    },
    Remove {
        keys: Vec<u32>,
        force: bool,
    },
    RemoveAll {
        force: bool,
    },
    /// Something whose answer only has to come.
    Other,
    Remount {
        store: usize,
        process: ClientId,
        segments: Vec<SegmentId>,
    },
    Mount {
        store: usize,
        process: ClientId,
        segment: SegmentId,
    },
    Unmount {
        store: usize,
        process: ClientId,
        segment: SegmentId,
        grace_ms: u64,
    },
    Ping {
        store: Option<usize>,
        process: ClientId,
    },
}
