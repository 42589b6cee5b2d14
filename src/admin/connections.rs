//! The connections of the admin pages: a bounded number, none of which stays open for nothing.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A listener whose connections end when no answer goes out on them for a while.
pub(crate) struct Connections {
    socket: TcpListener,
    places: Arc<Semaphore>,
}

impl Connections {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(socket: TcpListener) -> Connections {
        Connections { socket, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

impl Listener for Connections {
    type Io = Timed<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, peer) = <TcpListener as Listener>::accept(&mut self.socket).await;
        (Timed::new(stream, place, IDLE_TIMEOUT), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A stream that fails once nothing could be written to it for a while. Reading does not count: a
/// request that comes byte by byte is as bad as none.
pub(crate) struct Timed<S> {
    stream: S,
    limit: Duration,
    until: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Timed<S> {
    fn new(stream: S, place: Option<OwnedSemaphorePermit>, limit: Duration) -> Timed<S> {
        let until = Box::pin(tokio::time::sleep(limit));
        Timed { stream, limit, until, _place: place }
    }

    /// The outcome of a read or write, or an error if time is up.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
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

/// As long as a request on the QUIC port may take to come; every page is made in less.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Many times the probes and scrapers of one process, and few beside the files that it may open.
const CONNECTIONS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_sends_forever_without_an_answer_is_cut_off() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut timed = Timed::new(near, None, Duration::from_millis(20));
        let sending = tokio::spawn(async move { while far.write_all(b"x").await.is_ok() {} });
        let error = tokio::io::copy(&mut timed, &mut tokio::io::sink()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(timed);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_cut_off() {
        let (near, _far) = tokio::io::duplex(1);
        let mut timed = Timed::new(near, None, Duration::from_millis(20));
        let error = timed.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_gives_its_connection_more_time() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut timed = Timed::new(near, None, Duration::from_secs(3600));
        let before = timed.until.deadline();
        timed.write_all(b"answer").await.unwrap();
        assert!(timed.until.deadline() > before);
        far.write_all(b"next").await.unwrap();
        let mut next = [0; 4];
        timed.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");
    }
}
