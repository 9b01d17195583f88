//! Limits of a task, set through the typed controllers of cgroups-rs; what the host cannot
//! enforce is returned, not forgotten.

use std::fmt;
use std::path::{Path, PathBuf};

use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::memory::{MemController, SetMemory};
use cgroups_rs::fs::pid::PidController;
use cgroups_rs::fs::{Cgroup, Hierarchy, MaxValue, Subsystem};
use serde::{Deserialize, Serialize};

use super::controllers::{Controller, ControllerSet};
use super::error::CgroupError;
use super::task::TaskCgroup;

/// The limit of [`CgroupLimits::cpus`].
pub const CPUSET_CPUS: &str = "cpuset.cpus";

/// What a task may use. `None` leaves the kernel's default: no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// `cpu.weight`, 1 to 10000; siblings share time in proportion.
    pub cpu_weight: Option<u16>,
    /// `cpu.max`: a ceiling even when processors are idle.
    pub cpu_max: Option<CpuMax>,
    /// `cpuset.cpus`: the processors that it may run on, by number; empty for all of its parent's.
    #[serde(default)]
    pub cpus: Vec<u16>,
    /// `memory.max`: at this many bytes the kernel kills.
    pub memory_max_bytes: Option<u64>,
    /// `memory.low`: this much is kept from reclaim while others can give.
    pub memory_low_bytes: Option<u64>,
    /// `memory.high`: above it the task is slowed down by reclaim.
    pub memory_high_bytes: Option<u64>,
    /// `memory.swap.max`.
    pub swap_max: Option<MemoryMax>,
    /// `pids.max`: processes and threads.
    pub pids_max: Option<u32>,
    /// `memory.oom.group`: an OOM kill takes the whole task.
    pub oom_group: bool,
}

/// Processor time per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuMax {
    /// Time that may be used in a period, over all processors.
    pub quota_us: u32,
    /// Length of the period, 1 000 to 1 000 000.
    pub period_us: u32,
}

/// A number of bytes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryMax {
    /// Not at all limited.
    Unlimited,
    /// At most this many bytes; 0 forbids.
    Bytes(u64),
}

/// A limit that was asked for and is not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unenforced {
    /// Name of the file that would hold it.
    pub limit: &'static str,
    /// What is missing.
    pub controller: Controller,
}

impl fmt::Display for Unenforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not enforced: no {} controller",
            self.limit,
            self.controller.name()
        )
    }
}

/// The mount that was found, in the words of cgroups-rs, whose own hierarchies assume a path.
#[derive(Debug)]
struct Unified {
    mount: PathBuf,
    controllers: ControllerSet,
}

impl Hierarchy for Unified {
    fn subsystems(&self) -> Vec<Subsystem> {
        let (point, root) = (&self.mount, &self.mount);
        self.controllers
            .iter()
            .filter_map(|controller| match controller {
                Controller::Cpu => Some(Subsystem::Cpu(CpuController::new(
                    point.clone(),
                    root.clone(),
                    true,
                ))),
                Controller::Memory => Some(Subsystem::Mem(MemController::new(
                    point.clone(),
                    root.clone(),
                    true,
                ))),
                Controller::Pids => Some(Subsystem::Pid(PidController::new(
                    point.clone(),
                    root.clone(),
                    true,
                ))),
                // Written without them, or not needed yet.
                Controller::Cpuset | Controller::Io | Controller::Hugetlb => None,
            })
            .collect()
    }

    fn root(&self) -> PathBuf {
        self.mount.clone()
    }

    fn root_control_group(&self) -> Cgroup {
        self.load(Path::new(""))
    }

    fn parent_control_group(&self, path: &str) -> Cgroup {
        self.load(Path::new(path).parent().unwrap_or_else(|| Path::new("")))
    }

    fn v2(&self) -> bool {
        true
    }
}

impl Unified {
    fn load(&self, path: &Path) -> Cgroup {
        let hierarchy = Self {
            mount: self.mount.clone(),
            controllers: self.controllers.clone(),
        };
        // Never `Cgroup::new`: it ignores errors of `cgroup.subtree_control`.
        Cgroup::load(Box::new(hierarchy), path)
    }
}

pub(super) fn apply(
    task: &TaskCgroup,
    limits: &CgroupLimits,
) -> Result<Vec<Unenforced>, CgroupError> {
    let unenforced = unenforced(limits, task.controllers());
    let unified = Unified {
        mount: task.mount().to_owned(),
        controllers: task.controllers().clone(),
    };
    let group = unified.load(task.path());
    let refused = |limit| {
        move |source| CgroupError::Limit {
            path: task.path().to_owned(),
            limit,
            source,
        }
    };
    if let Some(cpu) = group.controller_of::<CpuController>() {
        if let Some(weight) = limits.cpu_weight {
            cpu.set_shares(u64::from(weight))
                .map_err(refused("cpu.weight"))?;
        }
        if let Some(CpuMax {
            quota_us,
            period_us,
        }) = limits.cpu_max
        {
            let (quota, period) = (i64::from(quota_us), u64::from(period_us));
            cpu.set_cfs_quota_and_period(Some(quota), Some(period))
                .map_err(refused("cpu.max"))?;
        }
    }
    if !limits.cpus.is_empty() && task.controllers().contains(Controller::Cpuset) {
        let cpus: Vec<String> = limits.cpus.iter().map(u16::to_string).collect();
        task.write(CPUSET_CPUS, &cpus.join(","))?;
    }
    if let Some(memory) = group.controller_of::<MemController>() {
        let set = SetMemory {
            low: limits.memory_low_bytes.map(bytes),
            high: limits.memory_high_bytes.map(bytes),
            min: None,
            max: limits.memory_max_bytes.map(bytes),
        };
        memory.set_mem(set).map_err(refused("memory.max"))?;
        // A kernel without swap, or told not to count it, has no such file.
        if let Some(swap) = limits.swap_max
            && task.has("memory.swap.max")
        {
            let limit = match swap {
                MemoryMax::Unlimited => -1,
                MemoryMax::Bytes(bytes) => clamp(bytes),
            };
            memory
                .set_memswap_limit(limit)
                .map_err(refused("memory.swap.max"))?;
        }
        if limits.oom_group {
            task.write("memory.oom.group", "1")?;
        }
    }
    if let (Some(pids), Some(max)) = (group.controller_of::<PidController>(), limits.pids_max) {
        pids.set_pid_max(MaxValue::Value(i64::from(max)))
            .map_err(refused("pids.max"))?;
    }
    Ok(unenforced)
}

/// Asked-for limits whose controller is missing. Pure.
fn unenforced(limits: &CgroupLimits, controllers: &ControllerSet) -> Vec<Unenforced> {
    let CgroupLimits {
        cpu_weight,
        cpu_max,
        cpus,
        memory_max_bytes,
        memory_low_bytes,
        memory_high_bytes,
        swap_max,
        pids_max,
        oom_group,
    } = limits;
    [
        (cpu_weight.is_some(), "cpu.weight", Controller::Cpu),
        (cpu_max.is_some(), "cpu.max", Controller::Cpu),
        (!cpus.is_empty(), CPUSET_CPUS, Controller::Cpuset),
        (memory_max_bytes.is_some(), "memory.max", Controller::Memory),
        (memory_low_bytes.is_some(), "memory.low", Controller::Memory),
        (
            memory_high_bytes.is_some(),
            "memory.high",
            Controller::Memory,
        ),
        (swap_max.is_some(), "memory.swap.max", Controller::Memory),
        (pids_max.is_some(), "pids.max", Controller::Pids),
        (*oom_group, "memory.oom.group", Controller::Memory),
    ]
    .into_iter()
    .filter(|(asked, _, controller)| *asked && !controllers.contains(*controller))
    .map(|(_, limit, controller)| Unenforced { limit, controller })
    .collect()
}

fn bytes(bytes: u64) -> MaxValue {
    MaxValue::Value(clamp(bytes))
}

/// The kernel's own ceiling lies far below.
fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_count_swap_is_no_reason_not_to_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("task");
        std::fs::create_dir(&path).expect("made");
        let directory = std::fs::File::open(&path).expect("opened").into();
        let task = TaskCgroup::new(
            folder.path().to_owned(),
            "task".into(),
            directory,
            ControllerSet::parse("memory"),
        );
        let limits = CgroupLimits {
            memory_max_bytes: Some(4096),
            swap_max: Some(MemoryMax::Bytes(0)),
            ..CgroupLimits::default()
        };
        let read = |file| std::fs::read_to_string(path.join(file)).ok();
        assert_eq!(apply(&task, &limits).expect("applied"), []);
        assert_eq!(read("memory.max").as_deref(), Some("4096"));
        assert_eq!(read("memory.swap.max"), None);
        std::fs::write(path.join("memory.swap.max"), "max").expect("written");
        apply(&task, &limits).expect("applied");
        assert_eq!(read("memory.swap.max").as_deref(), Some("0"));
    }

    #[test]
    fn processors_are_written_where_their_controller_is() {
        for (controllers, expected) in [("cpuset", Some("0,2,3")), ("cpu", None)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("task");
            std::fs::create_dir(&path).expect("made");
            if expected.is_some() {
                std::fs::write(path.join(CPUSET_CPUS), "").expect("written");
            }
            let directory = std::fs::File::open(&path).expect("opened").into();
            let task = TaskCgroup::new(
                folder.path().to_owned(),
                PathBuf::from("task"),
                directory,
                ControllerSet::parse(controllers),
            );
            let limits = CgroupLimits {
                cpus: vec![0, 2, 3],
                ..CgroupLimits::default()
            };
            let left = apply(&task, &limits).expect("applied");
            assert_eq!(left.is_empty(), expected.is_some(), "{left:?}");
            let written = std::fs::read_to_string(path.join(CPUSET_CPUS)).ok();
            assert_eq!(written.as_deref(), expected);
        }
    }

    #[test]
    fn only_what_was_asked_for_and_cannot_be_done_is_reported() {
        let limits = CgroupLimits {
            cpu_weight: Some(100),
            memory_max_bytes: Some(1 << 28),
            pids_max: Some(64),
            cpus: vec![0],
            ..CgroupLimits::default()
        };
        let report = |text: &str| -> Vec<String> {
            unenforced(&limits, &ControllerSet::parse(text))
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert!(report("cpu cpuset memory pids").is_empty());
        assert_eq!(
            report("cpu hugetlb"),
            [
                "cpuset.cpus is not enforced: no cpuset controller",
                "memory.max is not enforced: no memory controller",
                "pids.max is not enforced: no pids controller",
            ]
        );
    }
}
