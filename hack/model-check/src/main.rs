//! `cargo xtask check-handshake`: every order of events to a depth, planted bugs.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use hack_model_check::mutant::Mutant;
use hack_model_check::roots::Root;
use hack_model_check::search::{Bounds, Explored, Found, explore};

/// Looks at every order of events of a node's handshake
#[derive(Debug, Parser)]
#[command(name = "cargo xtask check-handshake", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Steps from the beginning
    #[arg(long, global = true, default_value_t = 9)]
    depth: u8,
    /// Faults on one way
    #[arg(long, global = true, default_value_t = 2)]
    faults: u32,
    /// Deeper and deeper for so many minutes instead, for each beginning
    #[arg(long, global = true)]
    minutes: Option<u64>,
    /// Only this beginning
    #[arg(long, global = true)]
    from: Option<Root>,
    /// Plant a bug
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Do not look for a way to rest from the last level's states
    #[arg(long, global = true)]
    no_rest: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Plant each known bug and show a shortest way to it
    Mutants,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    let failed = match arguments.verb {
        Some(Verb::Mutants) => mutants(&mut out, &arguments),
        None => check(&mut out, &arguments),
    };
    match failed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bounds(arguments: &Arguments) -> Bounds {
    Bounds {
        depth: arguments.minutes.map_or(arguments.depth, |_| u8::MAX - 1),
        faults: arguments.faults,
        to_rest: !arguments.no_rest,
        limit: arguments.minutes.map(|it| Duration::from_secs(it * 60)),
    }
}

fn roots(arguments: &Arguments) -> Vec<Root> {
    arguments
        .from
        .map_or_else(|| Root::ALL.to_vec(), |root| vec![root])
}

/// A report has to be on the disk and lost before it can be missing.
const HANG_DEPTH: u8 = 11;

/// Answers whether something broke.
fn check(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<bool> {
    let mut failed = false;
    for root in roots(arguments) {
        let bounds = bounds(arguments);
        let world = root.world(arguments.mutant, bounds.faults);
        let world = world.map_err(|broken| anyhow::anyhow!("{}: {broken}", name(&root)))?;
        let explored = explore(&world, bounds);
        write!(out, "{:<5} ", name(&root))?;
        tell(out, &explored)?;
        if let Some(found) = &explored.found {
            failed = true;
            show(out, found)?;
        }
        out.flush()?;
    }
    Ok(failed)
}

fn tell(out: &mut impl Write, explored: &Explored) -> std::io::Result<()> {
    let Explored {
        depth,
        states,
        transitions,
        rested,
        took,
        found: _,
    } = explored;
    let seconds = took.as_secs_f64();
    let memory = memory_mb();
    writeln!(
        out,
        "depth {depth}: {states} states, {transitions} transitions, {rested} followed to rest, \
         {seconds:.1} s, {memory} MB",
    )
}

fn show(out: &mut impl Write, found: &Found) -> std::io::Result<()> {
    writeln!(out, "FAILED: {}", found.violation)?;
    for (number, action) in found.trace.iter().enumerate() {
        writeln!(out, "  {:>2}. {action}", number + 1)?;
    }
    Ok(())
}

fn mutants(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<bool> {
    let mut missed = false;
    for mutant in Mutant::ALL {
        let mut shortest: Option<(Root, Explored)> = None;
        for root in Root::ALL {
            let mut bounds = bounds(arguments);
            bounds.to_rest = mutant.only_hangs();
            if bounds.to_rest {
                bounds.depth = bounds.depth.max(HANG_DEPTH);
            }
            if let Some((_, known)) = &shortest {
                bounds.depth = known.depth.saturating_sub(1);
            }
            let explored = match root.world(Some(mutant), bounds.faults) {
                Ok(world) => explore(&world, bounds),
                // It breaks without any fault at all.
                Err(violation) => Explored {
                    found: Some(Found {
                        violation,
                        trace: Vec::new(),
                    }),
                    ..Explored::default()
                },
            };
            if explored.found.is_some() {
                shortest = Some((root, explored));
            }
        }
        let planted = name(&mutant);
        match shortest {
            Some((root, explored)) => {
                write!(out, "{planted}, from {}: ", name(&root))?;
                tell(out, &explored)?;
                if let Some(found) = &explored.found {
                    show(out, found)?;
                }
            }
            None => {
                missed = true;
                writeln!(out, "{planted}: NOT FOUND")?;
            }
        }
        out.flush()?;
    }
    Ok(missed)
}

fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |it| it.get_name().to_owned())
}

/// The most memory that was in use.
fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
