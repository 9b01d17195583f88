//! What noded does without being asked: looks at its host again, measures its disk, and takes in
//! another configuration on SIGHUP. It only looks; the loop decides what follows.
//!
//! ```text
//!   every fingerprint_interval ---\
//!   metadata changed --------------+--> Input::Looked      what the host is now
//!   SIGHUP --> file --> reload ----+
//!                         `-----------> Input::Reconfigured
//!   every gc_interval ----\
//!   an allocation is gone -+----------> Input::DiskMeasured
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol_error_chain::chain;
use protocol_transport::{Endpoint, Identity};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::config::{Config, LiveConfig, Reload, reload};
use crate::file_io::Engine;
use crate::fingerprint::{disk, fingerprint};
use crate::identity::NodeIdentity;
use crate::input::Input;
use crate::metadata::MetadataStore;
use crate::networks::Availability;
use crate::reach::Reach;
use crate::session::SessionContext;

/// The part of an interval that chance may add: nodes that start together do not look together.
const JITTER_DIVISOR: u32 = 4;
/// The least time between two looks for the metadata's sake. Each may be an entry in the log.
const METADATA_PAUSE: Duration = Duration::from_secs(1);

/// How full the disk with allocations is, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes.
    pub bytes_percent: u8,
    /// Inodes; 0 where the file system does not count them.
    pub inodes_percent: u8,
}

/// How the parts outside of the daemon take in another configuration.
pub trait Surroundings: Send + Sync {
    /// The node works, before any server answered; or a reload is over.
    fn ready(&self);
    /// A reload begins.
    fn reloading(&self);
    /// Log by this filter from now on.
    ///
    /// # Errors
    /// Why it is none.
    fn set_log_level(&self, filter: &str) -> Result<(), String>;
}

/// Looks after the node.
pub(crate) struct Caretaker {
    config: LiveConfig,
    path: PathBuf,
    identity: NodeIdentity,
    engine: Engine,
    bridge: Availability,
    metadata: Arc<MetadataStore>,
    endpoint: Endpoint,
    inputs: mpsc::Sender<Input>,
    /// Somebody made room: the disk is to be measured again.
    pub(crate) measure: Arc<Notify>,
    seed: [u8; 16],
}

impl Caretaker {
    /// A caretaker for the node of this session; `path` is the configuration's file, chance comes
    /// from `seed`.
    pub(crate) fn new(
        reach: &Reach,
        session: &SessionContext,
        path: PathBuf,
        engine: Engine,
        (bridge, metadata): (Availability, Arc<MetadataStore>),
        seed: [u8; 16],
    ) -> Self {
        Self {
            config: reach.config.clone(),
            path,
            identity: session.identity.clone(),
            engine,
            bridge,
            metadata,
            endpoint: reach.endpoint.clone(),
            inputs: session.inputs.clone(),
            measure: Arc::new(Notify::new()),
            seed,
        }
    }

    /// Goes on until the loop ends.
    pub(crate) async fn run(
        self,
        mut reloads: mpsc::Receiver<()>,
        surroundings: Arc<dyn Surroundings>,
    ) {
        let mut round = 0;
        let mut metadata = self.metadata.changes();
        let mut metadata_look_from = Instant::now();
        let mut look_at = Instant::now() + self.next_look(round);
        let mut measure_at = Instant::now() + self.config.now().upkeep.gc_interval;
        loop {
            let told = tokio::select! {
                Some(()) = reloads.recv() => {
                    surroundings.reloading();
                    let told = self.reload(surroundings.as_ref()).await;
                    surroundings.ready();
                    look_at = Instant::now() + self.next_look(round);
                    measure_at = Instant::now() + self.config.now().upkeep.gc_interval;
                    told
                }
                () = tokio::time::sleep_until(look_at) => {
                    round += 1;
                    look_at = Instant::now() + self.next_look(round);
                    self.look().await
                }
                () = tokio::time::sleep_until(measure_at) => {
                    measure_at = Instant::now() + self.config.now().upkeep.gc_interval;
                    self.measure().await
                }
                () = self.measure.notified() => self.measure().await,
                () = changed(&mut metadata, metadata_look_from) => {
                    metadata_look_from = Instant::now() + METADATA_PAUSE;
                    self.look().await
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    fn next_look(&self, round: usize) -> Duration {
        let interval = self.config.now().upkeep.fingerprint_interval;
        let chance = u32::from(self.seed[round % self.seed.len()]);
        interval + interval / JITTER_DIVISOR * chance / u32::from(u8::MAX)
    }

    async fn tell(&self, input: Input) -> Result<(), LoopEnded> {
        self.inputs.send(input).await.map_err(|_| LoopEnded)
    }

    async fn look(&self) -> Result<(), LoopEnded> {
        let (config, identity, engine) = (self.config.now(), self.identity.clone(), self.engine);
        let (bridge, metadata) = (self.bridge.clone(), Arc::clone(&self.metadata));
        let look = move || fingerprint(&config, &identity, engine, &bridge, &metadata);
        let looked = tokio::task::spawn_blocking(look).await;
        match looked {
            Ok(Ok(found)) => self.tell(Input::Looked(Ok(Box::new(found.node)))).await,
            Ok(Err(error)) => self.tell(Input::Looked(Err(chain(&error)))).await,
            Err(error) => {
                tracing::error!(%error, "the host's facts were not read");
                Ok(())
            }
        }
    }

    async fn measure(&self) -> Result<(), LoopEnded> {
        let root = self.config.now().alloc_root();
        let Ok(disk) = tokio::task::spawn_blocking(move || disk(&root)).await else {
            return Ok(());
        };
        let use_now = DiskUse {
            bytes_percent: percent(disk.shared(), disk.free),
            inodes_percent: percent(disk.inodes_total, disk.inodes_free),
        };
        self.tell(Input::DiskMeasured(use_now)).await
    }

    /// Takes in the file as it is now; one that is wrong changes nothing.
    async fn reload(&self, surroundings: &dyn Surroundings) -> Result<(), LoopEnded> {
        let old = self.config.now();
        let path = self.path.clone();
        // Its disk may hang, and heartbeats share this thread.
        let Ok(loaded) = tokio::task::spawn_blocking(move || Config::load(&path)).await else {
            return Ok(());
        };
        let new = match loaded {
            Ok(new) => new,
            Err(error) => {
                tracing::error!(
                    error = %chain(&error),
                    "the configuration file is not valid; nothing was changed"
                );
                return Ok(());
            }
        };
        let Reload {
            mut config,
            applied,
            needs_restart,
        } = reload(&old, &new);
        if config.log_level != old.log_level
            && let Err(problem) = surroundings.set_log_level(&config.log_level)
        {
            tracing::error!(%problem, filter = %config.log_level, "log_level was not changed");
            config.log_level.clone_from(&old.log_level);
        }
        // Always: the files may have been renewed under the same names.
        if let Err(problem) = self.renew_certificate(&config).await {
            tracing::error!(%problem, "the certificate was not replaced");
            config.tls = old.tls.clone();
        }
        if !needs_restart.is_empty() {
            let keys = needs_restart.join(", ");
            tracing::warn!(%keys, "these keys changed in the file and take effect after a restart of noded");
        }
        tracing::info!(changed = %applied.join(", "), "the configuration was reloaded");
        self.config.replace(config);
        self.tell(Input::Reconfigured(self.config.now())).await?;
        self.look().await
    }

    async fn renew_certificate(&self, config: &Config) -> Result<(), String> {
        let tls = config.tls.clone();
        let load = move || Identity::load(&tls.ca_file, &tls.cert_file, &tls.key_file);
        let identity = tokio::task::spawn_blocking(load)
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| chain(&error))?;
        self.endpoint
            .use_identity(&identity)
            .map_err(|error| chain(&error))
    }
}

/// Ends when the metadata has changed, not before `from`. Loses no change where it is dropped.
async fn changed(changes: &mut watch::Receiver<()>, from: Instant) {
    tokio::time::sleep_until(from).await;
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The loop ended: nobody wants to know any more.
struct LoopEnded;

fn percent(total: u64, free: u64) -> u8 {
    if total == 0 {
        return 0;
    }
    let used = u128::from(total.saturating_sub(free)) * 100 / u128::from(total);
    u8::try_from(used).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down_and_nothing_is_no_share() {
        for (total, free, expected) in [(0, 0, 0), (100, 20, 80), (1000, 199, 80), (7, 9, 0)] {
            assert_eq!(percent(total, free), expected, "{total} {free}");
        }
        assert_eq!(percent(u64::MAX, 0), 100);
    }
}
