//! Dispatches on real servers, 50 in a second, while the leader is killed: a client that is not
//! answered asks another server with the same token, and each token has one child.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hack_cluster::{Cluster, Settings, eventually};
use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::drains::set;
use crate::running::PATIENCE;

const EVERY: Duration = Duration::from_millis(20);
const COUNT: usize = 250;
/// The dispatches before which the leader is killed, and started again.
const KILLED_AT: usize = 60;
const BACK_AT: usize = 170;
/// Each of so many tokens is sent by two clients at once.
const TWICE_EVERY: usize = 10;
/// How long a client waits for an answer before it asks another server.
const CALL_MAX: Duration = Duration::from_secs(3);

fn template() -> Value {
    json!({ "Job": {
        "ID": "work", "Name": "work", "Type": "batch", "Datacenters": ["nowhere"],
        "ParameterizedJob": { "MetaRequired": ["number"] },
        "TaskGroups": [{ "Name": "group", "Count": 1, "Tasks": [{
            "Name": "task", "Driver": "raw_exec", "Config": { "command": "/bin/true" },
        }]}],
    }})
}

/// Dispatches number `number` until it is acknowledged, and answers its number and its child.
async fn dispatch(
    servers: Vec<Client>,
    number: usize,
    first: usize,
) -> anyhow::Result<(usize, String)> {
    let query = Query::new().with("idempotency_token", format!("token-{number}"));
    let body = json!({ "Meta": { "number": number.to_string() } });
    let begun = Instant::now();
    for attempt in first.. {
        let client = &servers[attempt % servers.len()];
        let asked = client.put::<_, Value>("/v1/job/work/dispatch", &query, &body);
        let error = match timeout(CALL_MAX, asked).await {
            Ok(Ok(answer)) => {
                let child = answer.value["DispatchedJobID"].as_str();
                return Ok((number, child.context("no child's id")?.to_owned()));
            }
            Ok(Err(ClientError::Status { code, message })) if code < 500 => {
                bail!("dispatch {number} was refused: {code} {message}")
            }
            Ok(Err(error)) => anyhow::Error::new(error),
            Err(_) => anyhow::anyhow!("no answer within {CALL_MAX:?}"),
        };
        if begun.elapsed() > PATIENCE {
            return Err(error.context(format!("dispatch {number}")));
        }
        tokio::time::sleep(EVERY).await;
    }
    bail!("dispatch {number} was never acknowledged")
}

/// All dispatches, each begun in its time whatever became of those before.
async fn dispatch_all(cluster: &mut Cluster) -> anyhow::Result<BTreeMap<usize, String>> {
    let servers = (0..cluster.len()).map(|number| cluster.client(number));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut clients = JoinSet::new();
    let mut killed = None;
    for number in 0..COUNT {
        ticks.tick().await;
        if number == KILLED_AT {
            let leader = cluster.leader().await?;
            cluster.kill(leader)?;
            killed = Some(leader);
        }
        if number == BACK_AT
            && let Some(killed) = killed
        {
            cluster.spawn(killed)?;
        }
        clients.spawn(dispatch(servers.clone(), number, number));
        if number % TWICE_EVERY == 0 {
            clients.spawn(dispatch(servers.clone(), number, number + 1));
        }
    }
    let mut children = BTreeMap::new();
    while let Some(done) = clients.join_next().await {
        let (number, child) = done.context("a client panicked")??;
        let known = children.entry(number).or_insert_with(|| child.clone());
        ensure!(*known == child, "{number} was answered {known} and {child}");
    }
    Ok(children)
}

/// The children that a server has, with their numbers.
async fn children_of(client: &Client, query: &Query) -> anyhow::Result<Vec<(usize, String)>> {
    let query = query.clone().with("prefix", "work/dispatch-");
    let query = query.with("meta", "true");
    let jobs = client.get::<Vec<Value>>("/v1/jobs", &query).await?.value;
    let children = jobs.iter().map(|job| {
        let number = job["Meta"]["number"].as_str().context("no number")?;
        let id = job["ID"].as_str().context("no id")?;
        Ok((number.parse()?, id.to_owned()))
    });
    children.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatches_over_a_killed_leader_launch_one_child_per_token() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    set(&cluster, "/v1/jobs", &template()).await?;
    let begun = Instant::now();
    let acknowledged = dispatch_all(&mut cluster).await?;
    eprintln!("{COUNT} dispatches in {:?}", begun.elapsed());
    ensure!(acknowledged.len() == COUNT, "{}", acknowledged.len());
    let different: BTreeSet<&String> = acknowledged.values().collect();
    ensure!(different.len() == COUNT, "{} children", different.len());
    for number in 0..cluster.len() {
        cluster.wait_ready(number).await?;
        let client = cluster.client(number)?;
        let stale = Query::new().with("stale", "");
        eventually("all children and no other", PATIENCE, async || {
            let found = children_of(&client, &stale).await?;
            ensure!(found.len() == COUNT, "{} children", found.len());
            let found: BTreeMap<usize, String> = found.into_iter().collect();
            ensure!(found == acknowledged, "other children");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
