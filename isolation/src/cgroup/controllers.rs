//! Which controllers a cgroup has.

use std::collections::BTreeSet;
use std::fmt;

/// A controller of cgroup v2 that Drover knows what to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Processor time.
    Cpu,
    /// Processor and memory node placement.
    Cpuset,
    /// Memory and swap.
    Memory,
    /// Block devices.
    Io,
    /// Number of processes.
    Pids,
    /// Huge pages.
    Hugetlb,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cpu,
        Self::Cpuset,
        Self::Memory,
        Self::Io,
        Self::Pids,
        Self::Hugetlb,
    ];

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Pids => "pids",
            Self::Hugetlb => "hugetlb",
        }
    }
}

/// A set of controllers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControllerSet(BTreeSet<Controller>);

impl ControllerSet {
    /// What a node needs to enforce every limit that a job can ask for.
    #[must_use]
    pub fn wanted() -> Self {
        [Controller::Cpu, Controller::Memory, Controller::Pids]
            .into_iter()
            .collect()
    }

    /// Those of [`Self::wanted`], and those that a host may lack and still enforce all limits but
    /// few.
    #[must_use]
    pub fn delegated() -> Self {
        let wanted = Self::wanted();
        wanted.iter().chain([Controller::Cpuset]).collect()
    }

    /// Reads `cgroup.controllers` or `cgroup.subtree_control`. Controllers that Drover does not
    /// use are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split_whitespace()
            .filter_map(|word| {
                Controller::ALL
                    .into_iter()
                    .find(|known| known.name() == word)
            })
            .collect()
    }

    /// Whether `controller` is in it.
    #[must_use]
    pub fn contains(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order of their names' declaration.
    pub fn iter(&self) -> impl Iterator<Item = Controller> + '_ {
        self.0.iter().copied()
    }

    /// Those here that `other` lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.0.difference(&other.0).copied().collect()
    }

    /// Those in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }
}

impl FromIterator<Controller> for ControllerSet {
    fn from_iter<I: IntoIterator<Item = Controller>>(controllers: I) -> Self {
        Self(controllers.into_iter().collect())
    }
}

/// Names with commas, `none` for none.
impl fmt::Display for ControllerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.iter().map(Controller::name).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_that_are_not_used_are_left_out() {
        let set = ControllerSet::parse("cpuset cpu io memory hugetlb pids rdma misc\n");
        assert_eq!(set.to_string(), "cpu, cpuset, memory, io, pids, hugetlb");
    }

    #[test]
    fn a_hybrid_host_lacks_what_is_bound_to_version_1() {
        let missing = ControllerSet::wanted().difference(&ControllerSet::parse("hugetlb\n"));
        assert_eq!(missing.to_string(), "cpu, memory, pids");
        assert_eq!(ControllerSet::parse("").to_string(), "none");
    }
}
