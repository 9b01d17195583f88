//! Who owns an allocation's directories and who may enter them. docs/job-files.md has the table;
//! this file and [`super::AllocRoot`] are what makes it true.

use isolation::Identity;
use noded_core::driver::TaskRoot;
use protocol_model::AllocId;

/// First of the ids that no distribution gives to users, containers or services (systemd's "Users,
/// Groups, UIDs and GIDs" leaves 0x70000000 to 0x7ffdffff unused).
const GROUP_FIRST: u32 = 0x7000_0000;
const GROUPS: u32 = 0x0ffe_0000;

/// The group that the tasks of one allocation share its directory by, and nobody else is in. It is
/// made of the allocation's id, so that it needs no record: two allocations have the same one with
/// a chance of 1 to 268 million.
#[must_use]
pub fn group_of(alloc: AllocId) -> u32 {
    let bytes = u128::from_be_bytes(*alloc.as_bytes());
    let folded = (bytes ^ (bytes >> 32) ^ (bytes >> 64) ^ (bytes >> 96)) & u128::from(u32::MAX);
    let number = u32::try_from(folded).unwrap_or(0);
    GROUP_FIRST + number % GROUPS
}

/// Who a task is, for the directories that are its own.
#[derive(Debug, Clone, Copy)]
pub struct TaskAccess<'a> {
    /// `None`: not known yet.
    pub(super) owner: Option<&'a Identity>,
    /// Whether the modes are set although the owner is right already.
    pub(super) anew: bool,
    way: Way,
}

/// How a task comes to its directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By mounts of its own: no path of the host is needed.
    Mounted,
    /// By the host's paths, as one user.
    OneUser,
    /// By the host's paths, as root, which may become other users on the way.
    Root,
}

/// Permission bits of a task's directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskModes {
    /// The task's directory, in which the others are.
    pub(super) task: u32,
    pub(super) local: u32,
    pub(super) tmp: u32,
}

impl<'a> TaskAccess<'a> {
    /// The access of a task that runs as `owner` and sees `root` as `/`.
    #[must_use]
    pub fn new(owner: &'a Identity, root: TaskRoot) -> Self {
        let way = match (root, owner) {
            (TaskRoot::OwnRoot, _) => Way::Mounted,
            (TaskRoot::Host, Identity::Keeper | Identity::User { uid: 0, .. }) => Way::Root,
            (TaskRoot::Host, Identity::User { .. }) => Way::OneUser,
        };
        Self {
            owner: Some(owner),
            anew: false,
            way,
        }
    }

    /// The same after [`Self::unknown`].
    #[must_use]
    pub const fn anew(self) -> Self {
        Self { anew: true, ..self }
    }

    /// Closed to everybody but root: the task's user is not known yet.
    #[must_use]
    pub const fn unknown() -> TaskAccess<'static> {
        TaskAccess {
            owner: None,
            anew: false,
            way: Way::Mounted,
        }
    }

    /// Whether the allocation's own directory lies on the task's way.
    pub(super) fn passes_allocation(self) -> bool {
        self.way != Way::Mounted
    }

    pub(super) fn modes(self) -> TaskModes {
        match self.way {
            Way::Mounted | Way::OneUser => TaskModes {
                task: 0o700,
                local: 0o755,
                tmp: 0o1777,
            },
            Way::Root => TaskModes {
                task: 0o711,
                local: 0o1777,
                tmp: 0o1777,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_allocations_differ_and_lie_in_the_unused_range() {
        let ids = (0..10_000_u128).map(|number| AllocId::from_u128(number * 0x1_0000_0001_0007));
        let groups: std::collections::BTreeSet<u32> = ids.map(group_of).collect();
        assert!(groups.len() > 9_990, "{}", groups.len());
        for group in groups {
            assert!((0x7000_0000..0x7ffe_0000).contains(&group), "{group:#x}");
        }
    }
}
