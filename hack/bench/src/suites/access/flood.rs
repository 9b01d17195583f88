//! Real tokens beside bogus ones from the same address. The floor is the same beside requests that
//! need no token: client, both loads and server share the host's processors.
//!
//! At the rate that the budget of one token permits the goal holds. At full rate the share shows
//! the processor time that is left, and has no goal.

use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::NAME;
use super::scene::{JOB_PATH, Scene, bare};
use crate::row::Row;
use crate::suites::load::{Answers, Load, Requests, Share, request};

/// Of each of the three cases, in turn.
const ROUNDS: usize = 3;
/// The flood begins before the real requests and ends after them.
const MARGIN: Duration = Duration::from_millis(500);
const FLOOD_A_SECOND: u32 = 50_000;
const FLOOD_CONNECTIONS: usize = 32;
/// Few writes for many requests: one thread has to send all of them.
const FLOOD_DEPTH: usize = 16;
/// More than a server remembers of those that it does not know.
const BOGUS: usize = 50_000;
/// Below the budget of a token, 1,000 reads in a second.
const PACED_A_SECOND: u32 = 900;
const REAL_CONNECTIONS: usize = 4;
/// Of the rate without bogus tokens.
const GOAL_SHARE: f64 = 0.9;

/// The real requests of each case.
#[derive(Debug, Default)]
struct Cases {
    alone: Answers,
    beside_bogus: Answers,
    beside_bare: Answers,
    bogus: Answers,
}

/// See the top of this file.
///
/// # Errors
/// If the server fails, or lets a bogus token in.
pub(super) fn measure(scene: &Scene, lasts: Duration, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let one: Requests = scene.reads().iter().take(1).cloned().collect();
    let paced = Some(PACED_A_SECOND);
    let at_pace = format!("real token at {PACED_A_SECOND}/s");
    for (what, rate, real) in [
        (at_pace.as_str(), paced, one),
        ("real tokens at full rate", None, scene.reads()),
    ] {
        eprintln!("-- {what}, alone and beside floods");
        let real_load = Load {
            connections: REAL_CONNECTIONS,
            depth: 1,
            rate,
            lasts,
            share: Share::All,
        };
        let cases = cases(scene, real_load, &real)?;
        add_rows(&cases, what, rate.is_some(), rows)?;
    }
    Ok(())
}

fn cases(scene: &Scene, load: Load, real: &Requests) -> anyhow::Result<Cases> {
    let (bogus, bare) = (bogus(), bare());
    let mut cases = Cases::default();
    for _ in 0..ROUNDS {
        cases.alone.add(load.run(scene.port(), real)?);
        let (beside, flood) = beside(scene, load, real, &bogus)?;
        eprintln!("-- beside {}", flood.describe());
        ensure!(flood.with(200) == 0, "a bogus token was let in");
        cases.beside_bogus.add(beside);
        cases.bogus.add(flood);
        let (beside, _) = self::beside(scene, load, real, &bare)?;
        cases.beside_bare.add(beside);
    }
    cases.alone.all_are(200)?;
    Ok(cases)
}

fn add_rows(cases: &Cases, what: &str, judged: bool, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let Cases {
        alone,
        beside_bogus,
        beside_bare,
        bogus,
    } = cases;
    let of_alone = |answers: &Answers| answers.rate_of(200) / alone.rate_of(200);
    let sent = bogus.rate();
    let share = Row {
        floor_value: Some(of_alone(beside_bare)),
        ..Row::new(
            NAME,
            format!("{what} beside {sent:.0} bogus ones a second, of its rate without"),
            of_alone(beside_bogus),
            "",
        )
    };
    rows.push(if judged {
        share.at_least(GOAL_SHARE)
    } else {
        share
    });
    rows.push(Row::new(
        NAME,
        format!("{what}: alone"),
        alone.rate_of(200),
        "/s",
    ));
    let p99 = |answers: &Answers| anyhow::Ok(answers.waits()?.p99.as_secs_f64() * 1e3);
    rows.push(Row {
        floor_value: Some(p99(beside_bare)?),
        ..Row::new(
            NAME,
            format!("{what}: answer beside bogus ones, p99"),
            p99(beside_bogus)?,
            "ms",
        )
    });
    Ok(())
}

/// The answers to real requests, and those to the flood beside them.
fn beside(
    scene: &Scene,
    load: Load,
    real: &Requests,
    flood: &Requests,
) -> anyhow::Result<(Answers, Answers)> {
    let port = scene.port();
    let flood_load = Load {
        connections: FLOOD_CONNECTIONS,
        depth: FLOOD_DEPTH,
        rate: Some(FLOOD_A_SECOND),
        lasts: load.lasts + 2 * MARGIN,
        share: Share::All,
    };
    thread::scope(|scope| {
        let flooding = scope.spawn(|| flood_load.run(port, flood));
        thread::sleep(MARGIN);
        let answers = load.run(port, real);
        let flooded = flooding.join();
        let flooded = flooded.map_err(|_| anyhow::anyhow!("the flood panicked"))?;
        Ok((answers?, flooded.context("the flood")?))
    })
}

/// Reads of the job with secrets in the right form that no token has.
fn bogus() -> Requests {
    let secret = |number: usize| format!("badc0ffe-0000-4000-8000-{number:012x}");
    let requests = (0..BOGUS).map(|it| request("GET", JOB_PATH, Some(&secret(it)), ""));
    requests.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bogus_secrets_have_the_form_of_real_ones_and_differ() {
        let all = bogus();
        let different: BTreeSet<&Vec<u8>> = all.iter().collect();
        assert_eq!(different.len(), BOGUS);
        let text = String::from_utf8_lossy(&all[7]);
        let (_, secret) = text.split_once("x-nomad-token: ").unwrap();
        assert_eq!(secret.find('\r'), Some(36), "{text}");
    }
}
