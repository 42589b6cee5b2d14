//! The table: every function, its parameters and its result.

use super::declare::{functions, wire_name};
use super::{CallError, Request, unmatched};
use crate::mooncake::body::{self, Form};
use crate::mooncake::data::*;
use crate::mooncake::declare::packing;
use crate::mooncake::error_code::Expected;
use crate::mooncake::exchange::{TooLarge, append_request};
use crate::mooncake::fault::Fault;
use crate::mooncake::literal::Literal;
use crate::mooncake::md5::md5_prefix;
use crate::mooncake::pack::Shape;
use crate::mooncake::values::{Map, Str, Uuid};

functions! { 'a, 'r;
    /// The version of the protocol; a client goes on only if it is its own.
    ServiceReady() -> Expected<Str<'r>>;
    /// Whether there is a tier on disk, and where.
    GetStorageConfig() -> Expected<GetStorageConfigResponse<'r>>;
    /// The directory of the tier on disk.
    GetFsdir() -> Expected<Str<'r>>;
    /// A client lives, and asks what it is to the master.
    Ping(client: Uuid) -> Expected<PingResponse>;

    /// Mounts a segment.
    MountSegment<'a>(segment: Segment<'a>, client: Uuid) -> Expected<()>;
    /// Mounts all segments of a client again.
    ReMountSegment<'a>(segments: Vec<Segment<'a>>, client: Uuid) -> Expected<()>;
    /// Takes a segment away.
    UnmountSegment(segment: Uuid, client: Uuid) -> Expected<()>;
    /// Takes a segment away after a time in which its objects stay readable.
    GracefulUnmountSegment(segment: Uuid, client: Uuid, grace_ms: u64) -> Expected<()>;
    /// What the segments of a name are good for.
    QuerySegmentStatus<'a>(name: Str<'a>) -> Expected<SegmentStatus>;
    /// What a segment is good for.
    QuerySegmentStatusById(segment: Uuid) -> Expected<SegmentStatus>;

    /// Whether an object is readable; if it is, for a lease.
    ExistKey<'a>(key: Str<'a>, tenant: Str<'a>) -> Expected<bool>;
    /// Which objects are readable, as `ExistKey`.
    BatchExistKey<'a>(keys: Vec<Str<'a>>, tenant: Str<'a>) -> Vec<Expected<bool>>;
    /// Where an object can be read, for a lease.
    GetReplicaList<'a>(key: Str<'a>, tenant: Str<'a>)
        -> Expected<GetReplicaListResponse<Vec<Descriptor<'r>>>>;
    /// Where objects can be read, as `GetReplicaList`.
    BatchGetReplicaList<'a>(keys: Vec<Str<'a>>, tenant: Str<'a>)
        -> Vec<Expected<GetReplicaListResponse<Vec<Descriptor<'r>>>>>;
    /// Where the objects can be read whose keys match.
    GetReplicaListByRegex<'a>(regex: Str<'a>, tenant: Str<'a>)
        -> Expected<Map<Str<'r>, Vec<Descriptor<'r>>>>;
    /// The addresses of clients.
    BatchQueryIp(clients: Vec<Uuid>) -> Expected<Map<Uuid, Vec<Str<'r>>>>;

    /// Begins an object: where to write it. The size is `slice_length`, in bytes.
    PutStart<'a>(
        client: Uuid, key: Str<'a>, slice_length: u64, config: ReplicateConfig<'a>, tenant: Str<'a>,
    ) -> Expected<Vec<Descriptor<'r>>>;
    /// Makes an object readable.
    PutEnd<'a>(
        client: Uuid, meta: ObjectMeta<'a>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Expected<()>;
    /// Gives an object up that was begun.
    PutRevoke<'a>(
        client: Uuid, key: Str<'a>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Expected<()>;
    /// Begins objects, as `PutStart`; one length for each key.
    BatchPutStart<'a>(
        client: Uuid, keys: Vec<Str<'a>>, slice_lengths: Vec<u64>, config: ReplicateConfig<'a>,
        tenant: Str<'a>,
    ) -> Vec<Expected<Vec<Descriptor<'r>>>>;
    /// Makes objects readable.
    BatchPutEnd<'a>(
        client: Uuid, metas: Vec<ObjectMeta<'a>>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Vec<Expected<()>>;
    /// Gives objects up that were begun.
    BatchPutRevoke<'a>(
        client: Uuid, keys: Vec<Str<'a>>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Vec<Expected<()>>;
    /// Begins an object, in place of an older one if there is one.
    UpsertStart<'a>(
        client: Uuid, key: Str<'a>, slice_length: u64, config: ReplicateConfig<'a>, tenant: Str<'a>,
    ) -> Expected<Vec<Descriptor<'r>>>;
    /// Makes an object readable that `UpsertStart` began.
    UpsertEnd<'a>(
        client: Uuid, meta: ObjectMeta<'a>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Expected<()>;
    /// Gives an object up that `UpsertStart` began.
    UpsertRevoke<'a>(
        client: Uuid, key: Str<'a>, replica_type: ReplicaType, tenant: Str<'a>,
    ) -> Expected<()>;
    /// Begins objects, as `UpsertStart`; one length for each key.
    BatchUpsertStart<'a>(
        client: Uuid, keys: Vec<Str<'a>>, slice_lengths: Vec<u64>, config: ReplicateConfig<'a>,
        tenant: Str<'a>,
    ) -> Vec<Expected<Vec<Descriptor<'r>>>>;
    /// Makes objects readable that `BatchUpsertStart` began.
    BatchUpsertEnd<'a>(client: Uuid, metas: Vec<ObjectMeta<'a>>, tenant: Str<'a>)
        -> Vec<Expected<()>>;
    /// Gives objects up that `BatchUpsertStart` began.
    BatchUpsertRevoke<'a>(client: Uuid, keys: Vec<Str<'a>>, tenant: Str<'a>) -> Vec<Expected<()>>;

    /// Removes an object; by force also one that is leased.
    Remove<'a>(key: Str<'a>, force: bool, tenant: Str<'a>) -> Expected<()>;
    /// Removes objects, as `Remove`.
    BatchRemove<'a>(keys: Vec<Str<'a>>, force: bool, tenant: Str<'a>) -> Vec<Expected<()>>;
    /// Removes the objects whose keys match, and tells how many.
    RemoveByRegex<'a>(regex: Str<'a>, force: bool, tenant: Str<'a>) -> Expected<i64>;
    /// Removes all objects, and tells how many. The only result without a place for an error.
    RemoveAll<'a>(force: bool, tenant: Str<'a>) -> i64;
    /// Removes replicas from a segment, and tells of which keys.
    BatchReplicaClear<'a>(keys: Vec<Str<'a>>, client: Uuid, segment_name: Str<'a>)
        -> Expected<Vec<Str<'r>>>;
    /// `BatchReplicaClear` as release 0.3.14 calls it.
    BatchReplicaClearOfTenant<'a> = "BatchReplicaClear"(
        keys: Vec<Str<'a>>, client: Uuid, segment_name: Str<'a>, tenant: Str<'a>,
    ) -> Expected<Vec<Str<'r>>>;
    /// Whether the client should drop what it has on disk.
    PollRemoveAll(client: Uuid) -> Expected<bool>;

    /// Orders copies of an object, and names the task.
    CreateCopyTask<'a>(key: Str<'a>, tenant: Str<'a>, targets: Vec<Str<'a>>) -> Expected<Uuid>;
    /// Orders that a replica moves, and names the task.
    CreateMoveTask<'a>(key: Str<'a>, tenant: Str<'a>, source: Str<'a>, target: Str<'a>)
        -> Expected<Uuid>;
    /// How far a task is.
    QueryTask(task: Uuid) -> Expected<QueryTaskResponse<'r>>;
    /// Takes tasks, at most `batch_size`.
    FetchTasks(client: Uuid, batch_size: u64) -> Expected<Vec<TaskAssignment<'r>>>;
    /// Tells how a task ended.
    MarkTaskToComplete<'a>(client: Uuid, outcome: TaskCompleteRequest<'a>) -> Expected<()>;
    /// Begins a copy.
    CopyStart<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, source: Str<'a>, targets: Vec<Str<'a>>,
    ) -> Expected<CopyStartResponse<'r>>;
    /// Makes copies readable.
    CopyEnd<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;
    /// Gives a copy up.
    CopyRevoke<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;
    /// Begins a copy that the master ordered of itself. The meaning of the last two parameters is
    /// not known here; they are an id and a number.
    DynamicReplicaCopyStart<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, source: Str<'a>, targets: Vec<Str<'a>>,
        id: Uuid, number: u64,
    ) -> Expected<CopyStartResponse<'r>>;
    /// Makes such copies readable.
    DynamicReplicaCopyEnd<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, id: Uuid, number: u64,
    ) -> Expected<()>;
    /// Gives such a copy up.
    DynamicReplicaCopyRevoke<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, id: Uuid, number: u64,
    ) -> Expected<()>;
    /// Begins a move.
    MoveStart<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, source: Str<'a>, target: Str<'a>,
    ) -> Expected<MoveStartResponse<'r>>;
    /// Makes the replica readable where it was moved to.
    MoveEnd<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;
    /// Gives a move up.
    MoveRevoke<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;

    /// Mounts the disk of a client.
    MountLocalDiskSegment(client: Uuid, enable_offloading: bool) -> Expected<()>;
    /// Takes the disk of a client away.
    UnmountLocalDiskSegment(client: Uuid) -> Expected<()>;
    /// Takes objects to write to disk.
    OffloadObjectHeartbeat(client: Uuid, enable_offloading: bool)
        -> Expected<Vec<OffloadTaskItem<'r>>>;
    /// Tells the size of the disk.
    ReportSsdCapacity(client: Uuid, capacity_bytes: i64) -> Expected<()>;
    /// Tells which objects are on disk now, and where.
    NotifyOffloadSuccess<'a>(
        client: Uuid, items: Vec<OffloadTaskItem<'a>>, metadata: Vec<StorageObjectMetadata<'a>>,
    ) -> Expected<()>;
    /// Takes objects to bring back from disk.
    PromotionObjectHeartbeat(client: Uuid) -> Expected<Vec<PromotionTaskItem<'r>>>;
    /// Begins to bring an object back: where to write it.
    PromotionAllocStart<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, size: u64, preferred_segments: Vec<Str<'a>>,
    ) -> Expected<PromotionAllocStartResponse<'r>>;
    /// Makes an object readable in memory that came back from disk.
    NotifyPromotionSuccess<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;
    /// Gives the bringing back of an object up.
    NotifyPromotionFailure<'a>(client: Uuid, key: Str<'a>, tenant: Str<'a>) -> Expected<()>;
    /// Removes the replica of an object on disk.
    EvictDiskReplica<'a>(
        client: Uuid, key: Str<'a>, tenant: Str<'a>, replica_type: ReplicaType,
    ) -> Expected<()>;
    /// Removes the replicas of objects on disk.
    BatchEvictDiskReplica<'a>(
        client: Uuid, keys: Vec<Str<'a>>, tenant: Str<'a>, replica_type: ReplicaType,
    ) -> Vec<Expected<()>>;

    /// Mounts an NVMe-oF segment.
    MountNoFSegment<'a>(segment: NoFSegment<'a>, client: Uuid) -> Expected<()>;
    /// Mounts all NVMe-oF segments of a client again.
    ReMountNoFSegment<'a>(segments: Vec<NoFSegment<'a>>, client: Uuid) -> Expected<()>;
    /// Takes an NVMe-oF segment away.
    UnmountNoFSegment(segment: Uuid, client: Uuid) -> Expected<()>;
    /// Every NVMe-oF segment.
    GetAllNoFSegments() -> Expected<Vec<NoFSegment<'r>>>;
    /// Who mounted the NVMe-oF segments of a name.
    GetNoFSegmentsByName<'a>(name: Str<'a>) -> Expected<Vec<NoFSegmentOwnerInfo>>;

    /// Whether an object is readable, without a lease. Since release 0.3.14.
    ProbeKey<'a>(key: Str<'a>, tenant: Str<'a>) -> Expected<bool>;
    /// Which objects are readable, with a lease for those that the policy picks. Since release
    /// 0.3.14.
    BatchProbeKey<'a>(policy: GrantLeasePolicy, keys: Vec<Str<'a>>, tenant: Str<'a>)
        -> Vec<Expected<bool>>;
    /// Where an object lies, without a lease. Since release 0.3.14.
    GetReplicaListForAdmin<'a>(key: Str<'a>, tenant: Str<'a>)
        -> Expected<GetReplicaListResponse<Vec<Descriptor<'r>>>>;
    /// Where objects lie, without a lease. Since release 0.3.14.
    BatchGetReplicaListForAdmin<'a>(keys: Vec<Str<'a>>, tenant: Str<'a>)
        -> Vec<Expected<GetReplicaListResponse<Vec<Descriptor<'r>>>>>;
}
