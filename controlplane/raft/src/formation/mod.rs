//! How a server becomes part of a cluster: by forming one with its peers, once, or by joining one.
//!
//! This is the shell: it asks peers, keeps the promise on disk, and does what [`decide`] says.
//! The promise is in the file `formation`, synced before it is given.

mod decide;
mod promise;
mod removal;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{InitializeError, RaftError};
use parking_lot::Mutex;
use protocol_error_chain::chain;
use tokio::sync::watch;
use tokio::time::Instant;

use self::decide::{Pledge, Step, View, decide};
use self::promise::Promise;
use self::told::Told;
use crate::engine::Core;
use crate::error::StoppedError;
use crate::member::{ServerId, ServerInfo};
use crate::network::call::{
    Call, CallKind, Introduction, JoinAnswer, JoinCall, PledgeAnswer, PledgeCall,
};
use crate::network::client::Caller;
use crate::record::{self, RecordError};
use crate::status::RaftStatus;
use crate::store::disk::Disk;

/// Addresses that a server remembers having heard of; further ones are not remembered.
const HEARD_OF_MAX: usize = 16;
/// Members that a cluster may be formed of or grow to.
pub(crate) const SERVERS_MAX: usize = 16;
const CALL_LIMIT: Duration = Duration::from_secs(3);
const ROUND: Duration = Duration::from_millis(500);

/// Whom one round of introductions reached.
#[derive(Debug, Default)]
struct Introduced {
    peers: BTreeMap<ServerId, Introduction>,
    /// Why others did not answer, by address.
    unreached: BTreeMap<String, String>,
}

/// What came of one round.
#[derive(Debug)]
struct Round {
    /// Why nothing changed.
    reason: Option<String>,
    unreached: BTreeMap<String, String>,
}

/// Why a server can never become part of a cluster as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error(
        "bootstrap_expect 1 forms a cluster alone, retry_join joins others: remove one of the two"
    )]
    AloneAndJoining,
    #[error("bootstrap_expect {0} is above 16")]
    TooMany(u32),
    #[error("neither bootstrap_expect nor retry_join is set: there is no cluster to be in")]
    Nothing,
    #[error("keeping the promise to a cluster")]
    Promise(#[source] std::io::Error),
    #[error("the log has stopped")]
    Stopped(#[source] StoppedError),
    #[error("the library refuses the first membership: {0}")]
    Refused(String),
}

/// The part of a server that knows how it gets into its cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Formation {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Formation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Formation")
            .field("own", &self.inner.own_id)
            .finish_non_exhaustive()
    }
}

struct Inner {
    core: Core,
    caller: Caller,
    own_id: ServerId,
    own_info: ServerInfo,
    status: watch::Receiver<RaftStatus>,
    promise: Promise,
    expect: Mutex<u32>,
    heard_of: Mutex<BTreeSet<String>>,
    admission: Arc<dyn Admission>,
}

/// Taking servers in, which is the handle's business.
pub(crate) trait Admission: Send + Sync {
    fn admit(&self, id: ServerId, info: ServerInfo) -> futures::future::BoxFuture<'_, JoinAnswer>;
}

/// What a [`Formation`] is made of.
pub(crate) struct Parts {
    pub(crate) core: Core,
    pub(crate) caller: Caller,
    pub(crate) own_id: ServerId,
    pub(crate) own_info: ServerInfo,
    pub(crate) status: watch::Receiver<RaftStatus>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) admission: Arc<dyn Admission>,
}

impl Formation {
    pub(crate) fn open(parts: Parts) -> std::io::Result<Self> {
        let Parts {
            core,
            caller,
            own_id,
            own_info,
            status,
            disk,
            directory,
            admission,
        } = parts;
        let promise = Promise::open(disk, directory)?;
        let inner = Inner {
            core,
            caller,
            own_id,
            own_info,
            status,
            promise,
            expect: Mutex::new(0),
            heard_of: Mutex::default(),
            admission,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Works until this server votes in a cluster, reached where it is. See [`crate::Raft::form`].
    pub(crate) async fn run(&self, expect: u32, retry_join: &[String]) -> Result<(), FormError> {
        *self.inner.expect.lock() = expect;
        let mut status = self.inner.status.clone();
        let mut told = Told::default();
        loop {
            {
                let status = status.borrow_and_update();
                if let Some(failure) = &status.failure {
                    return Err(FormError::Stopped(failure.clone()));
                }
                match status.membership.voters.get(&self.inner.own_id) {
                    Some(info) if *info == self.inner.own_info => break,
                    Some(_) => {}
                    None => check(expect, retry_join)?,
                }
            }
            let Round { reason, unreached } = self.round(retry_join).await?;
            told.tell(reason, &unreached, Instant::now());
            // A change of the status may be the membership; otherwise try again in a while.
            let _ = tokio::time::timeout(ROUND, status.changed()).await;
        }
        self.inner.promise.clear().await.map_err(FormError::Promise)
    }

    /// One try.
    async fn round(&self, retry_join: &[String]) -> Result<Round, FormError> {
        let Introduced { peers, unreached } = self.introduce(retry_join).await;
        let reason = self.step(&peers).await?;
        Ok(Round { reason, unreached })
    }

    /// What follows from who answered; a text says why it changed nothing.
    async fn step(
        &self,
        peers: &BTreeMap<ServerId, Introduction>,
    ) -> Result<Option<String>, FormError> {
        let initialized = self
            .inner
            .core
            .is_initialized()
            .await
            .map_err(|fatal| FormError::Stopped(StoppedError::from_fatal(&fatal)))?;
        if initialized {
            // The log has arrived, but this server does not vote yet, or it has moved.
            return Ok(self.rejoin(peers).await.err());
        }
        let own = self.introduction();
        let pledge = self.inner.promise.current().await;
        match decide(&View {
            own: &own,
            pledge: pledge.as_ref(),
            peers,
        }) {
            Step::Wait(reason) => Ok(Some(reason.to_string())),
            Step::Join(addresses) => {
                let Some(_joining) = self.inner.promise.begin_joining(pledge.as_ref()) else {
                    return Ok(Some("this server promised itself a moment ago".to_owned()));
                };
                Ok(self.join(&addresses).await.err())
            }
            Step::Propose(members) => self.propose(members).await,
        }
    }

    /// Tells everyone we know who we are, and learns the same of them.
    async fn introduce(&self, known: &[String]) -> Introduced {
        let own = self.introduction();
        let mut addresses: BTreeSet<String> = known.iter().cloned().collect();
        addresses.extend(own.heard_of.iter().cloned());
        addresses.remove(&own.info.address);
        let calls = addresses.into_iter().map(|address| {
            let own = own.clone();
            async move {
                let answer: Result<Introduction, _> = self
                    .inner
                    .caller
                    .call(&address, 0, CallKind::Introduce, own, CALL_LIMIT)
                    .await;
                answer.map_err(|error| (address, chain(&error)))
            }
        });
        let mut introduced = Introduced::default();
        for answer in futures::future::join_all(calls).await {
            match answer {
                // Our own address may be listed under another name.
                Ok(peer) if peer.id == self.inner.own_id => {}
                Ok(peer) => {
                    self.hear_of(&peer);
                    introduced.peers.insert(peer.id, peer);
                }
                Err((address, reason)) => {
                    introduced.unreached.insert(address, reason);
                }
            }
        }
        introduced
    }

    fn leader_addresses(&self, peers: &BTreeMap<ServerId, Introduction>) -> Vec<String> {
        let known = self
            .inner
            .status
            .borrow()
            .leader
            .clone()
            .and_then(|leader| leader.info);
        let told = peers.values().filter_map(|peer| peer.leader.clone());
        let mut addresses: Vec<String> = known
            .into_iter()
            .chain(told)
            .map(|info| info.address)
            .collect();
        addresses.dedup();
        addresses
    }

    /// Asks the leader for what is missing: a vote, or to be reached at another address.
    async fn rejoin(&self, peers: &BTreeMap<ServerId, Introduction>) -> Result<(), String> {
        let leads = self.inner.status.borrow().is_leader();
        if !leads {
            return self.join(&self.leader_addresses(peers)).await;
        }
        let Inner {
            admission,
            own_id,
            own_info,
            ..
        } = &*self.inner;
        match admission.admit(*own_id, own_info.clone()).await {
            JoinAnswer::Joined => Ok(()),
            JoinAnswer::NotLeader(_) => Err("no longer the leader".to_owned()),
            JoinAnswer::Refused(reason) => Err(reason),
        }
    }

    /// Asks to be taken in, following pointers to the leader.
    async fn join(&self, addresses: &[String]) -> Result<(), String> {
        let mut queue: Vec<String> = addresses.iter().rev().cloned().collect();
        let mut asked = BTreeSet::new();
        let mut last = "no server to ask".to_owned();
        while let Some(address) = queue.pop() {
            if asked.len() >= SERVERS_MAX || !asked.insert(address.clone()) {
                continue;
            }
            let call = JoinCall {
                info: self.inner.own_info.clone(),
            };
            let limit = CALL_LIMIT * 3;
            match self
                .inner
                .caller
                .call(&address, 0, CallKind::Join, call, limit)
                .await
            {
                Ok(JoinAnswer::Joined) => return Ok(()),
                Ok(JoinAnswer::NotLeader(leader)) => {
                    last = format!("{address} does not lead");
                    queue.extend(leader.map(|leader| leader.address));
                }
                Ok(JoinAnswer::Refused(reason)) => last = format!("{address}: {reason}"),
                Err(error) => last = chain(&error),
            }
        }
        Err(last)
    }

    /// Collects everyone's promise, and forms the cluster when all are given.
    async fn propose(
        &self,
        members: Vec<(ServerId, ServerInfo)>,
    ) -> Result<Option<String>, FormError> {
        let own_id = self.inner.own_id;
        let pledge = Pledge {
            to: own_id,
            members: members.clone(),
        };
        let own = self
            .inner
            .promise
            .give(pledge)
            .await
            .map_err(FormError::Promise)?;
        if let Err(reason) = own {
            return Ok(Some(reason));
        }
        let others = members.iter().filter(|(id, _)| *id != own_id);
        let calls = others.map(|(id, info)| {
            let call = PledgeCall {
                members: members.clone(),
            };
            async move {
                let answer = self
                    .inner
                    .caller
                    .call(
                        &info.address,
                        id.as_u64(),
                        CallKind::Pledge,
                        call,
                        CALL_LIMIT,
                    )
                    .await;
                match answer {
                    Ok(PledgeAnswer::Pledged) => Ok(()),
                    Ok(PledgeAnswer::Refused(reason)) => Err(format!("server {id}: {reason}")),
                    Err(error) => Err(chain(&error)),
                }
            }
        });
        let answers = futures::future::join_all(calls).await;
        if let Some(refusal) = answers.into_iter().find_map(Result::err) {
            self.release(&members).await?;
            return Ok(Some(refusal));
        }
        let first: BTreeMap<u64, ServerInfo> = members
            .into_iter()
            .map(|(id, info)| (id.as_u64(), info))
            .collect();
        match self.inner.core.initialize(first).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(None),
            Err(RaftError::APIError(error)) => Err(FormError::Refused(error.to_string())),
            Err(RaftError::Fatal(fatal)) => {
                Err(FormError::Stopped(StoppedError::from_fatal(&fatal)))
            }
        }
    }

    /// Gives all promises back. Safe because only the proposer could have used them, and it did
    /// not; one that is not reached learns of it when the proposer asks again or is a member.
    async fn release(&self, members: &[(ServerId, ServerInfo)]) -> Result<(), FormError> {
        let others = members.iter().filter(|(id, _)| *id != self.inner.own_id);
        let calls = others.map(|(id, info)| async move {
            let released: Result<(), _> = self
                .inner
                .caller
                .call(
                    &info.address,
                    id.as_u64(),
                    CallKind::Release,
                    (),
                    CALL_LIMIT,
                )
                .await;
            if let Err(error) = released {
                tracing::debug!(server = %id, error = chain(&error), "promise not given back");
            }
        });
        futures::future::join_all(calls).await;
        self.inner.promise.clear().await.map_err(FormError::Promise)
    }

    /// Answers a call of another server's formation.
    pub(crate) async fn answer(
        &self,
        kind: CallKind,
        bytes: &[u8],
    ) -> Result<Result<Bytes, String>, RecordError> {
        match kind {
            CallKind::Introduce => {
                let call: Call<Introduction> = record::decode("introduction", bytes)?;
                if call.body.id != self.inner.own_id {
                    self.hear_of(&call.body);
                }
                Ok(Ok(record::encode(&self.introduction())))
            }
            CallKind::Pledge => {
                let call: Call<PledgeCall> = record::decode("promise request", bytes)?;
                Ok(self
                    .answer_pledge(call)
                    .await
                    .map(|answer| record::encode(&answer)))
            }
            CallKind::Release => {
                let call: Call<()> = record::decode("release", bytes)?;
                let released = self
                    .inner
                    .promise
                    .release(ServerId::from_u64(call.from))
                    .await;
                Ok(released
                    .map(|()| record::encode(&()))
                    .map_err(|error| format!("keeping promises: {error}")))
            }
            _ => {
                let call: Call<JoinCall> = record::decode("join request", bytes)?;
                let id = ServerId::from_u64(call.from);
                let answer = self.inner.admission.admit(id, call.body.info).await;
                Ok(Ok(record::encode(&answer)))
            }
        }
    }

    async fn answer_pledge(&self, call: Call<PledgeCall>) -> Result<PledgeAnswer, String> {
        let own_id = self.inner.own_id;
        if call.to != own_id.as_u64() {
            return Err(format!("server {:016x} is not here", call.to));
        }
        let refused = |reason: &str| Ok(PledgeAnswer::Refused(reason.to_owned()));
        let members = call.body.members;
        if members.len() > SERVERS_MAX || !members.iter().any(|(id, _)| *id == own_id) {
            return refused("this server is not among the members");
        }
        match self.inner.core.is_initialized().await {
            Ok(false) => {}
            Ok(true) => return refused("this server is in a cluster already"),
            Err(fatal) => return Err(format!("this server has stopped: {fatal}")),
        }
        let pledge = Pledge {
            to: ServerId::from_u64(call.from),
            members,
        };
        match self.inner.promise.give(pledge).await {
            Ok(Ok(())) => Ok(PledgeAnswer::Pledged),
            Ok(Err(reason)) => Ok(PledgeAnswer::Refused(reason)),
            Err(error) => Err(format!("keeping promises: {error}")),
        }
    }

    fn introduction(&self) -> Introduction {
        let status = self.inner.status.borrow();
        let heard_of = self.inner.heard_of.lock();
        Introduction {
            id: self.inner.own_id,
            info: self.inner.own_info.clone(),
            bootstrap_expect: *self.inner.expect.lock(),
            member: status.is_member(),
            leader: status.leader.clone().and_then(|leader| leader.info),
            heard_of: heard_of.iter().cloned().collect(),
        }
    }

    fn hear_of(&self, peer: &Introduction) {
        let mut heard_of = self.inner.heard_of.lock();
        for address in std::iter::once(&peer.info.address).chain(&peer.heard_of) {
            if heard_of.len() < HEARD_OF_MAX {
                heard_of.insert(address.clone());
            }
        }
    }
}

fn check(expect: u32, retry_join: &[String]) -> Result<(), FormError> {
    match expect {
        0 if retry_join.is_empty() => Err(FormError::Nothing),
        1 if !retry_join.is_empty() => Err(FormError::AloneAndJoining),
        _ if expect as usize > SERVERS_MAX => Err(FormError::TooMany(expect)),
        _ => Ok(()),
    }
}
