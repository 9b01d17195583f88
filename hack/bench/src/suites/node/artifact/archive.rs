//! A tar.gz of files that are half random bytes and half text, about what programs compress to.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

const MIB: u64 = 1024 * 1024;
/// Bytes of one file.
const FILE_BYTES: u64 = 4 * MIB;
/// Bytes of random, and as many of text after them.
const CHUNK_BYTES: usize = 2048;
/// Files for each MiB of the archive, times [`FILE_BYTES`]: somewhat more than twice its size.
const CONTENT_PER_MIB: u64 = 2 * MIB;
const LINE: &[u8] = b"a line of text that compresses well, as those of real programs do\n";

/// The archive and what it must become.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    files: u64,
}

impl Archive {
    /// Makes an archive of about `mib` MiB in `folder`.
    ///
    /// # Errors
    /// The disk is full, or a tool is missing.
    pub(super) fn make(folder: &Path, mib: u64) -> anyhow::Result<Self> {
        let source = folder.join("source");
        std::fs::create_dir(&source)?;
        let files = (mib * CONTENT_PER_MIB).div_ceil(FILE_BYTES);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for number in 0..files {
            write_file(&source.join(format!("file-{number}")), &mut random)?;
        }
        let path = folder.join("archive.tar.gz");
        let mut tar = Command::new("tar");
        tar.args(["-I", "gzip -1", "-cf"])
            .arg(&path)
            .arg("-C")
            .arg(&source)
            .arg(".");
        let status = tar.status().context("run tar")?;
        ensure!(status.success(), "tar failed: {status}");
        std::fs::remove_dir_all(&source)?;
        let output = Command::new("sha256sum")
            .arg(&path)
            .output()
            .context("run sha256sum")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let sum = text
            .split_whitespace()
            .next()
            .context("sha256sum wrote nothing")?;
        Ok(Self {
            bytes: path.metadata()?.len(),
            sha256: sum.to_owned(),
            path,
            files,
        })
    }

    /// Whether a folder holds all of the files, whole.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn must_be_at(&self, folder: &Path) -> anyhow::Result<()> {
        for number in 0..self.files {
            let path = folder.join(format!("file-{number}"));
            let about = path
                .metadata()
                .with_context(|| format!("look at {}", path.display()))?;
            ensure!(
                about.len() == FILE_BYTES,
                "{} has {} bytes",
                path.display(),
                about.len()
            );
        }
        Ok(())
    }
}

fn write_file(path: &Path, random: &mut Random) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let text: Vec<u8> = LINE.iter().copied().cycle().take(CHUNK_BYTES).collect();
    let mut written = 0;
    while written < FILE_BYTES {
        for _ in 0..CHUNK_BYTES / 8 {
            file.write_all(&random.next().to_le_bytes())?;
        }
        file.write_all(&text)?;
        written += 2 * CHUNK_BYTES as u64;
    }
    Ok(file.flush()?)
}

/// The xorshift generator of Marsaglia: the same archive in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_about_the_size_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(folder.path(), 4).unwrap();
        let mib = archive.bytes as f64 / MIB as f64;
        assert!((4.0..5.0).contains(&mib), "{mib}");
        assert_eq!(archive.sha256.len(), 64);
        archive.must_be_at(folder.path()).unwrap_err();
    }
}
