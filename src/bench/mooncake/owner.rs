//! The store of a run: mounts segments without memory, and pings for them.

use std::time::Duration;

use mooring_proto::message::segment::Segment as Span;
use mooring_proto::mooncake::{
    ClientStatus, ErrorCode, MountSegment, Ping, ReMountSegment, Segment, Str, UnmountSegment, Uuid,
};

use super::super::wire::WireFault;
use super::MooncakeWire;
use crate::command::CommandError;

/// Who mounted the segments.
#[derive(Debug)]
pub(in super::super) struct MooncakeOwner {
    target: String,
    wire: MooncakeWire,
    segments: Vec<Span>,
}

impl MooncakeOwner {
    /// Connects, mounts the segments, and makes sure that the master counts the client as alive.
    ///
    /// # Errors
    /// What the master refused, and a connection that fails.
    pub(in super::super) async fn mount(
        target: &str,
        segments: Vec<Span>,
    ) -> Result<MooncakeOwner, CommandError> {
        let client = Uuid { first: rand::random(), second: rand::random() };
        let wire = MooncakeWire::connect(target, client, 1).await?;
        let mut owner = MooncakeOwner { target: target.to_owned(), wire, segments };
        owner.mount_all().await.map_err(|fault| failed("cannot mount", &fault))?;
        owner.ping().await.map_err(|fault| failed("cannot ping", &fault))?;
        Ok(owner)
    }

    /// Who the client is; those who put are the same one.
    pub(in super::super) fn client(&self) -> Uuid {
        self.wire.client
    }

    /// Pings until the master cannot be reached.
    pub(in super::super) async fn keep_alive(&mut self) -> CommandError {
        loop {
            tokio::time::sleep(PING_EVERY).await;
            if let Err(fault) = self.ping().await {
                return failed("the master is lost", &fault);
            }
        }
    }

    /// Takes all segments away.
    ///
    /// # Errors
    /// A connection that fails. Segments that are gone already are none.
    pub(in super::super) async fn unmount(&mut self) -> Result<(), CommandError> {
        // A ping may have been given up between its request and its answer.
        let client = self.wire.client;
        self.wire = MooncakeWire::connect(&self.target, client, 1).await?;
        for id in self.segments.iter().map(id).collect::<Vec<Uuid>>() {
            let request = UnmountSegment { segment: id, client };
            match self.wire.call(&request, |answer| answer).await {
                Ok(Ok(()) | Err(ErrorCode::SEGMENT_NOT_FOUND)) => {}
                Ok(Err(code)) => return Err(CommandError::failed("cannot unmount", code)),
                Err(fault) => return Err(failed("cannot unmount", &fault)),
            }
        }
        Ok(())
    }

    async fn mount_all(&mut self) -> Result<(), WireFault> {
        for span in &self.segments {
            let request = MountSegment { segment: described(span), client: self.wire.client };
            let answer = self.wire.call(&request, |answer| answer).await?;
            match answer {
                Ok(()) | Err(ErrorCode::SEGMENT_ALREADY_EXISTS) => {}
                Err(code) => return Err(WireFault::Refused(code.to_string())),
            }
        }
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), WireFault> {
        let client = self.wire.client;
        let status = self.wire.call(&Ping { client }, |answer| answer).await?;
        if status.is_ok_and(|status| status.client_status == ClientStatus::OK) {
            return Ok(());
        }
        let segments = self.segments.iter().map(described).collect();
        let answer = self.wire.call(&ReMountSegment { segments, client }, |answer| answer).await?;
        answer.map_err(|code| WireFault::Refused(code.to_string()))
    }
}

fn id(span: &Span) -> Uuid {
    let id = span.segment.0;
    Uuid { first: (id >> 64) as u64, second: id as u64 }
}

fn described(span: &Span) -> Segment<'_> {
    Segment {
        id: id(span),
        name: Str::from(span.endpoint.as_str()),
        base: span.base,
        size: span.size_bytes,
        te_endpoint: Str::from(span.endpoint.as_str()),
        protocol: Str::from("tcp"),
        host_id: Str::default(),
    }
}

fn failed(attempt: &str, fault: &WireFault) -> CommandError {
    CommandError::failed(attempt, fault.text())
}

/// Mooncake's clients ping each second.
const PING_EVERY: Duration = Duration::from_secs(1);
