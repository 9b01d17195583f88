//! Where the directories of an allocation are, on the host and as a task sees them.
//!
//! ```text
//!   <root>/<alloc>/alloc/{data,logs,tmp}               of all tasks  NOMAD_ALLOC_DIR
//!   <root>/<alloc>/<task>/{local,secrets,private,tmp}  of one task   NOMAD_TASK_DIR = local
//! ```
//!
//! A task with a root of its own sees `<task>` as `/` and the shared directory as `/alloc`.

use protocol_model::AllocId;

use crate::driver::TaskRoot;

/// The name of a task's socket in its secrets directory.
pub const API_SOCKET: &str = "api.sock";
/// The longest path of a Unix socket in bytes: `sun_path` of unix(7) without its end.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The directory of an allocation on the host.
pub fn alloc_directory(alloc_root: &str, alloc: AllocId) -> String {
    format!("{}/{alloc}", alloc_root.trim_end_matches('/'))
}

/// The directories of one task, on one side of its root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskPaths {
    /// What relative paths of job files are relative to.
    pub task: String,
    /// Shared by the tasks of the allocation.
    pub alloc: String,
    /// The task's own.
    pub local: String,
    /// The task's own, in memory.
    pub secrets: String,
}

impl TaskPaths {
    /// The task's directories on the host.
    pub fn on_host(alloc_root: &str, alloc: AllocId, task: &str) -> Self {
        let directory = alloc_directory(alloc_root, alloc);
        Self {
            task: format!("{directory}/{task}"),
            alloc: format!("{directory}/alloc"),
            local: format!("{directory}/{task}/local"),
            secrets: format!("{directory}/{task}/secrets"),
        }
    }

    /// The task's directories as the task itself sees them.
    pub fn as_seen(root: TaskRoot, alloc_root: &str, alloc: AllocId, task: &str) -> Self {
        match root {
            TaskRoot::Host => Self::on_host(alloc_root, alloc, task),
            TaskRoot::OwnRoot => Self {
                task: "/".to_owned(),
                alloc: "/alloc".to_owned(),
                local: "/local".to_owned(),
                secrets: "/secrets".to_owned(),
            },
        }
    }
}

impl TaskPaths {
    /// The task's socket of the Task API.
    ///
    /// # Errors
    /// The path, where it is longer than a process can connect to.
    pub fn api_socket(&self) -> Result<String, String> {
        let path = format!("{}/{API_SOCKET}", self.secrets);
        match path.len() {
            0..=SOCKET_PATH_BYTES_MAX => Ok(path),
            _ => Err(path),
        }
    }
}

/// The host path of a path in a job file, which is relative to the task's directory or names one of
/// the task's directories as the task sees it; `..` may lead to the shared directory. What leads
/// elsewhere keeps its `..`, which the shell refuses.
pub fn host_path(host: &TaskPaths, seen: &TaskPaths, path: &str) -> String {
    settled(host, joined(host, seen, path))
}

/// The path without its `..`, where it leads to a directory that is the task's to use.
pub(super) fn settled(host: &TaskPaths, joined: String) -> String {
    let clean = without_dots(&joined);
    if is_beneath(&clean, &host.task) || is_beneath(&clean, &host.alloc) {
        clean
    } else {
        joined
    }
}

fn joined(host: &TaskPaths, seen: &TaskPaths, path: &str) -> String {
    // Where the task's directory is its root, `alloc/x` is what the task calls `/alloc/x`.
    let rooted = (seen.task == "/" && !path.starts_with('/')).then(|| format!("/{path}"));
    let path = rooted.as_deref().unwrap_or(path);
    for (seen, host) in [
        (&seen.alloc, &host.alloc),
        (&seen.local, &host.local),
        (&seen.secrets, &host.secrets),
    ] {
        if is_beneath(path, seen) {
            return format!("{host}{}", &path[seen.len()..]);
        }
    }
    if is_beneath(path, &host.alloc) || is_beneath(path, &host.task) {
        return path.to_owned();
    }
    format!("{}/{}", host.task, path.trim_start_matches('/'))
}

fn is_beneath(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An absolute path without `.`, `..` and empty parts.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_paths_lead_beneath_the_allocation_on_the_host() {
        let id = AllocId::from_u128(1);
        let host = TaskPaths::on_host("/var/lib/drover/alloc/", id, "web");
        let seen = TaskPaths::as_seen(TaskRoot::OwnRoot, "/var/lib/drover/alloc", id, "web");
        let base = format!("/var/lib/drover/alloc/{id}");
        for (path, expected) in [
            ("local/index.html", "web/local/index.html"),
            ("/local/index.html", "web/local/index.html"),
            ("/secrets/token", "web/secrets/token"),
            ("/alloc/data/x", "alloc/data/x"),
            ("alloc/data/x", "alloc/data/x"),
            ("/allocated", "web/allocated"),
            ("${x}.conf", "web/${x}.conf"),
            ("../alloc/data/x", "alloc/data/x"),
            ("local/../../alloc/./x", "alloc/x"),
            ("local//a/../b", "web/local/b"),
            // Refused by the shell.
            ("../other/local/x", "web/../other/local/x"),
            ("../../x", "web/../../x"),
        ] {
            assert_eq!(
                host_path(&host, &seen, path),
                format!("{base}/{expected}"),
                "{path}"
            );
        }
        let absolute = format!("{base}/web/local/x");
        assert_eq!(host_path(&host, &host, &absolute), absolute);
        let other = format!("{base}/allocated/x");
        assert_eq!(
            host_path(&host, &host, &other),
            format!("{base}/web{other}")
        );
    }
}
