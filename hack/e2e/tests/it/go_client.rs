//! Nomad's own Go client, which does not know Drover, manages access control.
//!
//! The program is `clients/nomad-go`. Go fetches the client through its module proxy and builds it
//! when the test runs; its caches are those of the user, outside of the tree. The program itself
//! contacts 127.0.0.1 alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Settings};

/// The oldest minor release of Go 1 that fetches the release that a module needs.
const GO_MINOR_MIN: u32 = 21;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/nomad-go")
}

/// Go in the folder of the program.
fn go(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("go")
        .args(arguments)
        .current_dir(source())
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "auto")
        .output()
}

/// The minor release of `go version go1.26.8 linux/amd64`.
fn minor_release(version: &str) -> Option<u32> {
    let release = version.split_whitespace().nth(2)?;
    release
        .strip_prefix("go1.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}

/// Fetches the modules of the program; answers why not where this host cannot.
fn fetch() -> Option<String> {
    let version = match go(&["version"]) {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Some(format!("go does not start: {error}")),
    };
    if minor_release(&version).is_none_or(|minor| minor < GO_MINOR_MIN) {
        return Some(format!("Go 1.{GO_MINOR_MIN} or later, not {version:?}"));
    }
    match go(&["mod", "download"]) {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Builds the program into `folder`.
///
/// # Errors
/// With the compiler's output.
fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let program = folder.join("nomad-go");
    let path = program.to_str().context("a path in UTF-8")?;
    let output = go(&["build", "-o", path, "."])?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "go build: {error}");
    Ok(program)
}

/// The program, ready to run; `None`, and a line about it, where this host has no Go.
fn prepared(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    if let Some(why) = fetch() {
        eprintln!(
            "skipped: needs go and the modules of {}: {why}",
            source().display()
        );
        return Ok(None);
    }
    build(folder).map(Some)
}

#[tokio::test(flavor = "multi_thread")]
async fn go_client_of_nomad_manages_access_as_it_does_with_nomad() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_owned();
    let Some(program) = tokio::task::spawn_blocking(move || prepared(&path)).await?? else {
        return Ok(());
    };
    // The program bootstraps it.
    let mut settings = Settings::of(1);
    settings.server_lines = "acl { enabled = true }\n".to_owned();
    let cluster = Cluster::start(settings).await?;
    let port = cluster.ports(0).http.to_string();
    let run = move || Command::new(program).arg(port).env_clear().output();
    let output = tokio::task::spawn_blocking(run).await??;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}");
    Ok(())
}
