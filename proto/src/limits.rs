//! The limits of the protocol. Both ends enforce the same constants: the front end before it
//! buffers, the shard before it allocates.

/// Longest key, in bytes. Engines use hashes with rank suffixes of about 100 bytes.
pub const KEY_BYTES_MAX: usize = 4096;

/// Most keys in one batch. The largest batches known are prefix lookups of tens of thousands of
/// keys.
pub const BATCH_KEYS_MAX: usize = 65_536;

/// Largest request or reply body, in bytes: a full batch of 96-byte keys is 6.4 MiB, and the
/// rest is room for longer keys.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Window of one QUIC stream at either end, in bytes. Above about 2.4 MB a reader that lags can make a
/// QUIC stack run into its bound on gaps in a stream, and give up the whole connection although nothing
/// is lost. Larger requests only wait for the window to move.
pub const STREAM_WINDOW_BYTES: u32 = 2_000_000;

/// Largest object, in bytes (1 TiB).
pub const OBJECT_BYTES_MAX: u64 = 1 << 40;

/// Most replicas of one object. A start that asks for more is refused.
pub const REPLICAS_MAX: usize = 8;

/// Most preferred segments that a start may name.
pub const PREFERRED_SEGMENTS_MAX: usize = 16;

/// Smallest segment, in bytes: one page of the smallest page size.
pub const SEGMENT_BYTES_MIN: u64 = 4096;

/// Largest segment, in bytes (64 TiB).
pub const SEGMENT_BYTES_MAX: u64 = 64 << 40;

/// Most segments in one remount.
pub const REMOUNT_SEGMENTS_MAX: usize = 4096;

/// Longest endpoint or name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Most bytes of one range that a single data-plane request may read or write. A larger range is
/// moved in several requests, side by side.
pub const RANGE_BYTES_MAX: usize = 8 << 20;

/// Most time from a new connection to its hello, in milliseconds. A peer that only occupies a place
/// is closed with [`crate::close::TIMEOUT`].
pub const HELLO_TIMEOUT_MS: u64 = 5_000;

/// Most time from the first byte of a request to its end, in milliseconds: the largest body at
/// 2 MB/s. After it the stream is reset with [`crate::close::TIMEOUT`].
pub const REQUEST_READ_TIMEOUT_MS: u64 = 10_000;

/// Most time that a writer has a write of a range under way, in milliseconds; then it gives the write
/// up as in doubt. What has arrived by then, the store may still carry out for
/// [`REQUEST_READ_TIMEOUT_MS`].
pub const RANGE_WRITE_TIMEOUT_MS: u64 = 30_000;

/// Most time that a reply waits for its reader, in milliseconds, before the stream is reset with
/// [`crate::close::TIMEOUT`]; as long as a client waits for an answer.
pub const REPLY_WRITE_TIMEOUT_MS: u64 = 30_000;
