//! What a put asks for beside its bytes: replicas, pins, groups, and where it would like to be.

use mooring_actors::core::SegmentTable;
use mooring_actors::shard::message::{PutExtras, SoftPinAction as PinAction};
use mooring_proto::limits::{PREFERRED_SEGMENTS_MAX, REPLICAS_MAX};
use mooring_proto::message::object::{PutOptions, PutStartGrant};
use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::mooncake::{ErrorCode, Expected, ReplicateConfig, SoftPinAction, Str};
use mooring_proto::{ClientId, SegmentId};

use super::keys;
use super::listener::MooncakeOptions;

/// A configuration that was found right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placement {
    replicas: u8,
    hard_pin: bool,
    soft_pin: PinAction,
    soft_pin_ttl_ms: Option<u64>,
    data_type: u8,
    /// By key, or none.
    groups: Vec<Box<[u8]>>,
}

/// The segments to try first, at most [`PREFERRED_SEGMENTS_MAX`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preferred(Vec<SegmentId>);

impl Placement {
    /// Checks the configuration of a start of so many keys, in the order of the existing master.
    ///
    /// # Errors
    /// `INVALID_PARAMS` for one that asks for nothing, for more than can be had, or for a tier that is
    /// switched off.
    pub(super) fn of(
        config: &ReplicateConfig<'_>,
        keys: usize,
        options: &MooncakeOptions,
    ) -> Expected<Placement> {
        if config.replica_num == 0 || config.nof_replica_num > 0 || config.dfs_replica_num > 0 {
            return Err(ErrorCode::INVALID_PARAMS);
        }
        let (soft_pin, soft_pin_ttl_ms) = soft_pin(config, options)?;
        let groups = match &config.group_ids {
            None => Vec::new(),
            Some(groups) if groups.len() != keys => return Err(ErrorCode::INVALID_PARAMS),
            Some(groups) => groups.iter().map(|group| Box::from(group.0)).collect(),
        };
        Ok(Placement {
            // More than there can be are granted as far as they can.
            replicas: config.replica_num.min(REPLICAS_MAX as u64) as u8,
            hard_pin: config.with_hard_pin,
            soft_pin,
            soft_pin_ttl_ms,
            data_type: config.data_type.0,
            groups,
        })
    }

    /// As options of a put.
    pub(super) fn options(&self, preferred: &Preferred) -> PutOptions {
        PutOptions {
            replicas: self.replicas,
            preferred_segments: preferred.0.clone(),
            hard_pin: self.hard_pin,
            soft_pin_ttl_ms: self.soft_pin_ttl_ms,
        }
    }

    /// What the options do not say, with the groups that `pick` chooses; `None` if that is nothing.
    pub(super) fn extras(
        &self,
        pick: impl Fn(&[Box<[u8]>]) -> Vec<Box<[u8]>>,
    ) -> Option<Box<PutExtras>> {
        let groups = if self.groups.is_empty() { Vec::new() } else { pick(&self.groups) };
        let extras = PutExtras { data_type: self.data_type, soft_pin: self.soft_pin, groups };
        (extras != PutExtras::default()).then(|| Box::new(extras))
    }
}

/// A time goes with ENABLE alone, and has a bound; no time is the master's default, and zero is none.
fn soft_pin(
    config: &ReplicateConfig<'_>,
    options: &MooncakeOptions,
) -> Expected<(PinAction, Option<u64>)> {
    let enabled = config.soft_pin_action == SoftPinAction::ENABLE;
    if config.soft_pin_ttl_ms.is_some_and(|ttl_ms| !enabled || ttl_ms > options.soft_pin_ttl_max_ms)
    {
        return Err(ErrorCode::INVALID_PARAMS);
    }
    match config.soft_pin_action {
        SoftPinAction::PRESERVE => Ok((PinAction::Preserve, None)),
        SoftPinAction::DISABLE => Ok((PinAction::Disable, None)),
        SoftPinAction::ENABLE => match config.soft_pin_ttl_ms.unwrap_or(options.soft_pin_ttl_ms) {
            0 => Ok((PinAction::Disable, None)),
            ttl_ms => Ok((PinAction::Enable, Some(ttl_ms))),
        },
        _ => Err(ErrorCode::INVALID_PARAMS),
    }
}

impl Preferred {
    /// The segments that the configuration names. If it names none and puts go to the host of their
    /// writer, the segments there.
    pub(super) fn of(
        config: &ReplicateConfig<'_>,
        client: ClientId,
        table: &SegmentTable,
        local_first: bool,
    ) -> Preferred {
        // The older, single form wins where it is used.
        let single = std::slice::from_ref(&config.preferred_segment);
        let names = if config.preferred_segment.0.is_empty() {
            &config.preferred_segments[..]
        } else {
            single
        };
        let named = names.iter().flat_map(|name| keys::named(table, *name));
        let preferred = Preferred::first(named);
        if preferred.0.is_empty() && local_first && config.replica_num == 1 {
            return Preferred::local(config.host_id, client, table);
        }
        preferred
    }

    /// The segments at the endpoint where this grant lies, or `None` if it is gone.
    pub(super) fn beside(grant: &PutStartGrant, table: &SegmentTable) -> Option<Preferred> {
        let first = grant.replicas.first()?;
        let is_it =
            |row: &&SegmentEntry| (row.slot, row.generation) == (first.slot, first.generation);
        let endpoint = &table.segments.iter().find(is_it)?.segment.endpoint;
        let rows = table.segments.iter().filter(|row| row.segment.endpoint == *endpoint);
        Some(Preferred::first(rows))
    }

    /// The segments on the host that the writer names, or else on which it has segments itself.
    fn local(host: Str<'_>, client: ClientId, table: &SegmentTable) -> Preferred {
        let own = table.segments.iter().find(|row| row.client == client).map(host_of);
        let named = std::str::from_utf8(host.0).ok().filter(|host| !host.is_empty());
        let Some(host) = named.or(own) else { return Preferred::default() };
        if is_no_host(host) {
            return Preferred::default();
        }
        Preferred::first(table.segments.iter().filter(|row| host_of(row) == host))
    }

    fn first<'a>(rows: impl Iterator<Item = &'a SegmentEntry>) -> Preferred {
        Preferred(rows.map(|row| row.segment.segment).take(PREFERRED_SEGMENTS_MAX).collect())
    }
}

/// The host that a store says it runs on, or that of its endpoint.
fn host_of(row: &SegmentEntry) -> &str {
    match &row.segment.transfer_engine {
        Some(engine) if !engine.host.is_empty() => &engine.host,
        _ => keys::host_of(&row.segment.endpoint),
    }
}

/// Addresses that every host calls itself by.
fn is_no_host(host: &str) -> bool {
    matches!(host, "" | "localhost" | "0.0.0.0" | "::" | "::1") || host.starts_with("127.")
}

#[cfg(test)]
mod tests {
    use mooring_proto::message::object::RangeDescriptor;
    use mooring_proto::message::segment::{Segment, TransferEngine};

    use super::*;

    fn config() -> ReplicateConfig<'static> {
        ReplicateConfig::default()
    }

    fn placement(config: &ReplicateConfig<'_>) -> Expected<Placement> {
        Placement::of(config, 2, &MooncakeOptions::default())
    }

    fn row(slot: u32, client: u128, name: &str, endpoint: &str, host: &str) -> SegmentEntry {
        let engine = TransferEngine {
            name: name.to_owned(),
            protocol: "tcp".to_owned(),
            host: host.to_owned(),
        };
        let segment = Segment {
            segment: SegmentId(slot.into()),
            base: 4096,
            size_bytes: 4096,
            endpoint: endpoint.to_owned(),
            certificate_sha256: None,
            transfer_engine: Some(engine),
        };
        SegmentEntry { slot, generation: 1, client: ClientId(client), segment }
    }

    fn table() -> SegmentTable {
        let segments = vec![
            row(0, 1, "a", "10.0.0.1:1", ""),
            row(1, 1, "a", "10.0.0.1:1", ""),
            row(2, 2, "b", "10.0.0.2:1", "rack-2"),
            row(3, 3, "c", "127.0.0.1:9", ""),
        ];
        SegmentTable { epoch: 1, segments }
    }

    fn ids(preferred: &Preferred) -> Vec<u128> {
        preferred.0.iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_configuration_that_asks_for_nothing_or_for_a_tier_that_is_off_is_refused() {
        let refused = [
            ReplicateConfig { replica_num: 0, ..config() },
            ReplicateConfig { nof_replica_num: 1, ..config() },
            ReplicateConfig { dfs_replica_num: 1, ..config() },
            ReplicateConfig { group_ids: Some(vec![Str::from("g")]), ..config() },
            ReplicateConfig { soft_pin_action: SoftPinAction(3), ..config() },
            ReplicateConfig { soft_pin_ttl_ms: Some(5), ..config() },
            ReplicateConfig {
                soft_pin_action: SoftPinAction::ENABLE,
                soft_pin_ttl_ms: Some(86_400_001),
                ..config()
            },
        ];
        for config in refused {
            assert_eq!(placement(&config), Err(ErrorCode::INVALID_PARAMS), "{config:?}");
        }
        assert!(placement(&config()).is_ok());
    }

    #[test]
    fn a_soft_pin_without_a_time_gets_the_default_and_one_of_no_time_is_none() {
        let pinned = |ttl_ms| {
            let config = ReplicateConfig {
                soft_pin_action: SoftPinAction::ENABLE,
                soft_pin_ttl_ms: ttl_ms,
                ..config()
            };
            let placement = placement(&config).unwrap();
            (placement.soft_pin, placement.soft_pin_ttl_ms)
        };
        assert_eq!(pinned(None), (PinAction::Enable, Some(1_800_000)));
        assert_eq!(pinned(Some(7)), (PinAction::Enable, Some(7)));
        assert_eq!(pinned(Some(0)), (PinAction::Disable, None));
    }

    #[test]
    fn groups_go_with_their_keys_and_nothing_is_said_where_there_is_nothing_to_say() {
        assert_eq!(placement(&config()).unwrap().extras(|groups| groups.to_vec()), None);
        let groups = vec![Str::from("g"), Str::from("")];
        let placement =
            placement(&ReplicateConfig { group_ids: Some(groups), ..config() }).unwrap();
        let extras = placement.extras(|groups| vec![groups[1].clone(), groups[0].clone()]).unwrap();
        assert_eq!(extras.groups, [Box::from(b"".as_slice()), Box::from(b"g".as_slice())]);
    }

    #[test]
    fn names_stand_for_all_their_segments_and_the_single_form_wins() {
        let names = vec![Str::from("b"), Str::from("a"), Str::from("nobody")];
        let config = ReplicateConfig { preferred_segments: names, ..config() };
        let of = |config: &ReplicateConfig<'_>| {
            ids(&Preferred::of(config, ClientId(9), &table(), false))
        };
        assert_eq!(of(&config), [2, 0, 1]);
        let single = ReplicateConfig { preferred_segment: Str::from("c"), ..config };
        assert_eq!(of(&single), [3]);
    }

    #[test]
    fn local_first_takes_the_host_of_the_writer_and_never_a_loopback() {
        let of = |config: &ReplicateConfig<'_>, client| {
            ids(&Preferred::of(config, ClientId(client), &table(), true))
        };
        assert_eq!(of(&config(), 1), [0, 1]);
        assert_eq!(of(&config(), 2), [2], "the host that the store names");
        assert_eq!(of(&config(), 3), [] as [u128; 0]);
        assert_eq!(of(&config(), 9), [] as [u128; 0], "it has no segments");
        let named = ReplicateConfig { host_id: Str::from("rack-2"), ..config() };
        assert_eq!(of(&named, 1), [2]);
        let preferring = ReplicateConfig { preferred_segment: Str::from("c"), ..config() };
        assert_eq!(of(&preferring, 1), [3]);
    }

    #[test]
    fn the_rest_of_a_batch_goes_beside_its_first_object() {
        let replica = RangeDescriptor { slot: 1, generation: 1, offset_bytes: 0 };
        let grant = PutStartGrant { sequence: 1, replicas: vec![replica].into() };
        assert_eq!(ids(&Preferred::beside(&grant, &table()).unwrap()), [0, 1]);
        let gone = RangeDescriptor { generation: 2, ..replica };
        let grant = PutStartGrant { sequence: 1, replicas: vec![gone].into() };
        assert_eq!(Preferred::beside(&grant, &table()), None);
    }
}
