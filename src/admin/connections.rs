//! The connections of the admin pages: a bounded number, none of which stays open for nothing, or keeps
//! a probe out.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

/// A listener whose connections end when no answer goes out on them for a while, and when others want
/// their places.
pub(crate) struct Connections {
    socket: TcpListener,
    places: Places,
}

impl Connections {
    /// With so many places. Must be called inside a tokio runtime.
    pub(crate) fn new(socket: TcpListener, places: usize) -> Connections {
        // A connection that finds the queue full is tried again after a second, and a probe that comes
        // behind many others would be late. Where it cannot be longer it stays as it is.
        if let Err(error) = rustix::net::listen(&socket, BACKLOG) {
            tracing::debug!(%error, "the queue of the admin pages stays as it is");
        }
        Connections { socket, places: Places::new(places) }
    }
}

impl Listener for Connections {
    type Io = Timed<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    let place = self.places.take().await;
                    return (Timed::new(stream, place, IDLE_TIMEOUT), peer);
                }
                // The peer is gone already.
                Err(error) if is_of_peer(&error) => {}
                // The process has no descriptor left. One of these connections has to leave for a
                // probe to come, and does so within moments.
                Err(_) => {
                    self.places.make_room();
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Peer {
        Peer(*stream.remote_addr())
    }
}

/// The places of connections. Whoever comes when all are taken gets that of the connection which has
/// had no answer for longest: whoever asks nothing can't keep out those who do. It does not wait until
/// that one has left, unless as many are leaving as there are places.
struct Places {
    count: usize,
    /// For those that have a place and for those that are leaving.
    open: Arc<Semaphore>,
    taken: Arc<Mutex<Taken>>,
}

/// The connections in order of their last answer, or of their begin.
#[derive(Default)]
struct Taken {
    next: u64,
    by_age: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Places {
    fn new(count: usize) -> Places {
        Places { count, open: Arc::new(Semaphore::new(2 * count)), taken: Arc::default() }
    }

    /// A place, at once in all but the worst case.
    async fn take(&self) -> Place {
        let (sender, evicted) = oneshot::channel();
        let number = {
            let mut taken = self.lock();
            if taken.by_age.len() >= self.count {
                taken.evict_oldest();
            }
            taken.add(sender)
        };
        let mut place = Place { number, evicted, taken: self.taken.clone(), _open: None };
        // One that is just being answered leaves when it is. It is never closed.
        place._open = self.open.clone().acquire_owned().await.ok();
        place
    }

    /// Has the connection leave that has had no answer for longest, if there is one.
    fn make_room(&self) {
        self.lock().evict_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        lock(&self.taken)
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    // Each change is one step, so that a panic elsewhere leaves it whole.
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Taken {
    fn add(&mut self, sender: oneshot::Sender<()>) -> u64 {
        self.next += 1;
        self.by_age.insert(self.next, sender);
        self.next
    }

    fn evict_oldest(&mut self) {
        if let Some((_, oldest)) = self.by_age.pop_first() {
            // It may have ended just now.
            let _ = oldest.send(());
        }
    }
}

/// The place of one connection; free for another one when it is dropped.
struct Place {
    number: u64,
    evicted: oneshot::Receiver<()>,
    taken: Arc<Mutex<Taken>>,
    /// Held for as long as the connection is open.
    _open: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// An answer goes out: the others are older now.
    fn renew(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(sender) = taken.by_age.remove(&self.number) {
            self.number = taken.add(sender);
        }
    }

    fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(|_| ())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.taken).by_age.remove(&self.number);
    }
}

/// A stream that fails once nothing could be written to it for a while, or its place is wanted. Reading
/// does not count: a request that comes byte by byte is as bad as none.
pub(crate) struct Timed<S> {
    stream: S,
    limit: Duration,
    until: Pin<Box<Sleep>>,
    place: Place,
    /// It has lost its place.
    is_evicted: bool,
}

impl<S> Timed<S> {
    fn new(stream: S, place: Place, limit: Duration) -> Timed<S> {
        let until = Box::pin(tokio::time::sleep(limit));
        Timed { stream, limit, until, place, is_evicted: false }
    }

    /// The outcome of a read or write, or an error if time is up or the place is lost.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        // A channel must not be asked again after its answer.
        self.is_evicted = self.is_evicted || self.place.poll_evicted(context).is_ready();
        if self.is_evicted {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match self.until.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => outcome,
        }
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = outcome {
            self.until.as_mut().reset(Instant::now() + self.limit);
            self.place.renew();
        }
        self.in_time(context, outcome)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.in_time(context, outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Whether a connection ended before it was accepted.
fn is_of_peer(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionRefused,
    ];
    kinds.contains(&error.kind())
}

/// Connections that wait to be accepted; the system has a limit of its own.
const BACKLOG: i32 = 1024;

/// While the process has no descriptor left: short beside the patience of a probe, and no load.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// As long as a request on the QUIC port may take to come; every page is made in less.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_sends_forever_without_an_answer_is_cut_off() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut timed = Timed::new(near, Places::new(1).take().await, Duration::from_millis(20));
        let sending = tokio::spawn(async move { while far.write_all(b"x").await.is_ok() {} });
        let error = tokio::io::copy(&mut timed, &mut tokio::io::sink()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(timed);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_comes_gets_the_place_of_the_one_that_has_had_no_answer_for_longest() {
        let places = Places::new(3);
        let open = async || {
            let (near, far) = tokio::io::duplex(64);
            (Timed::new(near, places.take().await, Duration::from_secs(3600)), far)
        };
        let (mut first, _far_first) = open().await;
        let (mut second, _far_second) = open().await;
        let (mut third, _far_third) = open().await;
        first.write_all(b"answer").await.unwrap();
        let second = tokio::spawn(async move { second.read_u8().await.unwrap_err().kind() });
        let (mut fourth, _far_fourth) = open().await;
        assert_eq!(second.await.unwrap(), io::ErrorKind::ConnectionAborted);
        let third = tokio::spawn(async move { third.read_u8().await.unwrap_err().kind() });
        let _fifth = open().await;
        assert_eq!(third.await.unwrap(), io::ErrorKind::ConnectionAborted);
        first.write_all(b"answer").await.unwrap();
        fourth.write_all(b"answer").await.unwrap();
        assert_eq!(lock(&places.taken).by_age.len(), 3);
    }

    #[tokio::test]
    async fn a_place_that_is_left_is_taken_without_evicting_anybody() {
        let places = Places::new(2);
        let mut stays = places.take().await;
        for _ in 0..5 {
            drop(places.take().await);
        }
        assert!(stays.evicted.try_recv().is_err());
        assert_eq!(lock(&places.taken).by_age.len(), 1);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_cut_off() {
        let (near, _far) = tokio::io::duplex(1);
        let mut timed = Timed::new(near, Places::new(1).take().await, Duration::from_millis(20));
        let error = timed.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_gives_its_connection_more_time() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut timed = Timed::new(near, Places::new(1).take().await, Duration::from_secs(3600));
        let before = timed.until.deadline();
        timed.write_all(b"answer").await.unwrap();
        assert!(timed.until.deadline() > before);
        far.write_all(b"next").await.unwrap();
        let mut next = [0; 4];
        timed.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");
    }
}
