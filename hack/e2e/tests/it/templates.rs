//! Templates that follow the files they read, on a real node: what a change does to the task, what
//! a restart keeps, and the wait for data that the cluster does not have.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, has_root, script};

/// `wait { min }` of the jobs; their splay is 0.
const WAIT: Duration = Duration::from_secs(1);
/// From a change to what it does, beyond wait and splay.
const NOTICED_MAX: Duration = Duration::from_secs(5);
/// As long as a change that does nothing is waited for.
const QUIET: Duration = Duration::from_secs(6);
/// From a stop of a task that waits to its end, as the API shows it.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Prints its file at the start and at a signal.
const PRINTS: &str =
    "trap 'echo signal; cat $NOMAD_TASK_DIR/out' USR1; echo start; cat $NOMAD_TASK_DIR/out
while :; do sleep 0.1; done";

/// A template that reads a file which the first template makes.
fn follower(change_mode: &str, more: &Value) -> Value {
    let mut template = json!({
        "EmbeddedTmpl": "value {{ file \"local/source\" }}\n", "DestPath": "local/out",
        "ChangeMode": change_mode, "Splay": 0,
        "Wait": { "Min": nanos(WAIT), "Max": nanos(2 * WAIT) },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        template[key] = value.clone();
    }
    template
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("short")
}

fn job(id: &str, templates: &[Value]) -> Value {
    let mut job = script(
        id,
        "service",
        PRINTS,
        &json!({ "Attempts": 0, "Mode": "fail" }),
    );
    let mut all = vec![json!({
        "EmbeddedTmpl": "one", "DestPath": "local/source", "ChangeMode": "noop",
    })];
    all.extend_from_slice(templates);
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"] = json!(all);
    job
}

/// A running task with its files.
struct Followed<'a> {
    task: Running<'a>,
    local: PathBuf,
}

impl<'a> Followed<'a> {
    async fn start(cluster: &'a Cluster, node: &Node, job: &Value) -> anyhow::Result<Self> {
        let task = Running::start(cluster, job).await?;
        task.until("running").await?;
        let local = node.alloc_dir(&task.alloc).join("task/local");
        Ok(Self { task, local })
    }

    fn change(&self, text: &str) -> anyhow::Result<Instant> {
        std::fs::write(self.local.join("source"), text)?;
        Ok(Instant::now())
    }

    fn file(&self, name: &str) -> anyhow::Result<String> {
        let path = self.local.join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    async fn until_logged(&self, expected: &str) -> anyhow::Result<()> {
        eventually("the task's output", PATIENCE, async || {
            let text = self.task.logs("stdout").await?;
            ensure!(text == expected, "{text:?}");
            Ok(Some(()))
        })
        .await
    }

    async fn until_written(&self, name: &str, expected: &str) -> anyhow::Result<()> {
        eventually("the text of a file", PATIENCE, async || {
            let text = self.file(name)?;
            ensure!(text == expected, "{text:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Waits for an event of the task.
    async fn until_event(&self, kind: &str, text: &str) -> anyhow::Result<()> {
        eventually("an event", PATIENCE, async || {
            let alloc = self.task.read().await?;
            let events = alloc["TaskStates"]["task"]["Events"].as_array();
            let mut events = events.into_iter().flatten();
            let is_it = |event: &Value| {
                let shown = event["DisplayMessage"].as_str().unwrap_or_default();
                event["Type"] == kind && shown.contains(text)
            };
            let found = events.any(is_it);
            ensure!(found, "no {kind}: {text}: {}", alloc["TaskStates"]);
            Ok(Some(()))
        })
        .await
    }

    async fn restart(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let path = format!("/v1/client/allocation/{}/restart", self.task.alloc);
        let (client, body) = (cluster.client(0)?, json!({ "TaskName": "task" }));
        client.put::<_, Value>(&path, &Query::new(), &body).await?;
        eventually("another run", PATIENCE, async || {
            let text = self.task.logs("stdout").await?;
            let starts = text.lines().filter(|line| *line == "start").count();
            ensure!(starts == 2, "{text:?}");
            Ok(Some(()))
        })
        .await
    }
}

fn must_be_soon(since: Instant, what: &str) {
    let took = since.elapsed();
    assert!(took < WAIT + NOTICED_MAX, "{what}: {took:?}");
    assert!(took >= WAIT, "{what}: {took:?} is shorter than its wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_mode_acts_soon_after_a_file_changed() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let start = async |id: &str, mode: &str, more: Value| {
        Followed::start(&cluster, &node, &job(id, &[follower(mode, &more)])).await
    };

    let restart = start("restart", "restart", json!({})).await?;
    let since = restart.change("two")?;
    restart
        .until_logged("start\nvalue one\nstart\nvalue two\n")
        .await?;
    must_be_soon(since, "restart");
    let reason = "Template with change_mode restart re-rendered";
    restart.until_event("Restart Signaled", reason).await?;

    let signal = start("signal", "signal", json!({ "ChangeSignal": "SIGUSR1" })).await?;
    let since = signal.change("two")?;
    signal
        .until_logged("start\nvalue one\nsignal\nvalue two\n")
        .await?;
    must_be_soon(since, "signal");
    signal
        .until_event("Signaling", "Template re-rendered")
        .await?;

    let told = json!({ "ChangeScript": {
        "Command": "/bin/sh",
        "Args": ["-c", "cat ${NOMAD_TASK_DIR}/out > ${NOMAD_TASK_DIR}/told"],
    }});
    let script = start("script", "script", told).await?;
    let since = script.change("two")?;
    script.until_written("told", "value two\n").await?;
    must_be_soon(since, "script");
    script
        .until_event("Task hook message", "exit code 0")
        .await?;

    let noop = start("noop", "noop", json!({})).await?;
    let since = noop.change("two")?;
    noop.until_written("out", "value two\n").await?;
    must_be_soon(since, "noop");
    // The same text again, and a file that is away, change nothing.
    restart.change("two")?;
    std::fs::remove_file(signal.local.join("source"))?;
    tokio::time::sleep(QUIET).await;
    restart
        .until_logged("start\nvalue one\nstart\nvalue two\n")
        .await?;
    signal
        .until_logged("start\nvalue one\nsignal\nvalue two\n")
        .await?;
    noop.until_logged("start\nvalue one\n").await?;
    for followed in [&restart, &signal, &script, &noop] {
        followed.task.until("running").await?;
    }

    let fails = json!({ "ChangeScript": {
        "Command": "/bin/sh", "Args": ["-c", "exit 3"], "FailOnError": true,
    }});
    let fails = start("fails", "script", fails).await?;
    fails.change("two")?;
    fails.task.until("failed").await?;
    fails.until_event("Task hook failed", "exit code 3").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_for_a_changed_template_has_its_new_variables() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let variable = json!({
        "EmbeddedTmpl": "V={{ file \"local/source\" }}", "DestPath": "secrets/env", "Envvars": true,
    });
    let mut env = job("env", &[follower("restart", &variable)]);
    let task = &mut env["Job"]["TaskGroups"][0]["Tasks"][0];
    task["Config"]["args"][1] = json!("echo start $V; exec sleep 1000");
    let env = Followed::start(&cluster, &node, &env).await?;
    let since = env.change("two")?;
    env.until_logged("start one\nstart two\n").await?;
    must_be_soon(since, "env");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_task_keeps_its_files_unless_the_job_renders_again() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let mut node = Node::start(&cluster).await?;
    let unique = json!({
        "EmbeddedTmpl": "{{ timestamp \"2006-01-02T15:04:05.000000000\" }}",
        "DestPath": "local/moment", "ChangeMode": "noop",
    });
    let kept =
        Followed::start(&cluster, &node, &job("kept", std::slice::from_ref(&unique))).await?;
    let mut again = job("again", &[unique, follower("restart", &json!({}))]);
    let policy = json!({ "Attempts": 0, "Mode": "fail", "RenderTemplates": true });
    again["Job"]["TaskGroups"][0]["RestartPolicy"] = policy;
    let again = Followed::start(&cluster, &node, &again).await?;
    let before = (kept.file("moment")?, again.file("moment")?);
    for followed in [&kept, &again] {
        followed.restart(&cluster).await?;
    }
    assert_eq!(kept.file("moment")?, before.0);
    assert_ne!(again.file("moment")?, before.1);

    // Another noded compares the files, and acts on what changed while none was there.
    node.kill()?;
    again.change("two")?;
    node.start_again()?;
    again.until_written("out", "value two\n").await?;
    let reason = "Template with change_mode restart re-rendered";
    again.until_event("Restart Signaled", reason).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_waits_for_a_variable_and_a_stop_ends_that_at_once() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let needs = json!({
        "EmbeddedTmpl": "{{ with nomadVar \"nomad/jobs/x\" }}{{ .a }}{{ end }}",
        "DestPath": "local/out",
    });
    let task = Running::start(&cluster, &job("waits", &[needs])).await?;
    let local = node.alloc_dir(&task.alloc).join("task/local");
    let waits = Followed { task, local };
    let text = "Missing: nomad.var.block(nomad/jobs/x@default.global)";
    waits.until_event("Template", text).await?;
    let alloc = waits.task.until("pending").await?;
    assert_eq!(alloc["TaskStates"]["task"]["State"], "pending");
    let path = format!("/v1/allocation/{}/stop", waits.task.alloc);
    let client = cluster.client(0)?;
    let since = Instant::now();
    client
        .put::<_, Value>(&path, &Query::new(), &json!({}))
        .await?;
    eventually("the end of the task", PATIENCE, async || {
        let alloc = waits.task.read().await?;
        Ok((alloc["TaskStates"]["task"]["State"] == "dead").then_some(()))
    })
    .await?;
    let took = since.elapsed();
    assert!(took < STOP_MAX, "{took:?}");
    Ok(())
}
