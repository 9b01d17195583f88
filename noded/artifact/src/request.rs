//! The request of one artifact, and its answer. Both cross a process.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::source::masked;

/// One artifact, with all references (`${...}`) replaced.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// The job's `source`.
    pub source: String,
    /// The job's `options`: added to the parameters of the source.
    pub options: BTreeMap<String, String>,
    /// HTTP headers. They go to the first host only, except `Accept` and `User-Agent`.
    pub headers: BTreeMap<String, String>,
    /// The job's `mode`.
    pub mode: Mode,
    /// Whether certificates are not checked.
    pub insecure: bool,
    /// Limits of the node.
    pub limits: FetchLimits,
}

/// Headers and options hold credentials: the names are printed, the values are not.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            options,
            headers,
            mode,
            insecure,
            limits,
        } = self;
        f.debug_struct("FetchRequest")
            .field("source", &masked(source))
            .field("options", &options.keys().collect::<Vec<_>>())
            .field("headers", &headers.keys().collect::<Vec<_>>())
            .field("mode", mode)
            .field("insecure", insecure)
            .field("limits", limits)
            .finish()
    }
}

/// Shape of the destination (a job's `mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// An archive is unpacked below the destination; a single file keeps its name below it.
    #[default]
    Any,
    /// The destination is the file.
    File,
    /// The destination is the directory.
    Dir,
}

impl Mode {
    /// The word of job files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::File => "file",
            Self::Dir => "dir",
        }
    }

    /// Reads a job's `mode`; `None` where it is another word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "" | "any" => Some(Self::Any),
            "file" => Some(Self::File),
            "dir" => Some(Self::Dir),
            _ => None,
        }
    }
}

/// Limits of one fetch. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchLimits {
    /// One HTTP download, from the request to its last byte.
    pub http_timeout: Duration,
    /// Size of one HTTP download.
    pub http_bytes_max: Option<u64>,
    /// All git commands of one artifact together.
    pub git_timeout: Duration,
    /// Size of everything that an archive unpacks to.
    pub unpacked_bytes_max: Option<u64>,
    /// Entries of an archive, directories and links included.
    pub unpacked_entries_max: Option<u64>,
}

/// Nomad's defaults.
impl Default for FetchLimits {
    fn default() -> Self {
        const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
        const HUNDRED_GB: u64 = 100_000_000_000;
        Self {
            http_timeout: HALF_AN_HOUR,
            http_bytes_max: Some(HUNDRED_GB),
            git_timeout: HALF_AN_HOUR,
            unpacked_bytes_max: Some(HUNDRED_GB),
            unpacked_entries_max: Some(4096),
        }
    }
}

/// How far a fetch has come; sent at most four times a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Bytes of a download.
    Downloading {
        /// So far.
        bytes: u64,
        /// In total, where the server says so.
        total: Option<u64>,
    },
    /// The archive is being unpacked.
    Unpacking {
        /// Bytes written so far.
        bytes: u64,
    },
    /// git is cloning.
    Cloning,
}

/// `12.0 MiB of 1.0 GiB (1 %)`
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Downloading { bytes, total } => {
                write!(f, "{}", Size(bytes))?;
                match total {
                    Some(total) if total > 0 => {
                        let percent = u128::from(bytes) * 100 / u128::from(total);
                        write!(f, " of {} ({percent} %)", Size(total))
                    }
                    _ => Ok(()),
                }
            }
            Self::Unpacking { bytes } => write!(f, "{} unpacked", Size(bytes)),
            Self::Cloning => f.write_str("cloning"),
        }
    }
}

/// Bytes with one decimal in the largest unit that they fill.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        let Self(bytes) = *self;
        let Some(power) = (1..=UNITS.len())
            .rev()
            .find(|power| bytes >> (10 * power) > 0)
        else {
            return write!(f, "{bytes} bytes");
        };
        let tenths = (u128::from(bytes) * 10) >> (10 * power);
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS[power - 1])
    }
}

/// The staged artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Kind of [`crate::ARTIFACT`] below the staging directory.
    pub shape: Shape,
    /// Bytes that were downloaded; 0 for git, which counts none.
    pub bytes: u64,
}

/// Whether the staged artifact becomes the destination, or is merged into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A directory, merged into the destination.
    Tree,
    /// A regular file, which becomes the destination.
    File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_short_line() {
        let downloading = |bytes, total| Progress::Downloading { bytes, total }.to_string();
        assert_eq!(downloading(0, Some(0)), "0 bytes");
        assert_eq!(downloading(1023, None), "1023 bytes");
        let half = downloading(1536 * 1024, Some(3 << 30));
        assert_eq!(half, "1.5 MiB of 3.0 GiB (0 %)");
        let all = downloading(u64::MAX, Some(u64::MAX));
        assert_eq!(all, "16777215.9 TiB of 16777215.9 TiB (100 %)");
        assert_eq!(
            Progress::Unpacking { bytes: 10 }.to_string(),
            "10 bytes unpacked"
        );
    }

    #[test]
    fn debug_form_of_a_request_has_no_credentials() {
        let secret = |name: &str| (name.to_owned(), "geheim".to_owned());
        let request = FetchRequest {
            source: "https://user:geheim@x.org/a".to_owned(),
            options: [secret("sshkey")].into(),
            headers: [secret("X-Token")].into(),
            mode: Mode::Any,
            insecure: false,
            limits: FetchLimits::default(),
        };
        let shown = format!("{request:?}");
        assert!(
            !shown.contains("geheim") && shown.contains("X-Token"),
            "{shown}"
        );
    }
}
