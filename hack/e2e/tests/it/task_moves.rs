//! A task asks in a loop through its socket while the server of its node's session is killed: every
//! read is answered, by another server.

use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::access::Shell;
use crate::running::{PATIENCE, has_root};
use crate::socket_client;

const MANAGER: &str = "11111111-2222-3333-4444-555555555555";
const JOB: &str = "asks";
/// An election, and the node's way to another server, on a host where much else goes on.
const MOVED_MAX: Duration = Duration::from_secs(60);

/// Reads its own variable again and again, and prints the server that answers each tenth time. A
/// read without 200 is printed as `bad`.
const TASK: &str = r#"
def read(path):
    try:
        answer = api.ask("GET", path, token)
        text = answer.read().decode()
        if answer.status == 200:
            return json.loads(text)
        print("bad", answer.status, text, answer.headers, flush=True)
    except Exception as error:
        api.close()
        print("bad", repr(error), flush=True)

api, number = Api(), 0
while True:
    number += 1
    found = read("/v1/var/nomad/jobs/" + os.environ["NOMAD_JOB_ID"])
    if found and found["Items"] != {"word": "planted"}:
        print("bad", found, flush=True)
    if number % 10 == 0:
        print("number", number, "at", read("/v1/acl/whoami")["Via"]["Server"], flush=True)
    time.sleep(0.02)
"#;

fn job() -> Value {
    json!({ "Job": {
        "ID": JOB, "Name": JOB, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "task", "Driver": "raw_exec",
                "Config": { "command": "/usr/bin/python3", "args": ["-c", socket_client::script(TASK)] },
                "Identity": { "Name": "default", "Env": true },
                "Resources": { "CPU": 20, "MemoryMB": 64 },
            }],
        }],
    }})
}

/// The output of the task, and the server that its newest line names; `None` before there is one.
async fn said(cluster: &Cluster, server: usize) -> Option<(String, usize)> {
    let shell = Shell {
        cluster,
        server,
        token: MANAGER,
    };
    let path = format!("/v1/job/{JOB}/allocations");
    let client = cluster.client(server).ok()?;
    let allocs = client.get::<Value>(&path, &Query::new()).await.ok()?.value;
    let log = shell
        .works(&["alloc", "logs", allocs[0]["ID"].as_str()?])
        .ok()?;
    let newest = log.lines().rfind(|line| line.starts_with("number "))?;
    let server = newest.rsplit_once("server-")?.1.parse().ok()?;
    Some((log, server))
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_task_are_all_answered_while_its_server_is_killed() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3).with_access_control(MANAGER)).await?;
    let _node = Node::start(&cluster).await?;
    let shell = Shell {
        cluster: &cluster,
        server: 0,
        token: MANAGER,
    };
    shell.works(&["var", "put", &format!("nomad/jobs/{JOB}"), "word=planted"])?;
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &job())
        .await?;
    let (_, killed) = eventually("a line of the task", PATIENCE, async || {
        Ok(said(&cluster, 0).await)
    })
    .await?;
    cluster.kill(killed)?;
    let other = (killed + 1) % 3;
    let (log, _) = eventually("a line from another server", MOVED_MAX, async || {
        let found = said(&cluster, other).await;
        Ok(found.filter(|(_, server)| *server != killed))
    })
    .await?;
    let bad = log.lines().find(|line| line.starts_with("bad"));
    ensure!(bad.is_none(), "server {killed} was killed: {log}");
    log.lines().next().context("lines")?;
    Ok(())
}
