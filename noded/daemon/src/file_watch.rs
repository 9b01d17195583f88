//! Being told that a file or directory changed: one inotify instance for everybody who waits.
//!
//! ```text
//!   follower: mark -> look -> nothing new -> changed().await -> look ...
//!                                   ^
//!   inotify --event--> watch of that inode --wakes everybody on it
//! ```
//!
//! A wake says only "look": what happens between a mark and a look is never slept over, and a wake
//! too many costs a look. Where the kernel has no watches left, [`FileWatch::watch`] says so and
//! its caller looks by the clock.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Events that are read at once; more come with the next read.
const BUFFER_BYTES: usize = 16 * 1024;

/// Everything that makes a reader look again.
const EVENTS: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF);

/// Watches files. Clones share one inotify instance, which ends with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct FileWatch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inotify: AsyncFd<OwnedFd>,
    watches: Mutex<BTreeMap<i32, Inode>>,
}

/// One watched inode: the kernel gives it one number, however many wait for it.
#[derive(Debug)]
struct Inode {
    changed: watch::Sender<()>,
    waiting: usize,
}

/// Somebody who waits for one file or directory.
#[derive(Debug)]
pub(crate) struct Watched {
    shared: Arc<Shared>,
    number: i32,
    changed: watch::Receiver<()>,
}

impl FileWatch {
    /// Makes the inotify instance, and a task that hands its events on. Needs a tokio runtime.
    ///
    /// # Errors
    /// Where the kernel has no instance left.
    pub(crate) fn start() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            inotify: crate::poll_fd::poll(inotify)?,
            watches: Mutex::default(),
        });
        tokio::spawn(hand_on(Arc::downgrade(&shared)));
        Ok(Self { shared })
    }

    /// Waits for changes of what `file` is open on; of a directory, for those of its entries too.
    ///
    /// # Errors
    /// Where the kernel has no watch left (`fs.inotify.max_user_watches`).
    pub(crate) fn watch(&self, file: impl AsFd) -> io::Result<Watched> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        // Under the lock: a number that is being removed must not be given to somebody.
        let mut watches = self.shared.watches.lock();
        let number = inotify::add_watch(self.shared.inotify.get_ref(), path, EVENTS)?;
        let inode = watches.entry(number).or_insert_with(|| Inode {
            changed: watch::Sender::new(()),
            waiting: 0,
        });
        inode.waiting += 1;
        let changed = inode.changed.subscribe();
        drop(watches);
        Ok(Watched {
            shared: Arc::clone(&self.shared),
            number,
            changed,
        })
    }
}

impl Watched {
    /// What changed up to now is about to be looked at.
    pub(crate) fn mark(&mut self) {
        self.changed.borrow_and_update();
    }

    /// Waits for a change after the last [`Self::mark`].
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The sender is kept as long as anybody waits.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watches = self.shared.watches.lock();
        let Some(inode) = watches.get_mut(&self.number) else {
            return;
        };
        inode.waiting -= 1;
        if inode.waiting == 0 {
            watches.remove(&self.number);
            // An inode that is gone took its watch along.
            let _ = inotify::remove_watch(self.shared.inotify.get_ref(), self.number);
        }
    }
}

impl Shared {
    /// Reads every event that is there, and wakes whom they concern.
    fn read_events(&self) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let watches = self.watches.lock();
                    // Events were lost: anything may have changed.
                    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        watches.values().for_each(|inode| {
                            inode.changed.send_replace(());
                        });
                    } else if let Some(inode) = watches.get(&event.wd()) {
                        inode.changed.send_replace(());
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// How often it is noticed that nobody watches any more.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

async fn hand_on(shared: std::sync::Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let ready = tokio::time::timeout(IDLE, shared.inotify.readable()).await;
        let Ok(ready) = ready else { continue };
        let read = ready
            .map_err(|error| error.to_string())
            .and_then(|mut ready| {
                let read = shared.read_events();
                ready.clear_ready();
                read.map_err(|errno| errno.to_string())
            });
        if let Err(error) = read {
            // Whoever waits looks by the clock as well.
            tracing::error!(%error, "changes of followed files are no longer detected");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn woken(watched: &mut Watched) {
        let waited = tokio::time::timeout(PATIENCE, watched.changed()).await;
        waited.expect("a change wakes");
        watched.mark();
    }

    #[tokio::test]
    async fn a_directory_wakes_for_its_entries_and_everybody_who_waits() {
        let directory = tempfile::tempdir().unwrap();
        let opened = File::open(directory.path()).unwrap();
        let files = FileWatch::start().unwrap();
        let (mut one, mut two) = (files.watch(&opened).unwrap(), files.watch(&opened).unwrap());
        let path = directory.path().join("a");
        std::fs::write(&path, "x").unwrap();
        woken(&mut one).await;
        woken(&mut two).await;
        drop(two);
        std::fs::remove_file(&path).unwrap();
        woken(&mut one).await;
        drop(one);
        assert!(
            files.shared.watches.lock().is_empty(),
            "watches are given back"
        );
    }

    #[tokio::test]
    async fn a_change_between_a_mark_and_the_wait_is_not_slept_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let opened = File::open(&path).unwrap();
        let files = FileWatch::start().unwrap();
        let mut watched = files.watch(&opened).unwrap();
        watched.mark();
        std::fs::write(&path, "xy").unwrap();
        // Whether the event is handed on before or after the wait begins does not matter.
        tokio::task::yield_now().await;
        woken(&mut watched).await;
    }
}
