//! A collector of OpenTelemetry data: takes OTLP over HTTP or gRPC and keeps what came.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mooring_proto::client::tls::provider;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::harness::PATIENCE;
use crate::tls::Pair;

/// A collector that listens until the process ends.
pub(crate) struct Collector {
    form: &'static str,
    url: String,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    all: Mutex<All>,
    more: Condvar,
}

/// What came.
#[derive(Default)]
pub(crate) struct All {
    /// Each span with the name of the service that sent it.
    pub(crate) spans: Vec<(String, Span)>,
    /// The last figures under each name.
    pub(crate) metrics: HashMap<String, Metric>,
    /// The headers of the last message.
    pub(crate) headers: HeaderMap,
}

impl Collector {
    /// One that speaks `http` or `grpc`.
    pub(crate) fn start(form: &'static str) -> Collector {
        Collector::listening(form, None)
    }

    /// The same over TLS, under the name `localhost`.
    pub(crate) fn start_secure(form: &'static str, (chain, key): Pair) -> Collector {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let alpn: &[u8] = if form == "grpc" { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![alpn.to_vec()];
        Collector::listening(form, Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn listening(form: &'static str, tls: Option<TlsAcceptor>) -> Collector {
        let scheme = if tls.is_some() { "https://localhost" } else { "http://127.0.0.1" };
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        let kept = Arc::new(Kept::default());
        let keeps = kept.clone();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(socket, form, tls, keeps));
        });
        Collector { form, url: format!("{scheme}:{port}"), kept }
    }

    /// The flags that send a process here.
    pub(crate) fn flags(&self) -> Vec<String> {
        ["--otlp-endpoint", &self.url, "--otlp-protocol", self.form].map(str::to_owned).to_vec()
    }

    /// Waits until something can be made of what came.
    pub(crate) fn wait_for<T>(&self, what: &str, made: impl Fn(&All) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut all = self.kept.all.lock().unwrap();
        loop {
            if let Some(made) = made(&all) {
                return made;
            }
            let left = until.saturating_duration_since(Instant::now());
            let names: Vec<_> = all.spans.iter().map(|(_, span)| &span.name).collect();
            assert!(!left.is_zero(), "{what} does not come; what came: {names:?}");
            all = self.kept.more.wait_timeout(all, left).unwrap().0;
        }
    }
}

async fn serve(socket: TcpListener, form: &'static str, tls: Option<TlsAcceptor>, kept: Arc<Kept>) {
    let socket = tokio::net::TcpListener::from_std(socket).unwrap();
    loop {
        let (stream, _) = socket.accept().await.unwrap();
        let (tls, kept) = (tls.clone(), kept.clone());
        tokio::spawn(async move {
            match tls {
                None => converse(stream, form, kept).await,
                Some(tls) => {
                    // A peer that does not trust this one leaves.
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, form, kept).await;
                    }
                }
            }
        });
    }
}

async fn converse<S>(stream: S, form: &'static str, kept: Arc<Kept>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = TokioIo::new(stream);
    let take = service_fn(move |request| take(request, form, kept.clone()));
    // A peer that leaves ends its connection as it likes.
    match form {
        "grpc" => {
            let server = http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(stream, take).await;
        }
        _ => {
            let _ = http1::Builder::new().serve_connection(stream, take).await;
        }
    }
}

async fn take(
    request: Request<Incoming>,
    form: &'static str,
    kept: Arc<Kept>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let (message, content_type) = match form {
        "grpc" => {
            assert_eq!(head.headers["te"], "trailers");
            let length = u32::from_be_bytes(body[1..5].try_into().unwrap());
            assert_eq!((body[0], length as usize), (0, body.len() - 5));
            (body.slice(5..), "application/grpc")
        }
        _ => (body, "application/x-protobuf"),
    };
    assert_eq!(head.headers["content-type"], content_type);
    kept.keep(head.uri.path(), message, head.headers);
    let (answer, trailers) = match form {
        "grpc" => {
            let status = [("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))];
            (Bytes::from_static(&[0; 5]), Some(Ok(status.into_iter().collect())))
        }
        _ => (Bytes::from(BytesMut::new()), None),
    };
    let mut response = Response::new(Full::new(answer).with_trailers(async { trailers }));
    response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    Ok(response)
}

impl Kept {
    fn keep(&self, path: &str, message: Bytes, headers: HeaderMap) {
        let mut all = self.all.lock().unwrap();
        all.headers = headers;
        match path {
            "/v1/traces" | "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => {
                for resource in ExportTraceServiceRequest::decode(message).unwrap().resource_spans {
                    let attributes = resource.resource.unwrap().attributes;
                    let service = text_of(&attributes, "service.name").unwrap();
                    let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                    all.spans.extend(spans.map(|span| (service.clone(), span)));
                }
            }
            "/v1/metrics" | "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => {
                let request = ExportMetricsServiceRequest::decode(message).unwrap();
                let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
                for metric in scopes.flat_map(|scope| scope.metrics) {
                    all.metrics.insert(metric.name.clone(), metric);
                }
            }
            other => panic!("nothing of OTLP goes to {other}"),
        }
        self.more.notify_all();
    }
}

/// The text of an attribute.
pub(crate) fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    match value_of(attributes, key)? {
        any_value::Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// The number of an attribute.
pub(crate) fn number_of(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match value_of(attributes, key)? {
        any_value::Value::IntValue(number) => Some(number),
        other => panic!("{key} is {other:?}"),
    }
}

fn value_of(attributes: &[KeyValue], key: &str) -> Option<any_value::Value> {
    attributes.iter().find(|it| it.key == key)?.value.clone()?.value
}
