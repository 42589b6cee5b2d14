//! Each segment, and where its free bytes are.

use mooring_actors::pool::message::SegmentDetail;

use super::super::exposition::Exposition;

/// How one figure of a segment is read.
type Figure = fn(&SegmentDetail) -> u64;

pub(super) fn families(page: &mut Exposition, segments: &[SegmentDetail]) {
    page.gauge(
        "mooring_spans",
        "Runs of pages that belong to shards, of all segments.",
        segments.iter().map(|segment| segment.spans).sum::<u64>(),
    );
    page.gauge(
        "mooring_largest_free_run_bytes",
        "The largest free run of any segment: no larger object fits without eviction.",
        segments.iter().map(|segment| segment.largest_free_run_bytes).max().unwrap_or(0),
    );
    page.gauge(
        "mooring_segments_not_listed",
        "Segments that are left out of the families mooring_segment_*, which have those of the lowest \
         slots.",
        segments.len().saturating_sub(LISTED_MAX),
    );
    let listed = &segments[..segments.len().min(LISTED_MAX)];
    let figures: [(&str, &str, Figure); 9] = [
        ("size_bytes", "Bytes of the segment.", |it| it.usage.entry.segment.size_bytes),
        ("allocated_bytes", "Bytes in ranges of objects.", |it| it.usage.allocated_bytes),
        ("held_bytes", "Bytes in held ranges.", |it| it.usage.held_bytes),
        ("leased_bytes", "Bytes of leased objects.", |it| it.leased_bytes),
        ("free_page_bytes", "Bytes of pages that belong to no shard.", |it| it.free_page_bytes),
        ("free_span_bytes", "Free bytes in spans of shards.", |it| it.free_span_bytes),
        ("largest_free_run_bytes", "The largest free run.", |it| it.largest_free_run_bytes),
        ("spans", "Runs of pages that belong to shards.", |it| it.spans),
        (
            "eviction_debt_bytes",
            "Bytes that shards were ordered to evict and have not yet reported.",
            |it| it.eviction_debt_bytes,
        ),
    ];
    for (name, help, figure) in figures {
        let samples = listed.iter().map(|segment| {
            let entry = &segment.usage.entry;
            ([entry.slot.to_string(), entry.segment.endpoint.clone()], figure(segment))
        });
        let name = format!("mooring_segment_{name}");
        page.gauges_of(&name, help, ["slot", "endpoint"], samples);
    }
}

/// With more the page would be mostly these; slots are given from the lowest on.
const LISTED_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use mooring_proto::message::inspect::{SegmentState, SegmentUse};
    use mooring_proto::message::segment::{Segment, SegmentEntry};
    use mooring_proto::{ClientId, SegmentId};

    use super::super::super::exposition::text;
    use super::*;

    fn segment(slot: u32) -> SegmentDetail {
        let segment = Segment {
            segment: SegmentId(slot.into()),
            base: 1,
            size_bytes: 4096,
            endpoint: format!("host-{slot}:1"),
            certificate_sha256: None,
            transfer_engine: None,
        };
        let entry = SegmentEntry { slot, generation: 1, client: ClientId(1), segment };
        SegmentDetail {
            usage: SegmentUse {
                entry,
                state: SegmentState::Open,
                allocated_bytes: 7,
                held_bytes: 0,
                time_left_ms: None,
            },
            leased_bytes: 0,
            pinned_bytes: 0,
            free_page_bytes: 0,
            free_span_bytes: 0,
            largest_free_run_bytes: u64::from(slot),
            spans: 2,
            eviction_debt_bytes: 0,
        }
    }

    #[test]
    fn thousands_of_segments_are_a_bounded_number_of_lines_and_all_count() {
        let segments: Vec<_> = (0..3_000).map(segment).collect();
        let mut page = Exposition::default();
        families(&mut page, &segments);
        let page = text(&page.finish());
        assert!(page.lines().count() < 10 * (LISTED_MAX + 3), "{}", page.lines().count());
        for line in [
            "mooring_spans 6000",
            "mooring_largest_free_run_bytes 2999",
            "mooring_segments_not_listed 2872",
            "mooring_segment_allocated_bytes{slot=\"127\",endpoint=\"host-127:1\"} 7",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}");
        }
    }
}
