//! The names that metrics and budgets know an operation by.

use crate::endpoint::{Body, Endpoint, Method, Source};

/// The class of an operation, in metrics and budgets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Reads one object.
    Read,
    /// Reads many.
    List,
    /// Changes something.
    Write,
}

impl Class {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
        }
    }
}

impl Endpoint {
    /// The class of a request by `method`.
    pub fn class(&self, method: Method) -> Class {
        let many = self.answer.starts_with("Vec<") || self.filterable;
        let reads = match self.source {
            Source::State => true,
            Source::Log => false,
            Source::Server | Source::Node => method == Method::Get && !self.is_interactive(),
        };
        match (reads, many) {
            (true, true) => Class::List,
            (true, false) => Class::Read,
            (false, _) => Class::Write,
        }
    }

    fn is_interactive(&self) -> bool {
        self.credential_in_handshake || matches!(self.body, Body::Stream)
    }

    /// The kind of object, in the names that Nomad's metrics have (`nomad.rpc.<room>.<class>`).
    pub fn room(&self) -> &'static str {
        let mut parts = self.path.split('/').skip(2);
        let (first, second) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        match (first, second) {
            ("jobs" | "job" | "validate", _) if self.path.contains("/periodic/") => "periodic",
            ("jobs" | "job" | "validate", _) => "job",
            ("allocations" | "allocation", _) => "alloc",
            ("client", "allocation") => "client_allocations",
            ("client", "fs") => "file_system",
            ("client", _) => "client_stats",
            ("evaluations" | "evaluation", _) => "eval",
            ("deployments" | "deployment", _) => "deployment",
            ("node", "pools" | "pool") => "node_pool",
            ("nodes" | "node", _) => "node",
            ("namespaces" | "namespace", _) => "namespace",
            ("operator", "keyring") => "keyring",
            ("vars" | "var", _) => "variables",
            ("services" | "service", _) => "service_registration",
            ("volumes" | "volume" | "plugins" | "plugin", _) => "csi_volume",
            ("event", _) => "event",
            ("regions", _) => "region",
            ("acl", _) => "acl",
            ("operator", _) => "operator",
            ("scaling", _) => "scaling",
            ("search", _) => "search",
            ("status", _) => "status",
            ("system", _) => "system",
            _ => "agent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(name: &str, method: Method) -> String {
        let endpoint = crate::endpoints().find(|it| it.name == name);
        let endpoint = endpoint.expect("an operation");
        format!("{}.{}", endpoint.room(), endpoint.class(method).name())
    }

    #[test]
    fn operations_have_the_names_of_nomads_metrics() {
        for (name, method, expected) in [
            ("ListJobs", Method::Get, "job.list"),
            ("ReadJob", Method::Get, "job.read"),
            ("RegisterJob", Method::Put, "job.write"),
            ("JobStatusesOf", Method::Put, "job.list"),
            ("ForcePeriodic", Method::Put, "periodic.write"),
            ("NodePoolNodes", Method::Get, "node_pool.list"),
            ("ExecAllocation", Method::Get, "client_allocations.write"),
            ("ReadLogs", Method::Get, "file_system.read"),
            ("Search", Method::Put, "search.read"),
            ("SaveSnapshot", Method::Get, "operator.read"),
            ("ListTokens", Method::Get, "acl.list"),
            ("AgentSelf", Method::Get, "agent.read"),
        ] {
            assert_eq!(meter(name, method), expected, "{name}");
        }
    }
}
