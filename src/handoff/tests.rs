mod corruption;
mod fixture;
mod inspection;
mod mixed;
mod ownership;
mod protocol;
mod roundtrip;
pub(super) mod sample;
