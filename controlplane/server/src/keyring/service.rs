//! The KEKs of this server: on its disk, and in its keyring. What blocks runs off the runtime.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controlplane_keyring::{
    Kek, KekFileError, KekId, KekStore, Keyring, KeyringError, LoadedKeks, RootKeys,
};
use controlplane_state::Snapshot;
use parking_lot::Mutex;
use protocol_error_chain::chain;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::proofs::Proofs;

/// KEKs that a server keeps. A cluster needs one, and one per restored history.
const KEKS_MAX: usize = 64;

/// How long the keyring may take to take over root keys of the state.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at it.
const FOLLOWED_PAUSE: Duration = Duration::from_millis(20);

/// Whether the files were read before: an unusable one is in the log already then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repeated {
    No,
    Yes,
}

/// The KEKs as the host configures them.
#[derive(Debug, Default)]
struct Host {
    /// KEKs that it hands over, of which no other server gets a copy.
    provided: BTreeSet<KekId>,
    wanted: Option<KekId>,
}

/// See the top of this file. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct KekService {
    keyring: Keyring,
    store: Arc<dyn KekStore>,
    host: Arc<Mutex<Host>>,
    /// Whether the KEKs of the disk are in the keyring. Before, no answer to another server says
    /// which there are: it would count as none, and a second KEK would be made.
    loaded: watch::Sender<bool>,
    proofs: Proofs,
}

impl KekService {
    /// For the KEKs of `store`, which are not read yet.
    pub(crate) fn new(store: Arc<dyn KekStore>) -> Self {
        Self {
            keyring: Keyring::default(),
            store,
            host: Arc::default(),
            loaded: watch::Sender::new(false),
            proofs: Proofs::default(),
        }
    }

    /// The keyring, which seals and opens.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The proofs of this server's own requests for KEKs.
    pub(super) fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// Whether the KEKs of the disk are in the keyring.
    pub(super) fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// Reads the KEKs of the disk, unless that was done.
    ///
    /// # Errors
    /// When not even their list can be read: the reason.
    pub(super) async fn load(&self) -> Result<(), String> {
        if self.is_loaded() {
            return Ok(());
        }
        self.read(Repeated::No).await?;
        self.loaded.send_replace(true);
        Ok(())
    }

    /// Reads the KEKs of the disk once more: an operator may have put one there.
    pub(crate) async fn look_again(&self) {
        if let Err(reason) = self.read(Repeated::Yes).await {
            tracing::warn!(reason, "the KEK files were not read");
        }
    }

    async fn read(&self, repeated: Repeated) -> Result<(), String> {
        let store = Arc::clone(&self.store);
        let loaded = spawn_blocking(move || store.load()).await;
        let loaded = loaded.map_err(|error| error.to_string())?;
        let LoadedKeks {
            keks,
            provided,
            wanted,
            unusable,
        } = loaded.map_err(|error| chain(&error))?;
        *self.host.lock() = Host { provided, wanted };
        for error in unusable.iter().filter(|_| repeated == Repeated::No) {
            tracing::error!(reason = chain(error), "a KEK file is left out");
        }
        let known = self.keyring.keks();
        for kek in keks.into_iter().filter(|kek| !known.contains(&kek.id())) {
            tracing::info!(kek = %kek.id(), "KEK read");
            self.add(kek).await;
        }
        Ok(())
    }

    /// Takes over the root keys of the state.
    pub(super) async fn follow(&self, snapshot: &Snapshot) {
        let keys = RootKeys::of(snapshot);
        let keyring = self.keyring.clone();
        // Reading an RSA key takes a moment.
        if let Err(error) = spawn_blocking(move || keyring.set_root_keys(keys)).await {
            tracing::error!(%error, "the root keys of the state were not taken over");
        }
    }

    /// Keeps a KEK on the disk, durably, and then in the keyring.
    ///
    /// # Errors
    /// When it is not kept: the reason. It is in the keyring of this process only where it was.
    pub(super) async fn keep(&self, kek: Kek) -> Result<(), String> {
        let known = self.keyring.keks();
        if known.len() >= KEKS_MAX && !known.contains(&kek.id()) {
            return Err(format!(
                "this server keeps {KEKS_MAX} KEKs already: move those that are not needed away"
            ));
        }
        let (store, stored) = (Arc::clone(&self.store), kek.clone());
        let stored: Result<Result<(), KekFileError>, _> =
            spawn_blocking(move || store.store(&stored)).await;
        stored
            .map_err(|error| error.to_string())?
            .map_err(|error| chain(&error))?;
        if !known.contains(&kek.id()) {
            tracing::info!(kek = %kek.id(), "KEK stored");
        }
        self.add(kek).await;
        Ok(())
    }

    /// Uses a KEK, which may be on no disk.
    pub(super) async fn add(&self, kek: Kek) {
        let keyring = self.keyring.clone();
        // Root keys that waited for it are unwrapped.
        if let Err(error) = spawn_blocking(move || keyring.add_kek(kek)).await {
            tracing::error!(%error, "a KEK was not taken over");
        }
    }

    /// The KEK that every root key is to be wrapped with; `None` where any may.
    pub(super) fn wanted(&self) -> Option<KekId> {
        self.host.lock().wanted
    }

    /// The KEK that wraps new root keys: the one that is wanted, else that of the active key.
    ///
    /// # Errors
    /// Where this server lacks it, or there is no root key yet.
    pub(super) fn wrapping(&self) -> Result<Kek, KeyringError> {
        let active = self.keyring.active().map(|(_, kek)| kek);
        let wanted = self.wanted().or(active).ok_or(KeyringError::NoRootKey)?;
        let missing = KeyringError::Missing { kek: wanted };
        self.keyring.kek(wanted).ok_or(missing)
    }

    /// Waits until the keyring has the root keys of a state whose active one has this number; any
    /// where none is given.
    pub(super) async fn follows(&self, active: Option<u32>) {
        let deadline = Instant::now() + FOLLOWED_WITHIN;
        let has_it = || {
            let found = self.keyring.active().map(|(number, _)| number);
            found.is_some_and(|found| active.is_none_or(|active| active == found))
        };
        while !has_it() && Instant::now() < deadline {
            sleep(FOLLOWED_PAUSE).await;
        }
    }

    /// The KEKs of this id, or all, that other servers may have, too.
    pub(super) fn keks(&self, id: Option<KekId>) -> Vec<Kek> {
        let ids = match id {
            Some(id) => vec![id],
            None => self.keyring.keks(),
        };
        let host = self.host.lock();
        let shared = ids.into_iter().filter(|id| !host.provided.contains(id));
        let keks = shared.filter_map(|id| self.keyring.kek(id));
        keks.take(KEKS_MAX).collect()
    }
}
