//! A job file read on the user's host, with the files and variables beside it.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use protocol_jobspec::{Directories, FileError, Inputs, SOURCE_BYTES_MAX, VariableFile, Variables};
use protocol_model::Job;

use crate::failure::Failure;
use crate::session::Session;

/// The largest file that `file()` reads.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// How many files `fileset()` looks at, and how deep.
const FILESET_ENTRIES_MAX: usize = 10_000;
const FILESET_DEPTH_MAX: usize = 32;

/// Where a job comes from, on every command that takes one.
#[derive(Args, Debug)]
pub(crate) struct JobFileFlags {
    /// The job file; - reads it from stdin
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The value of a variable; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    var: Vec<(String, String)>,
    /// A file with values of variables; may be repeated
    #[arg(long, value_name = "FILE")]
    var_file: Vec<PathBuf>,
    /// The file is JSON, as -output writes it
    #[arg(long)]
    json: bool,
    /// Accepted: a mistake in a job file is always an error
    #[arg(long, hide = true)]
    hcl2_strict: bool,
    /// Refused with a reason
    #[arg(long, hide = true)]
    hcl1: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

impl JobFileFlags {
    /// The path as the user wrote it.
    pub(crate) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Reads the job. Warnings about the file go to stderr.
    ///
    /// # Errors
    /// All mistakes of the file.
    pub(crate) fn read(&self, session: &Session) -> Result<Job, Failure> {
        if self.hcl1 {
            return Err(Failure::usage_hint(
                "job files in HCL1 are not read",
                "leave -hcl1 out: most files are HCL2 as they are, and what is not is told",
            ));
        }
        let (name, text, folder) = if self.path == Path::new("-") {
            let text = bounded(std::io::stdin().lock(), Path::new("stdin"))?;
            ("stdin".to_owned(), text, PathBuf::from("."))
        } else {
            let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
            let folder = match folder.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => folder.to_owned(),
            };
            (self.path.display().to_string(), read(&self.path)?, folder)
        };
        if self.json && !text.trim_start().starts_with('{') {
            return Err(Failure::usage_hint(
                format!("{name} is no JSON object"),
                "without -json it is read as HCL",
            ));
        }
        let variables = Variables {
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .filter(|(name, _)| {
                    name.starts_with("NOMAD_VAR_") || name.starts_with("DROVER_VAR_")
                })
                .collect(),
            files: self
                .var_file
                .iter()
                .map(|path| {
                    let name = path.display().to_string();
                    Ok(VariableFile {
                        name,
                        text: read(path)?,
                    })
                })
                .collect::<Result<_, Failure>>()?,
            arguments: self.var.clone(),
        };
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        let mut inputs = Beside {
            variables,
            folder,
            now: Timestamp::now(),
            seed,
        };
        let parsed =
            protocol_jobspec::parse(&name, &text, &mut inputs).map_err(Failure::JobFile)?;
        for warning in &parsed.warnings {
            session.out.note(&format!("warning: {warning}"));
        }
        Ok(parsed.job)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let file = std::fs::File::open(path).map_err(|source| Failure::ReadFile {
        path: path.to_owned(),
        source,
    })?;
    bounded(file, path)
}

/// The whole text, if it is no longer than a job file may be.
fn bounded(reader: impl std::io::Read, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let limit = u64::try_from(SOURCE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    reader
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|source| Failure::ReadFile {
            path: path.to_owned(),
            source,
        })?;
    if text.len() > SOURCE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{} is larger than {SOURCE_BYTES_MAX} bytes",
            path.display()
        )));
    }
    Ok(text)
}

/// The files below the job file's folder.
struct Beside {
    variables: Variables,
    folder: PathBuf,
    now: Timestamp,
    seed: u64,
}

impl Beside {
    /// The real path of `path`, which must not lead out of the folder, not even over a link.
    fn resolve(&self, path: &str) -> Result<PathBuf, FileError> {
        let refused = |reason: String| FileError::Refused(reason);
        let root = self
            .folder
            .canonicalize()
            .map_err(|error| refused(error.to_string()))?;
        // A folder that is not there has no real path: `..` is judged on the text too.
        let climbs = Path::new(path)
            .components()
            .any(|part| part == Component::ParentDir);
        let whole = match root.join(path).canonicalize() {
            Ok(whole) => whole,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !climbs => {
                return Err(FileError::NotFound);
            }
            Err(error) => return Err(refused(error.to_string())),
        };
        if whole.starts_with(&root) {
            return Ok(whole);
        }
        Err(refused(format!(
            "it lies outside of the job file's folder {}",
            root.display()
        )))
    }

    fn collect(
        root: &Path,
        at: &Path,
        depth: usize,
        found: &mut Vec<String>,
    ) -> Result<(), FileError> {
        let refused = |error: std::io::Error| FileError::Refused(error.to_string());
        for entry in std::fs::read_dir(at).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let kind = entry.file_type().map_err(refused)?;
            if found.len() >= FILESET_ENTRIES_MAX || depth >= FILESET_DEPTH_MAX {
                return Err(FileError::Refused(format!(
                    "the folder holds more than {FILESET_ENTRIES_MAX} files or {FILESET_DEPTH_MAX} levels"
                )));
            }
            if kind.is_dir() {
                Self::collect(root, &entry.path(), depth + 1, found)?;
            } else if kind.is_file() {
                let path = entry.path();
                let relative = path.strip_prefix(root).unwrap_or(&path);
                found.push(relative.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
}

impl Inputs for Beside {
    fn variables(&self) -> &Variables {
        &self.variables
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn file(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        let refused = |error: std::io::Error| FileError::Refused(error.to_string());
        let path = self.resolve(path)?;
        let file = std::fs::File::open(&path).map_err(refused)?;
        if !file.metadata().map_err(refused)?.is_file() {
            return Err(FileError::Refused("it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(refused)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(FileError::Refused(format!(
                "it is larger than {FILE_BYTES_MAX} bytes"
            )));
        }
        Ok(bytes)
    }

    fn matching_files(&mut self, directory: &str, pattern: &str) -> Result<Vec<String>, FileError> {
        let root = self.resolve(directory)?;
        let mut found = Vec::new();
        Self::collect(&root, &root, 0, &mut found)?;
        found.retain(|path| matches(pattern, path));
        Ok(found)
    }

    fn directories(&self) -> Option<Directories> {
        Some(Directories {
            working: std::env::current_dir().ok()?.to_str()?.to_owned(),
            home: std::env::var("HOME").unwrap_or_else(|_| "/".to_owned()),
        })
    }
}

/// Whether `path` matches a glob: `*` and `?` within a segment, `**` over segments, `[abc]`.
fn matches(pattern: &str, path: &str) -> bool {
    fn segments(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                segments(rest, path) || (!path.is_empty() && segments(pattern, &path[1..]))
            }
            (Some((first, rest)), Some((name, names))) => {
                let first: Vec<char> = first.chars().collect();
                let name: Vec<char> = name.chars().collect();
                segment(&first, &name) && segments(rest, names)
            }
            _ => false,
        }
    }
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    segments(&pattern, &path)
}

fn segment(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', rest)) => (0..=name.len()).any(|skip| segment(rest, &name[skip..])),
        Some(('?', rest)) => !name.is_empty() && segment(rest, &name[1..]),
        Some(('[', rest)) => {
            let Some(end) = rest.iter().position(|c| *c == ']') else {
                return name.first() == Some(&'[') && segment(rest, &name[1..]);
            };
            name.first().is_some_and(|c| rest[..end].contains(c))
                && segment(&rest[end + 1..], &name[1..])
        }
        Some((c, rest)) => name.first() == Some(c) && segment(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(folder: &Path) -> Beside {
        Beside {
            variables: Variables::default(),
            folder: folder.to_owned(),
            now: Timestamp::UNIX_EPOCH,
            seed: 0,
        }
    }

    #[test]
    fn files_are_read_below_the_folder_only() -> std::io::Result<()> {
        let outside = tempfile::tempdir()?;
        std::fs::write(outside.path().join("secret"), "s")?;
        let folder = outside.path().join("jobs");
        std::fs::create_dir_all(folder.join("conf"))?;
        std::fs::write(folder.join("conf/a.txt"), "a")?;
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.join("link"))?;
        let mut inputs = beside(&folder);
        assert_eq!(inputs.file("conf/a.txt"), Ok(b"a".to_vec()));
        assert_eq!(inputs.file("conf/none"), Err(FileError::NotFound));
        for path in ["../secret", "link", "/etc/hostname", "conf"] {
            let refused = inputs.file(path);
            assert!(
                matches!(refused, Err(FileError::Refused(_))),
                "{path}: {refused:?}"
            );
        }
        assert_eq!(
            inputs.matching_files(".", "conf/*.txt"),
            Ok(vec!["conf/a.txt".to_owned()])
        );
        Ok(())
    }

    #[test]
    fn globs_match_by_segment() {
        for (pattern, path, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "b/a.txt", false),
            ("**/*.txt", "b/c/a.txt", true),
            ("**/*.txt", "a.txt", true),
            ("?.t[xy]t", "a.tyt", true),
            ("?.t[xy]t", "a.tzt", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
