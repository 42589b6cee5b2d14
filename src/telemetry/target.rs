//! Where the data of one signal goes: from the flags, and from the variables that every program with
//! OpenTelemetry knows.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::{Authority, Scheme};

use super::args::{ENDPOINT_VARIABLE, PROTOCOL_VARIABLE, Protocol, Spoken, TelemetryArgs};

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
    /// Whether a variable says where to, and no flag.
    pub(super) is_of_variable: bool,
    /// What variables say that is left out, each with the name of its variable.
    pub(super) left_out: Vec<String>,
}

/// What makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// With the name of the flag or variable.
    pub(super) text: String,
    /// It stands in a variable, which may be meant for other programs.
    pub(super) is_of_variable: bool,
}

impl Target {
    /// The target of this signal; `None` if it has none. `variable` looks a variable up.
    ///
    /// # Errors
    /// What makes no sense, also without an endpoint: who has set it may wait for spans.
    pub(super) fn new(
        args: &TelemetryArgs,
        signal: Signal,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Target>, Refused> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut left_out = Vec::new();
        if !is_exported(signal, given, &mut left_out)? {
            return Ok(None);
        }
        // What is said of one signal goes before what is said of all.
        let of_signal = |what: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.name());
            let of_all = format!("OTEL_EXPORTER_OTLP_{what}");
            [own, of_all].into_iter().find_map(|name| Some((given(&name)?, name)))
        };
        let protocol = protocol(args, signal, given)?;
        let Some(endpoint) = Endpoint::given(args, signal, given)? else { return Ok(None) };
        let path = match protocol {
            Protocol::Grpc => signal.grpc_path().to_owned(),
            Protocol::Http if endpoint.is_whole => endpoint.path,
            Protocol::Http => {
                format!("{}{}", endpoint.path.trim_end_matches('/'), signal.http_path())
            }
        };
        let timeout = match of_signal("TIMEOUT") {
            Some((text, name)) => milliseconds(&text)
                .map_err(|it| Refused::variable(format!("{name} = {text}: {it}")))?,
            None => TIMEOUT,
        };
        let headers = match of_signal("HEADERS") {
            // They may be secret, so that they are not told.
            Some((text, name)) => {
                let all =
                    headers(&text).map_err(|it| Refused::variable(format!("{name}: {it}")))?;
                let (kept, own): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|(header, _)| !OWN_HEADERS.contains(header));
                left_out.extend(own.iter().map(|(header, _)| {
                    format!("{name}: {header} is said by the connection itself")
                }));
                kept
            }
            None => Vec::new(),
        };
        let certificate = of_signal("CERTIFICATE").map(|(path, _)| PathBuf::from(path));
        let Endpoint { authority, is_secure, is_of_variable, .. } = endpoint;
        Ok(Some(Target {
            protocol,
            authority,
            is_secure,
            path,
            headers,
            timeout,
            certificate,
            is_of_variable,
            left_out,
        }))
    }
}

/// Whether a signal is sent by OTLP, by what the variable for its exporters says.
fn is_exported(
    signal: Signal,
    given: impl Fn(&str) -> Option<String>,
    left_out: &mut Vec<String>,
) -> Result<bool, Refused> {
    let name = format!("OTEL_{}_EXPORTER", signal.name());
    let Some(text) = given(&name) else { return Ok(true) };
    let exporters = || text.split(',').map(str::trim);
    let is_known = |it: &str| match signal {
        Signal::Traces => matches!(it, "otlp" | "none"),
        // The figures are on the metrics page as Prometheus has them, without anything being sent.
        Signal::Metrics => matches!(it, "otlp" | "none" | "prometheus"),
    };
    let is_sent = exporters().any(|it| it == "otlp");
    match exporters().find(|it| !is_known(it)) {
        None => Ok(is_sent),
        Some(other) => {
            let text =
                format!("{name} = {text}: {other} is not known here, allowed is otlp or none");
            if !is_sent {
                return Err(Refused::variable(text));
            }
            left_out.push(text);
            Ok(true)
        }
    }
}

impl Refused {
    /// Of a variable.
    pub(super) fn variable(text: String) -> Refused {
        Refused { text, is_of_variable: true }
    }
}

/// How the collector of a signal is spoken to.
fn protocol(
    args: &TelemetryArgs,
    signal: Signal,
    given: impl Fn(&str) -> Option<String>,
) -> Result<Protocol, Refused> {
    let own = format!("OTEL_EXPORTER_OTLP_{}_PROTOCOL", signal.name());
    let (spoken, name) = match given(&own) {
        Some(text) => (Spoken::of_variable(&text), own),
        None => (args.otlp_protocol, PROTOCOL_VARIABLE.to_owned()),
    };
    if let Spoken::Known(protocol) = spoken {
        return Ok(protocol);
    }
    let text = given(&name).unwrap_or_default();
    Err(Refused::variable(format!("{name} = {text}: allowed is http/protobuf or grpc")))
}

/// An address of a collector.
struct Endpoint {
    authority: Authority,
    is_secure: bool,
    path: String,
    /// Whether the path is that of the signal already.
    is_whole: bool,
    is_of_variable: bool,
}

impl Endpoint {
    fn given(
        args: &TelemetryArgs,
        signal: Signal,
        given: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Endpoint>, Refused> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.name());
        let of_all = args.otlp_endpoint.clone().filter(|url| !url.is_empty());
        // The flag goes before its variable, so the same text is that of the variable.
        let is_given = of_all.is_some() && given(ENDPOINT_VARIABLE) == of_all;
        let (url, name, is_whole, is_of_variable) = match (given(&own), of_all) {
            (Some(url), _) => (url, own.as_str(), true, true),
            (None, Some(url)) if is_given => (url, ENDPOINT_VARIABLE, false, true),
            (None, Some(url)) => (url, "--otlp-endpoint", false, false),
            (None, None) => return Ok(None),
        };
        match Endpoint::read(&url) {
            Ok((authority, is_secure, path)) => {
                Ok(Some(Endpoint { authority, is_secure, path, is_whole, is_of_variable }))
            }
            Err(error) => Err(Refused { text: format!("{name} = {url}: {error}"), is_of_variable }),
        }
    }

    /// Where to, whether encrypted, and the path.
    fn read(url: &str) -> Result<(Authority, bool, String), String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("allowed is http://HOST:PORT or https://HOST:PORT".to_owned()),
        };
        let authority = uri.authority().cloned().ok_or("there is no host")?;
        // The library takes a port that is none for no port, and the scheme's would be called.
        let (_, port) = authority.as_str().rsplit_once(authority.host()).unwrap_or_default();
        match port.strip_prefix(':').map(str::parse::<u16>) {
            None => {}
            Some(Ok(1..)) => {}
            Some(_) => return Err("allowed is a port from 1 to 65535".to_owned()),
        }
        Ok((authority, is_secure, uri.path().to_owned()))
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

/// What a connection says itself; from elsewhere it would be wrong or double.
const OWN_HEADERS: [HeaderName; 9] = [
    HOST,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    CONNECTION,
    TE,
    TRAILER,
    UPGRADE,
    EXPECT,
];

/// As OpenTelemetry has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn args(endpoint: Option<&str>, otlp_protocol: Spoken) -> TelemetryArgs {
        let otlp_endpoint = endpoint.map(str::to_owned);
        TelemetryArgs { otlp_endpoint, otlp_protocol, trace_ratio: 0.0 }
    }

    fn target(
        endpoint: Option<&str>,
        protocol: Protocol,
        variables: &[(&str, &str)],
    ) -> Result<Option<Target>, Refused> {
        read(endpoint, Spoken::Known(protocol), variables)
    }

    fn read(
        endpoint: Option<&str>,
        spoken: Spoken,
        variables: &[(&str, &str)],
    ) -> Result<Option<Target>, Refused> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Target::new(&args(endpoint, spoken), Signal::Traces, variable)
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
            target(Some(endpoint), Protocol::Http, variables).unwrap_err().text
        };
        let endpoints = ["c:4318", "ftp://c:1", "http://", "/x", "http://a b"];
        let ports =
            ["http://c:99999", "http://c:", "http://c:0", "http://[::1]:65536", "http://c:-1"];
        for endpoint in endpoints.into_iter().chain(ports) {
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
    #[test]
    fn a_port_may_be_left_to_the_scheme_and_an_address_may_be_one_of_ipv6() {
        for (endpoint, port) in
            [("http://c", None), ("http://c:65535/x", Some(65_535)), ("https://[::1]:1", Some(1))]
        {
            let target = target(Some(endpoint), Protocol::Http, &[]).unwrap().unwrap();
            assert_eq!(target.authority.port_u16(), port, "{endpoint}");
        }
    }

    #[test]
    fn only_otlp_is_sent_and_another_exporter_is_told() {
        let exporter =
            |text| target(Some("http://c:1"), Protocol::Http, &[("OTEL_TRACES_EXPORTER", text)]);
        for (text, left_out) in [("otlp", 0), ("otlp, none", 0), ("console,otlp", 1)] {
            assert_eq!(exporter(text).unwrap().unwrap().left_out.len(), left_out, "{text}");
        }
        for text in ["zipkin", "otlp/stdout", "prometheus", "\u{fffd}", ","] {
            let error = exporter(text).unwrap_err();
            assert!(error.is_of_variable, "{text}");
            assert!(
                error.text.starts_with(&format!("OTEL_TRACES_EXPORTER = {text}: ")),
                "{error:?}"
            );
        }
        let prometheus = |_: &str| Some("prometheus".to_owned());
        let metrics = is_exported(Signal::Metrics, prometheus, &mut Vec::new());
        assert_eq!(metrics, Ok(false));
    }

    #[test]
    fn headers_of_the_connection_itself_are_left_out_and_told_without_their_values() {
        let own = "Host=secret,content-length=7,x-key=a";
        let variables = [("OTEL_EXPORTER_OTLP_HEADERS", own)];
        let target = target(Some("http://c:1"), Protocol::Http, &variables).unwrap().unwrap();
        assert_eq!(target.headers.len(), 1);
        let told = ["host", "content-length"].map(|header| {
            format!("OTEL_EXPORTER_OTLP_HEADERS: {header} is said by the connection itself")
        });
        assert_eq!(target.left_out, told);
        assert!(target.left_out.iter().all(|text| !text.contains("secret")));
    }

    #[test]
    fn it_is_known_whether_a_flag_or_a_variable_makes_no_sense() {
        let (good, bad) = ("http://c:1", "c:4318");
        let is_of_variable = |endpoint, protocol, variables: &[(&str, &str)]| {
            target(endpoint, protocol, variables).unwrap_err().is_of_variable
        };
        assert!(!is_of_variable(Some(bad), Protocol::Http, &[]));
        assert!(!is_of_variable(Some(bad), Protocol::Http, &[(ENDPOINT_VARIABLE, good)]));
        assert!(is_of_variable(Some(bad), Protocol::Http, &[(ENDPOINT_VARIABLE, bad)]));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", bad);
        assert!(is_of_variable(None, Protocol::Http, &[own]));
        assert!(is_of_variable(Some(good), Protocol::Http, &[own]));
        let json = (PROTOCOL_VARIABLE, "http/json");
        assert!(read(None, Spoken::Unknown, &[json]).unwrap_err().is_of_variable);
        let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "x");
        assert!(is_of_variable(Some(good), Protocol::Http, &[timeout]));
    }

    #[test]
    fn one_signal_may_be_sent_in_a_form_of_its_own() {
        let own = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
        let (endpoint, http) = (Some("http://c:1"), Spoken::Known(Protocol::Http));
        let protocol = |spoken, text| {
            read(endpoint, spoken, &[(own, text)]).map(|target| target.unwrap().protocol)
        };
        assert_eq!(protocol(http, "grpc").unwrap(), Protocol::Grpc);
        assert_eq!(protocol(Spoken::Unknown, "http/protobuf").unwrap(), Protocol::Http);
        let error = protocol(http, "http/json").unwrap_err();
        assert!(error.text.starts_with("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = http/json: "));
    }
}
