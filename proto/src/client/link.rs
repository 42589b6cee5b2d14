//! The connection to the master: opened, greeted, watched, and opened again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::config::ClientConfig;
use super::dial::{Dialed, Dialer};
use super::error::{ClientError, Failure, RetryHint};
use super::exchange::{Priority, exchange};
use super::retry::{Backoff, Deadline};
use super::transport;
use crate::close;
use crate::error::ErrorCode;
use crate::message::session::{ALPN_MASTER, HelloReply, HelloRequest, VERSION, VERSION_MIN};

/// A connection whose hello was granted.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) dialed: Dialed,
    pub(super) hello: HelloReply,
}

impl Session {
    pub(super) fn is_open(&self) -> bool {
        self.dialed.connection.close_reason().is_none()
    }
}

/// The way to the master, over any number of connections one after the other.
#[derive(Debug)]
pub(super) struct Link {
    dialer: Dialer,
    hello: HelloRequest,
    state: watch::Sender<State>,
    /// Asks for a ping now.
    pub(super) ping_now: Notify,
}

#[derive(Clone, Debug)]
enum State {
    Down { last: Option<ClientError> },
    Up(Arc<Session>),
    Ended(ClientError),
}

impl Link {
    pub(super) fn new(config: &ClientConfig) -> Link {
        let dialer = Dialer::new(config.master.clone(), config.tls.clone(), ALPN_MASTER, config);
        let hello = HelloRequest {
            client: config.client,
            name: config.name.clone(),
            version_min: VERSION_MIN,
            version_max: VERSION,
            features: 0,
        };
        let state = watch::Sender::new(State::Down { last: None });
        Link { dialer, hello, state, ping_now: Notify::new() }
    }

    /// The current session, or the next one.
    ///
    /// # Errors
    /// `Timeout` with the last failure to connect, or why no session will ever come.
    pub(super) async fn session(&self, deadline: Deadline) -> Result<Arc<Session>, ClientError> {
        match deadline.bound(WAIT_SESSION, self.next_session()).await {
            Ok(outcome) => outcome,
            Err(error) => match &*self.state.borrow() {
                State::Down { last: Some(last) } => Err(ClientError::Timeout {
                    what: WAIT_SESSION,
                    last: Some(Box::new(last.clone())),
                }),
                _ => Err(error),
            },
        }
    }

    /// The current session, or the next one whenever it comes.
    pub(super) async fn next_session(&self) -> Result<Arc<Session>, ClientError> {
        let mut states = self.state.subscribe();
        let usable = |state: &State| match state {
            State::Down { .. } => false,
            State::Up(session) => session.is_open(),
            State::Ended(_) => true,
        };
        // The sender lives as long as the link.
        match states.wait_for(usable).await.map(|state| state.clone()) {
            Ok(State::Up(session)) => Ok(session),
            Ok(State::Ended(error)) => Err(error),
            Ok(State::Down { .. }) | Err(_) => Err(ClientError::Ended),
        }
    }

    /// Waits until no session will ever come again, and says why.
    pub(super) async fn ended(&self) -> ClientError {
        let mut states = self.state.subscribe();
        match states.wait_for(|state| matches!(state, State::Ended(_))).await.as_deref() {
            Ok(State::Ended(error)) => error.clone(),
            _ => ClientError::Ended,
        }
    }

    /// Keeps a connection open until the link ends.
    pub(super) async fn supervise(&self) {
        let mut backoff = Backoff::default();
        let mut client_ttl_ms = None;
        let mut attempts = 0_u32;
        let mut outage = Outage::default();
        loop {
            let returning = client_ttl_ms.is_some() && attempts < RETURN_ATTEMPTS;
            let quick = returning && (attempts < QUICK_ATTEMPTS || attempts.is_multiple_of(2));
            attempts = attempts.saturating_add(1);
            let error = match self.open(client_ttl_ms, quick).await {
                Ok(session) => {
                    attempts = 0;
                    client_ttl_ms = Some(session.hello.client_ttl_ms);
                    let opened = Instant::now();
                    outage.end();
                    let error = self.hold(session).await;
                    outage.begin(&error);
                    if opened.elapsed() >= STABLE_AFTER {
                        backoff.reset();
                    }
                    error
                }
                Err(error) => error,
            };
            // Later a certificate may be renewed; at first a wrong one is a wrong configuration.
            let misconfigured = client_ttl_ms.is_none() && matches!(error, ClientError::Tls(_));
            if error.is_permanent() || misconfigured {
                tracing::warn!(%error, "the master refused this client");
                self.end(error);
                return;
            }
            outage.goes_on(&error);
            let hint = error.retry().unwrap_or(RetryHint { after_ms: None });
            let mut pause = backoff.pause(hint);
            if returning && is_away(&error) {
                pause = pause.min(RETURN_PAUSE_MAX);
            }
            self.publish(State::Down { last: Some(error) });
            tokio::time::sleep(pause).await;
        }
    }

    /// Ends the link: what waits is answered, and what is asked later too.
    pub(super) async fn close(&self) {
        let last = self.state.borrow().clone();
        self.end(ClientError::Ended);
        if let State::Up(session) = last {
            session.dialed.connection.close(close::NORMAL.into(), b"the client is done");
            // The close frame needs a moment to leave; a peer that misses it finds out by itself.
            let idle = session.dialed.endpoint.wait_idle();
            let _ = tokio::time::timeout(CLOSE_WITHIN, idle).await;
        }
    }

    async fn open(
        &self,
        client_ttl_ms: Option<u64>,
        quick: bool,
    ) -> Result<Arc<Session>, ClientError> {
        let hello = self.hello.clone();
        let greet = move |dialed: Dialed| {
            let hello = hello.clone();
            async move { greet(dialed, &hello).await }
        };
        let idle_timeout = transport::idle_timeout(client_ttl_ms);
        match quick {
            true => self.dialer.dial_again(idle_timeout, greet).await,
            false => self.dialer.dial(idle_timeout, greet).await,
        }
    }

    /// Offers the session until its connection ends, and says why it did.
    async fn hold(&self, session: Arc<Session>) -> ClientError {
        let connection = session.dialed.connection.clone();
        tracing::debug!(
            address = %connection.remote_address(),
            incarnation = %session.hello.incarnation,
            server = session.hello.server,
            "connected to the master"
        );
        self.publish(State::Up(session));
        connection.closed().await.into()
    }

    fn publish(&self, next: State) {
        self.state.send_if_modified(|state| {
            let ended = matches!(state, State::Ended(_));
            if !ended {
                *state = next;
            }
            !ended
        });
    }

    fn end(&self, error: ClientError) {
        self.publish(State::Ended(error));
    }
}

/// Tells of a time without a master as often as people need to hear of it: once when it is lost,
/// once of a certificate, and once when there is a master again.
#[derive(Debug, Default)]
struct Outage {
    /// Since when there is none; `None` before the first session too.
    since: Option<Instant>,
    told_lost: bool,
    told_refused: bool,
}

impl Outage {
    fn begin(&mut self, error: &ClientError) {
        self.since = Some(Instant::now());
        if is_restart(error) {
            // Planned, and over in a moment unless something goes wrong.
            tracing::info!(%error, "the master restarts");
        } else {
            self.tell_lost(error);
        }
    }

    fn goes_on(&mut self, error: &ClientError) {
        if matches!(error, ClientError::Tls(_)) && !self.told_refused {
            self.told_refused = true;
            tracing::warn!(%error, "certificate refused on the way to the master");
        }
        if self.since.is_some_and(|since| since.elapsed() >= RESTART_TAKES_MAX) {
            self.tell_lost(error);
        }
        tracing::debug!(%error, "no connection to the master");
    }

    fn end(&mut self) {
        if self.since.is_some() {
            tracing::info!("connected to the master again");
        }
        *self = Outage::default();
    }

    fn tell_lost(&mut self, error: &ClientError) {
        if !self.told_lost {
            self.told_lost = true;
            tracing::warn!(%error, "lost the master");
        }
    }
}

fn is_restart(error: &ClientError) -> bool {
    matches!(error, ClientError::Closed { code: Some(code), .. } if *code == close::RESTARTING.into())
}

/// Whether a master that was there before is gone for now, instead of there and unwilling.
fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } => true,
        ClientError::Closed { code, .. } => {
            code.is_none_or(|code| code == close::RESTARTING.into())
        }
        ClientError::Refused(error) => error.code == ErrorCode::Restarting,
        _ => false,
    }
}

async fn greet(dialed: Dialed, hello: &HelloRequest) -> Result<Arc<Session>, ClientError> {
    // The whole attempt is bounded from outside.
    let deadline = Deadline::after_ms(HELLO_MS);
    match exchange(&dialed.connection, hello, deadline, Priority::Control, None).await {
        Ok(hello) => Ok(Arc::new(Session { dialed, hello })),
        Err(Failure { error, .. }) => Err(error),
    }
}

const WAIT_SESSION: &str = "the connection to the master";

/// As long as a master waits for a hello.
const HELLO_MS: u64 = crate::limits::HELLO_TIMEOUT_MS;

/// A connection that is closed sooner was not of use, so the pauses keep growing.
const STABLE_AFTER: Duration = Duration::from_secs(2);

/// A planned restart that takes longer is told of as a loss.
const RESTART_TAKES_MAX: Duration = Duration::from_secs(10);

/// A few round trips.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

/// A master that restarts is asked often: a client should be back within a second after the next one
/// serves.
const RETURN_PAUSE_MAX: Duration = Duration::from_millis(300);

/// About a minute; a master that is away for longer is not coming back at any moment.
const RETURN_ATTEMPTS: u32 = 80;

/// Then every second attempt gets all of its time: a master that all clients come back to at once
/// may need it for a handshake.
const QUICK_ATTEMPTS: u32 = 8;
