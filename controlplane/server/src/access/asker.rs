//! The caller of one request.

use std::net::IpAddr;
use std::sync::Arc;

use controlplane_state::{AclTokenKind, Snapshot};
use protocol_access::Acl;
use protocol_model::UnixNanos;

use super::Workload;

/// The caller of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// Access control is off.
    Open,
    /// The request shows no credential.
    Anonymous {
        /// The address of its connection.
        address: IpAddr,
    },
    /// The holder of a token.
    Token {
        /// The token's public id.
        accessor_id: Arc<str>,
        /// Its type.
        kind: AclTokenKind,
    },
    /// A task with a signed token.
    Workload(Arc<Workload>),
}

/// A caller with its rights, as one state has them.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// The caller.
    pub(crate) caller: Caller,
    /// Its rights.
    pub(crate) acl: Arc<Acl>,
    /// When its token expires.
    pub(crate) expires: Option<UnixNanos>,
    /// The index of the state's rights that these were found at ([`Tables::acl_index`]).
    ///
    /// [`Tables::acl_index`]: controlplane_state::Tables::acl_index
    pub(crate) acl_index: u64,
}

impl Asker {
    /// The accessor id of its token; empty for other callers.
    pub(crate) fn accessor_id(&self) -> &str {
        match &self.caller {
            Caller::Token { accessor_id, .. } => accessor_id,
            Caller::Open | Caller::Anonymous { .. } | Caller::Workload(_) => "",
        }
    }

    /// Whether `snapshot` may have other rights for it than were found: rights changed, or its
    /// allocation ended. A look at one row, cheap enough for every state.
    pub(crate) fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        let has_ended = match &self.caller {
            Caller::Workload(workload) => workload.has_ended(snapshot),
            Caller::Open | Caller::Anonymous { .. } | Caller::Token { .. } => false,
        };
        has_ended || snapshot.acl_index() != self.acl_index
    }

    /// Whether it shows a valid credential, or needs none.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.caller, Caller::Anonymous { .. })
    }
}
