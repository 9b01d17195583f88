//! Work on foreign bytes, in children that are confined to it.
//!
//! ```text
//!  Jail::run --> turn (8 side by side, fewer per verb; in order)
//!            --> starter    one thread: the kernel kills its children when it ends
//!            --> exchange   request, progress, answer; ends by answer, deadline, cancel or death
//!            --> Child      dropped: killed, and reaped by a task that has the turn until then
//! ```
//!
//! noded opens the program when it starts and executes that descriptor, so that an upgrade on disk
//! never mixes two builds.

mod child;
mod error;
mod exchange;
mod starter;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use isolation::cgroup::{CgroupLimits, Hierarchy};
use noded_jail::{Verb, Work, frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use starter::Starter;

pub use error::{JailError, JailOpenError};

/// Children side by side, of all verbs.
const CHILDREN_MAX: usize = 8;

/// Memory of all children together, where the host has the controller.
const MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Processes and threads of all children together, where the host has the controller.
const PIDS_MAX: u32 = 64;

/// Their share of the processors; a task has 100 by default.
const CPU_WEIGHT: u16 = 20;

/// Starts children for pieces of work.
#[derive(Debug)]
pub struct Jail {
    starter: Starter,
    all: Arc<Semaphore>,
    render: Arc<Semaphore>,
    fetch: Arc<Semaphore>,
}

/// The right to have one child.
#[derive(Debug)]
struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_verb: OwnedSemaphorePermit,
}

impl Jail {
    /// Opens the program, makes the cgroup of the children and starts the thread that starts them.
    ///
    /// # Errors
    /// The program is not there or cannot be executed, or the host refuses the rest.
    pub fn open(program: &Path, hierarchy: &Hierarchy) -> Result<Self, JailOpenError> {
        let cgroup = hierarchy.open_jail().map_err(JailOpenError::Cgroup)?;
        let limits = CgroupLimits {
            cpu_weight: Some(CPU_WEIGHT),
            memory_max_bytes: Some(MEMORY_BYTES_MAX),
            pids_max: Some(PIDS_MAX),
            ..CgroupLimits::default()
        };
        // Without a controller the children's own resource limits remain.
        let _unenforced = cgroup
            .apply_limits(&limits)
            .map_err(JailOpenError::Cgroup)?;
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Ok(Self {
            starter: Starter::start(program, cgroup)?,
            all: semaphore(CHILDREN_MAX),
            render: semaphore(Verb::Render.limits().at_once),
            fetch: semaphore(Verb::Fetch.limits().at_once),
        })
    }

    /// Does one piece of work in a child of its own. The `deadline` counts from its turn.
    ///
    /// # Errors
    /// The work failed, was given up (`cancel` became ready) or took too long; or there was no
    /// child. The child is killed before this returns.
    pub async fn run<W: Work>(
        &self,
        work: &W,
        deadline: Duration,
        cancel: impl Future<Output = ()>,
        on_progress: impl FnMut(String),
    ) -> Result<W::Answer, JailError> {
        let limits = W::VERB.limits();
        let environment = work.environment();
        let request = frame::encode(work, limits.request_bytes).map_err(JailError::Request)?;
        let done = async {
            let turn = self.turn(W::VERB).await;
            let exchange = async {
                let mut child = self.starter.child(W::VERB, environment, turn).await?;
                exchange::exchange::<W>(&mut child, &request, on_progress).await
            };
            let done = tokio::time::timeout(deadline, exchange).await;
            done.unwrap_or(Err(JailError::Deadline { deadline }))
        };
        tokio::select! {
            biased;
            () = cancel => Err(JailError::Cancelled),
            done = done => done,
        }
    }

    /// Waits in order.
    async fn turn(&self, verb: Verb) -> Turn {
        let of_verb = match verb {
            Verb::Render => &self.render,
            Verb::Fetch => &self.fetch,
        };
        // The verb's first: who waits for that does not keep others from their turn. Both are
        // never closed.
        let of_verb = acquire(of_verb).await;
        Turn {
            _of_all: acquire(&self.all).await,
            _of_verb: of_verb,
        }
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    match Arc::clone(semaphore).acquire_owned().await {
        Ok(permit) => permit,
        Err(_closed) => std::future::pending().await,
    }
}
