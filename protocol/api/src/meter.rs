//! The names that metrics and budgets know an operation by.

use protocol_access::need::Need;

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

/// The budget that a request is charged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charge {
    /// None: the route tells whether a server is well, and is never refused.
    Nothing,
    /// That of logins, by address.
    Login,
    /// The caller's.
    Caller,
}

impl Endpoint {
    /// The budget that a request of this operation is charged to.
    pub fn charge(&self) -> Charge {
        let path = self.path.strip_prefix("/v1/").unwrap_or(self.path);
        match path {
            "agent/health" => Charge::Nothing,
            "acl/login" | "acl/token/onetime/exchange" => Charge::Login,
            _ if path.starts_with("acl/oidc/") => Charge::Login,
            _ if path.starts_with("status/") || path.contains(".well-known/") => Charge::Nothing,
            _ => Charge::Caller,
        }
    }

    /// Whether a credential that is not valid is told from a valid one: by a refusal, or by the
    /// answer. Other routes ignore it.
    pub fn examines_credential(&self) -> bool {
        let tells = ["/v1/acl/whoami", "/v1/acl/token/self"];
        self.need != Need::Public || tells.contains(&self.path)
    }

    /// Whether a request by `method` is written into the audit log: changes of access control, of
    /// root keys and of variables, logins, and snapshots, which hold everything.
    pub fn is_audited(&self, method: Method) -> bool {
        match self.room() {
            "acl" | "keyring" | "variables" => self.class(method) == Class::Write,
            _ => self.path == "/v1/operator/snapshot",
        }
    }

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
            ("operator", "keyring") | ("jwks.json" | "openid-configuration", _) => "keyring",
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
        let endpoint = endpoint(name);
        format!("{}.{}", endpoint.room(), endpoint.class(method).name())
    }

    fn endpoint(name: &str) -> &'static Endpoint {
        let endpoint = crate::endpoints().find(|it| it.name == name);
        endpoint.expect("an operation")
    }

    #[test]
    fn operations_are_charged_to_the_budgets_of_the_design() {
        for (name, expected) in [
            ("AgentHealth", Charge::Nothing),
            ("Leader", Charge::Nothing),
            ("ReadJwks", Charge::Nothing),
            ("Login", Charge::Login),
            ("StartOidcLogin", Charge::Login),
            ("CompleteOidcLogin", Charge::Login),
            ("ExchangeOneTimeToken", Charge::Login),
            ("CreateOneTimeToken", Charge::Caller),
            ("ListJobs", Charge::Caller),
            ("Regions", Charge::Caller),
        ] {
            assert_eq!(endpoint(name).charge(), expected, "{name}");
        }
    }

    #[test]
    fn routes_that_tell_of_a_credential_examine_it() {
        let ignoring = crate::endpoints().filter(|it| !it.examines_credential());
        let mut names: Vec<&str> = ignoring.map(|it| it.name).collect();
        names.sort_unstable();
        let expected = [
            "AgentHealth",
            "Bootstrap",
            "CompleteOidcLogin",
            "ExchangeOneTimeToken",
            "Leader",
            "ListAuthMethods",
            "Login",
            "OpenApi",
            "Peers",
            "ReadDiscovery",
            "ReadJwks",
            "Regions",
            "StartOidcLogin",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn changes_of_access_and_snapshots_are_audited() {
        for (name, method, expected) in [
            ("UpdatePolicy", Method::Put, true),
            ("WriteVariable", Method::Put, true),
            ("DeleteVariable", Method::Delete, true),
            ("ReadVariable", Method::Get, false),
            ("DeleteToken", Method::Delete, true),
            ("Login", Method::Put, true),
            ("SaveSnapshot", Method::Get, true),
            ("RestoreSnapshot", Method::Put, true),
            ("RotateRootKey", Method::Put, true),
            ("RemoveRootKey", Method::Delete, true),
            ("ListRootKeys", Method::Get, false),
            ("ReadJwks", Method::Get, false),
            ("ReadPolicy", Method::Get, false),
            ("ReadWhoAmI", Method::Get, false),
            ("RegisterJob", Method::Put, false),
        ] {
            assert_eq!(endpoint(name).is_audited(method), expected, "{name}");
        }
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
            ("ReadJwks", Method::Get, "keyring.read"),
        ] {
            assert_eq!(meter(name, method), expected, "{name}");
        }
    }
}
