//! The thread that sends: batches of spans, and the figures each so often. It has a runtime of its own,
//! so that a collector that hangs holds nobody up; what it does not take in time is counted and gone.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::answer::{self, NotTaken};
use super::encode::Sender;
use super::figures;
use super::line::Line;
use super::queue::{ITEMS_MAX, Item, Outcomes};
use crate::admin::Family;

/// Gives all figures as of now.
pub(crate) type Source = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<Family>> + Send>> + Send>;

/// What the thread is told.
pub(super) enum Order {
    /// Send the figures each so often.
    SendFigures(Source, Duration),
    /// Send all that waits, and then tell so.
    Flush(oneshot::Sender<()>),
}

/// What the thread works with.
pub(super) struct Exporter {
    pub(super) items: mpsc::Receiver<Item>,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// The process leaves: nothing takes long any more.
    pub(super) leaving: watch::Receiver<bool>,
    pub(super) traces: Option<Line>,
    pub(super) metrics: Option<Line>,
    pub(super) sender: Sender,
    pub(super) outcomes: &'static Outcomes,
    pub(super) last_message: Option<Instant>,
}

/// A message that was not taken yet.
struct Pending {
    message: Bytes,
    spans: u64,
    attempts: u32,
    due: Instant,
}

impl Exporter {
    /// Works until the process ends.
    pub(super) async fn run(mut self) {
        self.open_ahead().await;
        let mut batch: Vec<Item> = Vec::new();
        let mut pending: Option<Pending> = None;
        let mut figures: Option<(Source, tokio::time::Interval)> = None;
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = pending.as_ref().map(|pending| pending.due);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return,
                    Some(Order::SendFigures(source, every)) => {
                        let mut ticks = interval(every);
                        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                        figures = Some((source, ticks));
                    }
                    Some(Order::Flush(done)) => {
                        self.flush(&mut batch, &mut pending).await;
                        // Who asked may have given up.
                        let _ = done.send(());
                    }
                },
                () = at(due), if due.is_some() => {
                    if let Some(again) = pending.take() {
                        pending = self.attempt(again).await;
                    }
                }
                _ = next_tick(&mut figures) => {
                    if let Some((source, _)) = &figures {
                        let families = source().await;
                        self.send_figures(&families).await;
                    }
                }
                // Nothing is taken out while a message waits to be sent again: the queue is the bound.
                _ = ticks.tick(), if pending.is_none() => {
                    pending = self.send_due(&mut batch).await;
                }
            }
        }
    }

    /// A command that ends does not wait for long: the way should be open by then.
    async fn open_ahead(&mut self) {
        let Some(line) = &mut self.traces else { return };
        let in_time = line.timeout();
        tokio::select! {
            _ = timeout(in_time, line.open_ahead()) => {}
            // An error says that the process is at its end.
            _ = self.leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    /// Takes what waits, and sends it if it is much or the last message was a while ago.
    async fn send_due(&mut self, batch: &mut Vec<Item>) -> Option<Pending> {
        // So many are in the queue; what comes meanwhile has its turn after what else there is to do.
        for _ in 0..=ITEMS_MAX / BATCH_ITEMS_MAX {
            self.fill(batch);
            let was_long_ago = self.last_message.is_none_or(|it| it.elapsed() >= MESSAGE_EVERY);
            if batch.is_empty() || batch.len() < BATCH_ITEMS_MAX && !was_long_ago {
                return None;
            }
            self.last_message = Some(Instant::now());
            let pending = self.send_batch(batch).await;
            if pending.is_some() {
                return pending;
            }
        }
        None
    }

    fn fill(&mut self, batch: &mut Vec<Item>) {
        while batch.len() < BATCH_ITEMS_MAX
            && let Ok(item) = self.items.try_recv()
        {
            batch.push(item);
        }
    }

    /// Sends all that waits, until the collector does not take something.
    async fn flush(&mut self, batch: &mut Vec<Item>, pending: &mut Option<Pending>) {
        if let Some(again) = pending.take() {
            *pending = self.attempt(again).await;
        }
        while pending.is_none() {
            self.fill(batch);
            if batch.is_empty() {
                return;
            }
            *pending = self.send_batch(batch).await;
        }
    }

    async fn send_batch(&mut self, batch: &mut Vec<Item>) -> Option<Pending> {
        if batch.is_empty() {
            return None;
        }
        let mut spans_max = 0;
        let fits = |item: &&Item| {
            spans_max += item.spans_max();
            spans_max <= MESSAGE_SPANS_MAX
        };
        // One that is too large alone goes alone.
        let items = batch.iter().take_while(fits).count().clamp(1, batch.len());
        let (request, spans) = self.sender.traces(batch.drain(..items).collect());
        let message = request.encode_to_vec().into();
        self.attempt(Pending { message, spans, attempts: 0, due: Instant::now() }).await
    }

    /// Sends it once; gives it back if it is worth another attempt.
    async fn attempt(&mut self, mut pending: Pending) -> Option<Pending> {
        let Some(line) = &mut self.traces else { return None };
        pending.attempts += 1;
        self.outcomes.note_waiting(Some(super::elapsed_ms()));
        let sent = send(line, pending.message.clone(), &mut self.leaving).await;
        self.outcomes.note_waiting(None);
        let error = match sent {
            Ok(answer) => {
                let rejected = answer::rejected_spans(answer, pending.spans);
                self.outcomes.note_failed(rejected);
                self.outcomes.note_sent(pending.spans - rejected);
                self.note_gone(false, "");
                return None;
            }
            Err(error) => error,
        };
        self.note_gone(true, &error.to_string());
        if error.is_passing && pending.attempts < ATTEMPTS_MAX {
            let pause = FIRST_PAUSE * 2_u32.pow(pending.attempts - 1);
            pending.due = Instant::now() + pause;
            return Some(pending);
        }
        self.outcomes.note_failed(pending.spans);
        None
    }

    async fn send_figures(&mut self, families: &[Family]) {
        let Some(line) = &mut self.metrics else { return };
        let message = figures::request(&self.sender, families).encode_to_vec().into();
        // The next ones say more than these.
        self.outcomes.note_waiting(Some(super::elapsed_ms()));
        let sent = send(line, message, &mut self.leaving).await;
        self.outcomes.note_waiting(None);
        match sent {
            Ok(answer) => {
                if let Some((rejected, text)) = answer::rejected_figures(answer) {
                    tracing::debug!(rejected, text, "figures refused");
                }
            }
            Err(error) => tracing::debug!(%error, "the figures were not taken"),
        }
    }

    /// Tells once that the collector is gone, and once that it is back.
    fn note_gone(&self, is_gone: bool, error: &str) {
        if self.outcomes.is_gone() == is_gone {
            return;
        }
        self.outcomes.note_gone(is_gone);
        if is_gone {
            tracing::warn!(
                error,
                "the collector of traces takes nothing; what finds no place is lost"
            );
        } else {
            tracing::info!("the collector of traces takes spans again");
        }
    }
}

/// Sends a message within the time of the line; when the process leaves, within much less.
async fn send(
    line: &mut Line,
    message: Bytes,
    leaving: &mut watch::Receiver<bool>,
) -> Result<Bytes, NotTaken> {
    let in_time = line.timeout();
    let leaves = async {
        // An error says that the process is at its end.
        let _ = leaving.wait_for(|leaving| *leaving).await;
        sleep(LAST_MESSAGE_TIME).await;
    };
    tokio::select! {
        sent = timeout(in_time, line.send(message)) => {
            sent.unwrap_or_else(|_| Err(NotTaken::for_now("no answer in time")))
        }
        () = leaves => Err(NotTaken::for_now("no answer before the process left")),
    }
}

async fn at(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due).await;
    }
}

async fn next_tick(figures: &mut Option<(Source, tokio::time::Interval)>) {
    match figures {
        Some((_, ticks)) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// A collector that is near answers within milliseconds.
const LAST_MESSAGE_TIME: Duration = Duration::from_millis(100);

/// To be woken for each item would cost the process more than the rest of its trace. The queue holds what
/// comes in between.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A trace can be looked at soon after.
const MESSAGE_EVERY: Duration = Duration::from_secs(1);

const BATCH_ITEMS_MAX: usize = 512;

/// About a megabyte: collectors take four at once.
const MESSAGE_SPANS_MAX: usize = 4096;

/// With the pauses below a collector may be away for seven seconds without a loss.
const ATTEMPTS_MAX: u32 = 4;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
