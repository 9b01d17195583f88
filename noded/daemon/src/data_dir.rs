//! The data directory, before anything in it is believed: it holds the node's identity, its journal
//! and the files of tasks, and noded works in it as root.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// Others may pass through to a task's own directory, and see nothing on the way.
const PASSED: u32 = 0o711;
const CLOSED: u32 = 0o700;

/// Why a data directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It cannot be made, or looked at.
    #[error("cannot make {}", .path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something else has its name.
    #[error("{} is no directory", .path.display())]
    NotDirectory {
        /// The name.
        path: PathBuf,
    },
    /// Another user made it, and may change everything in it.
    #[error(
        "{} belongs to another user (uid {owner}): look at what is in it, then `chown {own}`, or \
         set data_dir to another directory", .path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Whose it has to be.
        own: u32,
    },
    /// Others may have put into it what they like.
    #[error(
        "{} can be written by others (mode {mode:04o}): look at what is in it, then \
         `chmod go-w`, or set data_dir to another directory", .path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// Makes what is missing of the data directory, whatever the umask, and refuses one that others
/// could have filled. The mode of one that is there stays as it is.
///
/// # Errors
/// See [`DataDirError`].
pub fn prepare(config: &Config) -> Result<(), DataDirError> {
    make(&config.data_dir, PASSED)?;
    make(&config.node_dir(), CLOSED)?;
    let allocs = config.alloc_root();
    make(&allocs, PASSED)?;
    set_mode(&allocs, PASSED)
}

fn make(path: &Path, mode: u32) -> Result<(), DataDirError> {
    let failed = |source| DataDirError::Make {
        path: path.to_owned(),
        source,
    };
    let made = match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                make_above(parent).map_err(failed)?;
            }
            DirBuilder::new().mode(mode).create(path)
        }
        other => other,
    };
    match made {
        Ok(()) => set_mode(path, mode),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check(path, &path.metadata().map_err(failed)?)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Directories above the data directory: whose they are is the operator's to say.
fn make_above(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_above(parent)?;
    }
    DirBuilder::new().mode(PASSED).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(PASSED))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), DataDirError> {
    let set = std::fs::set_permissions(path, Permissions::from_mode(mode));
    set.map_err(|source| DataDirError::Make {
        path: path.to_owned(),
        source,
    })
}

fn check(path: &Path, found: &Metadata) -> Result<(), DataDirError> {
    let path = path.to_owned();
    if !found.is_dir() {
        return Err(DataDirError::NotDirectory { path });
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let owner = found.uid();
        return Err(DataDirError::Foreign { path, owner, own });
    }
    let mode = found.mode() & 0o7777;
    // root's own group is root.
    let strangers = if found.gid() == 0 { 0o002 } else { 0o022 };
    if mode & strangers != 0 {
        return Err(DataDirError::Writable { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn config(data_dir: &Path) -> Config {
        let text = format!(
            "data_dir = {data_dir:?}\nservers = [\"a\"]\ntls {{\n ca_file = \"/a\"\n cert_file = \
             \"/b\"\n key_file = \"/c\"\n}}\n"
        );
        let file = ConfigFile::parse(&text).expect("a file");
        Config::from_file(file).expect("a configuration")
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("metadata").mode() & 0o7777
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_keeps_its_mode() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("a/b");
        let config = config(&path);
        for _ in 0..2 {
            prepare(&config).expect("prepared");
            assert_eq!(mode(&root.path().join("a")), 0o711);
            assert_eq!(mode(&path), 0o711);
            assert_eq!(mode(&path.join("alloc")), 0o711);
            assert_eq!(mode(&path.join("node")), 0o700);
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("closed");
        prepare(&config).expect("prepared");
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused_with_its_mode() {
        let root = tempfile::tempdir().expect("a directory");
        let config = config(root.path());
        for (path, wrong) in [("", 0o777), ("", 0o1777), ("node", 0o703), ("alloc", 0o702)] {
            prepare(&config).expect("prepared");
            let path = match path {
                "" => root.path().to_owned(),
                name => root.path().join(name),
            };
            let before = mode(&path);
            std::fs::set_permissions(&path, Permissions::from_mode(wrong)).expect("opened");
            let refused = prepare(&config).expect_err("refused").to_string();
            assert!(refused.contains(&format!("mode {wrong:04o}")), "{refused}");
            assert!(refused.contains(&path.display().to_string()), "{refused}");
            std::fs::set_permissions(&path, Permissions::from_mode(before)).expect("closed");
        }
    }

    #[test]
    fn a_directory_of_another_user_is_refused_with_its_owner() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let root = tempfile::tempdir().expect("a directory");
        let config = config(root.path());
        prepare(&config).expect("prepared");
        for path in ["node", ""] {
            let path = root.path().join(path);
            std::os::unix::fs::chown(&path, Some(54_321), None).expect("given away");
            let refused = prepare(&config).expect_err("refused").to_string();
            assert!(refused.contains("uid 54321"), "{refused}");
            std::os::unix::fs::chown(&path, Some(0), None).expect("taken back");
        }
        std::fs::remove_dir_all(root.path().join("node")).expect("removed");
        std::fs::write(root.path().join("node"), "").expect("a file");
        let refused = prepare(&config).expect_err("refused");
        assert!(
            matches!(refused, DataDirError::NotDirectory { .. }),
            "{refused}"
        );
    }
}
