//! Memory of sockets that nobody uses: idle tasks at a node with the Task API, and at one without.

use std::time::Duration;

use hack_cluster::procfs::memory_kib;

use super::NAME;
use super::scene::Scene;
use crate::Bench;
use crate::row::Row;

const GOAL_KIB: f64 = 4.0;
/// Buffers of the start are given back meanwhile.
const SETTLE: Duration = Duration::from_secs(3);
const WITHOUT: &str = "task_api {\n  enabled = false\n}\n";

/// See the top of this file.
///
/// # Errors
/// If the tasks do not run.
pub(super) fn measure(bench: &Bench, tasks: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let with = each(bench, "", tasks)?;
    let without = each(bench, WITHOUT, tasks)?;
    let figure = |what: &str| format!("noded and keeper, of {tasks} idle tasks each, {what}");
    rows.extend([
        Row::new(NAME, figure("with a socket"), with, "KiB"),
        Row::new(NAME, figure("without"), without, "KiB"),
        Row::new(NAME, figure("the socket alone"), with - without, "KiB").at_most(GOAL_KIB),
    ]);
    Ok(())
}

/// KiB (PSS) of noded and keeper for each of so many tasks.
fn each(bench: &Bench, node_lines: &str, tasks: usize) -> anyhow::Result<f64> {
    let scene = Scene::start(bench, node_lines)?;
    // With one of them the daemons have loaded what they need for any.
    scene.run_idle("first", 1)?;
    std::thread::sleep(SETTLE);
    let before = kib(&scene)?;
    eprintln!(
        "-- {tasks} idle tasks {}",
        if node_lines.is_empty() {
            ""
        } else {
            "without sockets"
        }
    );
    scene.run_idle("idle", tasks)?;
    std::thread::sleep(SETTLE);
    Ok((kib(&scene)? - before) / tasks as f64)
}

fn kib(scene: &Scene) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for pid in scene.daemons()? {
        sum += f64::from(u32::try_from(memory_kib(pid)?)?);
    }
    Ok(sum)
}
