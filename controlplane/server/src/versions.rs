//! Which build each server runs, and which commands it reads: asked of every member again and
//! again, so that nothing enters the log that would stop one of them.
//!
//! A server that was never heard of since this one started may be of the first release. One that
//! falls silent is what it said last: it can only come back as itself or newer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controlplane_raft::{Membership, ServerId};
use controlplane_state::COMMAND_LEVEL;
use futures::future::join_all;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::timeout;

use crate::cluster::Cluster;

/// What this server is.
pub(crate) const BUILD: &str = env!("CARGO_PKG_VERSION");
/// How often the others are asked.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long one may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The level of a server that does not answer the question.
const FIRST_LEVEL: u32 = 1;

/// What a server says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// Its release.
    pub(crate) build: String,
    /// The highest level of commands that it reads.
    pub(crate) level: u32,
}

/// What is known of the other servers.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    known: Mutex<BTreeMap<ServerId, About>>,
}

impl Versions {
    /// Who would not understand a command of `level`, and which build it runs, if that is known.
    pub(crate) fn too_old(
        &self,
        level: u32,
        own: ServerId,
        members: &Membership,
    ) -> Option<(ServerId, Option<String>)> {
        if level <= FIRST_LEVEL {
            return None;
        }
        let known = self.lock();
        let mut others = members.voters.keys().chain(members.learners.keys());
        let old = others.find(|id| {
            let reads = known.get(*id).map_or(FIRST_LEVEL, |about| about.level);
            **id != own && reads < level
        })?;
        Some((*old, known.get(old).map(|about| about.build.clone())))
    }

    fn take_in(&self, members: &Membership, answers: Vec<(ServerId, Option<About>)>) {
        let mut known = self.lock();
        known.retain(|id, _| members.contains(*id));
        for (id, about) in answers {
            if let Some(about) = about {
                known.insert(id, about);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerId, About>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This server's own answer.
pub(crate) fn own() -> v1::AboutReply {
    v1::AboutReply {
        build: BUILD.to_owned(),
        command_level: COMMAND_LEVEL,
    }
}

/// Asks the server at `address`; `None` where it does not answer, or not this question.
pub(crate) async fn ask(cluster: &Cluster, address: &str) -> Option<About> {
    let request = v1::AboutRequest {};
    let asked = cluster.call_address(address, StreamKind::Forward, &request);
    let reply: v1::AboutReply = timeout(ANSWER_MAX, asked).await.ok()?.ok()?;
    Some(About {
        build: reply.build,
        level: reply.command_level,
    })
}

/// Asks every other member, for as long as the server runs.
pub(crate) async fn watch(cluster: Cluster) {
    let mut status = cluster.watch_status();
    loop {
        let members = status.borrow_and_update().membership.clone();
        let own = cluster.server_id();
        let all = members.voters.iter().chain(&members.learners);
        let others = all.filter(|(id, _)| **id != own);
        let asked = others.map(|(id, info)| {
            let cluster = &cluster;
            async move { (*id, ask(cluster, &info.address).await) }
        });
        let answers = join_all(asked).await;
        cluster.versions().take_in(&members, answers);
        let changed = async { status.wait_for(|it| it.membership != members).await.is_ok() };
        if timeout(ASK_EVERY, changed).await == Ok(false) {
            // The log is gone, and nobody is left to ask: whoever leads notices, and says so.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_raft::ServerInfo;

    use super::*;

    fn about(level: u32) -> Option<About> {
        Some(About {
            build: format!("0.{level}.0"),
            level,
        })
    }

    #[test]
    fn what_a_member_would_not_understand_is_not_written() {
        let [own, old, new] = [1, 2, 3].map(ServerId::from_u64);
        let mut members = Membership::default();
        for id in [own, old, new] {
            members.voters.insert(id, ServerInfo::default());
        }
        let versions = Versions::default();
        assert_eq!(versions.too_old(1, own, &members), None, "all read these");
        let unknown = Some((old, None));
        assert_eq!(versions.too_old(2, own, &members), unknown);
        versions.take_in(&members, vec![(old, about(1)), (new, about(2))]);
        let named = Some((old, Some("0.1.0".to_owned())));
        assert_eq!(versions.too_old(2, own, &members), named);
        // It is upgraded, falls silent, and is still what it said.
        versions.take_in(&members, vec![(old, about(2))]);
        versions.take_in(&members, vec![(old, None), (new, None)]);
        assert_eq!(versions.too_old(2, own, &members), None);
        // One that is no member any more is forgotten: its id may come back as anything.
        members.voters.remove(&old);
        versions.take_in(&members, Vec::new());
        members.voters.insert(old, ServerInfo::default());
        assert_eq!(versions.too_old(2, own, &members), unknown);
    }
}
