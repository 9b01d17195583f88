//! The verb `fetch`.

use std::fs::File;
use std::path::PathBuf;

use noded_artifact::{FetchRequest, Fetched, Staging};
use protocol_error_chain::chain;
use serde::{Deserialize, Serialize};

use crate::report::Progress;
use crate::verb::{Verb, Work};

/// An artifact to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The artifact, with its credentials.
    pub request: FetchRequest,
    /// The directory that it goes to: an empty one that nobody else enters.
    pub staging: PathBuf,
    /// The environment of the child: git needs `PATH`, `HOME` and `TMPDIR`.
    pub environment: Vec<(String, String)>,
}

/// An artifact that was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchFailure {
    /// The reason, for people, without credentials.
    pub message: String,
    /// Whether another attempt could succeed.
    pub is_recoverable: bool,
}

impl Work for Fetch {
    const VERB: Verb = Verb::Fetch;
    type Answer = Result<Fetched, FetchFailure>;

    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

/// Fetches.
///
/// # Errors
/// The staging directory cannot be opened. A failure of the fetch is an answer.
pub fn fetch(
    work: &Fetch,
    progress: &mut Progress,
) -> Result<Result<Fetched, FetchFailure>, String> {
    // git makes files by it, and tasks of other users read them. The directory itself is closed.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let path = &work.staging;
    let directory =
        File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let staging = Staging::new(directory.into(), path.clone());
    let mut on_progress = |line: noded_artifact::Progress| progress.send(&line.to_string());
    let fetched = noded_artifact::fetch(&work.request, &staging, &mut on_progress);
    Ok(fetched.map_err(|error| FetchFailure {
        message: chain(&error),
        is_recoverable: error.is_recoverable(),
    }))
}
