//! Locks of variables: commands of `drover var lock` never run two at once, whatever happens to
//! leaders and links.
//!
//! The TTL is 10 s, the shortest one. A holder that is cut off kills its command 8.5 s after its
//! last renewal; the leader gives the lock to another one 20 s after it, and a new leader counts
//! these 20 s anew. So the test needs about a minute.

mod contender;
mod link;

use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Settings};

use self::contender::{Contender, Witness};
use crate::running::Process;

/// Two whole times of the lock, and what elections and a loaded host add. An acquisition whose
/// answer was lost with its server keeps the lock as long.
const PATIENCE: Duration = Duration::from_secs(90);
/// Leaders that are killed while commands come and go.
const LEADERS_KILLED: usize = 2;

/// Kills the leader; links that led to it lead to another server.
async fn kill_leader(cluster: &mut Cluster, contenders: &[Contender]) -> anyhow::Result<usize> {
    let leader = cluster.leader().await?;
    cluster.kill(leader)?;
    let other = cluster.ports((leader + 1) % cluster.len()).http;
    for contender in contenders {
        if contender.link.server() == cluster.ports(leader).http {
            contender.link.lead_to(other);
        }
    }
    Ok(leader)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_below_a_lock_never_run_two_at_once() -> anyhow::Result<()> {
    // A witness that finds nothing would prove nothing.
    let careless = Witness::new()?;
    careless.two_at_once().await?;
    ensure!(careless.must_hold().is_err(), "{:?}", careless.lines()?);

    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let witness = Witness::new()?;
    let mut contenders = Vec::new();
    for (server, name) in ["one", "other"].into_iter().enumerate() {
        let port = cluster.ports(server).http;
        contenders.push(Contender::start(name, &witness, port).await?);
    }
    for _ in 0..LEADERS_KILLED {
        witness.next("a holder", PATIENCE, |_| true).await?;
        let killed = kill_leader(&mut cluster, &contenders).await?;
        witness
            .next("a new leader's holder", PATIENCE, |_| true)
            .await?;
        cluster.restart(killed).await?;
    }

    // The holder is cut off, and the leader dies meanwhile.
    witness.stay()?;
    let holder = witness.inside(PATIENCE).await?;
    let command = Process::find(holder.pid).context("the holder's command")?;
    let cut = contenders.iter().find(|it| it.name == holder.name);
    cut.context("a holder")?.link.cut();
    let killed = kill_leader(&mut cluster, &contenders).await?;
    cluster.restart(killed).await?;
    let is_other = |name: &str| name != holder.name;
    witness.next("another holder", PATIENCE, is_other).await?;
    ensure!(
        Process::find(holder.pid) != Some(command),
        "{holder:?} lives"
    );

    // Requests that the first holder sent meanwhile arrive while another one holds the lock.
    for contender in &contenders {
        match contender.name == holder.name {
            true => contender.link.heal(),
            false => contender.rest(),
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    witness.must_hold()?;
    witness.go()?;
    let is_first = |name: &str| name == holder.name;
    witness
        .next("the first one again", PATIENCE, is_first)
        .await?;
    for contender in &contenders {
        contender.must_run()?;
    }
    cluster.must_run()?;
    witness.must_hold()
}
