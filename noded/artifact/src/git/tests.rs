//! Clones of local repositories.

use std::fs;
use std::path::Path;

use super::*;
use crate::request::{FetchLimits, Mode};

/// Local repositories, which jobs cannot name.
const LOCAL: &str = "file";

fn request() -> FetchRequest {
    FetchRequest {
        source: String::new(),
        options: std::collections::BTreeMap::new(),
        headers: std::collections::BTreeMap::new(),
        mode: Mode::Any,
        insecure: false,
        limits: FetchLimits::default(),
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .env_remove("GIT_DIR")
        .output()
        .expect("git");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

struct Scene {
    directory: tempfile::TempDir,
    first: String,
}

impl Scene {
    /// A repository with two commits: tag `v1` on the first, branch `other` beside the second.
    fn new() -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: needs git");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let origin = directory.path().join("origin");
        fs::create_dir(&origin).expect("made");
        git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        git(
            &origin,
            &["config", "uploadpack.allowAnySHA1InWant", "true"],
        );
        let commit = |text: &str| {
            fs::write(origin.join("file"), text).expect("written");
            git(&origin, &["add", "."]);
            git(&origin, &["commit", "--quiet", "-m", text]);
            git(&origin, &["rev-parse", "HEAD"])
        };
        let first = commit("one");
        git(&origin, &["tag", "v1"]);
        git(&origin, &["checkout", "--quiet", "-b", "other"]);
        commit("beside");
        git(&origin, &["checkout", "--quiet", "main"]);
        commit("two");
        Some(Self { directory, first })
    }

    fn url(&self) -> String {
        format!("file://{}", self.directory.path().join("origin").display())
    }

    fn staging(&self) -> Staging {
        let path = tempfile::tempdir_in(self.directory.path())
            .expect("made")
            .keep();
        let directory = fs::File::open(&path).expect("opened");
        Staging::new(directory.into(), path)
    }

    fn file_of(&self, reference: Option<&str>, depth: Option<u32>) -> Result<String, GitError> {
        let staging = self.staging();
        let url = self.url();
        let clone = Clone {
            url: &url,
            reference,
            depth,
            ssh_key: None,
        };
        clone_over(LOCAL, &clone, &request(), &staging)?;
        let tree = staging.path().join(CLONE);
        Ok(fs::read_to_string(tree.join("file")).expect("a file"))
    }
}

#[test]
fn reference_is_a_branch_a_tag_or_a_commit() {
    let Some(scene) = Scene::new() else { return };
    let first = scene.first.clone();
    for (reference, expected) in [
        (None, "two"),
        (Some("main"), "two"),
        (Some("other"), "beside"),
        (Some("v1"), "one"),
        (Some(first.as_str()), "one"),
    ] {
        for depth in [None, Some(1)] {
            let text = scene.file_of(reference, depth);
            let text = text.unwrap_or_else(|error| panic!("{reference:?} {depth:?}: {error}"));
            assert_eq!(text, expected, "{reference:?} {depth:?}");
        }
    }
    let error = scene
        .file_of(Some("nowhere"), None)
        .expect_err("no such branch");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn submodules_come_with_the_clone() {
    let Some(scene) = Scene::new() else { return };
    let outer = scene.directory.path().join("outer");
    fs::create_dir(&outer).expect("made");
    git(&outer, &["init", "--quiet"]);
    git(
        &outer,
        &["submodule", "--quiet", "add", &scene.url(), "inner"],
    );
    git(&outer, &["commit", "--quiet", "-m", "with a module"]);
    let staging = scene.staging();
    let url = format!("file://{}", outer.display());
    let clone = Clone {
        url: &url,
        reference: None,
        depth: None,
        ssh_key: None,
    };
    clone_over(LOCAL, &clone, &request(), &staging).expect("cloned");
    let file = staging.path().join(CLONE).join("inner/file");
    assert_eq!(fs::read_to_string(file).expect("a file"), "two");
}

#[test]
fn local_repository_is_refused_and_named() {
    let Some(scene) = Scene::new() else { return };
    let url = scene.url();
    let wanted = Clone {
        url: &url,
        reference: None,
        depth: None,
        ssh_key: None,
    };
    let error = clone(&wanted, &request(), &scene.staging()).expect_err("a local path");
    assert!(error.to_string().contains("'file' not allowed"), "{error}");
}

#[test]
fn key_is_written_for_ssh_and_removed() {
    let Some(scene) = Scene::new() else { return };
    let staging = scene.staging();
    let url = scene.url();
    let mut wanted = Clone {
        url: &url,
        reference: None,
        depth: None,
        ssh_key: Some("not base64!"),
    };
    let error = clone_over(LOCAL, &wanted, &request(), &staging).expect_err("no key");
    assert!(matches!(error, GitError::Key), "{error}");
    wanted.ssh_key = Some("a2V5\n");
    clone_over(LOCAL, &wanted, &request(), &staging).expect("cloned");
    assert!(!staging.path().join(KEY).exists());
}

#[test]
fn git_that_takes_too_long_is_killed() {
    let Some(scene) = Scene::new() else { return };
    let mut request = request();
    request.limits.git_timeout = Duration::ZERO;
    let url = scene.url();
    let wanted = Clone {
        url: &url,
        reference: None,
        depth: None,
        ssh_key: None,
    };
    let error = clone_over(LOCAL, &wanted, &request, &scene.staging()).expect_err("no time");
    assert!(matches!(error, GitError::Timeout { .. }), "{error}");
}
