//! Five thousand nodes, which no host here can hold, in the simulator: what it judges of silence,
//! in figures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{NAME, count, none_row, number};
use crate::bench::row::Row;

/// Silence is noticed by then, from the last word of a node to the command.
const NOTICED_GOAL_MS: f64 = 3_000.0;

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
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (mut rows, mut broken) = (Vec::new(), 0);
    for line in said.lines() {
        let trial: Value = serde_json::from_str(line).context("read what the simulator says")?;
        eprintln!("   {trial}");
        broken += trial["broken"].as_array().map_or(1, Vec::len) as u64;
        let suspected = usize::try_from(trial["false_expiries"].as_u64().context("no count")?)?;
        let nodes = &trial["nodes"];
        if trial["trial"] == "outage" {
            let noticed = number(&trial["noticed_max_ms"])?;
            let figure = |what: &str| format!("simulated, {nodes} nodes cut off at once, {what}");
            rows.push(Row {
                goal: Some(NOTICED_GOAL_MS),
                met: Some(noticed <= NOTICED_GOAL_MS),
                ..Row::new(NAME, figure("the last noticed"), noticed, "ms")
            });
            let ready = number(&trial["ready_again_max_ms"])?;
            let row = Row::new(NAME, figure("back at once, all ready again"), ready, "ms");
            rows.push(row);
        } else {
            let seconds = &trial["simulated_s"];
            let figure = format!("simulated, {nodes} nodes, 30 % loss and 300 ms jitter");
            let figure = format!("{figure}, {seconds} s, nodes suspected that were well");
            rows.push(none_row(figure, suspected)?);
        }
    }
    ensure!(
        !rows.is_empty(),
        "the simulator: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    rows.push(Row {
        goal: Some(0.0),
        met: Some(broken == 0),
        ..Row::new(NAME, "simulated, promises broken", count(broken)?, "")
    });
    Ok(rows)
}
