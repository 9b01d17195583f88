//! A periodic job on real processes: leaders are killed shortly before its times, and each time is
//! launched once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::drains::set;
use crate::running::{PATIENCE, has_root, script};

/// From one launch to the next, in seconds.
const PERIOD: u64 = 3;
/// How long before a time the leader is killed.
const BEFORE: Duration = Duration::from_millis(200);
const KILLS: usize = 2;

/// Each launch adds a line with its job's id to `lines`.
fn job(lines: &Path) -> Value {
    let text = format!("echo $NOMAD_JOB_ID >> {}", lines.display());
    let mut job = script(
        "tick",
        "batch",
        &text,
        &json!({ "Attempts": 0, "Mode": "fail" }),
    );
    job["Job"]["Periodic"] = json!({
        "Enabled": true, "SpecType": "cron", "Spec": format!("*/{PERIOD} * * * * * *"),
    });
    job
}

fn now() -> anyhow::Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// The times that were launched, in Unix seconds.
async fn launched(cluster: &Cluster) -> anyhow::Result<BTreeSet<u64>> {
    let query = Query::new().with("prefix", "tick/periodic-");
    let jobs = cluster.get("/v1/jobs", &query).await?;
    let jobs = jobs.as_array().context("a list")?;
    let ids = jobs.iter().filter_map(|job| job["ID"].as_str());
    let times = ids.filter_map(|id| id.strip_prefix("tick/periodic-"));
    Ok(times.map(str::parse).collect::<Result<_, _>>()?)
}

/// Once a time that is `at` or later was launched.
async fn until_launched(cluster: &Cluster, at: u64) -> anyhow::Result<()> {
    eventually(&format!("the launch of {at}"), PATIENCE, async || {
        let times = launched(cluster).await?;
        Ok(times.last().is_some_and(|last| *last >= at).then_some(()))
    })
    .await
}

/// From when to when nobody led.
struct Outage {
    from: Duration,
    until: Duration,
}

/// Kills the leader shortly before the next time, and starts it again under another one.
async fn lose_leader(cluster: &mut Cluster) -> anyhow::Result<Outage> {
    let leader = cluster.leader().await?;
    let next = Duration::from_secs((now()?.as_secs() / PERIOD + 1) * PERIOD);
    let left = (next - BEFORE).saturating_sub(now()?);
    tokio::time::sleep(left).await;
    let from = now()?;
    cluster.kill(leader)?;
    cluster.leader().await?;
    let until = now()?;
    cluster.spawn(leader)?;
    until_launched(cluster, next.as_secs()).await?;
    Ok(Outage { from, until })
}

/// Whether the newest time of an outage is another one: this is not made up for then.
fn may_be_skipped(outages: &[Outage], at: u64) -> bool {
    let (at, next) = (Duration::from_secs(at), Duration::from_secs(at + PERIOD));
    let mut outages = outages.iter();
    outages.any(|outage| outage.from < at + BEFORE && outage.until + BEFORE > next)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_time_is_launched_once_over_killed_leaders() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let node = Node::start(&cluster).await?;
    let lines = cluster.folder().join("launches");
    set(&cluster, "/v1/jobs", &job(&lines)).await?;
    let registered = now()?.as_secs();
    let mut outages = Vec::new();
    for _ in 0..KILLS {
        outages.push(lose_leader(&mut cluster).await?);
    }
    let times = launched(&cluster).await?;
    let last = *times.last().context("a launch")?;
    let first = (registered / PERIOD + 1) * PERIOD;
    for at in (first..=last).step_by(usize::try_from(PERIOD)?) {
        let there = times.contains(&at) || may_be_skipped(&outages, at);
        ensure!(there, "{at} was forgotten: {times:?}");
    }
    let leader = cluster.leader().await?;
    let client = cluster.client(leader)?;
    client
        .delete::<Value>("/v1/job/tick", &Query::new())
        .await?;
    let times = launched(&cluster).await?;
    eventually("one run of each launch", PATIENCE, async || {
        let text = std::fs::read_to_string(&lines)?;
        let ran: Vec<&str> = text.lines().collect();
        let different: BTreeSet<&str> = ran.iter().copied().collect();
        assert_eq!(ran.len(), different.len(), "a launch ran twice: {text}");
        let all = times.iter().map(|at| format!("tick/periodic-{at}"));
        let ended = all.into_iter().all(|id| different.contains(id.as_str()));
        ensure!(ended, "{times:?} were launched, {text} ran");
        Ok(Some(()))
    })
    .await?;
    node.must_have_no_tasks().await
}
