//! The data directory: whose it is is looked at before anything in it is believed. It holds the log
//! with all jobs, and with `--dev` the keys that everything trusts.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use protocol_transport::files::make_private_directory;

/// Who chose the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// An operator, in the configuration.
    Configured,
    /// `--dev`: its default is a name that every user of the machine knows.
    Dev,
}

/// Why a data directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It cannot be made, or looked at.
    #[error("cannot make {}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its name leads elsewhere, or to a file.
    #[error("{} is no directory; name another one with --data-dir", path.display())]
    NotDirectory {
        /// The name.
        path: PathBuf,
    },
    /// Another user made it: what is in it is theirs, keys included.
    #[error(
        "{} belongs to another user (uid {owner}); name a directory of your own with --data-dir",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Others may have put into it what they like.
    #[error(
        "{} can be written by others (mode {mode:04o}): find out what is in it, then `chmod 0700`",
        path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The node of `--dev --node` has its own in it, and tasks of ordinary users have to get to theirs:
/// they pass through and see nothing. The log and the keys are in closed directories.
const DEV_MODE: u32 = 0o711;

/// Makes the data directory where it is missing, for its owner only, and refuses one that others
/// could have filled.
///
/// # Errors
/// See [`DataDirError`].
pub fn prepare(path: &Path, chosen: Chosen) -> Result<(), DataDirError> {
    let own = rustix::process::geteuid().as_raw();
    prepare_as(path, chosen, own)
}

fn prepare_as(path: &Path, chosen: Chosen, own: u32) -> Result<(), DataDirError> {
    let failed = |source| DataDirError::Make {
        path: path.to_owned(),
        source,
    };
    let path_again = || path.to_owned();
    make_private_directory(path).map_err(failed)?;
    // An operator may well place it elsewhere by a link; a name in /tmp may be anyone's.
    let found = match chosen {
        Chosen::Configured => path.metadata(),
        Chosen::Dev => path.symlink_metadata(),
    };
    let found = found.map_err(failed)?;
    if !found.is_dir() {
        return Err(DataDirError::NotDirectory { path: path_again() });
    }
    let mode = found.mode() & 0o7777;
    let strangers = match chosen {
        Chosen::Configured => 0o002,
        Chosen::Dev => 0o022,
    };
    if chosen == Chosen::Dev && found.uid() != own {
        return Err(DataDirError::Foreign {
            path: path_again(),
            owner: found.uid(),
        });
    }
    if mode & strangers != 0 {
        return Err(DataDirError::Writable {
            path: path_again(),
            mode,
        });
    }
    if chosen == Chosen::Dev && mode != DEV_MODE {
        // Only its owner has ever written here; from now on nobody else reads here either.
        let closed = std::fs::Permissions::from_mode(DEV_MODE);
        std::fs::set_permissions(path, closed).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("metadata").mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("is set");
    }

    #[test]
    fn a_directory_is_made_for_its_owner_only() {
        let root = tempfile::tempdir().expect("a directory");
        for (name, chosen, expected) in
            [("a", Chosen::Dev, 0o711), ("b", Chosen::Configured, 0o700)]
        {
            let path = root.path().join(name);
            prepare(&path, chosen).expect("is made");
            assert_eq!(mode(&path), expected);
            prepare(&path, chosen).expect("is there");
        }
    }

    #[test]
    fn dev_refuses_a_directory_of_another_user() {
        let root = tempfile::tempdir().expect("a directory");
        let refused = prepare_as(root.path(), Chosen::Dev, own() + 1).expect_err("refused");
        assert!(matches!(refused, DataDirError::Foreign { .. }), "{refused}");
        prepare_as(root.path(), Chosen::Configured, own() + 1).expect("an operator's choice");
    }

    #[test]
    fn dev_refuses_a_link_and_a_directory_that_others_may_write() {
        let root = tempfile::tempdir().expect("a directory");
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        std::fs::create_dir(&real).expect("is made");
        std::os::unix::fs::symlink(&real, &link).expect("is linked");
        let refused = prepare(&link, Chosen::Dev).expect_err("refused");
        assert!(
            matches!(refused, DataDirError::NotDirectory { .. }),
            "{refused}"
        );
        set_mode(&real, 0o770);
        let refused = prepare(&real, Chosen::Dev).expect_err("refused");
        assert!(
            matches!(refused, DataDirError::Writable { .. }),
            "{refused}"
        );
        set_mode(&real, 0o755);
        prepare(&real, Chosen::Dev).expect("nobody else has written there");
        assert_eq!(mode(&real), 0o711);
    }

    #[test]
    fn a_configured_directory_that_everybody_may_write_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        set_mode(root.path(), 0o777);
        let refused = prepare(root.path(), Chosen::Configured).expect_err("refused");
        assert!(
            matches!(refused, DataDirError::Writable { .. }),
            "{refused}"
        );
    }
}
