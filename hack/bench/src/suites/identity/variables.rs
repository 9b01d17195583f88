//! Variables of real servers: written by many connections, read at a rate, sealed anew with the
//! next root key while others are written.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::Cluster;
use serde_json::{Value, json};

use super::NAME;
use crate::Bench;
use crate::floor::Quantiles;
use crate::http::{Ask as _, Http, wait};
use crate::row::Row;
use crate::suites::load::{Load, Requests, Share, request};

/// Connections that write.
const WRITERS: usize = 64;
/// Connections that read.
const READERS: usize = 16;
/// Reads in a second.
const READ_RATE: u32 = 2_000;
/// The longest that writing or sealing all may take.
const LONGEST: Duration = Duration::from_secs(600);
/// Between two looks at the keys.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Reads go from variable to variable in steps that meet all.
const STEP: usize = 7_919;
const GOAL_WRITES: f64 = 3_000.0;
const GOAL_REKEY_SECONDS: f64 = 60.0;

/// One run with some servers.
pub(super) struct Run<'a> {
    bench: &'a Bench,
    servers: usize,
    variables: usize,
    durable: Quantiles,
    lasts: Duration,
}

impl<'a> Run<'a> {
    /// `durable` is the disk's floor; reads last `lasts`.
    pub(super) fn new(
        bench: &'a Bench,
        servers: usize,
        variables: usize,
        durable: Quantiles,
        lasts: Duration,
    ) -> Self {
        Self {
            bench,
            servers,
            variables,
            durable,
            lasts,
        }
    }

    /// See the top of this file.
    ///
    /// # Errors
    /// If a server fails, refuses, or does not end in time.
    pub(super) fn measure(&self, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        eprintln!("-- {} variables, {} servers", self.variables, self.servers);
        let servers = wait(Cluster::start(self.bench.settings(self.servers)))?;
        let leader = servers.leads()?;
        self.write(&servers, leader, rows)?;
        // A follower asks the leader first.
        let reader = (leader + 1) % self.servers;
        self.read(&servers, reader, rows)?;
        self.seal_anew(&servers.http_of(leader)?, rows)
    }

    fn figure(&self, what: &str) -> String {
        let servers = match self.servers {
            1 => "one server".to_owned(),
            many => format!("{many} servers"),
        };
        format!("{} variables, {servers}: {what}", self.variables)
    }

    fn write(&self, servers: &Cluster, leader: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let requests = (0..self.variables).map(|number| {
            let body = json!({ "Items": items(number) }).to_string();
            request("PUT", &path(number), None, &body)
        });
        let requests: Requests = requests.collect();
        let load = Load {
            connections: WRITERS,
            depth: 1,
            rate: None,
            lasts: LONGEST,
            share: Share::Once,
        };
        let answers = load.run(servers.ports(leader).http, &requests)?;
        answers.all_are(200)?;
        let written = answers.with(200);
        ensure!(
            written == self.variables as u64,
            "{written} of {} variables were written",
            self.variables
        );
        let figure = self.figure(&format!("written, {WRITERS} connections"));
        rows.push(Row {
            floor_value: Some(1.0 / self.durable.p50.as_secs_f64()),
            ..Row::new(NAME, figure, answers.rate(), "/s").at_least(GOAL_WRITES)
        });
        Ok(())
    }

    fn read(&self, servers: &Cluster, reader: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let numbers = (0..self.variables).map(|number| number * STEP % self.variables);
        let requests = numbers.map(|number| request("GET", &path(number), None, ""));
        let requests: Requests = requests.collect();
        let load = Load {
            connections: READERS,
            depth: 1,
            rate: Some(READ_RATE),
            lasts: self.lasts,
            share: Share::All,
        };
        let answers = load.run(servers.ports(reader).http, &requests)?;
        answers.all_are(200)?;
        let waits = answers.waits()?;
        let goal_ms = if self.servers == 1 { 2.0 } else { 4.0 };
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let what = format!("read at {READ_RATE}/s");
        let figure = |name: &str| self.figure(&format!("{what}, {name}"));
        rows.extend([
            Row::new(NAME, figure("reached"), answers.rate(), "/s"),
            Row::new(NAME, figure("p50"), millis(waits.p50), "ms"),
            Row::new(NAME, figure("p99"), millis(waits.p99), "ms").at_most(goal_ms),
        ]);
        Ok(())
    }

    fn seal_anew(&self, http: &Http, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let query = "/v1/operator/keyring/rotate?full=true";
        let begun = Instant::now();
        http.put(query, &Value::Null)?;
        let (mut waits, mut number) = (Vec::new(), 0);
        while is_under_way(http)? {
            ensure!(
                begun.elapsed() < LONGEST,
                "it is not over after {LONGEST:?}"
            );
            // Writes of others go on meanwhile, and may meet the values that move.
            let asked = Instant::now();
            let body = json!({ "Items": items(number) });
            http.put(&path(number), &body)?;
            waits.push(asked.elapsed());
            number = (number + STEP) % self.variables;
            std::thread::sleep(LOOK_EVERY);
        }
        let took = begun.elapsed().as_secs_f64();
        let waits = Quantiles::of(waits).context("no write came between")?;
        let beside = self.figure("a write beside `rotate -full`, longest");
        rows.extend([
            Row::new(NAME, self.figure("`rotate -full`"), took, "s").at_most(GOAL_REKEY_SECONDS),
            Row::new(NAME, beside, waits.max.as_secs_f64() * 1e3, "ms"),
        ]);
        Ok(())
    }
}

/// Whether a key still has values that move.
fn is_under_way(http: &Http) -> anyhow::Result<bool> {
    let keys = http.get("/v1/operator/keyring/keys")?;
    let keys = keys.as_array().context("no list of keys")?;
    Ok(keys.iter().any(|key| key["State"] == "rekeying"))
}

fn path(number: usize) -> String {
    format!("/v1/var/bench/{number}")
}

fn items(number: usize) -> Value {
    json!({ "user": format!("user-{number}"), "password": "p".repeat(64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_meet_all_variables() {
        for variables in [1_000, 100_000] {
            let numbers = (0..variables).map(|number| number * STEP % variables);
            let met: std::collections::BTreeSet<usize> = numbers.collect();
            assert_eq!(met.len(), variables);
        }
    }
}
