//! Configuration: the values of flags, the file that may hold them, and what results.

mod effective;
mod file;
mod values;

pub(crate) use effective::effective;
pub(crate) use file::{Applied, ConfigFile, path_of};
pub(crate) use values::{
    client_ttl, eviction_ratio, host_and_port, milliseconds, refresh_interval, seconds,
    watermark_ratio,
};
