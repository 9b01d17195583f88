//! Hundreds of nodes with real sessions: everybody comes back at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hack_cluster::{Cluster, Fleet, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

const NODES: usize = 200;
/// Enough for some hundred sessions in debug builds on a host where much else goes on.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than any test.
const WINDOW: Duration = Duration::from_secs(600);

/// Heartbeats as rare as many nodes on one small host want them: their number is under test here,
/// not their speed.
fn rare_heartbeats(servers: usize) -> Settings {
    Settings::of(servers)
        .with("heartbeat_interval = \"1s\"")
        .with_silence("8s")
}

/// A service without a process. `window`: how long its allocations may be silent.
fn service(id: &str, count: usize, window: Option<Duration>) -> Value {
    let mut group = json!({
        "Name": "group", "Count": count,
        "EphemeralDisk": { "SizeMB": 10 },
        "Tasks": [{
            "Name": "task", "Driver": "mock_driver", "Config": {},
            "Resources": { "CPU": 10, "MemoryMB": 10 },
            "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 1 },
        }],
    });
    if let Some(window) = window {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        group["Disconnect"] = json!({ "LostAfter": nanos, "Replace": false });
    }
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"], "TaskGroups": [group],
    }})
}

/// The same whose tasks start with two signed identities each.
fn identified(id: &str, count: usize) -> Value {
    let mut job = service(id, count, None);
    let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
    task["Identity"] = json!({ "Name": "default", "Env": true });
    task["Identities"] = json!([{
        "Name": "cloud", "Audience": ["cloud.example"], "TTL": 20_000_000_000_u64, "File": true,
    }]);
    job
}

/// The allocations of a job that should run, with the nodes that they are on.
async fn wanted(cluster: &Cluster, job: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let path = format!("/v1/job/{job}/allocations");
    let allocs = cluster.get(&path, &Query::new()).await?;
    let running = allocs
        .as_array()
        .into_iter()
        .flatten()
        .filter(|alloc| alloc["ClientStatus"] == "running" && alloc["DesiredStatus"] == "run");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(running
        .map(|alloc| (text(&alloc["ID"]), text(&alloc["NodeID"])))
        .collect())
}

/// Waits until `count` allocations of a job run.
async fn all_run(
    cluster: &Cluster,
    job: &str,
    count: usize,
) -> anyhow::Result<BTreeMap<String, String>> {
    eventually(&format!("{count} of {job}"), PATIENCE, async || {
        let wanted = wanted(cluster, job).await?;
        anyhow::ensure!(wanted.len() == count, "{} of {count} run", wanted.len());
        Ok(Some(wanted))
    })
    .await
}

/// What really goes on: each run of a task, by its allocation and node.
async fn going_on(fleet: &mut Fleet) -> anyhow::Result<Vec<(String, String)>> {
    let answer = fleet.tell("running").await?;
    let runs = answer["running"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(runs
        .iter()
        .map(|run| (text(&run["alloc"]), text(&run["node"])))
        .collect())
}

/// Nodes by their status.
async fn statuses(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, usize>> {
    let nodes = cluster.get("/v1/nodes", &Query::new()).await?;
    let mut counts = BTreeMap::new();
    for node in nodes.as_array().into_iter().flatten() {
        let status = node["Status"].as_str().unwrap_or_default();
        *counts.entry(status.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

/// Per node, the entry of the log that changed it last.
async fn changed_at(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, u64>> {
    eventually("the nodes' records", PATIENCE, async || {
        let nodes = cluster.get("/v1/nodes", &Query::new()).await?;
        let entry = |node: &Value| {
            Some((
                node["ID"].as_str()?.to_owned(),
                node["ModifyIndex"].as_u64()?,
            ))
        };
        Ok(Some(
            nodes
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(entry)
                .collect(),
        ))
    })
    .await
}

async fn all_ready(cluster: &Cluster, nodes: usize) -> anyhow::Result<()> {
    eventually("every node ready", PATIENCE, async || {
        let counts = statuses(cluster).await?;
        anyhow::ensure!(counts.get("ready") == Some(&nodes), "{counts:?}");
        Ok(Some(()))
    })
    .await
}

async fn register(cluster: &Cluster, job: &Value) -> anyhow::Result<()> {
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), job)
        .await?;
    Ok(())
}

/// What runs is what is wanted: every allocation once, where it was placed, and nothing else.
async fn must_agree(fleet: &mut Fleet, jobs: &[&BTreeMap<String, String>]) -> anyhow::Result<()> {
    let expected: BTreeSet<(String, String)> = jobs
        .iter()
        .flat_map(|job| {
            job.iter()
                .map(|(alloc, node)| (alloc.clone(), node.clone()))
        })
        .collect();
    let what = "what runs is what is wanted";
    eventually(what, PATIENCE, async || {
        let runs = going_on(fleet).await?;
        let distinct: BTreeSet<(String, String)> = runs.iter().cloned().collect();
        // Never, not even for a moment: keeper would not have begun it.
        assert_eq!(distinct.len(), runs.len(), "an allocation runs twice");
        anyhow::ensure!(
            distinct == expected,
            "{} run, {} are wanted",
            runs.len(),
            expected.len()
        );
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_all_come_back_at_once_keep_what_is_tolerated_and_nothing_runs_twice()
-> anyhow::Result<()> {
    let cluster = Cluster::start(rare_heartbeats(3).alone()).await?;
    let mut fleet = Fleet::start(&cluster, NODES).await?;
    all_ready(&cluster, NODES).await?;
    register(&cluster, &service("patient", NODES, Some(WINDOW))).await?;
    register(&cluster, &service("hasty", NODES, None)).await?;
    let patient = all_run(&cluster, "patient", NODES).await?;
    all_run(&cluster, "hasty", NODES).await?;

    fleet.tell(&format!("cut 0..{NODES}")).await?;
    eventually("no node ready", PATIENCE, async || {
        let counts = statuses(&cluster).await?;
        anyhow::ensure!(!counts.contains_key("ready"), "{counts:?}");
        Ok(Some(()))
    })
    .await?;
    fleet.tell("heal").await?;
    let live = fleet.tell("live 90").await?;
    assert_eq!(live["missing"], 0, "{live}");
    all_ready(&cluster, NODES).await?;

    assert_eq!(
        all_run(&cluster, "patient", NODES).await?,
        patient,
        "the same went on"
    );
    let hasty = all_run(&cluster, "hasty", NODES).await?;
    must_agree(&mut fleet, &[&patient, &hasty]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_servers_die_and_come_back_no_node_leaves_and_no_task_is_touched()
-> anyhow::Result<()> {
    let mut cluster = Cluster::start(rare_heartbeats(3).alone()).await?;
    let mut fleet = Fleet::start(&cluster, NODES).await?;
    all_ready(&cluster, NODES).await?;
    register(&cluster, &service("steady", NODES, None)).await?;
    let before = all_run(&cluster, "steady", NODES).await?;
    let told = fleet.tell("stats").await?;
    for number in 0..3 {
        cluster.kill(number)?;
    }
    for number in 0..3 {
        cluster.spawn(number)?;
    }
    for number in 0..3 {
        cluster.wait_ready(number).await?;
    }
    let live = fleet.tell("live 90").await?;
    assert_eq!(live["missing"], 0, "{live}");
    all_ready(&cluster, NODES).await?;

    assert_eq!(
        all_run(&cluster, "steady", NODES).await?,
        before,
        "the same went on"
    );
    must_agree(&mut fleet, &[&before]).await?;
    let now = fleet.tell("stats").await?;
    for count in ["starts", "stops", "ends"] {
        assert_eq!(now["stats"][count], told["stats"][count], "{count}");
    }
    Ok(())
}

/// Nodes of which none may be taken for silent: few enough for heartbeats as they are.
const FEW: usize = 50;
/// Until nodes that try in vain wait as long as they ever do: an attempt takes five seconds.
const LONG_AWAY: Duration = Duration::from_secs(75);
/// Longer than a leader of three servers leaves nodes to come back then, before it takes them for
/// silent: 29 s and 2.6.
const GIVEN: Duration = Duration::from_secs(36);

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_time_to_return_where_one_server_stays_away_after_an_outage()
-> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let mut fleet = Fleet::start(&cluster, FEW).await?;
    all_ready(&cluster, FEW).await?;
    register(&cluster, &service("hasty", FEW, None)).await?;
    let before = all_run(&cluster, "hasty", FEW).await?;
    for number in 0..3 {
        cluster.kill(number)?;
    }
    tokio::time::sleep(LONG_AWAY).await;
    for number in 0..2 {
        cluster.spawn(number)?;
    }
    for number in 0..2 {
        cluster.wait_ready(number).await?;
    }
    tokio::time::sleep(GIVEN).await;
    let live = fleet.tell("live 1").await?;
    assert_eq!(live["missing"], 0, "{live}");
    all_ready(&cluster, FEW).await?;
    assert_eq!(
        all_run(&cluster, "hasty", FEW).await?,
        before,
        "the same went on"
    );
    must_agree(&mut fleet, &[&before]).await
}

/// Longer than a node may be silent here, and than what it is given when its server dies.
const UNHEARD: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread")]
async fn whichever_server_is_killed_takes_no_node_with_it() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(rare_heartbeats(3)).await?;
    let mut fleet = Fleet::start(&cluster, FEW).await?;
    all_ready(&cluster, FEW).await?;
    register(&cluster, &service("steady", FEW, None)).await?;
    let before = all_run(&cluster, "steady", FEW).await?;
    let ready_since = changed_at(&cluster).await?;
    assert_eq!(ready_since.len(), FEW);
    for number in 0..3 {
        cluster.kill(number)?;
        tokio::time::sleep(UNHEARD).await;
        let live = fleet.tell("live 90").await?;
        assert_eq!(live["missing"], 0, "server {number}: {live}");
        cluster.spawn(number)?;
        cluster.wait_ready(number).await?;
        // Nothing of a node is in the log but what it says of itself: its session went on.
        assert_eq!(changed_at(&cluster).await?, ready_since, "server {number}");
    }
    assert_eq!(
        all_run(&cluster, "steady", FEW).await?,
        before,
        "the same went on"
    );
    must_agree(&mut fleet, &[&before]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_fleet_start_once_their_identities_are_signed() -> anyhow::Result<()> {
    const SMALL: usize = 20;
    let cluster = Cluster::start(rare_heartbeats(1)).await?;
    let mut fleet = Fleet::start(&cluster, SMALL).await?;
    let body = identified("identified", 3 * SMALL);
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &body)
        .await?;
    let wanted = all_run(&cluster, "identified", 3 * SMALL).await?;
    let going_on: BTreeSet<_> = going_on(&mut fleet).await?.into_iter().collect();
    assert_eq!(going_on, wanted.into_iter().collect());
    Ok(())
}
