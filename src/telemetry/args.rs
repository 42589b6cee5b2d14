//! The flags that say where traces and metrics go.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, OsStringValueParser, PossibleValue, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Args, Command, ValueEnum};

use crate::config;

/// Where OpenTelemetry data goes, and what of it is made.
#[derive(Args, Clone, Debug)]
pub(crate) struct TelemetryArgs {
    /// Send OpenTelemetry data to this collector, as http://HOST:PORT or https://HOST:PORT; without it
    /// none is made. The variables OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT and _CERTIFICATE, each also for
    /// one signal (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, …_METRICS_…), OTEL_SERVICE_NAME and
    /// OTEL_RESOURCE_ATTRIBUTES are known too. A variable that makes no sense is warned of, and costs
    /// the signals that it is about; a flag that makes none is refused
    #[arg(long, env = ENDPOINT_VARIABLE, value_name = "URL", help_heading = "Telemetry")]
    #[arg(value_parser = OsStringValueParser::new().map(|url| url.to_string_lossy().into_owned()))]
    pub(crate) otlp_endpoint: Option<String>,

    /// How the collector is spoken to: over HTTP, usually on its port 4318, or gRPC, usually on 4317
    #[arg(long, env = PROTOCOL_VARIABLE, value_parser = ProtocolParser, default_value = "http")]
    #[arg(value_name = "NAME", help_heading = "Telemetry")]
    pub(crate) otlp_protocol: Spoken,

    /// The share of requests that are traced although nobody asks for it, 0 to 1. A request of which
    /// the caller says whether it is sampled is treated as that says
    #[arg(long, default_value_t = 0.0, value_name = "RATIO", value_parser = config::ratio)]
    #[arg(help_heading = "Telemetry")]
    pub(crate) trace_ratio: f64,
}

/// A form of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Protobuf over HTTP/1.1.
    #[value(alias = "http/protobuf")]
    Http,
    /// gRPC, which is HTTP/2.
    Grpc,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// A form that is spoken here.
    Known(Protocol),
    /// What a variable says and is not, as `http/json`.
    Unknown,
}

/// Reads the form. What stands in the variable may be meant for other programs, so that it is never
/// refused.
#[derive(Clone, Debug)]
struct ProtocolParser;

impl TypedValueParser for ProtocolParser {
    type Value = Spoken;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Spoken, Error> {
        let is_of_variable = std::env::var_os(PROTOCOL_VARIABLE).is_some_and(|it| it == value);
        match EnumValueParser::<Protocol>::new().parse_ref(command, arg, value) {
            // A variable without a value counts as none.
            Err(_) if is_of_variable && value.is_empty() => Ok(Spoken::Known(Protocol::Http)),
            Err(_) if is_of_variable => Ok(Spoken::Unknown),
            outcome => outcome.map(Spoken::Known),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values: Vec<_> =
            Protocol::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        Some(Box::new(values.into_iter()))
    }
}

impl Spoken {
    /// What a variable says.
    pub(super) fn of_variable(text: &str) -> Spoken {
        Protocol::from_str(text, false).map_or(Spoken::Unknown, Spoken::Known)
    }
}

/// As every program with OpenTelemetry knows it.
pub(super) const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// As every program with OpenTelemetry knows it.
pub(super) const PROTOCOL_VARIABLE: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
