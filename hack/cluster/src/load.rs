//! Clients that register jobs without a pause, and what was acknowledged to them.
//!
//! Every attempt has a job id of its own. An attempt whose outcome is not known may or may not have
//! happened, and nothing is asked of it; an attempt that was acknowledged must be there, with the
//! index that was answered, on every server, for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::wait::eventually;

/// Longer than a server tries to reach a leader (ten seconds).
const CALL_MAX: Duration = Duration::from_secs(15);
/// A registration that is not acknowledged by anybody for this long is refused for ever.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);
/// An attempt that takes longer and fails is worth a line.
const LATE: Duration = Duration::from_secs(1);
/// A little air between two registrations, so that the host's two cores do more than this.
const PACE: Duration = Duration::from_millis(5);
/// How long servers may take to catch up with each other.
const CATCH_UP: Duration = Duration::from_secs(30);

/// A job that every server accepts and no node of a test runs.
pub fn job(id: &str) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["nowhere"],
        "TaskGroups": [{ "Name": "group", "Count": 1, "Tasks": [{
            "Name": "task", "Driver": "raw_exec", "Config": { "command": "/bin/true" },
        }]}],
    }})
}

/// What was acknowledged: job ids with their `JobModifyIndex`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Id and index of every acknowledged registration.
    pub acknowledged: BTreeMap<String, u64>,
    /// Attempts that ended in an error that allows another one.
    pub failed_attempts: u64,
    /// The longest time from the first attempt to the acknowledgement.
    pub slowest: Duration,
    /// Attempts that failed late, with how late and why.
    pub late_failures: Vec<String>,
}

impl Ledger {
    /// Registers one job through `client` and notes it.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn register(&mut self, client: &Client, id: &str) -> anyhow::Result<u64> {
        let index = register(client, id).await?;
        self.acknowledged.insert(id.to_owned(), index);
        Ok(index)
    }
}

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    workers: JoinSet<anyhow::Result<Ledger>>,
}

impl Load {
    /// Starts `clients` clients, each of which uses all servers in turn.
    ///
    /// # Errors
    /// Never for plain HTTP.
    pub fn start(cluster: &Cluster, clients: usize) -> anyhow::Result<Self> {
        let mut load = Self {
            stop: Arc::default(),
            count: Arc::default(),
            workers: JoinSet::new(),
        };
        for number in 0..clients {
            let servers = (0..cluster.len())
                .map(|server| cluster.client(server))
                .collect::<Result<Vec<_>, _>>()?;
            let worker = Worker {
                number,
                servers,
                stop: Arc::clone(&load.stop),
                count: Arc::clone(&load.count),
            };
            load.workers.spawn(worker.run());
        }
        Ok(load)
    }

    /// Waits until `more` registrations were acknowledged from now on.
    ///
    /// # Errors
    /// When they are not in time.
    pub async fn progress(&self, more: u64) -> anyhow::Result<()> {
        let goal = self.count.load(Ordering::Relaxed) + more;
        let what = format!("{more} more registrations");
        eventually(&what, ACKNOWLEDGED_WITHIN * 2, async || {
            Ok((self.count.load(Ordering::Relaxed) >= goal).then_some(()))
        })
        .await
    }

    /// Ends the clients; answers what was acknowledged to all of them.
    ///
    /// # Errors
    /// When a client was refused for ever.
    pub async fn stop(mut self) -> anyhow::Result<Ledger> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Ledger::default();
        while let Some(worker) = self.workers.join_next().await {
            let ledger = worker.context("a client of the load panicked")??;
            all.acknowledged.extend(ledger.acknowledged);
            all.failed_attempts += ledger.failed_attempts;
            all.slowest = all.slowest.max(ledger.slowest);
            all.late_failures.extend(ledger.late_failures);
        }
        Ok(all)
    }
}

struct Worker {
    number: usize,
    servers: Vec<Client>,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

impl Worker {
    async fn run(self) -> anyhow::Result<Ledger> {
        let mut ledger = Ledger::default();
        let mut sequence = 0_u64;
        while !self.stop.load(Ordering::Relaxed) {
            self.one(sequence, &mut ledger).await?;
            self.count.fetch_add(1, Ordering::Relaxed);
            sequence += 1;
            tokio::time::sleep(PACE).await;
        }
        Ok(ledger)
    }

    /// One registration, tried through one server after the other until it is acknowledged.
    async fn one(&self, sequence: u64, ledger: &mut Ledger) -> anyhow::Result<()> {
        let begin = Instant::now();
        let offset = usize::try_from(sequence)? + self.number;
        for attempt in 0_usize.. {
            let id = format!("load-{}-{sequence}-{attempt}", self.number);
            let client = &self.servers[(offset + attempt) % self.servers.len()];
            let asked = Instant::now();
            let error = match timeout(CALL_MAX, ledger.register(client, &id)).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => error,
                Err(_) => anyhow::anyhow!("no answer within {CALL_MAX:?}"),
            };
            if let Some(ClientError::Status { code, message }) = error.downcast_ref()
                && *code < 500
            {
                bail!("job {id} was refused: {code} {message}");
            }
            ledger.failed_attempts += 1;
            if asked.elapsed() > LATE {
                let line = format!(
                    "{id} through {}: {:?}: {error:#}",
                    client.address(),
                    asked.elapsed()
                );
                ledger.late_failures.push(line);
            }
            if begin.elapsed() > ACKNOWLEDGED_WITHIN {
                return Err(error.context(format!("job {id}: refused for ever")));
            }
            tokio::time::sleep(PACE).await;
        }
        ledger.slowest = ledger.slowest.max(begin.elapsed());
        Ok(())
    }
}

async fn register(client: &Client, id: &str) -> anyhow::Result<u64> {
    let answer = client
        .put::<_, Value>("/v1/jobs", &Query::new(), &job(id))
        .await?;
    let index = answer.value["JobModifyIndex"].as_u64();
    index.context("an acknowledgement without an index")
}

impl Cluster {
    /// The jobs that a server has, by its own state: ids with their `JobModifyIndex`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn jobs_stale(&self, number: usize) -> anyhow::Result<BTreeMap<String, u64>> {
        let query = Query::new().with("stale", "");
        jobs(&self.client(number)?, &query).await
    }

    /// The jobs that a server has, by a consistent read.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn jobs(&self, number: usize) -> anyhow::Result<BTreeMap<String, u64>> {
        jobs(&self.client(number)?, &Query::new()).await
    }

    /// Every server has everything that was acknowledged, and all have the same.
    ///
    /// # Errors
    /// Names what is missing where.
    pub async fn must_hold(&self, ledger: &Ledger) -> anyhow::Result<()> {
        let all = self.jobs(0).await?;
        missing(ledger, &all).context("server 0, read consistently")?;
        for number in 0..self.len() {
            let what = format!("server {number} has what server 0 has");
            eventually(&what, CATCH_UP, async || {
                let own = self.jobs_stale(number).await?;
                missing(ledger, &own)?;
                Ok((own == all).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}

fn missing(ledger: &Ledger, found: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    for (id, index) in &ledger.acknowledged {
        match found.get(id) {
            Some(own) if own == index => {}
            Some(own) => bail!("job {id} was acknowledged at {index} and is at {own}"),
            None => bail!(
                "job {id}, acknowledged at {index}, is lost; {} jobs are there",
                found.len()
            ),
        }
    }
    Ok(())
}

async fn jobs(client: &Client, query: &Query) -> anyhow::Result<BTreeMap<String, u64>> {
    let answer = client.get::<Vec<Value>>("/v1/jobs", query).await?;
    answer
        .value
        .iter()
        .map(|job| {
            let id = job["ID"].as_str().context("a job without an id")?;
            let index = job["JobModifyIndex"].as_u64();
            Ok((id.to_owned(), index.context("a job without an index")?))
        })
        .collect()
}
