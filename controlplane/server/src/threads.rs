//! The threads that the HTTP API has for itself.
//!
//! Whatever clients ask for, a list of a hundred thousand allocations or a thousand blocking
//! queries that wake at once, is read and written here: it takes no time from the log, the nodes'
//! heartbeats and the leader's loop, which have threads of their own.

use std::io;

use protocol_transport::take_short_turns;
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime of its own; its tasks end with it.
#[derive(Debug)]
pub(crate) struct HttpThreads(Option<Runtime>);

impl HttpThreads {
    /// Starts half as many threads as there are processors.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(half_of_processors())
            .thread_name("http")
            .on_thread_start(take_short_turns)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Where its tasks are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        match &self.0 {
            Some(runtime) => runtime.handle(),
            None => unreachable!("it is taken when this is dropped"),
        }
    }
}

impl Drop for HttpThreads {
    fn drop(&mut self) {
        // From within another runtime, which may not wait for it.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Half of the processors, but at least one. The other half is for what has threads beside a
/// runtime's: the log's writer and the scheduler's workers. And on a small host a command that goes
/// from thread to thread takes longer to wake them than to be carried out.
pub fn half_of_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
