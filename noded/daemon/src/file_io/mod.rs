//! Reading task files for calls, on a thread of their own: on io_uring (tokio-uring) where the
//! host allows it, with plain reads behind the same interface where it does not.
//!
//! ```text
//!   Reader --ReadAt--> task of that file on the io thread --> bytes
//! ```
//!
//! What has no form in the ring (opening, listing) is done beside the loop, a few at a time: a disk
//! that hangs keeps those who look at it, and neither heartbeats nor other work.
//!
//! A file belongs to one long-lived task of the io thread; a read in the ring is never cancelled
//! half-way, whoever stops waiting for it.

mod plain;
mod ring;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};

/// Files that wait to be taken over by the io thread.
const OPENS_MAX: usize = 256;
/// The most bytes of one read.
pub const READ_BYTES_MAX: usize = 64 * 1024;
/// Looks at files that are under way: a quarter of the threads that may block.
const LOOKS_MAX: usize = 8;
/// How long one waits for its turn before it is refused.
const TURN_MAX: Duration = Duration::from_secs(10);

/// What the reads are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// io_uring.
    Ring,
    /// `pread`.
    Plain,
}

/// The io thread. Clones share it; it ends with the last of them and the last open file.
#[derive(Debug, Clone)]
pub struct FileIo {
    opens: mpsc::Sender<Open>,
    engine: Engine,
    looks: Arc<Semaphore>,
    turn_max: Duration,
}

/// A file that the io thread reads.
#[derive(Debug)]
pub struct Reader {
    reads: mpsc::Sender<ReadAt>,
    file: Arc<File>,
    io: FileIo,
}

/// What a file that is being read is like now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Its size in bytes.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    reads: mpsc::Receiver<ReadAt>,
}

#[derive(Debug)]
struct ReadAt {
    offset: u64,
    bytes_max: usize,
    answer: oneshot::Sender<io::Result<Vec<u8>>>,
}

impl FileIo {
    /// Starts an io thread with the best engine that the host has.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start() -> io::Result<Self> {
        match ring::probe() {
            Ok(()) => Self::start_with(Engine::Ring),
            Err(error) => {
                tracing::warn!(%error, "io_uring is refused here; task files are read plainly");
                Self::start_with(Engine::Plain)
            }
        }
    }

    /// Starts an io thread with this engine.
    ///
    /// # Errors
    /// Where no thread can be made, or the host refuses the engine.
    pub fn start_with(engine: Engine) -> io::Result<Self> {
        if engine == Engine::Ring {
            ring::probe()?;
        }
        let (opens, opened) = mpsc::channel(OPENS_MAX);
        std::thread::Builder::new()
            .name("io".to_owned())
            .spawn(move || match engine {
                Engine::Ring => ring::run(opened),
                Engine::Plain => plain::run(opened),
            })?;
        let looks = Arc::new(Semaphore::new(LOOKS_MAX));
        Ok(Self {
            opens,
            engine,
            looks,
            turn_max: TURN_MAX,
        })
    }

    /// What it reads with.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Does something that may wait for a disk on a thread that may.
    ///
    /// # Errors
    /// Where others are under way and none of them ends.
    pub async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = Arc::clone(&self.looks).acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(self.turn_max, turn).await else {
            let problem = "other looks at files do not end: the disk hangs";
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        };
        // Given back when the work ends, whoever still waits for it.
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(io::Error::other)
    }

    /// Hands a file to the io thread.
    ///
    /// # Errors
    /// Where the thread is gone, or the descriptor cannot be duplicated.
    pub async fn open(&self, file: File) -> io::Result<Reader> {
        let own = file.try_clone()?;
        let (reads, received) = mpsc::channel(1);
        let open = Open {
            file,
            reads: received,
        };
        self.opens.send(open).await.map_err(|_| gone())?;
        Ok(Reader {
            reads,
            file: Arc::new(own),
            io: self.clone(),
        })
    }
}

impl Reader {
    /// Reads at most `bytes_max` bytes from `offset`; nothing at the end of the file.
    ///
    /// # Errors
    /// What the kernel says, or that the io thread is gone.
    pub async fn read_at(&self, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let (answer, result) = oneshot::channel();
        let read = ReadAt {
            offset,
            bytes_max: bytes_max.min(READ_BYTES_MAX),
            answer,
        };
        self.reads.send(read).await.map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }

    /// What the file is like now.
    ///
    /// # Errors
    /// What the kernel says, or as [`FileIo::beside`].
    pub async fn state(&self) -> io::Result<FileState> {
        use std::os::unix::fs::MetadataExt;
        let file = Arc::clone(&self.file);
        let metadata = self.io.beside(move || file.metadata()).await??;
        Ok(FileState {
            size: metadata.len(),
            links: metadata.nlink(),
        })
    }
}

fn gone() -> io::Error {
    io::Error::other("the io thread is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reads_a_file(engine: Engine) {
        let io = match FileIo::start_with(engine) {
            Ok(io) => io,
            Err(error) => {
                eprintln!("skipped: {engine:?}: {error}");
                return;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "hello world").unwrap();
        let reader = io.open(File::open(&path).unwrap()).await.unwrap();
        assert_eq!(reader.read_at(0, 5).await.unwrap(), b"hello");
        assert_eq!(reader.read_at(6, 100).await.unwrap(), b"world");
        assert!(reader.read_at(11, 100).await.unwrap().is_empty());
        std::fs::write(&path, "hello world, again").unwrap();
        assert_eq!(reader.read_at(11, 100).await.unwrap(), b", again");
        let state = |size, links| FileState { size, links };
        assert_eq!(reader.state().await.unwrap(), state(18, 1));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(reader.state().await.unwrap(), state(18, 0));
        assert_eq!(reader.read_at(0, 5).await.unwrap(), b"hello");
    }

    #[tokio::test]
    async fn looks_that_do_not_end_keep_nobody_for_ever_and_give_their_turns_back() {
        let mut io = FileIo::start_with(Engine::Plain).unwrap();
        io.turn_max = Duration::from_millis(1);
        let (release, hangs) = std::sync::mpsc::sync_channel::<()>(1);
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let stuck = || {
            let (io, hangs) = (io.clone(), Arc::clone(&hangs));
            tokio::spawn(async move {
                // Ends when the test lets it.
                io.beside(move || hangs.lock().unwrap().recv().is_err())
                    .await
            })
        };
        let stuck: Vec<_> = (0..LOOKS_MAX).map(|_| stuck()).collect();
        while io.looks.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = io.beside(|| ()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(release);
        for look in stuck {
            assert!(look.await.unwrap().unwrap());
        }
        io.turn_max = TURN_MAX;
        io.beside(|| ()).await.unwrap();
    }

    #[tokio::test]
    async fn the_ring_reads() {
        reads_a_file(Engine::Ring).await;
    }

    #[tokio::test]
    async fn plain_reads_read_the_same() {
        reads_a_file(Engine::Plain).await;
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_takes_nothing_from_the_next() {
        let Ok(io) = FileIo::start() else { return };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "abcdef").unwrap();
        let reader = io.open(File::open(&path).unwrap()).await.unwrap();
        for _ in 0..50 {
            // Polled once at most, then dropped.
            let _ = futures::FutureExt::now_or_never(reader.read_at(0, 3));
        }
        assert_eq!(reader.read_at(0, 3).await.unwrap(), b"abc");
        assert_eq!(reader.read_at(3, 3).await.unwrap(), b"def");
    }
}
