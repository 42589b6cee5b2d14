//! A network in memory: it carries packets between the endpoints of one thread, and what becomes of
//! each follows from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, Sleep, sleep_until};

/// What happens to packets on their way between two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The part of packets that is lost.
    pub(crate) lost: f64,
    /// The part that arrives twice.
    pub(crate) doubled: f64,
    /// The part in which a byte is changed.
    pub(crate) damaged: f64,
    /// The shortest way.
    pub(crate) delay: Duration,
    /// Up to so much longer, for each packet for itself: later ones overtake.
    pub(crate) jitter: Duration,
    /// Of each direction between two hosts.
    pub(crate) bytes_per_s: u64,
    /// Packets that would wait behind more than this are lost.
    pub(crate) queue_bytes: u64,
    /// Larger packets are lost.
    pub(crate) packet_bytes_max: usize,
}

impl Weather {
    /// A data centre on a good day.
    pub(crate) const FAIR: Weather = Weather {
        lost: 0.0,
        doubled: 0.0,
        damaged: 0.0,
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        bytes_per_s: 1 << 30,
        queue_bytes: 16 << 20,
        packet_bytes_max: 9_000,
    };
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) cut: u64,
    pub(crate) too_large: u64,
    pub(crate) overflowed: u64,
    pub(crate) doubled: u64,
    pub(crate) damaged: u64,
    pub(crate) overtook: u64,
}

/// The network.
pub(crate) struct Network {
    state: Mutex<State>,
}

struct State {
    random: StdRng,
    weather: Weather,
    cut_off: BTreeSet<IpAddr>,
    deaf: BTreeSet<SocketAddr>,
    inboxes: BTreeMap<SocketAddr, Inbox>,
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    next_port: u16,
    next_order: u64,
    began: Instant,
    fates: Fates,
    digest: DefaultHasher,
    /// Prints every packet.
    traced: bool,
}

/// Packets for one endpoint, by when they arrive.
#[derive(Default)]
struct Inbox {
    packets: BTreeMap<(Instant, u64), Packet>,
    reader: Option<Waker>,
}

#[derive(Clone)]
struct Packet {
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: Vec<u8>,
}

/// One direction between two hosts.
struct Link {
    /// When what was sent has left.
    free_at: Instant,
    /// When the last packet arrives.
    last_due: Instant,
}

impl Network {
    /// A network that decides by this seed. Must be made within the runtime whose clock it follows.
    pub(crate) fn new(seed: u64) -> Arc<Network> {
        let state = State {
            random: StdRng::seed_from_u64(seed),
            weather: Weather::FAIR,
            cut_off: BTreeSet::new(),
            deaf: BTreeSet::new(),
            inboxes: BTreeMap::new(),
            links: BTreeMap::new(),
            next_port: FIRST_PORT,
            next_order: 0,
            began: Instant::now(),
            fates: Fates::default(),
            digest: DefaultHasher::new(),
            traced: std::env::var_os("MOORING_NETWORK_TRACE").is_some(),
        };
        Arc::new(Network { state: Mutex::new(state) })
    }

    /// A port of this host; 0 takes the next free one.
    pub(crate) fn open(self: &Arc<Network>, host: IpAddr, port: u16) -> Arc<Port> {
        let mut state = self.locked();
        let port = if port == 0 { state.next_port() } else { port };
        let address = SocketAddr::new(host, port);
        let taken = state.inboxes.insert(address, Inbox::default());
        assert!(taken.is_none(), "{address} is open already");
        let alarm = Mutex::new(Box::pin(sleep_until(Instant::now())));
        Arc::new(Port { network: self.clone(), address, alarm })
    }

    /// How packets fare that are sent from now on.
    pub(crate) fn set_weather(&self, weather: Weather) {
        self.locked().weather = weather;
    }

    /// Loses everything from and to these hosts from now on, and nothing of others.
    pub(crate) fn cut_off(&self, hosts: BTreeSet<IpAddr>) {
        self.locked().cut_off = hosts;
    }

    /// Loses everything to these ports from now on, as if others had sent in their names.
    pub(crate) fn deafen(&self, ports: BTreeSet<SocketAddr>) {
        self.locked().deaf = ports;
    }

    /// The addresses that are open.
    pub(crate) fn open_ports(&self) -> Vec<SocketAddr> {
        self.locked().inboxes.keys().copied().collect()
    }

    /// What became of packets so far.
    pub(crate) fn fates(&self) -> Fates {
        self.locked().fates
    }

    /// Of everything that was sent so far, when, how large, and what became of it.
    pub(crate) fn digest(&self) -> u64 {
        self.locked().digest.finish()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }

    /// Decides about one packet. The same numbers are drawn whatever its fate, so that one change
    /// of the weather does not change all that follows.
    fn send(&mut self, to: SocketAddr, packet: Packet) {
        let weather = self.weather;
        let length = packet.bytes.len();
        let draws: [f64; 5] = self.random.random();
        let place: usize = self.random.random_range(0..length.max(1));
        let now = Instant::now();
        let (from, to_host) = (packet.from.ip(), to.ip());
        self.fates.sent += 1;
        let is_cut = self.cut_off.contains(&from)
            || self.cut_off.contains(&to_host)
            || self.deaf.contains(&to);
        let fate = if is_cut {
            self.fates.cut += 1;
            "cut"
        } else if length > weather.packet_bytes_max {
            self.fates.too_large += 1;
            "too large"
        } else if draws[0] < weather.lost {
            self.fates.lost += 1;
            "lost"
        } else {
            "carried"
        };
        let since = now.duration_since(self.began);
        (since, packet.from, to, length, fate).hash(&mut self.digest);
        if self.traced {
            println!("{since:?} {} -> {to}: {length} bytes {fate}", packet.from);
        }
        if fate != "carried" {
            return;
        }
        let Some(left) = self.pass_link(from, to_host, length, now) else { return };
        let due = |draw: f64| left + weather.delay + weather.jitter.mul_f64(draw);
        let mut packet = packet;
        if draws[1] < weather.doubled {
            self.fates.doubled += 1;
            self.deliver(to, due(draws[2]), packet.clone());
        }
        if draws[3] < weather.damaged {
            self.fates.damaged += 1;
            packet.bytes[place] ^= 1;
        }
        self.deliver(to, due(draws[4]), packet);
    }

    /// When the packet has left over a link of limited speed; `None` if too much waits before it.
    fn pass_link(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        bytes: usize,
        now: Instant,
    ) -> Option<Instant> {
        let fresh = || Link { free_at: now, last_due: now };
        let link = self.links.entry((from, to)).or_insert_with(fresh);
        let begins = link.free_at.max(now);
        let speed = self.weather.bytes_per_s as f64;
        let waiting_bytes = begins.duration_since(now).as_secs_f64() * speed;
        if waiting_bytes > self.weather.queue_bytes as f64 {
            self.fates.overflowed += 1;
            return None;
        }
        link.free_at = begins + Duration::from_secs_f64(bytes as f64 / speed);
        Some(link.free_at)
    }

    fn deliver(&mut self, to: SocketAddr, due: Instant, packet: Packet) {
        if let Some(link) = self.links.get_mut(&(packet.from.ip(), to.ip())) {
            self.fates.overtook += u64::from(due < link.last_due);
            link.last_due = link.last_due.max(due);
        }
        // Nobody listens there any more, or not yet: it is lost as on a real network.
        let Some(inbox) = self.inboxes.get_mut(&to) else { return };
        inbox.packets.insert((due, self.next_order), packet);
        self.next_order += 1;
        if let Some(reader) = inbox.reader.take() {
            reader.wake();
        }
    }
}

/// A UDP socket on the network.
pub(crate) struct Port {
    network: Arc<Network>,
    address: SocketAddr,
    alarm: Mutex<Pin<Box<Sleep>>>,
}

impl Port {
    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl AsyncUdpSocket for Port {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut state = self.network.locked();
        let packet_bytes = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for bytes in transmit.contents.chunks(packet_bytes) {
            let packet = Packet { from: self.address, ecn: transmit.ecn, bytes: bytes.to_vec() };
            state.send(transmit.destination, packet);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let due = {
                let mut state = self.network.locked();
                let Some(inbox) = state.inboxes.get_mut(&self.address) else {
                    return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                };
                let taken = inbox.take_due(buffers, meta);
                if taken > 0 {
                    return Poll::Ready(Ok(taken));
                }
                inbox.reader = Some(context.waker().clone());
                inbox.packets.first_key_value().map(|((due, _), _)| *due)
            };
            let Some(due) = due else { return Poll::Pending };
            let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
            alarm.as_mut().reset(due);
            ready!(alarm.as_mut().poll(context));
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS_AT_ONCE
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Inbox {
    /// Copies what has arrived into the buffers; gives how many packets.
    fn take_due(&mut self, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> usize {
        let now = Instant::now();
        let mut taken = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            match self.packets.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let packet = first.remove();
                    // What does not fit is cut, as by the system.
                    let length = packet.bytes.len().min(buffer.len());
                    buffer[..length].copy_from_slice(&packet.bytes[..length]);
                    *meta = RecvMeta {
                        addr: packet.from,
                        len: length,
                        stride: length,
                        ecn: packet.ecn,
                        dst_ip: None,
                    };
                    taken += 1;
                }
                _ => break,
            }
        }
        taken
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.network.locked().inboxes.remove(&self.address);
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Port({})", self.address)
    }
}

/// What has no room is lost on the way, as with UDP whose buffer is large.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Above those of servers.
const FIRST_PORT: u16 = 60_000;

/// As many as Linux takes in one call.
const SEGMENTS_AT_ONCE: usize = 64;
