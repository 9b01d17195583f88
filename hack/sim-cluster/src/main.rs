//! `cargo xtask sim cluster`: seeds until something breaks, one seed again, planted bugs, speed.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use hack_sim::arguments::name_of;
use hack_sim::progress::Progress;
use hack_sim_cluster::arguments::{Arguments, Replay};
use hack_sim_cluster::mutant::Mutant;
use hack_sim_cluster::report::{Found, Totals, Until, describe, hunt, series};
use hack_sim_cluster::schedule::{Scenario, Settings};
use hack_sim_cluster::world::run;
use tracing_subscriber::EnvFilter;

/// Seeds that are tried for one planted bug.
const HUNT_SEEDS_MAX: u64 = 100;

/// What servers and nodes log goes to standard error where `SIM_LOG` asks for it.
fn main() -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("SIM_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    let failed = if arguments.mutants {
        mutants(&mut out, &arguments)?
    } else if arguments.speed {
        speed(&mut out)?
    } else if let Some(seed) = arguments.seed {
        one(&mut out, &arguments.settings(seed), arguments.lines)?
    } else {
        many(&mut out, &arguments)?
    };
    Ok(match failed {
        false => ExitCode::SUCCESS,
        true => ExitCode::FAILURE,
    })
}

fn one(out: &mut impl Write, settings: &Settings, lines: usize) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let ended = run(settings, lines.max(1))?;
    for line in &ended.trace {
        writeln!(out, "{line}")?;
    }
    let mut totals = Totals::default();
    totals.add(settings, &ended);
    totals.took = begun.elapsed();
    write!(out, "{totals}")?;
    if let Some(failure) = &ended.failure {
        writeln!(out, "FAILED: {failure}")?;
    }
    Ok(ended.failure.is_some())
}

/// Answers whether something broke.
fn many(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<bool> {
    let first = arguments.settings(arguments.from);
    let all = arguments.scenario.is_none();
    let totals = match arguments.minutes {
        Some(minutes) => {
            let span = Duration::from_secs(minutes * 60);
            let mut progress = Progress::new(span);
            let told = &mut |totals: &Totals| {
                let lasted = totals.lasted.as_secs_f64();
                progress.told(totals.runs, lasted, &totals.failures, |(settings, _)| {
                    Replay(settings).to_string()
                });
            };
            series(&first, all, Until::Time(span), usize::MAX, told)?
        }
        None => {
            // At once: to make it smaller takes minutes.
            let told = &mut |totals: &Totals| {
                for (settings, _) in &totals.failures {
                    eprintln!("FAILED: {}", Replay(settings));
                }
            };
            let until = Until::Seeds(arguments.seeds);
            series(&first, all, until, 1, told)?
        }
    };
    for (settings, failure) in totals.failures.iter().take(4) {
        write!(out, "{}", describe(settings, failure)?)?;
    }
    for (settings, failure) in totals.failures.iter().skip(4) {
        writeln!(out, "{}: {}", failure.invariant, Replay(settings))?;
    }
    write!(out, "{totals}")?;
    Ok(!totals.failures.is_empty())
}

fn mutants(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<bool> {
    let mut missed = false;
    writeln!(out, "{:<18} {:>6} {:>8}  by", "planted", "seeds", "s")?;
    for mutant in Mutant::ALL {
        if arguments.mutant.is_some_and(|only| only != mutant) {
            continue;
        }
        let found = hunt(mutant, arguments.seconds, HUNT_SEEDS_MAX)?;
        let Found {
            mutant,
            by,
            healthy,
            took,
        } = found;
        missed |= by.is_none();
        let (seeds, by) = match by {
            Some((seeds, failure)) => (seeds, failure.invariant),
            None => (HUNT_SEEDS_MAX, "NOT FOUND"),
        };
        let (name, took) = (name_of(&mutant), took.as_secs_f64());
        writeln!(out, "{name:<18} {seeds:>6} {took:>8.1}  {by}")?;
        if let Some((settings, failure)) = healthy {
            writeln!(out, "FAILED without it:")?;
            write!(out, "{}", describe(&settings, &failure)?)?;
        }
        out.flush()?;
    }
    Ok(missed)
}

/// Simulated seconds a second that are promised, by the clock on the wall: the processor time of a
/// run's own thread leaves out those that help it.
const SPEED_GOAL: f64 = 10.0;

/// Answers whether something that must hold did not, or it is slower than promised. No test asks
/// that: it depends on the host.
fn speed(out: &mut impl Write) -> anyhow::Result<bool> {
    let mut failed = false;
    for (name, scenario) in [("calm", Scenario::Calm), ("faults", Scenario::Storm)] {
        let first = Settings {
            scenario,
            seconds: Some(120),
            ..Settings::of(1)
        };
        let totals = series(&first, false, Until::Seeds(4), usize::MAX, &mut |_| {})?;
        write!(out, "3 servers, 5 nodes, {name}:\n{totals}")?;
        for (settings, failure) in &totals.failures {
            writeln!(out, "FAILED, {}: {}", failure.invariant, Replay(settings))?;
        }
        let (said, missed) = judge(&totals);
        writeln!(out, "{said}")?;
        failed |= missed || !totals.failures.is_empty();
        out.flush()?;
    }
    Ok(failed)
}

/// What a series came to beside the goal, in words, and whether it missed that.
fn judge(totals: &Totals) -> (String, bool) {
    let missed = totals.speed() < SPEED_GOAL;
    let verdict = if missed { "MISSED" } else { "met" };
    let said = format!(
        "goal: {SPEED_GOAL:.0} simulated seconds a second: {verdict} with {:.1}",
        totals.speed()
    );
    (said, missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_slower_than_promised_is_a_failure() {
        let totals = |took_s| Totals {
            lasted: Duration::from_secs(60),
            took: Duration::from_secs(took_s),
            ..Totals::default()
        };
        assert!(!judge(&totals(6)).1);
        let (said, missed) = judge(&totals(7));
        assert!(missed && said.contains("MISSED with 8.6"), "{said}");
    }
}
