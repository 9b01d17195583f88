//! A task proves its identity: it asks the API through its socket, reads its own variable, and its
//! token ends with it. Three servers, of which any answers.

use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::access::Shell;
use crate::running::{PATIENCE, has_root};
use crate::socket_client;

pub(crate) const MANAGER: &str = "11111111-2222-3333-4444-555555555555";
/// A key that went by force is known to nodes, and its tokens are replaced, within this time.
const RENEWED_MAX: Duration = Duration::from_secs(10);

/// Asks the API through the socket, and prints a line for each answer.
const TASK: &str = r#"
def ask(name, path, token):
    shown = {"Authorization": "Bearer " + token} if token else {}
    answer = Api().ask("GET", path, headers=shown)
    print(name, answer.status, answer.read().decode().strip(), flush=True)

ask("none", "/v1/agent/health", None)
ask("made-up", "/v1/agent/health", "made-up")
ask("own", "/v1/agent/health", token)
ask("variable", "/v1/var/nomad/jobs/" + os.environ["NOMAD_JOB_ID"], token)
ask("jobs", "/v1/jobs", token)
print("file", open(secrets + "/nomad_token").read() == token, flush=True)
time.sleep(1000)
"#;

fn job(id: &str, driver: &str) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "task", "Driver": driver,
                "Config": { "command": "/usr/bin/python3", "args": ["-c", socket_client::script(TASK)] },
                "Identity": { "Name": "default", "Env": true, "File": true },
                "Identities": [{
                    "Name": "other", "Audience": ["other.example"], "File": true,
                    "TTL": 3_600_000_000_000_u64,
                }],
                "Resources": { "CPU": 20, "MemoryMB": 64 },
            }],
        }],
    }})
}

/// Three servers with access control, and a node.
pub(crate) async fn start() -> anyhow::Result<(Cluster, Node)> {
    let cluster = Cluster::start(Settings::of(3).with_access_control(MANAGER)).await?;
    let node = Node::start(&cluster).await?;
    Ok((cluster, node))
}

/// The command line of an operator, at the second server.
pub(crate) fn operator(cluster: &Cluster) -> Shell<'_> {
    Shell {
        cluster,
        server: 1,
        token: MANAGER,
    }
}

/// The allocation of a job, once its task has said `line`; and all that it said.
async fn said(shell: &Shell<'_>, job: &str, line: &str) -> anyhow::Result<(String, String)> {
    let cluster = shell.cluster;
    let path = format!("/v1/job/{job}/allocations");
    eventually("what the task says", PATIENCE, async || {
        let allocs = cluster.get(&path, &Query::new()).await?;
        let Some(alloc) = allocs[0]["ID"].as_str() else {
            return Ok(None);
        };
        let log = shell.works(&["alloc", "logs", alloc]).unwrap_or_default();
        Ok(log.contains(line).then(|| (alloc.to_owned(), log)))
    })
    .await
}

/// The status of a read of a job's variable with a token, at a server.
async fn status(cluster: &Cluster, server: usize, job: &str, token: &str) -> anyhow::Result<u16> {
    let client = cluster.client(server)?.with_token(Some(token.to_owned()));
    let path = format!("/v1/var/nomad/jobs/{job}");
    match client.get::<Value>(&path, &Query::new()).await {
        Ok(_) => Ok(200),
        Err(error) => error.status().context(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_read_their_variable_through_their_socket() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (cluster, node) = start().await?;
    let shell = operator(&cluster);
    for driver in ["raw_exec", "exec"] {
        let id = format!("with-{}", driver.replace('_', "-"));
        shell.works(&["var", "put", &format!("nomad/jobs/{id}"), "word=planted"])?;
        let body = job(&id, driver);
        let client = cluster.client(2)?;
        client
            .put::<_, Value>("/v1/jobs", &Query::new(), &body)
            .await?;
        let (alloc, log) = said(&shell, &id, "file ").await?;
        for line in [
            "none 401 Unauthorized",
            "made-up 403 Forbidden",
            "own 200 ",
            "variable 200 ",
            "jobs 403 ",
            "file True",
        ] {
            ensure!(log.contains(line), "{driver}: {line} is missing in: {log}");
        }
        ensure!(log.contains("\"word\":\"planted\""), "{driver}: {log}");

        let secrets = node.alloc_dir(&alloc).join("task/secrets");
        let token = std::fs::read_to_string(secrets.join("nomad_token"))?;
        let other = std::fs::read_to_string(secrets.join("nomad_other.jwt"))?;
        for server in 0..3 {
            ensure!(status(&cluster, server, &id, &token).await? == 200);
            let other = status(&cluster, server, &id, &other).await?;
            ensure!(other == 403, "a token for another audience: {other}");
        }
        shell.works(&["job", "stop", &id])?;
        for server in 0..3 {
            eventually("the end of the token", PATIENCE, async || {
                let status = status(&cluster, server, &id, &token).await?;
                Ok((status == 403).then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_get_other_tokens_when_their_key_goes_by_force() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let (cluster, node) = start().await?;
    let shell = operator(&cluster);
    shell.works(&["var", "put", "nomad/jobs/web", "word=planted"])?;
    let body = job("web", "raw_exec");
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &body)
        .await?;
    let (alloc, _) = said(&shell, "web", "file ").await?;
    let file = node.alloc_dir(&alloc).join("task/secrets/nomad_token");
    let old = std::fs::read_to_string(&file)?;

    let keys: Value =
        serde_json::from_str(&shell.works(&["operator", "root", "keyring", "list", "-json"])?)?;
    let key = keys[0]["KeyID"].as_str().context("a key")?;
    shell.works(&["operator", "root", "keyring", "rotate", "-now", "-full"])?;
    eventually("the end of the key", PATIENCE, async || {
        let remove = ["operator", "root", "keyring", "remove", "-force", key];
        Ok(shell.works(&remove).ok())
    })
    .await?;
    let new = eventually("another token", RENEWED_MAX, async || {
        let now = std::fs::read_to_string(&file)?;
        Ok((now != old).then_some(now))
    })
    .await?;
    for server in 0..3 {
        let old = status(&cluster, server, "web", &old).await?;
        ensure!(old == 403, "server {server} takes the old token: {old}");
        let new = status(&cluster, server, "web", &new).await?;
        ensure!(new == 200, "server {server} refuses the new token: {new}");
    }
    Ok(())
}
