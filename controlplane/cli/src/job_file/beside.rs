//! The files beside a job file, for `file()` and its kin: nothing outside of its folder, not over
//! links, and nothing large.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use protocol_jobspec::{Directories, FileError, Inputs, Variables};

use super::glob::matches;

/// The largest file that `file()` reads.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// How many files `fileset()` looks at, and how deep.
const FILESET_ENTRIES_MAX: usize = 10_000;
const FILESET_DEPTH_MAX: usize = 32;

/// The files below the job file's folder.
pub(super) struct Beside {
    pub(super) variables: Variables,
    pub(super) folder: PathBuf,
    pub(super) now: Timestamp,
    pub(super) seed: u64,
}

impl Beside {
    /// The real path of `path`, which must not lead out of the folder, not even over a link.
    fn resolve(&self, path: &str) -> Result<PathBuf, FileError> {
        let refused = |reason: String| FileError::Refused(reason);
        let root = self
            .folder
            .canonicalize()
            .map_err(|error| refused(error.to_string()))?;
        // A folder that is not there has no real path: `..` is judged on the text too.
        let climbs = Path::new(path)
            .components()
            .any(|part| part == Component::ParentDir);
        let whole = match root.join(path).canonicalize() {
            Ok(whole) => whole,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !climbs => {
                return Err(FileError::NotFound);
            }
            Err(error) => return Err(refused(error.to_string())),
        };
        if whole.starts_with(&root) {
            return Ok(whole);
        }
        Err(refused(format!(
            "it lies outside of the job file's folder {}",
            root.display()
        )))
    }

    fn collect(
        root: &Path,
        at: &Path,
        depth: usize,
        found: &mut Vec<String>,
    ) -> Result<(), FileError> {
        let refused = |error: std::io::Error| FileError::Refused(error.to_string());
        for entry in std::fs::read_dir(at).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let kind = entry.file_type().map_err(refused)?;
            if found.len() >= FILESET_ENTRIES_MAX || depth >= FILESET_DEPTH_MAX {
                return Err(FileError::Refused(format!(
                    "the folder holds more than {FILESET_ENTRIES_MAX} files or {FILESET_DEPTH_MAX} levels"
                )));
            }
            if kind.is_dir() {
                Self::collect(root, &entry.path(), depth + 1, found)?;
            } else if kind.is_file() {
                let path = entry.path();
                let relative = path.strip_prefix(root).unwrap_or(&path);
                found.push(relative.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
}

impl Inputs for Beside {
    fn variables(&self) -> &Variables {
        &self.variables
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn file(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        let refused = |error: std::io::Error| FileError::Refused(error.to_string());
        let path = self.resolve(path)?;
        let file = std::fs::File::open(&path).map_err(refused)?;
        if !file.metadata().map_err(refused)?.is_file() {
            return Err(FileError::Refused("it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(refused)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(FileError::Refused(format!(
                "it is larger than {FILE_BYTES_MAX} bytes"
            )));
        }
        Ok(bytes)
    }

    fn matching_files(&mut self, directory: &str, pattern: &str) -> Result<Vec<String>, FileError> {
        let root = self.resolve(directory)?;
        let mut found = Vec::new();
        Self::collect(&root, &root, 0, &mut found)?;
        found.retain(|path| matches(pattern, path));
        Ok(found)
    }

    fn directories(&self) -> Option<Directories> {
        Some(Directories {
            working: std::env::current_dir().ok()?.to_str()?.to_owned(),
            home: std::env::var("HOME").unwrap_or_else(|_| "/".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(folder: &Path) -> Beside {
        Beside {
            variables: Variables::default(),
            folder: folder.to_owned(),
            now: Timestamp::UNIX_EPOCH,
            seed: 0,
        }
    }

    #[test]
    fn files_are_read_below_the_folder_only() -> std::io::Result<()> {
        let outside = tempfile::tempdir()?;
        std::fs::write(outside.path().join("secret"), "s")?;
        let folder = outside.path().join("jobs");
        std::fs::create_dir_all(folder.join("conf"))?;
        std::fs::write(folder.join("conf/a.txt"), "a")?;
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.join("link"))?;
        let mut inputs = beside(&folder);
        assert_eq!(inputs.file("conf/a.txt"), Ok(b"a".to_vec()));
        assert_eq!(inputs.file("conf/none"), Err(FileError::NotFound));
        for path in ["../secret", "link", "/etc/hostname", "conf"] {
            let refused = inputs.file(path);
            assert!(
                matches!(refused, Err(FileError::Refused(_))),
                "{path}: {refused:?}"
            );
        }
        assert_eq!(
            inputs.matching_files(".", "conf/*.txt"),
            Ok(vec!["conf/a.txt".to_owned()])
        );
        Ok(())
    }
}
