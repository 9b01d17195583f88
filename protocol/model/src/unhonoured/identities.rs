//! Identities that are honoured and may surprise: tokens that expire before they are renewed, and
//! tokens that others can read.

use std::time::Duration;

use super::Warning;
use crate::identity::WorkloadIdentity;
use crate::task::Task;

/// The least `ttl` without a warning: a node renews at half of the ttl, and not before 10 s.
const TTL_MIN: Duration = Duration::from_secs(20);
/// The directory that requests for files (`read-fs`) never reach.
const SECRETS: &str = "secrets";

/// The warnings of a task's identities; `place` is the task's own. Identities that nothing shows
/// are never signed: their settings have no effect.
pub(super) fn warn(task: &Task, place: &str, warnings: &mut Vec<Warning>) {
    for identity in task.shown_identities() {
        let block = format!("identity {:?}", identity.name);
        for words in [short_ttl(identity), readable_file(identity)] {
            warnings.extend(words.map(|words| Warning {
                path: format!("{place}{block}"),
                message: format!("{block}: {words}"),
            }));
        }
    }
}

fn short_ttl(identity: &WorkloadIdentity) -> Option<String> {
    let is_short = !identity.ttl.is_zero() && identity.ttl < TTL_MIN;
    is_short.then(|| {
        format!(
            "ttl is {:?}, less than {TTL_MIN:?}: a token is renewed after 10s at the earliest, \
             so that it may expire first",
            identity.ttl
        )
    })
}

fn readable_file(identity: &WorkloadIdentity) -> Option<String> {
    let path = identity.filepath.as_str();
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let is_outside = identity.file && !path.is_empty() && parts.next() != Some(SECRETS);
    is_outside.then(|| {
        format!(
            "filepath {path:?} is outside {SECRETS}/: every caller with the capability read-fs can \
             read the token"
        )
    })
}
