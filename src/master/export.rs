//! Handing the index over: from actors at rest to a snapshot with its name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooring_actors::ShardId;
use mooring_actors::core::Core;
use mooring_actors::handoff::{ExportError, PoolRecord};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::options::HandoffOptions;
use super::standby::Standby;
use super::start::now_wall_ms;
use crate::handoff::{
    Admission, Deadline, DirectoryError, Export, ExportFailure, ExportOptions, HandoffDirectory,
    Manifest, Published, Reason, ShutdownNote, ShutdownResult, Times, available_after_exit_bytes,
};

/// What a master hands over with.
pub(super) struct Handover {
    pub(super) directory: HandoffDirectory,
    pub(super) options: HandoffOptions,
    /// Of the route.
    pub(super) seed: u64,
    /// For what the disk may hold up.
    pub(super) standby: Standby,
}

/// A snapshot without its name.
pub(super) struct Written {
    export: Export,
    manifest: Manifest,
}

impl Handover {
    /// Leaves word that the master leaves, so that an end from here on is known as an interrupted
    /// handoff. If that fails, the export says it again, and fails.
    pub(super) async fn begin_leaving(self: &Arc<Handover>) {
        let handover = self.clone();
        let begin = move || match handover.directory.begin_leaving(now_wall_ms()) {
            // The export tells it.
            Ok(()) | Err(DirectoryError::Gone(_)) => Ok(()),
            Err(error) => Err(ExportFailure::new(Reason::WriteFailed, error.to_string())),
        };
        if let Err(failure) = self.beside(begin).await {
            tracing::warn!(%failure, "cannot say that the master leaves");
        }
    }

    /// Writes everything but the name. The actors must be at rest.
    ///
    /// # Errors
    /// Why there is no snapshot.
    pub(super) async fn write(
        self: &Arc<Handover>,
        core: &Core,
        deadline: Instant,
    ) -> Result<Written, ExportFailure> {
        let (handover, shards) = (self.clone(), core.route().shards());
        let created_wall_ms = now_wall_ms();
        let margin_percent = self.options.margin_percent;
        let admission = move |available_bytes| Admission { available_bytes, margin_percent };
        let begin = move || {
            handover.directory.begin_export(ExportOptions {
                shards: u32::from(shards),
                deadline: Deadline::at(deadline),
                // A snapshot lives for two minutes and is checked when it is read: a machine that
                // fails in between costs a miss, and syncing would cost each restart seconds.
                durable: false,
                admission: available_after_exit_bytes().map(admission),
                now_wall_ms: created_wall_ms,
            })
        };
        let export = self.beside(begin).await?;
        let (pool, clients) = core.export_tables().await.map_err(|_| ExportError::Gone)?;
        let export = self.write_shards(core, export, &pool).await?;
        let manifest = Manifest {
            created_wall_ms,
            incarnation: core.incarnation(),
            route_seed: self.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            times: Times::from(core.settings()),
            pool,
            clients,
            shards: Vec::new(),
        };
        Ok(Written { export, manifest })
    }

    async fn write_shards(
        &self,
        core: &Core,
        export: Export,
        pool: &PoolRecord,
    ) -> Result<Export, ExportFailure> {
        let places = Arc::new(Semaphore::new(usize::from(self.options.export_workers)));
        let (export, pool) = (Arc::new(export), Arc::new(pool.clone()));
        let mut writing = JoinSet::new();
        for number in 0..core.route().shards() {
            let (core, pool) = (core.clone(), pool.clone());
            let (export, places) = (export.clone(), places.clone());
            writing.spawn(async move {
                // The semaphore is never closed.
                let _place = places.acquire().await;
                let sink = Box::new(export.shard_writer(u32::from(number))?);
                core.export_shard(ShardId(number), &pool, sink).await
            });
        }
        let mut outcome = Ok(());
        while let Some(written) = writing.join_next().await {
            outcome = written.unwrap_or(Err(ExportError::Gone)).map(|_| ());
            if outcome.is_err() {
                writing.shutdown().await;
            }
        }
        // Nobody else has it by now.
        let export = Arc::into_inner(export).ok_or(ExportError::Gone)?;
        match outcome {
            Ok(()) => Ok(export),
            // The next start has more time to delete what there is.
            Err(error @ ExportError::Deadline) => Err(error.into()),
            Err(error) => {
                // A full disk must have room for the note about it.
                let abandon = move || {
                    export.abandon();
                    Ok(())
                };
                self.beside(abandon).await?;
                Err(error.into())
            }
        }
    }

    /// Gives the snapshot its name. When this returns, the next start can restore it.
    ///
    /// # Errors
    /// Why there is no snapshot.
    pub(super) async fn publish(&self, written: Written) -> Result<Published, ExportFailure> {
        self.beside(move || written.export.publish(written.manifest)).await
    }

    /// Leaves word of how this master has left.
    pub(super) async fn record(self: &Arc<Handover>, note: ShutdownNote) {
        let handover = self.clone();
        let record = move || handover.directory.record_shutdown(&note);
        match self.standby.beside(record).await {
            // That there is no directory was told when there was no snapshot.
            Ok(Ok(()) | Err(DirectoryError::Gone(_))) => {}
            Ok(Err(error)) => {
                tracing::error!(handoff_write = "record_failed", %error, "cannot say how it left");
            }
            Err(error) => {
                tracing::error!(handoff_write = "record_failed", %error, "cannot say how it left");
            }
        }
    }

    /// Leaves word that the time to leave was over before anything else was said. It blocks.
    pub(super) fn record_overdue(&self) {
        if let Err(error) = self.directory.record_overdue(now_wall_ms()) {
            tracing::warn!(%error, "cannot say that the time to leave is over");
        }
    }

    /// The word to leave.
    pub(super) fn note(
        &self,
        core: &Core,
        outcome: &Result<Published, ExportFailure>,
        duration: Duration,
    ) -> ShutdownNote {
        let (result, detail, published) = match outcome {
            Ok(published) => (ShutdownResult::Ok, String::new(), *published),
            Err(failure) => {
                let cause = &failure.cause;
                let nothing = Published { bytes: 0, objects: 0 };
                (ShutdownResult::Failed(cause.reason), cause.detail.clone(), nothing)
            }
        };
        ShutdownNote {
            incarnation: core.incarnation(),
            result,
            detail,
            ended_wall_ms: now_wall_ms(),
            bytes: published.bytes,
            objects: published.objects,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            workers: u32::from(self.options.export_workers),
        }
    }

    /// Runs what the disk may hold up on another thread.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ExportFailure> + Send + 'static,
    ) -> Result<T, ExportFailure> {
        self.standby.beside(work).await.unwrap_or_else(|error| {
            Err(ExportFailure::new(Reason::WriteFailed, format!("the export panicked: {error}")))
        })
    }
}
