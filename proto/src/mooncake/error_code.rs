//! Numbers of errors: those of results, and those of whole calls.

use super::declare::named_numbers;

/// The result of a function of the master: a value, or the reason why there is none.
pub type Expected<T> = Result<T, ErrorCode>;

named_numbers! {
    /// Why a function, or one item of a batch, has no result. The ordinary refusals are here.
    ErrorCode: i32 {
        /// No error; not sent as one.
        OK = 0,
        /// A fault of the master.
        INTERNAL_ERROR = -1,
        /// A buffer is too small.
        BUFFER_OVERFLOW = -10,
        /// No such part of the index.
        SHARD_INDEX_OUT_OF_RANGE = -100,
        /// No such segment.
        SEGMENT_NOT_FOUND = -101,
        /// The segment is mounted already.
        SEGMENT_ALREADY_EXISTS = -102,
        /// No such client.
        CLIENT_NOT_FOUND = -103,
        /// No space for the object.
        NO_AVAILABLE_HANDLE = -200,
        /// The peer is of another version.
        INVALID_VERSION = -300,
        /// The key is empty or otherwise no key.
        INVALID_KEY = -400,
        /// The object could not be written.
        WRITE_FAIL = -500,
        /// A parameter is out of its range.
        INVALID_PARAMS = -600,
        /// The object or segment belongs to another client.
        ILLEGAL_CLIENT = -601,
        /// The put is not in a state to be written.
        INVALID_WRITE = -700,
        /// The object is not in a state to be read.
        INVALID_READ = -701,
        /// The replica is not in a state for this.
        INVALID_REPLICA = -702,
        /// The object is not readable yet.
        REPLICA_IS_NOT_READY = -703,
        /// No such object.
        OBJECT_NOT_FOUND = -704,
        /// The key has an object; a put takes it as success.
        OBJECT_ALREADY_EXISTS = -705,
        /// Someone may be reading the object.
        OBJECT_HAS_LEASE = -706,
        /// The lease ended before the read did.
        LEASE_EXPIRED = -707,
        /// The object is being copied or moved.
        OBJECT_HAS_REPLICATION_TASK = -708,
        /// The object is not being copied or moved.
        OBJECT_NO_REPLICATION_TASK = -709,
        /// No such replica.
        REPLICA_NOT_FOUND = -710,
        /// The object has a replica there.
        REPLICA_ALREADY_EXISTS = -711,
        /// The replica was lost meanwhile.
        REPLICA_IS_GONE = -712,
        /// The replica is not in the memory of this client.
        REPLICA_NOT_IN_LOCAL_MEMORY = -713,
        /// A replica is in use.
        OBJECT_REPLICA_BUSY = -714,
        /// The data did not arrive.
        TRANSFER_FAIL = -800,
        /// The data is not what was written.
        CHECKSUM_MISMATCH = -801,
        /// The call failed; a client's own, not sent.
        RPC_FAIL = -900,
        /// The call was not answered; a client's own, not sent.
        RPC_TIMEOUT = -901,
        /// The thing or the master is in a state that does not allow it now.
        UNAVAILABLE_IN_CURRENT_STATUS = -1010,
        /// The feature is switched off.
        UNAVAILABLE_IN_CURRENT_MODE = -1011,
        /// Objects are not written to disks.
        UNABLE_OFFLOAD = -1300,
        /// No such task.
        TASK_NOT_FOUND = -1400,
    }

    /// Why a whole call failed. On one of these a client closes the connection.
    RpcError: u16 {
        /// The connection broke.
        IO_ERROR = 1,
        /// There is no connection.
        NOT_CONNECTED = 2,
        /// The call took too long.
        TIMED_OUT = 3,
        /// The body is not what the function takes.
        INVALID_RPC_ARGUMENTS = 4,
        /// The call was given up.
        OPERATION_CANCELED = 9,
        /// The function failed.
        RPC_THROW_EXCEPTION = 10,
        /// No function has this id.
        FUNCTION_NOT_REGISTERED = 11,
        /// The frame is broken.
        PROTOCOL_ERROR = 12,
        /// The frame is of another version.
        UNKNOWN_PROTOCOL_VERSION = 13,
        /// The frame is above the limit.
        MESSAGE_TOO_LARGE = 14,
        /// The body is not what the function answers.
        INVALID_RPC_RESULT = 16,
        /// Two calls in flight have one number.
        SERIAL_NUMBER_CONFLICT = 17,
    }
}
