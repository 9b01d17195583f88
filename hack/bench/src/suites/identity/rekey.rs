//! All variables move to another root key: the time from the rotation until the old key rests, at a
//! real server; and the time that each entry keeps the log's thread busy, in this process.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use controlplane_state::command::{
    REKEY_VALUES_MAX, ResealedVariable, RootKeyUpsert, Rotation, VariableApply, VariableChange,
    VariablesRekey,
};
use controlplane_state::{RootKey, RootKeyState, Sealed, VariableKey};
use futures::future::try_join_all;
use hack_cluster::Cluster;
use protocol_client::{Client, Query};
use protocol_model::UnixNanos;
use serde_json::{Value, json};

use super::NAME;
use crate::Bench;
use crate::floor::Quantiles;
use crate::http::{Ask as _, Http, wait};
use crate::row::Row;
use crate::suites::in_memory::{InMemory, cpu_time};

const GOAL_WHOLE_S: f64 = 60.0;
const GOAL_ENTRY_MS: f64 = 5.0;
/// Connections that write the variables.
const CONNECTIONS: u32 = 32;
/// The value of a variable: of the size of a password and its user.
const VALUE: &str = "correct horse battery staple, and a user";
/// Between two looks at the keys.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the whole may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// See the top of this file.
///
/// # Errors
/// If the server refuses a write, or the old key does not come to rest.
pub(super) fn measure(bench: &Bench, variables: u32, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let figure = |what: &str| format!("rotate -full of {variables} variables: {what}");
    entries(variables, &figure, rows).context("in this process")?;
    eprintln!("-- 1 server, {variables} variables are written");
    let servers = wait(Cluster::start(bench.settings(1)))?;
    let begun = Instant::now();
    wait(write(&servers, variables))?;
    let rate = f64::from(variables) / begun.elapsed().as_secs_f64();
    let http = servers.http()?;
    let before = newest_index(&http)?;
    eprintln!("-- they move to another root key");
    let begun = Instant::now();
    wait(rotate(&servers.client(0)?))?;
    rests(&http)?;
    let whole = begun.elapsed().as_secs_f64();
    ensure!(
        newest_index(&http)? == before,
        "the list of variables has another index after the rekey"
    );
    rows.extend([
        Row::new(NAME, figure("the whole, one server"), whole, "s").at_most(GOAL_WHOLE_S),
        Row::new(NAME, figure("written before, durable"), rate, "/s"),
    ]);
    Ok(())
}

async fn write(servers: &Cluster, variables: u32) -> anyhow::Result<()> {
    let writers = (0..CONNECTIONS).map(async |first| {
        let client = servers.client(0)?;
        let body = json!({ "Items": { "password": VALUE } });
        for number in (first..variables).step_by(CONNECTIONS as usize) {
            let path = format!("/v1/var/app/{number}");
            client.put::<_, Value>(&path, &Query::new(), &body).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(writers).await?;
    Ok(())
}

async fn rotate(client: &Client) -> anyhow::Result<Value> {
    let full = Query::new().with("full", true);
    let path = "/v1/operator/keyring/rotate";
    Ok(client.put(path, &full, &Value::Null).await?.value)
}

/// The index of the list of variables, which a rekey does not move.
fn newest_index(http: &Http) -> anyhow::Result<u64> {
    Ok(http.ask("/v1/vars?per_page=1")?.index)
}

/// Waits until the first key is inactive.
fn rests(http: &Http) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while http.get("/v1/operator/keyring/keys")?[0]["State"] != "inactive" {
        ensure!(
            Instant::now() < deadline,
            "values of the first key are left"
        );
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Entries of as many values as one has, applied while a reader holds the state before.
fn entries(
    variables: u32,
    figure: &impl Fn(&str) -> String,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    eprintln!("-- {variables} variables in this process");
    let mut cluster = InMemory::new()?;
    cluster.apply(key(1, None).into())?;
    for number in 0..variables {
        let write = VariableApply {
            key: name(number),
            cas: None,
            lock_id: None,
            change: VariableChange::Write(sealed(1, number)),
        };
        cluster.apply(write.into())?;
    }
    cluster.apply(key(2, Some(1)).into())?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let numbers: Vec<u32> = (0..variables).collect();
    for numbers in numbers.chunks(REKEY_VALUES_MAX) {
        let variables = numbers.iter().map(|number| ResealedVariable {
            key: name(*number),
            replaces: (1, sealed(1, *number).nonce),
            sealed: sealed(2, *number),
        });
        let rekey = VariablesRekey {
            variables: variables.collect(),
        };
        // Readers hold the state before, as in a server: what is changed is copied first.
        let before = cluster.snapshot();
        let (used, begun) = (cpu_time()?, Instant::now());
        cluster.apply(rekey.into())?;
        wall.push(begun.elapsed());
        cpu.push(cpu_time()?.saturating_sub(used));
        drop(before);
    }
    let left = cluster.snapshot().sealed_with(1).variables;
    ensure!(left == 0, "{left} variables are sealed with the old key");
    let longest = |of: &[Duration]| of.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
    let p50 = Quantiles::of(wall.clone()).context("no entries")?.p50;
    rows.extend([
        Row::new(
            NAME,
            figure("longest entry applied, CPU"),
            longest(&cpu),
            "ms",
        )
        .at_most(GOAL_ENTRY_MS),
        Row::new(NAME, figure("longest entry applied"), longest(&wall), "ms"),
        Row::new(
            NAME,
            figure("entry applied, p50"),
            p50.as_secs_f64() * 1e3,
            "ms",
        ),
    ]);
    Ok(())
}

fn name(number: u32) -> VariableKey {
    VariableKey::new("default", format!("app/{number}"))
}

/// A value under a key, as long as a sealed one.
fn sealed(key: u32, number: u32) -> Sealed {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&number.to_be_bytes());
    nonce[4..8].copy_from_slice(&key.to_be_bytes());
    Sealed {
        key,
        nonce,
        bytes: vec![7; VALUE.len() + 33],
    }
}

fn key(number: u8, replaces: Option<u32>) -> RootKeyUpsert {
    let key = RootKey {
        id: format!("00000000-0000-4000-8000-0000000000{number:02}")
            .parse()
            .unwrap_or_default(),
        number: 0,
        kek_id: [7; 8],
        wrapped: vec![1],
        public_ed25519: vec![2],
        public_rsa: vec![3],
        state: RootKeyState::Active,
        create_time: UnixNanos::ZERO,
        publish_time: UnixNanos::ZERO,
        state_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    };
    RootKeyUpsert {
        key,
        replaces,
        rotation: Rotation::Full,
    }
}
