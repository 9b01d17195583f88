//! What people are told while there is no cluster: why, and why others do not answer. Each reason
//! once; the same one with other failures now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How often another failure to reach somebody is told while the reason is the same: texts of
/// failures change back and forth.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Option<(String, BTreeMap<String, String>, Instant)>,
}

impl Told {
    /// Tells it, unless that was done a moment ago.
    pub(super) fn tell(
        &mut self,
        reason: Option<String>,
        unreached: &BTreeMap<String, String>,
        now: Instant,
    ) {
        let Some(reason) = reason else {
            self.last = None;
            return;
        };
        if self.is_new(&reason, unreached, now) {
            let failures: Vec<String> = unreached
                .iter()
                .map(|(address, failure)| format!("{address}: {failure}"))
                .collect();
            tracing::info!(
                reason,
                unreached = failures.join("; "),
                "the cluster is not formed yet"
            );
            self.last = Some((reason, unreached.clone(), now));
        }
    }

    fn is_new(&self, reason: &str, unreached: &BTreeMap<String, String>, now: Instant) -> bool {
        self.last.as_ref().is_none_or(|(last, failures, at)| {
            last != reason || (failures != unreached && now.duration_since(*at) >= TOLD_EVERY)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_and_why_nobody_answers_now_and_then() {
        let start = Instant::now();
        let failed = |why: &str| BTreeMap::from([("a:1".to_owned(), why.to_owned())]);
        let mut told = Told::default();
        assert!(told.is_new("alone", &failed("timeout"), start));
        told.tell(Some("alone".to_owned()), &failed("timeout"), start);
        assert!(!told.is_new("alone", &failed("timeout"), start + TOLD_EVERY));
        assert!(!told.is_new("alone", &failed("reset"), start));
        assert!(told.is_new("alone", &failed("reset"), start + TOLD_EVERY));
        assert!(told.is_new("two of three", &failed("timeout"), start));
        told.tell(None, &failed("timeout"), start);
        assert!(told.is_new("alone", &failed("timeout"), start));
    }
}
