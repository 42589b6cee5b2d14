//! The handoff: what a master leaves on its way out, so that the next one keeps the index.
//!
//! A missing entry of the index is a miss; a wrong one is silent corruption. So whatever goes wrong
//! with a handoff, the next master begins empty or does not serve, and says why.
//!
//! # The directory
//!
//! | name | what | written by |
//! | --- | --- | --- |
//! | `lock` | locked by `flock` for as long as a master lives | the first start |
//! | `serving` | a master serves, or did until it was killed; with what the master before it said | a start, before it serves |
//! | `WRITING-…` | a snapshot or note that is not finished; nobody reads it | an export |
//! | `READY/` | a snapshot that waits for a start; gets its name by one rename when it is whole | an export |
//! | `last_shutdown` | how the last master left: first that it was interrupted, in the end what came out | an export |
//! | `CLAIMED/` | a snapshot that a start has taken for itself, by one rename | a start |
//! | `POISON` | another master has used the directory while its writer held it | whoever found that |
//! | `refused` | a start has refused; so does every one until an operator clears it | a start |
//! | `VOID-…` | what is to be deleted; nobody reads it | a start, `clear` |
//!
//! Every rename and every note is durable before the next step ([`durable`]). The snapshot itself is
//! a manifest and a file for each shard, in [`mod@format`].
//!
//! # What a start does
//!
//! [`decide()`] is the whole rule, in the order in which it looks:
//!
//! 1. `refused` is there: refuse, whatever the policy is by now, until it was cleared.
//! 2. `POISON`: reason `poisoned`.
//! 3. `CLAIMED` of a start that ended before it served: `aborted_previous`.
//! 4. `READY`, unless it is: not readable (`unreadable`), damaged (`corrupt`), of a format or with
//!    something that is not understood (`version`), not of the master that used the directory last
//!    (`poisoned`), more than a second from the future (`clock`), older than allowed (`stale`), too
//!    large for the memory (`memory`): restore. What only the reading of its files can find comes
//!    after the claim: `corrupt`, `unreadable`, `version`, `deadline`.
//! 5. No `READY`, and the master that used the directory last has left: its reason (`deadline`,
//!    `write_failed`, `skipped_…`, `interrupted`), or `missing` if it says that it left one.
//! 6. No `READY`, and it did not leave: `killed`. It crashed, or was killed before it began to
//!    leave.
//! 7. Nothing: `none`.
//!
//! In the cases 2 to 5 a handoff was **expected and cannot be used**; 6 and 7 are ordinary starts
//! ([`Reason::was_expected`](reason::Reason::was_expected)). An ordinary start serves empty. The
//! other one follows the [`FailurePolicy`]: `serve_empty` voids what cannot be used before it
//! serves, so that no later start restores it, and keeps the reason; `refuse` records the refusal
//! and does not serve.
//!
//! Settings of the two masters may differ, and so may the number of shards: times are handed over
//! as what is left of them, and ranges by where they lie.
//!
//! # How a master uses it
//!
//! ```text
//! start:  HandoffDirectory::open(path, wait)      nothing is served on any error of these steps
//!         decide(&directory.look()?, policy, &limits, now)
//!           Refuse      directory.refuse(&cause, now)   stay without serving; was_cleared() tells when
//!           Restore     directory.make_room()           before the claim: from now on a full disk does no harm
//!                       directory.claim()               then Snapshot::shard(i) or ::merged(), to their ends
//!                       what fails from here on: policy.without_snapshot(cause) decides again
//!           ServeEmpty  nothing more
//!         directory.begin_serving(note)           the listeners open after it; leftovers.delete() beside
//! drain:  directory.begin_leaving(now)            first of all; an end from here on is an interrupted handoff
//!         directory.begin_export(options)         once nothing changes any more
//!         export.shard_writer(i)                  the sink for each shard
//!         export.publish(manifest)                the commit; nothing may be served after it
//!         directory.record_shutdown(&note)        also after a failure, with its reason
//! ```
//!
//! Ports are best bound before the claim: a start that ends between the claim and `begin_serving`
//! has used the snapshot up, unless it gives it back: `Retreat::give_back`, of `directory.retreat()`,
//! is what a start does that is told to leave before it serves, or for which `claim` or
//! `begin_serving` fails.
//! The lock lasts until the process ends, so the next master does not look before this one has
//! recorded its shutdown.

mod ahead;
mod bytes;
mod checksum;
mod chunks;
mod clear;
mod deadline;
mod decide;
mod directory;
mod durable;
mod error;
mod export;
mod format;
mod found;
mod inspect;
mod lock;
mod manifest;
mod memory;
mod merge;
mod notes;
mod obstacle;
mod reader;
mod reason;
mod record;
mod retreat;
mod room;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use ahead::read_ahead;
pub(crate) use clear::{clear, clear_refusal};
pub(crate) use deadline::Deadline;
pub(crate) use decide::{Decision, FailurePolicy, Limits, decide};
pub(crate) use directory::{
    ClaimError, DirectoryError, HandoffDirectory, Leftovers, OpenError, Refusal, StartNote,
};
#[cfg(test)]
pub(crate) use durable::probe;
pub(crate) use error::ReadError;
pub(crate) use export::{Export, ExportFailure, ExportOptions, Published};
pub(crate) use found::Found;
pub(crate) use inspect::{Inspection, inspect};
pub(crate) use lock::holder;
pub(crate) use manifest::{Manifest, Times};
pub(crate) use memory::{Admission, available_after_exit_bytes, available_bytes, estimate_bytes};
pub(crate) use notes::{Note, ShutdownNote, ShutdownResult};
pub(crate) use reason::{Cause, Reason};
pub(crate) use retreat::{GivenBack, Retreat};
pub(crate) use snapshot::Snapshot;
#[cfg(test)]
pub(crate) use tests::sample::handed_over;
#[cfg(test)]
pub(crate) use tests::sound::claimed as claimed_and_sound;

const READY_NAME: &str = "READY";
const CLAIMED_NAME: &str = "CLAIMED";
