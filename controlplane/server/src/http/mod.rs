//! The HTTP API.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::leading::LeadingStats;

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
}

/// Serves the API until `stopped` says so.
pub async fn serve(
    _api: Api,
    _listener: tokio::net::TcpListener,
    _https: Option<Arc<rustls::ServerConfig>>,
    mut stopped: watch::Receiver<bool>,
) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
