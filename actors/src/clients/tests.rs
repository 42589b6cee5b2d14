use mooring_proto::SegmentId;

use super::*;

mod comparing;
mod handover;
mod model;

const TTL_MS: u64 = 10_000;
const TICK_MS: u64 = 1_000;

/// The actor with a clock that is stepped by hand.
struct Stage {
    clients: Clients,
    now: Moment,
    next_request: u64,
}

impl Stage {
    fn new() -> Stage {
        let config = ClientsConfig { client_ttl_ms: TTL_MS, tick_period_ms: TICK_MS };
        Stage { clients: Clients::new(config), now: Moment::from_ms(5_000), next_request: 0 }
    }

    /// A stage with clients 1 to `count` that have each mounted a segment.
    fn with_holders(count: u128) -> Stage {
        let mut stage = Stage::new();
        for number in 1..=count {
            stage.hear(mounted(ClientId(number), 1));
        }
        stage
    }

    fn hear(&mut self, message: ClientsMessage) -> Vec<ClientsEffect> {
        let mut effects = Vec::new();
        self.clients.apply(self.now, message, &mut effects);
        effects
    }

    fn tick_after(&mut self, ms: u64) -> Vec<ClientsEffect> {
        self.now = self.now.after_ms(ms);
        self.hear(ClientsMessage::Tick)
    }

    /// Ticks as usual while these clients ping once a tick.
    fn run(&mut self, ms: u64, pinging: &[u128]) -> Vec<ClientsEffect> {
        let mut effects = Vec::new();
        for _ in 0..ms / TICK_MS {
            for number in pinging {
                self.ping(*number, 1);
            }
            effects.extend(self.tick_after(TICK_MS));
        }
        effects
    }

    /// Pings with the first so many segments of the client, and says whether it must remount.
    fn ping(&mut self, number: u128, mounted_segments: u32) -> bool {
        self.ping_with(number, mounted_segments, Some(first(mounted_segments)))
    }

    /// The same with these segments and no others.
    fn ping_keeping(&mut self, number: u128, kept: &[u128]) -> bool {
        self.ping_with(number, kept.len() as u32, Some(digest(kept)))
    }

    fn ping_with(&mut self, number: u128, segments: u32, kept: Option<SegmentsDigest>) -> bool {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let (client, mounted_segments) = (ClientId(number), segments);
        let effects = self.hear(ClientsMessage::Ping { id, client, mounted_segments, kept });
        let [ClientsEffect::ReplyPing { id: answered, need_remount, ttl_ms: TTL_MS }] = effects[..]
        else {
            panic!("a ping has one answer, not {effects:?}");
        };
        assert_eq!(answered, id);
        need_remount
    }

    /// Mounts the first so many segments of a client again, as a list of all that it has.
    fn remount(&mut self, number: u128, segments: u32) {
        let client = ClientId(number);
        self.hear(ClientsMessage::Remounted { client, segments });
        self.hear(mounted(client, segments));
    }

    fn list(&mut self) -> Vec<ClientEntry> {
        match self.hear(ClientsMessage::List { id: RequestId(77) }).pop() {
            Some(ClientsEffect::ReplyList { id: RequestId(77), clients }) => clients,
            other => panic!("a list has an answer, not {other:?}"),
        }
    }
}

/// A client has its first so many segments now, and keeps all of them.
fn mounted(client: ClientId, segments: u32) -> ClientsMessage {
    ClientsMessage::Mounted { client, segments, kept: first(segments) }
}

/// A client has these segments now, and keeps all of them.
fn mounted_exactly(client: ClientId, segments: &[u128]) -> ClientsMessage {
    ClientsMessage::Mounted { client, segments: segments.len() as u32, kept: digest(segments) }
}

fn first(segments: u32) -> SegmentsDigest {
    digest(&(1..=u128::from(segments)).collect::<Vec<_>>())
}

fn digest(segments: &[u128]) -> SegmentsDigest {
    segments.iter().copied().map(SegmentId).collect()
}

fn offline(effects: &[ClientsEffect]) -> Vec<u128> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            ClientsEffect::Offline { client, .. } => Some(client.0),
            _ => None,
        })
        .collect()
}

fn asked(effects: &[ClientsEffect]) -> Vec<(u128, u64)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            ClientsEffect::AskAttention { client, silent_ms } => Some((client.0, *silent_ms)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_silent_client_is_suspected_after_the_ttl_and_offline_after_twice_the_ttl() {
    let mut stage = Stage::with_holders(1);
    assert_eq!(stage.run(TTL_MS - TICK_MS, &[]), []);
    assert_eq!(stage.clients.counts().active, 1);
    assert_eq!(asked(&stage.tick_after(TICK_MS)), [(1, TTL_MS)]);
    assert_eq!(stage.clients.counts().suspected, 1);
    assert_eq!(stage.list()[0].state, ClientState::Suspected);
    assert_eq!(offline(&stage.run(TTL_MS - TICK_MS, &[])), []);
    let effects = stage.tick_after(TICK_MS);
    assert_eq!(effects, [ClientsEffect::Offline { client: ClientId(1), segments: 1 }]);
    assert_eq!(
        stage.clients.counts(),
        ClientCounts { offline_total: 1, ..ClientCounts::default() }
    );
    assert_eq!(stage.run(3 * TTL_MS, &[]), [], "it goes offline once");
}

#[test]
fn a_suspected_client_is_asked_once_for_each_further_quarter_of_the_ttl() {
    let mut stage = Stage::with_holders(1);
    let effects = stage.run(2 * TTL_MS - TICK_MS, &[]);
    let silences: Vec<u64> = asked(&effects).into_iter().map(|(_, silent_ms)| silent_ms).collect();
    assert_eq!(silences, [10_000, 13_000, 15_000, 18_000]);
}

#[test]
fn a_ping_of_a_suspected_client_clears_it() {
    let mut stage = Stage::with_holders(1);
    stage.run(2 * TTL_MS - TICK_MS, &[]);
    assert!(!stage.ping(1, 1));
    assert_eq!(stage.clients.counts().active, 1);
    assert_eq!(stage.list()[0].silent_ms, 0);
    assert_eq!(stage.run(TTL_MS - TICK_MS, &[]), []);
    assert_eq!(asked(&stage.tick_after(TICK_MS)), [(1, TTL_MS)], "the silence starts anew");
}

#[test]
fn a_client_that_mounts_and_never_pings_goes_offline() {
    let mut stage = Stage::new();
    stage.hear(mounted(ClientId(4), 2));
    assert_eq!(offline(&stage.run(2 * TTL_MS, &[])), [4]);
}

#[test]
fn who_leaves_is_forgotten_unless_segments_stay_behind() {
    let mut stage = Stage::with_holders(1);
    stage.ping(2, 0);
    let left = ClientsEffect::Left { client: ClientId(2) };
    assert_eq!(stage.hear(ClientsMessage::Goodbye { client: ClientId(2) }), [left]);
    assert_eq!(stage.hear(ClientsMessage::Goodbye { client: ClientId(2) }), []);
    assert_eq!(stage.hear(ClientsMessage::Goodbye { client: ClientId(1) }), []);
    assert_eq!(stage.list().len(), 1);
}

// The connection stays open, and nothing is said on it until it is closed.
#[test]
fn who_leaves_while_he_is_suspected_is_counted_no_more() {
    let mut stage = Stage::new();
    stage.hear(ClientsMessage::Hello { client: ClientId(1), name: "get".into() });
    stage.run(TTL_MS, &[]);
    assert_eq!((stage.clients.counts().active, stage.clients.counts().suspected), (0, 1));
    stage.hear(ClientsMessage::Goodbye { client: ClientId(1) });
    assert_eq!(stage.clients.counts(), ClientCounts::default());
}

#[test]
fn an_unknown_client_that_believes_in_segments_must_remount_until_it_has() {
    let mut stage = Stage::new();
    assert!(stage.ping(1, 3));
    assert!(stage.ping(1, 3));
    stage.remount(1, 3);
    assert!(!stage.ping(1, 3) && !stage.ping(1, 3));
}

#[test]
fn a_client_that_has_mounted_with_this_master_need_not_remount() {
    let mut stage = Stage::new();
    stage.hear(ClientsMessage::Hello { client: ClientId(1), name: "store-a".into() });
    assert!(!stage.ping(1, 0), "without segments there is nothing to remount");
    stage.hear(mounted(ClientId(1), 1));
    assert!(!stage.ping(1, 1));
    assert!(!stage.ping(1, 0), "the answer to the mount may be on its way");
    assert!(!stage.ping(1, 1));
    assert!(!stage.ping(1, 2), "what is known here may be on its way");
}

#[test]
fn a_client_whose_segments_are_all_gone_must_remount_if_it_believes_in_some() {
    let mut stage = Stage::with_holders(1);
    stage.hear(mounted(ClientId(1), 0));
    assert!(stage.ping(1, 1));
    assert!(!stage.ping(1, 0));
}

#[test]
fn a_client_that_returns_after_it_went_offline_must_remount() {
    let mut stage = Stage::with_holders(1);
    assert_eq!(offline(&stage.run(2 * TTL_MS, &[])), [1]);
    stage.hear(mounted(ClientId(1), 0));
    assert_eq!(stage.list(), [], "the loss of its segments doesn't bring it back");
    assert!(stage.ping(1, 1));
    stage.remount(1, 1);
    assert!(!stage.ping(1, 1) && !stage.ping(1, 1));
}

// A store that was cut off mounts more memory before its next ping.
#[test]
fn a_client_that_mounts_one_segment_after_it_went_offline_must_still_remount_the_others() {
    let mut stage = Stage::with_holders(1);
    assert_eq!(offline(&stage.run(2 * TTL_MS, &[])), [1]);
    stage.hear(mounted(ClientId(1), 1));
    assert!(stage.ping(1, 1), "its own mount may still be unanswered");
    assert!(stage.ping(1, 2));
    stage.remount(1, 2);
    assert!(!stage.ping(1, 2) && !stage.ping(1, 2));
}

#[test]
fn losing_a_segment_to_an_administrator_is_no_sign_of_life() {
    let mut stage = Stage::new();
    stage.hear(mounted(ClientId(1), 2));
    stage.run(TTL_MS, &[]);
    stage.hear(mounted(ClientId(1), 1));
    assert_eq!(offline(&stage.run(TTL_MS, &[])), [1]);
}

#[test]
fn the_list_is_in_the_order_of_ids_with_names_and_segments() {
    let mut stage = Stage::new();
    stage.hear(mounted(ClientId(9), 4));
    stage.hear(ClientsMessage::Hello { client: ClientId(2), name: "engine".into() });
    stage.now = stage.now.after_ms(300);
    let entry = |number, name: &str, segments| ClientEntry {
        client: ClientId(number),
        name: name.into(),
        state: ClientState::Active,
        silent_ms: 300,
        segments,
    };
    assert_eq!(stage.list(), [entry(2, "engine", 0), entry(9, "", 4)]);
}

// A cache-heavy node leaves while others work (field report R31).
#[test]
fn eight_clients_that_die_at_once_go_offline_once_and_a_ninth_stays() {
    let mut stage = Stage::with_holders(9);
    let effects = stage.run(2 * TTL_MS, &[9]);
    assert_eq!(offline(&effects), [], "that many at once get a grace");
    let effects = stage.run(4 * TTL_MS, &[9]);
    assert_eq!(offline(&effects), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(asked(&effects).iter().all(|(number, _)| *number != 9));
    assert_eq!(stage.list().len(), 1);
    assert!(!stage.ping(9, 1));
    assert_eq!(stage.clients.counts().graces_total, 1);
}

// The master itself hangs, and pings wait in its queues (field report R32, first run).
#[test]
fn nobody_is_judged_for_a_stall_of_the_whole_master() {
    let everyone: Vec<u128> = (1..=20).collect();
    for stall_ms in [15_000, 40_000, 600_000] {
        for pings_first in [true, false] {
            let mut stage = Stage::with_holders(20);
            stage.run(5_000, &everyone);
            stage.now = stage.now.after_ms(stall_ms);
            if pings_first {
                everyone.iter().for_each(|number| assert!(!stage.ping(*number, 1)));
            }
            assert_eq!(stage.hear(ClientsMessage::Tick), [], "stall of {stall_ms} ms");
            // The ticks that had queued up come all at once.
            assert_eq!(stage.tick_after(0), []);
            assert_eq!(stage.run(3 * TTL_MS, &everyone), []);
            assert_eq!(stage.clients.counts().stalls_total, 1);
            assert_eq!(stage.clients.counts().stalled_ms_total, stall_ms - TICK_MS);
        }
    }
}

// The same (field report R32, second run): a stall delays the judgement by its own length only.
#[test]
fn a_client_that_is_truly_silent_expires_although_the_master_stalled() {
    let mut stage = Stage::with_holders(5);
    let others = [2, 3, 4, 5];
    stage.run(8_000, &others);
    assert_eq!(stage.tick_after(12_000), []);
    let effects = stage.run(TTL_MS, &others);
    assert_eq!(offline(&effects), []);
    assert!(asked(&effects).iter().all(|(number, _)| *number == 1));
    assert_eq!(offline(&stage.run(TICK_MS, &others)), [1]);
}

#[test]
fn one_missed_tick_is_no_stall() {
    let mut stage = Stage::with_holders(1);
    for _ in 0..4 {
        stage.tick_after(2 * TICK_MS);
    }
    assert_eq!(asked(&stage.tick_after(2 * TICK_MS)), [(1, TTL_MS)]);
    assert_eq!(stage.clients.counts().stalls_total, 0);
}

// All datagrams are dropped for a while (field report R32, third run).
#[test]
fn a_short_outage_of_the_network_costs_nobody_a_segment() {
    let everyone: Vec<u128> = (1..=20).collect();
    let mut stage = Stage::with_holders(20);
    assert_eq!(offline(&stage.run(12_000, &[])), []);
    assert!(everyone.iter().all(|number| !stage.ping(*number, 1)));
    assert_eq!(stage.run(3 * TTL_MS, &everyone), []);
    assert_eq!(stage.clients.counts().graces_total, 0);
}

#[test]
fn clients_that_fall_silent_together_get_one_ttl_more() {
    let everyone: Vec<u128> = (1..=20).collect();
    let mut stage = Stage::with_holders(20);
    assert_eq!(offline(&stage.run(3 * TTL_MS - TICK_MS, &[])), []);
    assert_eq!(stage.clients.counts().graces_total, 1);
    assert!(everyone.iter().all(|number| !stage.ping(*number, 1)), "they keep their segments");
    assert_eq!(stage.run(3 * TTL_MS, &everyone), []);

    // The last pings came a tick before.
    assert_eq!(offline(&stage.run(3 * TTL_MS - 2 * TICK_MS, &[])), []);
    assert_eq!(stage.clients.counts().graces_total, 2, "another outage has its own grace");
    assert_eq!(offline(&stage.run(TICK_MS, &[])), everyone);
    assert_eq!(stage.run(3 * TTL_MS, &[]), []);
    assert_eq!(stage.clients.counts().graces_total, 2);
}

#[test]
fn an_outage_is_noticed_although_pings_are_spread_over_time() {
    let mut stage = Stage::with_holders(10);
    // The last signs of life before the outage lie up to a fifth of the TTL apart.
    for number in 1..=10 {
        stage.ping(number, 1);
        if number % 5 == 0 {
            stage.tick_after(TICK_MS);
        }
    }
    let effects = stage.run(3 * TTL_MS - 3 * TICK_MS, &[]);
    assert_eq!(offline(&effects), []);
    assert_eq!(stage.clients.counts().graces_total, 1);
    assert_eq!(offline(&stage.run(2 * TICK_MS, &[])).len(), 10);
}

#[test]
fn few_deaths_among_many_clients_get_no_grace() {
    let mut stage = Stage::with_holders(20);
    let living: Vec<u128> = (10..=20).collect();
    let effects = stage.run(2 * TTL_MS, &living);
    assert_eq!(offline(&effects), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(stage.clients.counts().graces_total, 0);
}

#[test]
fn two_clients_that_die_together_get_no_grace() {
    let mut stage = Stage::with_holders(2);
    assert_eq!(offline(&stage.run(2 * TTL_MS, &[])), [1, 2]);
    assert_eq!(stage.clients.counts().graces_total, 0);
}

#[test]
fn commands_that_come_and_go_neither_cause_nor_prevent_a_grace() {
    let mut stage = Stage::new();
    for number in 100..200 {
        stage.hear(ClientsMessage::Hello { client: ClientId(number), name: "put".into() });
    }
    assert_eq!(offline(&stage.run(2 * TTL_MS, &[])).len(), 100);
    assert_eq!(stage.clients.counts().graces_total, 0);

    let mut stage = Stage::with_holders(4);
    let commands: Vec<u128> = (100..200).collect();
    assert_eq!(offline(&stage.run(2 * TTL_MS, &commands)), []);
    assert_eq!(stage.clients.counts().graces_total, 1);
}

#[test]
fn a_stall_during_a_grace_doesnt_use_it_up() {
    let mut stage = Stage::with_holders(3);
    stage.run(2 * TTL_MS, &[]);
    assert_eq!(stage.clients.counts().graces_total, 1);
    assert_eq!(offline(&stage.tick_after(60_000)), []);
    assert_eq!(offline(&stage.run(TTL_MS - 2 * TICK_MS, &[])), []);
    assert_eq!(offline(&stage.run(TICK_MS, &[])), [1, 2, 3]);
}

#[test]
fn a_frozen_judgement_asks_and_drops_nobody_and_answers_pings() {
    let mut stage = Stage::with_holders(3);
    stage.run(8_000, &[]);
    stage.hear(ClientsMessage::FreezeJudgement(true));
    assert_eq!(stage.run(10 * TTL_MS, &[]), []);
    assert!(!stage.ping(3, 1));
    stage.now = stage.now.after_ms(500);
    stage.hear(ClientsMessage::FreezeJudgement(false));
    assert_eq!(asked(&stage.run(TICK_MS, &[])), []);
    let effects = stage.run(TICK_MS, &[]);
    assert_eq!(asked(&effects), [(1, TTL_MS), (2, TTL_MS)], "the silence before still counts");
}

// A remount registers anew or changes nothing (field report R33).
#[test]
fn a_repeated_remount_changes_nothing() {
    let mut stage = Stage::with_holders(2);
    for _ in 0..100 {
        assert_eq!(stage.hear(ClientsMessage::Remounted { client: ClientId(1), segments: 1 }), []);
    }
    assert_eq!(stage.list().len(), 2);
    assert_eq!(stage.list()[0].segments, 1);
    assert!(!stage.ping(1, 1));
}

#[test]
fn a_remount_of_a_new_client_makes_it_known_and_alive() {
    let mut stage = Stage::with_holders(1);
    stage.run(TTL_MS - TICK_MS, &[]);
    stage.hear(ClientsMessage::Remounted { client: ClientId(2), segments: 1 });
    let effects = stage.run(TTL_MS - TICK_MS, &[]);
    assert!(asked(&effects).iter().all(|(number, _)| *number == 1));
    assert!(!stage.ping(2, 1));
}

#[test]
fn time_that_stands_still_or_a_ttl_of_nothing_harms_nobody() {
    let mut clients = Clients::new(ClientsConfig { client_ttl_ms: 0, tick_period_ms: 0 });
    let mut effects = Vec::new();
    clients.apply(Moment::from_ms(u64::MAX), mounted(ClientId(1), 1), &mut effects);
    clients.apply(Moment::default(), ClientsMessage::Tick, &mut effects);
    clients.apply(Moment::from_ms(u64::MAX), ClientsMessage::Tick, &mut effects);
    assert_eq!(offline(&effects), []);
}
