//! The gate of every request: the rights of its caller against the need of its operation.
//!
//! ```text
//!  entry: Gate::pass ──► handler ──► Ask::read: judged again on the snapshot that it answers from
//!           │ 403, 404               Ask::change: the leader judges again before it proposes
//! ```
//!
//! An [`Ask`] exists only with a [`Gate`], and only [`Gate::pass`] makes one. Where only the
//! handler finds the object (`Scope::Handler`), its answer is dropped unless it called [`Ask::settle`] or
//! [`Ask::namespaces`].

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{AclTokenKind, Command, Snapshot};
use parking_lot::Mutex;
use protocol_access::need::{Need, Scope, Verdict};
use protocol_access::{Acl, NamespaceCapability};
use protocol_api::{Endpoint, Parameters, Source};

use tokio::time::timeout;

use super::Api;
use super::ask::Ask;
use super::error::HttpError;
use super::query::{Namespaces, Query};
use crate::access::{Asker, Caller, Credential, FoundPlace, Origin, Recheck, Rejected};
use crate::cluster::{ChangeError, Changed};

/// The address of a request that came over no connection: of a test.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// How often the rights of a stream are judged for a token that expired.
const EXPIRY_LOOK_EVERY: Duration = Duration::from_secs(10);

/// A request as the gate sees it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The credential of its headers.
    pub(super) credential: Credential,
    /// The address of its connection.
    pub(super) address: Option<IpAddr>,
}

/// A request that was let in.
#[derive(Debug)]
pub(super) struct Gate {
    shown: Shown,
    need: Need,
    /// The path's `id`.
    id: String,
    rejected: Option<Rejected>,
    state: Mutex<Judged>,
}

/// The last judgment.
#[derive(Clone, Debug)]
struct Judged {
    asker: Asker,
    place: FoundPlace,
    /// Whether the place is final: only the handler finds some.
    is_settled: bool,
    /// Whether the credential comes as the first message of a WebSocket.
    in_handshake: bool,
    /// Needs that only the handler knows, which hold.
    further: Vec<Need>,
}

impl Gate {
    /// Lets a request in, or not. Judged by this server's state, and once more after a read barrier
    /// where the credential or the object is not known here, or a node is called.
    ///
    /// # Errors
    /// 403, or 404 where the caller may not know that the object exists.
    pub(super) async fn pass(
        api: &Api,
        shown: Shown,
        endpoint: &Endpoint,
        parameters: &Parameters,
        query: &Query,
    ) -> Result<Self, HttpError> {
        let snapshot = match endpoint.source {
            // A call to a node is judged by the newest rights.
            Source::Node => api.cluster.consistent().await?,
            Source::State | Source::Log | Source::Server => api.cluster.snapshot(),
        };
        let first = Self::on(api, &shown, endpoint, parameters, query, &snapshot);
        if first.is_final(endpoint) {
            return first.gate;
        }
        let snapshot = api.cluster.consistent().await?;
        Self::on(api, &shown, endpoint, parameters, query, &snapshot).gate
    }

    fn on(
        api: &Api,
        shown: &Shown,
        endpoint: &Endpoint,
        parameters: &Parameters,
        query: &Query,
        snapshot: &Snapshot,
    ) -> Attempt {
        let now = api.cluster.wall_clock();
        let need = endpoint.need;
        let address = shown.address.unwrap_or(NO_ADDRESS);
        let resolved = api
            .cluster
            .access()
            .resolve(snapshot, &shown.credential, address, now);
        let (asker, rejected) = match resolved {
            Ok(asker) => (asker, None),
            Err(why) if need == Need::Public => {
                (api.cluster.access().anonymous(snapshot, address), Some(why))
            }
            Err(why) => {
                tracing::debug!(why = why.name(), %address, "credential refused");
                return Attempt {
                    gate: Err(HttpError::permission_denied()),
                    unknown: why == Rejected::Unknown,
                };
            }
        };
        let place = place(&need, parameters, query, snapshot);
        // Read as `exec` reads it, or what is no handshake there would be open here.
        let in_handshake = endpoint.credential_in_handshake
            && !asker.is_known()
            && query.flag("ws_handshake") == Ok(true);
        let unknown = rejected == Some(Rejected::Unknown) || place.is_missing();
        let judged = Judged {
            is_settled: need.scope() != Some(Scope::Handler),
            in_handshake,
            further: Vec::new(),
            asker,
            place,
        };
        let gate = if in_handshake {
            Ok(())
        } else {
            judged.check(&need)
        };
        let gate = gate.map(|()| Self {
            shown: shown.clone(),
            need,
            id: value(parameters, "id").to_owned(),
            rejected,
            state: Mutex::new(judged),
        });
        Attempt { gate, unknown }
    }

    /// Judges the request again on the snapshot that answers it, or after rights changed.
    ///
    /// # Errors
    /// 403 or 404, as at the gate.
    pub(super) fn judge(&self, api: &Api, snapshot: &Snapshot) -> Result<(), HttpError> {
        let now = api.cluster.wall_clock();
        let by_id = self.need.scope().filter(|scope| scope.is_by_id());
        let mut state = self.state.lock();
        if state.in_handshake || self.rejected.is_some() {
            return Ok(());
        }
        let is_new = snapshot.acl_index() != state.asker.acl_index
            || state.asker.expires.is_some_and(|expires| expires <= now);
        if is_new {
            state.asker = self.resolve(api, snapshot, &self.shown.credential)?;
        }
        if let Some(scope) = by_id {
            state.place = FoundPlace::by_id(scope, &self.id, snapshot);
        } else if !is_new {
            return Ok(());
        }
        state.check(&self.need)
    }

    /// Whether rights changed since the last judgment, and the caller has lost its own.
    pub(super) fn is_lost(&self, api: &Api, snapshot: &Snapshot) -> bool {
        let judged_at = self.state.lock().asker.acl_index;
        snapshot.acl_index() != judged_at && self.judge(api, snapshot).is_err()
    }

    fn resolve(
        &self,
        api: &Api,
        snapshot: &Snapshot,
        credential: &Credential,
    ) -> Result<Asker, HttpError> {
        let address = self.shown.address.unwrap_or(NO_ADDRESS);
        let now = api.cluster.wall_clock();
        let resolved = api
            .cluster
            .access()
            .resolve(snapshot, credential, address, now);
        resolved.map_err(|_| HttpError::permission_denied())
    }

    /// Waits until the caller may no longer have what it is given: a right was taken away, or its
    /// token expired or is gone.
    pub(super) async fn until_refused(&self, api: &Api) -> HttpError {
        let mut newest = api.cluster.hub().watch();
        loop {
            let known = self.state.lock().asker.acl_index;
            let changed = newest.wait_for(|snapshot| snapshot.acl_index() != known);
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
    /// 403 and 404, as at the gate.
    pub(super) async fn shake_hands(&self, api: &Api, secret: &str) -> Result<(), HttpError> {
        if !self.state.lock().in_handshake {
            return Ok(());
        }
        let snapshot = api.cluster.consistent().await?;
        let asker = self.resolve(api, &snapshot, &Credential::parse(secret.as_bytes()))?;
        if !asker.is_known() {
            return Err(HttpError::permission_denied());
        }
        let mut state = self.state.lock();
        state.asker = asker;
        state.in_handshake = false;
        state.check(&self.need)
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

    /// The address of the request's connection.
    pub(super) fn address(&self) -> IpAddr {
        self.shown.address.unwrap_or(NO_ADDRESS)
    }
}

/// The result on one snapshot.
struct Attempt {
    gate: Result<Gate, HttpError>,
    /// Whether this server does not know the credential or the object: it may lag.
    unknown: bool,
}

impl Attempt {
    fn is_final(&self, endpoint: &Endpoint) -> bool {
        !self.unknown || endpoint.source == Source::Node
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

/// The answer for an object that the caller may not know of: that of an id that no object has.
fn hidden(need: &Need) -> HttpError {
    HttpError::not_found(match need.scope() {
        Some(Scope::Evaluation) => "eval not found",
        Some(Scope::Deployment) => "deployment not found",
        _ => "alloc not found",
    })
}

fn value<'a>(parameters: &'a Parameters, name: &str) -> &'a str {
    let mut named = parameters.iter().filter(|(known, _)| *known == name);
    named.next().map_or("", |(_, value)| value)
}

fn place(need: &Need, parameters: &Parameters, query: &Query, snapshot: &Snapshot) -> FoundPlace {
    match need.scope() {
        Some(Scope::Query) => FoundPlace::of_query(query.namespace()),
        Some(Scope::Path) => FoundPlace::of_name(value(parameters, "name")),
        Some(Scope::Handler) => FoundPlace::of_handler(),
        Some(scope) => FoundPlace::by_id(scope, value(parameters, "id"), snapshot),
        None if *need == Need::SomeOfNamespace => FoundPlace::of_name(value(parameters, "name")),
        None => FoundPlace::of_handler(),
    }
}

impl Ask {
    /// The caller.
    pub(super) fn caller(&self) -> Caller {
        self.gate.state.lock().asker.caller.clone()
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
        let requirements = needs.flat_map(|need| need.requirements(&place)).collect();
        Ok(Recheck::of(&state.asker, requirements))
    }
}
