//! One build for everything that a test run starts.
//!
//! Programs, tests and examples are built by one command: development dependencies switch on
//! features of shared crates, so two commands would compile these crates and all of ours twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use serde::Deserialize;

use crate::metadata::Metadata;
use crate::stage::cargo;

/// One test executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    pub(super) crate_name: String,
    /// `it`, or the crate's own name for the tests beside the code.
    pub(super) target: String,
    pub(super) program: PathBuf,
    /// Where cargo would run it: the folder of the crate.
    pub(super) folder: PathBuf,
    pub(super) version: String,
}

impl Executable {
    /// `crate` or `crate/it`.
    pub(super) fn label(&self) -> String {
        if self.target.replace('_', "-") == self.crate_name {
            self.crate_name.clone()
        } else {
            format!("{}/{}", self.crate_name, self.target)
        }
    }
}

/// One of cargo's JSON messages, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

/// Builds programs, tests and examples; the answer lists the test executables.
///
/// # Errors
/// If something does not compile, or cargo answers in an unknown shape.
pub(super) fn build(root: &Path) -> anyhow::Result<Vec<Executable>> {
    let metadata = Metadata::read(root)?;
    let output = cargo(root)
        .args(["build", "--workspace", "--locked"])
        .args(["--bins", "--tests", "--examples"])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo build")?;
    anyhow::ensure!(
        output.status.success(),
        "the programs or tests do not compile"
    );
    let members: BTreeMap<&str, (&str, String)> = metadata
        .members()
        .map(|it| (it.id.as_str(), (it.name.as_str(), it.version.to_string())))
        .collect();
    executables(&String::from_utf8(output.stdout)?, &members)
}

/// `members` maps the id of a package to its name and version.
fn executables(
    messages: &str,
    members: &BTreeMap<&str, (&str, String)>,
) -> anyhow::Result<Vec<Executable>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("read a message of cargo")?;
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|it| it.test) {
            continue;
        }
        let (Some(id), Some(program), Some(manifest), Some(target)) = (
            message.package_id,
            message.executable,
            message.manifest_path,
            message.target,
        ) else {
            continue;
        };
        let Some((name, version)) = members.get(id.as_str()) else {
            continue;
        };
        found.push(Executable {
            crate_name: (*name).to_owned(),
            target: target.name,
            program,
            folder: manifest
                .parent()
                .unwrap_or_else(|| Path::new("/"))
                .to_owned(),
            version: version.clone(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","package_id":"a","manifest_path":"/x/a/Cargo.toml","target":{"name":"it"},"profile":{"test":true},"executable":"/t/it-1"}
{"reason":"compiler-artifact","package_id":"a","manifest_path":"/x/a/Cargo.toml","target":{"name":"prog"},"profile":{"test":false},"executable":"/t/prog"}
{"reason":"compiler-artifact","package_id":"other","manifest_path":"/y/Cargo.toml","target":{"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn test_executables_of_members_are_found_with_their_folder() {
        let members = BTreeMap::from([("a", ("crate-a", "1.2.3".to_owned()))]);
        let found = executables(MESSAGES, &members).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].label(), "crate-a/it");
        assert_eq!(found[0].folder, Path::new("/x/a"));
    }

    #[test]
    fn a_line_that_is_no_message_is_an_error() {
        executables("Compiling\n", &BTreeMap::new()).unwrap_err();
    }
}
