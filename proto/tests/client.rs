//! The client against a server that answers as each test tells it to.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

#[path = "client/cluster.rs"]
mod cluster;
#[path = "client/connection.rs"]
mod connection;
#[path = "client/fake.rs"]
mod fake;
#[path = "client/mounts.rs"]
mod mounts;
#[path = "client/objects.rs"]
mod objects;
#[path = "client/trust.rs"]
mod trust;

use std::time::Duration;

/// The output of a future that must come soon; a hang is a failure with a name.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), future).await.expect("it takes too long")
}
