//! What the ways are like: loss, which is delay on a stream, and jitter.

use crate::rng::Rng;
use crate::time::{MICRO, MILLI, Nanos, SECOND};

/// What the weather is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weather {
    /// Packets lost, in a thousand.
    pub loss: u64,
    /// The shortest way.
    pub base: Nanos,
    /// What is added at random.
    pub jitter: Nanos,
}

impl Weather {
    /// A quiet data center.
    pub const CALM: Self = Self {
        loss: 0,
        base: 150 * MICRO,
        jitter: 400 * MICRO,
    };

    /// The time that one message takes, its retransmissions included.
    pub(super) fn delay(self, rng: &mut Rng) -> Nanos {
        let Self { loss, base, jitter } = self;
        let mut delay = base + rng.below(jitter);
        if loss > 0 {
            // Later packets of the connection show the loss after about a round trip.
            let again = 2 * base + jitter + 10 * MILLI;
            while rng.chance(loss) && delay < 30 * SECOND {
                delay += again;
            }
        }
        delay
    }
}
