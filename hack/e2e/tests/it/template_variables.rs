//! Templates that read variables, on a real node beside three servers with access control: the wait
//! for a variable, what its change does to the task, and the rights that a policy gives.

use anyhow::ensure;
use hack_cluster::eventually;
use serde_json::{Value, json};

use crate::identities::{operator, start};
use crate::running::{PATIENCE, Process, Running, has_root, script};

/// Prints its files at the start and at a signal.
const PRINTS: &str = "show() { echo $1; cat $NOMAD_TASK_DIR/words $NOMAD_TASK_DIR/below; }
trap 'show signal' USR1; echo pid $$ >&2; show start; while :; do sleep 0.1; done";
/// Its variable, and all that it may list.
const WORDS: &str = "{{ with nomadVar \"nomad/jobs/JOB\" }}{{ .word }}{{ end }}\
    {{ if nomadVarExists \"nomad/jobs/JOB\" }} exists{{ end }}\
    {{ if nomadVarExists \"nomad/jobs/JOB/group/task\" }} unexpected{{ end }}\
    {{ range nomadVarList \"nomad/jobs/JOB\" }} {{ .Path }}{{ end }}\n";
/// Waits while there is none.
const BELOW: &str = "{{ range nomadVarListSafe \"nomad/jobs/JOB/group\" }}{{ .Path }}{{ end }}\n";
/// A job may read it with a policy only.
const SHARED: &str = "{{ with nomadVar \"shared/db\" }}{{ .password }}{{ end }}\n";
const POLICY: &str = "namespace \"default\" {
  variables {
    path \"shared/*\" {
      capabilities = [\"read\"]
    }
  }
}
";

fn template(job: &str, text: &str, name: &str, change_mode: &str) -> Value {
    json!({
        "EmbeddedTmpl": text.replace("JOB", job), "DestPath": format!("local/{name}"),
        "ChangeMode": change_mode, "ChangeSignal": "SIGUSR1", "Splay": 0,
        "Wait": { "Min": 1_000_000, "Max": 2_000_000 },
    })
}

fn job(id: &str, text: &str, templates: &[Value]) -> Value {
    let restart = json!({ "Attempts": 0, "Mode": "fail" });
    let mut job = script(id, "service", text, &restart);
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"] = json!(templates);
    job
}

fn with_mode(mode: &str) -> Value {
    let words = template(mode, WORDS, "words", mode);
    let below = template(mode, BELOW, "below", "noop");
    job(mode, PRINTS, &[words, below])
}

async fn until_event(task: &Running<'_>, text: &str) -> anyhow::Result<()> {
    eventually("an event", PATIENCE, async || {
        let alloc = task.read().await?;
        let events = alloc["TaskStates"]["task"]["Events"].as_array();
        let mut messages = events.into_iter().flatten().map(|event| {
            let message = event["DisplayMessage"].as_str();
            message.unwrap_or_default().to_owned()
        });
        let found = messages.any(|message| message.contains(text));
        ensure!(found, "no event {text}: {}", alloc["TaskStates"]);
        Ok(Some(()))
    })
    .await
}

async fn until_logged(task: &Running<'_>, expected: &str) -> anyhow::Result<()> {
    eventually("the task's output", PATIENCE, async || {
        let text = task.logs("stdout").await?;
        ensure!(text == expected, "{text:?}, not {expected:?}");
        Ok(Some(()))
    })
    .await
}

/// The lines of a task that shows its variable, and those of its parts that exist.
fn shown(why: &str, job: &str, word: &str) -> String {
    let path = format!("nomad/jobs/{job}");
    format!("{why}\n{word} exists {path} {path}/group\n{path}/group\n")
}

async fn must_be(task: &Running<'_>, process: &Process) -> anyhow::Result<()> {
    let is_same = task.process().await? == *process;
    ensure!(is_same, "{} was restarted", task.alloc);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_wait_for_variables_and_follow_their_changes() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (cluster, mut node) = start().await?;
    let shell = operator(&cluster);
    let modes = ["signal", "restart", "noop"];
    let mut tasks: Vec<(&str, Running<'_>)> = Vec::new();
    for mode in modes {
        tasks.push((mode, Running::start(&cluster, &with_mode(mode)).await?));
    }
    for (mode, task) in &tasks {
        let missing = format!("nomad.var.block(nomad/jobs/{mode}@default.global)");
        until_event(task, &missing).await?;
        shell.works(&["var", "put", &format!("nomad/jobs/{mode}"), "word=first"])?;
    }
    // The list is still empty: each task waits.
    for (mode, task) in &tasks {
        task.until("pending").await?;
        shell.works(&["var", "put", &format!("nomad/jobs/{mode}/group"), "a=b"])?;
    }
    let mut processes: Vec<Process> = Vec::new();
    for (mode, task) in &tasks {
        until_logged(task, &shown("start", mode, "first")).await?;
        processes.push(task.process().await?);
    }

    for mode in modes {
        let path = format!("nomad/jobs/{mode}");
        shell.works(&["var", "put", "-force", &path, "word=second"])?;
    }
    for (mode, task) in &tasks {
        let before = shown("start", mode, "first");
        let after = match *mode {
            "signal" => before + &shown("signal", mode, "second"),
            "restart" => before + &shown("start", mode, "second"),
            _ => before,
        };
        until_logged(task, &after).await?;
    }
    let words = node.alloc_dir(&tasks[2].1.alloc).join("task/local/words");
    let second = "second exists nomad/jobs/noop nomad/jobs/noop/group\n";
    eventually("the text of the file", PATIENCE, async || {
        let text = std::fs::read_to_string(&words)?;
        ensure!(text == second, "{text:?}");
        Ok(Some(()))
    })
    .await?;
    must_be(&tasks[0].1, &processes[0]).await?;
    must_be(&tasks[2].1, &processes[2]).await?;

    // A variable that changes while noded is away; one that goes leaves the text as it is.
    node.kill()?;
    shell.works(&["var", "put", "-force", "nomad/jobs/signal", "word=third"])?;
    shell.works(&["var", "purge", "nomad/jobs/noop"])?;
    node.start_again()?;
    let signalled = shown("start", "signal", "first")
        + &shown("signal", "signal", "second")
        + &shown("signal", "signal", "third");
    until_logged(&tasks[0].1, &signalled).await?;
    must_be(&tasks[0].1, &processes[0]).await?;
    until_event(&tasks[2].1, "the text that was rendered last stays").await?;
    ensure!(std::fs::read_to_string(&words)? == second, "the text went");
    must_be(&tasks[2].1, &processes[2]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_variable_is_waited_for_until_a_policy_gives_it() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (cluster, _node) = start().await?;
    let shell = operator(&cluster);
    shell.works(&["var", "put", "shared/db", "password=hunter2"])?;
    let text = "cat $NOMAD_TASK_DIR/shared; sleep 1000";
    let shared = template("reader", SHARED, "shared", "noop");
    let task = Running::start(&cluster, &job("reader", text, &[shared])).await?;
    until_event(&task, "nomad.var.block(shared/db@default.global)").await?;
    task.until("pending").await?;
    std::fs::write(cluster.folder().join("shared.hcl"), POLICY)?;
    let apply = [
        "acl",
        "policy",
        "apply",
        "-namespace",
        "default",
        "-job",
        "reader",
    ];
    let other = [&apply[..], &["-group", "other", "for-others", "shared.hcl"]].concat();
    shell.works(&other)?;
    task.until("pending").await?;
    shell.works(&[&apply[..], &["-group", "group", "for-it", "shared.hcl"]].concat())?;
    until_logged(&task, "hunter2\n").await
}
