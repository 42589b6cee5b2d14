//! What comes to a port for HTTP: here that of the metadata store, whose pages take bodies from anybody.

use std::cell::RefCell;
use std::collections::BTreeSet;

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::counting::peak_of;
use crate::engine::{Decoder, run};
use crate::metadata_store::pages;

/// What a connection, its buffers and the table of pages take, whatever comes.
const CONNECTION_BYTES: usize = 512 << 10;

/// More than the longest input.
const PIPE_BYTES: usize = 64 << 10;

/// What the pages say to the bytes of one connection; and every status of theirs.
async fn talk(pages: &Router, input: &[u8]) -> (Vec<u8>, BTreeSet<StatusCode>) {
    let (mut client, server) = duplex(PIPE_BYTES);
    let statuses = RefCell::new(BTreeSet::new());
    let pages = TowerToHyperService::new(pages.clone());
    let noting = service_fn(|request| {
        let answer = pages.call(request);
        async {
            let answer = answer.await?;
            statuses.borrow_mut().insert(answer.status());
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    // As a client that has said all and reads on.
    let serving =
        http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), noting);
    let client = async {
        // A connection that was closed before the end takes no more.
        let _ = client.write_all(input).await;
        let _ = client.shutdown().await;
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).await.unwrap();
        answers
    };
    let (_, answers) = tokio::join!(serving, client);
    (answers, statuses.into_inner())
}

fn feed(input: &[u8]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pages = pages();
    let ((_, statuses), peak_bytes) = peak_of(|| runtime.block_on(talk(&pages, input)));
    assert!(peak_bytes <= CONNECTION_BYTES, "{peak_bytes} bytes for {} of input", input.len());
    assert!(statuses.iter().all(|status| !status.is_server_error()), "{statuses:?}");
    // Whatever came, the store takes a document and gives it back.
    let (answers, _) = runtime.block_on(talk(&pages, WHOLE));
    assert!(answers.ends_with(b"\r\n\r\nwhole"), "{}", String::from_utf8_lossy(&answers));
    statuses.into_iter().map(|status| format!("{status} ")).collect()
}

const WHOLE: &[u8] =
    b"PUT /metadata?key=last HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nwhole\
    GET /metadata?key=last HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn whatever_comes_to_a_port_for_http_is_answered_or_cut_off() {
    let seeds = [
        "PUT /metadata?key=mooncake%2Fram%2Fa HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}\
         GET /metadata?key=mooncake/ram/a HTTP/1.1\r\nhost: a\r\n\r\n",
        "PUT /metadata?key=rpc_meta HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
         5\r\n[1,2]\r\n0\r\n\r\nDELETE /metadata?key=rpc_meta HTTP/1.1\r\nhost: a\r\n\r\n",
        "PUT /metadata?key=b HTTP/1.1\r\norigin: http://localhost:1\r\ncontent-length: 0\r\n\r\n",
        "PUT /metadata?key=b HTTP/1.1\r\norigin: https://else.where\r\ncontent-length: 0\r\n\r\n",
        "HEAD /health HTTP/1.0\r\nconnection: keep-alive\r\n\r\nPOST //metadata?key HTTP/1.1\r\n\r\n",
        "PUT http://a/metadata?key=%ff HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n.",
        "OPTIONS * HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    run(&Decoder { name: "http", seeds, front_bytes: 0, feed });
}
