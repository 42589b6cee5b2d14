//! In which order the puts of one connection begin and end.
//!
//! Calls of one connection are answered side by side, and the start of a put may wait for room. An end
//! or a revocation that is sent behind it must not overtake it: it would find no put, and the put would
//! stay unfinished until the discard timeout. So it waits until the starts before it that name one of
//! its keys are answered, and what is sent behind it for these keys waits with it. Nothing else waits.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use mooring_proto::mooncake::{Call, Function, ObjectMeta, Str};

/// The calls of a connection that may have to wait for each other; `T` is what belongs to a call.
pub(super) struct Order<T> {
    hasher: RandomState,
    next: u64,
    /// Starts that are not answered yet.
    starts: Vec<Start>,
    /// Calls that are not begun yet, in the order in which they came.
    waiting: VecDeque<Waiting<T>>,
}

/// A call that may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begun<T> {
    /// What belongs to it.
    pub(super) call: T,
    /// To be given back when it is answered.
    pub(super) ticket: Option<Ticket>,
}

/// Stands for a start that is not answered yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

struct Start {
    number: u64,
    named: Named,
    /// Hashes of its keys, from when they are needed for the first time.
    keys: Option<HashSet<u64>>,
}

struct Waiting<T> {
    call: T,
    named: Named,
    role: Role,
    keys: HashSet<u64>,
}

/// A call as it came.
#[derive(Clone)]
pub(super) struct Named {
    /// The id of its function.
    pub(super) function_id: u32,
    /// Its arguments, not decoded yet.
    pub(super) body: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Start,
    /// An end or a revocation.
    Finish,
    Other,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        let (starts, waiting) = Default::default();
        Order { hasher: RandomState::new(), next: 0, starts, waiting }
    }
}

impl<T> Order<T> {
    /// A call comes: it begins at once, or `None`, and it waits.
    pub(super) fn take(&mut self, named: &Named, call: T) -> Option<Begun<T>> {
        let role = role_of(named.function_id);
        let free = self.waiting.is_empty() && (role == Role::Start || self.starts.is_empty());
        if role == Role::Other || free {
            return Some(self.begin(named.clone(), role, None, call));
        }
        let keys = keys_of(&self.hasher, named);
        let behind_waiting = self.waiting.iter().any(|it| !it.keys.is_disjoint(&keys));
        if behind_waiting || role == Role::Finish && self.is_started(&keys) {
            self.waiting.push_back(Waiting { call, named: named.clone(), role, keys });
            return None;
        }
        Some(self.begin(named.clone(), role, Some(keys), call))
    }

    /// A start is answered: what may begin now.
    pub(super) fn answered(&mut self, ticket: Option<Ticket>) -> Vec<Begun<T>> {
        let Some(Ticket(number)) = ticket else { return Vec::new() };
        self.starts.retain(|start| start.number != number);
        let mut begun = Vec::new();
        // Of what waits on: nothing that came later and shares a key with it goes before it.
        let mut before = HashSet::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let waits = !waiting.keys.is_disjoint(&before)
                || waiting.role == Role::Finish && self.is_started(&waiting.keys);
            if waits {
                before.extend(&waiting.keys);
                self.waiting.push_back(waiting);
            } else {
                let Waiting { call, named, role, keys } = waiting;
                begun.push(self.begin(named, role, Some(keys), call));
            }
        }
        begun
    }

    fn begin(&mut self, named: Named, role: Role, keys: Option<HashSet<u64>>, call: T) -> Begun<T> {
        if role != Role::Start {
            return Begun { call, ticket: None };
        }
        let number = self.next;
        self.next += 1;
        self.starts.push(Start { number, named, keys });
        Begun { call, ticket: Some(Ticket(number)) }
    }

    /// Whether a start that is not answered yet names one of these keys.
    fn is_started(&mut self, keys: &HashSet<u64>) -> bool {
        let hasher = &self.hasher;
        self.starts.iter_mut().any(|start| {
            let own = start.keys.get_or_insert_with(|| keys_of(hasher, &start.named));
            !own.is_disjoint(keys)
        })
    }
}

fn role_of(function_id: u32) -> Role {
    let is_one = |functions: &[Function]| functions.iter().any(|it| it.id() == function_id);
    if is_one(&STARTS) {
        Role::Start
    } else if is_one(&FINISHES) {
        Role::Finish
    } else {
        Role::Other
    }
}

/// Hashes of the keys that a call names. What cannot be read is refused anyway, and names none.
fn keys_of(hasher: &RandomState, named: &Named) -> HashSet<u64> {
    let hashed = |keys: &[Str<'_>]| keys.iter().map(|key| hasher.hash_one(key.0)).collect();
    let of_metas = |metas: &[ObjectMeta<'_>]| {
        metas.iter().map(|meta| hasher.hash_one(meta.key.0)).collect::<HashSet<u64>>()
    };
    match Call::decode(named.function_id, &named.body) {
        Ok(Call::PutStart(call)) => hashed(&[call.key]),
        Ok(Call::UpsertStart(call)) => hashed(&[call.key]),
        Ok(Call::BatchPutStart(call)) => hashed(&call.keys),
        Ok(Call::BatchUpsertStart(call)) => hashed(&call.keys),
        Ok(Call::PutEnd(call)) => of_metas(&[call.meta]),
        Ok(Call::UpsertEnd(call)) => of_metas(&[call.meta]),
        Ok(Call::BatchPutEnd(call)) => of_metas(&call.metas),
        Ok(Call::BatchUpsertEnd(call)) => of_metas(&call.metas),
        Ok(Call::PutRevoke(call)) => hashed(&[call.key]),
        Ok(Call::UpsertRevoke(call)) => hashed(&[call.key]),
        Ok(Call::BatchPutRevoke(call)) => hashed(&call.keys),
        Ok(Call::BatchUpsertRevoke(call)) => hashed(&call.keys),
        _ => HashSet::new(),
    }
}

const STARTS: [Function; 4] = [
    Function::PutStart,
    Function::BatchPutStart,
    Function::UpsertStart,
    Function::BatchUpsertStart,
];

const FINISHES: [Function; 8] = [
    Function::PutEnd,
    Function::BatchPutEnd,
    Function::PutRevoke,
    Function::BatchPutRevoke,
    Function::UpsertEnd,
    Function::BatchUpsertEnd,
    Function::UpsertRevoke,
    Function::BatchUpsertRevoke,
];

#[cfg(test)]
mod tests {
    use mooring_proto::mooncake::{
        BatchPutStart, ExistKey, Form, PutEnd, ReplicaType, ReplicateConfig, Request, Uuid,
        append_body,
    };

    use super::*;

    const TENANT: Str<'static> = Str(b"default");

    fn named<R: Request>(request: &R) -> Named {
        let mut body = Vec::new();
        append_body(&mut body, request, Form::Plain);
        Named { function_id: R::ID, body: body.into() }
    }

    fn start(keys: &[&'static str]) -> Named {
        named(&BatchPutStart {
            client: Uuid::default(),
            keys: keys.iter().map(|key| Str::from(*key)).collect(),
            slice_lengths: vec![1; keys.len()],
            config: ReplicateConfig::default(),
            tenant: TENANT,
        })
    }

    fn end(key: &'static str) -> Named {
        named(&PutEnd {
            client: Uuid::default(),
            meta: ObjectMeta { key: key.into(), object_checksum: None },
            replica_type: ReplicaType::ALL,
            tenant: TENANT,
        })
    }

    fn calls(begun: &[Begun<u8>]) -> Vec<u8> {
        begun.iter().map(|it| it.call).collect()
    }

    #[test]
    fn an_end_waits_for_the_start_of_its_key_and_for_no_other() {
        let mut order = Order::default();
        let first = order.take(&start(&["a", "b"]), 1).unwrap();
        let second = order.take(&start(&["c"]), 2).unwrap();
        assert!(order.take(&end("a"), 3).is_none());
        assert!(order.take(&end("d"), 4).is_some(), "nobody starts it");
        assert!(order.take(&end("c"), 5).is_none());
        assert!(order.answered(None).is_empty());
        assert_eq!(calls(&order.answered(second.ticket)), [5]);
        assert_eq!(order.waiting.len(), 1);
        assert_eq!(calls(&order.answered(first.ticket)), [3]);
        assert_eq!(order.waiting.len(), 0);
        assert!(order.take(&end("a"), 6).is_some(), "its start is answered");
    }

    #[test]
    fn what_follows_for_a_key_stays_behind_an_end_that_waits() {
        let mut order = Order::default();
        let first = order.take(&start(&["a"]), 1).unwrap();
        assert!(order.take(&end("a"), 2).is_none());
        assert!(order.take(&start(&["a", "b"]), 3).is_none());
        assert!(order.take(&end("b"), 4).is_none());
        assert!(order.take(&start(&["c"]), 5).is_some());
        let mut begun = order.answered(first.ticket);
        assert_eq!(calls(&begun), [2, 3]);
        let again = begun.pop().unwrap().ticket;
        assert_eq!(calls(&order.answered(again)), [4]);
    }

    #[test]
    fn what_ends_no_put_never_waits() {
        let mut order = Order::default();
        order.take(&start(&["a"]), 1).unwrap();
        assert!(order.take(&end("a"), 2).is_none());
        let exist = named(&ExistKey { key: "a".into(), tenant: TENANT });
        assert!(order.take(&exist, 3).is_some());
        let broken = Named { function_id: PutEnd::ID, body: Bytes::from_static(b"x") };
        assert!(order.take(&broken, 4).is_some());
    }
}
