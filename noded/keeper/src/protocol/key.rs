//! The name of one run of one task: checked once, so that every name made from it is a safe file
//! name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest task name: with the allocation id, the stream and the suffix around it, a file name
/// stays below 255 bytes.
pub const TASK_NAME_BYTES_MAX: usize = 180;

/// Longest allocation id (a UUID has 36).
const ALLOC_BYTES_MAX: usize = 48;

/// Why a key was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("an allocation id is 1 to {ALLOC_BYTES_MAX} letters, digits and dashes, not {alloc:?}")]
    Alloc { alloc: String },
    #[error("a task name is 1 to {TASK_NAME_BYTES_MAX} bytes without a slash or NUL, not {task:?}")]
    Task { task: String },
}

/// One attempt to run one task of one allocation. The run epoch fences late requests and late
/// exits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawKey", into = "RawKey")]
pub struct TaskKey {
    owner: AllocAndTask,
    run_epoch: u64,
}

/// A task of an allocation, whichever the attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawOwner", into = "RawOwner")]
pub struct AllocAndTask {
    alloc: String,
    task: String,
}

#[derive(Serialize, Deserialize)]
struct RawOwner {
    alloc: String,
    task: String,
}

#[derive(Serialize, Deserialize)]
struct RawKey {
    alloc: String,
    task: String,
    run_epoch: u64,
}

impl TaskKey {
    /// # Errors
    /// Where a part could not be a component of a file name; see [`KeyError`].
    pub fn new(
        alloc: impl Into<String>,
        task: impl Into<String>,
        run_epoch: u64,
    ) -> Result<Self, KeyError> {
        let owner = AllocAndTask::new(alloc, task)?;
        Ok(Self { owner, run_epoch })
    }

    #[must_use]
    pub fn owner(&self) -> &AllocAndTask {
        &self.owner
    }

    #[must_use]
    pub fn alloc(&self) -> &str {
        &self.owner.alloc
    }

    #[must_use]
    pub fn task(&self) -> &str {
        &self.owner.task
    }

    #[must_use]
    pub fn run_epoch(&self) -> u64 {
        self.run_epoch
    }
}

/// Whether this is an allocation id, which is a safe part of a file name.
pub(crate) fn is_alloc_id(alloc: &str) -> bool {
    let is_plain = alloc
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-');
    !alloc.is_empty() && alloc.len() <= ALLOC_BYTES_MAX && is_plain
}

impl AllocAndTask {
    /// # Errors
    /// See [`KeyError`].
    pub fn new(alloc: impl Into<String>, task: impl Into<String>) -> Result<Self, KeyError> {
        let (alloc, task) = (alloc.into(), task.into());
        if !is_alloc_id(&alloc) {
            return Err(KeyError::Alloc { alloc });
        }
        let task_is_component = task.bytes().all(|b| b != b'/' && b != 0);
        if task.is_empty() || task.len() > TASK_NAME_BYTES_MAX || !task_is_component {
            return Err(KeyError::Task { task });
        }
        Ok(Self { alloc, task })
    }

    #[must_use]
    pub fn alloc(&self) -> &str {
        &self.alloc
    }

    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }
}

impl TryFrom<RawKey> for TaskKey {
    type Error = KeyError;

    fn try_from(raw: RawKey) -> Result<Self, KeyError> {
        Self::new(raw.alloc, raw.task, raw.run_epoch)
    }
}

impl TryFrom<RawOwner> for AllocAndTask {
    type Error = KeyError;

    fn try_from(raw: RawOwner) -> Result<Self, KeyError> {
        Self::new(raw.alloc, raw.task)
    }
}

impl From<AllocAndTask> for RawOwner {
    fn from(owner: AllocAndTask) -> Self {
        let AllocAndTask { alloc, task } = owner;
        Self { alloc, task }
    }
}

impl fmt::Display for AllocAndTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.alloc, self.task)
    }
}

impl From<TaskKey> for RawKey {
    fn from(key: TaskKey) -> Self {
        let AllocAndTask { alloc, task } = key.owner;
        Self {
            alloc,
            task,
            run_epoch: key.run_epoch,
        }
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}#{}",
            self.owner.alloc, self.owner.task, self.run_epoch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_could_leave_its_directory_is_refused() {
        for (alloc, task) in [
            ("", "t"),
            ("../x", "t"),
            ("a/b", "t"),
            ("a", "../t"),
            ("a", ""),
            ("a", "x\0"),
        ] {
            TaskKey::new(alloc, task, 1).unwrap_err();
        }
        TaskKey::new("a".repeat(49), "t", 1).unwrap_err();
        TaskKey::new("a", "t".repeat(181), 1).unwrap_err();
    }

    #[test]
    fn a_decoded_key_is_checked_like_a_made_one() {
        let bytes = postcard::to_stdvec(&RawKey {
            alloc: "../etc".into(),
            task: "t".into(),
            run_epoch: 1,
        })
        .unwrap();
        postcard::from_bytes::<TaskKey>(&bytes).unwrap_err();
        let bytes = postcard::to_stdvec(&("a", "../t")).unwrap();
        postcard::from_bytes::<AllocAndTask>(&bytes).unwrap_err();
    }
}
