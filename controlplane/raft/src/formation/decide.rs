//! What a server without a cluster should do next. Pure.
//!
//! ```text
//!                      +-- promised to another, who is a member --> Join
//!   promised? --yes----+-- promised to another ------------------> Wait
//!      |               +-- promised to itself -------------------> Propose (again)
//!      no
//!      |
//!   some peer is a member? --yes--> Join
//!      no
//!   expected number known, and our id the lowest of them? --yes--> Propose
//!      no
//!   Wait
//! ```
//!
//! A proposer forms the cluster only when every member has durably promised itself to this very
//! cluster, and a promised server promises itself to nobody else. So two clusters never share a
//! member, whoever crashes when.

use std::collections::BTreeMap;

use crate::member::{ServerId, ServerInfo};
use crate::network::call::Introduction;

/// A promise to be in one cluster and no other, until released by who asked for it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pledge {
    pub(crate) to: ServerId,
    pub(crate) members: Vec<(ServerId, ServerInfo)>,
}

/// What is known when a decision is due.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) own: &'a Introduction,
    pub(crate) pledge: Option<&'a Pledge>,
    /// The peers that answered in this round.
    pub(crate) peers: &'a BTreeMap<ServerId, Introduction>,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait(WaitReason),
    /// Ask these addresses in turn to be taken in.
    Join(Vec<String>),
    /// Collect promises for a cluster of these, then form it.
    Propose(Vec<(ServerId, ServerInfo)>),
}

/// Why nothing can be done now; shown to operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WaitReason {
    #[error("no server of a cluster answers, and bootstrap_expect is not set")]
    NoCluster,
    #[error("{found} of {expected} expected servers are known")]
    TooFew { found: usize, expected: u32 },
    #[error("server {lowest} has the lowest id and forms the cluster")]
    NotLowest { lowest: ServerId },
    #[error("this server promised itself to the cluster of server {to}")]
    Promised { to: ServerId },
    #[error("server {id} expects {theirs} servers, this one {ours}")]
    Disagreement {
        id: ServerId,
        theirs: u32,
        ours: u32,
    },
}

pub(crate) fn decide(view: &View<'_>) -> Step {
    let View { own, pledge, peers } = *view;
    match pledge {
        Some(pledge) if pledge.to == own.id => return Step::Propose(pledge.members.clone()),
        Some(pledge) => {
            return match peers.get(&pledge.to) {
                Some(peer) if peer.member => Step::Join(addresses(peer)),
                _ => Step::Wait(WaitReason::Promised { to: pledge.to }),
            };
        }
        None => {}
    }
    let members: Vec<&Introduction> = peers.values().filter(|peer| peer.member).collect();
    if !members.is_empty() {
        let mut all: Vec<String> = Vec::new();
        for address in members.iter().flat_map(|member| addresses(member)) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        return Step::Join(all);
    }
    let expected = own.bootstrap_expect;
    if expected == 0 {
        return Step::Wait(WaitReason::NoCluster);
    }
    let voting = |peer: &&Introduction| peer.bootstrap_expect != 0;
    if let Some(peer) = peers
        .values()
        .filter(voting)
        .find(|peer| peer.bootstrap_expect != expected)
    {
        let (id, theirs) = (peer.id, peer.bootstrap_expect);
        return Step::Wait(WaitReason::Disagreement {
            id,
            theirs,
            ours: expected,
        });
    }
    let mut candidates: BTreeMap<ServerId, &ServerInfo> = peers
        .values()
        .filter(voting)
        .map(|peer| (peer.id, &peer.info))
        .collect();
    candidates.insert(own.id, &own.info);
    if candidates.len() < expected as usize {
        return Step::Wait(WaitReason::TooFew {
            found: candidates.len(),
            expected,
        });
    }
    match candidates.first_key_value() {
        Some((lowest, _)) if *lowest != own.id => {
            Step::Wait(WaitReason::NotLowest { lowest: *lowest })
        }
        _ => Step::Propose(
            candidates
                .into_iter()
                .take(expected as usize)
                .map(|(id, info)| (id, info.clone()))
                .collect(),
        ),
    }
}

/// Where to ask: the leader that a member knows of, then the member itself.
fn addresses(member: &Introduction) -> Vec<String> {
    let leader = member.leader.as_ref().map(|leader| leader.address.clone());
    leader
        .into_iter()
        .chain([member.info.address.clone()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u64, bootstrap_expect: u32) -> Introduction {
        Introduction {
            id: ServerId::from_u64(id),
            info: ServerInfo {
                name: String::new(),
                address: format!("host-{id}:4647"),
                http_address: String::new(),
            },
            bootstrap_expect,
            member: false,
            leader: None,
            heard_of: Vec::new(),
        }
    }

    fn member(id: u64) -> Introduction {
        Introduction {
            member: true,
            ..server(id, 3)
        }
    }

    fn step(own: &Introduction, pledge: Option<&Pledge>, peers: &[Introduction]) -> Step {
        let peers = peers.iter().map(|peer| (peer.id, peer.clone())).collect();
        decide(&View {
            own,
            pledge,
            peers: &peers,
        })
    }

    fn pledge(to: u64) -> Pledge {
        let info = server(to, 3).info;
        Pledge {
            to: ServerId::from_u64(to),
            members: vec![(ServerId::from_u64(to), info)],
        }
    }

    #[test]
    fn only_the_lowest_of_the_expected_proposes() {
        let all = [server(1, 3), server(2, 3), server(3, 3)];
        let members: Vec<_> = all.iter().map(|one| (one.id, one.info.clone())).collect();
        assert_eq!(step(&all[0], None, &all[1..]), Step::Propose(members));
        let waits = Step::Wait(WaitReason::NotLowest {
            lowest: ServerId::from_u64(1),
        });
        assert_eq!(
            step(&all[1], None, &[all[0].clone(), all[2].clone()]),
            waits
        );
    }

    #[test]
    fn fewer_than_expected_wait() {
        let found = step(&server(1, 3), None, &[server(2, 3)]);
        assert_eq!(
            found,
            Step::Wait(WaitReason::TooFew {
                found: 2,
                expected: 3
            })
        );
    }

    #[test]
    fn a_server_that_expects_itself_alone_proposes_itself() {
        let own = server(4, 1);
        assert_eq!(
            step(&own, None, &[]),
            Step::Propose(vec![(own.id, own.info.clone())])
        );
    }

    #[test]
    fn an_existing_cluster_is_joined_whatever_is_expected() {
        let found = step(&server(1, 3), None, &[server(2, 3), member(3)]);
        assert_eq!(found, Step::Join(vec!["host-3:4647".into()]));
    }

    #[test]
    fn a_promise_binds_until_its_cluster_exists() {
        let own = server(2, 3);
        let promise = pledge(1);
        let to = ServerId::from_u64(1);
        let waits = Step::Wait(WaitReason::Promised { to });
        assert_eq!(
            step(&own, Some(&promise), &[server(1, 3), member(3)]),
            waits
        );
        let joins = Step::Join(vec!["host-1:4647".into()]);
        assert_eq!(step(&own, Some(&promise), &[member(1)]), joins);
    }

    #[test]
    fn a_proposer_that_restarts_asks_the_same_servers_again() {
        let promise = pledge(1);
        let found = step(&server(1, 3), Some(&promise), &[]);
        assert_eq!(found, Step::Propose(promise.members.clone()));
    }

    #[test]
    fn servers_that_disagree_about_the_number_wait() {
        let found = step(&server(1, 3), None, &[server(2, 5), server(3, 3)]);
        assert!(
            matches!(found, Step::Wait(WaitReason::Disagreement { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn a_server_that_only_joins_is_not_counted() {
        let found = step(&server(1, 2), None, &[server(2, 0)]);
        assert_eq!(
            found,
            Step::Wait(WaitReason::TooFew {
                found: 1,
                expected: 2
            })
        );
    }
}
