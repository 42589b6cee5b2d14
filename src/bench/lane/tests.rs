use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;

const KEYS: u64 = 10;
const BATCH: usize = 4;

fn lane(operation: Operation) -> Lane {
    Lane {
        plan: LanePlan { operation, batch: 4, connections: 1, in_flight: 1, rate: None },
        maker: KeyMaker::new(0, 16).unwrap(),
        choice: Choice::Hot,
        get_share: 0.5,
        keys: KEYS,
        next: AtomicU64::new(if operation == Operation::Churn { KEYS } else { 0 }),
        schedule: None,
        progress: AtomicU64::new(0),
    }
}

/// The next requests of one worker: what is asked for, and the numbers of the keys.
fn requests(lane: &Lane, count: usize) -> Vec<(Call, Vec<u64>)> {
    let numbers: Vec<Vec<u8>> = (0..100)
        .map(|number| {
            let mut key = Vec::new();
            lane.maker.append(number, &mut key);
            key
        })
        .collect();
    let number_of = |key: &[u8]| numbers.iter().position(|known| known == key).unwrap() as u64;
    let (mut random, mut owed) = (SmallRng::seed_from_u64(1), None);
    let mut next = || {
        let mut keys = Vec::new();
        let call = lane.next(&mut random, &mut owed, &mut keys)?;
        Some((call, keys.chunks_exact(16).map(number_of).collect()))
    };
    std::iter::from_fn(&mut next).take(count).collect()
}

#[test]
fn a_fill_names_each_key_once_and_ends() {
    let expected =
        [(Call::Put, vec![0, 1, 2, 3]), (Call::Put, vec![4, 5, 6, 7]), (Call::Put, vec![8, 9])];
    assert_eq!(requests(&lane(Operation::Fill), 10), expected);
}

#[test]
fn a_churn_removes_the_oldest_keys_as_new_ones_come() {
    let expected = [
        (Call::Put, vec![10, 11, 12, 13]),
        (Call::Remove, vec![0, 1, 2, 3]),
        (Call::Put, vec![14, 15, 16, 17]),
        (Call::Remove, vec![4, 5, 6, 7]),
    ];
    assert_eq!(requests(&lane(Operation::Churn), 4), expected);
}

#[test]
fn a_chain_goes_on_from_its_first_key_and_a_hot_key_is_named_alone() {
    let chain = requests(&lane(Operation::MatchPrefix), 1);
    assert_eq!(chain, [(Call::MatchPrefix, vec![0, 1, 2, 3])]);
    assert_eq!(requests(&lane(Operation::Get), 1), [(Call::Get, vec![0; BATCH])]);
}

#[test]
fn a_mix_has_both_and_its_puts_are_new() {
    let seen = requests(&lane(Operation::Mixed), 20);
    let puts: Vec<u64> = seen
        .iter()
        .filter(|(call, _)| *call == Call::Put)
        .flat_map(|(_, keys)| keys.clone())
        .collect();
    assert!(!puts.is_empty() && puts.len() < 20 * BATCH);
    assert_eq!(puts, (0..puts.len() as u64).collect::<Vec<u64>>());
}
