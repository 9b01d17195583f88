//! One server with its log on disk.

use hack_cluster::{Cluster, Ledger, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn one_server_killed_and_started_again_has_every_acknowledged_job() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(1)).await?;
    let mut ledger = Ledger::default();
    for round in 0..3 {
        let client = cluster.client(0)?;
        for number in 0..25 {
            ledger
                .register(&client, &format!("job-{round}-{number}"))
                .await?;
        }
        cluster.kill(0)?;
        cluster.restart(0).await?;
        cluster.must_hold(&ledger).await?;
    }
    assert_eq!(cluster.jobs(0).await?, ledger.acknowledged);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_end_exits_with_success_and_goes_on_later() -> anyhow::Result<()>
{
    let mut cluster = Cluster::start(Settings::of(1)).await?;
    let mut ledger = Ledger::default();
    ledger.register(&cluster.client(0)?, "before").await?;
    let status = cluster.terminate(0).await?;
    assert!(status.success(), "{status}");
    cluster.restart(0).await?;
    cluster.must_hold(&ledger).await?;
    ledger.register(&cluster.client(0)?, "after").await?;
    cluster.must_hold(&ledger).await
}
