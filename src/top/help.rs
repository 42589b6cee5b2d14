//! The page that says what keys do and what figures mean.

use ratatui::text::Line;

/// Its lines; each fits into 80 columns.
pub(super) fn lines() -> Vec<Line<'static>> {
    TEXT.lines().map(Line::raw).collect()
}

const TEXT: &str = "
  q, Esc       quit, or back from a page     Tab     the next table
  Up Down j k  another row                   Enter   open a segment or client
  s  <  >      sort by another column        r       in the other order
  p, Space     pause                         ?       this page

  keys/s   keys of both front ends. put: completed puts. no space: put
           starts that were refused. hit: the part of gets that were found.
  evict/s  ordered: bytes that shards were told to evict and have not yet.
  objects  parked: puts that wait for space. held: ranges that nobody gets
           while somebody may still write or read them.
  p50 p99  from a whole request to its answer, without the network.
  OLDEST   for how long the first request waits at a shard.
  USE      | objects, + held and unfinished.
  FREE RUN no larger object fits without eviction.

  A segment is open, quarantined (mounted, nothing is placed yet), draining,
  leaving, or pending (restored, its store has not come back). A client is
  active, or suspected when it was silent for its TTL.
";
