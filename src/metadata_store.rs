//! The metadata store of Mooncake's transfer engine: a small map from keys to documents over HTTP,
//! in which engines find each other. It knows no authentication, is bounded, and is not carried
//! over a restart: engines publish themselves again when their master asks them to mount again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::admin::connections::Connections;
use crate::admin::{guard, query};

/// Serves the store until the process ends, with so many connections. Must be called inside a tokio runtime.
///
/// # Errors
/// If the socket is of no use.
pub(crate) fn start(socket: TcpListener, connections_max: usize) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(Connections::new(socket, connections_max), pages()).await {
            tracing::error!(%error, "the metadata store is gone");
        }
    });
    Ok(())
}

/// The pages of an empty store.
pub(crate) fn pages() -> Router {
    Router::new()
        .route("/metadata", get(read).put(write).delete(remove))
        .route("/health", get(async || "OK"))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(DefaultBodyLimit::max(VALUE_BYTES_MAX))
        .layer(from_fn(guard::refuse_foreign_changes))
        .with_state(Arc::new(Store::default()))
}

type Answer = (StatusCode, &'static str);

async fn read(State(store): State<Arc<Store>>, RawQuery(query): RawQuery) -> Response {
    let Some(key) = key_of(query.as_deref()) else { return MISSING_KEY.into_response() };
    match store.documents().get(&key) {
        Some(document) => ([(header::CONTENT_TYPE, "application/json")], document).into_response(),
        None => NOT_FOUND.into_response(),
    }
}

async fn write(
    State(store): State<Arc<Store>>,
    RawQuery(query): RawQuery,
    document: Bytes,
) -> Answer {
    match key_of(query.as_deref()) {
        Some(key) => store.documents().put(key, document),
        None => MISSING_KEY,
    }
}

async fn remove(State(store): State<Arc<Store>>, RawQuery(query): RawQuery) -> Answer {
    match key_of(query.as_deref()) {
        Some(key) => store.documents().remove(&key),
        None => MISSING_KEY,
    }
}

/// As that program answers, also to a method that a page does not know.
async fn nothing() -> Answer {
    (StatusCode::NOT_FOUND, "404 Not Found")
}

/// Engines encode their keys; people who look with a browser may not.
fn key_of(query: Option<&str>) -> Option<Vec<u8>> {
    query::decoded(query, "key").filter(|key| !key.is_empty())
}

#[derive(Default)]
struct Store {
    documents: Mutex<Documents>,
}

impl Store {
    fn documents(&self) -> MutexGuard<'_, Documents> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was published.
#[derive(Default)]
struct Documents {
    by_key: HashMap<Vec<u8>, Bytes>,
    /// Of keys and documents.
    bytes: usize,
}

impl Documents {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.by_key.get(key).cloned()
    }

    fn put(&mut self, key: Vec<u8>, document: Bytes) -> Answer {
        if key.len() > KEY_BYTES_MAX {
            return (StatusCode::BAD_REQUEST, "key: more than 4096 bytes");
        }
        let keys = self.by_key.len();
        match self.by_key.entry(key) {
            Entry::Occupied(mut former) => {
                // Two processes with one name would be each other's peers.
                if is_address(former.key()) {
                    return if *former.get() == document { UNCHANGED } else { DUPLICATE };
                }
                let bytes = self.bytes - former.get().len() + document.len();
                if bytes > ALL_BYTES_MAX {
                    return FULL;
                }
                self.bytes = bytes;
                former.insert(document);
            }
            Entry::Vacant(place) => {
                let bytes = self.bytes + place.key().len() + document.len();
                if keys >= KEYS_MAX || bytes > ALL_BYTES_MAX {
                    return FULL;
                }
                self.bytes = bytes;
                place.insert(document);
            }
        }
        UPDATED
    }

    fn remove(&mut self, key: &[u8]) -> Answer {
        match self.by_key.remove(key) {
            Some(document) => {
                self.bytes -= key.len() + document.len();
                DELETED
            }
            None => NOT_FOUND,
        }
    }
}

/// Whether a key holds where an engine is to be reached.
fn is_address(key: &[u8]) -> bool {
    key.windows(RPC_META.len()).any(|part| part == RPC_META)
}

const UPDATED: Answer = (StatusCode::OK, "metadata updated");
const UNCHANGED: Answer = (StatusCode::OK, "metadata unchanged");
const DELETED: Answer = (StatusCode::OK, "metadata deleted");
const NOT_FOUND: Answer = (StatusCode::NOT_FOUND, "metadata not found");
const MISSING_KEY: Answer = (StatusCode::BAD_REQUEST, "Missing key parameter");
const DUPLICATE: Answer = (StatusCode::BAD_REQUEST, "Duplicate rpc_meta key not allowed");
const FULL: Answer = (StatusCode::INSUFFICIENT_STORAGE, "the metadata store is full");

/// What keys of addresses have in common.
const RPC_META: &[u8] = b"rpc_meta";

/// An engine has two keys, and there are far fewer engines.
const KEYS_MAX: usize = 100_000;

/// Keys are the names of hosts and segments.
const KEY_BYTES_MAX: usize = 4096;

/// A document lists the buffers of one engine: some thousand of them, at a hundred bytes each and
/// the keys of a network card for each.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// All engines of a large place have published by then, and the index keeps its memory.
const ALL_BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(documents: &mut Documents, key: &str, document: &'static str) -> Answer {
        documents.put(key.into(), Bytes::from_static(document.as_bytes()))
    }

    #[test]
    fn a_document_is_replaced_and_removed() {
        let mut documents = Documents::default();
        assert_eq!(put(&mut documents, "mooncake/ram/a", "one"), UPDATED);
        assert_eq!(put(&mut documents, "mooncake/ram/a", "another"), UPDATED);
        assert_eq!(documents.get(b"mooncake/ram/a").unwrap(), "another");
        assert_eq!(documents.remove(b"mooncake/ram/a"), DELETED);
        assert_eq!(documents.remove(b"mooncake/ram/a"), NOT_FOUND);
        assert_eq!((documents.get(b"mooncake/ram/a"), documents.bytes), (None, 0));
    }

    #[test]
    fn an_address_stays_that_of_the_first_until_it_is_removed() {
        let mut documents = Documents::default();
        let key = "mooncake/rpc_meta/a";
        assert_eq!(put(&mut documents, key, "one"), UPDATED);
        assert_eq!(put(&mut documents, key, "one"), UNCHANGED);
        assert_eq!(put(&mut documents, key, "another"), DUPLICATE);
        assert_eq!(documents.get(key.as_bytes()).unwrap(), "one");
        assert_eq!(documents.remove(key.as_bytes()), DELETED);
        assert_eq!(put(&mut documents, key, "another"), UPDATED);
    }

    #[test]
    fn a_full_store_refuses_and_keeps_what_it_has() {
        let mut documents = Documents { bytes: ALL_BYTES_MAX - 5, ..Documents::default() };
        assert_eq!(put(&mut documents, "a", "12345"), FULL);
        assert_eq!(put(&mut documents, "a", "1234"), UPDATED);
        assert_eq!(put(&mut documents, "a", "12345"), FULL);
        assert_eq!(documents.get(b"a").unwrap(), "1234");
        let mut documents = Documents::default();
        for number in 0..KEYS_MAX {
            assert_eq!(put(&mut documents, &number.to_string(), ""), UPDATED);
        }
        assert_eq!(put(&mut documents, "one more", ""), FULL);
        assert_eq!(put(&mut documents, "0", "still replaced"), UPDATED);
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        let mut documents = Documents::default();
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        assert_eq!(put(&mut documents, &long, "").0, StatusCode::BAD_REQUEST);
        assert_eq!(put(&mut documents, &long[1..], ""), UPDATED);
    }
}
