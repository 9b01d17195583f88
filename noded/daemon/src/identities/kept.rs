//! `run_dir/identities/<alloc>`: the tokens that a restarted daemon goes on with. The directory is
//! a memory file system where `run_dir` is, and only root may enter it.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use noded_core::BootId;
use noded_core::identities::kept::{KeptIdentities, KeptIdentity};
use noded_core::identities::{HeldToken, IdentityKey};
use protocol_error_chain::chain;
use protocol_model::AllocId;

/// The kept files of a node.
#[derive(Debug, Clone)]
pub struct KeptFiles {
    directory: PathBuf,
    boot: BootId,
}

impl KeptFiles {
    /// Opens the directory below the runtime directory.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub fn open(run_dir: &Path, boot: BootId) -> io::Result<Self> {
        let directory = run_dir.join("identities");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        Ok(Self { directory, boot })
    }

    /// The allocations that have a file.
    pub(super) fn allocs(&self) -> Vec<AllocId> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Every token. A file of another boot, or a damaged one, is removed: the server is asked.
    pub(super) fn read_all(&self) -> Vec<(IdentityKey, HeldToken)> {
        let mut all = Vec::new();
        for alloc in self.allocs() {
            match self.read(alloc) {
                Ok(Some(kept)) => all.extend(kept.identities.into_iter().map(|it| {
                    let KeptIdentity {
                        task,
                        identity,
                        token,
                    } = it;
                    (IdentityKey::new(alloc, task, identity), token)
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
        let bytes = std::fs::read(self.path(alloc)).map_err(|error| error.to_string())?;
        let kept = KeptIdentities::decode(&bytes).map_err(|error| chain(&error))?;
        Ok((kept.boot == self.boot).then_some(kept))
    }

    /// Writes the tokens of an allocation; none = no file.
    pub(super) fn write(&self, alloc: AllocId, tokens: Vec<(IdentityKey, HeldToken)>) {
        if tokens.is_empty() {
            self.remove(alloc);
            return;
        }
        if let Err(error) = self.try_write(alloc, tokens) {
            tracing::warn!(%alloc, %error, "identities are not kept: a restart asks for them again");
        }
    }

    fn try_write(&self, alloc: AllocId, tokens: Vec<(IdentityKey, HeldToken)>) -> io::Result<()> {
        let identities = tokens.into_iter().map(|(key, token)| KeptIdentity {
            task: key.task,
            identity: key.identity,
            token,
        });
        let kept = KeptIdentities::new(self.boot, identities.collect());
        let bytes = kept.encode()?;
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
        // Gone already is as good.
        let _ = std::fs::remove_file(self.path(alloc));
    }

    fn path(&self, alloc: AllocId) -> PathBuf {
        self.directory.join(alloc.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use noded_core::Moment;
    use noded_core::identities::Jwt;

    use super::*;

    const ALLOC: AllocId = AllocId::from_u128(7);

    fn tokens() -> Vec<(IdentityKey, HeldToken)> {
        let token = HeldToken {
            jwt: Jwt::new("a.b.c"),
            ttl: None,
            root_key: 1,
            came: Moment(Duration::from_secs(1)),
        };
        vec![(IdentityKey::new(ALLOC, "web", "default"), token)]
    }

    #[test]
    fn tokens_of_this_boot_are_read_again_and_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let kept = KeptFiles::open(directory.path(), BootId([1; 16])).unwrap();
        kept.write(ALLOC, tokens());
        assert_eq!(kept.read_all(), tokens());
        let mode = std::fs::metadata(kept.path(ALLOC)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        kept.write(ALLOC, Vec::new());
        assert_eq!(kept.allocs(), []);
    }

    #[test]
    fn tokens_of_another_boot_and_damaged_ones_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let kept = KeptFiles::open(directory.path(), BootId([1; 16])).unwrap();
        kept.write(ALLOC, tokens());
        let later = KeptFiles::open(directory.path(), BootId([2; 16])).unwrap();
        assert_eq!(later.read_all(), []);
        assert_eq!(later.allocs(), []);
        std::fs::write(kept.path(ALLOC), "{").unwrap();
        assert_eq!(kept.read_all(), []);
        assert_eq!(kept.allocs(), []);
    }
}
