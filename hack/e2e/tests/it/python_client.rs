//! python-nomad, a client of Nomad that does not know Drover, steers jobs and nodes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings};

use crate::running::has_root;

/// The client's release, as pip names it.
const PACKAGE: &str = "python-nomad==2.1.0";

/// Installs the client into `folder`; answers why not where this host cannot.
fn install(folder: &Path) -> anyhow::Result<Option<String>> {
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .arg("--target")
        .arg(folder)
        .arg(PACKAGE)
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

#[tokio::test(flavor = "multi_thread")]
async fn python_nomad_promotes_reverts_scales_drains_and_dispatches() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    if let Some(why) = install(folder.path())? {
        eprintln!("skipped: needs {PACKAGE}: {why}");
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let nodes = Node::start_many(&cluster, 2).await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python_nomad.py");
    let port = cluster.ports(0).http.to_string();
    let output = tokio::task::spawn_blocking({
        let path = folder.path().to_owned();
        move || {
            Command::new("python3")
                .arg(script)
                .arg(port)
                .env("PYTHONPATH", path)
                .env_remove("NOMAD_ADDR")
                .env_remove("NOMAD_TOKEN")
                .output()
        }
    })
    .await?
    .context("python3 starts")?;
    let (said, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "{said}{failed}");
    drop(nodes);
    Ok(())
}
