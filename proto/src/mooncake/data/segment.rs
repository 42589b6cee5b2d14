//! Segments of memory, and who pings for them.

use super::super::declare::{named_numbers, structs};
use super::super::values::{Str, Uuid};

named_numbers! {
    /// What a client is to the master.
    ClientStatus: i32 {
        /// Nothing is known.
        UNDEFINED = 0,
        /// It pings, and its segments are mounted.
        OK = 1,
        /// It must mount its segments again.
        NEED_REMOUNT = 2,
    }

    /// What a segment is good for.
    SegmentStatus: i32 {
        /// Nothing is known.
        UNDEFINED = 0,
        /// For all uses.
        OK = 1,
        /// Its objects are being moved away.
        DRAINING = 2,
        /// Its objects were moved away.
        DRAINED = 3,
        /// It leaves when its time is over.
        GRACEFULLY_UNMOUNTING = 4,
        /// It leaves.
        UNMOUNTING = 5,
    }
}

structs! { 'a;
    /// A segment of memory that a client mounts.
    Segment<'a> {
        /// Its id.
        id: Uuid,
        /// Its name; several segments may share one.
        name: Str<'a>,
        /// Its first address in the client's process.
        base: u64,
        /// Its size in bytes.
        size: u64,
        /// Where its bytes are read and written; goes into descriptors as it is.
        te_endpoint: Str<'a>,
        /// How its bytes are read and written, such as `tcp`; goes into descriptors as it is.
        protocol: Str<'a>,
        /// The machine, or empty.
        host_id: Str<'a>,
    }

    /// A segment of an NVMe-oF device.
    NoFSegment<'a> {
        /// Its id.
        id: Uuid,
        /// Its name.
        name: Str<'a>,
        /// Its first address.
        base: u64,
        /// Its size in bytes.
        size: u64,
        /// Where its bytes are read and written.
        te_endpoint: Str<'a>,
    }

    /// Who mounted an NVMe-oF segment.
    NoFSegmentOwnerInfo {
        /// The segment.
        segment_id: Uuid,
        /// The client.
        client_id: Uuid,
    }

    /// The answer to a ping.
    PingResponse {
        /// The version of the view of a group of masters; of a single one, any constant.
        view_version_id: i64,
        /// What the client is to the master.
        client_status: ClientStatus,
    }

    /// Whether there is a tier on disk, and where.
    GetStorageConfigResponse<'a> {
        /// The directory; empty without such a tier.
        fsdir: Str<'a>,
        /// Whether files are evicted.
        enable_disk_eviction: bool,
        /// Most bytes of files.
        quota_bytes: u64,
    }
}
