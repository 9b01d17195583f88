//! What servers say of themselves: who leads, how far each is, how many sessions it has.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::http::{Ask, Http};
use hack_cluster::Cluster;

/// A server that starts reads its log, and may be sent a snapshot.
const IN_SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server, as it sees itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) leads: bool,
    pub(crate) term: u64,
    pub(crate) last_index: u64,
    pub(crate) applied_index: u64,
    pub(crate) sessions: u64,
}

impl Own {
    /// Asks a server.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn ask(http: &Http) -> anyhow::Result<Self> {
        Self::read(&http.get("/v1/agent/self")?)
    }

    fn read(answer: &Value) -> anyhow::Result<Self> {
        let stats = &answer["stats"];
        let number = |part: &str, key: &str| {
            let text = stats[part][key].as_str();
            let number = text.and_then(|text| text.parse().ok());
            number.with_context(|| format!("no {part}.{key} in {stats}"))
        };
        Ok(Self {
            leads: stats["raft"]["state"] == "Leader",
            term: number("raft", "term")?,
            last_index: number("raft", "last_log_index")?,
            applied_index: number("raft", "applied_index")?,
            sessions: number("nomad", "node_sessions")?,
        })
    }
}

/// All servers that run and answer, with their numbers.
pub(crate) fn all(servers: &Cluster) -> Vec<(usize, Own)> {
    let running = (0..servers.len()).filter(|number| servers.is_running(*number));
    let answers = running.filter_map(|number| {
        let http = servers.http_of(number).ok()?;
        Some((number, Own::ask(&http).ok()?))
    });
    answers.collect()
}

/// For those who watch: who leads, since which term, and where sessions are.
pub(crate) fn describe(servers: &Cluster) -> String {
    let each = all(servers).into_iter().map(|(number, own)| {
        let role = if own.leads { ", leads" } else { "" };
        let Own { term, sessions, .. } = own;
        format!("server-{number}{role}: term {term}, {sessions} sessions")
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Waits until every server runs, one of them leads, and all have applied everything.
///
/// # Errors
/// If they have not in a minute, or one ended.
pub(crate) fn wait_in_sync(servers: &mut Cluster) -> anyhow::Result<()> {
    let deadline = Instant::now() + IN_SYNC_TIMEOUT;
    loop {
        servers.must_run()?;
        let own: Vec<Own> = all(servers).into_iter().map(|(_, own)| own).collect();
        if own.len() == servers.len() && are_in_sync(&own) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the servers do not get together: {own:?}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

fn are_in_sync(servers: &[Own]) -> bool {
    let Some(leader) = servers.iter().find(|own| own.leads) else {
        return false;
    };
    let together = |own: &Own| {
        own.term == leader.term
            && own.last_index == leader.last_index
            && own.applied_index == leader.last_index
    };
    servers.iter().all(together) && servers.iter().filter(|own| own.leads).count() == 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own(state: &str, term: &str, applied: &str) -> Own {
        let answer = json!({"stats": {
            "nomad": {"node_sessions": "7"},
            "raft": {
                "state": state, "term": term, "last_log_index": "40", "applied_index": applied,
            },
        }});
        Own::read(&answer).unwrap()
    }

    #[test]
    fn servers_are_in_sync_when_one_leads_and_all_have_applied_everything() {
        let leader = own("Leader", "3", "40");
        assert_eq!((leader.sessions, leader.leads), (7, true));
        let with = |other: Own| are_in_sync(&[leader.clone(), other]);
        assert!(with(own("Follower", "3", "40")));
        assert!(!with(own("Follower", "3", "39")), "it has not applied all");
        assert!(!with(own("Leader", "2", "40")), "it does not know yet");
        assert!(!are_in_sync(&[own("Follower", "3", "40")]), "nobody leads");
    }

    #[test]
    fn a_server_that_does_not_say_how_far_it_is_is_an_error() {
        Own::read(&json!({"stats": {"raft": {"state": "Leader"}}})).unwrap_err();
    }
}
