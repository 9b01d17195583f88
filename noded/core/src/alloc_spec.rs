//! An allocation together with its job, checked once to fit each other: what runners run.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, Job, Task, TaskGroup};

/// Why an allocation cannot be run as it came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The job has no such group.
    #[error("job {job:?} has no task group {group:?}")]
    NoGroup {
        /// The job.
        job: String,
        /// The group.
        group: String,
    },
    /// The group has nothing to run.
    #[error("task group {group:?} has no tasks")]
    NoTasks {
        /// The group.
        group: String,
    },
}

/// An allocation whose task group is known to exist in its job.
#[derive(Clone, PartialEq, Debug)]
pub struct AllocSpec {
    alloc: Allocation,
    job: Arc<Job>,
    group_offset: usize,
    root_key: u32,
}

impl AllocSpec {
    /// Joins an allocation and its job.
    ///
    /// # Errors
    /// Where the job lacks the allocation's group, or the group has no tasks.
    pub fn new(mut alloc: Allocation, job: Arc<Job>) -> Result<Self, SpecError> {
        let group = &alloc.task_group;
        let Some(group_offset) = job.task_groups.iter().position(|it| it.name == *group) else {
            return Err(SpecError::NoGroup {
                job: job.id.clone(),
                group: group.clone(),
            });
        };
        if job.task_groups[group_offset].tasks.is_empty() {
            return Err(SpecError::NoTasks {
                group: group.clone(),
            });
        }
        alloc.job = None;
        Ok(Self {
            alloc,
            job,
            group_offset,
            root_key: 0,
        })
    }

    /// The same with the number of the root key that signs its identities; 0 = none is known.
    #[must_use]
    pub fn signed_by(self, root_key: u32) -> Self {
        Self { root_key, ..self }
    }

    /// The number of the root key that signs its identities; 0 = none is known.
    pub fn root_key(&self) -> u32 {
        self.root_key
    }

    /// The allocation's id.
    pub fn id(&self) -> AllocId {
        self.alloc.id
    }

    /// The allocation as the control plane sent it; `job` is left out, see [`Self::job`].
    pub fn alloc(&self) -> &Allocation {
        &self.alloc
    }

    /// Its job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Its task group.
    pub fn group(&self) -> &TaskGroup {
        &self.job.task_groups[self.group_offset]
    }

    /// One of its tasks.
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.group().task(name)
    }

    /// Whether a host that boots while it is cut off may start it again: it is expected back, and
    /// no lease ends it.
    pub fn may_start_cut_off(&self) -> bool {
        let group = self.group();
        let is_expected = group.is_waited_for_without_end() || group.disconnect_window().is_some();
        let is_own = self.job.job_type.is_per_node() || is_expected;
        is_own && group.stop_on_client_after().is_none()
    }

    /// The version of what is wanted of it.
    pub fn version(&self) -> u64 {
        self.alloc.alloc_modify_index
    }
}
