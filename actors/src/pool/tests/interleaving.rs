//! The pool and its shards with messages on their way: any order of delivery that keeps the order
//! of each lane. Whatever happens, no page has two owners and every request gets its answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::fake_shard::{Content, FakeShard};
use super::*;

const SHARDS: u16 = 3;

#[derive(Debug, Clone)]
enum Step {
    Mount {
        number: u64,
        size_bytes: u64,
    },
    Unmount {
        number: u64,
        grace_ms: u64,
    },
    LoseClient,
    AskSpan {
        shard: u16,
        number: u64,
        size_bytes: u64,
    },
    AskRoom {
        shard: u16,
        size_bytes: u64,
    },
    CancelRoom {
        shard: u16,
    },
    ReturnPages {
        shard: u16,
        number: u64,
        pages: u32,
    },
    Fill {
        shard: u16,
        number: u64,
        leased_ms: Option<u64>,
    },
    ReportUsage {
        shard: u16,
        number: u64,
    },
    Wait {
        ms: u64,
    },
    /// The shard hears this many orders, then the pool this many of its reports.
    Deliver {
        shard: u16,
        orders: usize,
        reports: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let shard = || 0..SHARDS;
    let number = || 1..4_u64;
    let step = prop_oneof![
        2 => (number(), 1..40_u64)
            .prop_map(|(number, mib)| Step::Mount { number, size_bytes: mib * MIB }),
        1 => (number(), prop_oneof![Just(0), 1..500_u64])
            .prop_map(|(number, grace_ms)| Step::Unmount { number, grace_ms }),
        1 => Just(Step::LoseClient),
        6 => (shard(), number(), 1..8 * MIB)
            .prop_map(|(shard, number, size_bytes)| Step::AskSpan { shard, number, size_bytes }),
        6 => (shard(), 1..30 * MIB)
            .prop_map(|(shard, size_bytes)| Step::AskRoom { shard, size_bytes }),
        1 => shard().prop_map(|shard| Step::CancelRoom { shard }),
        2 => (shard(), number(), 1..50_u32)
            .prop_map(|(shard, number, pages)| Step::ReturnPages { shard, number, pages }),
        4 => (shard(), number(), prop::option::of(1..300_u64))
            .prop_map(|(shard, number, leased_ms)| Step::Fill { shard, number, leased_ms }),
        3 => (shard(), number())
            .prop_map(|(shard, number)| Step::ReportUsage { shard, number }),
        2 => (1..200_u64).prop_map(|ms| Step::Wait { ms }),
        12 => (shard(), 0..4_usize, 0..4_usize)
            .prop_map(|(shard, orders, reports)| Step::Deliver { shard, orders, reports }),
    ];
    prop::collection::vec(step, 1..150)
}

/// A shard with its lanes to and from the pool.
#[derive(Default)]
struct Player {
    fake: FakeShard,
    orders: VecDeque<PoolOrder>,
    reports: VecDeque<ShardReport>,
    spans_wanted: BTreeSet<Mount>,
    room_wanted: Option<u64>,
    last_room: u64,
}

struct World {
    pool: Pool,
    now: Moment,
    players: Vec<Player>,
    /// Unmounts without an answer.
    unanswered: BTreeSet<u64>,
    last_request: u64,
}

impl World {
    fn new() -> World {
        World {
            pool: Pool::new(PoolConfig::new(SHARDS, INCARNATION)),
            now: Moment::from_ms(1_000_000),
            players: (0..SHARDS).map(|_| Player::default()).collect(),
            unanswered: BTreeSet::new(),
            last_request: 0,
        }
    }

    fn tell(&mut self, message: PoolMessage) {
        let mut effects = Vec::new();
        self.pool.apply(self.now, message, &mut effects);
        self.pool.check().unwrap();
        for effect in effects {
            match effect {
                PoolEffect::Reply { id, .. } => {
                    assert!(self.unanswered.remove(&id.0), "{id:?} was answered twice");
                }
                PoolEffect::Order { shard, order } => {
                    self.players[usize::from(shard.0)].orders.push_back(order);
                }
                PoolEffect::TableChanged { .. }
                | PoolEffect::ClientSegments { .. }
                | PoolEffect::Unlisted { .. }
                | PoolEffect::AtRest => {}
            }
        }
    }

    fn request(&mut self, request: PoolRequest) {
        self.last_request += 1;
        self.unanswered.insert(self.last_request);
        self.tell(PoolMessage::Request { id: RequestId(self.last_request), request });
    }

    fn mount_of(&self, number: u64) -> Option<Mount> {
        self.pool.mount_of(SegmentId(number.into()))
    }

    fn hear_order(&mut self, shard: u16) {
        let now = self.now;
        let player = &mut self.players[usize::from(shard)];
        let Some(order) = player.orders.pop_front() else { return };
        player.fake.own(&order);
        match &order {
            PoolOrder::Grant { mount, .. } | PoolOrder::Deny { mount } => {
                assert!(player.spans_wanted.remove(mount), "an answer to no span request");
            }
            // An answer may cross the cancellation of its request.
            PoolOrder::Room { number, .. } | PoolOrder::NoRoom { number, .. }
                if player.room_wanted == Some(*number) =>
            {
                player.room_wanted = None;
            }
            _ => {}
        }
        player.reports.extend(player.fake.answer(now, &order));
    }

    fn hear_report(&mut self, shard: u16) {
        if let Some(report) = self.players[usize::from(shard)].reports.pop_front() {
            self.tell(PoolMessage::Shard { shard: ShardId(shard), report });
        }
    }

    /// A step that a shard takes on a mount, if it knows it.
    fn step_of_shard(&mut self, shard: u16, number: u64, step: &Step) {
        let mount = self.mount_of(number);
        let now = self.now;
        let player = &mut self.players[usize::from(shard)];
        let Some(mount) = mount else { return };
        if let Step::AskSpan { size_bytes, .. } = *step {
            if player.spans_wanted.insert(mount) {
                player.reports.push_back(ShardReport::SpanRequest { mount, size_bytes });
            }
            return;
        }
        let Some(own) = player.fake.pages.get_mut(&mount) else { return };
        match *step {
            Step::ReturnPages { pages, .. } => {
                let free = own.iter().filter(|(_, content)| content.is_none());
                let pages: Vec<u32> = free.map(|(&page, _)| page).take(pages as usize).collect();
                own.retain(|page, _| !pages.contains(page));
                let runs = pages.into_iter().map(|page| PageRun::new(page, 1)).collect();
                player.reports.push_back(ShardReport::Returned { mount, runs, answer: false });
            }
            Step::Fill { leased_ms, .. } => {
                let blocked_until = leased_ms.map(|ms| now.after_ms(ms));
                let content = Content { bytes: PAGE, newest_access: now, blocked_until };
                let free = own.values_mut().filter(|content| content.is_none());
                free.take(100).for_each(|page| *page = Some(content));
            }
            _ => {
                let full = own.values().flatten().count() as u64;
                let usage = SegmentUsage {
                    free_bytes: (own.len() as u64 - full) * PAGE,
                    ..usage(mount, full * PAGE)
                };
                player.reports.push_back(ShardReport::Usage(vec![usage]));
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Mount { number, size_bytes } => {
                let mount =
                    MountRequest { segment: segment(number, size_bytes), mounted_with: None };
                self.request(PoolRequest::Mount { client: ALICE, mount });
            }
            Step::Unmount { number, grace_ms } => {
                let segment = SegmentId(number.into());
                self.request(PoolRequest::Unmount { client: None, segment, grace_ms });
            }
            Step::LoseClient => self.tell(PoolMessage::ClientLost(ALICE)),
            Step::AskRoom { shard, size_bytes } => {
                let player = &mut self.players[usize::from(shard)];
                if player.room_wanted.is_none() {
                    player.last_room += 1;
                    let number = player.last_room;
                    player.room_wanted = Some(number);
                    let excluded = Vec::new();
                    let report = ShardReport::RoomRequest { number, size_bytes, excluded };
                    player.reports.push_back(report);
                }
            }
            Step::CancelRoom { shard } => {
                let player = &mut self.players[usize::from(shard)];
                if let Some(number) = player.room_wanted.take() {
                    player.reports.push_back(ShardReport::RoomCancelled { number });
                }
            }
            Step::AskSpan { shard, number, .. }
            | Step::ReturnPages { shard, number, .. }
            | Step::Fill { shard, number, .. }
            | Step::ReportUsage { shard, number } => self.step_of_shard(shard, number, step),
            Step::Wait { ms } => {
                self.now = self.now.after_ms(ms);
                self.tell(PoolMessage::Tick);
            }
            Step::Deliver { shard, orders, reports } => {
                (0..orders).for_each(|_| self.hear_order(shard));
                (0..reports).for_each(|_| self.hear_report(shard));
            }
        }
    }

    /// Delivers everything.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            for shard in 0..SHARDS {
                self.hear_order(shard);
                self.hear_report(shard);
            }
            let quiet = |player: &Player| player.orders.is_empty() && player.reports.is_empty();
            if self.players.iter().all(quiet) {
                return;
            }
        }
        panic!("the pool and the shards never come to rest");
    }

    fn expect_agreement(&self) {
        assert_eq!(self.unanswered, BTreeSet::new(), "unanswered requests");
        for (index, player) in self.players.iter().enumerate() {
            assert_eq!(player.spans_wanted, BTreeSet::new(), "unanswered span requests");
            assert_eq!(player.room_wanted, None, "an unanswered room request");
            let shard = ShardId(index as u16);
            for number in 1..4 {
                let Some(mount) = self.mount_of(number) else { continue };
                let runs = self.pool.shard_runs(mount, shard);
                let by_pool: Vec<u32> =
                    runs.iter().flat_map(|run| run.first_page..run.end()).collect();
                assert_eq!(player.fake.own_pages(mount), by_pool, "{shard:?} on {mount:?}");
            }
        }
        let mounted: BTreeMap<u64, Mount> =
            (1..4).filter_map(|number| Some((number, self.mount_of(number)?))).collect();
        for mount in mounted.into_values() {
            let owned: u32 = (0..SHARDS)
                .flat_map(|shard| self.pool.shard_runs(mount, ShardId(shard)))
                .map(|run| run.pages)
                .sum();
            let capacity = self.pool.known(mount).unwrap().heap.pages();
            assert_eq!(owned + self.pool.free_pages(mount), capacity, "a page was lost");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_crosses_on_the_way_every_page_has_one_owner_and_every_request_an_answer(
        steps in steps(),
    ) {
        let mut world = World::new();
        // Start with a segment that is full.
        world.take(&Step::Mount { number: 1, size_bytes: 20 * MIB });
        world.settle();
        for shard in 0..SHARDS {
            world.take(&Step::AskSpan { shard, number: 1, size_bytes: 6 * MIB });
            world.settle();
            world.take(&Step::Fill { shard, number: 1, leased_ms: None });
        }
        for step in &steps {
            world.take(step);
        }
        world.settle();
        world.expect_agreement();
    }
}
