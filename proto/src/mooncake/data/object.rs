//! Objects: what a put asks for, and where replicas lie.

use super::super::declare::{named_numbers, structs};
use super::super::fault::{Cause, Fault};
use super::super::literal::Literal;
use super::super::pack::{Pack, Reader, Shape, Unpack, Writer};
use super::super::values::{Str, Uuid};

named_numbers! {
    /// What becomes of a soft pin when an object is put over an older one.
    SoftPinAction: u8 {
        /// It stays as it is.
        PRESERVE = 0,
        /// There is one.
        ENABLE = 1,
        /// There is none.
        DISABLE = 2,
    }

    /// What an object contains.
    ObjectDataType: u8 {
        /// Not said.
        UNKNOWN = 0,
        /// Keys and values of an attention layer.
        KVCACHE = 1,
        /// A tensor.
        TENSOR = 2,
        /// Weights of a model.
        WEIGHT = 3,
        /// A sample.
        SAMPLE = 4,
        /// An activation.
        ACTIVATION = 5,
        /// A gradient.
        GRADIENT = 6,
        /// The state of an optimizer.
        OPTIMIZER_STATE = 7,
        /// Data about data.
        METADATA = 8,
        /// Something else.
        GENERAL = 9,
    }

    /// On what a replica lies.
    ReplicaType: i32 {
        /// In a mounted segment of memory.
        MEMORY = 0,
        /// In a file of a shared directory.
        DISK = 1,
        /// On the disk of a client.
        LOCAL_DISK = 2,
        /// On an NVMe-oF device.
        NOF_SSD = 3,
        /// On any of them.
        ALL = 4,
        /// In a distributed file system.
        DFS = 100,
    }

    /// How far the writing of a replica is.
    ReplicaStatus: i32 {
        /// Nothing is known.
        UNDEFINED = 0,
        /// It has a place.
        INITIALIZED = 1,
        /// It is being written.
        PROCESSING = 2,
        /// It is readable.
        COMPLETE = 3,
        /// It was removed.
        REMOVED = 4,
        /// It could not be written.
        FAILED = 5,
    }
}

structs! { 'a;
    /// What a put asks for.
    ReplicateConfig<'a> {
        /// Replicas in memory.
        replica_num: u64,
        /// Replicas on NVMe-oF devices.
        nof_replica_num: u64,
        /// Replicas in a distributed file system.
        dfs_replica_num: u64,
        /// What becomes of the soft pin.
        soft_pin_action: SoftPinAction,
        /// How long a soft pin lasts, in milliseconds; the master's default if absent.
        soft_pin_ttl_ms: Option<u64>,
        /// Never evict the object.
        with_hard_pin: bool,
        /// Names of segments to try first.
        preferred_segments: Vec<Str<'a>>,
        /// One more such name, of older clients; or empty.
        preferred_segment: Str<'a>,
        /// Names of NVMe-oF segments to try first.
        preferred_nof_segments: Vec<Str<'a>>,
        /// Whether all replicas of a batch should be on one machine.
        prefer_alloc_in_same_node: bool,
        /// What the object contains.
        data_type: ObjectDataType,
        /// The machine of the client, or empty.
        host_id: Str<'a>,
        /// The groups that the objects of a batch belong to, one for each key.
        group_ids: Option<Vec<Str<'a>>>,
    }

    /// A key whose object is written, with what is known of it since.
    ObjectMeta<'a> {
        /// The key.
        key: Str<'a>,
        /// The checksum of the data.
        object_checksum: Option<u64>,
    }

    /// A range of memory.
    BufferDescriptor<'a> {
        /// Its size in bytes.
        size: u64,
        /// Its first address: the base of the segment and the offset.
        buffer_address: u64,
        /// The protocol of the segment.
        protocol: Str<'a>,
        /// The endpoint of the segment.
        transport_endpoint: Str<'a>,
    }

    /// A replica in memory.
    MemoryDescriptor<'a> {
        /// Where.
        buffer_descriptor: BufferDescriptor<'a>,
    }

    /// A replica on an NVMe-oF device.
    NoFDescriptor<'a> {
        /// Where.
        buffer_descriptor: BufferDescriptor<'a>,
    }

    /// A replica in a file of a shared directory.
    DiskDescriptor<'a> {
        /// The file.
        file_path: Str<'a>,
        /// The size of the object in bytes.
        object_size: u64,
    }

    /// A replica on the disk of a client.
    LocalDiskDescriptor<'a> {
        /// The client.
        client_id: Uuid,
        /// The size of the object in bytes.
        object_size: u64,
        /// Where the client is asked for it.
        transport_endpoint: Str<'a>,
    }

    /// A replica in a distributed file system.
    DfsDescriptor<'a> {
        /// The file.
        file_path: Str<'a>,
        /// Where it starts in the file.
        offset: u64,
        /// The size of the object in bytes.
        object_size: u64,
        /// The same, rounded up.
        aligned_size: u64,
        /// Which of the files.
        shard_idx: i32,
    }

    /// A replica of an object.
    Descriptor<'a> {
        /// Its id.
        id: u64,
        /// Where it lies.
        place: Place<'a>,
        /// How far its writing is.
        status: ReplicaStatus,
    }
}

impl Default for ReplicateConfig<'_> {
    /// One replica in memory, and nothing special.
    fn default() -> Self {
        ReplicateConfig {
            replica_num: 1,
            nof_replica_num: 0,
            dfs_replica_num: 0,
            soft_pin_action: SoftPinAction::PRESERVE,
            soft_pin_ttl_ms: None,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            preferred_segment: Str::default(),
            preferred_nof_segments: Vec::new(),
            prefer_alloc_in_same_node: false,
            data_type: ObjectDataType::UNKNOWN,
            host_id: Str::default(),
            group_ids: None,
        }
    }
}

/// Declares the kinds of a variant once, in the order of their indices.
macro_rules! places {
    ($($(#[$meta:meta])* $kind:ident($type:ident) = $index:literal,)*) => {
        /// Where a replica lies, by the kind of its storage.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Place<'a> {
            $($(#[$meta])* $kind($type<'a>),)*
        }

        impl Shape for Place<'_> {
            const LITERAL: Literal = Literal::of_variant(&[$($type::LITERAL),*]);
            // The index, and at least the size and an empty name, which all kinds have.
            const BYTES_MIN: usize = 1 + 8 + 1;
        }

        impl Pack for Place<'_> {
            fn pack(&self, out: &mut Writer<'_>) {
                match self {
                    $(Place::$kind(descriptor) => {
                        out.bytes(&[$index]);
                        descriptor.pack(out);
                    })*
                }
            }
        }

        impl<'a> Unpack<'a> for Place<'a> {
            fn unpack(input: &mut Reader<'a>) -> Result<Place<'a>, Fault> {
                const KINDS: usize = [$($index),*].len();
                match input.array()? {
                    $([$index] => Ok(Place::$kind($type::unpack(input)?)),)*
                    [index] => Err(Cause::Variant { index, kinds: KINDS }.into()),
                }
            }
        }
    };
}

places! {
    /// In memory.
    Memory(MemoryDescriptor) = 0,
    /// On an NVMe-oF device.
    NoF(NoFDescriptor) = 1,
    /// In a file of a shared directory.
    Disk(DiskDescriptor) = 2,
    /// On the disk of a client.
    LocalDisk(LocalDiskDescriptor) = 3,
    /// In a distributed file system.
    Dfs(DfsDescriptor) = 4,
}

/// Where an object can be read. `R` is the list of replicas: a reply to a batch is written from
/// slices or with [`Each`](crate::mooncake::Each), so that no list is made for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetReplicaListResponse<R> {
    /// The replicas, a list of [`Descriptor`].
    pub replicas: R,
    /// How long they may be read, in milliseconds from the answer on.
    pub lease_ttl_ms: u64,
    /// The checksum of the data, if the writer gave one.
    pub object_checksum: Option<u64>,
}

impl<R: Shape> Shape for GetReplicaListResponse<R> {
    const LITERAL: Literal =
        Literal::of_struct(&[R::LITERAL, u64::LITERAL, Option::<u64>::LITERAL]);
    const BYTES_MIN: usize = R::BYTES_MIN + u64::BYTES_MIN + Option::<u64>::BYTES_MIN;
}

impl<R: Pack> Pack for GetReplicaListResponse<R> {
    fn pack(&self, out: &mut Writer<'_>) {
        self.replicas.pack(out);
        self.lease_ttl_ms.pack(out);
        self.object_checksum.pack(out);
    }
}

impl<'a, R: Unpack<'a>> Unpack<'a> for GetReplicaListResponse<R> {
    fn unpack(input: &mut Reader<'a>) -> Result<GetReplicaListResponse<R>, Fault> {
        Ok(GetReplicaListResponse {
            replicas: R::unpack(input).map_err(|fault| fault.in_field("replicas"))?,
            lease_ttl_ms: u64::unpack(input).map_err(|fault| fault.in_field("lease_ttl_ms"))?,
            object_checksum: Option::unpack(input)
                .map_err(|fault| fault.in_field("object_checksum"))?,
        })
    }
}
