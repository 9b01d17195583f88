//! Many large jobs at once: decisions that are made side by side do not get in each other's way.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use hack_cluster::{Cluster, Fleet, Settings};
use protocol_client::{Client, Query};
use serde_json::{Value, json};

const NODES: usize = 100;
const JOBS: usize = 24;
const INSTANCES: usize = 55;
/// A simulated node has room for 20 of them: two thirds of the room are asked for. Where the last
/// tenth is asked for by several decisions at once, they have to choose the same nodes.
const MHZ: u64 = 200;
/// Decided placements of which the log refused more are no exception: the decisions chose the same
/// nodes. An idle machine has none; where the processors are busy with other things, a decision
/// is older when it is checked (5 % were seen).
const REFUSED_PERCENT_MAX: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(120);

fn service(id: &str) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": INSTANCES,
            "EphemeralDisk": { "SizeMB": 10 },
            "Tasks": [{
                "Name": "task", "Driver": "mock_driver", "Config": {},
                "Resources": { "CPU": MHZ, "MemoryMB": 10 },
                "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 1 },
            }],
        }],
    }})
}

/// How many placements run, and how many were ever decided.
struct Progress {
    running: u64,
    decided: u64,
}

async fn progress(client: &Client) -> anyhow::Result<Progress> {
    let metrics = client.get::<Value>("/v1/metrics", &Query::new()).await?;
    let find = |list: &str, name: &str, field: &str| {
        let all = metrics.value[list].as_array().into_iter().flatten();
        let mut named = all.filter(|one| one["Name"] == name);
        let value = named.next().and_then(|one| one[field].as_f64());
        value.and_then(|value| format!("{value:.0}").parse::<u64>().ok())
    };
    let running = find("Gauges", "drover.allocs.running", "Value");
    Ok(Progress {
        running: running.context("no gauge drover.allocs.running")?,
        decided: find("Counters", "drover.placements_decided", "Count").unwrap_or(0),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_at_once_are_placed_and_few_placements_are_refused() -> anyhow::Result<()> {
    let settings = Settings::of(1)
        .with("num_schedulers = 4")
        .with("heartbeat_interval = \"1s\"")
        .with_silence("8s");
    let cluster = Cluster::start(settings).await?;
    let _fleet = Fleet::start(&cluster, NODES).await?;
    let client = cluster.client(0)?;
    let mut registrations = tokio::task::JoinSet::new();
    for number in 0..JOBS {
        let client = cluster.client(0)?;
        registrations.spawn(async move {
            let job = service(&format!("burst-{number}"));
            client
                .put::<_, Value>("/v1/jobs", &Query::new(), &job)
                .await
        });
    }
    let all = u64::try_from(JOBS * INSTANCES)?;
    let begun = Instant::now();
    let last = loop {
        let seen = progress(&client).await?;
        if seen.running == all {
            break seen;
        }
        let took = begun.elapsed();
        anyhow::ensure!(
            took < PATIENCE,
            "{} of {all} run after {took:?}",
            seen.running
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for registered in registrations.join_all().await {
        registered?;
    }
    let took = begun.elapsed();
    let refused = last.decided.saturating_sub(all);
    println!("{all} run after {took:?}; {refused} refused");
    anyhow::ensure!(last.decided >= all, "{} were decided", last.decided);
    anyhow::ensure!(
        refused * 100 <= last.decided * REFUSED_PERCENT_MAX,
        "{refused} of {} decided placements were refused",
        last.decided
    );
    Ok(())
}
