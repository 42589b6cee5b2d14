//! All messages in any order against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Ping { number: u128, segments: u32 },
    Mounted { number: u128, segments: u32 },
    Hello { number: u128 },
    Goodbye { number: u128 },
    Tick { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1..4_u128, 0..3_u32).prop_map(|(number, segments)| Step::Ping { number, segments }),
        1 => (1..4_u128, 0..3_u32).prop_map(|(number, segments)| Step::Mounted { number, segments }),
        1 => (1..4_u128).prop_map(|number| Step::Hello { number }),
        1 => (1..4_u128).prop_map(|number| Step::Goodbye { number }),
        6 => (0..2 * TICK_MS + 1).prop_map(|ms| Step::Tick { ms }),
    ]
}

proptest! {
    /// Without stalls or outages (here: at most two holders of three may be silent, and a third
    /// always pings) a client is offline exactly at the first tick after twice the TTL.
    #[test]
    fn it_judges_as_a_naive_model_does(steps in prop::collection::vec(step(), 1..200)) {
        let mut stage = Stage::new();
        // When each client was last heard, how many segments it has, whether it is attached, and
        // whether it lost segments while it was offline.
        let mut model: BTreeMap<u128, (Moment, u32, bool, bool)> = BTreeMap::new();
        let mut lost: BTreeSet<u128> = BTreeSet::new();
        // Who believed in other segments at the last ping.
        let mut differed: BTreeSet<u128> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Ping { number, segments } => {
                    let known = model
                        .entry(number)
                        .or_insert_with(|| (stage.now, 0, false, lost.remove(&number)));
                    known.0 = stage.now;
                    let returning = known.3 && known.1 > 0;
                    let has_differed = differed.remove(&number);
                    if segments != known.1 {
                        differed.insert(number);
                    }
                    let expected = returning
                        || has_differed && segments != known.1
                        || segments > 0 && (known.1 == 0 || !known.2 || known.3);
                    prop_assert_eq!(stage.ping(number, segments), expected);
                }
                Step::Mounted { number, segments } => {
                    let client = ClientId(number);
                    stage.hear(mounted(client, segments));
                    if segments > model.get(&number).map_or(0, |known| known.1) {
                        let owes = match model.get(&number) {
                            Some(known) => known.3,
                            None => lost.remove(&number),
                        };
                        model.insert(number, (stage.now, segments, true, owes));
                    } else if let Some(known) = model.get_mut(&number) {
                        known.1 = segments;
                    }
                }
                Step::Hello { number } => {
                    let (client, name) = (ClientId(number), String::new());
                    stage.hear(ClientsMessage::Hello { client, name });
                    let known = model
                        .entry(number)
                        .or_insert_with(|| (stage.now, 0, false, lost.remove(&number)));
                    known.0 = stage.now;
                }
                Step::Goodbye { number } => {
                    let leaves = model.get(&number).is_some_and(|known| known.1 == 0);
                    let client = ClientId(number);
                    let expected =
                        if leaves { vec![ClientsEffect::Left { client }] } else { Vec::new() };
                    prop_assert_eq!(stage.hear(ClientsMessage::Goodbye { client }), expected);
                    if leaves {
                        model.remove(&number);
                        differed.remove(&number);
                    }
                }
                Step::Tick { ms } => {
                    stage.ping(3, 0);
                    let third = model.entry(3).or_insert((stage.now, 0, false, false));
                    third.0 = stage.now;
                    if third.1 > 0 {
                        differed.insert(3);
                    } else {
                        differed.remove(&3);
                    }
                    let effects = stage.tick_after(ms);
                    let now = stage.now;
                    let gone: Vec<u128> = model
                        .iter()
                        .filter(|(_, known)| now.since_ms(known.0) >= 2 * TTL_MS)
                        .map(|(number, _)| *number)
                        .collect();
                    prop_assert_eq!(offline(&effects), gone.clone());
                    let held = |number: &&u128| model[*number].1 > 0 || model[*number].3;
                    lost.extend(gone.iter().filter(held).copied());
                    model.retain(|number, _| !gone.contains(number));
                    differed.retain(|number| !gone.contains(number));
                    let suspected = model
                        .values()
                        .filter(|known| now.since_ms(known.0) >= TTL_MS)
                        .count() as u64;
                    prop_assert_eq!(stage.clients.counts().suspected, suspected);
                }
            }
            let counts = stage.clients.counts();
            let suspected =
                stage.list().iter().filter(|entry| entry.state == ClientState::Suspected).count();
            prop_assert_eq!(counts.suspected, suspected as u64);
            prop_assert_eq!(counts.active + counts.suspected, model.len() as u64);
            let listed: Vec<(u128, u32, u64)> = stage
                .list()
                .into_iter()
                .map(|entry| (entry.client.0, entry.segments, entry.silent_ms))
                .collect();
            let expected: Vec<(u128, u32, u64)> = model
                .iter()
                .map(|(number, known)| (*number, known.1, stage.now.since_ms(known.0)))
                .collect();
            prop_assert_eq!(listed, expected);
        }
    }
}
