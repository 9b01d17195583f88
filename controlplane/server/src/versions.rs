//! Which build each server runs, and which commands it reads: asked of every member again and
//! again, so that nothing enters the log that would stop one of them.
//!
//! A server that was never heard of since this one started may be of the first release. One that
//! falls silent is what it said last: it can only come back as itself or newer.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use controlplane_raft::{Membership, ServerId};
use controlplane_state::COMMAND_LEVEL;
use futures::future::join_all;
use parking_lot::Mutex;
use protocol_model::UnixNanos;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;
use crate::config::Config;
use crate::differences::{ClockAhead, ClockWarnings};

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
    /// Where it says that it is; empty where it is of a release that does not say it.
    pub(crate) datacenter: String,
    /// Whether its access control is on; `None` where it is of a release that does not say it.
    pub(crate) acl_enabled: Option<bool>,
    /// The issuer of its identities, empty where none is set; `None` where it is of a release that
    /// does not say it.
    pub(crate) issuer: Option<String>,
    /// How far its clock is ahead of this server's.
    pub(crate) clock: Option<ClockAhead>,
}

/// A server whose release cannot read a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TooOld {
    pub(crate) id: ServerId,
    /// Empty where it is not known.
    pub(crate) name: String,
    /// `None` where it has not said what it runs.
    pub(crate) release: Option<String>,
}

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, release } = self;
        match name.as_str() {
            "" => write!(f, "server {id}")?,
            name => write!(f, "server {name} ({id})")?,
        }
        match release {
            Some(release) => write!(
                f,
                " runs release {release}, which cannot read this change: upgrade it first"
            ),
            None => f.write_str(
                " has not said which release it runs, and may not be able to read this change: \
                 start it, upgrade it, or remove it, first",
            ),
        }
    }
}

/// What is known of the other servers.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    known: Mutex<BTreeMap<ServerId, About>>,
}

impl Versions {
    /// Who would not understand a command of `level`.
    pub(crate) fn too_old(
        &self,
        level: u32,
        own: ServerId,
        members: &Membership,
    ) -> Option<TooOld> {
        if level <= FIRST_LEVEL {
            return None;
        }
        let known = self.known.lock();
        let mut others = members.voters.iter().chain(&members.learners);
        let (id, info) = others.find(|(id, _)| {
            let reads = known.get(*id).map_or(FIRST_LEVEL, |about| about.level);
            **id != own && reads < level
        })?;
        Some(TooOld {
            id: *id,
            name: info.name.clone(),
            release: known.get(id).map(|about| about.build.clone()),
        })
    }

    /// As [`Self::too_old`], among the members that have said what they run.
    pub(crate) fn known_too_old(
        &self,
        level: u32,
        own: ServerId,
        members: &Membership,
    ) -> Option<TooOld> {
        let known = self.known.lock();
        let mut others = known.iter().filter(|(id, _)| **id != own);
        let (info, (id, about)) = others.find_map(|(id, about)| {
            let info = members.get(*id).filter(|_| about.level < level)?;
            Some((info, (*id, about)))
        })?;
        Some(TooOld {
            id,
            name: info.name.clone(),
            release: Some(about.build.clone()),
        })
    }

    /// A member whose access control is not as this server's: the text for an operator.
    pub(crate) fn differing_acl(&self, own_is_on: bool, members: &Membership) -> Option<String> {
        let known = self.known.lock();
        let mut others = known.iter().filter(|(id, _)| members.contains(**id));
        let (id, _) = others.find(|(_, about)| about.acl_enabled == Some(!own_is_on))?;
        let name = members.get(*id).map_or("", |info| info.name.as_str());
        Some(format!(
            "acl.enabled is {own_is_on} here and {} on server {name} ({id}): set it alike on all",
            !own_is_on
        ))
    }

    /// A member whose issuer of identities is not `own`: the text for an operator.
    pub(crate) fn differing_issuer(
        &self,
        own: Option<&str>,
        members: &Membership,
    ) -> Option<String> {
        let own = own.unwrap_or_default();
        let known = self.known.lock();
        let mut others = known.iter().filter(|(id, _)| members.contains(**id));
        let (id, theirs) = others.find_map(|(id, about)| {
            let issuer = about.issuer.as_deref().filter(|issuer| *issuer != own)?;
            Some((id, issuer))
        })?;
        let name = members.get(*id).map_or("", |info| info.name.as_str());
        Some(format!(
            "server.oidc_issuer is {own:?} here and {theirs:?} on server {name} ({id}): set it \
             alike on all"
        ))
    }

    fn take_in(&self, members: &Membership, answers: Vec<(ServerId, Option<About>)>) {
        let mut known = self.known.lock();
        known.retain(|id, _| members.contains(*id));
        for (id, about) in answers {
            if let Some(about) = about {
                known.insert(id, about);
            }
        }
    }
}

/// This server's own answer.
pub(crate) fn own(cluster: &Cluster, config: &Config) -> v1::AboutReply {
    v1::AboutReply {
        build: BUILD.to_owned(),
        command_level: COMMAND_LEVEL,
        datacenter: config.datacenter.clone(),
        acl_enabled: Some(cluster.access().is_on()),
        time_ns: Some(cluster.wall_clock().0),
        oidc_issuer: Some(config.oidc_issuer.clone().unwrap_or_default()),
    }
}

/// Asks the server at `address`; `None` where it does not answer, or not this question.
pub(crate) async fn ask(cluster: &Cluster, address: &str) -> Option<About> {
    let request = v1::AboutRequest {};
    let asked = cluster.call_address(address, StreamKind::Forward, &request);
    let (asked_at, begun) = (cluster.wall_clock(), Instant::now());
    let reply: v1::AboutReply = timeout(ANSWER_MAX, asked).await.ok()?.ok()?;
    let clock = |theirs| ClockAhead::of(UnixNanos(theirs), asked_at, begun.elapsed());
    Some(About {
        build: reply.build,
        level: reply.command_level,
        datacenter: reply.datacenter,
        acl_enabled: reply.acl_enabled,
        issuer: reply.oidc_issuer,
        clock: reply.time_ns.map(clock),
    })
}

/// Asks every other member, for as long as the server runs.
pub(crate) async fn watch(cluster: Cluster) {
    let mut status = cluster.watch_status();
    let mut clocks = ClockWarnings::default();
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
        clocks.retain(&members);
        for (id, about) in &answers {
            if let Some(ahead) = about.as_ref().and_then(|about| about.clock) {
                clocks.look(&members, *id, ahead);
            }
        }
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
            datacenter: String::new(),
            acl_enabled: None,
            issuer: None,
            clock: None,
        })
    }

    #[test]
    fn server_with_another_access_control_is_named() {
        let [own, other] = [1, 2].map(ServerId::from_u64);
        let mut members = Membership::default();
        for (id, name) in [(own, "a"), (other, "b")] {
            let name = name.to_owned();
            let info = ServerInfo {
                name,
                ..ServerInfo::default()
            };
            members.voters.insert(id, info);
        }
        let versions = Versions::default();
        let mut says = about(3);
        for (acl_enabled, own_is_on, differs) in [
            (None, true, false),
            (Some(true), true, false),
            (Some(false), true, true),
            (Some(true), false, true),
        ] {
            says.as_mut().expect("it answers").acl_enabled = acl_enabled;
            versions.take_in(&members, vec![(other, says.clone())]);
            let differing = versions.differing_acl(own_is_on, &members);
            assert_eq!(differing.is_some(), differs, "{acl_enabled:?}");
            if let Some(text) = differing {
                let named = format!("{} on server b ({other})", !own_is_on);
                assert!(text.contains(&named), "{text}");
            }
        }
        members.voters.remove(&other);
        assert_eq!(versions.differing_acl(false, &members), None);
    }

    #[test]
    fn server_with_another_issuer_is_named() {
        let other = ServerId::from_u64(2);
        let mut members = Membership::default();
        let info = ServerInfo {
            name: "b".to_owned(),
            ..ServerInfo::default()
        };
        members.voters.insert(other, info);
        let versions = Versions::default();
        for (theirs, own, shown) in [
            (None, Some("https://a.example"), None),
            (Some("https://a.example"), Some("https://a.example"), None),
            (Some(""), None, None),
            (Some(""), Some("https://a.example"), Some("and \"\" on")),
            (
                Some("https://b.example"),
                None,
                Some("is \"\" here and \"https://b.example\" on server b ("),
            ),
        ] {
            let says = about(4).map(|about| About {
                issuer: theirs.map(str::to_owned),
                ..about
            });
            versions.take_in(&members, vec![(other, says)]);
            let differing = versions.differing_issuer(own, &members);
            assert_eq!(differing.is_some(), shown.is_some(), "{differing:?}");
            let text = differing.unwrap_or_default();
            assert!(text.contains(shown.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn what_a_member_would_not_understand_is_not_written() {
        let [own, old, new] = [1, 2, 3].map(ServerId::from_u64);
        let mut members = Membership::default();
        for (id, name) in [(own, "a"), (old, "b"), (new, "c")] {
            let name = name.to_owned();
            members.voters.insert(
                id,
                ServerInfo {
                    name,
                    ..ServerInfo::default()
                },
            );
        }
        let versions = Versions::default();
        assert_eq!(versions.too_old(1, own, &members), None, "all read these");
        let named = |release: Option<&str>| TooOld {
            id: old,
            name: "b".to_owned(),
            release: release.map(str::to_owned),
        };
        let unknown = Some(named(None));
        assert_eq!(versions.too_old(2, own, &members), unknown);
        assert_eq!(versions.known_too_old(2, own, &members), None, "it is down");
        versions.take_in(&members, vec![(old, about(1)), (new, about(2))]);
        let known = Some(named(Some("0.1.0")));
        assert_eq!(versions.too_old(2, own, &members), known);
        assert_eq!(versions.known_too_old(2, own, &members), known);
        assert_eq!(versions.known_too_old(1, own, &members), None);
        // It is upgraded, falls silent, and is still what it said.
        versions.take_in(&members, vec![(old, about(2))]);
        versions.take_in(&members, vec![(old, None), (new, None)]);
        assert_eq!(versions.too_old(2, own, &members), None);
        // One that is no member any more is forgotten: its id may come back as anything.
        let again = members.voters.remove(&old).expect("it was a member");
        versions.take_in(&members, Vec::new());
        members.voters.insert(old, again);
        assert_eq!(versions.too_old(2, own, &members), unknown);
    }

    #[test]
    fn whoever_is_too_old_is_named_with_its_release_and_what_to_do() {
        let mut old = TooOld {
            id: ServerId::from_u64(2),
            name: "beta".to_owned(),
            release: Some("0.1.0".to_owned()),
        };
        let id = old.id;
        assert_eq!(
            old.to_string(),
            format!(
                "server beta ({id}) runs release 0.1.0, which cannot read this change: upgrade it \
                 first"
            )
        );
        old.release = None;
        assert!(old.to_string().contains("has not said which release"));
    }
}
