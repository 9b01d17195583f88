//! Repositories, cloned by the host's git.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::place;
use crate::request::FetchRequest;
use crate::source::masked;
use crate::staging::{Staging, StagingError};

/// Transports that git may use, for submodules too. No local paths, and no `ext::` commands.
const PROTOCOLS: &str = "http:https:ssh:git";
/// How often an ended git is looked for.
const POLL: Duration = Duration::from_millis(20);
/// As much of git's complaints as a message shows.
const COMPLAINT_BYTES_MAX: u64 = 2048;
/// Names below the staging directory.
const KEY: &str = "ssh-key";
const COMPLAINTS: &str = "git-errors";
/// The clone, below the staging directory.
pub(crate) const CLONE: &str = "tree";

/// The list of submodules in the clone.
const MODULES: &str = "tree/.gitmodules";

/// Why git did not clone.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git is not there, or cannot be started.
    #[error("starting git; is it installed on the node?")]
    Start(#[source] io::Error),
    /// git failed.
    #[error("git {command}: {complaint}")]
    Failed {
        /// Its subcommand.
        command: &'static str,
        /// Its last words, without secrets.
        complaint: String,
    },
    /// git took too long.
    #[error("git {command}: not done after {} s (artifact {{ git_timeout }} of the node)", .limit.as_secs())]
    Timeout {
        /// Its subcommand.
        command: &'static str,
        /// The node's limit.
        limit: Duration,
    },
    /// The key is not base64.
    #[error("sshkey is not the base64 of a key file")]
    Key,
    /// The staging directory cannot be written.
    #[error(transparent)]
    Staging(#[from] StagingError),
}

/// A clone to be made.
#[derive(Debug)]
pub(crate) struct Clone<'a> {
    pub(crate) url: &'a str,
    pub(crate) reference: Option<&'a str>,
    pub(crate) depth: Option<u32>,
    pub(crate) ssh_key: Option<&'a str>,
}

/// Clones into [`CLONE`] below the staging directory, submodules included.
pub(crate) fn clone(
    clone: &Clone<'_>,
    request: &FetchRequest,
    staging: &Staging,
) -> Result<(), GitError> {
    clone_over(PROTOCOLS, clone, request, staging)
}

fn clone_over(
    protocols: &str,
    clone: &Clone<'_>,
    request: &FetchRequest,
    staging: &Staging,
) -> Result<(), GitError> {
    if let Some(key) = clone.ssh_key {
        let key: String = key.split_whitespace().collect();
        let key = STANDARD.decode(key).map_err(|_| GitError::Key)?;
        staging.write(KEY, &key)?;
    }
    let git = Git {
        clone,
        request,
        staging,
        protocols,
        deadline: Instant::now() + request.limits.git_timeout,
    };
    let done = git.clone_and_check_out();
    if clone.ssh_key.is_some() {
        staging.remove(KEY)?;
    }
    done
}

struct Git<'a> {
    clone: &'a Clone<'a>,
    request: &'a FetchRequest,
    staging: &'a Staging,
    protocols: &'a str,
    deadline: Instant,
}

impl Git<'_> {
    fn clone_and_check_out(&self) -> Result<(), GitError> {
        let url = self.clone.url;
        let depth = self.clone.depth.map(|depth| format!("--depth={depth}"));
        let depth = depth.as_deref();
        let shallow = depth.into_iter();
        match (self.clone.reference, depth) {
            (Some(reference), Some(depth)) if is_commit(reference) => {
                self.run("init", ["--quiet", "--template=", "--", CLONE])?;
                let fetch = ["--quiet", depth, "--", url, reference];
                self.run_inside("fetch", fetch)?;
                self.run_inside("checkout", ["--quiet", "FETCH_HEAD", "--"])?;
            }
            (Some(reference), Some(depth)) => {
                let branch = format!("--branch={reference}");
                let begin = ["--quiet", "--template=", depth, branch.as_str()];
                self.run("clone", begin.into_iter().chain(["--", url, CLONE]))?;
            }
            (Some(reference), None) => {
                let begin = ["--quiet", "--template=", "--no-checkout"];
                self.run("clone", begin.into_iter().chain(["--", url, CLONE]))?;
                self.run_inside("checkout", ["--quiet", reference, "--"])?;
            }
            (None, _) => {
                let begin = ["--quiet", "--template="]
                    .into_iter()
                    .chain(shallow.clone());
                self.run("clone", begin.chain(["--", url, CLONE]))?;
            }
        }
        // git's command for submodules is a shell script: it runs where there are any.
        let modules = place::about(self.staging.directory(), OsStr::new(MODULES));
        if modules
            .map_err(StagingError::of("examining", MODULES))?
            .is_none()
        {
            return Ok(());
        }
        let begin = ["update", "--init", "--recursive", "--quiet"];
        self.run_inside("submodule", begin.into_iter().chain(shallow))
    }

    fn run<'b>(
        &self,
        name: &'static str,
        arguments: impl IntoIterator<Item = &'b str>,
    ) -> Result<(), GitError> {
        let mut command = self.command();
        command.arg(name).args(arguments);
        self.wait(name, command)
    }

    fn run_inside<'b>(
        &self,
        name: &'static str,
        arguments: impl IntoIterator<Item = &'b str>,
    ) -> Result<(), GitError> {
        let mut command = self.command();
        command.args(["-C", CLONE, name]).args(arguments);
        self.wait(name, command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(self.staging.path())
            .args(["-c", "advice.detachedHead=false"])
            .args(["-c", "core.hooksPath=/dev/null"])
            // A redirect may lead to the node itself, and git judges no addresses.
            .args(["-c", "http.followRedirects=false"])
            .env("GIT_ALLOW_PROTOCOL", self.protocols)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "false")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("LC_ALL", "C")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env("GIT_SSH_COMMAND", self.ssh())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if self.request.insecure {
            command.env("GIT_SSL_NO_VERIFY", "true");
        }
        command
    }

    /// The ssh command. A key of the job comes with no list of known hosts, so that none is asked.
    fn ssh(&self) -> String {
        if self.clone.ssh_key.is_none() {
            return "ssh -o BatchMode=yes".to_owned();
        }
        let key = self.staging.path().join(KEY);
        let key = key.to_string_lossy().replace('\'', r"'\''");
        format!(
            "ssh -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -i '{key}'"
        )
    }

    fn wait(&self, name: &'static str, mut command: Command) -> Result<(), GitError> {
        let mut complaints = self.staging.create(COMPLAINTS)?;
        let shared = complaints.try_clone().map_err(GitError::Start)?;
        let mut child = command.stderr(shared).spawn().map_err(GitError::Start)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(GitError::Start)? {
                break status;
            }
            if Instant::now() >= self.deadline {
                // Its helpers are in the group of this process, which ends soon. It may have ended
                // by itself in this moment.
                let _ = child.kill();
                let _ = child.wait();
                let limit = self.request.limits.git_timeout;
                return Err(GitError::Timeout {
                    command: name,
                    limit,
                });
            }
            thread::sleep(POLL);
        };
        if status.success() {
            return Ok(());
        }
        let complaint = match last_words(&mut complaints) {
            Ok(words) if !words.is_empty() => self.without_secrets(&words),
            _ => status.to_string(),
        };
        Err(GitError::Failed {
            command: name,
            complaint,
        })
    }

    /// git repeats its URL, and credentials with it.
    fn without_secrets(&self, words: &str) -> String {
        let url = self.clone.url;
        let password = url
            .split_once("://")
            .and_then(|(_, rest)| rest.split('/').next())
            .and_then(|authority| authority.rsplit_once('@'))
            .and_then(|(userinfo, _)| userinfo.split_once(':'));
        let words = words.replace(url, &masked(url));
        match password {
            Some((_, password)) if !password.is_empty() => words.replace(password, "xxxxx"),
            _ => words,
        }
    }
}

/// Whether a reference is the whole name of a commit.
fn is_commit(reference: &str) -> bool {
    matches!(reference.len(), 40 | 64) && reference.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The end of a file, in one line.
fn last_words(complaints: &mut File) -> io::Result<String> {
    let length = complaints.metadata()?.len();
    let begin = length.saturating_sub(COMPLAINT_BYTES_MAX);
    complaints.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    complaints
        .take(COMPLAINT_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    let words = String::from_utf8_lossy(&bytes);
    let lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
