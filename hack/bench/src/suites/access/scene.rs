//! One server with access control, a job, and client tokens whose roles give them all policies.

use anyhow::Context;
use hack_cluster::Cluster;
use serde_json::{Value, json};

use super::documents;
use crate::Bench;
use crate::fleet::look;
use crate::http::{Ask as _, Http, wait};
use crate::suites::load::{Requests, request};

/// The secret of the management token.
pub(super) const MANAGER: &str = "b3e0a2a4-6f0d-4c55-9a5e-0c0f3b6f7d11";
/// The path of the job that is read.
pub(super) const JOB_PATH: &str = "/v1/job/web";
/// A path that needs no token: the price of an HTTP request alone.
pub(super) const BARE_PATH: &str = "/v1/status/leader";
/// Policies of a role; a role and a token take 256 links.
const ROLE_POLICIES: usize = 250;
/// Tokens of the callers. Each has a budget of reads of its own, 1,000 a second.
const TOKENS: usize = 128;

/// See the top of this file.
pub(super) struct Scene {
    pub(super) servers: Cluster,
    /// Of the client tokens.
    pub(super) secrets: Vec<String>,
    pub(super) policies: usize,
}

impl Scene {
    /// Starts the server and writes `policies` policies, their roles and the tokens.
    ///
    /// # Errors
    /// If the server does not start, or refuses a write.
    pub(super) fn start(bench: &Bench, policies: usize) -> anyhow::Result<Self> {
        eprintln!("-- 1 server, {policies} policies, {TOKENS} tokens with all of them");
        let settings = bench.settings(1).with_access_control(MANAGER);
        let servers = wait(Cluster::start(settings))?;
        let http = servers.http()?;
        http.put("/v1/jobs", &look::service("web", 1))?;
        for number in 0..policies {
            put_policy(&http, &documents::name(number), &documents::rules(number))?;
        }
        let numbers: Vec<usize> = (0..policies).collect();
        let mut roles = Vec::new();
        for (number, policies) in numbers.chunks(ROLE_POLICIES).enumerate() {
            let names = policies.iter().map(|number| documents::name(*number));
            let links: Vec<Value> = names.map(|name| json!({ "Name": name })).collect();
            let name = format!("role-{number}");
            let body = json!({ "Name": name, "Policies": links });
            http.put("/v1/acl/role", &body)?;
            roles.push(json!({ "Name": name }));
        }
        let mut secrets = Vec::new();
        for number in 0..TOKENS {
            let name = format!("caller-{number}");
            let body = json!({ "Name": name, "Type": "client", "Roles": roles });
            let token = http.put("/v1/acl/token", &body)?;
            let secret = token["SecretID"].as_str();
            secrets.push(secret.context("a token without a secret")?.to_owned());
        }
        Ok(Self {
            servers,
            secrets,
            policies,
        })
    }

    /// The port of its HTTP API.
    pub(super) fn port(&self) -> u16 {
        self.servers.ports(0).http
    }

    /// Reads of the job, each by the next token.
    pub(super) fn reads(&self) -> Requests {
        let secrets = self.secrets.iter();
        secrets
            .map(|secret| request("GET", JOB_PATH, Some(secret), ""))
            .collect()
    }
}

/// Requests that need no token.
pub(super) fn bare() -> Requests {
    [request("GET", BARE_PATH, None, "")].into()
}

/// Writes a policy.
///
/// # Errors
/// If it is refused.
pub(super) fn put_policy(http: &Http, name: &str, rules: &str) -> anyhow::Result<()> {
    let body = json!({ "Name": name, "Rules": rules });
    http.put(&format!("/v1/acl/policy/{name}"), &body)?;
    Ok(())
}
