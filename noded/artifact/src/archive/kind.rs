//! Kinds of archives, by the words of go-getter and the ends of file names.

use serde::{Deserialize, Serialize};

/// Format of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchiveKind {
    /// A tar archive.
    Tar(Option<Compression>),
    /// A zip archive.
    Zip,
    /// One compressed file.
    Single(Compression),
}

/// How a stream is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
}

/// Every word; longer ones before their ends.
const WORDS: [(&str, ArchiveKind); 14] = {
    use ArchiveKind::{Single, Tar, Zip};
    use Compression::{Bzip2, Gzip, Xz, Zstd};
    [
        ("tar.gz", Tar(Some(Gzip))),
        ("tgz", Tar(Some(Gzip))),
        ("tar.bz2", Tar(Some(Bzip2))),
        ("tbz2", Tar(Some(Bzip2))),
        ("tar.xz", Tar(Some(Xz))),
        ("txz", Tar(Some(Xz))),
        ("tar.zst", Tar(Some(Zstd))),
        ("tzst", Tar(Some(Zstd))),
        ("tar", Tar(None)),
        ("zip", Zip),
        ("gz", Single(Gzip)),
        ("bz2", Single(Bzip2)),
        ("xz", Single(Xz)),
        ("zst", Single(Zstd)),
    ]
};

impl ArchiveKind {
    /// The words, for messages.
    pub(crate) const NAMES: &str =
        "tar, tar.gz, tgz, tar.bz2, tbz2, tar.xz, txz, tar.zst, tzst, zip, gz, bz2, xz, zst";

    /// Reads the value of `archive`.
    pub fn parse(word: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind)
    }

    /// The kind that the end of a path implies.
    pub fn of_name(path: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(word, _)| {
            let stem = path.strip_suffix(word);
            stem.is_some_and(|stem| stem.ends_with('.'))
        });
        found.map(|(_, kind)| *kind)
    }

    /// A file name without the end that says how the file is compressed: `a.txt.gz` is `a.txt`.
    pub(crate) fn stem(name: &str) -> &str {
        let stem = WORDS.iter().find_map(|(word, _)| {
            let stem = name.strip_suffix(word)?.strip_suffix('.')?;
            (!stem.is_empty()).then_some(stem)
        });
        stem.unwrap_or(name)
    }
}
