//! `run_dir/identities/<alloc>`: the tokens that a restarted daemon goes on with. The directory is
//! a memory file system where `run_dir` is, and only root may enter it.
//!
//! Groups that may start while the node is cut off have a file in `data_dir/node/identities` too:
//! a host that boots without a server starts them with the tokens that do not expire.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use noded_core::identities::kept::{KeptIdentities, KeptIdentity};
use noded_core::identities::{HeldToken, IdentityKey};
use noded_core::{BootId, Moment};
use protocol_error_chain::chain;
use protocol_model::AllocId;

use crate::identity::write_durably;

/// A token that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptToken {
    pub(super) key: IdentityKey,
    pub(super) token: HeldToken,
    /// Whether its task is still to be told of it.
    pub(super) undelivered: bool,
}

/// Where tokens are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Until the host reboots.
    Memory,
    /// Until the host reboots; tokens that do not expire are on the disk, too.
    MemoryAndDisk,
}

/// The kept files of a node.
#[derive(Debug, Clone)]
pub struct KeptFiles {
    directory: PathBuf,
    /// `None`: nothing is kept beyond a reboot.
    disk: Option<PathBuf>,
    boot: BootId,
}

impl KeptFiles {
    /// Opens the directory below the runtime directory.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub fn open(run_dir: &Path, boot: BootId) -> io::Result<Self> {
        Ok(Self {
            directory: make(run_dir)?,
            disk: None,
            boot,
        })
    }

    /// The same with a directory on the disk, below the node's own.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub fn with_disk(self, node_dir: &Path) -> io::Result<Self> {
        let disk = Some(make(node_dir)?);
        Ok(Self { disk, ..self })
    }

    /// The allocations that have a file.
    pub(super) fn allocs(&self) -> BTreeSet<AllocId> {
        let folders = self.disk.iter().chain([&self.directory]);
        folders.flat_map(|folder| files_in(folder)).collect()
    }

    /// Every token. A file of another boot, or a damaged one, is removed: the server is asked.
    pub(super) fn read_all(&self) -> Vec<KeptToken> {
        let mut all = Vec::new();
        let in_memory = files_in(&self.directory);
        let on_disk = self.disk.iter().flat_map(|folder| files_in(folder));
        for alloc in on_disk.filter(|alloc| !in_memory.contains(alloc)) {
            all.extend(self.read_disk(alloc));
        }
        for alloc in in_memory {
            match self.read(alloc) {
                Ok(Some(kept)) => all.extend(kept.identities.into_iter().map(|it| {
                    let KeptIdentity {
                        task,
                        identity,
                        token,
                        undelivered,
                    } = it;
                    KeptToken {
                        key: IdentityKey::new(alloc, task, identity),
                        token,
                        undelivered,
                    }
                })),
                Ok(None) => self.remove(alloc),
                Err(error) => {
                    tracing::warn!(%alloc, %error, "kept identities are not used");
                    self.remove(alloc);
                }
            }
        }
        all
    }

    fn read(&self, alloc: AllocId) -> Result<Option<KeptIdentities>, String> {
        let kept = read_file(&self.path(alloc))?;
        Ok((kept.boot == self.boot).then_some(kept))
    }

    /// The tokens of an earlier boot, which counted by another clock.
    fn read_disk(&self, alloc: AllocId) -> Vec<KeptToken> {
        let path = self
            .disk
            .iter()
            .map(|folder| folder.join(alloc.to_string()));
        let kept = path.map(|path| read_file(&path));
        let kept = kept.filter_map(|kept| match kept {
            Ok(kept) => Some(kept.identities),
            Err(error) => {
                tracing::warn!(%alloc, %error, "identities on the disk are not used");
                self.remove(alloc);
                None
            }
        });
        let kept = kept.flatten().filter(|it| it.token.ttl.is_none());
        kept.map(|it| KeptToken {
            key: IdentityKey::new(alloc, it.task, it.identity),
            token: HeldToken {
                came: Moment::default(),
                ..it.token
            },
            undelivered: false,
        })
        .collect()
    }

    /// Writes the tokens of an allocation; none = no file.
    pub(super) fn write(&self, alloc: AllocId, tokens: Vec<KeptToken>, keeping: Keeping) {
        if tokens.is_empty() {
            self.remove(alloc);
            return;
        }
        if keeping == Keeping::MemoryAndDisk
            && let Err(error) = self.write_disk(alloc, &tokens)
        {
            tracing::warn!(%alloc, %error, "identities are not on the disk: a boot needs a server");
        }
        if let Err(error) = self.try_write(alloc, tokens) {
            tracing::warn!(%alloc, %error, "identities are not kept: a restart asks for them again");
        }
    }

    /// A disk is written where a token that does not expire is another one.
    fn write_disk(&self, alloc: AllocId, tokens: &[KeptToken]) -> io::Result<()> {
        let Some(folder) = &self.disk else {
            return Ok(());
        };
        let tokens = tokens.iter().filter(|it| it.token.ttl.is_none());
        let bytes = self.encode(tokens.map(|it| KeptToken {
            undelivered: false,
            ..it.clone()
        }))?;
        let name = alloc.to_string();
        match std::fs::read(folder.join(&name)) {
            Ok(found) if found == bytes => Ok(()),
            _ => write_durably(folder, &name, &bytes),
        }
    }

    fn encode(&self, tokens: impl Iterator<Item = KeptToken>) -> io::Result<Vec<u8>> {
        let identities = tokens.map(|kept| KeptIdentity {
            task: kept.key.task,
            identity: kept.key.identity,
            token: kept.token,
            undelivered: kept.undelivered,
        });
        let kept = KeptIdentities::new(self.boot, identities.collect());
        Ok(kept.encode()?)
    }

    fn try_write(&self, alloc: AllocId, tokens: Vec<KeptToken>) -> io::Result<()> {
        let bytes = self.encode(tokens.into_iter())?;
        let path = self.path(alloc);
        let temporary = path.with_extension("new");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&bytes)?;
        std::fs::rename(&temporary, &path)
    }

    pub(super) fn remove(&self, alloc: AllocId) {
        let folders = self.disk.iter().chain([&self.directory]);
        for folder in folders {
            // Gone already is as good.
            let _ = std::fs::remove_file(folder.join(alloc.to_string()));
        }
    }

    fn path(&self, alloc: AllocId) -> PathBuf {
        self.directory.join(alloc.to_string())
    }
}

fn make(parent: &Path) -> io::Result<PathBuf> {
    let directory = parent.join("identities");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)?;
    Ok(directory)
}

fn files_in(folder: &Path) -> BTreeSet<AllocId> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    names.collect()
}

fn read_file(path: &Path) -> Result<KeptIdentities, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    KeptIdentities::decode(&bytes).map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use noded_core::identities::Jwt;

    use super::*;

    const ALLOC: AllocId = AllocId::from_u128(7);

    fn tokens() -> Vec<KeptToken> {
        let token = HeldToken {
            jwt: Jwt::new("a.b.c"),
            ttl: None,
            root_key: 1,
            came: Moment(Duration::from_secs(1)),
            expiry_told: true,
        };
        vec![KeptToken {
            key: IdentityKey::new(ALLOC, "web", "default"),
            token,
            undelivered: true,
        }]
    }

    #[test]
    fn tokens_of_this_boot_are_read_again_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let kept = KeptFiles::open(directory.path(), BootId([1; 16])).unwrap();
        kept.write(ALLOC, tokens(), Keeping::Memory);
        assert_eq!(kept.read_all(), tokens());
        let mode = std::fs::metadata(kept.path(ALLOC)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        kept.write(ALLOC, Vec::new(), Keeping::Memory);
        assert!(kept.allocs().is_empty());
    }

    #[test]
    fn disk_keeps_tokens_that_do_not_expire_beyond_a_reboot() {
        let [run, disk] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let open = |boot| {
            let kept = KeptFiles::open(run.path(), BootId([boot; 16])).unwrap();
            kept.with_disk(disk.path()).unwrap()
        };
        let mut all = tokens();
        let mut renewed = all[0].clone();
        renewed.key.identity = "cloud".to_owned();
        renewed.token.ttl = Some(Duration::from_secs(60));
        all.push(renewed);
        open(1).write(ALLOC, all.clone(), Keeping::MemoryAndDisk);
        assert_eq!(open(1).read_all(), all, "its own boot has all of them");
        std::fs::remove_file(open(1).path(ALLOC)).unwrap();
        let mut kept = tokens();
        kept[0].undelivered = false;
        kept[0].token.came = Moment::default();
        assert_eq!(open(2).read_all(), kept);
        let path = disk.path().join("identities").join(ALLOC.to_string());
        let mode = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(open(2).read_all(), []);
        open(2).write(ALLOC, tokens(), Keeping::Memory);
        assert!(!path.exists());
        open(2).write(ALLOC, tokens(), Keeping::MemoryAndDisk);
        open(2).remove(ALLOC);
        assert!(open(2).allocs().is_empty());
    }

    #[test]
    fn tokens_of_another_boot_and_damaged_ones_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let kept = KeptFiles::open(directory.path(), BootId([1; 16])).unwrap();
        kept.write(ALLOC, tokens(), Keeping::Memory);
        let later = KeptFiles::open(directory.path(), BootId([2; 16])).unwrap();
        assert_eq!(later.read_all(), []);
        assert!(later.allocs().is_empty());
        std::fs::write(kept.path(ALLOC), "{").unwrap();
        assert_eq!(kept.read_all(), []);
        assert!(kept.allocs().is_empty());
    }
}
