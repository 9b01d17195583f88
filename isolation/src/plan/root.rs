//! Steps that compose a task's root: its own directory, the host's programs read-only, and
//! private /proc, /dev and /sys.
//!
//! The task's directory itself is the root, as users of Nomad's exec driver know it: what a task
//! writes below `/` is in its directory on disk. An earlier run of the task may have put anything
//! there, symlinks included, so every target is resolved beneath the root by descriptor.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{PlanError, c_string, count};
use crate::mounting::TAKEN_TREES_MAX;
use crate::spec::{Access, Bind, Namespace, Propagation, SandboxSpec, TaskLayout};
use crate::step::{FileSystem, Missing, MountFlags, Step};

/// Size of /dev, which holds a few nodes.
const DEV_BYTES: &str = "65536";
/// Size of /dev/shm: the 64 MiB that container runtimes and Nomad agree on.
const SHARED_MEMORY_BYTES: &str = "67108864";
/// Tokens that noded keeps for the task.
const PRIVATE: &str = "/private";
/// Group that owns terminals on Debian and everywhere else (`tty`).
const TERMINAL_GROUP: &str = "5";

/// Kernel files that tell about other tasks or the hardware, or that reach the host; the set that
/// the OCI runtimes mask by default.
const MASKED: [&str; 10] = [
    "proc/acpi",
    "proc/asound",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/sched_debug",
    "proc/scsi",
    "proc/timer_list",
    "sys/devices/virtual/powercap",
    "sys/firmware",
];

/// Kernel files that a task may read but, root or not, never write.
const READ_ONLY: [&str; 5] = [
    "proc/bus",
    "proc/fs",
    "proc/irq",
    "proc/sys",
    "proc/sysrq-trigger",
];

/// Devices that every program may expect, with their numbers
/// (Documentation/admin-guide/devices.txt).
const DEVICES: [(&str, u32, u32); 6] = [
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/full", 1, 7),
    ("dev/random", 1, 8),
    ("dev/urandom", 1, 9),
    ("dev/tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// What of the host is shown, as [`crate::Root::ReadOnlyHostView`] has it.
pub(super) struct View<'a> {
    pub(super) layout: &'a TaskLayout,
    pub(super) paths: &'a [PathBuf],
    pub(super) binds: &'a [Bind],
    pub(super) masked: &'a [PathBuf],
}

/// Steps from the host's root to the task's.
pub(super) fn steps(spec: &SandboxSpec, view: &View<'_>) -> Result<Vec<Step>, PlanError> {
    let View {
        layout,
        paths,
        binds,
        masked,
    } = *view;
    let mut steps = vec![Step::OpenRoot {
        source: absolute("task directory", &layout.task)?,
    }];
    for path in paths {
        steps.push(Step::Bind {
            source: absolute("host path", path)?,
            target: beneath("host path", path)?,
            access: Access::ReadOnly,
            missing: Missing::Skip,
        });
    }
    steps.push(Step::Bind {
        source: absolute("allocation directory", &layout.shared)?,
        target: c"alloc".into(),
        access: Access::ReadWrite,
        missing: Missing::Fail,
    });
    steps.extend(dev(spec));
    steps.extend(proc_and_sys(spec));
    check_bidirectional(binds, masked)?;
    // A volume may lie anywhere, also inside what was mounted above.
    let mut taken = 0;
    for Bind {
        source,
        target,
        access,
        propagation,
    } in binds
    {
        let target = beneath("bind target", target)?;
        if *propagation != Propagation::Private {
            steps.push(Step::PlaceTree {
                tree: taken,
                target,
                access: *access,
            });
            taken += 1;
            continue;
        }
        steps.push(Step::Bind {
            source: absolute("bind source", source)?,
            target,
            access: *access,
            missing: Missing::Fail,
        });
    }
    // Last: they hide what is below any of the mounts above.
    for path in masked {
        steps.push(Step::Mask {
            target: beneath("masked path", path)?,
        });
    }
    // Tokens that noded keeps for the task but the task must not read.
    steps.push(Step::Mask {
        target: beneath("masked path", Path::new(PRIVATE))?,
    });
    steps.push(Step::PivotRoot);
    Ok(steps)
}

/// Steps that take the binds which stay connected with the host; before any mount is private.
pub(super) fn taken(binds: &[Bind]) -> Result<Vec<Step>, PlanError> {
    let connected = binds
        .iter()
        .filter(|bind| bind.propagation != Propagation::Private);
    let steps: Vec<Step> = connected
        .map(|bind| {
            Ok(Step::TakeTree {
                source: absolute("bind source", &bind.source)?,
                propagation: bind.propagation,
            })
        })
        .collect::<Result<_, PlanError>>()?;
    if steps.len() > TAKEN_TREES_MAX {
        return Err(PlanError::OutOfRange {
            subject: "number of binds that stay connected with the host",
            value: count(steps.len()),
            min: 0,
            max: count(TAKEN_TREES_MAX),
        });
    }
    Ok(steps)
}

/// A mount below a bidirectional bind is one on the host, too. So nothing is mounted there later.
fn check_bidirectional(binds: &[Bind], masked: &[PathBuf]) -> Result<(), PlanError> {
    for (offset, outer) in binds.iter().enumerate() {
        if outer.propagation != Propagation::Bidirectional {
            continue;
        }
        let later = binds[offset + 1..].iter().map(|bind| bind.target.as_path());
        let hidden = masked.iter().map(PathBuf::as_path);
        let inner = later
            .chain(hidden)
            .chain([Path::new(PRIVATE)])
            .find(|inner| inner.starts_with(&outer.target));
        if let Some(inner) = inner {
            return Err(PlanError::InsideBidirectional {
                inner: inner.to_owned(),
                outer: outer.target.clone(),
            });
        }
    }
    Ok(())
}

fn dev(spec: &SandboxSpec) -> Vec<Step> {
    let mut steps = vec![mount(
        FileSystem::Tmpfs,
        c"dev",
        &[(c"mode", "0755"), (c"size", DEV_BYTES)],
        MountFlags {
            no_set_uid: true,
            no_exec: true,
            ..MountFlags::default()
        },
    )];
    steps.extend(DEVICES.map(|(target, major, minor)| Step::Device {
        target: fixed(target),
        major,
        minor,
        mode: 0o666,
    }));
    steps.extend(LINKS.map(|(target, content)| Step::Symlink {
        target: fixed(target),
        content: fixed(content),
    }));
    steps.push(mount(
        FileSystem::Devpts,
        c"dev/pts",
        &[
            (c"mode", "0620"),
            (c"ptmxmode", "0666"),
            (c"gid", TERMINAL_GROUP),
        ],
        MountFlags {
            no_set_uid: true,
            no_exec: true,
            ..MountFlags::default()
        },
    ));
    steps.push(mount(
        FileSystem::Tmpfs,
        c"dev/shm",
        &[(c"mode", "1777"), (c"size", SHARED_MEMORY_BYTES)],
        restricted(),
    ));
    // Message queues belong to the IPC namespace; the host's are not shown.
    if spec.namespaces.contains(&Namespace::Ipc) {
        steps.push(mount(FileSystem::Mqueue, c"dev/mqueue", &[], restricted()));
    }
    steps
}

fn proc_and_sys(spec: &SandboxSpec) -> Vec<Step> {
    let read_only = MountFlags {
        read_only: true,
        ..restricted()
    };
    let mut steps = vec![
        mount(FileSystem::Proc, c"proc", &[], restricted()),
        mount(FileSystem::Sysfs, c"sys", &[], read_only),
    ];
    // Runtimes size themselves by the limits they read there. Only where the namespace hides the
    // rest of the tree.
    if spec.namespaces.contains(&Namespace::Cgroup) {
        steps.push(mount(FileSystem::Cgroup2, c"sys/fs/cgroup", &[], read_only));
    }
    steps.extend(MASKED.map(|target| Step::Mask {
        target: fixed(target),
    }));
    steps.extend(READ_ONLY.map(|target| Step::ReadOnly {
        target: fixed(target),
    }));
    steps
}

const fn restricted() -> MountFlags {
    MountFlags {
        read_only: false,
        no_set_uid: true,
        no_devices: true,
        no_exec: true,
    }
}

fn mount(
    file_system: FileSystem,
    target: &std::ffi::CStr,
    options: &[(&std::ffi::CStr, &str)],
    flags: MountFlags,
) -> Step {
    let options = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), fixed(value)))
        .collect();
    Step::Mount {
        file_system,
        target: target.to_owned(),
        options,
        flags,
    }
}

/// A string of this file's constants, none of which holds a NUL byte.
fn fixed(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// An absolute path without `..`, for the kernel.
pub(super) fn absolute(subject: &'static str, path: &Path) -> Result<CString, PlanError> {
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.has_root() || !plain {
        return Err(PlanError::RelativePath {
            subject,
            path: path.to_owned(),
        });
    }
    c_string(subject, path.as_os_str().as_bytes())
}

/// The same path relative to the root; the root itself is no place to mount on.
fn beneath(subject: &'static str, path: &Path) -> Result<CString, PlanError> {
    absolute(subject, path)?;
    let relative: PathBuf = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    if relative.as_os_str().is_empty() {
        return Err(PlanError::RelativePath {
            subject,
            path: path.to_owned(),
        });
    }
    c_string(subject, relative.as_os_str().as_bytes())
}
