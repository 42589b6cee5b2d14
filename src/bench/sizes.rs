//! What the protocol allows of sizes and batches.

use mooring_proto::limits::{FRAME_BYTES_MAX, OBJECT_BYTES_MAX};

use crate::command::units::ByteSize;

/// Checks what the master would refuse of every batch.
///
/// # Errors
/// Names the flag and what is allowed.
pub(super) fn check(value_bytes: ByteSize, key_bytes: usize, batch: u32) -> Result<(), String> {
    if !(1..=OBJECT_BYTES_MAX).contains(&value_bytes.0) {
        let max = ByteSize(OBJECT_BYTES_MAX);
        return Err(format!("--value-bytes {value_bytes}: allowed are 1 to {max}"));
    }
    let batch_max = batch_max(key_bytes);
    if batch as usize > batch_max {
        return Err(format!(
            "--batch {batch} with --key-bytes {key_bytes}: a request has room for {batch_max} such \
             keys"
        ));
    }
    Ok(())
}

/// How many keys of this length fit into a request.
pub(super) fn batch_max(key_bytes: usize) -> usize {
    (FRAME_BYTES_MAX - FRAME_SPARE_BYTES) / (key_bytes + ITEM_SPARE_BYTES)
}

/// What a request has besides its items: its options and the number of items.
const FRAME_SPARE_BYTES: usize = 1 << 10;

/// What an item has besides the bytes of its key: lengths and numbers of at most ten bytes each.
const ITEM_SPARE_BYTES: usize = 32;
