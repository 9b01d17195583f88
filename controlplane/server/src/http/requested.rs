//! A request on its way through the gate: its caller is found, counted and charged.
//!
//! ```text
//!  credential ─► caller ─► measure ─► budget ─► Found, to be judged
//!      │ unknown here: once more after a barrier, if its sender may fail
//!      └─► refused: measure ─► its sender's failures ─► 403, or 429 once they are spent
//! ```

use std::net::IpAddr;

use controlplane_state::{AclTokenKind, Snapshot};
use protocol_access::budget::{self, Refused};
use protocol_access::need::{Need, Scope};
use protocol_api::{Charge, Class, Endpoint, Method, Parameters, Source};
use tokio::time::Instant;

use super::Api;
use super::error::HttpError;
use super::gate::{Gate, Shown};
use super::query::Query;
use crate::access::audit::{self, AuditedRequest};
use crate::access::{Access, Asker, Caller, Credential, FoundPlace, Rejected, Sender};

/// A request of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requested<'a> {
    pub(super) endpoint: &'static Endpoint,
    pub(super) method: Method,
    pub(super) parameters: &'a Parameters,
    pub(super) query: &'a Query,
}

/// The caller of a request that may be judged.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) asker: Asker,
    /// The reason why its credential was refused, where the route serves it all the same.
    pub(super) rejected: Option<Rejected>,
}

/// Why a credential leads to no caller.
pub(super) enum Unresolved {
    /// It is not valid.
    Rejected(Rejected),
    /// It is not known here, and its sender has no failures left, so nothing else was asked.
    Limited(Refused),
    /// It is not known here, and no majority answers.
    NoLeader,
}

impl From<Unresolved> for HttpError {
    fn from(unresolved: Unresolved) -> Self {
        match unresolved {
            Unresolved::Rejected(_) => Self::permission_denied(),
            Unresolved::Limited(refused) => refused.into(),
            Unresolved::NoLeader => Self::internal("No cluster leader"),
        }
    }
}

impl From<Refused> for HttpError {
    fn from(refused: Refused) -> Self {
        let seconds = u32::try_from(refused.retry_after_seconds()).unwrap_or(u32::MAX);
        Self::limited(refused.to_string(), seconds)
    }
}

impl Requested<'_> {
    /// Finds the caller, counts and charges the request.
    ///
    /// # Errors
    /// 403 for a credential that is not valid, 429 where a budget is spent, 500 without a leader.
    pub(super) async fn admit(&self, api: &Api, shown: &Shown) -> Result<Found, HttpError> {
        let (access, address) = (api.cluster.access(), shown.sender.address);
        let resolved = if self.endpoint.examines_credential() {
            resolve(api, &shown.credential, &shown.sender).await
        } else {
            let (snapshot, now) = (api.cluster.snapshot(), api.cluster.wall_clock());
            let resolved = access.resolve(&snapshot, &shown.credential, address, now);
            resolved.map_err(Unresolved::Rejected)
        };
        let now = Instant::now();
        let found = match resolved {
            Ok(asker) => {
                self.measure(access, &asker.caller, now);
                Found {
                    asker,
                    rejected: None,
                }
            }
            Err(unresolved) => {
                self.measure(access, &Caller::Anonymous { address }, now);
                self.unresolved(api, unresolved, &shown.sender, now)?
            }
        };
        self.charge(access, &found.asker.caller, address, now)?;
        Ok(found)
    }

    /// A caller whose credential is refused: served without one, where the route serves everybody.
    fn unresolved(
        &self,
        api: &Api,
        unresolved: Unresolved,
        sender: &Sender,
        now: Instant,
    ) -> Result<Found, HttpError> {
        let access = api.cluster.access();
        if self.endpoint.examines_credential() {
            refuse(access, &unresolved, self.endpoint.path, sender, now)?;
        }
        match unresolved {
            Unresolved::Rejected(why) if self.endpoint.need == Need::Public => Ok(Found {
                asker: access.anonymous(&api.cluster.snapshot(), sender.address),
                rejected: Some(why),
            }),
            other => Err(other.into()),
        }
    }

    fn measure(&self, access: &Access, caller: &Caller, now: Instant) {
        if self.comes_later(caller) {
            return;
        }
        let class = self.endpoint.class(self.method);
        access
            .meters()
            .count(self.endpoint.room(), class, caller, now);
    }

    fn charge(
        &self,
        access: &Access,
        caller: &Caller,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), Refused> {
        match self.endpoint.charge() {
            Charge::Nothing => Ok(()),
            Charge::Login if !access.is_on() => Ok(()),
            Charge::Login => access.budgets().charge_login(address, now),
            Charge::Caller => {
                let class = class_of(self.endpoint.class(self.method));
                access.budgets().charge(caller, class, now)
            }
        }
    }

    /// Whether the credential comes as the first message of a WebSocket. Read as `exec` reads it,
    /// or a request without a handshake there would be open here.
    pub(super) fn comes_later(&self, caller: &Caller) -> bool {
        self.endpoint.credential_in_handshake
            && matches!(caller, Caller::Anonymous { .. })
            && self.query.flag("ws_handshake") == Ok(true)
    }

    /// Whether a refusal by this server's state is judged once more on the newest one: the right
    /// may have been given through another server a moment ago.
    pub(super) fn may_lag(&self, caller: &Caller) -> bool {
        let is_client = matches!(
            caller,
            Caller::Workload(_)
                | Caller::Token {
                    kind: AclTokenKind::Client,
                    ..
                }
        );
        is_client && self.endpoint.source != Source::Server && !self.query.switch("stale")
    }

    /// Whether the request is written into the audit log.
    pub(super) fn is_audited(&self) -> bool {
        self.endpoint.is_audited(self.method)
    }

    /// Writes into the audit log that the rights of a known caller do not suffice.
    pub(super) fn audit_refusal(&self, caller: Caller, address: IpAddr, refused: &HttpError) {
        if self.is_audited() {
            let request = self.audited_of(caller, address);
            request.write_refused(refused.status.as_u16());
        }
    }

    /// The request as the audit log shows it, let in by `gate`.
    pub(super) fn audited(&self, gate: &Gate) -> AuditedRequest {
        self.audited_of(gate.caller(), gate.address())
    }

    fn audited_of(&self, caller: Caller, address: IpAddr) -> AuditedRequest {
        let object = self.parameters.first().map(|(_, value)| value.clone());
        AuditedRequest {
            operation: self.endpoint.name,
            route: format!("{} {}", self.method.name(), self.endpoint.path),
            object: object.unwrap_or_default(),
            caller,
            address,
        }
    }

    /// The caller on another snapshot of the state.
    ///
    /// # Errors
    /// If its credential is not valid there.
    pub(super) fn again(
        &self,
        api: &Api,
        shown: &Shown,
        snapshot: &Snapshot,
    ) -> Result<Found, Rejected> {
        let (access, now) = (api.cluster.access(), api.cluster.wall_clock());
        let address = shown.sender.address;
        match access.resolve(snapshot, &shown.credential, address, now) {
            Ok(asker) => Ok(Found {
                asker,
                rejected: None,
            }),
            Err(why) if self.endpoint.need == Need::Public => Ok(Found {
                asker: access.anonymous(snapshot, address),
                rejected: Some(why),
            }),
            Err(why) => Err(why),
        }
    }

    /// The place of the object.
    pub(super) fn place(&self, snapshot: &Snapshot) -> FoundPlace {
        let need = &self.endpoint.need;
        match need.scope() {
            Some(Scope::Query) if matches!(need, Need::Variable(..)) => {
                FoundPlace::of_variable(self.query.namespace(), self.value("path"))
            }
            Some(Scope::Query) => FoundPlace::of_query(self.query.namespace()),
            Some(Scope::Path) => FoundPlace::of_name(self.value("name")),
            Some(Scope::Handler) => FoundPlace::of_handler(),
            Some(scope) => FoundPlace::by_id(scope, self.value("id"), snapshot),
            None if *need == Need::SomeOfNamespace => FoundPlace::of_name(self.value("name")),
            None => FoundPlace::of_handler(),
        }
    }

    /// A value of the path; empty where it has none of this name.
    pub(super) fn value(&self, name: &str) -> &str {
        let mut named = self.parameters.iter().filter(|(known, _)| *known == name);
        named.next().map_or("", |(_, value)| value)
    }
}

/// Finds the caller with this credential. An unknown credential is looked up once more after a read
/// barrier: a token that was acknowledged by another server works at once.
///
/// # Errors
/// See [`Unresolved`].
pub(super) async fn resolve(
    api: &Api,
    credential: &Credential,
    sender: &Sender,
) -> Result<Asker, Unresolved> {
    let access = api.cluster.access();
    let on = |snapshot: &Snapshot| {
        access.resolve(
            snapshot,
            credential,
            sender.address,
            api.cluster.wall_clock(),
        )
    };
    let snapshot = api.cluster.snapshot();
    match on(&snapshot) {
        Err(Rejected::Unknown) => {}
        resolved => return resolved.map_err(Unresolved::Rejected),
    }
    access
        .budgets()
        .may_fail(sender, Instant::now())
        .map_err(Unresolved::Limited)?;
    let barrier = || async { api.cluster.consistent().await.is_ok() };
    let passed = access.lookup_barrier().pass(barrier).await;
    passed.map_err(|_| Unresolved::NoLeader)?;
    on(&api.cluster.snapshot()).map_err(Unresolved::Rejected)
}

/// Counts and charges a credential that was refused.
///
/// # Errors
/// 429 where the sender has no failures left.
pub(super) fn refuse(
    access: &Access,
    unresolved: &Unresolved,
    route: &str,
    sender: &Sender,
    now: Instant,
) -> Result<(), HttpError> {
    let why = match unresolved {
        Unresolved::Rejected(why) => *why,
        Unresolved::Limited(_) => Rejected::Unknown,
        Unresolved::NoLeader => return Ok(()),
    };
    access.meters().reject(why);
    audit::refused_credential(why, route, sender.address);
    access.budgets().charge_failure(sender, now)?;
    Ok(())
}

/// The class of an operation, as budgets name it.
pub(super) fn class_of(class: Class) -> budget::Class {
    match class {
        Class::Read => budget::Class::Read,
        Class::List => budget::Class::List,
        Class::Write => budget::Class::Write,
    }
}
