//! The tree that is checked: its root and the text of every file that belongs to it.
//!
//! What belongs is git's answer (tracked, or new and not ignored), so that a file is checked before
//! it is committed and a build's leavings never are. Tests build trees in memory instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::source::Source;

/// Larger files are data, not prose; a check that needs their bytes reads them itself.
const TEXT_SIZE_BYTES_MAX: u64 = 4 << 20;

/// All files of the tree, by path relative to the root.
#[derive(Debug, Default)]
pub(crate) struct Repo {
    files: BTreeMap<String, Contents>,
}

/// What one file holds.
#[derive(Debug, Clone)]
enum Contents {
    Text(String),
    /// Not UTF-8, or too large to be read as text.
    Bytes {
        len: u64,
    },
}

impl Repo {
    /// The repository that this tool was built from, or the one around the working directory.
    ///
    /// # Errors
    /// If git does not answer there.
    pub(crate) fn find_root() -> anyhow::Result<PathBuf> {
        // `cargo xtask` and `cargo test` both say where the package lies; a bare binary does not.
        let start =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from);
        let output = Command::new("git")
            .args(["rev-parse", "--show-toplevel"])
            .current_dir(&start)
            .output()
            .context("run git rev-parse (is git installed?)")?;
        if !output.status.success() {
            bail!("not inside a git work tree: {}", start.display());
        }
        Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
    }

    /// Reads every file that git knows or would add.
    ///
    /// # Errors
    /// If git fails or a file cannot be read.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("run git ls-files")?;
        if !output.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        }
        let mut files = BTreeMap::new();
        for name in output
            .stdout
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let name = std::str::from_utf8(name).context("a file name is not UTF-8")?;
            if let Some(contents) = read_contents(&root.join(name))? {
                files.insert(name.to_owned(), contents);
            }
        }
        Ok(Self { files })
    }

    /// A tree in memory, for fixtures.
    #[cfg(test)]
    pub(crate) fn from_texts(texts: &[(&str, &str)]) -> Self {
        let files = texts
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Contents::Text((*text).to_owned())))
            .collect();
        Self { files }
    }

    /// The text of one file, if it exists and is text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        match self.files.get(path) {
            Some(Contents::Text(text)) => Some(text),
            Some(Contents::Bytes { .. }) | None => None,
        }
    }

    /// All text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, contents)| match contents {
                Contents::Text(text) => Some((path.as_str(), text.as_str())),
                Contents::Bytes { .. } => None,
            })
    }

    /// All Rust files, split into code and comments.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, Source)> {
        self.texts()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path, Source::parse(text)))
    }

    /// All files with their sizes in bytes.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(path, contents)| match contents {
            Contents::Text(text) => (path.as_str(), text.len() as u64),
            Contents::Bytes { len } => (path.as_str(), *len),
        })
    }

    /// How many files lie under a folder.
    pub(crate) fn count_under(&self, folder: &str) -> usize {
        let inside = |path: &str| {
            path.strip_prefix(folder)
                .is_some_and(|p| p.starts_with('/'))
        };
        self.files.keys().filter(|path| inside(path)).count()
    }
}

/// `None` for what is listed but is no file here: deleted and not yet committed, or a link.
fn read_contents(path: &Path) -> anyhow::Result<Option<Contents>> {
    let Ok(metadata) = path.symlink_metadata() else {
        return Ok(None);
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let len = metadata.len();
    if len > TEXT_SIZE_BYTES_MAX {
        return Ok(Some(Contents::Bytes { len }));
    }
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(Some(
        String::from_utf8(bytes).map_or(Contents::Bytes { len }, Contents::Text),
    ))
}
