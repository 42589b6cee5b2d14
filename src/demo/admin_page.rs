//! Figures of a master that only its metrics page has.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::command::CommandError;

/// What one master has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MasterFigures {
    /// Restored segments whose owners proved that they are the same.
    pub(crate) segments_confirmed: u64,
    /// Restored segments that were given up.
    pub(crate) segments_dropped: u64,
    /// Restored segments whose owners are still waited for.
    pub(crate) segments_pending: u64,
    /// Clients that were silent for too long.
    pub(crate) clients_expired: u64,
    pub(crate) evicted_objects: u64,
    pub(crate) evicted_bytes: u64,
    pub(crate) put_refused: u64,
}

impl MasterFigures {
    /// Adds the counts of another master; what it waits for is no count.
    pub(crate) fn add(&mut self, other: &MasterFigures) {
        self.segments_confirmed += other.segments_confirmed;
        self.segments_dropped += other.segments_dropped;
        self.clients_expired += other.clients_expired;
        self.evicted_objects += other.evicted_objects;
        self.evicted_bytes += other.evicted_bytes;
        self.put_refused += other.put_refused;
    }

    fn parse(page: &str) -> Result<MasterFigures, CommandError> {
        let figure = |name: &str| {
            let values = page.lines().filter_map(|line| line.strip_prefix(name));
            let value = values.filter_map(|value| value.strip_prefix(' ')).next();
            // Counts, so that the fraction that a metric may have is never there.
            let count = value.and_then(|value| value.trim().parse::<u64>().ok());
            let text = || CommandError::Failed(format!("the metrics page has no count {name}"));
            count.ok_or_else(text)
        };
        Ok(MasterFigures {
            segments_confirmed: figure("master_handoff_segments_confirmed")?,
            segments_dropped: figure("master_handoff_segments_dropped")?,
            segments_pending: figure("master_handoff_segments_pending")?,
            clients_expired: figure("mooring_clients_offline_total")?,
            evicted_objects: figure("master_evicted_key_count")?,
            evicted_bytes: figure("master_evicted_size_bytes")?,
            put_refused: figure("master_put_start_alloc_failures_total")?,
        })
    }
}

/// Asks the master whose admin pages are at this address.
///
/// # Errors
/// If the page does not come in time, or lacks a figure.
pub(crate) async fn figures(address: &str) -> Result<MasterFigures, CommandError> {
    let page = tokio::time::timeout(PAGE_TIMEOUT, page(address)).await;
    let page = page.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let page =
        page.map_err(|error| CommandError::failed(format!("metrics page of {address}"), error))?;
    MasterFigures::parse(&page)
}

async fn page(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// The page of a master that is busy with everything else on a small machine.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "HTTP/1.0 200 OK\r\n\r\n\
        # TYPE master_handoff_segments_confirmed gauge\n\
        master_handoff_segments_confirmed 3\n\
        master_handoff_segments_dropped 1\n\
        master_handoff_segments_pending 2\n\
        mooring_clients_offline_total 4\n\
        master_evicted_key_count 5\n\
        master_evicted_size_bytes 6\n\
        master_put_start_alloc_failures_total 7\n";

    #[test]
    fn the_figures_are_read_by_their_full_names() {
        let figures = MasterFigures::parse(PAGE).unwrap();
        let expected = MasterFigures {
            segments_confirmed: 3,
            segments_dropped: 1,
            segments_pending: 2,
            clients_expired: 4,
            evicted_objects: 5,
            evicted_bytes: 6,
            put_refused: 7,
        };
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_missing_figure_is_named() {
        let error = MasterFigures::parse(&PAGE.replace("_dropped", "_dropped_bytes")).unwrap_err();
        assert!(error.to_string().contains("master_handoff_segments_dropped"), "{error}");
    }

    #[test]
    fn the_sum_over_masters_leaves_out_what_is_pending() {
        let one = MasterFigures::parse(PAGE).unwrap();
        let mut sum = one;
        sum.add(&one);
        assert_eq!((sum.segments_confirmed, sum.put_refused, sum.segments_pending), (6, 14, 2));
    }
}
