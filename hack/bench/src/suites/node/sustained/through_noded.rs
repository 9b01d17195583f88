//! Through one server and one node: batch jobs whose `exec` tasks exit at once, registered by
//! several clients, each with one job at a time.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::procfs::memory_kib;
use serde_json::json;

use super::super::NAME;
use super::super::host::{Host, count};
use crate::Bench;
use crate::http::Http;
use crate::programs::Program;
use crate::row::Row;

/// Starts and ends a second.
const GOAL: f64 = 300.0;
const CLIENTS: usize = 4;
/// Tasks of one job: a scheduler places them at once, and the other clients' run meanwhile.
const TASKS: usize = 50;
/// How long one job may take.
const JOB_MAX: Duration = Duration::from_secs(60);
/// Between two looks of a client at its job.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the top of this file.
///
/// # Errors
/// A task fails, or a job does not end in time.
pub(super) fn measure(bench: &Bench, span: Duration, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let host = Host::start(bench, Program::ExitAtOnce)?;
    let warm_up = cycle(&host, "warm-up", Duration::ZERO)?;
    collect(&host)?;
    let place = host.place()?;
    let before = place.at_rest()?;
    let memory = memory(&host)?;
    eprintln!("-- starts and ends through noded for {} s", span.as_secs());
    let begun = Instant::now();
    let done = cycle(&host, "sustained", span)?;
    let took = begun.elapsed();
    ensure!(done >= warm_up, "fewer tasks than one job of each client");
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = done as f64 / took.as_secs_f64();
    let figure = "starts and ends through noded, exec, one server and one node";
    rows.push(Row::new(NAME, figure, rate, "/s").at_least(GOAL));
    collect(&host)?;
    rows.extend(place.leaks(&before, "through noded")?);
    for ((name, before), (_, after)) in memory.into_iter().zip(self::memory(&host)?) {
        let figure = format!("memory of {name} after {done} tasks, more than before");
        rows.push(Row::new(NAME, figure, (after - before) / 1024.0, "MiB"));
    }
    Ok(())
}

/// Every client runs jobs one after the other, at least one; answers how many tasks ended.
fn cycle(host: &Host, name: &str, span: Duration) -> anyhow::Result<usize> {
    let connections = (0..CLIENTS).map(|_| host.http());
    let connections = connections.collect::<anyhow::Result<Vec<_>>>()?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let clients = connections.iter().enumerate().map(|(client, http)| {
            scope.spawn(move || -> anyhow::Result<usize> {
                let mut done = 0;
                loop {
                    run_job(host, http, &format!("{name}-{client}-{done}"))?;
                    done += TASKS;
                    if begun.elapsed() >= span {
                        return Ok(done);
                    }
                }
            })
        });
        // All of them, before the first is waited for.
        let clients: Vec<_> = clients.collect();
        let done = clients.into_iter().map(|client| {
            let joined = client
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))?;
            joined.context("a client")
        });
        done.sum()
    })
}

fn run_job(host: &Host, http: &Http, id: &str) -> anyhow::Result<()> {
    http.put("/v1/jobs", &host.job(id, "batch", TASKS))?;
    let deadline = Instant::now() + JOB_MAX;
    while count(http, id, "Complete")? < TASKS {
        ensure!(
            Instant::now() < deadline,
            "job {id} did not end within {JOB_MAX:?}"
        );
        thread::sleep(LOOK_EVERY);
    }
    http.delete(&format!("/v1/job/{id}?purge=true"))?;
    Ok(())
}

/// Lets the cluster forget the jobs, so that the node removes their directories.
fn collect(host: &Host) -> anyhow::Result<()> {
    host.http()?.put("/v1/system/gc", &json!({}))?;
    Ok(())
}

/// Proportional set sizes in KiB.
fn memory(host: &Host) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let daemons = host.daemons()?.into_iter();
    let memory = daemons.map(|(pid, name)| {
        let kib = u32::try_from(memory_kib(pid)?)?;
        Ok((name, f64::from(kib)))
    });
    memory.collect()
}
