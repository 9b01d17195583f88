//! A task's socket while noded is killed and started again, many times: connects wait, and none is
//! refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, has_root};

/// How often noded is restarted; this variable says another number.
const RESTARTS: usize = 10;
const RESTARTS_VARIABLE: &str = "DROVER_E2E_RESTARTS";
/// Every so many restarts noded is killed on its way up, too.
const KILLED_EARLY_EACH: usize = 3;
/// How much later than the time before it is killed then: the steps of its start, one by one.
const EARLY_STEP: Duration = Duration::from_millis(7);

/// Clients that ask without a pause, and count what became of it.
const TASK: &str = r#"
import json, os, socket, threading, time

path = os.environ["NOMAD_SECRETS_DIR"] + "/api.sock"
counts_path = os.environ["NOMAD_TASK_DIR"] + "/counts"
head = "GET /v1/agent/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
head += "Authorization: Bearer " + os.environ["NOMAD_TOKEN"] + "\r\n\r\n"
counts, lock = {}, threading.Lock()

def count(name):
    with lock:
        counts[name] = counts.get(name, 0) + 1

def ask():
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError as error:
            return "refused: " + str(error)
        try:
            client.sendall(head.encode())
            answer = client.recv(4096)
        except OSError:
            return "broken"
        return "answered: " + answer[9:12].decode() if answer else "broken"

def loop():
    while True:
        count(ask())
        time.sleep(0.02)

for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
while True:
    time.sleep(0.05)
    with lock:
        text = json.dumps(counts)
    with open(counts_path + ".new", "w") as file:
        file.write(text)
    os.rename(counts_path + ".new", counts_path)
"#;

fn job() -> Value {
    json!({ "Job": {
        "ID": "asks", "Name": "asks", "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "task", "Driver": "raw_exec",
                "Config": { "command": "/usr/bin/python3", "args": ["-c", TASK] },
                "Identity": { "Name": "default", "Env": true },
                "KillTimeout": 2_000_000_000_u64,
                "Resources": { "CPU": 20, "MemoryMB": 64 },
            }],
        }],
    }})
}

/// The counts of the task, by outcome.
#[derive(Debug)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn read(path: &PathBuf) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    fn of(&self, beginning: &str) -> u64 {
        let all = self.0.iter();
        let those = all.filter(|(name, _)| name.starts_with(beginning));
        those.map(|(_, count)| count).sum()
    }
}

/// Waits until the task got more answers of this kind than there are now.
async fn more(path: &PathBuf, kind: &str) -> anyhow::Result<Counts> {
    let before = Counts::read(path).map_or(0, |counts| counts.of(kind));
    eventually("more answers", PATIENCE, async || {
        let counts = Counts::read(path)?;
        Ok((counts.of(kind) > before).then_some(counts))
    })
    .await
}

fn restarts() -> anyhow::Result<usize> {
    match std::env::var(RESTARTS_VARIABLE) {
        Ok(text) => text.parse().context(RESTARTS_VARIABLE),
        Err(_) => Ok(RESTARTS),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connect_of_a_task_is_refused_while_noded_restarts() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let mut node = Node::start(&cluster).await?;
    let running = Running::start(&cluster, &job()).await?;
    running.until("running").await?;
    let path = node.alloc_dir(&running.alloc).join("task/local/counts");
    more(&path, "answered: 200").await?;
    let mut starts = 0;
    for round in 1..=restarts()? {
        node.kill()?;
        node.start_again()?;
        starts += 1;
        if round % KILLED_EARLY_EACH == 0 {
            let step = u32::try_from(round / KILLED_EARLY_EACH)?;
            tokio::time::sleep(EARLY_STEP * step).await;
            node.kill()?;
            node.start_again()?;
            starts += 1;
        }
        // By a server: a node without a session for 2.6 s is down, and its tasks are replaced.
        let counts = more(&path, "answered: 200").await;
        let counts = counts.with_context(|| format!("start {starts}: {}", node.log_end()))?;
        ensure!(counts.of("refused") == 0, "restart {round}: {counts:?}");
    }
    node.wait_ready(&cluster).await?;
    let counts = more(&path, "answered: 200").await?;
    println!("{starts} restarts: {counts:?}");
    ensure!(counts.of("refused") == 0, "{counts:?}");
    running.stop(&node).await?;
    node.must_have_no_tasks().await
}
