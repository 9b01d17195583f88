//! KEKs that the host hands to a server: a systemd credential, a variable of the environment. They
//! are read, never written, and never handed to another server, so that a key which is bound to a
//! TPM stays with it.

use std::collections::BTreeSet;
use std::env;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::files::{FileKeks, KekFileError, KekStore, LoadedKeks, io_error};
use crate::kek::{Kek, KekId};
use crate::kek_file::KEK_FILE_BYTES_MAX;

/// A place that holds one KEK: the text of a KEK file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KekSource {
    /// A systemd credential.
    Credential {
        /// `$CREDENTIALS_DIRECTORY`; `None` where the service manager sets none.
        directory: Option<PathBuf>,
        /// Its name.
        name: String,
    },
    /// A variable of the environment; line ends may be written as spaces.
    Environment(String),
}

/// The KEK that wraps new root keys, where the operator names one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum WrappingKek {
    /// The one that wraps the active root key; the first leader chooses.
    #[default]
    AnyOne,
    /// The one of a KEK file.
    File(KekId),
    /// The one of the source at this place in the list.
    Source(usize),
}

/// KEK files, and KEKs that the host hands over.
#[derive(Clone, Debug)]
pub struct HostKeks {
    files: FileKeks,
    sources: Vec<KekSource>,
    wrapping: WrappingKek,
}

impl HostKeks {
    /// Files below a directory, and these sources.
    pub fn new(files: FileKeks, sources: Vec<KekSource>, wrapping: WrappingKek) -> Self {
        Self {
            files,
            sources,
            wrapping,
        }
    }
}

impl KekStore for HostKeks {
    fn load(&self) -> Result<LoadedKeks, KekFileError> {
        let mut loaded = self.files.load()?;
        loaded.wanted = match &self.wrapping {
            WrappingKek::File(id) => Some(*id),
            WrappingKek::AnyOne | WrappingKek::Source(_) => None,
        };
        for (number, source) in self.sources.iter().enumerate() {
            match source.read() {
                Ok(kek) => {
                    if self.wrapping == WrappingKek::Source(number) {
                        loaded.wanted = Some(kek.id());
                    }
                    loaded.provided.insert(kek.id());
                    loaded.keks.push(kek);
                }
                Err(error) => loaded.unusable.push(error),
            }
        }
        Ok(loaded)
    }

    /// A KEK that the host hands over is not written to the disk.
    fn store(&self, kek: &Kek) -> Result<(), KekFileError> {
        let provided: BTreeSet<KekId> = self
            .sources
            .iter()
            .filter_map(|source| Some(source.read().ok()?.id()))
            .collect();
        match provided.contains(&kek.id()) {
            true => Ok(()),
            false => self.files.store(kek),
        }
    }
}

impl KekSource {
    fn read(&self) -> Result<Kek, KekFileError> {
        let (path, text) = match self {
            Self::Credential { directory, name } => {
                let missing = || KekFileError::NoCredentials { name: name.clone() };
                let path = directory.as_ref().ok_or_else(missing)?.join(name);
                let text = read_credential(&path)?;
                (path, text)
            }
            Self::Environment(variable) => {
                let unset = || KekFileError::Unset {
                    variable: variable.clone(),
                };
                let text = env::var_os(variable).ok_or_else(unset)?;
                let path = PathBuf::from(format!("${variable}"));
                (path, Zeroizing::new(text.into_encoded_bytes()))
            }
        };
        let read = match self {
            Self::Credential { .. } => Kek::from_text(&text),
            Self::Environment(_) => Kek::from_text(&lines(&text)),
        };
        read.map_err(|source| KekFileError::Text { path, source })
    }
}

/// The service manager made it readable for this process alone; its owner may be root.
fn read_credential(path: &std::path::Path) -> Result<Zeroizing<Vec<u8>>, KekFileError> {
    let failed = |source| io_error("read", path, source);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(KekFileError::NotFile {
            path: path.to_owned(),
        });
    }
    // With its whole capacity from the beginning: a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * KEK_FILE_BYTES_MAX));
    file.take(KEK_FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(text)
}

/// The three words behind `drover-kek` as the lines of a KEK file.
fn lines(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut lines = Zeroizing::new(Vec::with_capacity(2 * KEK_FILE_BYTES_MAX));
    let words = text.split(u8::is_ascii_whitespace);
    for (number, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if lines.len() + word.len() + 1 > 2 * KEK_FILE_BYTES_MAX {
            break;
        }
        lines.extend_from_slice(word);
        lines.push(if number == 0 { b' ' } else { b'\n' });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kek_of_the_environment_may_be_one_line() {
        let kek = Kek::generate();
        let text = kek.to_text();
        for text in [text.as_str(), &text.replace('\n', " "), text.trim_end()] {
            let read = Kek::from_text(&lines(text.as_bytes())).expect("a KEK");
            assert_eq!(read.id(), kek.id());
        }
        for text in ["", "drover-kek", "drover-kek 1 66687aadf862bd77"] {
            assert!(Kek::from_text(&lines(text.as_bytes())).is_err(), "{text}");
        }
        let long = "a ".repeat(10_000);
        assert!(Kek::from_text(&lines(long.as_bytes())).is_err());
    }
}
