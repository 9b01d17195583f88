//! Times after which the silent are given up, nodes and servers: what each is, and how they go
//! together.

use std::time::Duration;

use super::build::{at_least, time, value};
use super::file::ConfigFile;
use super::{ConfigError, LivenessConfig, RaftTiming};

/// The shortest time between two signs of life. Without a limit, a mistaken zero would keep every
/// processor of the cluster busy with nothing else.
const SIGN_OF_LIFE_MIN: Duration = Duration::from_millis(10);
/// How long a leader may take to hear of a heartbeat that another server heard: reports go every
/// 200 ms.
const REPORTED_WITHIN: Duration = Duration::from_millis(400);
/// A silence has room for as many heartbeats.
const HEARTBEATS_MIN: u32 = 4;
/// How much more seldom heartbeats are where nothing is in doubt, unless that is too seldom.
const CALM: u32 = 4;

/// What a file says of nodes and of the log.
///
/// # Errors
/// Where that makes no sense, or what it says of one does not go with the other.
pub(super) fn of(file: &ConfigFile) -> Result<(LivenessConfig, RaftTiming), ConfigError> {
    let raft = raft(file)?;
    let liveness = liveness(file, raft)?;
    noticed_in_time(liveness, raft)?;
    Ok((liveness, raft))
}

fn liveness(file: &ConfigFile, raft: RaftTiming) -> Result<LivenessConfig, ConfigError> {
    let server = &file.server;
    let interval = time(
        "server.heartbeat_interval",
        server.heartbeat_interval.as_deref(),
        Duration::from_millis(125),
    )?;
    let silence = time(
        "server.heartbeat_silence",
        server.heartbeat_silence.as_deref(),
        Duration::from_millis(2600),
    )?;
    not_too_often("server.heartbeat_interval", interval)?;
    if silence < interval * HEARTBEATS_MIN {
        let message = format!("{silence:?} is less than four heartbeat intervals of {interval:?}");
        return Err(value("server.heartbeat_silence", message));
    }
    let longest = silence / HEARTBEATS_MIN;
    let spare = silence.saturating_sub(unheard(raft));
    let calm = time(
        "server.heartbeat_calm_interval",
        server.heartbeat_calm_interval.as_deref(),
        (interval * CALM).min(longest).min(spare).max(interval),
    )?;
    if !(interval..=longest).contains(&calm) {
        let message = format!(
            "{calm:?} is not between server.heartbeat_interval ({interval:?}) and a quarter of \
             server.heartbeat_silence ({longest:?})"
        );
        return Err(value("server.heartbeat_calm_interval", message));
    }
    Ok(LivenessConfig {
        heartbeat_interval: interval,
        calm_interval: calm,
        silence,
        takeover_extra: Duration::from_millis(1500),
    })
}

fn raft(file: &ConfigFile) -> Result<RaftTiming, ConfigError> {
    let heartbeat = time(
        "server.raft_heartbeat",
        file.server.raft_heartbeat.as_deref(),
        Duration::from_millis(100),
    )?;
    let election = time(
        "server.raft_election",
        file.server.raft_election.as_deref(),
        Duration::from_millis(400),
    )?;
    not_too_often("server.raft_heartbeat", heartbeat)?;
    if election < heartbeat * 3 {
        let message = format!("{election:?} is less than three heartbeats of {heartbeat:?}");
        return Err(value("server.raft_election", message));
    }
    let snapshot_entries = at_least(
        "server.raft_snapshot_entries",
        file.server.raft_snapshot_entries,
        64,
        8192,
    )?;
    Ok(RaftTiming {
        heartbeat,
        election,
        snapshot_entries,
    })
}

/// How long a leader may be without the ears of the other servers before it notices: the longest
/// election timeout, and what it was told last is a little older than that.
fn unheard(raft: RaftTiming) -> Duration {
    raft.election * 2 + REPORTED_WITHIN
}

/// A leader has to notice that it lost its majority before it takes the nodes for silent that speak
/// to the other servers.
fn noticed_in_time(liveness: LivenessConfig, raft: RaftTiming) -> Result<(), ConfigError> {
    let LivenessConfig {
        calm_interval,
        silence,
        ..
    } = liveness;
    let least = unheard(raft) + calm_interval;
    if silence >= least {
        return Ok(());
    }
    let message = format!(
        "{silence:?} is too short for the longest election timeout of {:?}, twice \
         server.raft_election: a leader that lost its majority would take nodes for down which \
         speak to the other servers; at least {least:?}",
        raft.election * 2
    );
    Err(value("server.heartbeat_silence", message))
}

fn not_too_often(key: &'static str, interval: Duration) -> Result<(), ConfigError> {
    if interval >= SIGN_OF_LIFE_MIN {
        return Ok(());
    }
    let message = format!("{interval:?} is less than {SIGN_OF_LIFE_MIN:?}");
    Err(value(key, message))
}
