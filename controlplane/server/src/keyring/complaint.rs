//! Log lines about a keyring that is not available: one at once, one each hour, one when it is
//! available again. `now` is an argument.

use std::time::Duration;

use controlplane_keyring::KeyringError;
use tokio::time::Instant;

/// The pause between two such lines.
const COMPLAIN_EVERY: Duration = Duration::from_secs(3600);
/// Far in the future: nothing is due.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The lines that were logged, and when.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    last: Option<(Instant, String)>,
    looked: Option<Instant>,
}

/// A line for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Line {
    Trouble(String),
    Over,
}

impl Complaint {
    /// Logs what there is to log.
    pub(super) fn look(
        &mut self,
        unreadable: Option<String>,
        trouble: Option<KeyringError>,
        now: Instant,
    ) {
        match self.line(unreadable, trouble, now) {
            None => {}
            Some(Line::Trouble(reason)) => tracing::error!(
                %reason,
                "secrets can be neither sealed nor opened here; everything else works"
            ),
            Some(Line::Over) => tracing::info!("the keyring is available again"),
        }
    }

    fn line(
        &mut self,
        unreadable: Option<String>,
        trouble: Option<KeyringError>,
        now: Instant,
    ) -> Option<Line> {
        self.looked = Some(now);
        let lasting = match trouble {
            // A leader makes the first one.
            None | Some(KeyringError::NoRootKey) => None,
            Some(trouble) => Some(trouble.to_string()),
        };
        let Some(reason) = unreadable.or(lasting) else {
            return self.last.take().map(|_| Line::Over);
        };
        let due = self.last.as_ref().is_none_or(|(at, said)| {
            *said != reason || now.saturating_duration_since(*at) >= COMPLAIN_EVERY
        });
        due.then(|| {
            self.last = Some((now, reason.clone()));
            Line::Trouble(reason)
        })
    }

    /// When to look again.
    pub(super) fn next(&self) -> Instant {
        match (&self.last, self.looked) {
            (Some((at, _)), _) => *at + COMPLAIN_EVERY,
            (None, looked) => looked.unwrap_or_else(Instant::now) + NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_keyring::Kek;

    use super::*;

    #[test]
    fn a_missing_kek_is_logged_at_once_each_hour_and_when_it_is_over() {
        let kek = Kek::from_slice(&[1; 32]).expect("32 bytes").id();
        let missing = KeyringError::Missing { kek };
        let line = Some(Line::Trouble(missing.to_string()));
        let start = Instant::now();
        let mut complaint = Complaint::default();
        assert_eq!(
            complaint.line(None, Some(KeyringError::NoRootKey), start),
            None
        );
        assert_eq!(complaint.line(None, Some(missing), start), line);
        let soon = start + Duration::from_secs(3599);
        assert_eq!(complaint.line(None, Some(missing), soon), None);
        let hour = start + Duration::from_secs(3600);
        assert_eq!(complaint.next(), hour);
        assert_eq!(complaint.line(None, Some(missing), hour), line);
        assert_eq!(complaint.line(None, None, hour), Some(Line::Over));
        assert_eq!(complaint.line(None, None, hour), None);
    }
}
