//! How a command reaches the master: the shared arguments, and the client that they make.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use clap::Args;
use mooring_proto::client::{Client, ClientConfig, ClientError, ClientTls};

use super::CommandError;
use super::table::printable;
use crate::telemetry::TracingArgs;
use crate::tls::dev::Published;
use crate::{config, output, tls};

/// Where the master is, and how it is trusted.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct MasterAddressArgs {
    /// The master's QUIC address; a name is resolved again at each reconnect
    #[arg(
        long,
        env = "MOORING_MASTER",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051",
        value_parser = config::host_and_port
    )]
    pub(crate) master: String,

    /// Certificates (PEM) that the master's chain must end in
    #[arg(long, env = "MOORING_TLS_CA", value_name = "FILE", conflicts_with_all = ["dev", "pin_sha256"])]
    pub(crate) tls_ca: Option<PathBuf>,

    /// This client's certificate chain (PEM), for a master that asks for one
    #[arg(long, env = "MOORING_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key (PEM) of --tls-cert
    #[arg(long, env = "MOORING_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Trust the certificate of a `mooring master --dev` on this machine, or with --pin-sha256 of
    /// another one
    #[arg(long, env = "MOORING_DEV")]
    pub(crate) dev: bool,

    /// Trust exactly the certificate with this SHA-256, which `mooring master --dev` prints
    #[arg(long, env = "MOORING_PIN_SHA256", value_name = "HEX", value_parser = parse_fingerprint)]
    pub(crate) pin_sha256: Option<Fingerprint>,
}

/// What every client command takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// Print JSON instead of text
    #[arg(long, env = "MOORING_JSON")]
    pub(crate) json: bool,

    /// Give up when the master has not answered for this long; milliseconds, or with a unit
    #[arg(long, env = "MOORING_TIMEOUT", value_name = "TIME", default_value = "30s")]
    #[arg(value_parser = config::milliseconds)]
    pub(crate) timeout: Duration,

    // Last, because the heading of these flags would stand above all that follow.
    #[command(flatten)]
    pub(crate) address: MasterAddressArgs,
}

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) [u8; 32]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&tls::hexadecimal(&self.0))
    }
}

impl MasterAddressArgs {
    /// How the client verifies the master and shows who it is.
    ///
    /// # Errors
    /// `Arguments` if nothing says whom to trust.
    pub(crate) fn client_tls(&self) -> Result<ClientTls, CommandError> {
        let trust = match (&self.tls_ca, self.pin_sha256) {
            (Some(path), _) => ClientTls::ca(path),
            (None, Some(pin)) => ClientTls::pinned(pin.0),
            (None, None) if self.dev => self.local_trust()?,
            (None, None) => return Err(CommandError::Arguments(NO_TRUST.to_owned())),
        };
        Ok(match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => trust.with_identity(cert, key),
            _ => trust,
        })
    }

    /// The configuration of a client of this master.
    ///
    /// # Errors
    /// As [`MasterAddressArgs::client_tls`].
    pub(crate) fn client_config(&self, name: &str) -> Result<ClientConfig, CommandError> {
        let mut config = ClientConfig::new(self.master.clone(), self.client_tls()?);
        config.name = name.to_owned();
        Ok(config)
    }

    /// Why there is no connection to the master, with what is likely if nobody answers there.
    pub(crate) fn not_connected(&self, error: &ClientError) -> CommandError {
        // The text may be that of a peer.
        let text = printable(&error.to_string());
        if !is_silence(error) {
            return CommandError::Failed(text);
        }
        let master = &self.master;
        CommandError::Failed(format!(
            "{text}; nobody answers QUIC on UDP {master}: --master must name the master's --rpc-port, \
             not a TCP port of it; a master without --tls-cert or --dev serves clients of Mooncake \
             only; or UDP is blocked on the way"
        ))
    }

    /// What a master with `--dev` has left for this client, if that is whom it trusts.
    pub(crate) fn left_by_master(&self) -> Option<Published> {
        let is_local = self.dev && self.pin_sha256.is_none();
        is_local.then(|| tls::dev::published(&self.master).ok()).flatten()
    }

    /// Each master with `--dev` makes a certificate of its own, so what it left is read again
    /// whenever the next one is met.
    fn local_trust(&self) -> Result<ClientTls, CommandError> {
        let master = self.master.clone();
        let pin = move || tls::dev::pinned_fingerprint(&master).map_err(|error| error.to_string());
        pin().map_err(|error| {
            let attempt = "--dev without --pin-sha256 needs the fingerprint that a master on this \
                           machine left";
            CommandError::failed(attempt, error)
        })?;
        Ok(ClientTls::pinned_by(pin))
    }
}

impl ClientArgs {
    /// Connects as a short-lived command.
    ///
    /// # Errors
    /// What the connection is refused with.
    pub(crate) async fn connect(&self) -> Result<Client, CommandError> {
        self.connect_as(self.config()?).await
    }

    /// Connects as a short-lived command that may be traced.
    ///
    /// # Errors
    /// As [`ClientArgs::connect`], and arguments that say nothing of use about traces.
    pub(crate) async fn connect_traced(
        &self,
        tracing: &TracingArgs,
    ) -> Result<Client, CommandError> {
        let mut config = self.config()?;
        tracing.apply(&mut config)?;
        self.connect_as(config).await
    }

    fn config(&self) -> Result<ClientConfig, CommandError> {
        let mut config = self.address.client_config("mooring command")?;
        // The flag is at most a year.
        config.request_timeout_ms = self.timeout.as_millis() as u64;
        // An object of any size that the pool takes can be got back.
        config.fetch_bytes_max = u64::MAX;
        Ok(config)
    }

    async fn connect_as(&self, config: ClientConfig) -> Result<Client, CommandError> {
        let connected = pin!(Client::connect(config));
        let outcome = told_after(TELL_AFTER, connected, || {
            let left = self.timeout.saturating_sub(TELL_AFTER);
            if !left.is_zero() {
                let master = &self.address.master;
                output::note(format_args!(
                    "nobody answers on UDP {master} yet; waiting for the master for {} s more, then \
                     giving up (--timeout)",
                    left.as_secs_f64().ceil()
                ));
            }
        });
        outcome.await.map_err(|error| self.address.not_connected(&error))
    }
}

/// Waits for something, and tells so if it takes long.
async fn told_after<T>(
    long: Duration,
    mut something: Pin<&mut impl Future<Output = T>>,
    tell: impl FnOnce(),
) -> T {
    if let Ok(outcome) = tokio::time::timeout(long, &mut something).await {
        return outcome;
    }
    tell();
    something.await
}

/// Whether not even a refusal came.
fn is_silence(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } => true,
        ClientError::Timeout { last, .. } => last.as_deref().is_none_or(is_silence),
        _ => false,
    }
}

fn parse_fingerprint(text: &str) -> Result<Fingerprint, String> {
    let parsed = tls::parse_fingerprint(text).map(Fingerprint);
    parsed.ok_or_else(|| "a SHA-256 has 64 hexadecimal digits".to_owned())
}

/// A master that is there answers in much less.
const TELL_AFTER: Duration = Duration::from_secs(1);

const NO_TRUST: &str = "nothing says how to trust the master: give --tls-ca FILE, --pin-sha256 HEX, \
                        or --dev for a master of this machine";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_is_told_once_it_is_long_and_goes_on() {
        let (tell, told) = tokio::sync::oneshot::channel();
        // It ends only when it was told.
        let something = pin!(async { told.await.unwrap() });
        let outcome = told_after(Duration::ZERO, something, || tell.send(7).unwrap()).await;
        assert_eq!(outcome, 7);
    }

    #[tokio::test]
    async fn what_is_there_at_once_is_not_told() {
        let outcome = told_after(Duration::MAX, pin!(async { 7 }), || panic!("it was told")).await;
        assert_eq!(outcome, 7);
    }
}
