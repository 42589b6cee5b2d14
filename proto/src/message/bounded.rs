//! Bounds of lists and names: kept while a request is decoded, told by its check.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::error::{ErrorCode, WireError};

/// Reads the list that ends a request, and of a list above its limit only one item more than that.
///
/// Small items take several times their size on the wire, so a hostile list would cost memory long
/// before a check could refuse it. The item above the limit lets [`check_count`] name the field;
/// the unread rest does no harm because nothing but the end of the request can follow it.
pub(super) fn last_list<'de, const MAX: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(LastList::<MAX, T>(PhantomData))
}

struct LastList<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for LastList<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        // The codec gives no hint if fewer bytes are left than items were announced, and each item
        // takes one at least.
        let announced = list.size_hint().ok_or_else(|| A::Error::custom("the list is cut off"))?;
        let mut items = Vec::with_capacity(announced.min(MAX + 1));
        while items.len() <= MAX
            && let Some(item) = list.next_element()?
        {
            items.push(item);
        }
        Ok(items)
    }
}

/// Refuses a list above its limit.
pub(super) fn check_count(field: &str, count: usize, max: usize) -> Result<(), WireError> {
    if count > max {
        let text = format!("{field}: more than {max} entries");
        return Err(WireError::new(ErrorCode::TooLarge, text));
    }
    Ok(())
}

/// Refuses a name above its limit.
pub(super) fn check_length(field: &str, bytes: usize, max: usize) -> Result<(), WireError> {
    if bytes > max {
        let text = format!("{field}: {bytes} bytes, the limit is {max}");
        return Err(WireError::new(ErrorCode::TooLarge, text));
    }
    Ok(())
}

/// An argument that is out of its range.
pub(super) fn out_of_range(field: &str, value: u64, min: u64, max: u64) -> WireError {
    let text = format!("{field}: {value}, allowed are {min} to {max}");
    WireError::new(ErrorCode::InvalidArgument, text)
}
