//! The keyring of this server, kept up with the state: a task of its own, so that nothing waits for
//! it at start and no election is held up.
//!
//! ```text
//!   KEK files --load--> KekService <--- KekRequest, KekStore of other servers (serve)
//!                        | Keyring -----------------------> handlers seal and open
//!                        ^    ^
//!   state: root keys ----+    +---- KEKs that are missing, from other servers (peers)
//!   leader without a root key: first_key, the shell around controlplane_keyring::FirstKey
//! ```
//!
//! Without its KEK a server replicates, schedules and serves all the same. The log says so with an
//! ERROR at start and each hour, `agent/health` in its message.

mod complaint;
mod first_key;
mod make;
mod open_soon;
mod peers;
mod proofs;
mod published;
pub(crate) mod rotation;
mod seal_soon;
mod serve;
mod service;

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use self::complaint::Complaint;
pub(crate) use self::make::{MakeError, new_root_key};
pub(crate) use self::open_soon::{open_variable_soon, seals_without};
pub(crate) use self::published::jwks;
pub(crate) use self::seal_soon::{seal_first_token, seal_soon};
pub(crate) use self::service::KekService;
use crate::cluster::Cluster;

/// The pause before a KEK that is missing is asked for again, at first; it doubles.
const ASK_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const ASK_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Keeps the keyring up with the state, for as long as the server runs.
pub(crate) async fn run(service: KekService, cluster: Cluster) {
    let mut root_keys = cluster.hub().root_keys();
    let mut status = cluster.watch_status();
    let mut complaint = Complaint::default();
    let mut pause = ASK_PAUSE_MIN;
    loop {
        root_keys.mark_unchanged();
        let standing = status.borrow_and_update().clone();
        let loaded = service.load().await;
        service.follow(&cluster.snapshot()).await;
        let complete = peers::fetch_missing(&service, &cluster).await;
        complaint.look(loaded.err(), service.keyring().trouble(), Instant::now());
        let mut wake = complaint.next();
        if service.is_loaded() && complete {
            pause = ASK_PAUSE_MIN;
        } else {
            wake = wake.min(Instant::now() + pause);
            pause = (pause * 2).min(ASK_PAUSE_MAX);
        }
        if standing.is_leader() && service.is_loaded() {
            let again = first_key::make(&service, &cluster, standing.term).await;
            wake = again.map_or(wake, |pause| wake.min(Instant::now() + pause));
        }
        tokio::select! {
            changed = root_keys.changed() => if changed.is_err() { pending::<()>().await },
            changed = status.changed() => if changed.is_err() { pending::<()>().await },
            () = sleep_until(wake) => {}
        }
    }
}
