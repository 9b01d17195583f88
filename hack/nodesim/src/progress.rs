//! How far each node's session is, as the node itself sees it, and how long the way there took.
//!
//! ```text
//!   away --connect--> connecting --connected--> greeting --Welcome--> syncing --SyncAck--> live
//!     ^                                             `-----Welcome, resumed-----------------^
//!     `------ disconnected, refused ------------------------------------------------------'
//!     `------ Welcome on the connection that stood by: promoted --------------------------^
//! ```
//!
//! A node that finds its server silent is shown as live until it connects again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noded_core::event::SessionEvent;
use noded_core::key::Attempt;
use parking_lot::Mutex;

/// Samples that are kept between two marks; more are not.
const SAMPLES_MAX: usize = 100_000;
/// Reasons that are told apart.
const REASONS_MAX: usize = 20;

/// Where a node's session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// Between two attempts.
    #[default]
    Away,
    /// A connection is being made.
    Connecting,
    /// Hello was sent.
    Greeting,
    /// The complete report was sent.
    Syncing,
    /// The session lives.
    Live,
}

/// The way to one live session.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// From the first packet until the connection stood.
    pub connect: Duration,
    /// From there until the Welcome.
    pub greet: Duration,
    /// From there until the answer to the complete report; nothing for a resumed session.
    pub sync: Duration,
    /// From the last mark until it lived.
    pub since_mark: Duration,
    /// Whether an earlier session went on.
    pub resumed: bool,
    /// Whether the connection stood already: then nothing is known of the parts of the way.
    pub promoted: bool,
}

/// What all nodes of a fleet went through since the last mark.
#[derive(Debug)]
pub struct Journey {
    inner: Mutex<JourneyInner>,
}

#[derive(Debug)]
struct JourneyInner {
    marked: Instant,
    samples: Vec<Sample>,
    refusals: u64,
    breaks: u64,
    reasons: BTreeMap<String, u64>,
}

impl JourneyInner {
    /// Counts why a session was refused or ended. A text that names a node or a time would be
    /// another one each time: no more than a few are told apart.
    fn because(&mut self, reason: &str) {
        let known = self.reasons.get_mut(reason);
        if let Some(count) = known {
            *count += 1;
        } else if self.reasons.len() < REASONS_MAX {
            self.reasons.insert(reason.to_owned(), 1);
        } else {
            *self.reasons.entry("another reason".to_owned()).or_default() += 1;
        }
    }
}

impl Default for Journey {
    fn default() -> Self {
        let inner = JourneyInner {
            marked: Instant::now(),
            samples: Vec::new(),
            refusals: 0,
            breaks: 0,
            reasons: BTreeMap::new(),
        };
        Self {
            inner: Mutex::new(inner),
        }
    }
}

/// What happened since the last mark.
#[derive(Debug, Clone)]
pub struct Travelled {
    /// The ways to live sessions.
    pub samples: Vec<Sample>,
    /// Sessions that a server refused.
    pub refusals: u64,
    /// Attempts and sessions whose connection ended.
    pub breaks: u64,
    /// Why both, and how often.
    pub reasons: BTreeMap<String, u64>,
}

impl Journey {
    /// Time is counted from now on, and what was is forgotten.
    pub fn mark(&self) {
        let mut inner = self.inner.lock();
        inner.marked = Instant::now();
        inner.samples.clear();
        inner.refusals = 0;
        inner.breaks = 0;
        inner.reasons.clear();
    }

    /// What happened since the last mark.
    pub fn travelled(&self) -> Travelled {
        let inner = self.inner.lock();
        Travelled {
            samples: inner.samples.clone(),
            refusals: inner.refusals,
            breaks: inner.breaks,
            reasons: inner.reasons.clone(),
        }
    }
}

/// How far one node's session is.
#[derive(Debug)]
pub struct Progress {
    journey: Arc<Journey>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stage: Stage,
    attempt: Attempt,
    begun: Option<Instant>,
    connected: Option<Instant>,
    welcomed: Option<Instant>,
}

impl Inner {
    /// Whether an attempt is the session's, and not one that stands by. The number of one that is
    /// being connected is not known yet.
    fn is_of(&self, attempt: Attempt) -> bool {
        match self.stage {
            Stage::Connecting => attempt > self.attempt,
            _ => attempt == self.attempt,
        }
    }
}

impl Progress {
    /// A node that has not tried yet.
    pub fn new(journey: Arc<Journey>) -> Self {
        Self {
            journey,
            inner: Mutex::default(),
        }
    }

    /// Where the session is.
    pub fn stage(&self) -> Stage {
        self.inner.lock().stage
    }

    /// The newest attempt that got a connection.
    pub fn attempt(&self) -> Attempt {
        self.inner.lock().attempt
    }

    /// The daemon ended; the next one counts its attempts anew.
    pub fn on_stopped(&self) {
        *self.inner.lock() = Inner::default();
    }

    /// An attempt begins.
    pub fn on_connecting(&self) {
        let attempt = self.attempt();
        *self.inner.lock() = Inner {
            stage: Stage::Connecting,
            attempt,
            begun: Some(Instant::now()),
            ..Inner::default()
        };
    }

    /// Something happened in the session of an attempt.
    pub fn on_event(&self, attempt: Attempt, event: &SessionEvent) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        match event {
            // Any other is to stand by.
            SessionEvent::Connected if inner.stage == Stage::Connecting => {
                inner.stage = Stage::Greeting;
                inner.attempt = attempt;
                inner.connected = Some(now);
            }
            SessionEvent::Welcome(welcome) => {
                if inner.stage != Stage::Greeting {
                    inner.connected = None;
                }
                inner.attempt = attempt;
                inner.welcomed = Some(now);
                inner.stage = Stage::Syncing;
                if welcome.resumed {
                    self.arrived(&mut inner, true, now);
                }
            }
            SessionEvent::SyncAck { .. } if inner.stage == Stage::Syncing => {
                self.arrived(&mut inner, false, now);
            }
            SessionEvent::Refused(refused) => {
                if inner.is_of(attempt) {
                    inner.stage = Stage::Away;
                }
                let mut journey = self.journey.inner.lock();
                journey.refusals += 1;
                journey.because(&format!("refused: {:?}", refused.reason));
            }
            // The end of one attempt may be told after the next began.
            SessionEvent::Disconnected { reason, .. } => {
                if inner.is_of(attempt) {
                    inner.stage = Stage::Away;
                }
                let mut journey = self.journey.inner.lock();
                journey.breaks += 1;
                journey.because(reason);
            }
            _ => {}
        }
    }

    fn arrived(&self, inner: &mut Inner, resumed: bool, now: Instant) {
        inner.stage = Stage::Live;
        let mut journey = self.journey.inner.lock();
        if journey.samples.len() < SAMPLES_MAX {
            let between = |from: Option<Instant>, to: Option<Instant>| {
                let known = from.zip(to);
                known.map_or(Duration::ZERO, |(from, to)| {
                    to.saturating_duration_since(from)
                })
            };
            let since_mark = now.saturating_duration_since(journey.marked);
            journey.samples.push(Sample {
                connect: between(inner.begun, inner.connected),
                greet: between(inner.connected, inner.welcomed),
                sync: between(inner.welcomed, Some(now)),
                since_mark,
                resumed,
                promoted: inner.connected.is_none(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use noded_core::SessionEpoch;
    use noded_core::event::Ending;

    use super::*;

    #[test]
    fn a_session_is_live_when_its_report_is_answered_and_its_way_is_counted_once() {
        let journey = Arc::new(Journey::default());
        let progress = Progress::new(Arc::clone(&journey));
        let synced = SessionEvent::SyncAck {
            epoch: SessionEpoch(1),
            index: 1,
        };
        progress.on_connecting();
        progress.on_event(Attempt(1), &SessionEvent::Connected);
        assert_eq!(progress.stage(), Stage::Greeting);
        // Nobody was welcomed yet.
        progress.on_event(Attempt(1), &synced);
        assert_eq!(progress.stage(), Stage::Greeting);
        progress.inner.lock().stage = Stage::Syncing;
        progress.inner.lock().welcomed = Some(Instant::now());
        progress.on_event(Attempt(1), &synced);
        progress.on_event(Attempt(1), &synced);
        assert_eq!(progress.stage(), Stage::Live);
        assert_eq!(journey.travelled().samples.len(), 1);
        journey.mark();
        assert_eq!(journey.travelled().samples.len(), 0);
    }

    #[test]
    fn the_end_of_an_earlier_attempt_does_not_end_this_one() {
        let progress = Progress::new(Arc::default());
        let ended = SessionEvent::Disconnected {
            reason: String::new(),
            ending: Ending::Otherwise,
        };
        progress.on_connecting();
        progress.on_event(Attempt(2), &SessionEvent::Connected);
        progress.on_event(Attempt(1), &ended);
        assert_eq!(progress.stage(), Stage::Greeting);
        progress.on_event(Attempt(2), &ended);
        assert_eq!(progress.stage(), Stage::Away);
    }

    #[test]
    fn a_connection_that_stands_by_changes_nothing_until_it_is_welcomed() {
        let journey = Arc::new(Journey::default());
        let progress = Progress::new(Arc::clone(&journey));
        let ended = SessionEvent::Disconnected {
            reason: String::new(),
            ending: Ending::Otherwise,
        };
        progress.on_connecting();
        progress.on_event(Attempt(1), &SessionEvent::Connected);
        progress.inner.lock().stage = Stage::Live;
        progress.on_event(Attempt(2), &SessionEvent::Connected);
        assert_eq!(progress.stage(), Stage::Live);
        progress.on_event(Attempt(2), &ended);
        assert_eq!(progress.stage(), Stage::Live);
        progress.on_event(Attempt(3), &SessionEvent::Connected);
        progress.on_event(Attempt(1), &ended);
        assert_eq!(progress.stage(), Stage::Away);
        progress.on_event(Attempt(3), &SessionEvent::Welcome(welcome(true)));
        assert_eq!(progress.stage(), Stage::Live);
        assert_eq!(progress.attempt(), Attempt(3));
        let samples = journey.travelled().samples;
        assert!(samples.len() == 1 && samples[0].resumed && samples[0].promoted);
    }

    fn welcome(resumed: bool) -> noded_core::event::Welcome {
        noded_core::event::Welcome {
            epoch: SessionEpoch(1),
            resumed,
            applied_urgent_seq: 0,
            applied_typical_seq: 0,
            heartbeat_interval: Duration::ZERO,
            calm_interval: Duration::ZERO,
            typical_interval: Duration::ZERO,
            urgent_delay: Duration::ZERO,
            retry_interval: Duration::ZERO,
            applied: noded_core::Watermark::default(),
            servers: 1,
            newcomer: resumed,
        }
    }
}
