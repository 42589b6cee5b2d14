//! The real processes behind a network that loses, doubles and delays packets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mooring_proto::client::{Client, ClientConfig, ClientTls, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::peer::in_time;
use crate::pool::{Pool, patterned, rpc};

/// Passes packets on between clients and one server, and some of them not, or twice, or late.
struct BadNetwork {
    /// Where clients reach the server through it.
    address: SocketAddr,
    fates: Arc<Fates>,
    _passing: JoinSet<()>,
}

/// What became of packets.
#[derive(Default)]
struct Fates {
    passed: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    late: AtomicU64,
}

impl BadNetwork {
    /// One before this server, which decides by the seed.
    async fn before(server: SocketAddr, seed: u64) -> BadNetwork {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        let address = socket.local_addr().unwrap();
        let chance = Chance {
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            fates: Arc::default(),
        };
        let fates = chance.fates.clone();
        let mut passing = JoinSet::new();
        passing.spawn(pass_on(socket, server, chance));
        BadNetwork { address, fates, _passing: passing }
    }
}

/// From all clients to the server, and back by a socket for each.
async fn pass_on(socket: Arc<UdpSocket>, server: SocketAddr, chance: Chance) {
    let mut ways: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut back = JoinSet::new();
    let mut packet = vec![0; 1 << 16];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut packet).await else { continue };
        let way = match ways.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let way = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
                back.spawn(pass_back(way.clone(), socket.clone(), client, chance.clone()));
                place.insert(way)
            }
        };
        chance.send(way, &packet[..length], server);
    }
}

async fn pass_back(
    way: Arc<UdpSocket>,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    chance: Chance,
) {
    let mut packet = vec![0; 1 << 16];
    loop {
        // An error tells of a packet before that nobody took.
        let Ok(length) = way.recv(&mut packet).await else { continue };
        chance.send(&socket, &packet[..length], client);
    }
}

#[derive(Clone)]
struct Chance {
    random: Arc<Mutex<StdRng>>,
    fates: Arc<Fates>,
}

impl Chance {
    fn send(&self, socket: &Arc<UdpSocket>, packet: &[u8], to: SocketAddr) {
        let (fate, late) = {
            let mut random = self.random.lock().unwrap();
            let late = random.random_bool(0.1).then(|| random.random_range(1..20));
            (random.random_range(0..100), late)
        };
        if fate < 5 {
            self.fates.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let copies = if fate < 10 { 2 } else { 1 };
        self.fates.passed.fetch_add(1, Ordering::Relaxed);
        self.fates.doubled.fetch_add(copies - 1, Ordering::Relaxed);
        let Some(late_ms) = late else {
            // What finds no room is lost, as on any network.
            (0..copies).for_each(|_| drop(socket.try_send_to(packet, to)));
            return;
        };
        self.fates.late.fetch_add(1, Ordering::Relaxed);
        let (socket, packet) = (socket.clone(), packet.to_vec());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(late_ms)).await;
            (0..copies).for_each(|_| drop(socket.try_send_to(&packet, to)));
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_pass_a_network_that_loses_doubles_and_delays_packets_byte_by_byte() {
    let mut pool = Pool::start(&[], 0);
    let to_master = BadNetwork::before(rpc(&pool.master), 1).await;
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to_store = BadNetwork::before(free, 2).await;
    let (port, advertised) = (free.port().to_string(), to_store.address.to_string());
    let sizes = ["--memory", "96MiB", "--data-port", &port, "--advertise", &advertised];
    let master = to_master.address.to_string();
    let sha256 = pool.master.ready()["cert_sha256"].as_str().unwrap().to_owned();
    let flags = ["store", "--dev", "--address", "127.0.0.1", "--pin-sha256", &sha256];
    let all = [&flags[..], &["--master", &master], &sizes].concat();
    pool.stores.push(crate::harness::Process::serving(&all));

    let mut pin = [0; 32];
    for (byte, at) in pin.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&sha256[at..at + 2], 16).unwrap();
    }
    let config = ClientConfig::new(master, ClientTls::pinned(pin));
    let client = in_time(Client::connect(config)).await.unwrap();
    let objects: Vec<(String, Bytes)> = (0..24)
        .map(|number: usize| {
            let length = [1, 1_000, 60_000, 1_000_000][number % 4] + number;
            (format!("key-{number}"), patterned(length).into())
        })
        .collect();
    let puts = in_time(client.put_many(&objects, &PutOptions::default())).await;
    for ((key, _), put) in objects.iter().zip(puts) {
        put.unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    let keys: Vec<&String> = objects.iter().map(|(key, _)| key).collect();
    let found = in_time(client.fetch_many(&keys)).await;
    for ((key, value), found) in objects.iter().zip(found) {
        assert!(found.unwrap().as_ref() == Some(value), "{key} is another object");
    }
    client.close().await;
    assert_eq!(pool.json(&["stats"])["objects"], objects.len());
    for network in [&to_master, &to_store] {
        let Fates { passed, lost, doubled, late } = &*network.fates;
        let counts = [passed, lost, doubled, late].map(|it| it.load(Ordering::Relaxed));
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}
