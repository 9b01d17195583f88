//! `cargo xtask sim`: seeds until something breaks, one seed again, planted bugs, speed.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use hack_sim::mutant::Mutant;
use hack_sim::report::{Found, Totals, Until, describe, hunt, series};
use hack_sim::run::{Replay, explain};
use hack_sim::schedule::{Scenario, Settings};

/// Simulates whole clusters, one seed after another
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// One seed only, with what happened in the end
    #[arg(long)]
    seed: Option<u64>,
    /// So many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed of a series
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Go on for so many minutes instead, whatever breaks: what runs at night
    #[arg(long)]
    minutes: Option<u64>,
    /// How many nodes; the seed decides where nothing is said
    #[arg(long)]
    nodes: Option<u32>,
    /// Which faults; a series goes through all of them where nothing is said
    #[arg(long)]
    scenario: Option<Scenario>,
    /// How long faults go on, in simulated seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// End a run after so many events
    #[arg(long)]
    steps: Option<u64>,
    /// Recount the whole state after every so many commands
    #[arg(long)]
    check_every: Option<u32>,
    /// Plant a bug
    #[arg(long)]
    mutant: Option<Mutant>,
    /// The only faults to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    keep_faults: Option<Vec<u32>>,
    /// The only operators' wishes to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    keep_ops: Option<Vec<u32>>,
    /// Lines of the trace to show of a run
    #[arg(long, default_value_t = 60)]
    lines: usize,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Plant each known bug and say how long it took to find it
    Mutants {
        /// CPU-seconds for each
        #[arg(long, default_value_t = 600)]
        limit: u64,
        /// Only these
        only: Vec<Mutant>,
    },
    /// Simulated seconds a second, with 50 nodes and faults
    Speed,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    let failed = match &arguments.verb {
        Some(Verb::Mutants { limit, only }) => mutants(&mut out, Duration::from_secs(*limit), only),
        Some(Verb::Speed) => speed(&mut out),
        None => runs(&mut out, &arguments),
    };
    match failed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(arguments: &Arguments, seed: u64) -> Settings {
    Settings {
        nodes: arguments.nodes,
        scenario: arguments.scenario.unwrap_or(Scenario::Storm),
        seconds: arguments.seconds,
        steps: arguments.steps,
        state_check_every: arguments.check_every.unwrap_or(4),
        mutant: arguments.mutant,
        keep_faults: arguments.keep_faults.clone(),
        keep_ops: arguments.keep_ops.clone(),
        ..Settings::of(seed)
    }
}

/// Answers whether something broke.
fn runs(out: &mut impl Write, arguments: &Arguments) -> std::io::Result<bool> {
    if let Some(seed) = arguments.seed {
        return one(out, &settings(arguments, seed), arguments.lines);
    }
    let first = settings(arguments, arguments.from);
    let (until, failures_max) = match arguments.minutes {
        Some(minutes) => (Until::Time(Duration::from_secs(minutes * 60)), usize::MAX),
        None => (Until::Seeds(arguments.seeds), 1),
    };
    let totals = series(&first, arguments.scenario.is_none(), until, failures_max);
    for (settings, ended) in totals.failures.iter().take(8) {
        write!(out, "{}", describe(settings, ended, arguments.lines))?;
    }
    for (settings, ended) in totals.failures.iter().skip(8) {
        let name = ended.failure.as_ref().map_or("", |it| it.invariant);
        writeln!(out, "{name}: {}", Replay(settings, None))?;
    }
    write!(out, "{totals}")?;
    Ok(!totals.failures.is_empty())
}

fn one(out: &mut impl Write, settings: &Settings, lines: usize) -> std::io::Result<bool> {
    for line in explain(settings, Some(lines)) {
        writeln!(out, "{line}")?;
    }
    let begun = std::time::Instant::now();
    let ended = hack_sim::run::run(settings);
    let mut totals = Totals::default();
    totals.add(settings, ended.clone());
    totals.took = begun.elapsed();
    write!(out, "{totals}")?;
    match &ended.failure {
        None => {
            writeln!(out, "at rest: {}", ended.rested)?;
            Ok(false)
        }
        Some(failure) => {
            writeln!(out, "FAILED: {failure}")?;
            Ok(true)
        }
    }
}

fn mutants(out: &mut impl Write, limit: Duration, only: &[Mutant]) -> std::io::Result<bool> {
    let mut missed = false;
    writeln!(
        out,
        "{:<24} {:>6} {:>9}  by, hole",
        "planted", "seeds", "CPU s"
    )?;
    for mutant in Mutant::ALL {
        if !only.is_empty() && !only.contains(&mutant) {
            continue;
        }
        let Found { mutant, by, took } = hunt(mutant, limit);
        let name = mutant.to_possible_value();
        let name = name.as_ref().map_or("", |it| it.get_name());
        let (seeds, by) = match by {
            Some((seeds, by)) => (seeds.to_string(), by),
            None => ("-".to_owned(), "NOT FOUND"),
        };
        missed |= by == "NOT FOUND";
        let took = took.as_secs_f64();
        writeln!(
            out,
            "{name:<24} {seeds:>6} {took:>9.2}  {by}; {}",
            mutant.hole()
        )?;
        out.flush()?;
    }
    Ok(missed)
}

fn speed(out: &mut impl Write) -> std::io::Result<bool> {
    for (name, scenario) in [("calm", Scenario::Calm), ("faults", Scenario::Storm)] {
        let first = Settings {
            nodes: Some(50),
            scenario,
            seconds: Some(300),
            state_check_every: 64,
            ..Settings::of(1)
        };
        let totals = series(&first, false, Until::Seeds(6), usize::MAX);
        writeln!(out, "50 nodes, {name}:")?;
        for (settings, ended) in &totals.failures {
            let what = ended.failure.as_ref().map_or("", |it| it.invariant);
            writeln!(out, "  {what}: {}", Replay(settings, None))?;
        }
        write!(out, "{totals}")?;
    }
    Ok(false)
}
