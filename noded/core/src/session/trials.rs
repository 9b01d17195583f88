//! The attempts at one session: since when it is wanted, and how long each attempt waits for the
//! first sign of a server.
//!
//! A busy server refuses the node, or lets it wait for a place; its answer is worth waiting for. A
//! silent server is gone as a rule, and the node asks the next one. Where all are silent they may
//! only be slow, so each round over them waits longer than the round before.

use std::time::Duration;

use crate::effect::Wish;
use crate::event::Ending;
use crate::time::{Moment, Now};

/// How long the first sign of a server may take. Short beside the time after which a leader gives
/// up a node that no server hears (`heartbeat_silence` and 1.5 s): a server that is down must not
/// cost the node its tasks.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The same where there is no other server to ask, or none of them says anything.
/// [`ANSWER_LIMIT`](protocol_model::reconnect::ANSWER_LIMIT) is longer.
const PATIENCE_MAX: Duration = Duration::from_millis(4_500);
/// The same for a server that is there and busy: the node's place in its queue is worth more than
/// another attempt, which both of them pay for. A connection without a packet ends after 12 s.
const PATIENCE_BUSY: Duration = Duration::from_secs(10);

/// See the top of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trials {
    since: Moment,
    /// Whether the last one was refused by a server with too much to do.
    busy: bool,
    /// Those in which no server said anything, one after the other.
    silent: u32,
}

impl Trials {
    /// A session is wanted from now on.
    pub(super) fn new(now: Moment) -> Self {
        Self {
            since: now,
            busy: false,
            silent: 0,
        }
    }

    pub(super) fn on_failed(&mut self, ending: Ending) {
        self.busy = ending == Ending::Busy;
        self.silent = match ending {
            Ending::Silence => self.silent.saturating_add(1),
            Ending::Busy | Ending::Otherwise => 0,
        };
    }

    /// How long a Hello may stay without an answer, where a server that is well takes `limit` at
    /// most: one that is said before the handshake waits for a place like the handshake.
    pub(super) fn answer_limit(&self, limit: Duration) -> Duration {
        match self.busy {
            true => limit + PATIENCE_BUSY,
            false => limit,
        }
    }

    /// The wish of the next attempt, where so many servers are known.
    pub(super) fn wish(&self, servers: usize, now: Now) -> Wish {
        let rounds = self.silent as usize / servers.max(1);
        let doubled = u32::try_from(rounds).unwrap_or(u32::MAX).min(4);
        let patience = match (self.busy, servers) {
            (true, _) => PATIENCE_BUSY,
            (false, 1) => PATIENCE_MAX,
            (false, _) => (PATIENCE * 2_u32.pow(doubled)).min(PATIENCE_MAX),
        };
        Wish {
            urgent: true,
            waited: now.moment.since(self.since),
            patience,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(trials: Trials, servers: usize) -> u128 {
        let now = Now {
            moment: Moment::default().after(Duration::from_secs(9)),
            ..Now::default()
        };
        let wish = trials.wish(servers, now);
        assert_eq!(wish.waited, Duration::from_secs(9));
        wish.patience.as_millis()
    }

    #[test]
    fn a_server_that_is_busy_is_waited_for_and_one_that_is_silent_is_not() {
        let mut trials = Trials::new(Moment::default());
        assert_eq!(patience(trials, 3), 2_000);
        trials.on_failed(Ending::Busy);
        assert_eq!(patience(trials, 3), 10_000);
        trials.on_failed(Ending::Otherwise);
        assert_eq!(patience(trials, 3), 2_000);
        assert_eq!(patience(trials, 1), 4_500);
        let mut rounds = Vec::new();
        for _ in 0..7 {
            rounds.push(patience(trials, 3));
            trials.on_failed(Ending::Silence);
        }
        assert_eq!(rounds, [2_000, 2_000, 2_000, 4_000, 4_000, 4_000, 4_500]);
        assert_eq!(patience(trials, 0), 4_500);
    }
}
