//! Packets that the system threw away at a UDP port, since nobody took them in time. To QUIC they
//! look like loss on the way.

/// How many of them since the port was bound; `None` if the system does not tell.
pub(super) fn of_port(port: u16) -> Option<u64> {
    let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
    let tables: Vec<_> =
        tables.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let drops: Vec<u64> = tables.iter().flat_map(|table| drops_in(table, port)).collect();
    (!drops.is_empty()).then(|| drops.iter().sum())
}

/// The last column of the rows of a port. The local address is the second one, in hexadecimal.
fn drops_in(table: &str, port: u16) -> impl Iterator<Item = u64> {
    table.lines().skip(1).filter_map(move |row| {
        let mut columns = row.split_whitespace();
        let (_, own) = columns.nth(1)?.rsplit_once(':')?;
        if u16::from_str_radix(own, 16).ok()? != port {
            return None;
        }
        columns.next_back()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  351: 0100007F:C383 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1001 2 0000000000000000 17
  352: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1002 2 0000000000000000 5
";

    #[test]
    fn the_drops_of_a_port_are_in_the_last_column() {
        assert_eq!(drops_in(TABLE, 50_051).collect::<Vec<_>>(), [17]);
        assert_eq!(drops_in(TABLE, 53).collect::<Vec<_>>(), [5]);
        assert_eq!(drops_in(TABLE, 54).count(), 0);
    }

    #[test]
    fn a_port_of_this_process_has_dropped_nothing_yet() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(matches!(of_port(port), Some(0) | None));
    }
}
