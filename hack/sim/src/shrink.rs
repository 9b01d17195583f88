//! A failure made smaller: faults and wishes are left out as long as the same invariant still
//! breaks (delta debugging: halves first, then smaller and smaller parts).

use crate::run::{Ended, run};
use crate::schedule::{Schedule, Settings};

/// Runs that one shrinking may take.
const RUNS_MAX: u32 = 400;

/// The smallest settings found under which the same invariant breaks, and their run.
pub fn shrink(settings: &Settings, ended: &Ended) -> (Settings, Ended) {
    let Some(failure) = &ended.failure else {
        return (settings.clone(), ended.clone());
    };
    let mut shrinking = Shrinking {
        invariant: failure.invariant,
        best: settings.clone(),
        ended: ended.clone(),
        runs: 0,
    };
    let schedule = Schedule::of(settings);
    let faults = schedule.faults.iter().map(|it| it.number).collect();
    let ops = schedule.ops.iter().map(|it| it.number).collect();
    shrinking.list(faults, |settings, kept| settings.keep_faults = Some(kept));
    shrinking.list(ops, |settings, kept| settings.keep_ops = Some(kept));
    let faults = shrinking.best.keep_faults.clone().unwrap_or_default();
    shrinking.list(faults, |settings, kept| settings.keep_faults = Some(kept));
    (shrinking.best, shrinking.ended)
}

struct Shrinking {
    invariant: &'static str,
    best: Settings,
    ended: Ended,
    runs: u32,
}

impl Shrinking {
    /// Leaves parts of a list out, as long as that fails alike.
    fn list(&mut self, kept: Vec<u32>, set: impl Fn(&mut Settings, Vec<u32>)) {
        fewer(kept, |fewer| {
            let mut settings = self.best.clone();
            set(&mut settings, fewer.to_vec());
            self.still_fails(&settings)
        });
    }

    fn still_fails(&mut self, settings: &Settings) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let ended = run(settings);
        let same = ended
            .failure
            .as_ref()
            .is_some_and(|failure| failure.invariant == self.invariant);
        if same {
            self.best = settings.clone();
            self.ended = ended;
        }
        same
    }
}

/// The fewest of a list that were found to fail still: parts are left out, halves first, then
/// smaller and smaller ones.
pub fn fewer(mut kept: Vec<u32>, mut still_fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut size = kept.len();
    while size > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + size).min(kept.len()));
            if still_fails(&fewer) {
                kept = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::fewer;

    #[test]
    fn what_is_needed_stays_and_everything_else_goes() {
        let needed = [3, 11, 12];
        let mut runs = 0;
        let left = fewer((0..20).collect(), |kept| {
            runs += 1;
            needed.iter().all(|it| kept.contains(it))
        });
        assert_eq!(left, needed);
        assert!(runs < 60, "{runs}");
    }
}
