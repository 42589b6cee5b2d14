//! What a client is told before it connects.

use crate::client::ClientError;
use crate::client::random::random;
use crate::client::tls::ClientTls;
use crate::client::transport::Endpoints;
use crate::frame::TraceContext;
use crate::identity::ClientId;
use crate::limits::NAME_BYTES_MAX;

/// How to reach a master, how to trust it, and how long to wait for it.
///
/// [`ClientConfig::new`] fills in what suits one data centre; every field may be changed before
/// [`Client::connect`](crate::client::Client::connect).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Host and port of the master. A name is resolved again at each connect, and all of its
    /// addresses are tried.
    pub master: String,
    /// Whom to trust, and who the client is.
    pub tls: ClientTls,
    /// Who connects: random for each process, so leave it alone unless a process has several
    /// clients that shall count as one.
    pub client: ClientId,
    /// A name for people, at most 255 bytes; need not be unique.
    pub name: String,
    /// Most time for one attempt to connect, over all addresses, in milliseconds, from 1.
    pub connect_timeout_ms: u64,
    /// Most time for one call with all its retries, and for one piece of an object on its way from
    /// or to a store, in milliseconds, from 1. A piece to a store is given up after 30 s also if this
    /// is longer, since its space is not kept for it any more.
    pub request_timeout_ms: u64,
    /// Most requests at once on the connection to the master, from 1; more calls wait in turn. The
    /// default is far below the stream limit of a master, so that pings always find a stream.
    pub max_in_flight: usize,
    /// The largest object that `fetch` takes into memory, in bytes; larger ones are refused.
    pub fetch_bytes_max: u64,
    /// The size of the first QUIC packets, in bytes, 1,200 to 8,952. The default fits an Ethernet
    /// frame; lower it where an overlay network takes its share of the frame. Later ones are as large
    /// as the network is found to carry, up to 8,952 bytes.
    pub initial_mtu_bytes: u16,
    /// What the connections to the master and to stores are made on.
    pub endpoints: Endpoints,
    /// The trace of calls that are made where no span of OpenTelemetry is active.
    pub trace_parent: Option<TraceContext>,
    /// The share of calls without any trace that begin one, from 0 to 1; without an OpenTelemetry of
    /// the program they do not.
    pub trace_ratio: f64,
}

impl ClientConfig {
    /// A configuration with the usual limits and a random client id.
    pub fn new(master: impl Into<String>, tls: ClientTls) -> ClientConfig {
        ClientConfig {
            master: master.into(),
            tls,
            client: ClientId(random()),
            name: String::new(),
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            max_in_flight: MAX_IN_FLIGHT,
            fetch_bytes_max: FETCH_BYTES_MAX,
            initial_mtu_bytes: INITIAL_MTU_BYTES,
            endpoints: Endpoints::default(),
            trace_parent: None,
            trace_ratio: 0.0,
        }
    }

    pub(super) fn check(&self) -> Result<(), ClientError> {
        let fault = if self.name.len() > NAME_BYTES_MAX {
            format!("name has {} bytes, the limit is {NAME_BYTES_MAX}", self.name.len())
        } else if self.connect_timeout_ms == 0 || self.request_timeout_ms == 0 {
            "a timeout of zero".to_owned()
        } else if self.max_in_flight == 0 {
            "max_in_flight is zero".to_owned()
        } else if !(INITIAL_MTU_BYTES_MIN..=INITIAL_MTU_BYTES_MAX).contains(&self.initial_mtu_bytes)
        {
            format!(
                "initial_mtu_bytes is {}, allowed is {INITIAL_MTU_BYTES_MIN} to \
                 {INITIAL_MTU_BYTES_MAX}",
                self.initial_mtu_bytes
            )
        } else if !(0.0..=1.0).contains(&self.trace_ratio) {
            format!("trace_ratio is {}, allowed is 0 to 1", self.trace_ratio)
        } else {
            return Ok(());
        };
        Err(ClientError::Config(fault))
    }
}

/// A handshake inside a data centre takes milliseconds; two seconds survive a lost packet or two
/// and still give the next attempt its turn soon.
const CONNECT_TIMEOUT_MS: u64 = 2_000;

/// Longer than a planned restart of a master takes.
const REQUEST_TIMEOUT_MS: u64 = 30_000;

/// Enough to keep a master busy with batches; below the 100 streams that QUIC servers grant by
/// default.
const MAX_IN_FLIGHT: usize = 64;

/// Above any block of a cache, below what a machine that reads blocks has.
const FETCH_BYTES_MAX: u64 = 8 << 30;

/// An Ethernet frame less the headers of IPv6 and UDP, which nearly every network carries.
const INITIAL_MTU_BYTES: u16 = 1_452;

/// The smallest packet that every QUIC path carries.
const INITIAL_MTU_BYTES_MIN: u16 = 1_200;

/// What discovery would find at most.
const INITIAL_MTU_BYTES_MAX: u16 = super::packets::PACKET_BYTES_MAX;
