//! A budget that fills again at a steady rate.

use std::time::Duration;

use crate::time::Moment;

/// A budget of `burst` that fills again with `rate` a second. Its whole state is the moment at
/// which it will be full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    rate: u32,
    burst: u32,
    full_at: Moment,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(rate: u32, burst: u32) -> Self {
        Self {
            rate: rate.max(1),
            burst: burst.max(1),
            full_at: Moment::default(),
        }
    }

    fn cost(self) -> Duration {
        Duration::from_secs(1) / self.rate
    }

    /// Takes one.
    ///
    /// # Errors
    /// The time until there is one, where there is none.
    pub(super) fn take(&mut self, now: Moment) -> Result<(), Duration> {
        let full_at = self.full_at.max(now).after(self.cost());
        let most = now.after(self.cost() * self.burst);
        if full_at > most {
            return Err(full_at.since(most));
        }
        self.full_at = full_at;
        Ok(())
    }

    /// Whether one could be taken.
    pub(super) fn has_one(mut self, now: Moment) -> bool {
        self.take(now).is_ok()
    }

    /// Gives back one that was taken.
    pub(super) fn give_back(&mut self) {
        self.full_at = Moment(self.full_at.0.saturating_sub(self.cost()));
    }
}
