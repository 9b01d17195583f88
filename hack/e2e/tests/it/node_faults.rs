//! A task that counts aloud while everything around it is killed.

use hack_cluster::{Cluster, Helper, Node, Settings, eventually};
use serde_json::json;

use crate::running::{PATIENCE, Process, Running, has_root, script};

/// Says its process id, then counts, a hundred times a second.
const COUNTER: &str = "echo pid $$ >&2; i=0; \
                       while :; do i=$((i+1)); echo $i; sleep 0.01; done";
const ROUNDS: usize = 3;
/// What pump reads at once: it may be lost with it.
const READ_BUFFER_BYTES: usize = 64 * 1024;

fn counter() -> serde_json::Value {
    let never = json!({ "Attempts": 0, "Mode": "fail" });
    script("counter", "service", COUNTER, &never)
}

/// The task is the same process, the API says that it runs, and its log goes on.
async fn goes_on(task: &Running<'_>, process: Process) -> anyhow::Result<()> {
    // The node may be looking for a server: then there is no way to its logs for a moment.
    let mut before = None;
    eventually("more output", PATIENCE, async || {
        let now = numbers(&task.logs("stdout").await?)?;
        let now = now.last().copied().unwrap_or_default();
        let goal = *before.get_or_insert(now) + 20;
        Ok((now >= goal).then_some(()))
    })
    .await?;
    task.until("running").await?;
    assert_eq!(Process::find(process.pid), Some(process), "another process");
    Ok(())
}

fn numbers(text: &str) -> anyhow::Result<Vec<usize>> {
    // The last line may still be on its way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(|line| {
        let number = line.parse();
        number.map_err(|_| anyhow::anyhow!("a line that nobody wrote: {line:?}"))
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_kill_9_of_everybody_and_its_log_is_complete() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(1)).await?;
    let mut node = Node::start(&cluster).await?;
    let task = Running::start(&cluster, &counter()).await?;
    task.until("running").await?;
    let process = task.process().await?;
    let alloc = task.alloc.clone();
    drop(task);
    for _ in 0..ROUNDS {
        cluster.kill(0)?;
        cluster.restart(0).await?;
        node.wait_ready(&cluster).await?;
        let task = Running::find(&cluster, "counter", &alloc);
        goes_on(&task, process).await?;

        node.kill()?;
        node.start_again()?;
        goes_on(&task, process).await?;

        node.kill_helper(Helper::Keeper).await?;
        goes_on(&task, process).await?;
    }
    // All at once.
    cluster.kill(0)?;
    node.kill()?;
    node.kill_helper_for_good(Helper::Keeper)?;
    cluster.restart(0).await?;
    node.start_again()?;
    node.wait_ready(&cluster).await?;
    let task = Running::find(&cluster, "counter", &alloc);
    goes_on(&task, process).await?;
    let found = numbers(&task.logs("stdout").await?)?;
    let gap = (1..).zip(&found).find(|(wanted, own)| wanted != *own);
    assert_eq!(gap, None, "the log has a gap or a repetition");
    task.stop(&node).await?;
    node.must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_pump_costs_one_read_buffer_at_most() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let task = Running::start(&cluster, &counter()).await?;
    task.until("running").await?;
    let process = task.process().await?;
    for _ in 0..ROUNDS {
        node.kill_helper(Helper::Pump).await?;
        goes_on(&task, process).await?;
    }
    let found = numbers(&task.logs("stdout").await?)?;
    assert!(found.is_sorted_by(|a, b| a < b), "repeated or out of order");
    let last = found.last().copied().unwrap_or_default();
    let written: usize = (1..=last).map(|number| number.to_string().len() + 1).sum();
    let kept: usize = found
        .iter()
        .map(|number| number.to_string().len() + 1)
        .sum();
    eprintln!("{} bytes of {written} are missing", written - kept);
    assert!(written - kept <= ROUNDS * READ_BUFFER_BYTES);
    task.stop(&node).await?;
    node.must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_the_leaders_of_three_servers() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let mut node = Node::start(&cluster).await?;
    let task = Running::start(&cluster, &counter()).await?;
    task.until("running").await?;
    let process = task.process().await?;
    let alloc = task.alloc.clone();
    drop(task);
    for _ in 0..ROUNDS {
        let leader = cluster.leader().await?;
        cluster.kill(leader)?;
        cluster.leader().await?;
        node.wait_ready(&cluster).await?;
        goes_on(&Running::find(&cluster, "counter", &alloc), process).await?;
        cluster.restart(leader).await?;
    }
    for number in 0..3 {
        cluster.terminate(number).await?;
        cluster.restart(number).await?;
    }
    node.wait_ready(&cluster).await?;
    let task = Running::find(&cluster, "counter", &alloc);
    goes_on(&task, process).await?;
    let found = numbers(&task.logs("stdout").await?)?;
    let gap = (1..).zip(&found).find(|(wanted, own)| wanted != *own);
    assert_eq!(gap, None, "the log has a gap or a repetition");
    task.stop(&node).await?;
    node.must_have_no_tasks().await
}
