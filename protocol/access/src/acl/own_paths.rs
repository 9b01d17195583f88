//! The paths of variables that a workload may read without any policy.

use crate::capability::VariableCapability;

/// The first part of these paths.
const JOBS: &str = "nomad/jobs";

/// `nomad/jobs`, and below it the job, the group and the task of a workload: it may read and list
/// them in its namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnPaths {
    namespace: Box<str>,
    /// `nomad/jobs/<job>/<group>/<task>`.
    longest: Box<str>,
    /// Where each of the four paths ends in `longest`. A job's id may hold slashes.
    ends: [usize; 4],
}

impl OwnPaths {
    /// The paths of a task.
    pub fn new(namespace: &str, job: &str, group: &str, task: &str) -> Self {
        let of_job = JOBS.len() + 1 + job.len();
        let of_group = of_job + 1 + group.len();
        let longest = [JOBS, job, group, task].join("/");
        Self {
            namespace: namespace.into(),
            ends: [JOBS.len(), of_job, of_group, longest.len()],
            longest: longest.into(),
        }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether a workload has the right on its own paths.
    pub(super) fn gives(capability: VariableCapability) -> bool {
        matches!(
            capability,
            VariableCapability::Read | VariableCapability::List
        )
    }

    /// Whether the workload has the right on one of its own paths.
    pub fn allow(&self, namespace: &str, path: &str, capability: VariableCapability) -> bool {
        let is_own = || {
            let own = self.longest.starts_with(path);
            own && self.ends.contains(&path.len())
        };
        Self::gives(capability) && namespace == &*self.namespace && is_own()
    }
}
