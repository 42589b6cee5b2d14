//! Who mounts the segments of a run and stands for their store.

use std::time::Duration;

use mooring_proto::client::Client;
use mooring_proto::message::segment::Segment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::args::{RunArgs, Transport};
use super::generator::Dialer;
use super::mooncake::MooncakeOwner;
use super::plan::Plan;
use super::quic::QuicDialer;
use super::segments::{self, fake_segments};
use crate::command::CommandError;

/// The client that the segments belong to.
#[derive(Debug)]
pub(super) enum Owner {
    Quic { client: Client, segments: Vec<Segment> },
    Mooncake(MooncakeOwner),
}

/// What the master tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) objects: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
}

impl Owner {
    /// Connects. Mooncake's segments are mounted already then.
    ///
    /// # Errors
    /// What the master refused.
    pub(super) async fn connect(args: &RunArgs, plan: &Plan) -> Result<Owner, CommandError> {
        let segments = fake_segments(plan.segments, args.segment_bytes.0);
        match args.transport {
            Transport::Quic => Ok(Owner::Quic { client: args.client.connect().await?, segments }),
            Transport::Mooncake => {
                let target = &args.client.address.master;
                Ok(Owner::Mooncake(MooncakeOwner::mount(target, segments).await?))
            }
        }
    }

    /// Mounts what is not mounted yet.
    ///
    /// # Errors
    /// What the master refused.
    pub(super) async fn mount(&self) -> Result<(), CommandError> {
        if let Owner::Quic { client, segments } = self {
            for segment in segments {
                client.mount(segment.clone(), None).await?;
            }
        }
        Ok(())
    }

    /// How workers reach the same master as the same client.
    ///
    /// # Errors
    /// If nothing says whom to trust.
    pub(super) fn dialer(&self, args: &RunArgs) -> Result<Dialer, CommandError> {
        let target = args.client.address.master.clone();
        Ok(match self {
            Owner::Quic { client, .. } => {
                let tls = args.client.address.client_tls()?;
                Dialer::Quic(QuicDialer::new(target, tls, client.id()))
            }
            Owner::Mooncake(owner) => Dialer::Mooncake(target, owner.client()),
        })
    }

    /// Keeps the segments mounted, until the master is lost.
    pub(super) async fn keep_alive(&mut self) -> CommandError {
        match self {
            // This client pings by itself.
            Owner::Quic { client, .. } => client.ended().await.into(),
            Owner::Mooncake(owner) => owner.keep_alive().await,
        }
    }

    /// What the master tells of itself now, as far as it can be asked.
    pub(super) async fn ask(&self, metrics: Option<&str>) -> Told {
        let told = match self {
            Owner::Quic { client, .. } => client.stats().await.ok().map(|stats| Told {
                objects: Some(stats.objects),
                resident_bytes: Some(stats.resident_bytes),
            }),
            Owner::Mooncake(_) => None,
        };
        match (told, metrics) {
            (Some(told), _) => told,
            (None, Some(address)) => {
                let objects = tokio::time::timeout(PAGE_TIMEOUT, key_count(address));
                Told { objects: objects.await.ok().flatten(), resident_bytes: None }
            }
            (None, None) => Told::default(),
        }
    }

    /// Takes all segments away, so that nothing of the run stays.
    ///
    /// # Errors
    /// What the master refused.
    pub(super) async fn unmount(&mut self) -> Result<(), CommandError> {
        match self {
            Owner::Quic { client, segments } => {
                segments::unmount(client, segments).await?;
                client.close().await;
                Ok(())
            }
            Owner::Mooncake(owner) => owner.unmount().await,
        }
    }
}

/// The number of objects by the metrics page, which masters of both kinds have.
async fn key_count(address: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut page = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut page).await.ok()?;
    metric(&String::from_utf8_lossy(&page), "master_key_count")
}

/// The value of a metric without labels.
fn metric(page: &str, name: &str) -> Option<u64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let value: f64 = value.trim().parse().ok()?;
    (value >= 0.0).then_some(value as u64)
}

/// The page of a master is far smaller.
const PAGE_BYTES_MAX: u64 = 4 << 20;

const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_objects_is_found_on_a_page_of_either_master() {
        let page = "# TYPE master_key_count gauge\r\nmaster_key_count_limit 3\r\nmaster_key_count 12000000\r\n";
        assert_eq!(metric(page, "master_key_count"), Some(12_000_000));
        assert_eq!(metric("master_key_count 1.5e+06\n", "master_key_count"), Some(1_500_000));
        assert_eq!(metric("nothing of it", "master_key_count"), None);
    }
}
