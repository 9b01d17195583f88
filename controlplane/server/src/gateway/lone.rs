//! For tests: a server that leads a cluster of its own, and a gateway beside the server's whose
//! updates nobody proposes.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::{CoalescerLoop, Gateway};
use crate::Server;
use crate::config::Config;

/// How long a test waits for the cluster.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Lone {
    pub(super) server: Server,
    pub(super) gateway: Arc<Gateway>,
    pub(super) updates: CoalescerLoop,
    pub(super) directory: TempDir,
}

pub(super) async fn lone() -> Lone {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
    config.http.listen.set_port(0);
    config.quic_listen.set_port(0);
    let server = Server::start(config.clone()).await.expect("a server");
    let mut newest = server.cluster().hub().watch();
    let formed = newest.wait_for(|snapshot| snapshot.active_root_key().is_some());
    let formed = timeout(PATIENCE, formed).await.expect("in time");
    drop(formed.expect("the state is there"));
    let (gateway, updates) =
        Gateway::new(server.cluster().clone(), &config, server.keyring().clone());
    Lone {
        server,
        gateway,
        updates,
        directory,
    }
}
