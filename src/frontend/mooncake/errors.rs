//! Refusals of the core as the codes that clients of Mooncake know.

use mooring_proto::error::Refusal;
use mooring_proto::mooncake::ErrorCode as Code;
use mooring_proto::{ErrorCode, WireError};

/// The code for a refusal. A client acts on a few of them: a put takes OBJECT_ALREADY_EXISTS for
/// success, and a get takes OBJECT_NOT_FOUND and REPLICA_IS_NOT_READY for a miss.
pub(super) fn code_of(code: ErrorCode) -> Code {
    match code {
        ErrorCode::NotFound | ErrorCode::Changed => Code::OBJECT_NOT_FOUND,
        ErrorCode::AlreadyExists | ErrorCode::PutInProgress => Code::OBJECT_ALREADY_EXISTS,
        ErrorCode::NotReadable => Code::REPLICA_IS_NOT_READY,
        ErrorCode::Leased => Code::OBJECT_HAS_LEASE,
        ErrorCode::NotWriter | ErrorCode::NotOwner => Code::ILLEGAL_CLIENT,
        ErrorCode::StaleToken | ErrorCode::PutComplete => Code::INVALID_WRITE,
        // What a client can do about all of them is the same: put something else, or later.
        ErrorCode::NoSpace
        | ErrorCode::NoSegment
        | ErrorCode::LargerThanSegments
        | ErrorCode::Overloaded
        | ErrorCode::DeadlineExceeded
        | ErrorCode::NeedRemount => Code::NO_AVAILABLE_HANDLE,
        ErrorCode::InvalidKey
        | ErrorCode::InvalidSize
        | ErrorCode::InvalidArgument
        | ErrorCode::TooLarge
        | ErrorCode::SegmentConflict
        | ErrorCode::SegmentOverlap
        | ErrorCode::InvalidSegment => Code::INVALID_PARAMS,
        ErrorCode::SegmentNotFound => Code::SEGMENT_NOT_FOUND,
        ErrorCode::SegmentLeaving | ErrorCode::Restarting | ErrorCode::NotReady => {
            Code::UNAVAILABLE_IN_CURRENT_STATUS
        }
        _ => Code::INTERNAL_ERROR,
    }
}

/// The code for the refusal of one key.
pub(super) fn item(refusal: Refusal) -> Code {
    code_of(refusal.code)
}

/// The code for the refusal of a whole request.
pub(super) fn whole(error: WireError) -> Code {
    tracing::debug!(%error, "request refused");
    code_of(error.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_the_master_is_answered_as_one() {
        for code in ErrorCode::ALL {
            let fault = matches!(
                code,
                ErrorCode::Internal
                    | ErrorCode::UnsupportedVersion
                    | ErrorCode::UnknownKind
                    | ErrorCode::Malformed
                    | ErrorCode::HelloRequired
                    | ErrorCode::Forbidden
                    | ErrorCode::WrongMount
                    | ErrorCode::OutOfRange
                    | ErrorCode::ChecksumMismatch
            );
            assert_eq!(code_of(*code) == Code::INTERNAL_ERROR, fault, "{code:?}");
        }
    }
}
