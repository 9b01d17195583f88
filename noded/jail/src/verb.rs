//! The kinds of work, and the limits of each.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

const MIB: usize = 1024 * 1024;

/// A kind of work: the program's one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Renders one template.
    Render,
    /// Fetches one artifact.
    Fetch,
}

/// A request: what one child is started for.
pub trait Work: Serialize + DeserializeOwned {
    /// The argument of the child.
    const VERB: Verb;
    /// The result.
    type Answer: Serialize + DeserializeOwned;

    /// The environment of the child, for the programs that it starts. No credentials: other
    /// processes of the same user could read them.
    fn environment(&self) -> &[(String, String)] {
        &[]
    }
}

/// The limits of one child, set by the child itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbLimits {
    /// Bytes of private memory (`RLIMIT_DATA`). Not of the address space: git maps its packs in
    /// windows of 1 GiB.
    pub data_bytes: usize,
    /// Processor time (`RLIMIT_CPU`), whole seconds.
    pub processor_time: Duration,
    /// Bytes of one file (`RLIMIT_FSIZE`); `None` where the work has a limit of its own.
    pub file_bytes: Option<u64>,
    /// Descriptors.
    pub open_files: u64,
    /// Bytes of the request's frame.
    pub request_bytes: usize,
    /// Bytes of one answer's frame.
    pub answer_bytes: usize,
    /// Children of this verb side by side.
    pub at_once: usize,
    /// The programs that it starts.
    pub programs: Programs,
}

/// The programs that a child starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// None.
    None,
    /// Some. The child is the first process of a process id namespace: all others end with it,
    /// whichever session or group they are in.
    InOwnNamespace,
}

/// A word that is no verb.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown verb {0:?}: render, fetch")]
pub struct UnknownVerb(String);

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 2] = [Self::Render, Self::Fetch];

    /// The argument.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Fetch => "fetch",
        }
    }

    /// Its limits.
    #[must_use]
    pub const fn limits(self) -> VerbLimits {
        match self {
            // A template, its files of 4 MiB each and the environment; a result of 4 MiB.
            Self::Render => VerbLimits {
                data_bytes: 256 * MIB,
                processor_time: Duration::from_secs(4),
                file_bytes: Some(0),
                open_files: 16,
                request_bytes: 16 * MIB,
                answer_bytes: 8 * MIB,
                at_once: 4,
                programs: Programs::None,
            },
            // Decoders take up to 192 MiB; git more, where a repository has large files. The
            // caller's deadline ends it long before its processor time.
            Self::Fetch => VerbLimits {
                data_bytes: 512 * MIB,
                processor_time: Duration::from_secs(24 * 60 * 60),
                file_bytes: None,
                open_files: 256,
                request_bytes: MIB,
                answer_bytes: 64 * 1024,
                at_once: 4,
                programs: Programs::InOwnNamespace,
            },
        }
    }
}

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(word: &str) -> Result<Self, UnknownVerb> {
        let found = Self::ALL.into_iter().find(|verb| verb.name() == word);
        found.ok_or_else(|| UnknownVerb(word.to_owned()))
    }
}
