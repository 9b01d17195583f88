//! The HTTP API, in the shapes of Nomad's `/v1`.
//!
//! ```text
//!   TCP/TLS --listen--> axum --entry--> gate --> Ask --route--> one file per resource
//!                                        |               reads:  Ask::read, on a snapshot
//!                                        |               writes: Cluster::change
//!                                        |               nodes:  Gateway::call_node
//!                                        path, parameters, body, caller
//! ```
//!
//! Paths are split before they are decoded, because a job's id may hold an encoded slash; that is
//! why routing is done here and not by axum. Every answer is JSON with the index headers, every
//! refusal plain text. Reads are consistent unless `?stale`; writes go through the leader, wherever
//! it is; calls to nodes go through the server that holds their session.

mod ask;
mod body;
mod client_fs;
mod entry;
mod error;
mod filter;
mod first_bytes;
mod fuzzy;
mod gate;
mod gzip;
mod health;
mod listen;
mod node_call;
mod origin;
mod own_node;
mod page;
mod places;
mod plain_http;
mod query;
mod requested;
mod route;

mod acl;
mod actions;
mod agent;
mod alloc;
mod client_alloc;
mod deployment_change;
mod deployments;
mod detail;
mod eval_delete;
mod evals;
mod exec;
mod job;
mod job_diff;
mod job_dispatch;
mod job_periodic;
mod job_plan;
mod job_register;
mod job_revert;
mod job_scale;
mod job_statuses;
mod job_tags;
mod job_versions;
mod jobs;
mod keyring;
mod lookup;
mod metrics;
mod namespaces;
mod node_pools;
mod nodes;
mod operator;
pub mod requests;
mod restore;
mod scaling;
mod search;
mod shown;
mod snapshot;
mod status;
mod task_requests;
mod variables;
mod well_known;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use controlplane_keyring::Keyring;
use controlplane_raft::Leader;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::listen::ListenLimits;
pub(crate) use self::task_requests::TaskEntry;
use crate::certificates::Https;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::keyring::KekService;
use crate::leading::LeadingStats;
use crate::login::Logins;

/// How long a client may take for its TLS handshake, and again for its first bytes.
const OPENING_MAX: Duration = Duration::from_secs(5);

/// What every route works on. Clones share everything.
#[derive(Clone, Debug)]
pub struct Api {
    /// The cluster.
    pub cluster: Cluster,
    /// The nodes.
    pub gateway: Arc<Gateway>,
    /// What the server was built from.
    pub config: Arc<Config>,
    /// What the leader's loop tells of itself.
    pub leading: watch::Receiver<LeadingStats>,
    /// Seals and opens the secrets of the state.
    pub keyring: Keyring,
    /// The KEKs behind it.
    pub(crate) keks: KekService,
    /// Logins with identity providers.
    pub logins: Logins,
    /// Held while a snapshot is restored here: one at a time.
    pub restoring: Arc<tokio::sync::Mutex<()>>,
}

impl Api {
    /// Who leads; nobody where this server would, and no majority answers it: it does not cease to
    /// be the leader by itself, and can do nothing as one.
    fn leader(&self) -> Option<Leader> {
        let leader = self.cluster.leader()?;
        let own = leader.id == self.cluster.server_id();
        (!own || self.cluster.raft().hears_majority()).then_some(leader)
    }
}

/// The address of a client whose requests come over no connection: a simulator adds it to each of
/// them. A connection of the listener has an address of its own, and this one does not count there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientAddress(pub IpAddr);

/// The API without anything that listens: requests in, answers out. What waits ends when `stopped`
/// says so.
pub fn router(api: Api, stopped: watch::Receiver<bool>) -> Router {
    let state = entry::Entry::new(api, stopped);
    Router::new().fallback(entry::handle).with_state(state)
}

/// Serves the API until `stopped` says so; requests that go on then are cut off after two seconds.
pub(crate) async fn serve(
    api: Api,
    listener: TcpListener,
    https: watch::Receiver<Https>,
    stopped: watch::Receiver<bool>,
) {
    metrics::install();
    let limits = ListenLimits {
        connections_max: api.config.limits.http_connections,
        per_address_max: api.config.limits.http_connections_per_client,
        opening: OPENING_MAX,
    };
    let router = router(api, stopped.clone());
    listen::listen(router, listener, https, limits, stopped).await;
}
