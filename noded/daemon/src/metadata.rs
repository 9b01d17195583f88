//! The node's dynamic metadata on the disk and in memory: `data_dir/node/metadata.json`.
//!
//! ```text
//!   call ApplyMeta --> apply: rules, disk, memory --> changes() --> caretaker looks at the host
//!   call ReadMeta  --> shown                          merged() ---> facts: `meta`
//! ```
//!
//! A file that cannot be read is never replaced: the node starts with the configured metadata, and
//! changes are refused until an operator has looked at the file.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use noded_core::metadata::{DynamicMeta, MetaError};
use parking_lot::Mutex;
use protocol_model::NodeMetadata;
use tokio::sync::watch;

use crate::identity::write_durably;

const FILE: &str = "metadata.json";
/// A larger file is none of ours: 64 KiB of keys and values, each character escaped.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Why dynamic metadata was not changed.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The changes break a rule.
    #[error(transparent)]
    Refused(MetaError),
    /// The file of an earlier run cannot be used.
    #[error("{} cannot be used: {problem}; repair or remove it, then restart noded", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The file cannot be written. Nothing was changed.
    #[error("writing {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Dynamic metadata, and its file.
#[derive(Debug)]
pub struct MetadataStore {
    directory: PathBuf,
    /// Why the file is left alone, where it is.
    unreadable: Option<String>,
    now: Mutex<DynamicMeta>,
    /// One change at a time, from its rules to the disk.
    turn: Mutex<()>,
    changes: watch::Sender<()>,
}

impl MetadataStore {
    /// The metadata that the file in `directory` has. Unset keys that `configured` does not have
    /// are forgotten. Blocks.
    pub fn open(directory: &Path, configured: &BTreeMap<String, String>) -> Self {
        let (now, unreadable) = match read(directory) {
            Ok(meta) => (meta.needed(configured), None),
            Err(problem) => {
                let path = directory.join(FILE);
                tracing::error!(
                    path = %path.display(), %problem,
                    "the dynamic metadata of this node is not used; repair or remove the file, then \
                     restart noded"
                );
                (DynamicMeta::default(), Some(problem))
            }
        };
        Self {
            directory: directory.to_owned(),
            unreadable,
            now: Mutex::new(now),
            turn: Mutex::new(()),
            changes: watch::Sender::new(()),
        }
    }

    /// The node's metadata: `configured` with the changes.
    pub fn merged(&self, configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        self.now.lock().merged(configured)
    }

    /// The same with its parts.
    pub fn shown(&self, configured: &BTreeMap<String, String>) -> NodeMetadata {
        self.now.lock().shown(configured)
    }

    /// Is told of each change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Sets and unsets keys. The change is on the disk when this returns. Blocks.
    ///
    /// # Errors
    /// Where the changes break a rule, or the file cannot be used or written. Nothing is changed
    /// then.
    pub fn apply(
        &self,
        changes: BTreeMap<String, Option<String>>,
        configured: &BTreeMap<String, String>,
    ) -> Result<NodeMetadata, MetadataError> {
        let path = || self.directory.join(FILE);
        if let Some(problem) = &self.unreadable {
            return Err(MetadataError::Unreadable {
                path: path(),
                problem: problem.clone(),
            });
        }
        let _turn = self.turn.lock();
        let before = self.now.lock().clone();
        let meta = before
            .with(changes, configured)
            .map_err(MetadataError::Refused)?;
        let shown = meta.shown(configured);
        if meta == before {
            return Ok(shown);
        }
        write_durably(&self.directory, FILE, &meta.encode()).map_err(|source| {
            MetadataError::Write {
                path: path(),
                source,
            }
        })?;
        *self.now.lock() = meta;
        self.changes.send_replace(());
        Ok(shown)
    }
}

/// The metadata on the disk; none where there is no file.
fn read(directory: &Path) -> Result<DynamicMeta, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(directory.join(FILE))
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => DynamicMeta::decode(&bytes).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DynamicMeta::default()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: Option<&str>) -> BTreeMap<String, Option<String>> {
        [(key.to_owned(), value.map(str::to_owned))].into()
    }

    #[test]
    fn changes_are_found_again_and_told() {
        let directory = tempfile::tempdir().unwrap();
        let configured: BTreeMap<_, _> = [("rack".to_owned(), "r1".to_owned())].into();
        let store = MetadataStore::open(directory.path(), &configured);
        let told = store.changes();
        store.apply(set("rack", None), &configured).unwrap();
        let shown = store.apply(set("a.b", Some("c")), &configured).unwrap();
        assert!(told.has_changed().unwrap());
        assert_eq!(shown, store.shown(&configured));
        let again = MetadataStore::open(directory.path(), &configured);
        assert_eq!(again.shown(&configured), shown);
        let merged = again.merged(&configured);
        assert_eq!(merged, [("a.b".to_owned(), "c".to_owned())].into());
        let hidden_no_more = MetadataStore::open(directory.path(), &BTreeMap::new());
        assert_eq!(hidden_no_more.shown(&BTreeMap::new()).dynamic.len(), 1);
    }

    #[test]
    fn a_change_that_changes_nothing_is_told_to_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let store = MetadataStore::open(directory.path(), &BTreeMap::new());
        store.apply(set("a", Some("1")), &BTreeMap::new()).unwrap();
        let told = store.changes();
        store.apply(set("a", Some("1")), &BTreeMap::new()).unwrap();
        assert!(!told.has_changed().unwrap());
        let refused = store.apply(set("1a", None), &BTreeMap::new());
        assert!(matches!(refused, Err(MetadataError::Refused(_))));
        assert!(!told.has_changed().unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_left_alone_and_changes_are_refused() {
        for damaged in [
            "",
            "{",
            "{\"version\":2}",
            "{\"version\":1,\"meta\":{\"\":null}}",
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(FILE);
            std::fs::write(&path, damaged).unwrap();
            let configured: BTreeMap<_, _> = [("rack".to_owned(), "r1".to_owned())].into();
            let store = MetadataStore::open(directory.path(), &configured);
            assert_eq!(store.merged(&configured), configured);
            let refused = store.apply(set("a", Some("1")), &configured);
            let error = refused.expect_err(damaged).to_string();
            assert!(error.contains("metadata.json"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn a_change_that_is_not_on_the_disk_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let store = MetadataStore::open(directory.path(), &BTreeMap::new());
        drop(directory);
        let refused = store.apply(set("a", Some("1")), &BTreeMap::new());
        assert!(matches!(refused, Err(MetadataError::Write { .. })));
        assert_eq!(store.merged(&BTreeMap::new()), BTreeMap::new());
    }
}
