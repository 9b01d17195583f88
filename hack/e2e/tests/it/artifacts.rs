//! Artifacts on a real node: fetched once, refused with their reason, given up at once.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::pages::Pages;
use crate::running::{PATIENCE, Running, has_root, script};

const NEVER: fn() -> Value = || json!({ "Attempts": 0, "Mode": "fail" });
const SLEEPS: &str = "cat local/app/greeting local/note local/plain.txt; exec sleep 600";

/// Files by their path, on loopback.
fn serve(files: BTreeMap<String, Vec<u8>>) -> anyhow::Result<Pages> {
    Pages::serve(TcpListener::bind("127.0.0.1:0")?, files)
}

fn run(program: &str, directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    let identity = [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
    ];
    command
        .current_dir(directory)
        .args(arguments)
        .envs(identity)
        .env_remove("GIT_DIR");
    let output = command.output().with_context(|| program.to_owned())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// An archive with a file `greeting`, and one whose file is called `../x`.
fn archives(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    std::fs::write(folder.join("greeting"), "hello ")?;
    run("tar", folder, &["-czf", "app.tar.gz", "greeting"])?;
    let renamed = ["-cPf", "evil.tar", "--transform", "s,^,../,", "greeting"];
    run("tar", folder, &renamed)?;
    let mut files = BTreeMap::from([("plain.txt".to_owned(), b"plain".to_vec())]);
    for name in ["app.tar.gz", "evil.tar"] {
        files.insert(name.to_owned(), std::fs::read(folder.join(name))?);
    }
    Ok(files)
}

/// A repository as plain files, which git reads over HTTP without a program at the other end.
fn repository(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    std::fs::create_dir(folder.join("work"))?;
    let work = folder.join("work");
    run("git", &work, &["init", "--quiet"])?;
    for (text, tag) in [("one", "v1"), ("two", "v2")] {
        std::fs::write(work.join("version"), text)?;
        run("git", &work, &["add", "."])?;
        run("git", &work, &["commit", "--quiet", "-m", text])?;
        run("git", &work, &["tag", tag])?;
    }
    run(
        "git",
        folder,
        &["clone", "--quiet", "--bare", "work", "repo.git"],
    )?;
    let bare = folder.join("repo.git");
    run("git", &bare, &["update-server-info"])?;
    let list = run("find", folder, &["repo.git", "-type", "f"])?;
    let read = |path: &str| Ok((path.to_owned(), std::fs::read(folder.join(path))?));
    list.lines().map(read).collect()
}

fn with_artifacts(id: &str, text: &str, artifacts: Value) -> Value {
    let mut job = script(id, "batch", text, &NEVER());
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Artifacts"] = artifacts;
    job
}

/// The task's events of a kind, as people see them.
fn events(alloc: &Value, kind: &str) -> Vec<String> {
    let all = alloc["TaskStates"]["task"]["Events"].as_array();
    let all = all.into_iter().flatten();
    all.filter(|event| event["Type"] == kind)
        .map(|event| {
            event["DisplayMessage"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_are_fetched_once_for_all_runs_of_a_task() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let files = archives(folder.path())?;
    let sum = run("sha256sum", folder.path(), &["app.tar.gz"])?;
    let sum = sum.split(' ').next().context("a sum")?.to_owned();
    let server = serve(files)?;
    let cluster = Cluster::start(Settings::of(1)).await?;
    let mut node = Node::start(&cluster).await?;
    let artifacts = json!([
        {
            "GetterSource": server.url("app.tar.gz"),
            "GetterOptions": { "checksum": format!("sha256:{sum}") },
            "RelativeDest": "local/app",
        },
        {
            "GetterSource": server.url("plain.txt"),
            "GetterMode": "file",
            "RelativeDest": "${NOMAD_TASK_DIR}/note",
        },
        { "GetterSource": server.url("plain.txt?x=${NOMAD_JOB_NAME}") },
    ]);
    let job = with_artifacts("once", SLEEPS, artifacts);
    let job = Running::start(&cluster, &job).await?;
    job.until("running").await?;
    // A living allocation is replicated without its events: the server asks the node for them.
    eventually("the line of the downloads", PATIENCE, async || {
        let lines = events(&job.read().await?, "Downloading Artifacts");
        ensure!(lines.len() == 1, "one line that is replaced: {lines:?}");
        Ok(Some(()))
    })
    .await?;
    job.must_print("stdout", "hello plainplain").await?;
    ensure!(server.requests() == 3, "{} requests", server.requests());

    let path = format!("/v1/client/allocation/{}/restart", job.alloc);
    let client = cluster.client(0)?;
    client
        .put::<_, Value>(&path, &Query::new(), &json!({}))
        .await?;
    job.must_print("stdout", "hello plainplainhello plainplain")
        .await?;
    node.kill()?;
    node.start_again_in(&cluster)?;
    node.wait_ready(&cluster).await?;
    // The session of the killed noded may be taken for alive.
    eventually("another restart", PATIENCE, async || {
        client
            .put::<_, Value>(&path, &Query::new(), &json!({}))
            .await?;
        Ok(Some(()))
    })
    .await?;
    job.must_print("stdout", &"hello plainplain".repeat(3))
        .await?;
    ensure!(server.requests() == 3, "{} requests", server.requests());
    job.stop(&node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn artifact_that_is_refused_fails_its_task_with_the_reason() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let server = serve(archives(folder.path())?)?;
    let cluster = Cluster::start(Settings::of(1)).await?;
    let _node = Node::start(&cluster).await?;
    let zeros = format!("md5:{}", "0".repeat(32));
    for (id, artifact, words) in [
        (
            "checksum",
            json!({
                "GetterSource": server.url("plain.txt"),
                "GetterOptions": { "checksum": zeros },
            }),
            vec![
                "checksums did not match for plain.txt: expected md5:000",
                // printf plain | md5sum
                "got md5:ac7938d40cfc2307e2bf325d28e7884e",
            ],
        ),
        (
            "upwards",
            json!({ "GetterSource": server.url("evil.tar") }),
            vec![
                "failed to download artifact \"http",
                "entry contains '..': ../greeting",
            ],
        ),
        (
            "absent",
            json!({ "GetterSource": server.url("absent").replace("//", "//user:geheim@") }),
            vec!["bad response code: 404 Not Found", "user:xxxxx@"],
        ),
        (
            "escape",
            json!({
                "GetterSource": server.url("plain.txt"),
                "RelativeDest": "${NOMAD_META_none}../../../x",
            }),
            vec!["artifact destination path escapes alloc directory"],
        ),
        (
            "bucket",
            json!({ "GetterSource": "s3::https://s3.amazonaws.com/a/b" }),
            vec!["fetches nothing over s3"],
        ),
    ] {
        let job = with_artifacts(id, "echo started", json!([artifact]));
        let job = Running::start(&cluster, &job).await?;
        let alloc = job.until("failed").await?;
        let failures = events(&alloc, "Failed Artifact Download");
        let failure = failures.first().with_context(|| format!("{id}: {alloc}"))?;
        for word in words {
            ensure!(failure.contains(word), "{id}: no {word:?} in {failure:?}");
        }
        ensure!(!failure.contains("geheim"), "{failure}");
        let path = format!("/v1/client/fs/ls/{}", job.alloc);
        let query = Query::new().with("path", "task/local");
        let left = cluster.get(&path, &query).await?;
        ensure!(left.as_array().is_none_or(Vec::is_empty), "{id}: {left}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn git_artifact_is_the_commit_of_its_ref() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: needs git");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let server = serve(repository(folder.path())?)?;
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let source = format!("git::{}", server.url("repo.git"));
    let artifacts = json!([
        { "GetterSource": source, "RelativeDest": "local/new" },
        {
            "GetterSource": source,
            "GetterOptions": { "ref": "v1" },
            "RelativeDest": "local/old",
        },
    ]);
    let text = "cat local/old/version local/new/version; exec sleep 600";
    let job = Running::start(&cluster, &with_artifacts("git", text, artifacts)).await?;
    job.until("running").await?;
    job.must_print("stdout", "onetwo").await?;
    job.stop(&node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn download_is_given_up_at_a_stop_and_at_the_end_of_noded() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let server = serve(BTreeMap::new())?;
    let cluster = Cluster::start(Settings::of(1)).await?;
    let mut node = Node::start(&cluster).await?;
    let artifacts = json!([{ "GetterSource": server.url("endless") }]);
    let job = with_artifacts("slow", "echo started", artifacts);
    let job = Running::start(&cluster, &job).await?;
    let downloading = async || {
        eventually("a line of progress", PATIENCE, async || {
            let lines = events(&job.read().await?, "Downloading Artifacts");
            let line = lines.first().context("no line")?;
            ensure!(lines.len() == 1, "one line that is replaced: {lines:?}");
            ensure!(
                line.contains("endless: ") && line.contains("of 1.0 GiB"),
                "{line}"
            );
            Ok(Some(()))
        })
        .await
    };
    downloading().await?;

    // The download would take three quarters of an hour.
    let status = node.terminate().await?;
    ensure!(status.success(), "{status}");
    let before = server.requests();
    node.start_again_in(&cluster)?;
    node.wait_ready(&cluster).await?;
    eventually("another download", PATIENCE, async || {
        Ok((server.requests() > before).then_some(()))
    })
    .await?;
    downloading().await?;

    let client = cluster.client(0)?;
    client
        .delete::<Value>("/v1/job/slow", &Query::new())
        .await?;
    let alloc = job.until("complete").await?;
    let failures = events(&alloc, "Failed Artifact Download");
    ensure!(failures.is_empty(), "{failures:?}");
    Ok(())
}
