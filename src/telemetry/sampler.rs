//! Which requests are traced: those of which their caller says so, and a share of those of which
//! nobody says anything.

use mooring_proto::frame::TraceContext;

/// Decides by the trace id, so that every process that has the same ratio decides the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    /// A trace is sampled if the lower half of its id, without the lowest bit, is below.
    below: u64,
}

impl Sampler {
    /// Samples this share, 0 to 1.
    pub(super) fn new(ratio: f64) -> Sampler {
        // All of them is above every number that is compared.
        Sampler { below: (ratio * RANGE) as u64 }
    }

    /// The trace of a request that came with this context, if it is to be followed: the one that it
    /// came with, or a new one. The span of a new one is that of nobody.
    pub(super) fn decide(&self, came: Option<TraceContext>) -> Option<TraceContext> {
        match came.filter(is_valid) {
            Some(came) => (came.flags & SAMPLED != 0).then_some(came),
            None if self.below == 0 => None,
            None => self.sampled(rand::random()),
        }
    }

    /// A new trace with this lower half of its id, if it is sampled.
    fn sampled(&self, lower: u64) -> Option<TraceContext> {
        if lower >> 1 >= self.below {
            return None;
        }
        let id = u128::from(rand::random::<u64>()) << 64 | u128::from(lower);
        Some(TraceContext { trace_id: id.to_be_bytes(), span_id: NOBODY, flags: SAMPLED })
    }
}

/// A new trace that is followed whatever the ratio.
pub(super) fn new_trace() -> TraceContext {
    // Zero would be no id.
    let id = rand::random::<u128>() | 1;
    TraceContext { trace_id: id.to_be_bytes(), span_id: NOBODY, flags: SAMPLED }
}

/// A new id of a span.
pub(super) fn new_span_id() -> [u8; 8] {
    (rand::random::<u64>() | 1).to_be_bytes()
}

/// An id of zeros is none.
fn is_valid(context: &TraceContext) -> bool {
    context.trace_id != [0; 16] && context.span_id != NOBODY
}

/// The id of no span.
pub(super) const NOBODY: [u8; 8] = [0; 8];

/// Bit 0 of the flags.
pub(super) const SAMPLED: u8 = 1;

/// One more than the highest number of 63 bits.
const RANGE: f64 = (1_u64 << 63) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    fn came(flags: u8) -> TraceContext {
        TraceContext { trace_id: [3; 16], span_id: [4; 8], flags }
    }

    #[test]
    fn what_the_caller_says_goes_before_the_ratio() {
        for ratio in [0.0, 0.5, 1.0] {
            let sampler = Sampler::new(ratio);
            assert_eq!(sampler.decide(Some(came(1))), Some(came(1)));
            assert_eq!(sampler.decide(Some(came(3))), Some(came(3)), "other flags say nothing");
            assert_eq!(sampler.decide(Some(came(0))), None);
        }
    }

    #[test]
    fn a_context_of_zeros_is_none() {
        let zeros = TraceContext { trace_id: [0; 16], span_id: [4; 8], flags: 1 };
        assert_eq!(Sampler::new(0.0).decide(Some(zeros)), None);
        let made = Sampler::new(1.0).decide(Some(zeros)).unwrap();
        assert!(made.trace_id != [0; 16] && made.span_id == NOBODY && made.flags == SAMPLED);
    }

    #[test]
    fn the_share_of_the_others_is_the_ratio() {
        let sampled = |ratio: f64| {
            let sampler = Sampler::new(ratio);
            (0..100_000).filter(|_| sampler.decide(None).is_some()).count()
        };
        assert_eq!(sampled(0.0), 0);
        assert_eq!(sampled(1.0), 100_000);
        // Six standard deviations.
        assert!((810..1190).contains(&sampled(0.01)), "{}", sampled(0.01));
    }

    #[test]
    fn two_processes_with_one_ratio_decide_the_same_of_a_trace() {
        let (some, more) = (Sampler::new(0.25), Sampler::new(0.5));
        for _ in 0..1_000 {
            let lower = rand::random();
            let by_some = some.sampled(lower).is_some();
            assert_eq!(by_some, some.sampled(lower).is_some());
            assert!(!by_some || more.sampled(lower).is_some(), "more has all that some has");
        }
    }
}
