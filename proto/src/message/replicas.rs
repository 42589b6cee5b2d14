//! The replicas of an object, nearly always one.

use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::object::RangeDescriptor;

/// Where the replicas of an object lie: a list on the wire and to those who read it. A single one
/// stands in place; batches of thousands of objects need no memory for each.
#[derive(Clone, PartialEq, Eq)]
pub struct Replicas(Kept);

#[derive(Clone, PartialEq, Eq)]
enum Kept {
    /// The only one.
    One(RangeDescriptor),
    /// None, or several.
    Others(Box<[RangeDescriptor]>),
}

impl Replicas {
    /// All of them.
    pub fn as_slice(&self) -> &[RangeDescriptor] {
        match &self.0 {
            Kept::One(only) => std::slice::from_ref(only),
            Kept::Others(others) => others,
        }
    }
}

impl Deref for Replicas {
    type Target = [RangeDescriptor];

    fn deref(&self) -> &[RangeDescriptor] {
        self.as_slice()
    }
}

impl FromIterator<RangeDescriptor> for Replicas {
    fn from_iter<I: IntoIterator<Item = RangeDescriptor>>(replicas: I) -> Replicas {
        let mut replicas = replicas.into_iter();
        let Some(first) = replicas.next() else { return Replicas(Kept::Others(Box::new([]))) };
        match replicas.next() {
            None => Replicas(Kept::One(first)),
            Some(second) => {
                Replicas(Kept::Others([first, second].into_iter().chain(replicas).collect()))
            }
        }
    }
}

impl From<RangeDescriptor> for Replicas {
    #[inline]
    fn from(only: RangeDescriptor) -> Replicas {
        Replicas(Kept::One(only))
    }
}

impl From<Vec<RangeDescriptor>> for Replicas {
    fn from(replicas: Vec<RangeDescriptor>) -> Replicas {
        replicas.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Replicas {
    type Item = &'a RangeDescriptor;
    type IntoIter = std::slice::Iter<'a, RangeDescriptor>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(formatter)
    }
}

impl Serialize for Replicas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Replicas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Replicas, D::Error> {
        deserializer.deserialize_seq(ReplicasVisitor)
    }
}

struct ReplicasVisitor;

impl<'de> Visitor<'de> for ReplicasVisitor {
    type Value = Replicas;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of replicas")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Replicas, A::Error> {
        let Some(first) = list.next_element()? else { return Ok(Replicas::from(Vec::new())) };
        let Some(second) = list.next_element()? else { return Ok(Replicas(Kept::One(first))) };
        let mut all = vec![first, second];
        while let Some(further) = list.next_element()? {
            all.push(further);
        }
        Ok(Replicas(Kept::Others(all.into_boxed_slice())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_replicas_is_the_same_list_on_the_wire() {
        let at = |offset_bytes| RangeDescriptor { slot: 1, generation: 2, offset_bytes };
        for count in 0..5 {
            let list: Vec<RangeDescriptor> = (0..count).map(at).collect();
            let replicas = Replicas::from(list.clone());
            assert_eq!(*replicas, *list);
            let bytes = postcard::to_stdvec(&replicas).unwrap();
            assert_eq!(bytes, postcard::to_stdvec(&list).unwrap());
            assert_eq!(postcard::from_bytes::<Replicas>(&bytes).unwrap(), replicas);
        }
    }
}
