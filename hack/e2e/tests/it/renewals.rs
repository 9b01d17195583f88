//! Identities over time, on a real node: renewed at half of their ttl while noded is killed,
//! carried by dispatched children, verified by a library that knows nothing of Drover.

use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::access::Shell;
use crate::python_client::{SIGNER, install, run};
use crate::running::{PATIENCE, Running, has_root, script};

const MANAGER: &str = "11111111-2222-3333-4444-555555555555";
const ISSUER: &str = "https://drover.example";
/// The shortest one that is renewed at half: no identity is renewed sooner than after 10 s.
const TTL: Duration = Duration::from_secs(20);
const RENEWED: &str = "Identity[short]: new Identity token acquired";

/// Prints its token at the start and at a signal.
const PRINTS: &str = "show() { echo $1 $(cat $NOMAD_SECRETS_DIR/nomad_short.jwt); }
trap 'show signal' HUP; echo pid $$ >&2; show start; while :; do sleep 0.1; done";

fn identities(task: &mut Value) {
    task["Identity"] = json!({ "Name": "default", "Env": true, "File": true });
    task["Identities"] = json!([{
        "Name": "short", "Audience": ["other.example"], "File": true,
        "TTL": u64::try_from(TTL.as_nanos()).expect("short"),
        "ChangeMode": "signal", "ChangeSignal": "SIGHUP",
    }]);
}

fn job(id: &str, kind: &str, text: &str) -> Value {
    let restart = json!({ "Attempts": 0, "Mode": "fail" });
    let mut job = script(id, kind, text, &restart);
    identities(&mut job["Job"]["TaskGroups"][0]["Tasks"][0]);
    job
}

/// Three servers with access control and an issuer, and a node.
async fn start() -> anyhow::Result<(Cluster, Node)> {
    let settings = Settings::of(3).with_access_control(MANAGER);
    let settings = settings.with(&format!("oidc_issuer = {ISSUER:?}"));
    let cluster = Cluster::start(settings).await?;
    let node = Node::start(&cluster).await?;
    Ok((cluster, node))
}

/// The tokens that the task has printed, each behind its reason; waits for so many.
async fn printed(task: &Running<'_>, count: usize) -> anyhow::Result<Vec<(String, String)>> {
    eventually("tokens of the task", PATIENCE, async || {
        let text = task.logs("stdout").await?;
        let words = text.lines().filter_map(|line| line.split_once(' '));
        let tokens: Vec<(String, String)> = words
            .map(|(why, token)| (why.to_owned(), token.to_owned()))
            .collect();
        ensure!(tokens.len() >= count, "{} of {count}", tokens.len());
        Ok(Some(tokens))
    })
    .await
}

/// Events of a task with this text.
async fn events(task: &Running<'_>, text: &str) -> anyhow::Result<usize> {
    let alloc = task.read().await?;
    let events = alloc["TaskStates"]["task"]["Events"].as_array();
    let events = events.into_iter().flatten();
    Ok(events.filter(|it| it["DisplayMessage"] == text).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_signals_a_task_once_although_noded_is_killed() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (cluster, mut node) = start().await?;
    let task = Running::start(&cluster, &job("renewed", "service", PRINTS)).await?;
    let first = printed(&task, 1).await?;
    let process = task.process().await?;
    let secrets = node.alloc_dir(&task.alloc).join("task/secrets");
    let file = secrets.join("nomad_short.jwt");
    let own = std::fs::read_to_string(secrets.join("nomad_token"))?;
    let kept = node.run_dir().join("identities").join(&task.alloc);

    for count in 2..=3 {
        let (held, before) = (std::fs::read(&kept)?, std::fs::read_to_string(&file)?);
        node.kill()?;
        node.start_again()?;
        node.wait_ready(&cluster).await?;
        // The next noded goes on with the tokens of the one before: it asks nobody.
        if printed(&task, 1).await?.len() < count {
            ensure!(std::fs::read(&kept)? == held, "the kept tokens are others");
            ensure!(std::fs::read_to_string(&file)? == before);
        }
        let tokens = printed(&task, count).await?;
        let now = std::fs::read_to_string(&file)?;
        ensure!(now != before, "the file has the token of before");
        ensure!(tokens[count - 1] == ("signal".to_owned(), now));
    }
    let tokens = printed(&task, 3).await?;
    let reasons: Vec<&str> = tokens.iter().map(|(why, _)| why.as_str()).collect();
    ensure!(reasons == ["start", "signal", "signal"], "{reasons:?}");
    ensure!(tokens[0] == first[0] && tokens[1].1 != tokens[2].1);
    ensure!(std::fs::read_to_string(secrets.join("nomad_token"))? == own);
    ensure!(task.process().await? == process, "another process");
    eventually("an event of each renewal", PATIENCE, async || {
        let found = events(&task, RENEWED).await?;
        ensure!(found <= 2, "{found} events of two renewals");
        Ok((found == 2).then_some(()))
    })
    .await?;
    let alloc = task.read().await?;
    ensure!(alloc["TaskStates"]["task"]["Restarts"] == 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_goes_on_while_the_leader_is_killed() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (mut cluster, node) = start().await?;
    let body = job("led", "service", PRINTS);
    let (alloc, file) = {
        let task = Running::start(&cluster, &body).await?;
        printed(&task, 1).await?;
        let secrets = node.alloc_dir(&task.alloc).join("task/secrets");
        (task.alloc.clone(), secrets.join("nomad_short.jwt"))
    };
    let before = std::fs::read_to_string(&file)?;
    let leader = cluster.leader().await?;
    cluster.kill(leader)?;
    let after = eventually("a renewed token", PATIENCE, async || {
        let now = std::fs::read_to_string(&file)?;
        Ok((now != before).then_some(now))
    })
    .await?;
    let task = Running::find(&cluster, "led", &alloc);
    let tokens = printed(&task, 2).await?;
    ensure!(tokens[1] == ("signal".to_owned(), after), "{tokens:?}");
    Ok(())
}

/// A child of a parameterized job, once it has written its token.
async fn child(cluster: &Cluster, node: &Node, parent: &Value) -> anyhow::Result<[String; 3]> {
    let client = cluster.client(0)?;
    let query = Query::new();
    client.put::<_, Value>("/v1/jobs", &query, parent).await?;
    let id = parent["Job"]["ID"].as_str().context("an id")?;
    let path = format!("/v1/job/{id}/dispatch");
    let made = client.put::<_, Value>(&path, &query, &json!({})).await?;
    let child = made.value["DispatchedJobID"].as_str().context("a child")?;
    let path = format!("/v1/job/{}/allocations", child.replace('/', "%2F"));
    eventually("the tokens of the child", PATIENCE, async || {
        let allocs = cluster.get(&path, &query).await?;
        let Some(alloc) = allocs[0]["ID"].as_str() else {
            return Ok(None);
        };
        let secrets = node.alloc_dir(alloc).join("task/secrets");
        let read = |name: &str| std::fs::read_to_string(secrets.join(name));
        Ok(Some([
            alloc.to_owned(),
            read("nomad_token")?,
            read("nomad_short.jwt")?,
        ]))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_its_parent_s_name_in_tokens_that_others_verify() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    if let Some(why) = install(folder.path(), &[SIGNER])? {
        eprintln!("skipped: needs {SIGNER}: {why}");
        return Ok(());
    }
    let (cluster, node) = start().await?;
    let shell = Shell {
        cluster: &cluster,
        server: 1,
        token: MANAGER,
    };
    shell.works(&["var", "put", "nomad/jobs/parent", "word=planted"])?;
    let mut parent = job("parent", "batch", "exec sleep 1000");
    parent["Job"]["ParameterizedJob"] = json!({ "Payload": "optional" });
    let [alloc, own, short] = child(&cluster, &node, &parent).await?;

    // It reads what is its parent's.
    let query = Query::new();
    for server in 0..cluster.len() {
        let client = cluster.client(server)?.with_token(Some(own.clone()));
        let found = client.get::<Value>("/v1/var/nomad/jobs/parent", &query);
        let found = found.await?.value;
        ensure!(found["Items"]["word"] == "planted", "{found}");
    }
    let port = cluster.ports(2).http.to_string();
    let arguments = [&port, ISSUER, "parent", &alloc, &own, &short];
    let arguments = arguments.map(ToString::to_string).to_vec();
    run(folder.path(), "identities.py", arguments).await
}
