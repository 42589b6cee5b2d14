//! Work that a master gives to clients: copies, moves, and the tier on disk.

use super::super::declare::{named_numbers, structs};
use super::super::values::{Str, Uuid};
use super::object::Descriptor;

named_numbers! {
    /// What a task does.
    TaskType: i32 {
        /// Copies a replica.
        REPLICA_COPY = 0,
        /// Moves a replica.
        REPLICA_MOVE = 1,
    }

    /// How far a task is.
    TaskStatus: i32 {
        /// Nobody has begun.
        PENDING = 0,
        /// A client is at it.
        PROCESSING = 1,
        /// It ended in failure.
        FAILED = 2,
        /// It ended well.
        SUCCESS = 3,
    }
}

structs! { 'a;
    /// From where and to where to copy.
    CopyStartResponse<'a> {
        /// The replica to read.
        source: Descriptor<'a>,
        /// The replicas to write.
        targets: Vec<Descriptor<'a>>,
    }

    /// From where and to where to move.
    MoveStartResponse<'a> {
        /// The replica to read.
        source: Descriptor<'a>,
        /// The replica to write, if there is none there yet.
        target: Option<Descriptor<'a>>,
    }

    /// Where to write an object that comes back from disk.
    PromotionAllocStartResponse<'a> {
        /// The replica to write.
        memory_descriptor: Descriptor<'a>,
    }

    /// How far a task is.
    QueryTaskResponse<'a> {
        /// The task.
        id: Uuid,
        /// What it does.
        kind: TaskType,
        /// How far it is.
        status: TaskStatus,
        /// When it was made, in milliseconds since 1970.
        created_at_ms_epoch: i64,
        /// When it last changed, in milliseconds since 1970.
        last_updated_at_ms_epoch: i64,
        /// The client that does it.
        assigned_client: Uuid,
        /// What is to be said about it.
        message: Str<'a>,
    }

    /// A task for the client that asks.
    TaskAssignment<'a> {
        /// The task.
        id: Uuid,
        /// What it does.
        kind: TaskType,
        /// Its particulars, in JSON.
        payload: Str<'a>,
        /// When it was made, in milliseconds since 1970.
        created_at_ms_epoch: i64,
        /// How often to try again.
        max_retry_attempts: u32,
    }

    /// How a task ended.
    TaskCompleteRequest<'a> {
        /// The task.
        id: Uuid,
        /// How it ended.
        status: TaskStatus,
        /// What is to be said about it.
        message: Str<'a>,
    }

    /// An object to write to disk.
    OffloadTaskItem<'a> {
        /// The tenant.
        tenant_id: Str<'a>,
        /// The key.
        key: Str<'a>,
        /// The size in bytes.
        size: i64,
    }

    /// An object to bring back from disk.
    PromotionTaskItem<'a> {
        /// The tenant.
        tenant_id: Str<'a>,
        /// The key.
        key: Str<'a>,
        /// The size in bytes.
        size: i64,
    }

    /// Where an object lies on the disk of a client.
    StorageObjectMetadata<'a> {
        /// The bucket.
        bucket_id: i64,
        /// Where it starts in the bucket, in bytes.
        offset: i64,
        /// The size of the key in bytes.
        key_size: i64,
        /// The size of the data in bytes.
        data_size: i64,
        /// Where the client is asked for it.
        transport_endpoint: Str<'a>,
    }
}
