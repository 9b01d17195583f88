//! Suite `node`: the work of one host. Starts in new namespaces beside `crun` and `runc`, starts
//! and stops for a minute with a census of what they leave behind, memory of idle tasks, templates
//! and artifacts. It needs root.
//!
//! Every figure is a ratio, or stands beside a floor, of the same run: a virtual machine is fast in
//! one minute and slow in the next. On a host whose cgroup v2 has no controllers no limit is part
//! of a figure; the suite prints which are missing.

mod artifact;
mod census;
mod floor;
mod host;
mod jail;
mod keeper;
mod memory;
mod part;
mod rivals;
mod sandbox;
mod starts;
mod sustained;
mod template;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{ArgMatches, Args as _, FromArgMatches as _};
use isolation::enforcement::enforcement;

use self::part::Part;
use super::Suite;
use super::parts::chosen;
use crate::floor::Quantiles;
use crate::row::Row;
use crate::{Bench, Extent};

/// The name on the command line and in every row.
const NAME: &str = "node";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "starts beside crun and runc, leaks, memory, templates, artifacts (root)",
    options: Options::augment_args,
    run,
};

// No documentation: it would be the help of the suite. The goals are for the default sizes.
#[derive(Debug, clap::Args)]
struct Options {
    /// Starts of each side, in turn
    #[arg(long, value_name = "STARTS", default_value_t = 200)]
    starts: usize,
    /// Measure `crun` and `runc` in turn with ours: fetched from Debian's archive by `apt-get
    /// download` into `target/rivals`, unpacked there and never installed
    #[arg(long)]
    rival: bool,
    /// How long tasks are started and stopped, once at keeper and once through noded
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    sustained_seconds: u64,
    /// Idle tasks of which the daemons' memory is measured
    #[arg(long, value_name = "TASKS", default_value_t = 4000)]
    idle_tasks: u32,
    /// Renderings of a template
    #[arg(long, value_name = "TEMPLATES", default_value_t = 300)]
    templates: usize,
    /// The least size of the archive that is fetched
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    artifact_mib: u64,
    /// Measure only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
}

/// Measures the floors and, unless only those were asked for, every part.
///
/// # Errors
/// If this is not root, or something cannot be measured.
fn run(bench: &Bench, matches: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let options = Options::from_arg_matches(matches)?;
    bench.must_have(&["controlplane", "noded", "noded-keeper", "noded-jail"])?;
    let host = enforcement(Path::new(NAME));
    ensure!(
        host.root,
        "suite {NAME} makes namespaces and cgroups: run it as root"
    );
    if let Some(reason) = host.cgroup.reason() {
        eprintln!("-- cgroups are {}: {reason}", host.cgroup.name());
    }
    if bench.extent == Extent::FloorOnly {
        let [first_byte, end] = floor::births(&bench.scratch, options.starts)?;
        rows.extend(quantile_rows(
            "floor: six namespaces, exec, to the first byte",
            first_byte,
        ));
        rows.extend(quantile_rows(
            "floor: six namespaces, exec, to the end",
            end,
        ));
        return Ok(());
    }
    for part in chosen(&options.only) {
        let measured = match part {
            Part::Starts => {
                let rivals = options.rival.then(|| rivals::fetch(bench));
                starts::measure(bench, options.starts, rivals, rows)
            }
            Part::Sustained => {
                let span = Duration::from_secs(options.sustained_seconds);
                sustained::measure(bench, span, rows)
            }
            Part::Memory => memory::measure(bench, options.idle_tasks, rows),
            Part::Template => template::measure(bench, options.templates, rows),
            Part::Artifact => artifact::measure(bench, options.artifact_mib, rows),
        };
        measured.with_context(|| format!("part {part:?}"))?;
    }
    Ok(())
}

/// The median and the 99th percentile of one figure.
fn quantile_rows(figure: &str, quantiles: Quantiles) -> [Row; 2] {
    let Quantiles { p50, p99, max: _ } = quantiles;
    [(p50, "p50"), (p99, "p99")]
        .map(|(value, name)| Row::new(NAME, format!("{figure}, {name}"), milliseconds(value), "ms"))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A folder of the scratch folder, made.
fn folder(bench: &Bench, name: &str) -> anyhow::Result<PathBuf> {
    let path = bench.scratch.join(name);
    std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
    Ok(path)
}
