//! Three servers, used through those that do not lead.

use std::time::Duration;

use hack_cluster::{Cluster, Ledger, Settings, eventually};
use protocol_client::Query;
use serde_json::Value;

/// A refusal takes ten seconds: as long as a server waits for a leader.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_write_through_a_follower_is_read_at_once_everywhere() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings::of(3)).await?;
    let leader = cluster.leader().await?;
    let mut ledger = Ledger::default();
    for number in 0..20 {
        let writer = (leader + 1 + number % 2) % 3;
        let id = format!("job-{number}");
        let index = ledger.register(&cluster.client(writer)?, &id).await?;
        // Consistent reads: no waiting, on no server.
        for reader in 0..3 {
            let path = format!("/v1/job/{id}");
            let client = cluster.client(reader)?;
            let answer = client.get::<Value>(&path, &Query::new()).await?;
            assert_eq!(answer.value["JobModifyIndex"], index, "server {reader}");
            assert!(answer.known_leader && answer.index >= index);
        }
    }
    cluster.must_hold(&ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_majority_answers_stale_reads_only() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let mut ledger = Ledger::default();
    ledger.register(&cluster.client(0)?, "known").await?;
    cluster.must_hold(&ledger).await?;
    cluster.kill(1)?;
    cluster.kill(2)?;
    assert_eq!(cluster.jobs_stale(0).await?, ledger.acknowledged);
    // A leader may answer until its lease has run out.
    let refused = eventually("refused reads", PATIENCE, async || {
        Ok(cluster.jobs(0).await.err())
    })
    .await?;
    assert_eq!(refused.to_string(), "No cluster leader");
    let mut lost = Ledger::default();
    lost.register(&cluster.client(0)?, "unknown")
        .await
        .expect_err("there is no majority");
    cluster.spawn(1)?;
    cluster.restart(2).await?;
    cluster.wait_ready(1).await?;
    ledger.register(&cluster.client(2)?, "again").await?;
    cluster.must_hold(&ledger).await
}
