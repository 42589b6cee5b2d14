//! The keys of the objects that are being restored.

use mooring_proto::limits::KEY_BYTES_MAX;

use crate::handoff::RestoreError;
use crate::route::Route;
use crate::shard::keys::{KeyAddress, Keys};
use crate::shard::objects::ObjectHandle;

/// The keys of a shard that is being restored. It needs nothing else of the shard, so that another
/// thread can fill it while objects and ranges are laid down.
#[derive(Debug)]
pub struct RestoredKeys {
    route: Route,
    pub(in crate::shard) keys: Keys,
    /// The objects so far. They get their handles in order.
    objects: u32,
}

/// A key that is stored, for the object that comes next.
#[derive(Clone, Copy, Debug)]
pub struct StoredKey {
    pub(in crate::shard) object: ObjectHandle,
    pub(in crate::shard) address: KeyAddress,
    pub(in crate::shard) tag: u32,
    pub(in crate::shard) length: u16,
}

impl RestoredKeys {
    /// No keys.
    pub(super) fn new(route: Route) -> RestoredKeys {
        RestoredKeys { route, keys: Keys::new(), objects: 0 }
    }

    /// Stores the key of the next object.
    ///
    /// # Errors
    /// When no key has this length, or there is no room for another key.
    #[inline]
    pub fn add(&mut self, key: &[u8]) -> Result<StoredKey, RestoreError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(RestoreError::Key(format!("a key of {} bytes", key.len())));
        }
        let object = ObjectHandle(self.objects);
        let address = self.keys.push(object.0, key).map_err(|_| RestoreError::KeysFull)?;
        self.objects += 1;
        let tag = self.route.hash(key).tag();
        Ok(StoredKey { object, address, tag, length: key.len() as u16 })
    }
}
