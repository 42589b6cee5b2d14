//! The messages of OTLP, from what is known here.

use std::ffi::OsString;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mooring_proto::frame::TraceContext;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as Message, SpanFlags, Status, span, status,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;

use super::queue::Item;
use super::span::{Side, Span, Value};

/// Who sends: the name of the service, and what its variables and the process say of it.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    resource: Resource,
    schema_url: String,
}

impl Sender {
    /// A process of this service, if its variables do not name another one.
    pub(super) fn new(service: &'static str) -> Sender {
        use opentelemetry::KeyValue;
        let instance = format!("{:032x}", rand::random::<u128>());
        let builder = opentelemetry_sdk::Resource::builder();
        let known = builder.with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ]);
        let resource = known.build();
        let given = resource.get(&"service.name".into()).map(|name| name.to_string());
        let is_named = given.is_some_and(|name| !name.starts_with(UNNAMED));
        let mut attributes = ResourceAttributesWithSchema::from(&resource);
        if !is_named {
            attributes.attributes.0.retain(|it| it.key != "service.name");
            attributes.attributes.0.push(text("service.name", service));
        }
        attributes.attributes.0.retain(|it| !it.key.is_empty());
        let schema_url = attributes.schema_url.unwrap_or_default();
        let attributes = attributes.attributes.0;
        Sender { resource: Resource { attributes, ..Resource::default() }, schema_url }
    }

    /// All spans of these items in one message, and how many there are.
    pub(super) fn traces(&self, items: Vec<Item>) -> (ExportTraceServiceRequest, u64) {
        let clock = WallClock::new();
        let mut own = Vec::new();
        let mut messages = Vec::new();
        for item in items {
            match item {
                Item::Request(record) => record.spans(&mut own),
                Item::Span(span) => own.push(*span),
                Item::Client(span) => messages.push(Message::from(*span)),
            }
        }
        messages.extend(own.into_iter().map(|span| message(span, &clock)));
        let spans = messages.len() as u64;
        let scope_spans =
            vec![ScopeSpans { scope: Some(scope()), spans: messages, schema_url: String::new() }];
        let resource_spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans,
            schema_url: self.schema_url.clone(),
        };
        (ExportTraceServiceRequest { resource_spans: vec![resource_spans] }, spans)
    }

    /// Who sends, in a message.
    pub(super) fn resource(&self) -> Resource {
        self.resource.clone()
    }
}

/// What variables say of who sends that is of no use, each with the name of its variable. `variable`
/// looks one up.
pub(super) fn left_out_of_resource(variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let mut left_out = Vec::new();
    for name in [SERVICE_NAME, ATTRIBUTES] {
        if variable(name).is_some_and(|value| value.to_str().is_none()) {
            left_out.push(format!("{name} is not UTF-8"));
        }
    }
    let attributes = variable(ATTRIBUTES).and_then(|value| value.into_string().ok());
    let attributes = attributes.unwrap_or_default();
    let is_pair =
        |entry: &str| entry.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty());
    let entries = attributes.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let wrong: Vec<&str> = entries.filter(|entry| !is_pair(entry)).collect();
    if !wrong.is_empty() {
        left_out.push(format!("{ATTRIBUTES}: allowed is NAME=VALUE, and not {}", wrong.join(", ")));
    }
    left_out
}

const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// What the instruments belong to.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "mooring".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// An attribute.
pub(super) fn text(key: &str, value: &str) -> KeyValue {
    pair(key, any_value::Value::StringValue(value.to_owned()))
}

fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Number(number) => {
            any_value::Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX))
        }
        Value::Text(text) => any_value::Value::StringValue(text.into_owned()),
    };
    pair(key, value)
}

fn message(span: Span, clock: &WallClock) -> Message {
    let attributes = span.attributes.into_iter().map(|(key, value)| attribute(key, value));
    let kind = match span.side {
        Side::Inner => span::SpanKind::Internal,
        Side::Server => span::SpanKind::Server,
    };
    // Only the caller of a request is of another process.
    let parent_flags = match span.side {
        Side::Server if span.parent.is_some() => REMOTE,
        _ => LOCAL,
    };
    let status = span.failure.map(|failure| Status {
        message: failure.into_owned(),
        code: status::StatusCode::Error.into(),
    });
    Message {
        trace_id: span.context.trace_id.to_vec(),
        span_id: span.context.span_id.to_vec(),
        parent_span_id: span.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: u32::from(span.context.flags) | parent_flags,
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: clock.unix_ns(span.began),
        end_time_unix_nano: clock.unix_ns(span.ended),
        attributes: attributes.collect(),
        links: span.links.iter().map(link).collect(),
        status,
        ..Message::default()
    }
}

fn link(to: &TraceContext) -> span::Link {
    span::Link {
        trace_id: to.trace_id.to_vec(),
        span_id: to.span_id.to_vec(),
        flags: u32::from(to.flags) | LOCAL,
        ..span::Link::default()
    }
}

/// What the clock on the wall shows at moments of the clock that never jumps.
pub(super) struct WallClock {
    moment: Instant,
    unix_ns: u64,
}

impl WallClock {
    /// As both stand to each other now.
    pub(super) fn new() -> WallClock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        WallClock { moment: Instant::now(), unix_ns }
    }

    /// In nanoseconds since 1970.
    pub(super) fn unix_ns(&self, moment: Instant) -> u64 {
        let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(0);
        let later = ns(moment.saturating_duration_since(self.moment));
        let earlier = ns(self.moment.saturating_duration_since(moment));
        self.unix_ns.saturating_add(later).saturating_sub(earlier)
    }
}

/// Flags that say that the parent is of this process.
const LOCAL: u32 = SpanFlags::ContextHasIsRemoteMask as u32;

/// Flags that say that it is of another one.
const REMOTE: u32 = LOCAL | SpanFlags::ContextIsRemoteMask as u32;

/// How a service is called that nobody has named.
const UNNAMED: &str = "unknown_service";

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use super::*;
    use crate::telemetry::sampler::new_trace;

    #[test]
    fn what_variables_say_of_the_sender_that_is_of_no_use_is_told() {
        let told = |name: &'static str, value: &[u8]| {
            let value = OsStr::from_bytes(value).to_owned();
            left_out_of_resource(|it| (it == name).then(|| value.clone()))
        };
        for good in ["", "a=b", "a=b,c=", "a=b, c=d,", "a=b=c"] {
            assert_eq!(told(ATTRIBUTES, good.as_bytes()), [""; 0], "{good}");
        }
        let of_no_use = told(ATTRIBUTES, b"a=b,oops,=c, d");
        assert_eq!(
            of_no_use,
            ["OTEL_RESOURCE_ATTRIBUTES: allowed is NAME=VALUE, and not oops, =c, d"]
        );
        assert_eq!(told(ATTRIBUTES, b"a=\xff"), ["OTEL_RESOURCE_ATTRIBUTES is not UTF-8"]);
        assert_eq!(told(SERVICE_NAME, b"\xff"), ["OTEL_SERVICE_NAME is not UTF-8"]);
        assert_eq!(told(SERVICE_NAME, b"a name"), [""; 0]);
    }

    #[test]
    fn what_is_known_of_a_span_stands_in_its_message() {
        let began = Instant::now();
        let context = TraceContext { span_id: [2; 8], ..new_trace() };
        let mut span =
            Span::new(context, Some([1; 8]), "Get", began, began + Duration::from_micros(7));
        span.side = Side::Server;
        span.attributes.push(("mooring.keys", 3_u64.into()));
        span.links.push(TraceContext { trace_id: [9; 16], span_id: [8; 8], flags: 1 });
        span.failure = Some("NotFound".into());
        let (request, spans) =
            Sender::new("mooring").traces(vec![Item::Span(Box::new(span.clone()))]);
        assert_eq!(spans, 1);
        let [resource] = &request.resource_spans[..] else { panic!("one resource") };
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let name = attributes.iter().filter(|it| it.key == "service.name");
        assert_eq!(name.count(), 1);
        let message = &resource.scope_spans[0].spans[0];
        assert_eq!(message.trace_id, context.trace_id);
        assert_eq!((&message.span_id[..], &message.parent_span_id[..]), (&[2; 8][..], &[1; 8][..]));
        assert_eq!(message.end_time_unix_nano - message.start_time_unix_nano, 7_000);
        assert_eq!(message.kind(), span::SpanKind::Server);
        assert_eq!(message.attributes, [attribute("mooring.keys", Value::Number(3))]);
        assert_eq!(message.links[0].trace_id, [9; 16]);
        assert_eq!(message.status.as_ref().unwrap().message, "NotFound");
        assert_eq!(message.flags, 0x301);
    }

    #[test]
    fn moments_before_and_after_stand_at_their_times() {
        let clock = WallClock::new();
        let at = clock.unix_ns(clock.moment);
        assert_eq!(clock.unix_ns(clock.moment + Duration::from_millis(3)), at + 3_000_000);
        assert!(at > 1_700_000_000_000_000_000, "{at}");
    }
}
