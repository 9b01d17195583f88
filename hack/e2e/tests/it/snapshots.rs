//! New members, which get the state by snapshot because the log does not go back that far.

use std::time::Duration;

use hack_cluster::{Cluster, Ledger, Settings, eventually};
use protocol_client::Query;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);
/// Enough for several snapshots.
const JOBS: usize = 200;

async fn cluster_with_snapshots() -> anyhow::Result<(Cluster, Ledger)> {
    let settings = Settings::of(3).with("raft_snapshot_entries = 64");
    let cluster = Cluster::start(settings).await?;
    let mut ledger = Ledger::default();
    for number in 0..JOBS {
        let client = cluster.client(number % 3)?;
        ledger.register(&client, &format!("job-{number}")).await?;
    }
    cluster.must_hold(&ledger).await?;
    Ok((cluster, ledger))
}

/// The index of the newest snapshot that a server has.
async fn snapshot_index(cluster: &Cluster, number: usize) -> anyhow::Result<u64> {
    let own = cluster.agent(number).await?;
    let index = own["stats"]["raft"]["last_snapshot_index"].as_str();
    Ok(index.unwrap_or_default().parse()?)
}

/// The log's members: id, address, whether it votes.
async fn members(cluster: &Cluster, asked: usize) -> anyhow::Result<Vec<(String, String, bool)>> {
    let path = "/v1/operator/raft/configuration";
    let client = cluster.client(asked)?;
    let answer = client.get::<Value>(path, &Query::new()).await?.value;
    let servers = answer["Servers"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(servers
        .iter()
        .map(|server| {
            let votes = server["Voter"] == true;
            (text(&server["ID"]), text(&server["Address"]), votes)
        })
        .collect())
}

async fn votes(cluster: &Cluster, asked: usize, id: &str) -> anyhow::Result<()> {
    let what = format!("server {id} votes");
    eventually(&what, PATIENCE, async || {
        let members = members(cluster, asked).await?;
        let found = members.iter().any(|(own, _, votes)| own == id && *votes);
        Ok(found.then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_server_gets_the_state_by_snapshot_and_votes() -> anyhow::Result<()> {
    let (mut cluster, mut ledger) = cluster_with_snapshots().await?;
    let leader = cluster.leader().await?;
    let before = snapshot_index(&cluster, leader).await?;
    assert!(before > 64, "the leader has made snapshots: {before}");
    let fourth = cluster.add_server()?;
    cluster.wait_ready(fourth).await?;
    cluster.must_hold(&ledger).await?;
    let own = snapshot_index(&cluster, fourth).await?;
    assert!(own > 0, "the state came by snapshot, not entry by entry");
    let id = cluster.server_id(fourth).await?;
    votes(&cluster, leader, &id).await?;
    ledger
        .register(&cluster.client(fourth)?, "through-the-fourth")
        .await?;
    cluster.must_hold(&ledger).await?;
    // It keeps what it was given.
    cluster.kill(fourth)?;
    cluster.restart(fourth).await?;
    assert_eq!(cluster.server_id(fourth).await?, id);
    cluster.must_hold(&ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_whose_directory_was_emptied_comes_back_as_somebody_else() -> anyhow::Result<()> {
    let (mut cluster, ledger) = cluster_with_snapshots().await?;
    let leader = cluster.leader().await?;
    let victim = (leader + 1) % 3;
    let old = cluster.server_id(victim).await?;
    cluster.terminate(victim).await?;
    cluster.empty(victim)?;
    cluster.restart(victim).await?;
    let new = cluster.server_id(victim).await?;
    assert_ne!(new, old, "an empty directory knows nothing of its vote");
    votes(&cluster, leader, &new).await?;
    cluster.must_hold(&ledger).await?;
    let address = format!("127.0.0.1:{}", cluster.ports(victim).quic);
    let holders: Vec<_> = members(&cluster, leader).await?;
    let holders: Vec<_> = holders.iter().filter(|(_, at, _)| *at == address).collect();
    assert!(holders.iter().any(|(id, _, _)| *id == new), "{holders:?}");
    Ok(())
}
