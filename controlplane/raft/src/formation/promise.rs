//! The promise on disk: given before it is said, so that a crash cannot forget it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::decide::Pledge;
use crate::member::ServerId;
use crate::record;
use crate::store::directory::replace_file;
use crate::store::disk::Disk;

/// The promise that this server has given, if any.
pub(super) struct Promise {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// Held across the write to disk, and while joining: promising and joining exclude each other.
    current: Arc<Mutex<Option<Pledge>>>,
}

/// Kept while a request to join is under way: no promise is given meanwhile.
pub(super) struct Joining {
    _guard: OwnedMutexGuard<Option<Pledge>>,
}

impl Promise {
    /// Reads the promise back.
    pub(super) fn open(disk: Arc<dyn Disk>, directory: PathBuf) -> io::Result<Self> {
        let current = match disk.read(&directory.join("formation")) {
            Ok(bytes) => Some(record::decode("promise", &bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            disk,
            directory,
            current: Arc::new(Mutex::new(current)),
        })
    }

    pub(super) async fn current(&self) -> Option<Pledge> {
        self.current.lock().await.clone()
    }

    /// Promises durably, unless another holds a promise, or the server is just joining. The same
    /// server may change what it was promised.
    pub(super) async fn give(&self, pledge: Pledge) -> io::Result<Result<(), String>> {
        // Not waiting: the caller would run into its own time limit, and then not know.
        let Ok(mut current) = Arc::clone(&self.current).try_lock_owned() else {
            return Ok(Err("this server is joining a cluster".to_owned()));
        };
        if let Some(given) = &*current
            && given.to != pledge.to
        {
            return Ok(Err(format!(
                "this server promised itself to server {}",
                given.to
            )));
        }
        if current.as_ref() != Some(&pledge) {
            let bytes = record::encode(&pledge);
            let (disk, directory) = (Arc::clone(&self.disk), self.directory.clone());
            let path = directory.join("formation");
            blocking(move || replace_file(&*disk, &directory, &path, &bytes)).await?;
            *current = Some(pledge);
        }
        Ok(Ok(()))
    }

    /// Forgets the promise if `to` holds it.
    pub(super) async fn release(&self, to: ServerId) -> io::Result<()> {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|given| given.to == to) {
            self.remove().await?;
            *current = None;
        }
        Ok(())
    }

    /// Forgets any promise.
    pub(super) async fn clear(&self) -> io::Result<()> {
        let mut current = self.current.lock().await;
        if current.is_some() {
            self.remove().await?;
            *current = None;
        }
        Ok(())
    }

    /// Keeps promises from being given while the server joins; `None` when the promise is no
    /// longer what the decision to join was based on.
    pub(super) fn begin_joining(&self, decided_on: Option<&Pledge>) -> Option<Joining> {
        let guard = Arc::clone(&self.current).try_lock_owned().ok()?;
        (guard.as_ref() == decided_on).then_some(Joining { _guard: guard })
    }

    async fn remove(&self) -> io::Result<()> {
        let (disk, directory) = (Arc::clone(&self.disk), self.directory.clone());
        blocking(move || {
            match disk.remove(&directory.join("formation")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            disk.sync_directory(&directory)
        })
        .await
    }
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::host_disk::HostDisk;

    fn pledge(to: u64) -> Pledge {
        Pledge {
            to: ServerId::from_u64(to),
            members: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_promise_outlives_a_restart_and_binds() {
        let directory = tempfile::tempdir().expect("a directory");
        let open =
            || Promise::open(Arc::new(HostDisk), directory.path().to_owned()).expect("opens");
        open()
            .give(pledge(1))
            .await
            .expect("writes")
            .expect("is free");
        let again = open();
        assert_eq!(again.current().await, Some(pledge(1)));
        again
            .give(pledge(2))
            .await
            .expect("writes")
            .expect_err("is bound");
        again
            .give(pledge(1))
            .await
            .expect("writes")
            .expect("the same may repeat");
    }

    #[tokio::test]
    async fn only_who_holds_a_promise_releases_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let promise =
            Promise::open(Arc::new(HostDisk), directory.path().to_owned()).expect("opens");
        promise
            .give(pledge(1))
            .await
            .expect("writes")
            .expect("is free");
        promise
            .release(ServerId::from_u64(2))
            .await
            .expect("writes");
        assert_eq!(promise.current().await, Some(pledge(1)));
        promise
            .release(ServerId::from_u64(1))
            .await
            .expect("writes");
        promise
            .give(pledge(2))
            .await
            .expect("writes")
            .expect("is free again");
    }

    #[tokio::test]
    async fn nothing_is_promised_while_joining() {
        let directory = tempfile::tempdir().expect("a directory");
        let promise =
            Promise::open(Arc::new(HostDisk), directory.path().to_owned()).expect("opens");
        let joining = promise.begin_joining(None).expect("is free");
        promise
            .give(pledge(1))
            .await
            .expect("writes")
            .expect_err("is joining");
        drop(joining);
        promise
            .give(pledge(1))
            .await
            .expect("writes")
            .expect("is free again");
        assert!(
            promise.begin_joining(None).is_none(),
            "a promise was given meanwhile"
        );
    }
}
