//! Certificates and keys on disk: keys are readable by their owner only, and no existing file is
//! ever replaced, because an overwritten CA key cannot be brought back. Directories that only their
//! owner may enter.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteFileError {
    #[error("{path} exists already and is not replaced")]
    Exists { path: PathBuf },
    #[error("writing {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Why a private key file was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ReadKeyError {
    #[error("reading {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} may be read by others (mode {mode:04o}); a private key must not be")]
    TooOpen { path: PathBuf, mode: u32 },
}

/// Writes a private key with mode 0600 and syncs it.
///
/// # Errors
/// When the file exists, or writing fails.
pub fn write_key(path: &Path, pem: &str) -> Result<(), WriteFileError> {
    write_new(path, pem, 0o600)
}

/// Writes a certificate with mode 0644 and syncs it.
///
/// # Errors
/// When the file exists, or writing fails.
pub fn write_certificate(path: &Path, pem: &str) -> Result<(), WriteFileError> {
    write_new(path, pem, 0o644)
}

/// Reads a private key, refusing one that group or others may read.
///
/// # Errors
/// When the file cannot be read or its mode is too open.
pub fn read_key(path: &Path) -> Result<String, ReadKeyError> {
    let read_error = |source| ReadKeyError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(read_error)?;
    let mode = file.metadata().map_err(read_error)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ReadKeyError::TooOpen {
            path: path.to_owned(),
            mode,
        });
    }
    io::read_to_string(&mut file).map_err(read_error)
}

/// Makes a directory that only its owner may enter (mode 0700, whatever the umask), and its name
/// durable; directories above it that are missing too. One that exists is left as it is.
///
/// # Errors
/// When it cannot be made, or something else has its name.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    match made {
        Ok(()) => {
            // Without this a power cut may take the directory along with all that was synced in it.
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) else {
                return Err(error);
            };
            make_private_directory(parent)?;
            make_private_directory(path)
        }
        Err(error) => Err(error),
    }
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), WriteFileError> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| {
            let written = file
                .write_all(text.as_bytes())
                .and_then(|()| file.sync_all());
            // Half a file would be refused as existing when this is tried again.
            written.inspect_err(|_| drop(fs::remove_file(path)))
        });
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => WriteFileError::Exists {
            path: path.to_owned(),
        },
        _ => WriteFileError::Write {
            path: path.to_owned(),
            source,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_private_and_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key.pem");
        write_key(&path, "first").expect("writes");
        let mode = path.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let error = write_key(&path, "second").expect_err("must refuse");
        assert!(matches!(error, WriteFileError::Exists { .. }), "{error:?}");
        assert_eq!(read_key(&path).expect("reads"), "first");
    }

    #[test]
    fn a_private_directory_is_made_with_those_above_it_and_kept_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("one/two");
        make_private_directory(&path).expect("is made");
        let mode = |path: &Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(
            (mode(&path), mode(&directory.path().join("one"))),
            (0o700, 0o700)
        );
        let open = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(&path, open).expect("is set");
        make_private_directory(&path).expect("is there");
        assert_eq!(mode(&path), 0o750);
        let file = directory.path().join("file");
        write_key(&file, "text").expect("writes");
        assert!(make_private_directory(&file).is_err());
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key.pem");
        write_certificate(&path, "text").expect("writes");
        let error = read_key(&path).expect_err("must refuse");
        assert!(matches!(error, ReadKeyError::TooOpen { .. }), "{error:?}");
    }
}
