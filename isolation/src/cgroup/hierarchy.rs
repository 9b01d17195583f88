//! Our part of the tree: the base, its controllers, and the tasks below it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::controllers::ControllerSet;
use super::error::CgroupError;
use super::mount::{Mount, find_mount};
use super::task::{TaskCgroup, TaskPath};

/// Child of the base that keeper and pump move into.
pub const SUPERVISOR: &str = "supervisor";
/// Child of the base for the processes that handle foreign bytes for noded.
pub const JAIL: &str = "jail";
/// Child of the base that tasks live below.
pub const TASKS: &str = "tasks";

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Our subtree of cgroup v2.
#[derive(Debug)]
pub struct Hierarchy {
    mount: Mount,
    base: PathBuf,
    directory: OwnedFd,
    tasks: OwnedFd,
    controllers: ControllerSet,
}

impl Hierarchy {
    /// Opens `base` (relative to the mount, such as `drover.slice`), makes it and `tasks` when
    /// missing, and enables the wanted controllers on the way down where they are available.
    /// What could not be enabled is missing from [`Self::controllers`].
    ///
    /// # Errors
    /// There is no cgroup v2, or a directory could not be made.
    pub fn open(base: &Path) -> Result<Self, CgroupError> {
        let mount = find_mount().map_err(CgroupError::Mount)?;
        let plain = base
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || base.as_os_str().is_empty() {
            return Err(CgroupError::Base {
                path: base.to_owned(),
            });
        }
        let mut at = PathBuf::new();
        let mut directory = open(CWD, &mount.path, &at)?;
        for part in base.components() {
            delegate(directory.as_fd());
            at.push(part);
            directory = make(directory.as_fd(), Path::new(part.as_os_str()), &at)?;
        }
        delegate(directory.as_fd());
        let tasks_path = base.join(TASKS);
        let tasks = make(directory.as_fd(), Path::new(TASKS), &tasks_path)?;
        delegate(tasks.as_fd());
        let controllers = subtree_control(tasks.as_fd(), &tasks_path)?;
        Ok(Self {
            mount,
            base: base.to_owned(),
            directory,
            tasks,
            controllers,
        })
    }

    /// Moves the calling process to `supervisor` below the base, then shares out controllers again:
    /// a cgroup with processes of its own may not, so before this call a service that was started
    /// in the base has none in [`Self::controllers`].
    ///
    /// # Errors
    /// The directory could not be made or the kernel refused.
    pub fn enter_supervisor(&mut self) -> Result<(), CgroupError> {
        let path = self.base.join(SUPERVISOR);
        let supervisor = make(self.directory.as_fd(), Path::new(SUPERVISOR), &path)?;
        write(supervisor.as_fd(), &path, "cgroup.procs", "0")?;
        delegate(self.directory.as_fd());
        delegate(self.tasks.as_fd());
        self.controllers = subtree_control(self.tasks.as_fd(), &self.base.join(TASKS))?;
        Ok(())
    }

    /// Makes the cgroup [`JAIL`] beside the tasks when it is missing. Its limits need the
    /// controllers of the base.
    ///
    /// # Errors
    /// The directory could not be made.
    pub fn open_jail(&self) -> Result<TaskCgroup, CgroupError> {
        let path = self.base.join(JAIL);
        let directory = make(self.directory.as_fd(), Path::new(JAIL), &path)?;
        let controllers = subtree_control(self.directory.as_fd(), &self.base)?;
        let mount = self.mount.path.clone();
        Ok(TaskCgroup::new(mount, path, directory, controllers))
    }

    /// Makes the cgroup of a task, fresh: an empty one left by an earlier run is replaced. It must
    /// be, because since `cgroup.kill` Linux 6.14 and later kill whatever is cloned into it.
    ///
    /// # Errors
    /// Processes of an earlier run still live in it, or a directory could not be made.
    pub fn create_task(&self, task: &TaskPath) -> Result<TaskCgroup, CgroupError> {
        let alloc_path = self.base.join(TASKS).join(task.alloc());
        let alloc = make(self.tasks.as_fd(), Path::new(task.alloc()), &alloc_path)?;
        delegate(alloc.as_fd());
        let path = alloc_path.join(task.task());
        if super::remove_subtree(alloc.as_fd(), task.task(), super::Patience::None).is_err() {
            return Err(CgroupError::Occupied { path });
        }
        let directory = make(alloc.as_fd(), Path::new(task.task()), &path)?;
        Ok(TaskCgroup::new(
            self.mount.path.clone(),
            path,
            directory,
            self.controllers.clone(),
        ))
    }

    /// Opens the cgroup of a task that should exist.
    ///
    /// # Errors
    /// It does not.
    pub fn open_task(&self, task: &TaskPath) -> Result<TaskCgroup, CgroupError> {
        let below = Path::new(task.alloc()).join(task.task());
        let path = self.base.join(TASKS).join(&below);
        let directory = open(self.tasks.as_fd(), &below, &path)?;
        Ok(TaskCgroup::new(
            self.mount.path.clone(),
            path,
            directory,
            self.controllers.clone(),
        ))
    }

    /// Every task that has a cgroup, running or not.
    ///
    /// # Errors
    /// A directory could not be listed.
    pub fn tasks(&self) -> Result<BTreeSet<TaskPath>, CgroupError> {
        let path = self.base.join(TASKS);
        let mut found = BTreeSet::new();
        for alloc in children(self.tasks.as_fd(), &path)? {
            let alloc_path = path.join(&alloc);
            let directory = match open(self.tasks.as_fd(), Path::new(&alloc), &alloc_path) {
                // Removed since it was listed.
                Err(CgroupError::Open {
                    source: Errno::NOENT,
                    ..
                }) => continue,
                directory => directory?,
            };
            for task in children(directory.as_fd(), &alloc_path)? {
                found.insert(TaskPath::new(&alloc, &task)?);
            }
        }
        Ok(found)
    }

    /// Removes a task's cgroup and, when it was the last, that of its allocation.
    ///
    /// # Errors
    /// All that could not be removed. A cgroup that is gone already is no error.
    pub fn remove_task(
        &self,
        task: &TaskPath,
        patience: super::Patience,
    ) -> Result<(), Vec<CgroupError>> {
        let alloc_path = self.base.join(TASKS).join(task.alloc());
        let alloc = match open(self.tasks.as_fd(), Path::new(task.alloc()), &alloc_path) {
            Err(CgroupError::Open {
                source: Errno::NOENT,
                ..
            }) => return Ok(()),
            alloc => alloc.map_err(|error| vec![error])?,
        };
        super::remove_subtree(alloc.as_fd(), task.task(), patience)?;
        match rustix::fs::unlinkat(&self.tasks, task.alloc(), rustix::fs::AtFlags::REMOVEDIR) {
            // Other tasks of the allocation are still there, or someone was faster.
            Ok(()) | Err(Errno::BUSY | Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            Err(source) => Err(vec![CgroupError::Remove {
                path: alloc_path,
                source,
            }]),
        }
    }

    /// Kills what lives in the cgroup of an allocation and below, and removes it. One that is not
    /// there is removed already.
    ///
    /// # Errors
    /// All that could not be removed, with the processes that do not die.
    pub fn remove_alloc(
        &self,
        alloc: &str,
        patience: super::Patience,
    ) -> Result<(), Vec<CgroupError>> {
        super::kill_and_remove_subtree(self.tasks.as_fd(), alloc, patience)
    }

    /// Kills what lives in the cgroups of tasks, and removes everything below and including the
    /// base; for the end of a test or of a node. Processes beside the tasks are left alone: the
    /// caller may be one of them.
    ///
    /// # Errors
    /// All that could not be removed, with the processes in it.
    pub fn remove(self, patience: super::Patience) -> Result<(), Vec<CgroupError>> {
        super::kill_and_remove_subtree(self.directory.as_fd(), TASKS, patience)?;
        let parent = self
            .mount
            .path
            .join(self.base.parent().unwrap_or_else(|| Path::new("")));
        let parent = open(CWD, &parent, &self.base).map_err(|error| vec![error])?;
        let name = self
            .base
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        super::remove_subtree(parent.as_fd(), &name, patience)
    }

    /// What tasks' limits can be enforced with.
    #[must_use]
    pub const fn controllers(&self) -> &ControllerSet {
        &self.controllers
    }

    pub(super) const fn tasks_directory(&self) -> &OwnedFd {
        &self.tasks
    }

    /// Where cgroup v2 is mounted.
    #[must_use]
    pub const fn mount(&self) -> &Mount {
        &self.mount
    }

    /// The base, relative to the mount.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }
}

/// Shares out the wanted controllers that this level has and its children lack. A refusal shows
/// as a missing controller below; one by one, so that one refusal does not hide the others.
fn delegate(directory: BorrowedFd<'_>) {
    let read = |file| read_at(directory, file).map(|text| ControllerSet::parse(&text));
    let (Ok(available), Ok(shared)) = (read("cgroup.controllers"), read("cgroup.subtree_control"))
    else {
        return;
    };
    for controller in available
        .intersection(&ControllerSet::delegated())
        .difference(&shared)
        .iter()
    {
        let _seen_below = write_at(
            directory,
            "cgroup.subtree_control",
            &format!("+{}", controller.name()),
        );
    }
}

fn subtree_control(directory: BorrowedFd<'_>, path: &Path) -> Result<ControllerSet, CgroupError> {
    let file = "cgroup.subtree_control";
    read_at(directory, file)
        .map(|text| ControllerSet::parse(&text))
        .map_err(|source| CgroupError::Read {
            path: path.to_owned(),
            file,
            source,
        })
}

fn make(parent: BorrowedFd<'_>, name: &Path, path: &Path) -> Result<OwnedFd, CgroupError> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => open(parent, name, path),
        Err(source) => Err(CgroupError::Create {
            path: path.to_owned(),
            source,
        }),
    }
}

fn open(parent: BorrowedFd<'_>, name: &Path, path: &Path) -> Result<OwnedFd, CgroupError> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()).map_err(|source| CgroupError::Open {
        path: path.to_owned(),
        source,
    })
}

/// Names of the cgroups directly below one.
pub(super) fn children(directory: BorrowedFd<'_>, path: &Path) -> Result<Vec<String>, CgroupError> {
    let failed = |source| CgroupError::Open {
        path: path.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy();
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// Reads a file of a cgroup whole.
pub(super) fn read_at(directory: BorrowedFd<'_>, file: &str) -> Result<String, Errno> {
    let fd = rustix::fs::openat(
        directory,
        file,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::fs::File::from(fd), &mut text)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(text)
}

/// Writes a file of a cgroup at once.
pub(super) fn write_at(directory: BorrowedFd<'_>, file: &str, value: &str) -> Result<(), Errno> {
    let fd = rustix::fs::openat(
        directory,
        file,
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(&fd, value.as_bytes()).map(drop)
}

/// As [`write_at`], with an error that names the file.
pub(super) fn write(
    directory: BorrowedFd<'_>,
    path: &Path,
    file: &'static str,
    value: &str,
) -> Result<(), CgroupError> {
    write_at(directory, file, value).map_err(|source| CgroupError::Write {
        path: path.to_owned(),
        file,
        value: value.to_owned(),
        source,
    })
}
