//! A saved snapshot is restored into the running cluster that it is of, with tasks running on.

use hack_cluster::{Cluster, Ledger, Node, Settings, eventually};
use protocol_client::{Client, Query};
use serde_json::{Value, json};

use crate::running::{PATIENCE, Process, Running, has_root, script};

const SNAPSHOT: &str = "/v1/operator/snapshot";
/// Says its process id and stays.
const SLEEPER: &str = "echo pid $$ >&2; while :; do sleep 0.1; done";

async fn save(client: &Client) -> anyhow::Result<Vec<u8>> {
    let mut stream = client.stream(SNAPSHOT, &Query::new()).await?;
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await? {
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

async fn restore(client: &Client, bytes: &[u8]) -> anyhow::Result<u64> {
    let pieces: Vec<_> = bytes.chunks(1000).map(<[u8]>::to_vec).collect();
    let body = futures::stream::iter(pieces.into_iter().map(|piece| Ok(piece.into())));
    let length = bytes.len() as u64;
    let answer = client
        .put_stream(SNAPSHOT, &Query::new(), length, body)
        .await?;
    Ok(answer.index)
}

fn sleeper(id: &str) -> Value {
    let never = json!({ "Attempts": 0, "Mode": "fail" });
    script(id, "service", SLEEPER, &never)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_are_restored_and_a_killed_one_still_has_it() -> anyhow::Result<()> {
    let settings = Settings::of(3).with("raft_snapshot_entries = 64");
    let mut cluster = Cluster::start(settings).await?;
    let mut saved_jobs = Ledger::default();
    for number in 0..20 {
        let client = cluster.client(number % 3)?;
        saved_jobs
            .register(&client, &format!("saved-{number}"))
            .await?;
    }
    let leader = cluster.leader().await?;
    let saved = save(&cluster.client(leader)?).await?;
    for number in 0..100 {
        let mut later = Ledger::default();
        let client = cluster.client(number % 3)?;
        later.register(&client, &format!("later-{number}")).await?;
    }
    // Sent to one that does not lead.
    let follower = (leader + 1) % 3;
    restore(&cluster.client(follower)?, &saved).await?;
    let exactly_what_was_saved = async |cluster: &Cluster| -> anyhow::Result<()> {
        cluster.must_hold(&saved_jobs).await?;
        for number in 0..cluster.len() {
            let jobs = cluster.jobs(number).await?;
            assert_eq!(jobs.len(), 20, "server {number}: {jobs:?}");
        }
        Ok(())
    };
    exactly_what_was_saved(&cluster).await?;
    // From its disk: log, pieces and all.
    for number in [follower, leader] {
        cluster.kill(number)?;
        cluster.restart(number).await?;
        exactly_what_was_saved(&cluster).await?;
    }
    // From a snapshot of the others.
    let fourth = cluster.add_server()?;
    cluster.wait_ready(fourth).await?;
    exactly_what_was_saved(&cluster).await?;
    // And it goes on.
    let client = cluster.client(fourth)?;
    saved_jobs.register(&client, "afterwards").await?;
    cluster.must_hold(&saved_jobs).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_on_whether_the_snapshot_knows_them_or_not() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let mut node = Node::start(&cluster).await?;
    let saved_task = Running::start(&cluster, &sleeper("saved")).await?;
    saved_task.until("running").await?;
    let saved_process = saved_task.process().await?;
    let saved_alloc = saved_task.alloc.clone();
    drop(saved_task);
    let leader = cluster.leader().await?;
    let saved = save(&cluster.client(leader)?).await?;
    let later_task = Running::start(&cluster, &sleeper("later")).await?;
    later_task.until("running").await?;
    let later_process = later_task.process().await?;
    let later_alloc = later_task.alloc.clone();
    drop(later_task);

    restore(&cluster.client((leader + 1) % 3)?, &saved).await?;
    let gone = cluster
        .client(0)?
        .get::<Value>("/v1/job/later", &Query::new())
        .await;
    assert_eq!(gone.err().and_then(|error| error.status()), Some(404));
    node.wait_ready(&cluster).await?;
    let task = Running::find(&cluster, "saved", &saved_alloc);
    task.until("running").await?;
    let both_run = || {
        for process in [saved_process, later_process] {
            assert_eq!(Process::find(process.pid), Some(process), "it was killed");
        }
    };
    both_run();
    // The node follows the new incarnation: what it is told of now is done.
    let after = Running::start(&cluster, &sleeper("after")).await?;
    after.until("running").await?;
    both_run();
    drop(after);

    // Neither a new daemon nor a new leader changes that.
    node.kill()?;
    node.start_again()?;
    node.wait_ready(&cluster).await?;
    let leader = cluster.leader().await?;
    cluster.kill(leader)?;
    cluster.leader().await?;
    node.wait_ready(&cluster).await?;
    cluster.restart(leader).await?;
    let late = Running::start(&cluster, &sleeper("late")).await?;
    late.until("running").await?;
    drop(late);
    both_run();
    let task = Running::find(&cluster, "saved", &saved_alloc);
    task.until("running").await?;

    // What the state knows is stopped by it; the other one only by somebody on the host.
    let client = cluster.client(0)?;
    for job in ["saved", "after", "late"] {
        client
            .delete::<Value>(&format!("/v1/job/{job}"), &Query::new())
            .await?;
    }
    eventually("one task is left", PATIENCE, async || {
        Ok((node.task_processes()?.len() <= 2).then_some(()))
    })
    .await?;
    assert_eq!(Process::find(later_process.pid), Some(later_process));
    assert!(Process::find(saved_process.pid).is_none());
    let unknown = format!("/v1/allocation/{later_alloc}");
    let unknown = client.get::<Value>(&unknown, &Query::new()).await;
    assert_eq!(unknown.err().and_then(|error| error.status()), Some(404));
    Ok(())
}
