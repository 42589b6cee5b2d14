//! Runs many sequences at once, call by call, so that they share the times in which they wait.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use mooring_proto::mooncake::{Call, Form, Ping};

use crate::answers::{Answer, answer};
use crate::client::Client;
use crate::compare::Books;
use crate::differences::{self, After, Seen, Told};
use crate::generate::Sequence;
use crate::masters::{Pair, Side};
use crate::ranges::Ranges;

/// How long things take.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The shortest limit: an epoch that takes longer tells nothing.
    pub(crate) epoch_max: Duration,
    /// Longer than each limit.
    pub(crate) wait: Duration,
}

/// What a run has seen.
#[derive(Default)]
pub(crate) struct Tally {
    /// Sequences that were run.
    pub(crate) sequences: usize,
    /// Answers that were compared, one for each key of a call.
    pub(crate) answers: usize,
    /// How often each difference on purpose was met.
    pub(crate) differences: BTreeMap<&'static str, usize>,
    /// Objects at the end.
    pub(crate) objects: usize,
}

impl Tally {
    /// Adds what another run has seen.
    pub(crate) fn add(&mut self, other: Tally) {
        self.sequences += other.sequences;
        self.answers += other.answers;
        self.objects += other.objects;
        for (name, times) in other.differences {
            *self.differences.entry(name).or_default() += times;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { sequences, answers, objects, differences } = self;
        write!(out, "{sequences} sequences, {answers} answers, {objects} objects at the end")?;
        write!(out, ", differences {differences:?}")
    }
}

/// Why a run says nothing or the wrong thing.
pub(crate) enum Failure {
    /// The machine was too busy to stay inside the limits.
    TooSlow,
    /// The masters differ.
    Differs {
        /// The seed of the sequence that shows it with the fewest calls.
        seed: u64,
        /// All of that sequence, and a line about each other one.
        story: String,
    },
}

/// One sequence on its way.
struct Runner {
    sequence: Sequence,
    books: Books,
    theirs: Client,
    ours: Client,
    seq: u32,
    /// What was said so far.
    story: Vec<Told>,
    /// Ended at a difference that leaves the two in different states.
    stopped: bool,
    /// Ended at one that nobody has explained.
    differs: Option<String>,
}

/// Runs sequences to their ends, each on the pair of the same index or all on the only one.
pub(crate) fn run(
    pairs: &[Pair],
    sequences: Vec<Sequence>,
    same_segments: bool,
    times: Times,
) -> Result<Tally, Failure> {
    let pair_of = |index: usize| &pairs[index % pairs.len()];
    let mut runners: Vec<Runner> = sequences
        .into_iter()
        .enumerate()
        .map(|(index, sequence)| Runner::new(sequence, pair_of(index), same_segments))
        .collect();
    let mut tally = Tally { sequences: runners.len(), ..Tally::default() };
    let epochs = runners.iter().map(|it| it.sequence.epochs.len()).max().unwrap_or(0);
    for epoch in 0..epochs {
        let began = Instant::now();
        let steps = runners.iter().filter_map(|it| it.sequence.epochs.get(epoch)).map(Vec::len);
        for step in 0..steps.max().unwrap_or(0) {
            let sent: Vec<Option<Call<'static>>> =
                runners.iter_mut().map(|runner| runner.send(epoch, step)).collect();
            for (runner, call) in runners.iter_mut().zip(sent) {
                if let Some(call) = call {
                    runner.hear(call, &mut tally);
                }
            }
        }
        if began.elapsed() > times.epoch_max {
            return Err(Failure::TooSlow);
        }
        if epoch + 1 < epochs {
            wait(&mut runners, epoch, times.wait);
        }
    }
    differing(&runners)?;
    let mut ranges: BTreeMap<(usize, bool), Ranges> = BTreeMap::new();
    for (index, runner) in runners.iter().enumerate() {
        // The last call reads all objects of the sequence.
        let Some(last) = runner.story.last().filter(|_| !runner.stopped) else { continue };
        let pair = index % pairs.len();
        ranges.entry((pair, false)).or_default().add(&last.theirs);
        ranges.entry((pair, true)).or_default().add(&last.ours);
    }
    tally.objects = ranges.into_values().map(Ranges::assert_disjoint).sum();
    Ok(tally)
}

/// Tells about the sequences in which the masters differ, if there are any.
fn differing(runners: &[Runner]) -> Result<(), Failure> {
    let of = |runner: &'_ Runner| Some((runner.story.len(), runner.differs.clone()?));
    let found: Vec<_> = runners.iter().filter_map(|it| Some((it, of(it)?))).collect();
    let Some((shortest, _)) = found.iter().min_by_key(|(_, (calls, _))| *calls) else {
        return Ok(());
    };
    let mut story = shortest.told();
    for (runner, (calls, sentence)) in &found {
        story += &format!("\nseed {}, call {calls}: {sentence}", runner.sequence.seed);
    }
    Err(Failure::Differs { seed: shortest.sequence.seed, story })
}

/// Lets the time pass, with the pings of who is alive.
fn wait(runners: &mut [Runner], epoch: usize, time: Duration) {
    let until = Instant::now() + time;
    loop {
        for runner in runners.iter_mut() {
            runner.ping(epoch);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(PING_INTERVAL));
    }
}

/// As clients of Mooncake have it, and a little shorter.
const PING_INTERVAL: Duration = Duration::from_millis(500);

impl Runner {
    fn new(sequence: Sequence, pair: &Pair, same_segments: bool) -> Runner {
        Runner {
            sequence,
            books: Books::new(same_segments),
            theirs: pair.connect(Side::Theirs),
            ours: pair.connect(Side::Ours),
            seq: 0,
            story: Vec::new(),
            stopped: false,
            differs: None,
        }
    }

    /// Sends a call of the sequence to both, if there is one.
    fn send(&mut self, epoch: usize, step: usize) -> Option<Call<'static>> {
        if self.stopped {
            return None;
        }
        let call = self.sequence.epochs.get(epoch)?.get(step)?.clone();
        self.send_both(&call);
        Some(call)
    }

    fn send_both(&mut self, call: &Call<'_>) {
        self.seq += 1;
        // Both forms are spoken by clients.
        let form = if self.seq.is_multiple_of(2) { Form::Plain } else { Form::WithLiteral };
        let mut frame = Vec::new();
        call.append_to(&mut frame, self.seq, form).unwrap();
        self.theirs.write(&frame);
        self.ours.write(&frame);
    }

    fn receive(&mut self, call: &Call<'_>, side: Side) -> Answer {
        let client = match side {
            Side::Theirs => &mut self.theirs,
            Side::Ours => &mut self.ours,
        };
        let (header, body) = client
            .receive()
            .unwrap_or_else(|| panic!("{side:?} closed the connection on {call:?}"));
        assert_eq!((header.seq, header.error), (self.seq, 0), "{side:?} on {call:?}");
        answer(call, &header, &body)
    }

    /// Compares the answers to a call that was sent.
    fn hear(&mut self, call: Call<'static>, tally: &mut Tally) {
        let theirs = self.receive(&call, Side::Theirs);
        let ours = self.receive(&call, Side::Ours);
        self.story.push(Told { call, theirs, ours });
        let told = self.story.last().expect("it was just put there");
        if told.theirs.len() != told.ours.len() {
            self.differs = Some(format!("{:?}: other lengths", told.call.function()));
            self.stopped = true;
            return;
        }
        for (item, (theirs, ours)) in told.theirs.iter().zip(&told.ours).enumerate() {
            tally.answers += 1;
            let Err(sentence) = self.books.compare(theirs, ours) else { continue };
            let seen = Seen { item, theirs, ours, story: &self.story };
            match differences::allowing(&seen) {
                Some(difference) => {
                    *tally.differences.entry(difference.name).or_default() += 1;
                    if difference.after == After::GoOn {
                        continue;
                    }
                }
                None => {
                    let function = told.call.function();
                    self.differs = Some(format!("{function:?}, item {item}: {sentence}"));
                }
            }
            self.stopped = true;
            return;
        }
    }

    fn ping(&mut self, epoch: usize) {
        for client in self.sequence.alive.get(epoch).cloned().unwrap_or_default() {
            let call = Call::Ping(Ping { client });
            self.send_both(&call);
            // Between two limits the answers may differ; the sequence pings for itself, too.
            self.receive(&call, Side::Theirs);
            self.receive(&call, Side::Ours);
        }
    }

    /// The whole story, for who has to find out.
    fn told(&self) -> String {
        let mut text = String::new();
        for Told { call, theirs, ours } in &self.story {
            let outcome = match theirs == ours {
                true => format!("both: {theirs:?}"),
                false => format!("theirs: {theirs:?}\n    ours:   {ours:?}"),
            };
            text += &format!("  {call:?}\n    {outcome}\n");
        }
        text
    }
}
