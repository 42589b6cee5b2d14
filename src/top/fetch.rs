//! Asking a master for its status.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::status::Status;

/// The status of the master whose admin pages are at this address, or why there is none.
pub(super) fn fetch(address: &str) -> Result<Status, String> {
    let answer = ask(address).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => format!(
            "{error}; no master has its admin pages there: it has ended, or --metrics is not its \
             --metrics-port"
        ),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            "no answer in time: the process there is stopped or hangs".to_owned()
        }
        _ => error.to_string(),
    })?;
    parse(&answer)
}

fn ask(address: &str) -> std::io::Result<Vec<u8>> {
    let mut failed = std::io::Error::other("the host has no address");
    let connected = address.to_socket_addrs()?.find_map(|address| {
        TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(|error| failed = error).ok()
    });
    let Some(mut stream) = connected else { return Err(failed) };
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    write!(stream, "GET /status HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

fn parse(answer: &[u8]) -> Result<Status, String> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or("what answers there does not speak HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => serde_json::from_slice(&answer[end + 4..])
            .map_err(|error| format!("/status of another program: {error}")),
        "404" => Err("no page /status there: another program, or an older master".to_owned()),
        other => Err(format!("/status answers with {other}")),
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A master waits for two seconds for an actor that hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Many times a page with as many segments and clients as are listed.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_fields_that_are_not_known() {
        let answer = b"HTTP/1.0 200 OK\r\nx: y\r\n\r\n{\"pid\":7,\"later\":{\"a\":1}}";
        assert_eq!(parse(answer).unwrap().pid, 7);
    }

    #[test]
    fn what_is_no_master_is_told() {
        let cases = [
            (&b"SSH-2.0"[..], "does not speak HTTP"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "older master"),
            (b"HTTP/1.1 500 Oh\r\n\r\n", "500"),
            (b"HTTP/1.1 200 OK\r\n\r\n<html>", "another program"),
        ];
        for (answer, text) in cases {
            let error = parse(answer).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_port_that_nobody_listens_on_is_told() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(fetch(&port.to_string()).is_err());
    }
}
