//! Configuration: the values of flags, the file that may hold them, and what results.

mod effective;
mod file;
mod values;

pub(crate) use effective::effective;
pub(crate) use file::{Applied, ConfigFile, path_of};
pub(crate) use values::{
    client_ttl, eviction_ratio, host_and_port, milliseconds, ratio, refresh_interval, seconds,
    seconds_or_none, watermark_ratio,
};
