//! Dispatches beside plain registrations: rounds of both in turn on one server, so that other work
//! on the host slows both down alike.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::Cluster;
use serde_json::{Value, json};

use super::NAME;
use crate::Bench;
use crate::http::{Ask as _, Http, wait};
use crate::row::Row;

const CLIENTS: usize = 8;
const ROUNDS: usize = 4;
/// Dispatches per second, of the registrations per second.
const GOAL_RATIO: f64 = 0.8;

/// See the top of this file. `calls` is rounded up to whole rounds.
///
/// # Errors
/// If the server refuses a call, or a dispatched child is missing.
pub(super) fn measure(bench: &Bench, calls: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let of_client = calls.div_ceil(ROUNDS * CLIENTS).max(1);
    let calls = of_client * ROUNDS * CLIENTS;
    eprintln!("-- 1 server, {calls} registrations and {calls} dispatches, {CLIENTS} clients");
    let servers = wait(Cluster::start(bench.settings(1)))?;
    let mut template = job("work");
    template["Job"]["ParameterizedJob"] = json!({ "MetaRequired": ["number"] });
    servers.http()?.put("/v1/jobs", &template)?;
    let (mut registering, mut dispatching) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        registering += timed(&servers, of_client, |http, client, number| {
            let id = format!("plain-{round}-{client}-{number}");
            http.put("/v1/jobs", &job(&id))
        })?;
        dispatching += timed(&servers, of_client, |http, client, number| {
            let number = format!("{round}-{client}-{number}");
            let body = json!({ "JobID": "work", "Meta": { "number": number } });
            http.put("/v1/job/work/dispatch", &body)
        })?;
    }
    let http = servers.http()?;
    for prefix in ["plain-", "work/dispatch-"] {
        let list = http.get(&format!("/v1/jobs?prefix={prefix}"))?;
        let count = list.as_array().map_or(0, Vec::len);
        ensure!(count == calls, "{count} of {calls} jobs {prefix} are there");
    }
    let rate = |took: Duration| calls as f64 / took.as_secs_f64();
    let (registered, dispatched) = (rate(registering), rate(dispatching));
    let figure = |what: &str| format!("{CLIENTS} clients, one server: {what}");
    rows.push(Row::new(NAME, figure("registrations"), registered, "/s"));
    rows.push(Row::new(NAME, figure("dispatches"), dispatched, "/s"));
    let ratio = Row::new(
        NAME,
        figure("dispatches, of the registrations' rate"),
        dispatched / registered,
        "",
    );
    rows.push(ratio.at_least(GOAL_RATIO));
    Ok(())
}

/// How long all clients need for `calls` calls each. `call` gets the client's number and its own.
fn timed(
    servers: &Cluster,
    calls: usize,
    call: impl Fn(&Http, usize, usize) -> anyhow::Result<Value> + Sync,
) -> anyhow::Result<Duration> {
    let connections = (0..CLIENTS).map(|_| servers.http());
    let connections = connections.collect::<anyhow::Result<Vec<_>>>()?;
    let call = &call;
    let begun = Instant::now();
    thread::scope(|scope| {
        let clients = connections.into_iter().enumerate().map(|(client, http)| {
            scope.spawn(move || -> anyhow::Result<()> {
                for number in 0..calls {
                    call(&http, client, number)?;
                }
                Ok(())
            })
        });
        // All of them, before the first is waited for.
        let clients: Vec<_> = clients.collect();
        for client in clients {
            let joined = client.join();
            let joined = joined.map_err(|_| anyhow::anyhow!("a client panicked"))?;
            joined.context("a call")?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    Ok(begun.elapsed())
}

/// A job that finds no node: there is none.
fn job(id: &str) -> Value {
    json!({"Job": {
        "ID": id, "Name": id, "Type": "batch", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "true", "Driver": "raw_exec",
                "Config": {"command": "/bin/true"},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        }],
    }})
}
