//! Lines of the audit log, target `audit`: changes of access control, logins, snapshots, and
//! credentials that were refused. None holds a secret.

use std::net::IpAddr;

use protocol_transport::LineLimit;

use super::{Caller, Rejected};

/// Refused credentials: strangers cause these lines.
static REFUSED: LineLimit = LineLimit::new();

/// Writes that a credential was refused, at most 10 times a second.
pub(crate) fn refused_credential(why: Rejected, route: &str, address: IpAddr) {
    if let Some(left_out) = REFUSED.admit() {
        let why = why.name();
        tracing::info!(target: "audit", %address, route, why, left_out, "credential refused");
    }
}

/// A request that is written into the audit log.
#[derive(Debug)]
pub(crate) struct AuditedRequest {
    /// The operation's name.
    pub(crate) operation: &'static str,
    /// The method and the path's pattern. The path itself may hold a secret by mistake.
    pub(crate) route: String,
    /// The name or id of the object, from the path; empty where it has none.
    pub(crate) object: String,
    pub(crate) caller: Caller,
    pub(crate) address: IpAddr,
}

impl AuditedRequest {
    /// Writes the request with the status of its answer. The object is left out where there is none
    /// of this name: a secret in its place would be logged.
    pub(crate) fn write(&self, status: u16) {
        let Self {
            operation,
            route,
            object,
            caller,
            address,
        } = self;
        let object = match status {
            200..300 => object.as_str(),
            _ => "",
        };
        let caller = match caller {
            Caller::Open => "open".to_owned(),
            Caller::Anonymous { .. } => "anonymous".to_owned(),
            Caller::Token { accessor_id, .. } => format!("token:{accessor_id}"),
        };
        tracing::info!(
            target: "audit", operation, %route, object, %caller, %address, status, "request"
        );
    }
}
