//! What a probe of many keys may lease, of release 0.3.14.

use super::super::declare::named_numbers;
use super::super::fault::Fault;
use super::super::literal::{self, Literal};
use super::super::pack::{Pack, Reader, Shape, Unpack, Writer};

named_numbers! {
    /// Which of the objects that a probe finds get a lease.
    ProbeLeaseMode: u8 {
        /// None of them.
        NONE = 0,
        /// Those of the last candidate that is complete; all others are answered with false.
        LAST_HIT_ONLY = 1,
    }
}

/// How a probe leases. Its keys are candidates of `candidate_size` keys each, in order.
///
/// Mooncake sends it as it lies in memory: seven bytes of padding stand between its members, and
/// its literal has its alignment. The bytes of padding are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantLeasePolicy {
    /// Which objects get a lease.
    pub lease_mode: ProbeLeaseMode,
    /// How many keys make one candidate.
    pub candidate_size: u64,
}

const PADDING_BYTES: usize = 7;

impl Shape for GrantLeasePolicy {
    const LITERAL: Literal = Literal::EMPTY
        .byte(literal::STRUCT)
        .then(ProbeLeaseMode::LITERAL)
        .then(u64::LITERAL)
        .byte(literal::EIGHT)
        .byte(literal::EIGHT)
        .byte(literal::END);
    const BYTES_MIN: usize = 16;
}

impl Pack for GrantLeasePolicy {
    fn pack(&self, out: &mut Writer<'_>) {
        self.lease_mode.pack(out);
        out.bytes(&[0; PADDING_BYTES]);
        self.candidate_size.pack(out);
    }
}

impl<'a> Unpack<'a> for GrantLeasePolicy {
    fn unpack(input: &mut Reader<'a>) -> Result<GrantLeasePolicy, Fault> {
        let lease_mode = ProbeLeaseMode::unpack(input)?;
        input.bytes(PADDING_BYTES)?;
        Ok(GrantLeasePolicy { lease_mode, candidate_size: u64::unpack(input)? })
    }
}
