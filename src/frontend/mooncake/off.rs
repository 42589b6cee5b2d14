//! Functions of features that this master does not have: disks of clients, copies and moves, NVMe-oF.
//! Each answers what the existing master does when the feature is switched off or has nothing to do.

use mooring_proto::mooncake::*;

use super::router::Scope;

const SWITCHED_OFF: ErrorCode = ErrorCode::UNAVAILABLE_IN_CURRENT_MODE;

/// The answer to a call that no other file answers.
pub(super) fn answer(scope: &Scope<'_>, call: &Call<'_>) -> Vec<u8> {
    match call {
        Call::MountLocalDiskSegment(_)
        | Call::UnmountLocalDiskSegment(_)
        | Call::OffloadObjectHeartbeat(_)
        | Call::ReportSsdCapacity(_)
        | Call::NotifyOffloadSuccess(_)
        | Call::PollRemoveAll(_)
        | Call::PromotionObjectHeartbeat(_)
        | Call::PromotionAllocStart(_)
        | Call::NotifyPromotionSuccess(_)
        | Call::NotifyPromotionFailure(_)
        | Call::EvictDiskReplica(_)
        | Call::BatchEvictDiskReplica(_) => disk(scope, call),
        Call::MountNoFSegment(_) => refuse::<MountNoFSegment<'_>, ()>(scope, SWITCHED_OFF),
        Call::ReMountNoFSegment(_) => refuse::<ReMountNoFSegment<'_>, ()>(scope, SWITCHED_OFF),
        Call::UnmountNoFSegment(_) => refuse::<UnmountNoFSegment, ()>(scope, SWITCHED_OFF),
        Call::GetAllNoFSegments(_) => {
            scope.reply::<GetAllNoFSegments, _, _>(&Expected::Ok(Vec::<NoFSegment<'_>>::new()))
        }
        Call::GetNoFSegmentsByName(_) => {
            let code = ErrorCode::SEGMENT_NOT_FOUND;
            refuse::<GetNoFSegmentsByName<'_>, Vec<NoFSegmentOwnerInfo>>(scope, code)
        }
        _ => copies(scope, call),
    }
}

/// Nobody has a disk here, so there is nothing to write to one or to bring back.
fn disk(scope: &Scope<'_>, call: &Call<'_>) -> Vec<u8> {
    let absent = ErrorCode::SEGMENT_NOT_FOUND;
    let nothing = ErrorCode::OBJECT_NOT_FOUND;
    match call {
        Call::MountLocalDiskSegment(_) => {
            refuse::<MountLocalDiskSegment, ()>(scope, ErrorCode::UNABLE_OFFLOAD)
        }
        Call::UnmountLocalDiskSegment(_) => {
            refuse::<UnmountLocalDiskSegment, ()>(scope, ErrorCode::UNABLE_OFFLOAD)
        }
        Call::OffloadObjectHeartbeat(_) => {
            refuse::<OffloadObjectHeartbeat, Vec<OffloadTaskItem<'_>>>(scope, absent)
        }
        Call::ReportSsdCapacity(_) => refuse::<ReportSsdCapacity, ()>(scope, absent),
        Call::NotifyOffloadSuccess(call) if call.items.is_empty() => {
            scope.done::<NotifyOffloadSuccess<'_>>()
        }
        Call::NotifyOffloadSuccess(_) => refuse::<NotifyOffloadSuccess<'_>, ()>(scope, absent),
        Call::PollRemoveAll(_) => refuse::<PollRemoveAll, bool>(scope, absent),
        Call::PromotionObjectHeartbeat(_) => {
            refuse::<PromotionObjectHeartbeat, Vec<PromotionTaskItem<'_>>>(scope, absent)
        }
        Call::PromotionAllocStart(_) => {
            refuse::<PromotionAllocStart<'_>, PromotionAllocStartResponse<'_>>(scope, nothing)
        }
        Call::NotifyPromotionSuccess(_) => refuse::<NotifyPromotionSuccess<'_>, ()>(scope, nothing),
        Call::NotifyPromotionFailure(_) => refuse::<NotifyPromotionFailure<'_>, ()>(scope, nothing),
        Call::EvictDiskReplica(call) => {
            refuse::<EvictDiskReplica<'_>, ()>(scope, evict_refusal(call.replica_type))
        }
        Call::BatchEvictDiskReplica(call) => {
            let refusal = evict_refusal(call.replica_type);
            let answers: Vec<Expected<()>> = call.keys.iter().map(|_| Err(refusal)).collect();
            let items = answers.len();
            scope.reply_items::<BatchEvictDiskReplica<'_>, _>(items, items, &answers)
        }
        other => scope.unanswered(other.function()),
    }
}

/// No object has a replica on a disk.
fn evict_refusal(replica_type: ReplicaType) -> ErrorCode {
    match replica_type {
        ReplicaType::DISK | ReplicaType::LOCAL_DISK => ErrorCode::OBJECT_NOT_FOUND,
        _ => ErrorCode::INVALID_PARAMS,
    }
}

/// This master orders no copies and no moves, and knows of none that others began.
fn copies(scope: &Scope<'_>, call: &Call<'_>) -> Vec<u8> {
    let unknown = ErrorCode::OBJECT_NO_REPLICATION_TASK;
    match call {
        Call::CreateCopyTask(_) => refuse::<CreateCopyTask<'_>, Uuid>(scope, SWITCHED_OFF),
        Call::CreateMoveTask(_) => refuse::<CreateMoveTask<'_>, Uuid>(scope, SWITCHED_OFF),
        Call::QueryTask(_) => {
            refuse::<QueryTask, QueryTaskResponse<'_>>(scope, ErrorCode::TASK_NOT_FOUND)
        }
        Call::MarkTaskToComplete(_) => {
            refuse::<MarkTaskToComplete<'_>, ()>(scope, ErrorCode::TASK_NOT_FOUND)
        }
        Call::CopyStart(_) => refuse::<CopyStart<'_>, CopyStartResponse<'_>>(scope, SWITCHED_OFF),
        Call::CopyEnd(_) => refuse::<CopyEnd<'_>, ()>(scope, unknown),
        Call::CopyRevoke(_) => refuse::<CopyRevoke<'_>, ()>(scope, unknown),
        Call::DynamicReplicaCopyStart(_) => {
            refuse::<DynamicReplicaCopyStart<'_>, CopyStartResponse<'_>>(scope, SWITCHED_OFF)
        }
        Call::DynamicReplicaCopyEnd(_) => refuse::<DynamicReplicaCopyEnd<'_>, ()>(scope, unknown),
        Call::DynamicReplicaCopyRevoke(_) => {
            refuse::<DynamicReplicaCopyRevoke<'_>, ()>(scope, unknown)
        }
        Call::MoveStart(_) => refuse::<MoveStart<'_>, MoveStartResponse<'_>>(scope, SWITCHED_OFF),
        Call::MoveEnd(_) => refuse::<MoveEnd<'_>, ()>(scope, unknown),
        Call::MoveRevoke(_) => refuse::<MoveRevoke<'_>, ()>(scope, unknown),
        other => scope.unanswered(other.function()),
    }
}

fn refuse<R: Request, T>(scope: &Scope<'_>, code: ErrorCode) -> Vec<u8>
where
    Expected<T>: Pack,
{
    scope.reply::<R, T, ErrorCode>(&Err(code))
}
