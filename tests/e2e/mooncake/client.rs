//! A client of the protocol that says exactly what a test wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mooring_proto::mooncake::{
    Descriptor, Expected, Form, MountSegment, Ping, PingResponse, Place, ReMountSegment,
    ReplicateConfig, ReplyHeader, Request, Segment, Str, Uuid, append_request, decode_reply,
    split_reply,
};

use crate::harness::{Master, Process};

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    seq: u32,
}

/// The store of all tests.
pub(crate) const STORE: Uuid = Uuid { first: 1, second: 2 };

/// The writer of all tests.
pub(crate) const WRITER: Uuid = Uuid { first: 3, second: 4 };

/// The tenant that clients name when they have none.
pub(crate) const TENANT: Str<'static> = Str(b"default");

/// A master with a port for clients of Mooncake.
pub(crate) fn master(flags: &[&str]) -> Master {
    Master::start(&[&["--mooncake-port", "0"], flags].concat())
}

/// Where clients of Mooncake reach a process.
pub(crate) fn port(process: &Process) -> SocketAddr {
    let address: SocketAddr = process.ready()["mooncake"].as_str().unwrap().parse().unwrap();
    SocketAddr::from(([127, 0, 0, 1], address.port()))
}

impl Client {
    /// Connects.
    pub(crate) fn connect(master: &Master) -> Client {
        Client::to(port(&master.process))
    }

    /// Connects to an address.
    pub(crate) fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { stream, buffer: Vec::new(), seq: 0 }
    }

    /// Sends a request and gives its number.
    pub(crate) fn send<R: Request>(&mut self, request: &R) -> u32 {
        let frame = self.frame(request);
        self.write(&frame);
        self.seq
    }

    /// The bytes of the next request.
    pub(crate) fn frame<R: Request>(&mut self, request: &R) -> Vec<u8> {
        self.seq += 1;
        let mut frame = Vec::new();
        append_request(&mut frame, self.seq, request, Form::WithLiteral).unwrap();
        frame
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply, or `None` if the connection is closed instead.
    pub(crate) fn receive(&mut self) -> Option<(ReplyHeader, Vec<u8>)> {
        loop {
            if let Some(frame) = split_reply(&self.buffer, usize::MAX).unwrap() {
                let (header, body, bytes) = (frame.header, frame.body.to_vec(), frame.bytes);
                self.buffer.drain(..bytes);
                return Some((header, body));
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(read) => self.buffer.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Sends a request and hands its result to `look`.
    pub(crate) fn call<R: Request, T>(
        &mut self,
        request: &R,
        look: impl FnOnce(R::Reply<'_>) -> T,
    ) -> T {
        let seq = self.send(request);
        let (header, body) = self.receive().expect("the connection is open");
        assert_eq!(header.seq, seq);
        look(decode_reply::<R>(&header, &body).unwrap())
    }

    /// Mounts a segment as its store and says that everything is mounted.
    pub(crate) fn mount(&mut self, number: u64, size_bytes: u64) {
        let segment = segment(number, size_bytes);
        self.call(&MountSegment { segment, client: STORE }, Expected::unwrap);
        self.remount(&[(number, size_bytes)]).unwrap();
    }

    /// Says that these segments are all that the store has.
    pub(crate) fn remount(&mut self, segments: &[(u64, u64)]) -> Expected<()> {
        let segments = segments.iter().map(|&(number, bytes)| segment(number, bytes)).collect();
        self.call(&ReMountSegment { segments, client: STORE }, |answer| answer)
    }

    /// What the store is to the master.
    pub(crate) fn ping(&mut self) -> PingResponse {
        self.call(&Ping { client: STORE }, Expected::unwrap)
    }
}

/// A segment of the store; its number gives everything but its size.
pub(crate) fn segment(number: u64, size_bytes: u64) -> Segment<'static> {
    Segment {
        id: Uuid { first: 7, second: number },
        name: Str::from("node-1"),
        base: number << 40,
        size: size_bytes,
        te_endpoint: Str::from("127.0.0.1:17777"),
        protocol: Str::from("tcp"),
        host_id: Str::default(),
    }
}

/// A put of one replica with nothing special.
pub(crate) fn config() -> ReplicateConfig<'static> {
    ReplicateConfig::default()
}

/// The address and the size of a replica in memory.
pub(crate) fn place_of(descriptor: &Descriptor<'_>) -> (u64, u64) {
    let Place::Memory(memory) = &descriptor.place else { panic!("{descriptor:?}") };
    let buffer = &memory.buffer_descriptor;
    assert_eq!(buffer.transport_endpoint, Str::from("127.0.0.1:17777"));
    assert_eq!(buffer.protocol, Str::from("tcp"));
    (buffer.buffer_address, buffer.size)
}
