//! python-nomad, a client of Nomad that does not know Drover, steers jobs and nodes, manages access
//! control and writes variables.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings};

use crate::running::has_root;

/// The client's release, as pip names it.
const PACKAGE: &str = "python-nomad==2.1.0";
/// A library that signs login tokens.
pub(crate) const SIGNER: &str = "PyJWT[crypto]==2.15.1";
/// The secret of the first management token.
const MANAGER: &str = "11111111-2222-3333-4444-555555555555";

/// Installs the packages into `folder`; answers why not where this host cannot.
pub(crate) fn install(folder: &Path, packages: &[&str]) -> anyhow::Result<Option<String>> {
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .arg("--target")
        .arg(folder)
        .args(packages)
        .output();
    let output = match pip {
        Ok(output) => output,
        Err(error) => return Ok(Some(format!("python3 does not start: {error}"))),
    };
    if output.status.success() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Runs a script of `clients/`; its arguments begin with the server's port.
///
/// # Errors
/// With the script's output, if it fails.
pub(crate) async fn run(folder: &Path, script: &str, arguments: Vec<String>) -> anyhow::Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(script);
    let folder = folder.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        Command::new("python3")
            .arg(script)
            .args(arguments)
            .env("PYTHONPATH", folder)
            .env_remove("NOMAD_ADDR")
            .env_remove("NOMAD_TOKEN")
            .output()
    })
    .await?
    .context("python3 starts")?;
    let (said, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "{said}{failed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn python_nomad_promotes_reverts_scales_drains_and_dispatches() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    if let Some(why) = install(folder.path(), &[PACKAGE])? {
        eprintln!("skipped: needs {PACKAGE}: {why}");
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let nodes = Node::start_many(&cluster, 2).await?;
    let port = cluster.ports(0).http.to_string();
    run(folder.path(), "python_nomad.py", vec![port]).await?;
    drop(nodes);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn python_nomad_manages_access_and_a_signed_token_logs_in() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if let Some(why) = install(folder.path(), &[PACKAGE, SIGNER])? {
        eprintln!("skipped: needs {PACKAGE} and {SIGNER}: {why}");
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1).with_access_control(MANAGER)).await?;
    let port = cluster.ports(0).http.to_string();
    let arguments = vec![port, MANAGER.to_owned()];
    run(folder.path(), "python_nomad_acl.py", arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn python_nomad_writes_reads_lists_locks_and_deletes_variables() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if let Some(why) = install(folder.path(), &[PACKAGE])? {
        eprintln!("skipped: needs {PACKAGE}: {why}");
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1).with_access_control(MANAGER)).await?;
    let port = cluster.ports(0).http.to_string();
    let arguments = vec![port, MANAGER.to_owned()];
    run(folder.path(), "python_nomad_variables.py", arguments).await
}
