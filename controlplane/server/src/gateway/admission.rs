//! How nodes come in where more want a session than this server can serve: what the door says, for
//! the leader, for operators and for the log.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use protocol_model::reconnect::RETRY_MAX;
use protocol_transport::Doorway;
use protocol_transport::door::DoorState;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Gateway;

/// Between two lines in the log.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// A rate is of at least so long.
const SPAN_MIN: Duration = Duration::from_secs(1);
/// Where nodes wait no longer than this they are admitted at once.
const AT_ONCE: Duration = Duration::from_millis(500);

/// How nodes come in.
#[derive(Debug, Default)]
pub struct Admission {
    /// Where they wait. There is none before the server listens.
    doorway: OnceLock<Doorway>,
    told: Mutex<Told>,
}

/// The state at the last look.
#[derive(Debug, Default)]
struct Told {
    admitted: u64,
    refused: u64,
    slow: bool,
    at: Option<Instant>,
}

/// How it stands, for operators.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionState {
    /// At the door.
    pub door: DoorState,
    /// Whether nodes wait, or were sent away a moment ago and come again.
    pub slow: bool,
    /// Nodes that were admitted in a second, since the last line in the log was due.
    pub rate: f64,
}

impl Told {
    /// Nodes in a second, where so many have been admitted at `now`.
    fn rate(&self, admitted: u64, now: Instant) -> f64 {
        let Some(at) = self.at else {
            return 0.0;
        };
        let span = now.saturating_duration_since(at).max(SPAN_MIN);
        #[expect(clippy::cast_precision_loss, reason = "nodes of some seconds")]
        let nodes = admitted.saturating_sub(self.admitted) as f64;
        nodes / span.as_secs_f64()
    }
}

impl AdmissionState {
    /// Its figures by name, for metrics and for `GET /v1/agent/self`.
    pub fn figures(&self) -> [(&'static str, u64); 6] {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        [
            ("slow", u64::from(self.slow)),
            ("waiting", count(self.door.waiting)),
            ("begun", count(self.door.begun)),
            ("places", count(self.door.places)),
            ("admitted", self.door.admitted),
            ("refused", self.door.refused),
        ]
    }
}

impl Admission {
    /// Nodes come in through this door from now on.
    pub(crate) fn set_doorway(&self, doorway: Doorway) {
        // A server listens once.
        let _ = self.doorway.set(doorway);
        self.told.lock().at = Some(Instant::now());
    }

    /// How late this server is: the door has places accordingly.
    pub(super) fn on_delay(&self, delay: Duration, now: Instant) {
        if let Some(doorway) = self.doorway.get() {
            doorway.set_delay(delay, now);
        }
    }

    /// Whether nodes wait for a place.
    pub(super) fn is_crowded(&self, now: Instant) -> bool {
        let doorway = self.doorway.get();
        doorway.is_some_and(|doorway| doorway.state(now).crowded_for > AT_ONCE)
    }

    /// Whether there may be nodes that live and want a session, and have none because of this
    /// server: they wait for a place, or were sent away and come again within [`RETRY_MAX`].
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        let Some(doorway) = self.doorway.get() else {
            return false;
        };
        let refused = doorway.refused_since(now);
        self.is_crowded(now) || refused.is_some_and(|since| since < RETRY_MAX)
    }

    /// How it stands at `now`.
    pub fn state(&self, now: Instant) -> AdmissionState {
        let door = self.doorway.get().map(|doorway| doorway.state(now));
        AdmissionState {
            door: door.unwrap_or_default(),
            slow: self.is_slow(now),
            rate: self
                .told
                .lock()
                .rate(door.unwrap_or_default().admitted, now),
        }
    }

    /// Says in the log how nodes came in since the last time, where that was slow.
    fn tell(&self, now: Instant) {
        let AdmissionState { door, slow, rate } = self.state(now);
        let mut told = self.told.lock();
        let refused = door.refused - told.refused;
        match (told.slow, slow) {
            (_, true) if refused > 0 || door.waiting > 0 => tracing::warn!(
                waiting = door.waiting,
                begun = door.begun,
                places = door.places,
                refused,
                per_second = format_args!("{rate:.1}"),
                "nodes come in slowly: more of them want a session than this server can serve at \
                 once. All of them get one; more processor time or more servers make it faster"
            ),
            (true, false) => tracing::info!("nodes come in at once again"),
            (_, true) | (false, false) => {}
        }
        *told = Told {
            admitted: door.admitted,
            refused: door.refused,
            slow,
            at: Some(now),
        };
    }
}

/// Tells how nodes come in for as long as the server runs.
pub async fn tell(gateway: Arc<Gateway>) {
    let mut tick = interval(TOLD_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tick.tick().await;
        gateway.admission.tell(Instant::now());
    }
}
