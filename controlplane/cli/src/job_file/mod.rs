//! A job file read on the user's host, with the files and variables beside it.

mod beside;
mod glob;
mod told;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use protocol_jobspec::{SOURCE_BYTES_MAX, VariableFile, Variables, decode_text};
use protocol_model::{Job, JobSubmission};

use self::beside::Beside;
use crate::failure::Failure;
use crate::session::Session;

/// A job and the text that says it.
pub(crate) struct JobFile {
    /// As the file says it: neither canonical nor checked.
    pub(crate) job: Job,
    /// The text, and the values that were given for its variables.
    pub(crate) submission: JobSubmission,
    name: String,
}

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
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    hcl2_strict: Option<bool>,
    /// Refused with a reason
    #[arg(long, hide = true)]
    hcl1: bool,
    /// The job's Consul namespace, in place of the file's
    #[arg(long, hide = true, value_name = "NAME")]
    consul_namespace: Option<String>,
    /// The job's Vault namespace, in place of the file's
    #[arg(long, hide = true, value_name = "NAME")]
    vault_namespace: Option<String>,
    /// Accepted, and dropped with a warning, as in job files
    #[arg(long, hide = true, value_name = "TOKEN")]
    consul_token: Option<String>,
    /// Accepted, and dropped with a warning, as in job files
    #[arg(long, hide = true, value_name = "TOKEN")]
    vault_token: Option<String>,
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
    pub(crate) fn read(&self, session: &Session) -> Result<JobFile, Failure> {
        if self.hcl1 {
            return Err(Failure::usage_hint(
                "job files in HCL1 are not read",
                "leave -hcl1 out: most files are HCL2 as they are, and what is not is told",
            ));
        }
        if self.hcl2_strict == Some(false) {
            let note = "warning: -hcl2-strict=false changes nothing: a variable that the job file \
                        does not declare is an error";
            session.out.note(note);
        }
        let (name, text, folder) = self.text()?;
        let marked = text.trim_start_matches('\u{feff}').trim_start();
        if self.json && !marked.starts_with('{') {
            return Err(Failure::usage_hint(
                format!("{name} is no JSON object"),
                "without -json it is read as HCL",
            ));
        }
        let variables = self.variables()?;
        let submission = self.submission(&text, &variables);
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
        let mut job = parsed.job;
        self.integrations(session, &mut job);
        Ok(JobFile {
            job,
            submission,
            name,
        })
    }

    /// What scripts say of Consul and Vault beside the file. The server warns of the namespaces.
    fn integrations(&self, session: &Session, job: &mut Job) {
        for (flag, token) in [("consul", &self.consul_token), ("vault", &self.vault_token)] {
            if token.is_some() {
                let note =
                    format!("warning: -{flag}-token is dropped: this release has no use for it");
                session.out.note(&note);
            }
        }
        if let Some(namespace) = &self.consul_namespace {
            job.consul_namespace.clone_from(namespace);
        }
        if let Some(namespace) = &self.vault_namespace {
            job.vault_namespace.clone_from(namespace);
        }
    }

    /// What is kept of it beside the job. Values from the environment are not: they are the host's.
    fn submission(&self, text: &str, variables: &Variables) -> JobSubmission {
        let texts: Vec<&str> = variables
            .files
            .iter()
            .map(|file| file.text.as_str())
            .collect();
        let is_json = text
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with('{');
        JobSubmission {
            source: text.to_owned(),
            format: if is_json { "json" } else { "hcl2" }.to_owned(),
            variable_flags: self.var.iter().cloned().collect(),
            variables: texts.join("\n"),
        }
    }

    /// What messages call the file, its text, and the folder that `file()` reads in.
    fn text(&self) -> Result<(String, String, PathBuf), Failure> {
        let (name, text) = file_or_stdin(&self.path)?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok((name, text, folder))
    }

    /// What is given for the file's variables, from everywhere.
    fn variables(&self) -> Result<Variables, Failure> {
        let is_ours =
            |name: &str| name.starts_with("NOMAD_VAR_") || name.starts_with("DROVER_VAR_");
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| is_ours(name))
            .map(|(name, value)| match value.into_string() {
                Ok(value) => Ok((name, value)),
                Err(_) => Err(Failure::usage(format!(
                    "{name} holds bytes that are no UTF-8"
                ))),
            });
        let files = self.var_file.iter().map(|path| {
            let (name, text) = (path.display().to_string(), read(path)?);
            Ok(VariableFile { name, text })
        });
        Ok(Variables {
            environment: environment.collect::<Result<_, Failure>>()?,
            files: files.collect::<Result<_, Failure>>()?,
            arguments: self.var.clone(),
        })
    }
}

/// The name of a specification for messages, and its text. `-` is stdin.
///
/// # Errors
/// Where it cannot be read, or is longer than a job file may be.
pub(crate) fn file_or_stdin(path: &Path) -> Result<(String, String), Failure> {
    if path == Path::new("-") {
        let text = bounded(std::io::stdin().lock(), Path::new("stdin"))?;
        return Ok(("stdin".to_owned(), text));
    }
    Ok((path.display().to_string(), read(path)?))
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
    let mut bytes = Vec::new();
    let limit = u64::try_from(SOURCE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    reader
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|source| Failure::ReadFile {
            path: path.to_owned(),
            source,
        })?;
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{} is larger than {SOURCE_BYTES_MAX} bytes",
            path.display()
        )));
    }
    decode_text(&path.display().to_string(), bytes).map_err(Failure::JobFile)
}
