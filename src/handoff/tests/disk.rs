//! Rolls on a disk that fails: it refuses a step, refuses all of them from one on, as when it is full,
//! or the machine loses its power, and with it what was not synced. Everything from a seed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use mooring_proto::Incarnation;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::protocol::copy_tree;
use super::sample::{CREATED_MS, export, left, options, ranges, read_snapshot};
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::directory::{ClaimError, HandoffDirectory, StartNote};
use crate::handoff::durable::probe;
use crate::handoff::export::ExportOptions;
use crate::handoff::notes::ShutdownResult;
use crate::handoff::retreat::GivenBack;
use crate::handoff::snapshot::Snapshot;
use crate::handoff::{CLAIMED_NAME, READY_NAME};

/// What happens to the disk during the life of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Nothing,
    /// One step fails.
    Hiccup(ErrorKind),
    /// One step fails, soon after a snapshot was claimed, also if the claim is void by then.
    ClaimedHiccup(ErrorKind),
    /// All steps fail from one on. It is the same for the disk if the process is killed there.
    Failure(ErrorKind),
    /// The same, and what was not synced by then may be lost.
    PowerLoss,
    /// The same, soon after a snapshot was claimed.
    ClaimedPowerLoss,
}

impl Mishap {
    fn waits_for_a_claim(self) -> bool {
        matches!(self, Mishap::ClaimedHiccup(_) | Mishap::ClaimedPowerLoss)
    }

    fn takes_power(self) -> bool {
        matches!(self, Mishap::PowerLoss | Mishap::ClaimedPowerLoss)
    }
}

/// How the masters of a seed fared.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    served: u32,
    restored: u32,
    /// Snapshots that were claimed and found to be damaged.
    damaged: u32,
    /// Starts that did not serve.
    failed: u32,
    /// Snapshots that such a start had claimed and given back, and that the next one restored.
    given_back: u32,
    /// Starts that served although a step failed when their claim had no name any more.
    served_on: u32,
}

/// One directory and the masters that use it, one after the other.
struct Place {
    path: PathBuf,
    /// The directory as it was when it was last synced.
    synced: PathBuf,
    dice: SmallRng,
    /// The last master that has served, and those whose snapshot was restored.
    served_last: Option<Incarnation>,
    restored: BTreeSet<u64>,
    /// Whether the last start has given a snapshot back.
    has_given_back: bool,
    /// Whether a step has failed when the claim of a start had no name any more.
    fails_behind_claim: Rc<Cell<bool>>,
    /// A fault on purpose: what is restored is claimed only when it is served already.
    claims_late: bool,
    tally: Tally,
}

impl Place {
    fn new(scratch: &Path, seed: u64) -> Place {
        Place {
            path: scratch.join("handoff"),
            synced: scratch.join("synced"),
            dice: SmallRng::seed_from_u64(seed),
            served_last: None,
            restored: BTreeSet::new(),
            has_given_back: false,
            fails_behind_claim: Rc::default(),
            claims_late: false,
            tally: Tally::default(),
        }
    }

    /// A master with a disk that has its mishap at some step.
    fn live(&mut self, incarnation: Incarnation) {
        let kind =
            if self.dice.random_bool(0.5) { ErrorKind::StorageFull } else { ErrorKind::Other };
        let mishap = match self.dice.random_range(0..13) {
            0..3 => Mishap::Nothing,
            3..5 => Mishap::Hiccup(kind),
            5..7 => Mishap::ClaimedHiccup(kind),
            7..9 => Mishap::Failure(kind),
            9..11 => Mishap::PowerLoss,
            _ => Mishap::ClaimedPowerLoss,
        };
        self.keep_synced();
        self.break_disk(mishap);
        self.run(incarnation);
        probe::fail_with(None);
        probe::look_with(None);
        if mishap.takes_power() {
            self.lose_power();
        }
    }

    fn break_disk(&mut self, mishap: Mishap) {
        let fails_at = match mishap.waits_for_a_claim() {
            true => self.dice.random_range(0..10),
            false => self.dice.random_range(0..60),
        };
        let (path, fails_behind) = (self.path.clone(), self.fails_behind_claim.clone());
        fails_behind.set(false);
        let (mut attempts, mut was_claimed) = (0, false);
        probe::fail_with(Some(Box::new(move || {
            let is_claimed = path.join(CLAIMED_NAME).exists();
            was_claimed |= is_claimed;
            if mishap.waits_for_a_claim() && !was_claimed {
                return Ok(());
            }
            let at = attempts;
            attempts += 1;
            let outcome = match mishap {
                Mishap::Hiccup(kind) | Mishap::ClaimedHiccup(kind) if at == fails_at => {
                    Err(kind.into())
                }
                Mishap::Failure(kind) if at >= fails_at => Err(kind.into()),
                _ if mishap.takes_power() && at >= fails_at => Err(io::Error::other("no power")),
                _ => Ok(()),
            };
            if outcome.is_err() && was_claimed && !is_claimed && path.join("serving").exists() {
                fails_behind.set(true);
            }
            outcome
        })));
        if mishap.takes_power() {
            let (path, synced) = (self.path.clone(), self.synced.clone());
            probe::look_with(Some(Box::new(move |step| {
                if step == "sync a directory" {
                    keep(&path, &synced);
                }
            })));
        }
    }

    /// A start, and what follows from it. A master that does not serve says nothing; of those that fail
    /// half are killed, and the others give back what they have claimed.
    fn run(&mut self, incarnation: Incarnation) {
        self.tally.failed += 1;
        let was_given_back = std::mem::take(&mut self.has_given_back);
        let Ok(mut directory) = HandoffDirectory::open(&self.path, Duration::ZERO) else { return };
        let Ok(found) = directory.look() else { return };
        let mut restored_of = None;
        if decide(&found, FailurePolicy::ServeEmpty, &LIMITS, CREATED_MS) == Decision::Restore {
            let claimed = match self.claims_late {
                false => directory.claim(),
                true => Snapshot::open(&self.path.join(READY_NAME)).map_err(ClaimError::Read),
            };
            match claimed {
                Ok(snapshot) => match read_snapshot(&snapshot) {
                    Ok(content) => {
                        assert_eq!(
                            content,
                            [ranges(0), ranges(1)],
                            "what is read is what was left"
                        );
                        restored_of = Some(snapshot.manifest().incarnation);
                    }
                    Err(_) => self.tally.damaged += 1,
                },
                Err(ClaimError::Read(_)) => self.tally.damaged += 1,
                Err(ClaimError::Directory(_)) => return self.retreat(&directory),
            }
        }
        let outcome = "none".to_owned();
        let note = StartNote { incarnation, now_wall_ms: CREATED_MS, outcome };
        if self.claims_late {
            self.serve(incarnation, restored_of);
        }
        let Ok(leftovers) = directory.begin_serving(note) else { return self.retreat(&directory) };
        self.tally.served_on += u32::from(self.fails_behind_claim.get());
        leftovers.delete();
        self.tally.given_back += u32::from(was_given_back && restored_of.is_some());
        if !self.claims_late {
            self.serve(incarnation, restored_of);
        }

        if self.dice.random_bool(0.2) {
            // It is killed.
            return;
        }
        let durable = self.dice.random_bool(0.5);
        let result = match export(&directory, ExportOptions { durable, ..options() }) {
            Ok(_) => ShutdownResult::Ok,
            Err(failure) => ShutdownResult::Failed(failure.cause.reason),
        };
        // What cannot be said is not said.
        let _ = directory.record_shutdown(&left(incarnation, result));
    }

    fn retreat(&mut self, directory: &HandoffDirectory) {
        if self.dice.random_bool(0.5) {
            let outcome = directory.retreat().give_back();
            self.has_given_back = matches!(outcome, Ok(GivenBack::Snapshot));
        }
    }

    fn serve(&mut self, incarnation: Incarnation, restored_of: Option<Incarnation>) {
        self.tally.failed = self.tally.failed.saturating_sub(1);
        self.tally.served += 1;
        if let Some(writer) = restored_of {
            self.tally.restored += 1;
            assert_eq!(self.served_last, Some(writer), "nobody has served since");
            assert!(self.restored.insert(writer.0), "{writer:?} is restored twice");
        }
        self.served_last = Some(incarnation);
    }

    fn keep_synced(&self) {
        keep(&self.path, &self.synced);
    }

    /// The names may be those of the last sync, and of files that nobody has synced any part may be
    /// missing or empty.
    fn lose_power(&mut self) {
        if self.dice.random_bool(0.5) && self.synced.exists() {
            keep(&self.synced, &self.path);
        }
        for name in [READY_NAME, CLAIMED_NAME] {
            let Ok(entries) = fs::read_dir(self.path.join(name)) else { continue };
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
            files.sort();
            // The manifest is always synced; of the others it is not known here.
            for file in files.iter().filter(|file| !file.ends_with("manifest")) {
                self.tear(file);
            }
        }
    }

    fn tear(&mut self, path: &Path) {
        let length = fs::metadata(path).unwrap().len();
        let file = || OpenOptions::new().write(true).open(path).unwrap();
        match self.dice.random_range(0..4) {
            0 => file().set_len(self.dice.random_range(0..=length)).unwrap(),
            1 => {
                let from = self.dice.random_range(0..length);
                blank(&file(), from, self.dice.random_range(0..=length - from));
            }
            _ => {}
        }
    }
}

/// A copy of a directory instead of what there is.
fn keep(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    if from.exists() {
        copy_tree(from, to);
    }
}

/// Bytes that were never written read as zeros.
fn blank(file: &File, from: u64, length: u64) {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&vec![0; length as usize], from).unwrap();
}

const LIMITS: Limits = Limits { max_age_ms: 120_000, memory: None };

/// In the memory of the system if it has such a place: nothing here has to outlive the test.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn whatever_the_disk_does_a_snapshot_is_restored_once_and_only_if_nobody_has_served_since() {
    let mut sum = Tally::default();
    let seeds = std::env::var("MOORING_DISK_SEEDS").map_or(Ok(100), |count| count.parse());
    for seed in 0..seeds.unwrap() {
        println!("seed {seed}");
        let scratch = scratch();
        let mut place = Place::new(scratch.path(), seed);
        (1..=8).for_each(|number| place.live(Incarnation(number)));
        let Tally { served, restored, damaged, failed, given_back, served_on } = place.tally;
        sum.served += served;
        sum.restored += restored;
        sum.damaged += damaged;
        sum.failed += failed;
        sum.given_back += given_back;
        sum.served_on += served_on;
    }
    println!("{sum:?}");
    assert!(sum.restored > sum.served / 10 && sum.damaged > 0 && sum.failed > 0, "{sum:?}");
    assert!(sum.given_back > 5 && sum.served_on > 5, "{sum:?}");
}

#[test]
fn a_snapshot_that_is_claimed_only_when_it_is_served_is_noticed() {
    let noticed = (0..200).find(|seed| {
        let scratch = scratch();
        let outcome = std::panic::catch_unwind(|| {
            let mut place = Place { claims_late: true, ..Place::new(scratch.path(), *seed) };
            (1..=8).for_each(|number| place.live(Incarnation(number)));
        });
        probe::fail_with(None);
        probe::look_with(None);
        outcome.is_err()
    });
    println!("noticed in seed {noticed:?}");
    assert!(noticed.is_some());
}
