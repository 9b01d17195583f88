//! Opening the log's database: the server's id is born in it, in its first transaction.
//!
//! ```text
//!   log.redb   server-id
//!   absent     absent      a new server: new id
//!   present    absent      the copy was lost: written again
//!   present    the same    a restart
//!   present    another     refused: two servers' files were mixed
//!   absent     present     refused: the log was removed, and what this id voted with it
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use protocol_transport::files::make_private_directory;
use redb::{Database, ReadableDatabase, TableDefinition};
use tokio::sync::watch;

use crate::member::ServerId;
use crate::record::{self, RecordError};

/// Encoded entries by index.
pub(crate) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// Everything that there is one of.
pub(crate) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

pub(crate) const META_VOTE: &str = "vote";
pub(crate) const META_COMMITTED: &str = "committed";
pub(crate) const META_PURGED: &str = "purged";
const META_SERVER_ID: &str = "server_id";

/// Memory for database pages: the newest entries are kept decoded beside it, so that the pages are
/// read only after a restart and for followers far behind.
const PAGE_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("preparing {path}")]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("opening {path}")]
    Open {
        path: PathBuf,
        #[source]
        source: redb::DatabaseError,
    },
    #[error("{operation} {path}")]
    Access {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: Box<redb::Error>,
    },
    #[error("{path} holds a damaged record")]
    Record {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} names a server whose log is gone; a server without its log must not vote again: \
         remove the whole directory to start as a new server"
    )]
    LogRemoved { path: PathBuf },
    #[error("{path} names server {named}, but the log belongs to {actual}")]
    OtherServer {
        path: PathBuf,
        named: String,
        actual: ServerId,
    },
}

/// The database while anyone uses it. The fields are dropped in order: when the watch ends, the
/// file is closed and its lock is gone.
#[derive(Debug)]
pub(crate) struct HeldDatabase {
    database: Database,
    open: watch::Sender<()>,
}

impl HeldDatabase {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            open: watch::Sender::new(()),
        }
    }

    /// A watch that ends when the database is closed.
    pub(crate) fn closed(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }
}

impl std::ops::Deref for HeldDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

/// An opened log and whose it is.
#[derive(Debug)]
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    pub(crate) id: ServerId,
}

/// Opens the log in `directory`, or makes one.
pub(crate) fn open(directory: &Path) -> Result<OpenedDatabase, DatabaseError> {
    let path = directory.join("log.redb");
    let id_path = directory.join("server-id");
    let prepare = |source| DatabaseError::Prepare {
        path: directory.to_owned(),
        source,
    };
    close_to_others(directory).map_err(prepare)?;
    let named = read_id_file(&id_path)?;
    if named.is_some() && !path.try_exists().map_err(prepare)? {
        return Err(DatabaseError::LogRemoved { path: id_path });
    }
    let file = private_file()
        .read(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(prepare)?;
    let database = Database::builder()
        .set_cache_size(PAGE_CACHE_BYTES)
        .create_file(file)
        .map_err(|source| DatabaseError::Open {
            path: path.clone(),
            source,
        })?;
    let id = match read_id(&database, &path)? {
        Some(id) => id,
        // The file was made, but its first transaction was cut off.
        None if named.is_some() => return Err(DatabaseError::LogRemoved { path: id_path }),
        None => create_tables(&database, &path)?,
    };
    match named {
        None => write_id_file(directory, &id_path, id)?,
        Some(named) if named == id.to_string() => {}
        Some(named) => {
            return Err(DatabaseError::OtherServer {
                path: id_path,
                named,
                actual: id,
            });
        }
    }
    Ok(OpenedDatabase { database, id })
}

fn create_tables(database: &Database, path: &Path) -> Result<ServerId, DatabaseError> {
    let id = ServerId::random();
    let create = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        transaction.open_table(LOG)?;
        let encoded = record::encode(&id);
        transaction
            .open_table(META)?
            .insert(META_SERVER_ID, &*encoded)?;
        transaction.commit()?;
        Ok(())
    };
    create().map_err(|source| access("creating", path, source))?;
    Ok(id)
}

fn read_id(database: &Database, path: &Path) -> Result<Option<ServerId>, DatabaseError> {
    let read = || -> Result<Option<Vec<u8>>, redb::Error> {
        let transaction = database.begin_read()?;
        let table = match transaction.open_table(META) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(table
            .get(META_SERVER_ID)?
            .map(|guard| guard.value().to_vec()))
    };
    read()
        .map_err(|source| access("reading", path, source))?
        .map(|bytes| record::decode("server id", &bytes))
        .transpose()
        .map_err(|error: RecordError| DatabaseError::Record {
            path: path.to_owned(),
            source: error.into(),
        })
}

fn access(operation: &'static str, path: &Path, source: redb::Error) -> DatabaseError {
    DatabaseError::Access {
        operation,
        path: path.to_owned(),
        source: Box::new(source),
    }
}

fn read_id_file(path: &Path) -> Result<Option<String>, DatabaseError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DatabaseError::Prepare {
            path: path.to_owned(),
            source,
        }),
    }
}

fn write_id_file(directory: &Path, path: &Path, id: ServerId) -> Result<(), DatabaseError> {
    // Written whole or not at all: a cut-off copy would be taken for another server's.
    replace_file(directory, path, format!("{id}\n").as_bytes()).map_err(|source| {
        DatabaseError::Prepare {
            path: path.to_owned(),
            source,
        }
    })
}

/// Replaces `path` in `directory` by `content`, durably.
pub(crate) fn replace_file(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = private_file()
        .create(true)
        .truncate(true)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(directory)
}

/// Makes `directory` where it is missing, and closes it to everyone but its owner: the log holds
/// jobs with their secrets.
pub(crate) fn close_to_others(directory: &Path) -> io::Result<()> {
    make_private_directory(directory)?;
    let mode = fs::metadata(directory)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

/// How a file is made that only its owner may read, whatever the umask.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Makes renames and removals in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_id() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = open(directory.path()).expect("opens").id;
        assert_eq!(open(directory.path()).expect("opens again").id, first);
        let other = tempfile::tempdir().expect("a directory");
        assert_ne!(open(other.path()).expect("opens").id, first);
    }

    #[test]
    fn what_is_made_is_for_its_owner_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("raft");
        fs::create_dir(&path).expect("is made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is set");
        drop(open(&path).expect("opens"));
        let mode = |path: &Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("log.redb")), 0o600);
        assert_eq!(mode(&path.join("server-id")), 0o600);
    }

    #[test]
    fn a_lost_copy_of_the_id_is_written_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let id = open(directory.path()).expect("opens").id;
        let copy = directory.path().join("server-id");
        fs::remove_file(&copy).expect("removes");
        assert_eq!(open(directory.path()).expect("opens").id, id);
        assert_eq!(
            fs::read_to_string(copy).expect("reads").trim(),
            id.to_string()
        );
    }

    #[test]
    fn an_id_without_its_log_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        open(directory.path()).expect("opens");
        fs::remove_file(directory.path().join("log.redb")).expect("removes");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(
            matches!(error, DatabaseError::LogRemoved { .. }),
            "{error:?}"
        );
    }

    #[test]
    fn the_id_of_another_server_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        open(directory.path()).expect("opens");
        fs::write(directory.path().join("server-id"), "00000000000000aa\n").expect("writes");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(
            matches!(error, DatabaseError::OtherServer { .. }),
            "{error:?}"
        );
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let _holder = open(directory.path()).expect("opens");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(matches!(error, DatabaseError::Open { .. }), "{error:?}");
    }
}
