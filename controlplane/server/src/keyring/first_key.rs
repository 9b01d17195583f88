//! The shell around [`FirstKey`]: one attempt of a leader, in one term.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controlplane_keyring::{FirstKey, FirstKeyStep, Kek, KekId};
use controlplane_raft::{Membership, ServerId};
use controlplane_state::Command;
use controlplane_state::command::{ACCESS_LEVEL, RootKeyUpsert, Rotation};
use futures::future::join_all;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::make::wrapped;
use super::peers;
use super::service::KekService;
use crate::cluster::{ChangeError, Cluster, LeadingError};

/// The pause before a step is repeated that moved nothing.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// The pause where the cluster is not founded yet, or the log did not take an entry.
const EARLY_PAUSE: Duration = Duration::from_millis(100);
/// The pause while a server is too old to read the command.
const OLD_SERVER_PAUSE: Duration = Duration::from_secs(1);

/// Makes the first root key, as the leader of `term`, unless there is one. Answers after which
/// pause to try again; `None` where there is nothing to do.
pub(super) async fn make(service: &KekService, cluster: &Cluster, term: u64) -> Option<Duration> {
    let snapshot = cluster.snapshot();
    if snapshot.active_root_key().is_some() {
        return None;
    }
    if snapshot.cluster().incarnation.is_none() {
        return Some(EARLY_PAUSE);
    }
    if let Some(old) = cluster.too_old(ACCESS_LEVEL) {
        tracing::debug!(reason = %old, "the first root key waits");
        return Some(OLD_SERVER_PAUSE);
    }
    // Entries of earlier leaders are applied here once this barrier is.
    if cluster
        .change_as_leader(Command::Barrier, term)
        .await
        .is_err()
    {
        return Some(EARLY_PAUSE);
    }
    let mut attempt = Attempt {
        service,
        cluster,
        term,
        known: BTreeMap::new(),
    };
    // Every server has the one that the operator names: there is none to look for.
    if let Some(wanted) = service.wanted() {
        match service.wrapping() {
            Ok(kek) => attempt.known.insert(wanted, kek),
            Err(reason) => {
                tracing::error!(%reason, "the first root key waits for its KEK");
                return Some(OLD_SERVER_PAUSE);
            }
        };
        return attempt.propose(wanted).await;
    }
    let mut machine = FirstKey::new(voters(cluster));
    while cluster.leads_in(term) && cluster.snapshot().active_root_key().is_none() {
        let step = machine.next();
        if let FirstKeyStep::Propose(kek) = step {
            return attempt.propose(kek).await;
        }
        attempt.carry_out(step.clone(), &mut machine).await;
        machine.on_voters(voters(cluster));
        if machine.next() == step {
            sleep(STEP_PAUSE).await;
        }
    }
    None
}

fn voters(cluster: &Cluster) -> BTreeSet<u64> {
    let voters = cluster.status().membership.voters;
    voters.into_keys().map(ServerId::as_u64).collect()
}

struct Attempt<'a> {
    service: &'a KekService,
    cluster: &'a Cluster,
    term: u64,
    /// The KEKs that were answered or made.
    known: BTreeMap<KekId, Kek>,
}

impl Attempt<'_> {
    async fn carry_out(&mut self, step: FirstKeyStep, machine: &mut FirstKey) {
        match step {
            FirstKeyStep::Ask(servers) => self.ask(servers, machine).await,
            FirstKeyStep::Make => {
                let kek = Kek::generate();
                machine.on_made(kek.id());
                self.known.insert(kek.id(), kek);
            }
            FirstKeyStep::Store(kek, servers) => self.hand_out(kek, servers, machine).await,
            FirstKeyStep::Propose(_) => {}
        }
    }

    async fn ask(&mut self, servers: BTreeSet<u64>, machine: &mut FirstKey) {
        let members = self.cluster.status().membership;
        let asked = servers.into_iter().map(|server| {
            let (attempt, members) = (&*self, &members);
            async move { (server, attempt.keks_of(server, members).await) }
        });
        for (server, answer) in join_all(asked).await {
            match answer {
                Ok(keks) => {
                    machine.on_answer(server, keks.iter().map(Kek::id));
                    self.known
                        .extend(keks.into_iter().map(|kek| (kek.id(), kek)));
                }
                Err(reason) => {
                    tracing::debug!(server, reason, "a server did not answer which KEKs it has");
                }
            }
        }
        machine.on_round();
    }

    async fn keks_of(&self, server: u64, members: &Membership) -> Result<Vec<Kek>, String> {
        let id = ServerId::from_u64(server);
        if id == self.cluster.server_id() {
            return Ok(self.service.keks(None));
        }
        let info = members.get(id).ok_or("it is no member any more")?;
        peers::ask(self.service, self.cluster, (&id, info), None).await
    }

    async fn hand_out(&self, id: KekId, servers: BTreeSet<u64>, machine: &mut FirstKey) {
        let Some(kek) = self.known.get(&id) else {
            return;
        };
        let members = self.cluster.status().membership;
        let handed = servers.into_iter().map(|server| {
            let members = &members;
            async move { (server, self.hand_to(server, members, kek).await) }
        });
        for (server, stored) in join_all(handed).await {
            match stored {
                Ok(()) => machine.on_stored(server, id),
                Err(reason) => tracing::warn!(server, kek = %id, reason, "a KEK is not stored"),
            }
        }
    }

    async fn hand_to(&self, server: u64, members: &Membership, kek: &Kek) -> Result<(), String> {
        let id = ServerId::from_u64(server);
        if id == self.cluster.server_id() {
            return self.service.keep(kek.clone()).await;
        }
        let info = members.get(id).ok_or("it is no member any more")?;
        peers::hand_out(self.service, self.cluster, (&id, info), self.term, kek).await
    }

    /// Makes the root key and proposes it. Answers as [`make`].
    async fn propose(&self, id: KekId) -> Option<Duration> {
        let kek = self.known.get(&id)?.clone();
        // RSA: 100 ms of a processor.
        let made = spawn_blocking(move || wrapped(&kek, None)).await;
        let key = match made {
            Ok(Ok(key)) => key,
            Ok(Err(error)) => {
                tracing::error!(%error, "no root key was made");
                return Some(OLD_SERVER_PAUSE);
            }
            Err(error) => {
                tracing::error!(%error, "no root key was made");
                return Some(OLD_SERVER_PAUSE);
            }
        };
        let root_key = key.id;
        let upsert = RootKeyUpsert {
            key,
            replaces: None,
            rotation: Rotation::Plain,
        };
        let command = Command::from(upsert);
        match self.cluster.change_as_leader(command, self.term).await {
            Ok(_) => {
                tracing::info!(
                    %root_key,
                    kek = %id,
                    "the first root key was made: keep a copy of its KEK file, apart from snapshots"
                );
                None
            }
            // An earlier leader's entry came first.
            Err(LeadingError::Change(ChangeError::Refused(refusal))) => {
                tracing::info!(%refusal, "the first root key is there already");
                Some(EARLY_PAUSE)
            }
            Err(error) => {
                tracing::warn!(%error, "the first root key is not in the log; it is made again");
                Some(EARLY_PAUSE)
            }
        }
    }
}
