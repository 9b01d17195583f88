//! How long a node that is well may take until it has a session again: nodes keep to it, and a
//! leader that finds that nobody led for long takes none for silent before.
//!
//! A node that tried in vain for a while asks every server in turn, one soon after the other, and
//! waits before the next round. So a server that says nothing costs it an attempt and no wait.

use std::time::Duration;

/// How long a node waits for the answer of a server: to a connection, a Hello, a sync.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The longest wait of a node between two rounds in which no server took it.
pub const RETRY_MAX: Duration = Duration::from_secs(15);

/// What an attempt may take that is answered, and the wait before it.
const ANSWERED: Duration = Duration::from_secs(2);
/// The wait after an attempt within a round, where the log is not slow.
const NEXT_SERVER: Duration = Duration::from_millis(500);

/// How long a node needs at most to be back, from when a majority of `servers` serves again and the
/// others say nothing. Rounds have one order, so that it asks each of those once at most: at the
/// end of a round that began too early, or at the beginning of the next one.
pub fn time_to_return(servers: usize) -> Duration {
    let silent = u32::try_from(servers.saturating_sub(1) / 2).unwrap_or(u32::MAX);
    RETRY_MAX + ANSWERED + (ANSWER_LIMIT + NEXT_SERVER).saturating_mul(silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_that_may_say_nothing_costs_an_attempt() {
        let millis = [1, 2, 3, 4, 5].map(|servers| time_to_return(servers).as_millis());
        assert_eq!(millis, [17_000, 17_000, 22_500, 22_500, 28_000]);
        assert_eq!(time_to_return(0), time_to_return(1));
    }
}
