//! The figures of the metrics page as OTLP has them: the same families, under the same names.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};

use super::encode::{Sender, WallClock, scope, text};
use crate::admin::{BOUNDS_LOG2_US, Family, FamilyKind, Labels, Number, Samples};
use crate::frontend::histogram::Durations;

/// All families in one message.
pub(super) fn request(sender: &Sender, families: &[Family]) -> ExportMetricsServiceRequest {
    let clock = WallClock::new();
    let times = Times {
        started_ns: clock.unix_ns(super::started()),
        now_ns: clock.unix_ns(std::time::Instant::now()),
    };
    let metrics = families.iter().map(|family| metric(family, times)).collect();
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope()), metrics, schema_url: String::new() }];
    let resource_metrics = ResourceMetrics {
        resource: Some(sender.resource()),
        scope_metrics,
        schema_url: String::new(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// Of the process and of the figures, in nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Times {
    started_ns: u64,
    now_ns: u64,
}

fn metric(family: &Family, times: Times) -> Metric {
    let temporality = AggregationTemporality::Cumulative.into();
    let data = match (&family.samples, family.kind) {
        (Samples::Numbers(samples), FamilyKind::Counter) => metric::Data::Sum(Sum {
            data_points: points(samples, times, times.started_ns),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        (Samples::Numbers(samples), _) => {
            metric::Data::Gauge(Gauge { data_points: points(samples, times, 0) })
        }
        (Samples::Durations(samples), _) => metric::Data::Histogram(Histogram {
            data_points: samples.iter().map(|(labels, it)| buckets(labels, it, times)).collect(),
            aggregation_temporality: temporality,
        }),
    };
    Metric {
        name: family.name.clone(),
        description: family.help.clone(),
        data: Some(data),
        ..Metric::default()
    }
}

fn points(samples: &[(Labels, Number)], times: Times, start_ns: u64) -> Vec<NumberDataPoint> {
    let point = |(labels, number): &(Labels, Number)| NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: start_ns,
        time_unix_nano: times.now_ns,
        value: Some(match number {
            Number::Whole(value) => {
                number_data_point::Value::AsInt(i64::try_from(*value).unwrap_or(i64::MAX))
            }
            Number::Real(value) => number_data_point::Value::AsDouble(*value),
        }),
        ..NumberDataPoint::default()
    };
    samples.iter().map(point).collect()
}

/// The bounds are those of the page; there buckets are counted together with the smaller ones, here
/// each by itself.
fn buckets(labels: &Labels, durations: &Durations, times: Times) -> HistogramDataPoint {
    let within: Vec<u64> = BOUNDS_LOG2_US.iter().map(|power| durations.within_us(*power)).collect();
    let count = durations.count().max(within.last().copied().unwrap_or(0));
    let before = std::iter::once(&0).chain(&within);
    let each = within.iter().chain(std::iter::once(&count)).zip(before);
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.started_ns,
        time_unix_nano: times.now_ns,
        count,
        sum: Some(durations.sum().as_secs_f64()),
        bucket_counts: each.map(|(all, smaller)| all - smaller).collect(),
        explicit_bounds: BOUNDS_LOG2_US.iter().map(|it| f64::from(1_u32 << it) / 1e6).collect(),
        ..HistogramDataPoint::default()
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frontend::histogram::Histogram as Recorder;

    const TIMES: Times = Times { started_ns: 5, now_ns: 9 };

    fn family(kind: FamilyKind, samples: Samples) -> Family {
        Family { name: "a_total".to_owned(), help: "All.".to_owned(), kind, samples }
    }

    #[test]
    fn a_counter_is_a_sum_since_the_start_and_a_gauge_is_not() {
        let labels = vec![("shard".to_owned(), "1".to_owned())];
        let numbers = || Samples::Numbers(vec![(labels.clone(), Number::Whole(7))]);
        let counter = metric(&family(FamilyKind::Counter, numbers()), TIMES);
        let Some(metric::Data::Sum(sum)) = counter.data else { panic!("{counter:?}") };
        assert!(sum.is_monotonic);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
        assert_eq!(point.value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!(point.attributes, [text("shard", "1")]);
        let gauge = metric(&family(FamilyKind::Gauge, numbers()), TIMES);
        let Some(metric::Data::Gauge(gauge)) = gauge.data else { panic!("{gauge:?}") };
        assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
    }

    #[test]
    fn a_histogram_has_each_duration_in_one_bucket() {
        let recorder = Recorder::default();
        for us in [1, 9, 9, 20_000_000] {
            recorder.record(Duration::from_micros(us));
        }
        let samples = Samples::Durations(vec![(Vec::new(), recorder.read())]);
        let histogram = metric(&family(FamilyKind::Histogram, samples), TIMES);
        let Some(metric::Data::Histogram(histogram)) = histogram.data else {
            panic!("no histogram")
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts[..2], [1, 2]);
        assert_eq!(point.bucket_counts.last(), Some(&1));
        assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (4, 4));
    }
}
