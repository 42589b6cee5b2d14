//! The flags that say where traces and metrics go.

use clap::{Args, ValueEnum};

use crate::config;

/// Where OpenTelemetry data goes, and what of it is made.
#[derive(Args, Clone, Debug)]
pub(crate) struct TelemetryArgs {
    /// Send OpenTelemetry data to this collector, as http://HOST:PORT or https://HOST:PORT; without it
    /// none is made. The variables OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT and _CERTIFICATE, each also for
    /// one signal (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, …_METRICS_…), OTEL_SERVICE_NAME and
    /// OTEL_RESOURCE_ATTRIBUTES are known too
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        value_name = "URL",
        help_heading = "Telemetry"
    )]
    pub(crate) otlp_endpoint: Option<String>,

    /// How the collector is spoken to: over HTTP, usually on its port 4318, or gRPC, usually on 4317
    #[arg(long, env = "OTEL_EXPORTER_OTLP_PROTOCOL", value_enum, default_value = "http")]
    #[arg(value_name = "NAME", help_heading = "Telemetry")]
    pub(crate) otlp_protocol: Protocol,

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
