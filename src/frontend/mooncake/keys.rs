//! Names of this protocol and of the core: ids, keys, segments by name.

use mooring_actors::core::SegmentTable;
use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::mooncake::{Str, Uuid};
use mooring_proto::{ClientId, SegmentId};

/// The client with this id.
pub(super) fn client(id: Uuid) -> ClientId {
    ClientId(number(id))
}

/// The segment with this id.
pub(super) fn segment(id: Uuid) -> SegmentId {
    SegmentId(number(id))
}

fn number(id: Uuid) -> u128 {
    u128::from(id.first) << 64 | u128::from(id.second)
}

/// The segments with this name, in the order of the table.
pub(super) fn named<'a>(
    table: &'a SegmentTable,
    name: Str<'a>,
) -> impl Iterator<Item = &'a SegmentEntry> {
    table.segments.iter().filter(move |row| {
        let engine = row.segment.transfer_engine.as_ref();
        engine.is_some_and(|engine| engine.name.as_bytes() == name.0)
    })
}

/// The host of an endpoint or name: what stands before the port, without brackets, and without the
/// scope of an IPv6 address.
pub(super) fn host_of(endpoint: &str) -> &str {
    let host = match endpoint.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        // More than one colon and no bracket is an IPv6 address without a port.
        None if endpoint.matches(':').count() > 1 => endpoint,
        None => endpoint.split(':').next().unwrap_or(endpoint),
    };
    host.split('%').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_endpoint_is_what_stands_before_the_port() {
        for (endpoint, host) in [
            ("10.0.0.1:12345", "10.0.0.1"),
            ("node-5", "node-5"),
            ("[fe80::1%eth0]:17", "fe80::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("::1", "::1"),
            ("", ""),
        ] {
            assert_eq!(host_of(endpoint), host, "{endpoint}");
        }
    }

    #[test]
    fn both_halves_of_an_id_tell_clients_apart() {
        let ids = [(1, 2), (2, 1), (1, 1)].map(|(first, second)| client(Uuid { first, second }));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }
}
