//! Who this node is: an id and a secret that are made once and kept with the data, and which boot
//! of the host this is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use protocol_model::NodeId;

/// First line of the file.
const HEADER: &str = "drover-node-identity 1";
const FILE: &str = "identity";

/// The node's identity.
#[derive(Clone)]
pub struct NodeIdentity {
    /// Its id.
    pub id: NodeId,
    /// What proves that it is the node with this id.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeIdentity({})", self.id)
    }
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file or directory could not be read, made or written.
    #[error("{operation} {}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is there but holds no identity.
    #[error(
        "{} is damaged; restore it, or remove it to join as a new node", .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.to_owned();
    move |source| IdentityError::File {
        operation,
        path,
        source,
    }
}

impl NodeIdentity {
    /// The identity in `directory`, made now where there is none.
    ///
    /// # Errors
    /// Where the file cannot be read or written, or is damaged: a new identity beside old data
    /// would be another node with the old one's allocations.
    pub fn load_or_create(directory: &Path) -> Result<Self, IdentityError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed("making", directory))?;
        if let Some(identity) = Self::load(directory)? {
            return Ok(identity);
        }
        let identity = Self {
            id: NodeId(uuid::Uuid::new_v4()),
            secret: random()?,
        };
        write_durably(directory, FILE, identity.text().as_bytes())
            .map_err(failed("writing", &directory.join(FILE)))?;
        Ok(identity)
    }

    /// The identity in `directory`; `None` where none was made.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged.
    pub fn load(directory: &Path) -> Result<Option<Self>, IdentityError> {
        let path = directory.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text)
                .map(Some)
                .ok_or(IdentityError::Damaged { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("reading", &path)(error)),
        }
    }

    fn text(&self) -> String {
        format!("{HEADER}\n{}\n{}\n", self.id, hex(&self.secret))
    }
}

/// The kernel's id of this boot.
///
/// # Errors
/// Where `/proc` does not tell.
pub fn boot_id() -> Result<[u8; 16], IdentityError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(path).map_err(failed("reading", path))?;
    uuid::Uuid::parse_str(text.trim())
        .map(uuid::Uuid::into_bytes)
        .map_err(|_| IdentityError::Damaged {
            path: path.to_owned(),
        })
}

/// Random bytes of the kernel.
///
/// # Errors
/// Where `/dev/urandom` cannot be read.
pub fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], IdentityError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; LENGTH];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(failed("reading", path))?;
    Ok(bytes)
}

/// Writes a file that is either as before or whole, whenever the host dies. One at a time.
pub(crate) fn write_durably(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, directory.join(name))?;
    File::open(directory)?.sync_all()
}

fn parse(text: &str) -> Option<NodeIdentity> {
    let mut lines = text.lines();
    if lines.next()? != HEADER {
        return None;
    }
    let id = lines.next()?.parse().ok()?;
    let secret = unhex(lines.next()?)?;
    Some(NodeIdentity { id, secret })
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (offset, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[offset * 2..offset * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_identity_is_made_once_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let first = NodeIdentity::load_or_create(directory.path()).unwrap();
        let second = NodeIdentity::load_or_create(directory.path()).unwrap();
        assert_eq!((first.id, first.secret), (second.id, second.secret));
        let mode = std::fs::metadata(directory.path().join(FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!format!("{first:?}").contains(&hex(&first.secret)));
    }

    #[test]
    fn a_damaged_identity_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "drover-node-identity 1\nx\n").unwrap();
        let error = NodeIdentity::load_or_create(directory.path()).unwrap_err();
        assert!(matches!(error, IdentityError::Damaged { .. }), "{error}");
    }
}
