//! Lines of the audit log, target `audit`: changes of access control, logins, snapshots, and
//! credentials that were refused. None holds a secret.

use std::net::IpAddr;

use protocol_transport::LineLimit;

use super::{Caller, Rejected};

/// Refused credentials: strangers cause these lines.
static REFUSED: LineLimit = LineLimit::new();
/// Requests whose callers lack the right: callers without a credential cause such lines, too.
static DENIED: LineLimit = LineLimit::new();

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
    /// of this name: a secret in its place would be logged. Status 409 is of an object in conflict.
    pub(crate) fn write(&self, status: u16) {
        let Self {
            operation,
            route,
            object,
            caller,
            address,
        } = self;
        let object = match status {
            200..300 | 409 => object.as_str(),
            _ => "",
        };
        let caller = match caller {
            Caller::Open => "open".to_owned(),
            Caller::Anonymous { .. } => "anonymous".to_owned(),
            Caller::Token { accessor_id, .. } => format!("token:{accessor_id}"),
            Caller::Workload(workload) => format!("alloc:{}/{}", workload.alloc, workload.task),
        };
        tracing::info!(
            target: "audit", operation, %route, object, %caller, %address, status, "request"
        );
    }
}

impl AuditedRequest {
    /// Writes a request that its caller has no right for, at most 10 times a second. The object is
    /// left out, as in [`Self::write`].
    pub(crate) fn write_refused(&self, status: u16) {
        if let Some(left_out) = DENIED.admit() {
            self.write(status);
            if left_out > 0 {
                tracing::info!(target: "audit", left_out, "refused requests are left out");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `write` writes.
    fn lines(write: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, write);
        String::from_utf8_lossy(&lines.0.lock()).into_owned()
    }

    fn request(object: &str) -> AuditedRequest {
        AuditedRequest {
            operation: "DeleteToken",
            route: "DELETE /v1/acl/token/{accessor}".to_owned(),
            object: object.to_owned(),
            caller: Caller::Token {
                accessor_id: "a1".into(),
                kind: controlplane_state::AclTokenKind::Management,
            },
            address: IpAddr::from([10, 0, 0, 7]),
        }
    }

    #[test]
    fn line_names_operation_object_caller_address_and_status() {
        let line = lines(|| request("b2").write(200));
        let expected = "INFO audit: request operation=\"DeleteToken\" \
                        route=DELETE /v1/acl/token/{accessor} object=\"b2\" caller=token:a1 \
                        address=10.0.0.7 status=200\n";
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn object_of_a_conflict_is_named() {
        let line = lines(|| request("app/db").write(409));
        assert!(line.contains("object=\"app/db\""), "{line}");
        assert!(line.contains("status=409"), "{line}");
    }

    #[test]
    fn object_of_a_refused_request_is_left_out() {
        let line = lines(|| request("a-secret-by-mistake").write(404));
        assert!(line.contains("status=404"), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
}
