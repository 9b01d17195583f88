//! Access control through the gate: policies and tokens straight from the log, requests over HTTP.

mod areas;
mod budgets;
mod callers;
mod differences;
mod freshness;
mod matrix;
mod metrics;
mod node_metadata;
pub(crate) mod second_look;
mod threats;

use std::time::Duration;

use controlplane_server::cluster::Cluster;
use controlplane_state::command::{AclPolicies, AclTokens};
use controlplane_state::{AclPolicy, AclToken, AclTokenKind, Digest};
use protocol_client::Client;
use protocol_model::UnixNanos;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::world::World;

/// A token and what its holder shows.
pub(crate) struct Holder {
    pub(crate) accessor_id: String,
    pub(crate) secret: String,
}

impl Holder {
    /// The holder of a token that is to be made.
    pub(crate) fn unmade() -> Self {
        Self {
            accessor_id: Uuid::new_v4().to_string(),
            secret: Uuid::new_v4().to_string(),
        }
    }

    pub(crate) fn of(&self, client: &Client) -> Client {
        client.clone().with_token(Some(self.secret.clone()))
    }
}

fn digest(secret: &str) -> Digest {
    Digest(Sha256::digest(secret.as_bytes()).into())
}

/// Writes a policy.
pub(crate) async fn policy(cluster: &Cluster, name: &str, rules: &str) {
    let policy = AclPolicy {
        name: name.to_owned(),
        rules: rules.to_owned(),
        ..AclPolicy::default()
    };
    let policies = vec![policy];
    let command = AclPolicies::Upsert { policies };
    cluster.change(command.into()).await.expect("a policy");
}

/// Makes a token with these policies; a management token without any.
pub(crate) async fn token(cluster: &Cluster, policies: &[&str]) -> Holder {
    let holder = Holder::unmade();
    make(cluster, &holder, policies).await;
    holder
}

/// The same, for a token that expires after `ttl`.
pub(crate) async fn expiring(cluster: &Cluster, policies: &[&str], ttl: Duration) -> Holder {
    let holder = Holder::unmade();
    make_for(cluster, &holder, (policies, Some(ttl))).await;
    holder
}

/// Makes the token of this holder, as [`token`] does.
pub(crate) async fn make(cluster: &Cluster, holder: &Holder, policies: &[&str]) {
    make_for(cluster, holder, (policies, None)).await;
}

async fn make_for(
    cluster: &Cluster,
    holder: &Holder,
    (policies, ttl): (&[&str], Option<Duration>),
) {
    let kind = match policies {
        [] => AclTokenKind::Management,
        _ => AclTokenKind::Client,
    };
    let token = AclToken {
        accessor_id: holder.accessor_id.clone(),
        secret_hash: digest(&holder.secret),
        sealed: None,
        name: "test".to_owned(),
        kind,
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        roles: Vec::new(),
        global: false,
        expiration: None,
        ttl,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let command = AclTokens::Create {
        tokens: vec![token],
    };
    cluster.change(command.into()).await.expect("a token");
}

/// Deletes a token.
pub(crate) async fn delete(cluster: &Cluster, holder: &Holder) {
    let accessors = vec![holder.accessor_id.clone()];
    let command = AclTokens::Delete { accessors };
    cluster.change(command.into()).await.expect("it is deleted");
}

/// A server where access control is on, with a management token.
pub(crate) async fn world() -> (World, Client) {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let manager = token(world.server.cluster(), &[]).await;
    let client = manager.of(&world.client);
    (world, client)
}
