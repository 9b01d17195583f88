//! The gate of every request: the rights of its caller against the need of its operation.
//!
//! ```text
//!  entry: Gate::pass ──► handler ──► Ask::read: judged again on the snapshot that it answers from
//!           │ 403, 404               Ask::change: the leader judges again before it proposes
//! ```
//!
//! An [`Ask`] exists only with a [`Gate`], and only [`Gate::pass`] makes one. Where only the
//! handler finds the object (`Scope::Handler`), its answer is dropped unless it called
//! [`Ask::settle`] or [`Ask::namespaces`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{AclTokenKind, Command, Snapshot, VariableKey};
use parking_lot::Mutex;
use protocol_access::budget::Place;
use protocol_access::need::{Need, Scope, Verdict};
use protocol_access::{Acl, NamespaceCapability, Requirement};
use protocol_api::{Class, Endpoint, Source};
use tokio::time::{Instant, timeout};

use super::Api;
use super::ask::Ask;
use super::error::HttpError;
use super::query::Namespaces;
use super::requested::{self, Found, Requested};
use crate::access::{
    Asker, Caller, Credential, FoundPlace, OccupiedPlace, Origin, Recheck, Rejected, Sender,
    ShownIdentity,
};
use crate::cluster::{ChangeError, Changed};

/// How often the rights of a stream are judged for a token that expired.
const EXPIRY_LOOK_EVERY: Duration = Duration::from_secs(10);

/// A request as the gate sees it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The credential of its headers.
    pub(super) credential: Credential,
    /// Where it comes from.
    pub(super) sender: Sender,
}

/// A request that was let in.
#[derive(Debug)]
pub(super) struct Gate {
    sender: Sender,
    endpoint: &'static Endpoint,
    class: Class,
    need: Need,
    /// The path's `id`.
    id: String,
    rejected: Option<Rejected>,
    state: Mutex<Judged>,
}

/// The last judgment.
#[derive(Clone, Debug)]
struct Judged {
    credential: Credential,
    asker: Asker,
    place: FoundPlace,
    /// Whether the place is final: only the handler finds some.
    is_settled: bool,
    /// Whether the credential comes as the first message of a WebSocket.
    in_handshake: bool,
    /// Needs that only the handler knows, which hold.
    further: Vec<Need>,
    /// The same, at places of their own.
    elsewhere: Vec<Requirement>,
}

impl Gate {
    /// Lets a request in, or not: its caller is found, counted, and judged by this server's state;
    /// once more after a read barrier where the credential or the object is not known here, a token
    /// lacks the right here, or a node is called.
    ///
    /// # Errors
    /// 403, or 404 where the caller may not know that the object exists.
    pub(super) async fn pass(
        api: &Api,
        shown: Shown,
        requested: &Requested<'_>,
    ) -> Result<Self, HttpError> {
        let found = requested.admit(api, &shown).await?;
        let (caller, address) = (found.asker.caller.clone(), shown.sender.address);
        let passed = Self::enter_admitted(api, shown, requested, found).await;
        if let Err(refused) = &passed {
            requested.audit_refusal(caller, address, refused);
        }
        passed
    }

    async fn enter_admitted(
        api: &Api,
        shown: Shown,
        requested: &Requested<'_>,
        found: Found,
    ) -> Result<Self, HttpError> {
        check_contact(api, &found.asker.caller)?;
        if requested.endpoint.source != Source::Node {
            let place = requested.place(&api.cluster.snapshot());
            if !place.is_missing() {
                let is_final = !requested.may_lag(&found.asker.caller);
                let judged = Self::judged(shown.clone(), requested, found, place);
                if is_final || judged.is_ok() {
                    return judged;
                }
            }
        }
        let snapshot = api.cluster.consistent().await?;
        let found = requested.again(api, &shown, &snapshot);
        let found = found.map_err(|_| HttpError::permission_denied())?;
        Self::judged(shown, requested, found, requested.place(&snapshot))
    }

    fn judged(
        shown: Shown,
        requested: &Requested<'_>,
        Found { asker, rejected }: Found,
        place: FoundPlace,
    ) -> Result<Self, HttpError> {
        let need = requested.endpoint.need;
        let judged = Judged {
            is_settled: need.scope() != Some(Scope::Handler),
            in_handshake: requested.comes_later(&asker.caller),
            further: Vec::new(),
            elsewhere: Vec::new(),
            credential: shown.credential,
            asker,
            place,
        };
        if !judged.in_handshake {
            judged.check(&need)?;
        }
        Ok(Self {
            sender: shown.sender,
            endpoint: requested.endpoint,
            class: requested.endpoint.class(requested.method),
            need,
            id: requested.value("id").to_owned(),
            rejected,
            state: Mutex::new(judged),
        })
    }

    /// Judges the request again on the snapshot that answers it, or after rights changed.
    ///
    /// # Errors
    /// 403 or 404, as at the gate.
    pub(super) fn judge(&self, api: &Api, snapshot: &Snapshot) -> Result<(), HttpError> {
        let now = api.cluster.wall_clock().max(snapshot.now());
        let by_id = self.need.scope().filter(|scope| scope.is_by_id());
        let mut state = self.state.lock();
        if state.in_handshake || self.rejected.is_some() {
            return Ok(());
        }
        let is_new = state.asker.is_outdated(snapshot)
            || state.asker.expires.is_some_and(|expires| expires <= now);
        if is_new {
            state.asker = self.resolve(api, snapshot, &state.credential)?;
        }
        if let Some(scope) = by_id {
            state.place = FoundPlace::by_id(scope, &self.id, snapshot);
        }
        // Also with the rights of before: the last look may have found that they are gone.
        state.check(&self.need)
    }

    /// Whether rights changed since the last judgment, or the caller's allocation ended, and the
    /// caller has lost its rights.
    pub(super) fn is_lost(&self, api: &Api, snapshot: &Snapshot) -> bool {
        let is_outdated = self.state.lock().asker.is_outdated(snapshot);
        is_outdated && self.judge(api, snapshot).is_err()
    }

    fn resolve(
        &self,
        api: &Api,
        snapshot: &Snapshot,
        credential: &Credential,
    ) -> Result<Asker, HttpError> {
        let address = self.sender.address;
        let now = api.cluster.wall_clock();
        let resolved = api
            .cluster
            .access()
            .resolve(snapshot, credential, address, now);
        resolved.map_err(|_| HttpError::permission_denied())
    }

    /// Waits until the caller may no longer have what it is given: a right was taken away, or its
    /// token expired, is gone, or is of an allocation that ended.
    pub(super) async fn until_refused(&self, api: &Api) -> HttpError {
        let mut newest = api.cluster.hub().watch();
        loop {
            let asker = self.state.lock().asker.clone();
            let changed = newest.wait_for(|snapshot| asker.is_outdated(snapshot));
            let Ok(snapshot) = timeout(EXPIRY_LOOK_EVERY, changed).await else {
                let snapshot = api.cluster.snapshot();
                if let Err(refused) = self.judge(api, &snapshot) {
                    return refused;
                }
                continue;
            };
            let Ok(snapshot) = snapshot.map(|snapshot| snapshot.clone()) else {
                return HttpError::internal("the server is shutting down");
            };
            if let Err(refused) = self.judge(api, &snapshot) {
                return refused;
            }
        }
    }

    /// Takes the credential of the first message of a WebSocket, where the headers show none.
    ///
    /// # Errors
    /// 403, 404 and 429, as at the gate.
    pub(super) async fn shake_hands(&self, api: &Api, secret: &str) -> Result<(), HttpError> {
        if !self.state.lock().in_handshake {
            return Ok(());
        }
        let credential = Credential::parse(secret.as_bytes());
        self.admit(api, &credential).await?;
        let snapshot = api.cluster.consistent().await?;
        let asker = self.resolve(api, &snapshot, &credential)?;
        if !asker.is_known() {
            return Err(HttpError::permission_denied());
        }
        let mut state = self.state.lock();
        state.credential = credential;
        state.asker = asker;
        state.in_handshake = false;
        state.check(&self.need)
    }

    /// Counts and charges a request whose credential came later than its headers.
    async fn admit(&self, api: &Api, credential: &Credential) -> Result<(), HttpError> {
        let (access, address) = (api.cluster.access(), self.sender.address);
        let resolved = requested::resolve(api, credential, &self.sender).await;
        let now = Instant::now();
        let count = |caller: &Caller| {
            let room = self.endpoint.room();
            access.meters().count(room, self.class, caller, now);
        };
        match resolved {
            Ok(asker) => {
                count(&asker.caller);
                let class = requested::class_of(self.class);
                access.budgets().charge(&asker.caller, class, now)?;
                Ok(())
            }
            Err(unresolved) => {
                count(&Caller::Anonymous { address });
                let sender = &self.sender;
                requested::refuse(access, &unresolved, self.endpoint.path, sender, now)?;
                Err(unresolved.into())
            }
        }
    }

    /// Occupies a place of the caller; it is free again when the answer is dropped.
    ///
    /// # Errors
    /// 429 where all its places are occupied.
    pub(super) fn enter(
        &self,
        api: &Api,
        place: Place,
    ) -> Result<Option<OccupiedPlace>, HttpError> {
        Ok(api
            .cluster
            .access()
            .budgets()
            .enter(&self.caller(), place)?)
    }

    /// Whether the credential is still to come, as the first message of a WebSocket.
    pub(super) fn awaits_handshake(&self) -> bool {
        self.state.lock().in_handshake
    }

    /// The caller's rights, as they were judged last.
    pub(super) fn acl(&self) -> Arc<Acl> {
        Arc::clone(&self.state.lock().asker.acl)
    }

    /// The reason why the request's credential was refused, where it was let in all the same.
    pub(super) fn rejected(&self) -> Option<Rejected> {
        self.rejected
    }

    /// The caller.
    pub(super) fn caller(&self) -> Caller {
        self.state.lock().asker.caller.clone()
    }

    /// The workload token that the request shows.
    pub(super) fn identity(&self) -> Option<ShownIdentity> {
        match &self.state.lock().credential {
            Credential::Workload(shown) => Some(shown.clone()),
            Credential::Absent | Credential::Malformed | Credential::Secret(_) => None,
        }
    }

    /// The address of the request's connection.
    pub(super) fn address(&self) -> IpAddr {
        self.sender.address
    }
}

impl Judged {
    fn check(&self, need: &Need) -> Result<(), HttpError> {
        if *need == Need::Token && !self.asker.is_known() {
            return Err(HttpError::permission_denied());
        }
        match need.judge(&self.asker.acl, &self.place.place()) {
            Verdict::Granted => Ok(()),
            Verdict::Denied => Err(HttpError::permission_denied()),
            Verdict::Hidden => Err(hidden(need)),
        }
    }
}

/// Refuses client and workload tokens of a server that has heard no leader for `acl.stale_max`:
/// they may have been deleted long ago. Management tokens go on, because the operator of a broken
/// cluster has to see it.
fn check_contact(api: &Api, caller: &Caller) -> Result<(), HttpError> {
    let is_client = matches!(
        caller,
        Caller::Workload(_)
            | Caller::Token {
                kind: AclTokenKind::Client,
                ..
            }
    );
    let silent_for = api.cluster.raft().last_contact().unwrap_or_default();
    if is_client && silent_for > api.config.acl_stale_max {
        return Err(HttpError::internal("No cluster leader"));
    }
    Ok(())
}

/// The answer for an object that the caller may not know of: that of an id that no object has.
fn hidden(need: &Need) -> HttpError {
    HttpError::not_found(match need.scope() {
        Some(Scope::Evaluation) => "eval not found",
        Some(Scope::Deployment) => "deployment not found",
        _ => "alloc not found",
    })
}

impl Ask {
    /// The caller.
    pub(super) fn caller(&self) -> Caller {
        self.gate.caller()
    }

    /// The reason why the credential was refused, on a route that serves the caller all the same.
    pub(super) fn rejected(&self) -> Option<&'static str> {
        self.gate.rejected().map(Rejected::name)
    }

    /// The address of the request's connection.
    pub(super) fn address(&self) -> IpAddr {
        self.gate.address()
    }

    /// The accessor id of the caller's token; empty for other callers.
    pub(super) fn accessor_id(&self) -> String {
        self.gate.state.lock().asker.accessor_id().to_owned()
    }

    /// The caller's rights, as they were judged last.
    pub(super) fn acl(&self) -> Arc<Acl> {
        self.gate.acl()
    }

    /// Whether the caller shows a management token.
    pub(super) fn is_manager(&self) -> bool {
        matches!(
            self.caller(),
            Caller::Token {
                kind: AclTokenKind::Management,
                ..
            }
        )
    }

    /// The time until the caller's token expires.
    pub(super) fn until_expiry(&self) -> Option<Duration> {
        let expires = self.gate.state.lock().asker.expires?;
        let left = expires.0.saturating_sub(self.now().0);
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(0)))
    }

    /// Names the namespace of an object that only the handler finds, and judges the need there.
    ///
    /// # Errors
    /// 403.
    pub(super) fn settle(&self, namespace: &str) -> Result<(), HttpError> {
        self.settle_at(FoundPlace::of_query(namespace))
    }

    /// The same for the name of a node pool.
    ///
    /// # Errors
    /// 403.
    pub(super) fn settle_name(&self, name: &str) -> Result<(), HttpError> {
        self.settle_at(FoundPlace::of_name(name))
    }

    /// The same for a variable.
    ///
    /// # Errors
    /// 403.
    pub(super) fn settle_variable(&self, key: &VariableKey) -> Result<(), HttpError> {
        self.settle_at(FoundPlace::of_variable(&key.namespace, &key.path))
    }

    fn settle_at(&self, place: FoundPlace) -> Result<(), HttpError> {
        let mut state = self.gate.state.lock();
        state.place = place;
        state.is_settled = true;
        state.check(&self.gate.need)
    }

    /// Judges another need in the place of the request: one that depends on its parameters or on
    /// its object.
    ///
    /// # Errors
    /// 403.
    pub(super) fn require(&self, need: &Need) -> Result<(), HttpError> {
        let mut state = self.gate.state.lock();
        match need.judge(&state.asker.acl, &state.place.place()) {
            Verdict::Granted => {
                state.further.push(*need);
                Ok(())
            }
            Verdict::Denied | Verdict::Hidden => Err(HttpError::permission_denied()),
        }
    }

    /// Judges a right at a place that the request's body names.
    ///
    /// # Errors
    /// 403.
    pub(super) fn require_elsewhere(&self, requirement: Requirement) -> Result<(), HttpError> {
        let mut state = self.gate.state.lock();
        if !requirement.holds(&state.asker.acl) {
            return Err(HttpError::permission_denied());
        }
        state.elsewhere.push(requirement);
        Ok(())
    }

    /// Whether the caller has a capability in a namespace.
    pub(super) fn may(&self, namespace: &str, capability: NamespaceCapability) -> bool {
        self.acl().namespace(namespace, capability)
    }

    /// The namespaces of a list: those that the query names and the caller may see.
    pub(super) fn namespaces(&self) -> Namespaces<'_> {
        self.gate.state.lock().is_settled = true;
        Namespaces::new(self.query.namespace(), self)
    }

    /// Whether the objects of a namespace are shown to the caller in a list.
    pub(super) fn shows(&self, namespace: &str) -> bool {
        self.gate.need.shows(&self.acl(), namespace)
    }

    /// Whether the answer of the handler may leave: it named the object that was judged.
    pub(super) fn is_settled(&self) -> bool {
        self.gate.state.lock().is_settled
    }

    /// The newest state of the cluster, and the caller's rights judged on it.
    ///
    /// # Errors
    /// Without a leader; 403 and 404 as at the gate.
    pub(super) async fn consistent(&self) -> Result<Snapshot, HttpError> {
        let snapshot = self.api.cluster.consistent().await?;
        self.gate.judge(&self.api, &snapshot)?;
        Ok(snapshot)
    }

    /// Changes the state for the caller.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub(super) async fn change(&self, command: Command) -> Result<Changed, ChangeError> {
        let origin = Origin::Caller(self.recheck()?);
        self.api.cluster.change_for(command, &origin).await
    }

    fn recheck(&self) -> Result<Recheck, ChangeError> {
        let state = self.gate.state.lock();
        if !state.is_settled {
            return Err(ChangeError::Denied);
        }
        let place = state.place.place();
        let needs = std::iter::once(&self.gate.need).chain(&state.further);
        let requirements = needs.flat_map(|need| need.requirements(&place));
        let requirements = requirements
            .chain(state.elsewhere.iter().cloned())
            .collect();
        Ok(Recheck::of(&state.asker, requirements))
    }
}
