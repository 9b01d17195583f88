//! `/v1/agent/health`: whether this server and its own node do their part.

use std::time::Duration;

use axum::http::StatusCode;
use controlplane_keyring::KeyringError;
use controlplane_raft::RaftStatus;
use protocol_api::agent::{Health, HealthOfPart};
use protocol_model::NodeStatus;
use tokio::time::timeout;

use super::Api;
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::own_node::OwnNode;

/// How long a server that is asked for its health may take to apply what it lacks: a healthy one
/// takes milliseconds, and whoever asks has timeouts of seconds.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// Answers `server`, and `client` where the server has a node of its own; 500 where one of them is
/// not well. Whoever restarts one server after another waits for this before the next one.
pub(super) async fn health(ask: &Ask) -> Answered {
    let (server, client) = match ask.query.text("type") {
        None => (true, true),
        Some("server") => (true, false),
        Some("client") => (false, true),
        Some(other) => {
            let message = format!("type is {other:?}; \"server\" and \"client\" are known");
            return Err(HttpError::bad_request(message));
        }
    };
    let mut parts = Health::default();
    if server {
        let trouble = server_trouble(&ask.api).await;
        let keyring = ask.api.keyring.trouble();
        parts.server = Some(server_part(trouble, keyring, differences(&ask.api)));
    }
    if client {
        parts.client = node_trouble(&ask.api).map(part);
    }
    let mut asked = parts.server.iter().chain(&parts.client);
    let well = asked.all(|part| part.ok);
    let index = ask.api.cluster.snapshot().index();
    let mut response = ask.answer(&parts, index)?;
    if !well {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    Ok(response)
}

fn part(trouble: Option<String>) -> HealthOfPart {
    HealthOfPart {
        ok: trouble.is_none(),
        message: trouble.unwrap_or_else(|| "ok".to_owned()),
    }
}

/// Other servers that are not configured as this one where all have to be alike.
fn differences(api: &Api) -> Vec<String> {
    let members = api.cluster.status().membership;
    let versions = api.cluster.versions();
    let acl = versions.differing_acl(api.config.acl_enabled, &members);
    let issuer = versions.differing_issuer(api.config.oidc_issuer.as_deref(), &members);
    acl.into_iter().chain(issuer).collect()
}

/// A server whose KEK is missing, or which is not configured as another one, does its part: a
/// 500 on every server would make a load balancer take the whole API away for one file. Its message
/// names the fault.
fn server_part(
    trouble: Option<String>,
    keyring: Option<KeyringError>,
    differences: Vec<String>,
) -> HealthOfPart {
    if trouble.is_some() {
        return part(trouble);
    }
    let keyring = keyring.filter(|error| *error != KeyringError::NoRootKey);
    let faults = keyring.map(|error| error.to_string());
    let faults: Vec<String> = faults.into_iter().chain(differences).collect();
    match faults.is_empty() {
        true => part(None),
        false => HealthOfPart {
            ok: true,
            message: faults.join("; "),
        },
    }
}

/// A server does its part when it is a voter that has applied what a majority had when it was
/// asked, or 50 ms before: one client that asks in a loop must not wait for the next barrier.
async fn server_trouble(api: &Api) -> Option<String> {
    let raft = api.cluster.raft();
    let barrier = || async { raft.read_barrier().await.is_ok() };
    let passed = api.cluster.access().health_barrier().pass_lately(barrier);
    let caught_up = matches!(timeout(CATCH_UP_MAX, passed).await, Ok(Ok(())));
    match raft.is_removed() {
        true => Some("no member of the cluster any more: it was removed or replaced".to_owned()),
        false => trouble(&api.cluster.status(), caught_up),
    }
}

/// What keeps the server's own node from doing its part; `None` where it has none.
fn node_trouble(api: &Api) -> Option<Option<String>> {
    let node = match api.own_node() {
        OwnNode::Absent => return None,
        OwnNode::NotJoined => return Some(Some("the node has not joined".to_owned())),
        OwnNode::Unreadable(error) => return Some(Some(error)),
        OwnNode::Known(node) => node,
    };
    let snapshot = api.cluster.snapshot();
    Some(match snapshot.node(node).map(|record| record.node.status) {
        Some(NodeStatus::Ready) => None,
        Some(status) => Some(format!("the node is {}", status.as_str())),
        None => Some("the node has not joined".to_owned()),
    })
}

/// What keeps a server from doing its part. `caught_up` says whether it could apply all that was on
/// a majority: without one, no server can say so.
fn trouble(status: &RaftStatus, caught_up: bool) -> Option<String> {
    if let Some(failure) = &status.failure {
        return Some(failure.to_string());
    }
    let Some(leader) = &status.leader else {
        return Some("no cluster leader".to_owned());
    };
    if !status.membership.voters.contains_key(&status.id) {
        return Some("not a voter of the cluster".to_owned());
    }
    if caught_up {
        return None;
    }
    if leader.id == status.id {
        return Some("leads, but no majority of the servers answers".to_owned());
    }
    Some(format!(
        "not caught up with the leader: applied {} of {} entries that it knows of",
        status.applied_index, status.committed_index
    ))
}

#[cfg(test)]
mod tests {
    use controlplane_raft::{Leader, Membership, RaftRole, ServerId, ServerInfo};

    use super::*;

    /// A follower that belongs to the cluster and knows its leader.
    fn follower() -> RaftStatus {
        let [own, leader] = [1, 2].map(ServerId::from_u64);
        let voters = [own, leader].map(|id| (id, ServerInfo::default()));
        RaftStatus {
            id: own,
            role: RaftRole::Follower,
            term: 3,
            leader: Some(Leader {
                id: leader,
                info: None,
            }),
            last_index: 90,
            committed_index: 90,
            applied_index: 40,
            snapshot_index: 0,
            purged_index: 0,
            membership: Membership {
                voters: voters.into(),
                ..Membership::default()
            },
            failure: None,
        }
    }

    #[test]
    fn a_voter_that_has_what_the_others_have_is_well() {
        assert_eq!(trouble(&follower(), true), None);
    }

    #[test]
    fn a_missing_kek_is_named_and_makes_no_server_unwell() {
        let kek = [0xab; 8].into();
        let missing = Some(KeyringError::Missing { kek });
        let shown = server_part(None, missing, Vec::new());
        assert!(shown.ok);
        assert!(shown.message.contains("KEK abababababababab is missing"));
        let differs = || vec!["acl.enabled is true here".to_owned()];
        let both = server_part(None, missing, differs());
        assert!(both.ok);
        assert!(
            both.message
                .ends_with("is missing; acl.enabled is true here")
        );
        let unwell = server_part(Some("no cluster leader".to_owned()), missing, differs());
        assert_eq!(
            (unwell.ok, unwell.message.as_str()),
            (false, "no cluster leader")
        );
        let early = server_part(None, Some(KeyringError::NoRootKey), Vec::new());
        assert_eq!((early.ok, early.message.as_str()), (true, "ok"));
    }

    #[test]
    fn a_server_that_only_knows_its_leader_is_not_well() {
        let said = trouble(&follower(), false).expect("it is behind");
        assert!(said.contains("applied 40 of 90"), "{said}");
        let leads = RaftStatus {
            id: ServerId::from_u64(2),
            ..follower()
        };
        let said = trouble(&leads, false).expect("it is alone");
        assert!(said.contains("no majority"), "{said}");
    }

    #[test]
    fn who_knows_no_leader_or_does_not_vote_is_not_well() {
        let alone = RaftStatus {
            leader: None,
            ..follower()
        };
        assert_eq!(trouble(&alone, true).as_deref(), Some("no cluster leader"));
        let mut learner = follower();
        learner.membership.voters.remove(&ServerId::from_u64(1));
        let said = trouble(&learner, true).expect("it is on its way");
        assert!(said.contains("not a voter"), "{said}");
    }
}
