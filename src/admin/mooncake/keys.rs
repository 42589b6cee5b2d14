//! All keys: to list, and to remove.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Json, Response};
use futures_core::Stream;
use mooring_proto::message::Kind;
use mooring_proto::{ErrorCode, WireError};
use serde::Serialize;
use tokio::sync::mpsc;

use super::super::{Admin, query};
use super::problem::Problem;
use super::serving;
use crate::frontend::calls::Ask;
use crate::frontend::{Context, bulk};

/// One key a line: its bytes as they are, or [as escapes](line) where they would not stay one line.
/// There may be more than fit into the memory at once: pages go
/// out as fast as they are taken.
pub(super) async fn all(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    let context = serving(&admin)?.context.clone();
    let (sender, pages) = mpsc::channel(PAGES_AHEAD);
    tokio::spawn(async move {
        if let Err(error) = send_all(&context, &sender).await {
            // The reader must not take a part for the whole, so the connection breaks.
            let _ = sender.send(Err(error)).await;
        }
    });
    let body = Body::from_stream(Pages(pages));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], body).into_response())
}

type Page = Result<Bytes, WireError>;

async fn send_all(context: &Context, sender: &mpsc::Sender<Page>) -> Result<(), WireError> {
    let mut cursor = Some(0);
    while let Some(start) = cursor {
        let page = page(context, start).await?;
        cursor = page.next;
        let mut lines = Vec::new();
        for entry in &page.keys {
            lines.extend_from_slice(&line(&entry.key));
            lines.push(b'\n');
        }
        if !lines.is_empty() && sender.send(Ok(lines.into())).await.is_err() {
            // Nobody reads any more.
            return Ok(());
        }
    }
    Ok(())
}

/// A key as one line. A key with a control character in it, which usual ones have not, is shown with
/// its control characters and backslashes as escapes.
fn line(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.iter().any(u8::is_ascii_control) {
        return Cow::Borrowed(key);
    }
    let escaped = key.iter().flat_map(|byte| match byte {
        b'\\' => b"\\\\".to_vec(),
        byte if byte.is_ascii_control() => byte.escape_ascii().collect(),
        byte => vec![*byte],
    });
    Cow::Owned(escaped.collect())
}

/// A page; a shard that has no room is asked again.
async fn page(
    context: &Context,
    cursor: u64,
) -> Result<mooring_proto::message::inspect::ListKeysReply, WireError> {
    let mut tries = 0;
    loop {
        match bulk::list_keys(&context.core, None, cursor, KEYS_PER_PAGE, false).await {
            Err(error) if error.code == ErrorCode::Overloaded && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// The pages as the body of an answer.
struct Pages(mpsc::Receiver<Page>);

impl Stream for Pages {
    type Item = Page;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<Page>> {
        self.0.poll_recv(context)
    }
}

#[derive(Serialize)]
struct Removed {
    success: bool,
    removed_count: u64,
}

/// Removes what nobody leases, and with `force` all. There are no tenants, so that none of that name
/// is passed over.
pub(super) async fn remove_all(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let context = &serving(&admin)?.context;
    let _admitted = context.stage.admit().ok_or(Problem::not_active())?;
    let force = query::text(query.as_deref(), "force");
    let force = force.is_some_and(|text| text == "true" || text == "1");
    context.counters.kind(Kind::RemoveAll).requests.increment();
    let ask = Ask { core: &context.core, deadline: None, trail: None };
    let removed = bulk::remove_all(ask, force).await?;
    tracing::info!(force, removed = removed.removed, "all objects removed over the admin pages");
    Ok(Json(Removed { success: true, removed_count: removed.removed }).into_response())
}

/// About a megabyte with keys of usual length.
const KEYS_PER_PAGE: u32 = 10_000;

/// One on its way and one in the making.
const PAGES_AHEAD: usize = 1;

/// Some seconds; then the process has other worries.
const TRIES: u32 = 100;

/// As shards hint.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_one_line_and_usual_ones_are_their_bytes() {
        for key in [&b"model@7/0"[..], b"", b"C:\\x", "Zo\u{eb}".as_bytes(), b"\xff\xfe"] {
            assert_eq!(line(key), key);
        }
        assert_eq!(&*line(b"a\nb\\\x1b[2J\xff\x7f"), b"a\\nb\\\\\\x1b[2J\xff\\x7f");
        for byte in 0..=u8::MAX {
            assert!(!line(&[b'a', byte]).contains(&b'\n'), "{byte}");
        }
    }
}
