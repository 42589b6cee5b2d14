//! A bound on what a peer may say before it has answered.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes may still come; shared with the stream that they come on.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// So many from now on.
    pub(super) fn renew(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Takes what has come; gives whether it was allowed.
    fn spend(&self, bytes: usize) -> bool {
        let (left, bytes) = (self.0.load(Ordering::Relaxed), bytes as u64);
        self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        bytes <= left
    }
}

/// A stream that fails when more has come than is allowed.
pub(super) struct Bounded<S> {
    stream: S,
    allowance: Allowance,
}

impl<S> Bounded<S> {
    /// With what is allowed as of now.
    pub(super) fn new(stream: S, allowance: Allowance) -> Bounded<S> {
        Bounded { stream, allowance }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.allowance.spend(buffer.filled().len() - before) {
            return outcome;
        }
        let text = "the peer says more than an answer";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_says_more_than_is_allowed_is_not_listened_to() {
        let (near, mut far) = tokio::io::duplex(64);
        let allowance = Allowance::default();
        let mut bounded = Bounded::new(near, allowance.clone());
        allowance.renew(10);
        far.write_all(b"0123456789").await.unwrap();
        let mut read = [0; 10];
        bounded.read_exact(&mut read).await.unwrap();
        allowance.renew(3);
        far.write_all(b"0123").await.unwrap();
        let error = bounded.read_exact(&mut read[..4]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn an_end_within_what_is_allowed_is_an_end() {
        let (near, far) = tokio::io::duplex(64);
        drop(far);
        let read = Bounded::new(near, Allowance::default()).read(&mut [0]).await;
        assert_eq!(read.unwrap(), 0);
    }
}
