//! Lines on their way to standard error, written by a thread of their own: whoever reads them may hang,
//! and nobody who serves or leaves may wait for that.
//!
//! `tracing-appender` has such a writer, bounded by lines; but the only way to wait for what it was given is
//! to end it, and the words of a panic must be out while the process goes on.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// What waits to be written.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Some were taken out and are not all written.
    is_writing: bool,
    /// Lines that found no place.
    lost: u64,
}

impl Lines {
    /// Writes on a thread from now on.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<Lines> {
        let lines = Lines::default();
        let writing = lines.clone();
        thread::Builder::new()
            .name("log writer".to_owned())
            .spawn(move || writing.write_all(output))?;
        Ok(lines)
    }

    /// Has a line written later, or counts it as lost if too many wait.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting_bytes + line.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.waiting_bytes += line.len();
        state.waiting.push_back(line.to_vec());
        drop(state);
        self.0.changed.notify_all();
    }

    /// Whether there is room for more than a few lines.
    pub(super) fn has_room(&self) -> bool {
        self.state().waiting_bytes <= WAITING_BYTES_MAX / 2
    }

    /// How many lines were lost since this was asked last.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.state().lost)
    }

    /// Waits until all lines so far are written, at most this long; gives whether they are.
    pub(super) fn flush(&self, in_time: Duration) -> bool {
        let open = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.state(), in_time, open);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn write_all(&self, mut output: impl Write) {
        loop {
            for line in self.take() {
                // Nobody is there to be told of it.
                let _ = output.write_all(&line);
            }
            self.state().is_writing = false;
            self.0.changed.notify_all();
        }
    }

    /// All that wait, once there are any.
    fn take(&self) -> VecDeque<Vec<u8>> {
        let none = |state: &mut State| state.waiting.is_empty();
        let waited = self.0.changed.wait_while(self.state(), none);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        state.waiting_bytes = 0;
        std::mem::take(&mut state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line, as the log hands it over: in one piece.
pub(super) struct Line<'a>(&'a Lines);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Thousands of lines: more than a busy minute has, and little beside an index.
const WAITING_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes a line when the test lets it.
    struct Reader {
        reads: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.reads.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.read.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn hanging() -> (Lines, Sender<()>, Receiver<Vec<u8>>) {
        let ((let_read, reads), (read, seen)) = (channel(), channel());
        (Lines::start(Reader { reads, read }).unwrap(), let_read, seen)
    }

    #[test]
    fn lines_come_in_their_order_and_a_flush_waits_for_them() {
        let (lines, let_read, seen) = hanging();
        for number in 0..100_u8 {
            let_read.send(()).unwrap();
            lines.make_writer().write_all(&[number]).unwrap();
        }
        assert!(lines.flush(Duration::from_secs(60)));
        assert_eq!(seen.try_iter().flatten().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_hangs_holds_nobody_up_and_what_finds_no_place_is_counted() {
        let (lines, let_read, seen) = hanging();
        lines.push(b"in the hands of the thread");
        while !lines.state().is_writing {
            thread::yield_now();
        }
        let line = vec![b'x'; WAITING_BYTES_MAX / 4];
        for _ in 0..20 {
            lines.push(&line);
        }
        assert!(!lines.flush(Duration::from_millis(1)));
        assert!(!lines.has_room(), "what is told now would be lost too");
        assert_eq!((lines.take_lost(), lines.take_lost()), (16, 0));
        for _ in 0..5 {
            let_read.send(()).unwrap();
        }
        assert!(lines.flush(Duration::from_secs(60)));
        assert!(lines.has_room());
        assert_eq!(seen.try_iter().count(), 5);
    }

    #[test]
    fn a_reader_that_has_gone_ends_nothing() {
        let (lines, let_read, _seen) = hanging();
        drop(let_read);
        lines.push(b"to nobody");
        assert!(lines.flush(Duration::from_secs(60)));
    }
}
