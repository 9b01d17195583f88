//! What the core is told once, at its start.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::reconnect::ANSWER_LIMIT;

use crate::driver::{Ability, DriverCapabilities, TaskRoot};

/// The node's settings, as far as decisions depend on them.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The directory that holds one directory per allocation, absolute, on the host.
    pub alloc_root: String,
    /// The region that `NOMAD_REGION` names where a job does not say.
    pub region: String,
    /// What `NOMAD_PARENT_CGROUP` says: our part of the cgroup tree; empty = nothing.
    pub parent_cgroup: String,
    /// The drivers that jobs may use here.
    pub drivers: BTreeMap<String, DriverCapabilities>,
    /// The longest kill timeout that a job may ask for (Nomad's `max_kill_timeout`, 30 s).
    pub kill_timeout_max: Duration,
    /// How many terminal allocations are kept for their logs before the oldest are destroyed
    /// (Nomad's `gc_max_allocs`, 50).
    pub terminal_allocs_max: usize,
    /// How long allocations that another incarnation of the cluster does not know go on running;
    /// `None` = until an operator says otherwise.
    pub unknown_alloc_grace: Option<Duration>,
    /// How long to wait for a connection, and for an answer to Hello.
    pub answer_limit: Duration,
    /// Whether tasks may ask the cluster through a socket of their own (the Task API).
    pub task_api: bool,
    /// Drawn at every start of the daemon: nonces and jitter come from it.
    pub seed: [u8; 16],
}

impl Settings {
    /// Settings with Nomad's defaults, for allocations beneath `alloc_root`.
    pub fn new(alloc_root: impl Into<String>, seed: [u8; 16]) -> Self {
        Self {
            alloc_root: alloc_root.into(),
            region: "global".to_owned(),
            parent_cgroup: String::new(),
            drivers: BTreeMap::from([
                ("exec".to_owned(), DriverCapabilities::of(TaskRoot::OwnRoot)),
                (
                    "raw_exec".to_owned(),
                    DriverCapabilities::of(TaskRoot::Host),
                ),
            ]),
            kill_timeout_max: Duration::from_secs(30),
            terminal_allocs_max: 50,
            unknown_alloc_grace: None,
            answer_limit: ANSWER_LIMIT,
            task_api: true,
            seed,
        }
    }

    /// Whether a task of this driver has a socket of the Task API: it takes a process.
    pub(crate) fn has_task_api(&self, driver: &str) -> bool {
        let driver = self.drivers.get(driver);
        self.task_api && driver.is_some_and(|driver| driver.has(Ability::Processes))
    }
}

/// The settings that may change while the daemon runs; what runs already is not touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconfigured {
    /// As [`Settings::drivers`].
    pub drivers: BTreeMap<String, DriverCapabilities>,
    /// As [`Settings::kill_timeout_max`].
    pub kill_timeout_max: Duration,
    /// As [`Settings::terminal_allocs_max`].
    pub terminal_allocs_max: usize,
}
