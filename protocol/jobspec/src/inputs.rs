//! What a job file may read besides its own text. The caller supplies all of it, so that parsing
//! stays a function: the same text and the same inputs give the same job, on any machine.

use jiff::Timestamp;
use std::fmt;

/// The world as a job file sees it.
pub trait Inputs {
    /// Values given for the file's `variable` blocks.
    fn variables(&self) -> &Variables;

    /// The time that `timestamp()` returns.
    fn now(&self) -> Timestamp;

    /// Where `uuidv4()` starts; two parses with one seed give the same identifiers.
    fn seed(&self) -> u64;

    /// The bytes of a file for `file()` and its kin. The implementation resolves `path` beneath
    /// its root, refuses to leave it, and caps the size.
    fn file(&mut self, path: &str) -> Result<Vec<u8>, FileError>;

    /// The paths below `directory` that match the glob `pattern`, relative to `directory`, in
    /// any order, for `fileset()`.
    fn matching_files(&mut self, directory: &str, pattern: &str) -> Result<Vec<String>, FileError>;

    /// What `abspath()` prepends to a relative path, and what stands for `~` in `pathexpand()`;
    /// `None` where there are no files.
    fn directories(&self) -> Option<Directories> {
        None
    }
}

/// Absolute places for the functions that compute paths without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// Directory that relative paths start from.
    pub working: String,
    /// The user's home.
    pub home: String,
}

/// Why a file could not be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileError {
    /// This caller reads no files at all, as servers do not.
    Disabled,
    /// There is no such file.
    NotFound,
    /// It exists, but: the reason.
    Refused(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("files cannot be read here"),
            Self::NotFound => f.write_str("no such file"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

/// Variable values in the order of their precedence, weakest first: environment, files in the
/// order given, arguments in the order given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// Pairs of the environment; only names that begin with `NOMAD_VAR_` or `DROVER_VAR_` count,
    /// and `DROVER_VAR_` wins. Names without a `variable` block are ignored.
    pub environment: Vec<(String, String)>,
    /// Texts of variable files (`-var-file`).
    pub files: Vec<VariableFile>,
    /// `name=value` arguments (`-var`).
    pub arguments: Vec<(String, String)>,
}

/// One variable file: HCL attributes, or a JSON object when its text begins with `{`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableFile {
    /// What messages call it.
    pub name: String,
    /// Its whole text.
    pub text: String,
}

/// Inputs without files: what servers use for `/v1/jobs/parse`, and most tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFiles {
    /// See [`Inputs::variables`].
    pub variables: Variables,
    /// See [`Inputs::now`].
    pub now: Timestamp,
    /// See [`Inputs::seed`].
    pub seed: u64,
}

impl Inputs for NoFiles {
    fn variables(&self) -> &Variables {
        &self.variables
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn file(&mut self, _path: &str) -> Result<Vec<u8>, FileError> {
        Err(FileError::Disabled)
    }

    fn matching_files(
        &mut self,
        _directory: &str,
        _pattern: &str,
    ) -> Result<Vec<String>, FileError> {
        Err(FileError::Disabled)
    }
}
