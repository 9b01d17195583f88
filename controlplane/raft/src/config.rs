//! What can be tuned, with the reasons of the defaults, and which settings contradict each other.

use std::time::Duration;

use openraft::SnapshotPolicy;

/// The largest command that any configuration may allow: one must fit into one frame.
pub(crate) const COMMAND_BYTES_LIMIT: usize = 16 * 1024 * 1024;

/// Settings of one server's part in the log. All servers of a cluster should agree on the times.
#[derive(Debug, Clone)]
pub struct RaftConfig {
    /// How often a leader tells its followers that it is there.
    pub heartbeat: Duration,
    /// A follower that heard nothing for a random time between these two asks for votes.
    /// The upper one is also the leader's lease: how long it may serve after losing its quorum.
    pub election_min: Duration,
    pub election_max: Duration,
    /// How long installing a received snapshot may take, restoring the machine included.
    pub install_snapshot: Duration,
    /// How long one append to a follower may take, its fsync included, before it is sent anew.
    pub append: Duration,
    /// Entries applied since the last snapshot until the next is taken. As Nomad's default.
    pub snapshot_threshold: u64,
    /// Bytes of entries written since the last snapshot until the next is taken, whatever their
    /// number; entries older than the snapshot before it go then, too. Bounds the log on disk to
    /// about three times as much.
    pub snapshot_bytes: u64,
    /// Entries kept behind a snapshot. More than `snapshot_threshold`, so that the older of the
    /// two kept snapshots can still be replayed, should the newer one be damaged.
    pub trailing_entries: u64,
    /// Entries in one append to a follower.
    pub append_entries_max: u64,
    /// Bytes of one command; longer ones are refused.
    pub command_bytes_max: usize,
    /// Proposals that may wait for their outcome at a time; further ones wait for a place.
    pub proposals_max: usize,
    /// How long a proposal or a read barrier waits for a leader, a place and its outcome.
    pub patience: Duration,
    /// Bytes of a snapshot accepted from a leader; a longer one is refused.
    pub snapshot_bytes_max: u64,
}

impl Default for RaftConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(800),
            install_snapshot: Duration::from_secs(60),
            append: Duration::from_secs(2),
            snapshot_threshold: 8192,
            snapshot_bytes: 256 * 1024 * 1024,
            trailing_entries: 10_240,
            append_entries_max: 512,
            command_bytes_max: 4 * 1024 * 1024,
            proposals_max: 4096,
            patience: Duration::from_secs(5),
            snapshot_bytes_max: 8 * 1024 * 1024 * 1024,
        }
    }
}

/// Why settings cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{name} must not be zero")]
    Zero { name: &'static str },
    #[error("{name} {value:?} is more than an hour")]
    TooLong { name: &'static str, value: Duration },
    #[error("election_min {election_min:?} must be below election_max {election_max:?}")]
    ElectionRange {
        election_min: Duration,
        election_max: Duration,
    },
    #[error(
        "election_min {election_min:?} must be three heartbeats of {heartbeat:?} or more, \
         or one late heartbeat unseats a leader"
    )]
    Heartbeat {
        heartbeat: Duration,
        election_min: Duration,
    },
    #[error("install_snapshot {0:?} is below 10 s: a large snapshot would be sent for ever")]
    InstallSnapshot(Duration),
    #[error("patience {patience:?} must outlast an election of up to {election_max:?} twice")]
    Patience {
        patience: Duration,
        election_max: Duration,
    },
    #[error("command_bytes_max {0} is above 16 MiB")]
    CommandBytes(usize),
    #[error("the consensus library refuses the settings: {0}")]
    Library(String),
}

impl RaftConfig {
    /// Checks the settings against each other and translates them.
    pub(crate) fn build(&self) -> Result<openraft::Config, ConfigError> {
        self.check()?;
        let config = openraft::Config {
            cluster_name: "drover".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_min),
            election_timeout_max: millis(self.election_max),
            install_snapshot_timeout: millis(self.install_snapshot),
            max_payload_entries: self.append_entries_max,
            // A follower further behind than the log reaches needs a snapshot anyway.
            replication_lag_threshold: self.snapshot_threshold.saturating_add(1),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_threshold),
            max_in_snapshot_log_to_keep: self.trailing_entries,
            // Purging is a write transaction: do it for many entries at a time.
            purge_batch_size: (self.snapshot_threshold / 8).max(1),
            api_channel_size: Some(8192),
            notification_channel_size: Some(8192),
            backoff: "100ms 200ms ..1s".to_owned(),
            // Followers write while the leader does: two fsyncs side by side, not one by one.
            broadcast_submitted_on_append: Some(true),
            enable_pre_vote: Some(true),
            // The committed index on disk may trail what was served: lead only after an election.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        };
        config
            .validate()
            .map_err(|error| ConfigError::Library(error.to_string()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let Self {
            heartbeat,
            election_min,
            election_max,
            patience,
            ..
        } = *self;
        let times = [
            ("heartbeat", heartbeat),
            ("election_min", election_min),
            ("election_max", election_max),
            ("install_snapshot", self.install_snapshot),
            ("append", self.append),
            ("patience", patience),
        ];
        for (name, value) in times {
            if value < Duration::from_millis(1) {
                return Err(ConfigError::Zero { name });
            }
            if value > Duration::from_secs(3600) {
                return Err(ConfigError::TooLong { name, value });
            }
        }
        let counts = [
            ("snapshot_threshold", self.snapshot_threshold),
            ("append_entries_max", self.append_entries_max),
            ("proposals_max", self.proposals_max as u64),
            ("command_bytes_max", self.command_bytes_max as u64),
            ("snapshot_bytes_max", self.snapshot_bytes_max),
            ("snapshot_bytes", self.snapshot_bytes),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { name });
        }
        if election_min >= election_max {
            return Err(ConfigError::ElectionRange {
                election_min,
                election_max,
            });
        }
        if heartbeat * 3 > election_min {
            return Err(ConfigError::Heartbeat {
                heartbeat,
                election_min,
            });
        }
        if self.install_snapshot < Duration::from_secs(10) {
            return Err(ConfigError::InstallSnapshot(self.install_snapshot));
        }
        if patience < election_max * 2 {
            return Err(ConfigError::Patience {
                patience,
                election_max,
            });
        }
        if self.command_bytes_max > COMMAND_BYTES_LIMIT {
            return Err(ConfigError::CommandBytes(self.command_bytes_max));
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    // Checked to be at most an hour.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_accepted() {
        let config = RaftConfig::default().build().expect("valid");
        assert_eq!(config.enable_pre_vote, Some(true));
        assert_eq!(config.snapshot_policy, SnapshotPolicy::LogsSinceLast(8192));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        type Change = fn(&mut RaftConfig);
        let changes: [(Change, &str); 6] = [
            (
                |config| config.election_max = config.election_min,
                "below election_max",
            ),
            (
                |config| config.heartbeat = config.election_min,
                "three heartbeats",
            ),
            (
                |config| config.install_snapshot = Duration::from_secs(1),
                "below 10 s",
            ),
            (|config| config.patience = Duration::from_secs(1), "outlast"),
            (
                |config| config.command_bytes_max = usize::MAX,
                "above 16 MiB",
            ),
            (|config| config.snapshot_threshold = 0, "snapshot_threshold"),
        ];
        for (change, expected) in changes {
            let mut config = RaftConfig::default();
            change(&mut config);
            let error = config.build().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
