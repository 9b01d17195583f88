//! How long a node that is well may take until it has a session again: nodes keep to it, and a
//! leader that finds that nobody led for long takes none for silent before.
//!
//! A node that tried in vain for a while asks every server in turn, one soon after the other, and
//! waits before the next round. So a server that says nothing costs it an attempt and no wait.

use std::time::Duration;

/// How long a node waits for the answer of a server, to a connection and to a Hello.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The longest wait of a node between two rounds in which no server took it.
pub const RETRY_MAX: Duration = Duration::from_secs(15);

/// The longest wait between two attempts of a round.
pub const NEXT_SERVER: Duration = Duration::from_millis(500);

/// What the attempt that is under way when servers serve again may take, and the one that is
/// answered.
const ANSWERED: Duration = Duration::from_secs(3);

/// How long a node needs at most to be back, from when a majority of `servers` serves again and the
/// others say nothing.
///
/// Rounds have one order, so that it asks each of the silent ones once at most: at the end of a
/// round that began too early, or at the beginning of the next one. Its configuration may name each
/// of them once more in other words, or one that is no more.
pub fn time_to_return(servers: usize) -> Duration {
    let silent = u32::try_from(servers.saturating_sub(1) / 2).unwrap_or(u32::MAX);
    let entries = silent.saturating_mul(2).max(1);
    RETRY_MAX + ANSWERED + (ANSWER_LIMIT + NEXT_SERVER).saturating_mul(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_that_may_say_nothing_costs_two_attempts() {
        let millis = [1, 2, 3, 4, 5].map(|servers| time_to_return(servers).as_millis());
        assert_eq!(millis, [23_500, 23_500, 29_000, 29_000, 40_000]);
        assert_eq!(time_to_return(0), time_to_return(1));
    }
}
