//! Restarts of the master while the replay goes on.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::admin_page::{self, MasterFigures};
use super::cluster::Cluster;
use crate::command::CommandError;

/// When the master is restarted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollPlan {
    /// From one restart to the next.
    pub(crate) every: Duration,
    /// After how many it is enough; `None` goes on as long as the replay.
    pub(crate) restarts: Option<u64>,
}

/// How far the restarts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// Restarts after which the next master serves.
    pub(crate) restarts: u64,
    /// The master serves and waits for no segment any more.
    settled: bool,
    /// As many as were asked for, and the last master has served for as long as the others.
    pub(crate) done: bool,
}

/// What the traffic sees of the restarts.
#[derive(Clone, Debug)]
pub(crate) struct Roll(watch::Receiver<Phase>);

impl Roll {
    /// One without restarts.
    pub(crate) fn none() -> Roll {
        let (_, phase) = watch::channel(Phase { restarts: 0, settled: true, done: true });
        Roll(phase)
    }

    /// How far they are now.
    pub(crate) fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Whether a restart touched what was begun at this phase. If so, returns only after it is
    /// over, so that the same may be tried again.
    pub(crate) async fn disturbed(&mut self, since: Phase) -> bool {
        let now = self.phase();
        if since.settled && now.settled && since.restarts == now.restarts {
            return false;
        }
        // Fails only when nothing is restarted any more.
        let _ = self.0.wait_for(|phase| phase.settled).await;
        true
    }
}

/// What the restarts came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rolled {
    pub(crate) restarts: u64,
    /// The sum over all masters but the last.
    pub(crate) former: MasterFigures,
    /// Of the last one.
    pub(crate) last: MasterFigures,
    /// The longest time from the signal to the moment that the next master served.
    pub(crate) gap_max: Duration,
    /// The longest time from then until all segments were confirmed or dropped.
    pub(crate) settled_max: Duration,
}

/// Restarts the master of a cluster.
#[derive(Debug)]
pub(crate) struct Roller {
    plan: RollPlan,
    phase: watch::Sender<Phase>,
    rolled: Rolled,
}

impl Roller {
    /// One that has not begun, and what the traffic sees of it.
    pub(crate) fn new(plan: RollPlan) -> (Roller, Roll) {
        // Without a number the replay alone says when it is enough.
        let done = plan.restarts.is_none_or(|restarts| restarts == 0);
        let (phase, seen) = watch::channel(Phase { restarts: 0, settled: true, done });
        (Roller { plan, phase, rolled: Rolled::default() }, Roll(seen))
    }

    /// Restarts at every interval until it is enough, or the traffic says that it has ended; then
    /// waits for that, and gives the sums.
    ///
    /// # Errors
    /// A master that does not end, does not start, or says no figures.
    pub(crate) async fn run(
        mut self,
        cluster: &mut Cluster,
        mut traffic_ended: watch::Receiver<bool>,
    ) -> Result<Rolled, CommandError> {
        let mut due = Instant::now() + self.plan.every;
        loop {
            tokio::select! {
                biased;
                // Fails only when the traffic is gone, which is its end as well.
                _ = traffic_ended.wait_for(|ended| *ended) => break,
                () = tokio::time::sleep_until(due), if !self.is_over() => {}
            }
            if self.plan.restarts.is_none_or(|restarts| self.rolled.restarts < restarts) {
                self.restart(cluster).await?;
            } else {
                self.phase.send_modify(|phase| phase.done = true);
            }
            // A restart that takes longer than the interval still leaves time to serve.
            due = (due + self.plan.every).max(Instant::now() + self.plan.every / 2);
        }
        self.rolled.last = admin_page::figures(cluster.metrics()).await?;
        Ok(self.rolled)
    }

    /// Whether there is nothing left to do at any interval.
    fn is_over(&self) -> bool {
        self.plan.restarts.is_some() && self.phase.borrow().done
    }

    async fn restart(&mut self, cluster: &mut Cluster) -> Result<(), CommandError> {
        let figures = admin_page::figures(cluster.metrics()).await?;
        self.rolled.former.add(&figures);
        self.phase.send_modify(|phase| phase.settled = false);
        let asked = Instant::now();
        cluster.restart_master().await?;
        let serving = Instant::now();
        self.rolled.restarts += 1;
        self.phase.send_modify(|phase| phase.restarts += 1);
        while admin_page::figures(cluster.metrics()).await?.segments_pending > 0 {
            tokio::time::sleep(POLL).await;
        }
        self.phase.send_modify(|phase| phase.settled = true);
        self.rolled.gap_max = self.rolled.gap_max.max(serving - asked);
        self.rolled.settled_max = self.rolled.settled_max.max(serving.elapsed());
        Ok(())
    }
}

/// How often to look whether the segments are there. A master drops in time what does not come
/// back, so this ends.
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_restarts_nothing_is_ever_disturbed() {
        let mut roll = Roll::none();
        let since = roll.phase();
        assert!(since.done && !roll.disturbed(since).await);
    }

    #[tokio::test]
    async fn what_a_restart_touched_waits_until_it_is_over() {
        let plan = RollPlan { every: Duration::from_secs(1), restarts: Some(1) };
        let (roller, mut roll) = Roller::new(plan);
        let before = roll.phase();
        assert!(!before.done && !roll.disturbed(before).await);

        roller.phase.send_modify(|phase| phase.settled = false);
        let during = roll.phase();
        let waiting = tokio::spawn({
            let mut roll = roll.clone();
            async move { roll.disturbed(before).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());

        roller
            .phase
            .send_modify(|phase| *phase = Phase { restarts: 1, settled: true, done: false });
        assert!(waiting.await.unwrap());
        assert!(roll.disturbed(before).await && roll.disturbed(during).await);
        let after = roll.phase();
        assert!(!roll.disturbed(after).await);
    }
}
