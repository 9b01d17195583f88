//! Which servers do not answer a leader, told once when it begins and once when it ends. The
//! consensus library says it with every heartbeat, ten times a second.
//!
//! ```text
//!   answers --fails--> fails --for a second--> told --answers--> answers (told, too)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a server may fail to answer until that is told: longer than a busy host is late.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Silent,
    Back,
}

/// Servers that did not answer their last heartbeat. Clones share it. It holds as many entries as
/// there were members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    failing: Arc<Mutex<BTreeMap<u64, Failing>>>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    told: bool,
}

impl Reach {
    /// A new leader begins to ask; what was known of earlier ones is over.
    pub(crate) fn forget(&self, id: u64) {
        self.failing.lock().remove(&id);
    }

    pub(crate) fn on_answered(&self, id: u64) -> Option<News> {
        let failing = self.failing.lock().remove(&id)?;
        failing.told.then_some(News::Back)
    }

    pub(crate) fn on_failed(&self, id: u64, now: Instant) -> Option<News> {
        let mut all = self.failing.lock();
        let failing = all.entry(id).or_insert(Failing {
            since: now,
            told: false,
        });
        if failing.told || now.duration_since(failing.since) < TOLD_AFTER {
            return None;
        }
        failing.told = true;
        Some(News::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_told_of_once_and_so_is_its_return() {
        let (reach, start) = (Reach::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(reach.on_failed(7, at(0)), None);
        assert_eq!(reach.on_failed(7, at(900)), None);
        assert_eq!(reach.on_failed(7, at(1000)), Some(News::Silent));
        assert_eq!(reach.on_failed(7, at(1100)), None);
        assert_eq!(reach.on_answered(7), Some(News::Back));
        assert_eq!(reach.on_answered(7), None);
        // One late answer is no news.
        assert_eq!(reach.on_failed(7, at(5000)), None);
        assert_eq!(reach.on_answered(7), None);
        assert_eq!(reach.on_failed(7, at(9000)), None);
    }
}
