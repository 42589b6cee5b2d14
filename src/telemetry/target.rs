//! Where the data of one signal goes: from the flags, and from the variables that every program with
//! OpenTelemetry knows.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::uri::{Authority, Scheme};

use super::args::{Protocol, TelemetryArgs};

/// What is sent apart from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Spans.
    Traces,
    /// Figures.
    Metrics,
}

/// Where one signal goes, and how.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    /// Of what connects and of the host that is named.
    pub(super) authority: Authority,
    /// Whether the connection is encrypted.
    pub(super) is_secure: bool,
    /// Of the request.
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// For one message, from the connection to the answer.
    pub(super) timeout: Duration,
    /// Whom to trust, in PEM; `None` trusts whom the system trusts.
    pub(super) certificate: Option<PathBuf>,
}

impl Target {
    /// The target of this signal; `None` if it has none. `variable` looks a variable up.
    ///
    /// # Errors
    /// What makes no sense, with the name of the flag or variable.
    pub(super) fn new(
        args: &TelemetryArgs,
        signal: Signal,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Target>, String> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        if given(&format!("OTEL_{}_EXPORTER", signal.name())).is_some_and(|it| it == "none") {
            return Ok(None);
        }
        // What is said of one signal goes before what is said of all.
        let of_signal = |what: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.name());
            let of_all = format!("OTEL_EXPORTER_OTLP_{what}");
            [own, of_all].into_iter().find_map(|name| Some((given(&name)?, name)))
        };
        let own_endpoint = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.name());
        let of_all = args.otlp_endpoint.clone().filter(|url| !url.is_empty());
        let (url, name, is_whole) = match (given(&own_endpoint), of_all) {
            (Some(url), _) => (url, own_endpoint, true),
            (None, Some(url)) => (url, "--otlp-endpoint".to_owned(), false),
            (None, None) => return Ok(None),
        };
        let refused = |text: &str| format!("{name} = {url}: {text}");
        let uri: Uri = url.parse().map_err(|error| refused(&format!("{error}")))?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(refused("allowed is http://HOST:PORT or https://HOST:PORT")),
        };
        let authority = uri.authority().cloned().ok_or_else(|| refused("there is no host"))?;
        let path = match args.otlp_protocol {
            Protocol::Grpc => signal.grpc_path().to_owned(),
            Protocol::Http if is_whole => uri.path().to_owned(),
            Protocol::Http => format!("{}{}", uri.path().trim_end_matches('/'), signal.http_path()),
        };
        let timeout = match of_signal("TIMEOUT") {
            Some((text, name)) => {
                milliseconds(&text).map_err(|it| format!("{name} = {text}: {it}"))?
            }
            None => TIMEOUT,
        };
        let headers = match of_signal("HEADERS") {
            // They may be secret, so that they are not told.
            Some((text, name)) => headers(&text).map_err(|it| format!("{name}: {it}"))?,
            None => Vec::new(),
        };
        let certificate = of_signal("CERTIFICATE").map(|(path, _)| PathBuf::from(path));
        let protocol = args.otlp_protocol;
        Ok(Some(Target { protocol, authority, is_secure, path, headers, timeout, certificate }))
    }
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        }
    }

    fn http_path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }

    fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<u64>() {
        Ok(ms @ 1..=TIMEOUT_MS_MAX) => Ok(Duration::from_millis(ms)),
        _ => Err("allowed is a number of milliseconds from 1 to 3600000"),
    }
}

/// `name=value`, separated by commas; values may have bytes as `%20`.
fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, &'static str> {
    const ALLOWED: &str = "allowed is NAME=VALUE,NAME=VALUE";
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=').ok_or(ALLOWED)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| ALLOWED)?;
        let value = unescaped(value.trim()).ok_or(ALLOWED)?;
        Ok((name, HeaderValue::try_from(value).map_err(|_| ALLOWED)?))
    };
    pairs.map(header).collect()
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(bytes)
}

/// As OpenTelemetry has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn args(endpoint: Option<&str>, otlp_protocol: Protocol) -> TelemetryArgs {
        let otlp_endpoint = endpoint.map(str::to_owned);
        TelemetryArgs { otlp_endpoint, otlp_protocol, trace_ratio: 0.0 }
    }

    fn target(
        endpoint: Option<&str>,
        protocol: Protocol,
        variables: &[(&str, &str)],
    ) -> Result<Option<Target>, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Target::new(&args(endpoint, protocol), Signal::Traces, variable)
    }

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        assert!(target(None, Protocol::Http, &[]).unwrap().is_none());
        assert!(target(Some(""), Protocol::Http, &[]).unwrap().is_none());
        let off = [("OTEL_TRACES_EXPORTER", "none")];
        assert!(target(Some("http://c:4318"), Protocol::Http, &off).unwrap().is_none());
    }

    #[test]
    fn each_protocol_has_a_path_for_each_signal() {
        let path =
            |endpoint, protocol| target(Some(endpoint), protocol, &[]).unwrap().unwrap().path;
        assert_eq!(path("http://c:4318", Protocol::Http), "/v1/traces");
        assert_eq!(path("http://c:4318/otlp/", Protocol::Http), "/otlp/v1/traces");
        let service = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        assert_eq!(path("https://c:4317", Protocol::Grpc), service);
    }

    #[test]
    fn what_is_said_of_one_signal_goes_before_what_is_said_of_all() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:1/in"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "70"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, y=c"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ];
        let target = target(Some("http://c:4318"), Protocol::Http, &variables).unwrap().unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("traces:1", "/in"));
        assert!(target.is_secure);
        assert_eq!(target.timeout, Duration::from_millis(70));
        let headers: Vec<_> = target
            .headers
            .iter()
            .map(|(it, value)| (it.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(headers, [("x-key", "a b"), ("y", "c")]);
        assert_eq!(target.certificate, Some(PathBuf::from("/ca.pem")));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |endpoint, variables: &[(&str, &str)]| {
            target(Some(endpoint), Protocol::Http, variables).unwrap_err()
        };
        for endpoint in ["c:4318", "ftp://c:1", "http://", "/x", "http://a b"] {
            let error = refused(endpoint, &[]);
            assert!(error.starts_with(&format!("--otlp-endpoint = {endpoint}: ")), "{error}");
        }
        for value in ["0", "-1", "soon"] {
            let error = refused("http://c:1", &[("OTEL_EXPORTER_OTLP_TIMEOUT", value)]);
            assert!(error.starts_with("OTEL_EXPORTER_OTLP_TIMEOUT = "), "{error}");
        }
        for value in ["secret", "a b=secret", "a=secret%2", "a=secret%zz", "a=secret%0A"] {
            let error = refused("http://c:1", &[("OTEL_EXPORTER_OTLP_HEADERS", value)]);
            assert!(error.starts_with("OTEL_EXPORTER_OTLP_HEADERS: "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
