//! Tokens created through HTTP, each durable before its answer: entries of many connections share
//! writes of the disk.

use std::time::Duration;

use anyhow::{Context, ensure};

use super::NAME;
use super::scene::{MANAGER, Scene};
use crate::floor::Quantiles;
use crate::http::Ask as _;
use crate::row::Row;
use crate::suites::load::{Load, Requests, Share, request};

const GOAL_A_SECOND: f64 = 2_000.0;
const BODY: &str = r#"{"Name":"made","Type":"client","Policies":["policy-0","policy-1"]}"#;

/// See the top of this file. `durable` is the disk's floor.
///
/// # Errors
/// If a token is refused, or one that was acknowledged is missing.
pub(super) fn measure(
    scene: &Scene,
    connections: usize,
    durable: Quantiles,
    lasts: Duration,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    eprintln!("-- tokens created through {connections} connections");
    let create: Requests = [request("PUT", "/v1/acl/token", Some(MANAGER), BODY)].into();
    let load = Load {
        connections,
        depth: 1,
        rate: None,
        lasts: lasts * 2,
        share: Share::All,
    };
    let before = count(scene)?;
    let answers = load.run(scene.port(), &create)?;
    answers.all_are(200)?;
    let made = count(scene)? - before;
    let acknowledged = answers.with(200);
    ensure!(
        made == acknowledged,
        "{acknowledged} tokens were acknowledged, and there are {made}"
    );
    let waits = answers.waits()?;
    let figure =
        |what: &str| format!("{connections} connections, one server: tokens created{what}");
    rows.extend([
        Row {
            floor_value: Some(1.0 / durable.p50.as_secs_f64()),
            ..Row::new(NAME, figure(""), answers.rate(), "/s").at_least(GOAL_A_SECOND)
        },
        Row {
            floor_value: Some(durable.p99.as_secs_f64() * 1e3),
            ..Row::new(NAME, figure(", p99"), waits.p99.as_secs_f64() * 1e3, "ms")
        },
    ]);
    Ok(())
}

/// The tokens that the server lists.
fn count(scene: &Scene) -> anyhow::Result<u64> {
    let list = scene.servers.http()?.get("/v1/acl/tokens")?;
    let tokens = list.as_array().context("no list of tokens")?;
    Ok(tokens.len() as u64)
}
