//! The connection to a collector: one message after the other, over HTTP/1.1 or gRPC.
//!
//! A connection that has failed is opened anew for the next message.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, TE, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::allowance::{Allowance, Bounded};
use super::answer::{self, GRPC_PREFIX_BYTES, NotTaken};
use super::args::Protocol;
use super::target::Target;
use crate::tls;

/// The way to one collector for one signal.
pub(super) struct Line {
    target: Target,
    tls: Option<TlsConnector>,
    open: Option<Open>,
    /// What the collector may still say.
    allowance: Allowance,
}

enum Open {
    Http(http1::SendRequest<Full<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

impl Line {
    /// A line that is opened when the first message is sent.
    ///
    /// # Errors
    /// Certificates that are of no use.
    pub(super) fn new(target: Target) -> Result<Line, tls::TlsError> {
        let tls = match target.is_secure {
            true => {
                let mut config = tls::client_of(target.certificate.as_deref())?;
                config.alpn_protocols = match target.protocol {
                    Protocol::Http => vec![b"http/1.1".to_vec()],
                    Protocol::Grpc => vec![b"h2".to_vec()],
                };
                Some(TlsConnector::from(Arc::new(config)))
            }
            false => None,
        };
        Ok(Line { target, tls, open: None, allowance: Allowance::default() })
    }

    /// For one message.
    pub(super) fn timeout(&self) -> Duration {
        self.target.timeout
    }

    /// Opens the connection before there is a message: who sends one later waits for its answer alone.
    /// What fails is told by the message.
    pub(super) async fn open_ahead(&mut self) {
        self.allowance.renew(SAID_BYTES_MAX);
        self.open = self.connect().await.ok();
    }

    /// Sends a message, and gives the answer. A future that is dropped before it is done closes the
    /// connection.
    ///
    /// # Errors
    /// What failed, or what the collector says.
    pub(super) async fn send(&mut self, message: Bytes) -> Result<Bytes, NotTaken> {
        self.allowance.renew(SAID_BYTES_MAX);
        let mut open = match self.open.take() {
            Some(open) if open.is_usable() => open,
            _ => self.connect().await?,
        };
        let request = self.request(message)?;
        let response = open.ask(request).await.map_err(NotTaken::for_now)?;
        let answer = match self.target.protocol {
            Protocol::Http => http_answer(response).await?,
            Protocol::Grpc => grpc_answer(response).await?,
        };
        self.open = Some(open);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Open, NotTaken> {
        let Target { authority, is_secure, .. } = &self.target;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(if *is_secure { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(NotTaken::for_now)?;
        // Each message is one write, and its answer is waited for.
        stream.set_nodelay(true).map_err(NotTaken::for_now)?;
        let stream = Bounded::new(stream, self.allowance.clone());
        match &self.tls {
            None => self.shake_hands(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|error| NotTaken::for_good(error.to_string()))?;
                let stream = tls.connect(name, stream).await.map_err(NotTaken::for_now)?;
                self.shake_hands(stream).await
            }
        }
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<Open, NotTaken>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        // That a connection has ended is seen by the next message.
        match self.target.protocol {
            Protocol::Http => {
                let (open, run) = http1::handshake(stream).await.map_err(NotTaken::for_now)?;
                tokio::spawn(run);
                Ok(Open::Http(open))
            }
            Protocol::Grpc => {
                let handshake = http2::handshake(TokioExecutor::new(), stream).await;
                let (open, run) = handshake.map_err(NotTaken::for_now)?;
                tokio::spawn(run);
                Ok(Open::Grpc(open))
            }
        }
    }

    fn request(&self, message: Bytes) -> Result<Request<Full<Bytes>>, NotTaken> {
        let Target { protocol, authority, is_secure, path, headers, .. } = &self.target;
        let (content_type, body) = match protocol {
            Protocol::Http => ("application/x-protobuf", message),
            Protocol::Grpc => ("application/grpc", framed(&message)),
        };
        let uri = match protocol {
            // Over HTTP/1.1 the host is a header.
            Protocol::Http => path.parse::<Uri>(),
            Protocol::Grpc => {
                let scheme = if *is_secure { "https" } else { "http" };
                format!("{scheme}://{authority}{path}").parse()
            }
        };
        let uri = uri.map_err(|error| NotTaken::for_good(error.to_string()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let map = request.headers_mut();
        map.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        map.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        match protocol {
            Protocol::Http => {
                let host = HeaderValue::try_from(authority.as_str());
                map.insert(HOST, host.map_err(|error| NotTaken::for_good(error.to_string()))?);
            }
            Protocol::Grpc => {
                map.insert(TE, HeaderValue::from_static("trailers"));
            }
        }
        for (name, value) in headers {
            map.insert(name.clone(), value.clone());
        }
        Ok(request)
    }
}

impl Open {
    fn is_usable(&self) -> bool {
        match self {
            Open::Http(open) => !open.is_closed(),
            Open::Grpc(open) => !open.is_closed(),
        }
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Open::Http(open) => {
                open.ready().await?;
                open.send_request(request).await
            }
            Open::Grpc(open) => {
                open.ready().await?;
                open.send_request(request).await
            }
        }
    }
}

/// The prefix of a message of gRPC: not compressed, and how many bytes.
fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(GRPC_PREFIX_BYTES + message.len());
    framed.put_u8(0);
    // Batches are bounded far below.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

async fn http_answer(response: Response<Incoming>) -> Result<Bytes, NotTaken> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    answer::of_http(status, body.map_err(NotTaken::for_now)?.to_bytes())
}

async fn grpc_answer(response: Response<Incoming>) -> Result<Bytes, NotTaken> {
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Err(NotTaken::for_now(format!("HTTP status {}", head.status)));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(NotTaken::for_now)?;
    let trailers = body.trailers().cloned();
    answer::of_grpc(&head.headers, trailers.as_ref(), body.to_bytes())
}

/// For all that comes beside an answer: certificates, settings of HTTP/2, provisional answers. A collector
/// that says more without an end would keep the process reading.
const SAID_BYTES_MAX: u64 = 256 << 10;

/// Answers are a few numbers and a sentence.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const AGENT: &str = concat!("mooring/", env!("CARGO_PKG_VERSION"));
