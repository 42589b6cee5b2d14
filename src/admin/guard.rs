//! What every page asks of a request before it looks at it: whose it is, and whether it is its turn.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Scheme;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

/// Refuses a change that a page of somebody else asks for. The pages know no authentication, so a
/// browser on the machine must not be the way in: whatever page it shows, it says where that is from,
/// and a name that was made to lead here is still not the name of this machine.
pub(crate) async fn refuse_foreign_changes(request: Request, next: Next) -> Response {
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_look && !is_own(request.headers()) {
        let text = "not from a page of another origin\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

/// Programs name no origin. Of pages only those of this machine may ask.
fn is_own(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    origins.all(|origin| origin.to_str().is_ok_and(is_of_this_machine))
}

/// Whether an origin, as `http://localhost:9003`, is one by an address that leads nowhere else.
fn is_of_this_machine(origin: &str) -> bool {
    // The parser drops it.
    let has_fragment = origin.contains('#');
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let (Some(scheme), Some(authority)) = (origin.scheme(), origin.authority()) else {
        return false;
    };
    let is_web = *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
    let host = authority.host();
    // What follows the host is a port and nothing else, so that no other reading leads elsewhere.
    let has_odd_rest = match authority.as_str().strip_prefix(host) {
        Some("") => false,
        Some(rest) => !rest.starts_with(':') || authority.port_u16().is_none(),
        None => true,
    };
    let has_path = !matches!(origin.path(), "" | "/") || origin.query().is_some();
    if !is_web || has_odd_rest || has_path || has_fragment {
        return false;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// Turns of the pages that take time to make.
pub(super) fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PAGES_AT_ONCE))
}

/// Makes a page when it is its turn, so that however many are asked for, those that tell whether the
/// process is ready come in between. What has a body takes no turn: it would keep it until that has come.
pub(super) async fn take_turns(
    State(turns): State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    // It is never closed.
    let _turn = turns.acquire().await;
    next.run(request).await
}

/// More than one, since a page may wait for an actor that hangs.
const PAGES_AT_ONCE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_are_its_own() {
        for (origin, own) in [
            ("http://localhost:9003", true),
            ("http://LOCALHOST", true),
            ("http://127.0.0.1:9003", true),
            ("https://127.8.8.8", true),
            ("http://[::1]:9003", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("null", false),
            ("", false),
            ("http://", false),
            ("http://[::1", false),
            ("http://localhost.example.org:9003", false),
            ("http://127.0.0.1.example.org", false),
            ("http://rebound.example.org:9003", false),
            ("http://10.0.0.1:9003", false),
            ("http://localhost@example.org", false),
            ("http://localhost:80@example.org", false),
            ("localhost", false),
            ("http://localhost:6103.example.org", false),
            ("http://localhost:example", false),
            ("http://[::1].example.org", false),
            ("http://localhost#.example.org", false),
            ("http://localhost/.example.org", false),
            ("http://localhost?.example.org", false),
            ("chrome-extension://localhost", false),
        ] {
            assert_eq!(is_of_this_machine(origin), own, "{origin}");
        }
    }

    #[test]
    fn a_program_names_no_origin_and_one_that_is_foreign_is_enough() {
        let mut headers = HeaderMap::new();
        assert!(is_own(&headers));
        headers.append(header::ORIGIN, "http://localhost".parse().unwrap());
        assert!(is_own(&headers));
        headers.append(header::ORIGIN, "http://example.org".parse().unwrap());
        assert!(!is_own(&headers));
    }
}
