//! The metadata store of the transfer engine, over HTTP.

use std::net::SocketAddr;

use crate::harness::{Master, http};

fn started() -> (Master, SocketAddr) {
    let flags = ["--enable-http-metadata-server", "--http-metadata-server-port", "0"];
    let master = Master::start(&flags);
    let address: SocketAddr = master.process.ready()["metadata"].as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_loopback());
    (master, address)
}

fn asked(store: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let (status, body) = http(store, method, path, body.as_bytes());
    (status, String::from_utf8(body).unwrap())
}

fn answer(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn an_engine_publishes_itself_is_found_and_goes() {
    let (_master, store) = started();
    let address = "/metadata?key=mooncake%2Frpc_meta%2F127.0.0.1%3A13801";
    let segment = "/metadata?key=mooncake%2Fram%2F127.0.0.1%3A13801";
    let place = "{\"ip_or_host_name\":\"192.0.2.2\",\"rpc_port\":16415}";
    assert_eq!(asked(store, "PUT", address, place), answer(200, "metadata updated"));
    assert_eq!(asked(store, "PUT", address, place), answer(200, "metadata unchanged"));
    let other = asked(store, "PUT", address, "{}");
    assert_eq!(other, answer(400, "Duplicate rpc_meta key not allowed"));
    assert_eq!(asked(store, "GET", segment, ""), answer(404, "metadata not found"));
    for buffers in ["{\"buffers\":[]}", "{\"buffers\":[{}]}"] {
        assert_eq!(asked(store, "PUT", segment, buffers), answer(200, "metadata updated"));
        assert_eq!(asked(store, "GET", segment, ""), answer(200, buffers));
    }
    assert_eq!(asked(store, "GET", address, ""), answer(200, place));
    for path in [address, segment] {
        assert_eq!(asked(store, "DELETE", path, ""), answer(200, "metadata deleted"));
        assert_eq!(asked(store, "DELETE", path, ""), answer(404, "metadata not found"));
    }
}

#[test]
fn a_request_without_a_key_and_one_that_is_too_large_are_refused() {
    let (_master, store) = started();
    for method in ["GET", "PUT", "DELETE"] {
        for path in ["/metadata", "/metadata?key="] {
            assert_eq!(asked(store, method, path, ""), answer(400, "Missing key parameter"));
        }
    }
    assert_eq!(asked(store, "POST", "/metadata?key=a", "x"), answer(404, "404 Not Found"));
    assert_eq!(asked(store, "GET", "/other", ""), answer(404, "404 Not Found"));
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(asked(store, "PUT", "/metadata?key=a", &large).0, 413);
    assert_eq!(asked(store, "GET", "/metadata?key=a", "").0, 404);
}

#[test]
fn without_the_flag_there_is_no_store() {
    let master = Master::start(&[]);
    assert!(master.process.ready()["metadata"].is_null());
}
