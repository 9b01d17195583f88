//! Around a rendering: the files that a template reads, and the environment that it writes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use noded_core::env::file::{self, LineError};

/// A template, its source and each file that it reads: beyond this it is no configuration.
pub const TEMPLATE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Renderings of one template: each one may name files that the one before did not reach.
pub const PASSES_MAX: usize = 32;

/// A line of a rendered environment file that is no assignment, comment or blank line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the environment")]
pub struct EnvironmentError {
    /// The line of the result, from 1.
    line: usize,
    /// The reason.
    source: LineError,
}

/// The variables of a rendered environment file.
///
/// # Errors
/// A line is no assignment, comment or blank line.
pub fn environment_of(text: &str) -> Result<BTreeMap<String, String>, EnvironmentError> {
    file::parse(text).map_err(|(line, source)| EnvironmentError { line, source })
}

/// A file's path below the allocation's directory, of the path that a template gives: in the host's
/// file system, in the task's (`/local/x`, `/alloc/x`), or relative to the task's directory.
/// `None`: it is neither in the task's directory nor in the allocation's shared one.
pub fn file_below(base: &Path, task: &str, given: &str) -> Option<PathBuf> {
    let given = Path::new(given);
    let joined = match (given.strip_prefix(base), given.strip_prefix("/alloc")) {
        (Ok(below), _) => below.to_owned(),
        (_, Ok(below)) => Path::new("alloc").join(below),
        _ => Path::new(task).join(given.strip_prefix("/").unwrap_or(given)),
    };
    let mut below = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::CurDir => {}
            Component::ParentDir if below.pop() => {}
            _ => return None,
        }
    }
    (below.starts_with(task) || below.starts_with("alloc")).then_some(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_s_files_are_the_task_s_and_the_shared_ones() {
        for (given, below) in [
            ("local/x", Some("web/local/x")),
            ("/local/x", Some("web/local/x")),
            ("/secrets/x", Some("web/secrets/x")),
            ("/allocs/a/web/local/x", Some("web/local/x")),
            ("/alloc/data/x", Some("alloc/data/x")),
            ("/allocs/a/alloc/x", Some("alloc/x")),
            ("../alloc/x", Some("alloc/x")),
            ("./local/../local/x", Some("web/local/x")),
            ("/etc/passwd", Some("web/etc/passwd")),
            ("../db/secrets/x", None),
            ("/allocs/a/db/secrets/x", None),
            ("../../b/x", None),
            ("/alloc/../db/x", None),
        ] {
            let found = file_below(Path::new("/allocs/a"), "web", given);
            assert_eq!(found, below.map(PathBuf::from), "{given}");
        }
    }
}
