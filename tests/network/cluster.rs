//! A master, its stores and their clients, all of them real, in one thread on one network.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mooring_actors::core::{Core, CoreConfig, Settings};
use mooring_proto::client::transport::Endpoints;
use mooring_proto::client::{Client, ClientConfig, ClientTls, packets};
use mooring_proto::message::segment::Segment;
use mooring_proto::message::session::ALPN_MASTER;
use mooring_proto::{ClientId, Incarnation, SegmentId};
use quinn::{Connecting, Endpoint, EndpointConfig};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

use super::plan::{MASTER, Plan, client, store};
use super::stillness::Stillness;
use super::wire::{Network, Port};
use crate::frontend::Context;
use crate::frontend::quic::{Listener, ListenerOptions, Roles};
use crate::frontend::slow::SlowLog;
use crate::store::listener as data_plane;
use crate::store::memory::SegmentMemory;
use crate::store::mounts::Mounts;
use crate::store::range::RangeService;
use crate::tls::{ServerTls, TlsFiles};

/// A master and its stores.
pub(crate) struct Cluster {
    pub(crate) network: Arc<Network>,
    pub(crate) context: Arc<Context>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) stores: Vec<Store>,
    tls: ServerTls,
    plan: Plan,
}

/// A store that is mounted.
pub(crate) struct Store {
    /// Keeps it mounted.
    _client: Client,
    pub(crate) endpoint: Endpoint,
}

impl Cluster {
    /// Starts all of them. Must be called within the runtime.
    ///
    /// # Errors
    /// If a store cannot be mounted.
    pub(crate) async fn start(plan: &Plan, stillness: &Stillness) -> Result<Cluster, String> {
        let network = Network::new(plan.seed);
        let mut config = CoreConfig::new(SHARDS, plan.seed, Incarnation(plan.seed + 1));
        config.settings = Settings {
            lease_ttl_ms: 2_000,
            put_discard_timeout_ms: 5_000,
            put_release_timeout_ms: 40_000,
            ..Settings::default()
        };
        let core = Core::start(config);
        let slow = SlowLog { threshold: None };
        let context = Arc::new(Context::new(core, ClientId(u128::MAX), slow));
        let tls = identity();
        let options = ListenerOptions {
            client_ttl: Duration::from_secs(10),
            reset_key: None,
            connections_per_address_max: PER_ADDRESS_MAX,
            roles: Roles::default(),
        };
        let socket = network.open(MASTER, MASTER_PORT);
        let listener = Listener::start_on(context.clone(), &tls, &options, |mut config, server| {
            config.rng_seed(Some(seed_of(plan.seed, &socket)));
            packets::open_on(config, Some(server), socket)
        })
        .map_err(|error| error.to_string())?;
        let listener = Arc::new(listener);
        stillness.watch(context.clone(), listener.clone());
        let mut cluster =
            Cluster { network, context, listener, stores: Vec::new(), tls, plan: plan.clone() };
        for number in 0..plan.stores {
            let store = cluster.start_store(number).await?;
            cluster.stores.push(store);
        }
        Ok(cluster)
    }

    async fn start_store(&self, number: u8) -> Result<Store, String> {
        let host = store(number);
        let memory = SegmentMemory::map(SEGMENT_BYTES, false).map_err(|error| error.to_string())?;
        let id = SegmentId(u128::from(number) + 1);
        let segment = Segment {
            segment: id,
            // Where the system maps it is another place in each run.
            base: 1 << 32,
            size_bytes: memory.size_bytes(),
            endpoint: SocketAddr::new(host, DATA_PORT).to_string(),
            certificate_sha256: Some(self.tls.fingerprint()),
            transfer_engine: None,
        };
        let server = data_plane::server_config(&self.tls).map_err(|error| error.to_string())?;
        let socket = self.network.open(host, DATA_PORT);
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed_of(self.plan.seed, &socket)));
        let endpoint =
            packets::open_on(config, Some(server), socket).map_err(|it| it.to_string())?;
        let client = self.connect(host, 1_000 + u128::from(number)).await?;
        let mounts = Mounts::new(HashMap::from([(id, memory)]), client.mounts());
        let service = Arc::new(RangeService::new(mounts, BUFFER_BYTES));
        tokio::spawn(data_plane::serve(endpoint.clone(), service));
        client.mount(segment, None).await.map_err(|error| error.to_string())?;
        Ok(Store { _client: client, endpoint })
    }

    /// A client on the host of this number.
    ///
    /// # Errors
    /// If it does not reach the master.
    pub(crate) async fn client(&self, number: u8) -> Result<Client, String> {
        self.connect(client(number), 2_000 + u128::from(number)).await
    }

    async fn connect(&self, host: IpAddr, id: u128) -> Result<Client, String> {
        let master = SocketAddr::new(MASTER, MASTER_PORT).to_string();
        let tls = ClientTls::pinned(self.tls.fingerprint());
        let mut config = ClientConfig::new(master, tls);
        config.client = ClientId(id);
        config.name = format!("of {host}");
        config.request_timeout_ms = self.plan.request_timeout.as_millis() as u64;
        let (network, seed) = (self.network.clone(), self.plan.seed);
        config.endpoints = Endpoints::from_fn(move |_| {
            let socket = network.open(host, 0);
            let mut config = EndpointConfig::default();
            config.rng_seed(Some(seed_of(seed, &socket)));
            packets::open_on(config, None, socket)
        });
        Client::connect(config).await.map_err(|error| format!("{host} does not connect: {error}"))
    }

    /// Begins a handshake with the master from this host.
    ///
    /// # Errors
    /// If it cannot even begin.
    pub(crate) fn knock(&self, host: IpAddr) -> Result<(Endpoint, Connecting), String> {
        let socket = self.network.open(host, 0);
        let endpoint = packets::open_on(EndpointConfig::default(), None, socket);
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let tls = ClientTls::pinned(self.tls.fingerprint());
        let config = tls.load(ALPN_MASTER).map_err(|error| error.to_string())?;
        let master = SocketAddr::new(MASTER, MASTER_PORT);
        let connecting = endpoint.connect_with(config, master, "localhost");
        Ok((endpoint, connecting.map_err(|error| error.to_string())?))
    }

    /// What each process keeps for its peers, in words; empty if nothing is left beyond the
    /// connections of the stores.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let stores = self.stores.len();
        // A store has two ports: one to serve, and one to the master.
        let ports = self.network.open_ports().len();
        let mut left = Vec::new();
        let mut expect = |what: &str, found: usize, expected: usize| {
            if found != expected {
                left.push(format!("{found} {what} instead of {expected}"));
            }
        };
        expect("connections of the master", self.listener.connections(), stores);
        expect("kept bytes of the master", self.listener.kept_bytes(), 0);
        expect("requests in flight", self.context.stage.in_flight(), 0);
        expect("open ports", ports, 1 + 2 * stores);
        for store in &self.stores {
            expect("connections of a store", store.endpoint.open_connections(), 0);
        }
        left
    }
}

/// A certificate that is as long as any other one, with signatures that are, so that packets are too.
fn identity() -> ServerTls {
    let directory = tempfile::tempdir().unwrap();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.serial_number = Some(1_u64.into());
    let files = TlsFiles {
        certificate: directory.path().join("certificate.pem"),
        key: directory.path().join("key.pem"),
        client_ca: None,
    };
    std::fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    ServerTls::from_files(files).unwrap()
}

/// The seed of what the endpoint at this port draws. Another one for each: a server takes what two draw
/// alike for one connection.
fn seed_of(seed: u64, port: &Port) -> [u8; 32] {
    let mut text = DefaultHasher::new();
    (seed, port.address()).hash(&mut text);
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&text.finish().to_le_bytes());
    seed
}

/// Connections of one address.
pub(crate) const PER_ADDRESS_MAX: usize = 64;

const MASTER_PORT: u16 = 50_051;
const DATA_PORT: u16 = 50_052;

/// Two, so that batches are split.
const SHARDS: u16 = 2;

/// More than all clients put: eviction would make a miss of an object that was put.
const SEGMENT_BYTES: usize = 256 << 20;

/// Of a store, for requests under way.
const BUFFER_BYTES: usize = 64 << 20;
