//! Five thousand nodes, which no host here can hold, in the simulator: what it judges of silence,
//! in figures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{NAME, count, none_row, number};
use crate::row::Row;

/// Silence is noticed by then, from the last word of a node to the command.
const NOTICED_GOAL_MS: f64 = 3_000.0;
/// What the simulator tries, by its words for that.
const TRIALS: [&str; 2] = ["outage", "weather"];

/// The simulator among the other programs: asked for before anything is measured.
///
/// # Errors
/// If it is not there: what to do.
pub(super) fn program(binaries: &Path) -> anyhow::Result<PathBuf> {
    let program = binaries.join("hack-sim");
    ensure!(
        program.is_file(),
        "{} is missing: build it with `cargo build --release --bins`, or name other parts with \
         --only",
        program.display()
    );
    Ok(program)
}

/// Runs the simulator, about seven minutes.
///
/// # Errors
/// If it cannot be run.
pub(super) fn rows(program: &Path) -> anyhow::Result<Vec<Row>> {
    eprintln!("-- simulated: 5000 nodes cut off and back at once, and in bad weather: 7 minutes");
    let output = Command::new(program)
        .args(["silence", "--json"])
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    // Why it failed, where it did not get to say it in a trial.
    let failed = (!output.status.success()).then(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().last().unwrap_or_default();
        format!("the simulator ended with {}: {last}", output.status)
    });
    rows_of(&String::from_utf8_lossy(&output.stdout), failed)
}

/// What it said, and how it failed: a trial that is not there was not kept, and a failure that no
/// trial tells of is one all the same.
fn rows_of(said: &str, failed: Option<String>) -> anyhow::Result<Vec<Row>> {
    let (mut rows, mut broken, mut missing) = (Vec::new(), 0, TRIALS.to_vec());
    for line in said.lines() {
        let trial: Value = serde_json::from_str(line).context("read what the simulator says")?;
        eprintln!("   {trial}");
        broken += trial["broken"].as_array().map_or(1, Vec::len) as u64;
        missing.retain(|name| trial["trial"] != *name);
        rows.extend(rows_of_trial(&trial)?);
    }
    for name in missing {
        let why = failed
            .as_deref()
            .unwrap_or("the simulator said nothing of it");
        rows.push(Row::not_measured(NAME, format!("simulated, {name}"), why));
    }
    let figure = "simulated, promises broken";
    rows.push(match failed {
        Some(why) if broken == 0 => Row::not_measured(NAME, figure, why),
        _ => Row::new(NAME, figure, count(broken)?, "").at_most(0.0),
    });
    Ok(rows)
}

fn rows_of_trial(trial: &Value) -> anyhow::Result<Vec<Row>> {
    let nodes = &trial["nodes"];
    if trial["trial"] == "outage" {
        let noticed = number(&trial["noticed_max_ms"])?;
        let figure = |what: &str| format!("simulated, {nodes} nodes cut off at once, {what}");
        let ready = number(&trial["ready_again_max_ms"])?;
        return Ok(vec![
            Row::new(NAME, figure("the last noticed"), noticed, "ms").at_most(NOTICED_GOAL_MS),
            Row::new(NAME, figure("back at once, all ready again"), ready, "ms"),
        ]);
    }
    let suspected = usize::try_from(trial["false_expiries"].as_u64().context("no count")?)?;
    let seconds = &trial["simulated_s"];
    let figure = format!("simulated, {nodes} nodes, 30 % loss and 300 ms jitter");
    let figure = format!("{figure}, {seconds} s, nodes suspected that were well");
    Ok(vec![none_row(figure, suspected)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTAGE: &str = r#"{"trial":"outage","nodes":5000,"broken":[],"false_expiries":0,
        "noticed_max_ms":2700,"ready_again_max_ms":9000}"#;
    const WEATHER: &str = r#"{"trial":"weather","nodes":5000,"broken":[],"false_expiries":0,
        "simulated_s":640}"#;

    fn said(trials: &[&str]) -> String {
        let lines = trials.iter().map(|trial| trial.replace('\n', ""));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn misses(said: &str, failed: Option<&str>) -> usize {
        let rows = rows_of(said, failed.map(str::to_owned)).unwrap();
        rows.iter().filter(|row| row.met == Some(false)).count()
    }

    #[test]
    fn both_trials_and_success_are_no_miss() {
        assert_eq!(misses(&said(&[OUTAGE, WEATHER]), None), 0);
    }

    #[test]
    fn a_trial_that_is_not_there_is_a_miss() {
        assert_eq!(misses(&said(&[OUTAGE]), None), 1);
        assert_eq!(misses("", None), 2);
    }

    #[test]
    fn a_simulator_that_fails_without_a_word_is_a_miss() {
        assert_eq!(misses(&said(&[OUTAGE, WEATHER]), Some("exit 1")), 1);
        let broken = WEATHER.replace("[]", "[\"an invariant\"]");
        assert_eq!(misses(&said(&[OUTAGE, &broken]), Some("exit 1")), 1);
    }
}
