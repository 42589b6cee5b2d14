//! `mooring bench floor`: answers what `mooring bench run` asks, and does nothing for it.
//!
//! What a master takes for a request is its own work, and what the transport, its encryption and the
//! system take for the same bytes. This takes the second alone, so a master can be held against it.

mod answers;
mod serve;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::command::CommandError;
use crate::output;
use crate::tls::{ServerTls, dev, hexadecimal};

/// Answer what `bench run` asks for with invented places, to measure what the transport takes alone
#[derive(Args, Clone, Debug)]
pub(crate) struct FloorArgs {
    /// The address to listen at; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,

    /// A file that is written when it serves, with address and fingerprint as a master writes them
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Serves until it is interrupted or terminated, on one thread as a master on two cores does.
///
/// # Errors
/// A port or a ready file that cannot be had.
pub(super) fn run(args: &FloorArgs) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("cannot start the runtime", error))?;
    tokio::task::LocalSet::new().block_on(&runtime, listen(args))
}

async fn listen(args: &FloorArgs) -> Result<ExitCode, CommandError> {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| CommandError::failed("cannot listen to signals", error))?;
    let names = ["localhost".to_owned(), args.listen.ip().to_string()];
    let tls = ServerTls::self_signed(&names)
        .map_err(|error| CommandError::failed("cannot make a certificate", error))?;
    let endpoint = serve::open(args.listen, &tls).map_err(|error| {
        CommandError::unbound(format!("cannot listen at {}", args.listen), "--listen", &error)
    })?;
    let bound = endpoint
        .local_addr()
        .map_err(|error| CommandError::failed("the port has no address", error))?;
    let fingerprint = hexadecimal(&tls.fingerprint());
    let published = dev::publish(bound.port(), &tls.fingerprint())
        .map_err(|error| CommandError::failed("cannot leave the fingerprint", error))?;
    output::note(format_args!(
        "answering at {bound}; load it by `mooring bench run --dev --master {bound}`"
    ));
    if let Some(path) = &args.ready_file {
        let attempt = || format!("cannot write --ready-file {}", path.display());
        let ready = json!({ "rpc": [bound.to_string()], "cert_sha256": fingerprint });
        fs::write(path, ready.to_string())
            .map_err(|error| CommandError::failed(attempt(), error))?;
    }
    tokio::select! {
        () = serve::accept(endpoint) => {}
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    published.withdraw();
    Ok(ExitCode::SUCCESS)
}
