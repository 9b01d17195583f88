//! Three servers under load while they are killed and restarted.

use std::time::Duration;

use hack_cluster::{Cluster, Ledger, Load, Settings};

const CLIENTS: usize = 4;
/// A kill costs an election; the load goes on within seconds.
const SLOWEST_MAX: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_leaders_are_killed() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let load = Load::start(&cluster, CLIENTS)?;
    for _ in 0..3 {
        load.progress(40).await?;
        let leader = cluster.leader().await?;
        cluster.kill(leader)?;
        // The two that are left elect one of them, and the load goes on without the third.
        load.progress(40).await?;
        cluster.restart(leader).await?;
    }
    load.progress(40).await?;
    check(&mut cluster, load.stop().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_all_are_restarted_in_turn() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let load = Load::start(&cluster, CLIENTS)?;
    for number in 0..3 {
        load.progress(40).await?;
        let status = cluster.terminate(number).await?;
        assert!(status.success(), "server {number}: {status}");
        load.progress(40).await?;
        cluster.restart(number).await?;
    }
    load.progress(40).await?;
    check(&mut cluster, load.stop().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_all_are_killed_at_once() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let load = Load::start(&cluster, CLIENTS)?;
    load.progress(100).await?;
    for number in 0..3 {
        cluster.kill(number)?;
    }
    // None is ready before a second one is there: start all, then wait.
    for number in 0..3 {
        cluster.spawn(number)?;
    }
    for number in 0..3 {
        cluster.wait_ready(number).await?;
    }
    load.progress(40).await?;
    check(&mut cluster, load.stop().await?).await
}

async fn check(cluster: &mut Cluster, ledger: Ledger) -> anyhow::Result<()> {
    cluster.must_run()?;
    eprintln!(
        "{} acknowledged, {} attempts failed, the slowest took {:?}",
        ledger.acknowledged.len(),
        ledger.failed_attempts,
        ledger.slowest
    );
    for line in &ledger.late_failures {
        eprintln!("  {line}");
    }
    assert!(ledger.slowest < SLOWEST_MAX, "{:?}", ledger.slowest);
    cluster.must_hold(&ledger).await
}
