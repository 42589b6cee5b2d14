//! One peer takes what it can, and the others are served nevertheless.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use mooring_proto::client::PutOptions;
use quinn::{Connection, ConnectionError, Endpoint};
use tokio::task::JoinHandle;

use super::cluster::{Cluster, PER_ADDRESS_MAX};
use super::plan::{Plan, client};
use super::with_paused_clock;

#[test]
fn an_address_that_has_all_its_connections_keeps_no_other_one_out() {
    let counted = with_paused_clock(1, async |stillness| {
        let cluster = Cluster::start(&Plan::fair(1), &stillness).await?;
        let mut open = Vec::new();
        for _ in 0..PER_ADDRESS_MAX {
            let (endpoint, connecting) = cluster.knock(client(1))?;
            open.push((endpoint, connecting.await.map_err(|error| error.to_string())?));
        }
        let (_endpoint, connecting) = cluster.knock(client(1))?;
        match connecting.await {
            Err(ConnectionError::ConnectionClosed(close)) => {
                assert_eq!(close.error_code, quinn::TransportErrorCode::CONNECTION_REFUSED);
            }
            other => panic!("one more than it may have: {other:?}"),
        }
        assert_eq!(cluster.listener.most_connections(), PER_ADDRESS_MAX);
        put_and_get(&cluster, 2).await?;
        // One that goes makes room for the next.
        if let Some((endpoint, connection)) = open.pop() {
            connection.close(0_u32.into(), b"");
            endpoint.wait_idle().await;
        }
        let (_endpoint, connecting) = cluster.knock(client(1))?;
        connecting.await.map_err(|error| error.to_string())?;
        let counters = &cluster.context.counters;
        Ok([&counters.connections_refused, &counters.address_connections_refused]
            .map(|counter| counter.value()))
    });
    assert_eq!(counted, Ok([1, 1]));
}

#[test]
fn handshakes_under_forged_addresses_leave_places_for_those_who_prove_theirs() {
    let counted = with_paused_clock(2, async |stillness| {
        let cluster = Cluster::start(&Plan::fair(2), &stillness).await?;
        let hosts = (0..600_u16)
            .map(|number| Ipv4Addr::new(10, 9, number.to_be_bytes()[0], number.to_be_bytes()[1]));
        let _knocking = knock_without_hearing(&cluster, hosts.map(IpAddr::V4))?;
        put_and_get(&cluster, 1).await?;
        let counters = &cluster.context.counters;
        Ok((counters.connections_refused.value(), counters.handshakes_retried.value() > 300))
    });
    assert_eq!(counted, Ok((0, true)));
}

/// Until the machine itself is there: as when a store comes back after a restart.
#[test]
fn handshakes_under_one_forged_address_leave_places_for_who_is_there() {
    let counted = with_paused_clock(3, async |stillness| {
        let cluster = Cluster::start(&Plan::fair(3), &stillness).await?;
        let hosts = std::iter::repeat_n(client(1), PER_ADDRESS_MAX);
        let _knocking = knock_without_hearing(&cluster, hosts)?;
        let counters = &cluster.context.counters;
        let retried = &counters.handshakes_retried;
        while retried.value() + (PER_ADDRESS_MAX as u64 / 4) < PER_ADDRESS_MAX as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = retried.value();
        put_and_get(&cluster, 1).await?;
        Ok((counters.address_connections_refused.value(), retried.value() > before))
    });
    assert_eq!(counted, Ok((0, true)));
}

type Knocking = Vec<(Endpoint, JoinHandle<Result<Connection, ConnectionError>>)>;

/// Begins handshakes in the names of these hosts, to which nothing comes that is sent to them for it.
fn knock_without_hearing(
    cluster: &Cluster,
    hosts: impl Iterator<Item = IpAddr>,
) -> Result<Knocking, String> {
    let (mut knocking, mut ports) = (Vec::new(), BTreeSet::new());
    for host in hosts {
        let (endpoint, connecting) = cluster.knock(host)?;
        ports.insert(endpoint.local_addr().map_err(|error| error.to_string())?);
        knocking.push((endpoint, tokio::spawn(connecting)));
    }
    cluster.network.deafen(ports);
    Ok(knocking)
}

/// A client at this host does what clients do.
async fn put_and_get(cluster: &Cluster, number: u8) -> Result<(), String> {
    let client = cluster.client(number).await?;
    let put = client.put("key", "value", &PutOptions::default()).await;
    put.map_err(|error| error.to_string())?;
    let found = client.fetch("key").await.map_err(|error| error.to_string())?;
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    Ok(())
}
