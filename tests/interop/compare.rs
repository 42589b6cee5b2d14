//! Whether two answers say the same.
//!
//! Ids and addresses are each master's own. They are written down when a put starts, and what is read
//! later has to be what was written down.

use std::collections::HashMap;

use mooring_proto::mooncake::ReplicaStatus;

use crate::answers::{Replica, Value};
use crate::generate::{SEGMENT_SHIFT, endpoint};
use crate::masters::Side;

/// What both masters said about places, in one sequence.
pub(crate) struct Books {
    /// Whether both have to choose the same segments.
    same_segments: bool,
    /// By the id that Mooncake's master gave: the other one's.
    ids: HashMap<u64, u64>,
    theirs: HashMap<u64, Replica>,
    ours: HashMap<u64, Replica>,
}

impl Books {
    /// Nothing yet.
    pub(crate) fn new(same_segments: bool) -> Books {
        let (ids, theirs, ours) = Default::default();
        Books { same_segments, ids, theirs, ours }
    }

    /// Compares what became of one key.
    ///
    /// # Errors
    /// A sentence about what differs.
    pub(crate) fn compare(
        &mut self,
        theirs: &Result<Value, impl std::fmt::Debug>,
        ours: &Result<Value, impl std::fmt::Debug>,
    ) -> Result<(), String> {
        match (theirs, ours) {
            (Ok(Value::Started(theirs)), Ok(Value::Started(ours))) => self.started(theirs, ours),
            (Ok(theirs @ Value::Found { .. }), Ok(ours @ Value::Found { .. })) => {
                self.found(theirs, ours)
            }
            (Ok(Value::Matching(theirs)), Ok(Value::Matching(ours))) => {
                same("the keys", &keys(theirs), &keys(ours))?;
                theirs.iter().zip(ours).try_for_each(|((_, one), (_, other))| self.read(one, other))
            }
            (theirs, ours) => same("the outcome", &format!("{theirs:?}"), &format!("{ours:?}")),
        }
    }

    fn found(&mut self, theirs: &Value, ours: &Value) -> Result<(), String> {
        let (
            Value::Found { replicas: one, lease_ttl_ms: lease, checksum: sum },
            Value::Found { replicas: other, lease_ttl_ms: other_lease, checksum: other_sum },
        ) = (theirs, ours)
        else {
            return Err("two answers of other kinds".to_owned());
        };
        same("the lease", lease, other_lease)?;
        same("the checksum", sum, other_sum)?;
        self.read(one, other)
    }

    /// Writes down where both may be written.
    fn started(&mut self, theirs: &[Replica], ours: &[Replica]) -> Result<(), String> {
        self.look_alike(theirs, ours, ReplicaStatus::PROCESSING)?;
        for (one, other) in theirs.iter().zip(ours) {
            if self.ours.contains_key(&other.id) {
                return Err(format!("the replica id {} is given twice", other.id));
            }
            self.ids.insert(one.id, other.id);
            self.theirs.insert(one.id, one.clone());
            self.ours.insert(other.id, other.clone());
        }
        Ok(())
    }

    /// Both are read where they were written. The order of replicas is free: Mooncake's master changes it
    /// when it loses one.
    fn read(&mut self, theirs: &[Replica], ours: &[Replica]) -> Result<(), String> {
        let mut theirs = theirs.to_vec();
        theirs.sort_by_key(|replica| self.ids.get(&replica.id));
        let mut ours = ours.to_vec();
        ours.sort_by_key(|replica| replica.id);
        self.look_alike(&theirs, &ours, ReplicaStatus::COMPLETE)?;
        for (one, other) in theirs.iter().zip(&ours) {
            same("the replica", &self.ids.get(&one.id), &Some(&other.id))?;
        }
        for (side, replicas) in [(Side::Theirs, theirs), (Side::Ours, ours)] {
            let books = match side {
                Side::Theirs => &self.theirs,
                Side::Ours => &self.ours,
            };
            for replica in replicas {
                let started = books.get(&replica.id);
                let written =
                    started.map(|it| Replica { status: ReplicaStatus::COMPLETE, ..it.clone() });
                if written.as_ref() != Some(&replica) {
                    return Err(format!("{side:?} is read at {replica:?}, started as {started:?}"));
                }
            }
        }
        Ok(())
    }

    fn look_alike(
        &self,
        theirs: &[Replica],
        ours: &[Replica],
        status: ReplicaStatus,
    ) -> Result<(), String> {
        same("the number of replicas", &theirs.len(), &ours.len())?;
        for replicas in [theirs, ours] {
            let mut segments: Vec<u64> = replicas.iter().map(segment_of).collect();
            segments.sort_unstable();
            segments.dedup();
            same("segments and replicas", &segments.len(), &replicas.len())?;
            for replica in replicas {
                same("the endpoint", &replica.endpoint, &endpoint(segment_of(replica)))?;
                same("the protocol", &replica.protocol.as_str(), &"tcp")?;
                same("the status", &replica.status, &status)?;
            }
        }
        for (one, other) in theirs.iter().zip(ours) {
            same("the size", &one.bytes, &other.bytes)?;
            if self.same_segments {
                same("the segment", &segment_of(one), &segment_of(other))?;
            }
        }
        Ok(())
    }
}

/// The number of the segment that a replica lies in.
pub(crate) fn segment_of(replica: &Replica) -> u64 {
    replica.address >> SEGMENT_SHIFT
}

fn keys<V>(map: &std::collections::BTreeMap<Vec<u8>, V>) -> Vec<String> {
    map.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{what}: {one:?} of theirs, {other:?} of ours")) }
}
