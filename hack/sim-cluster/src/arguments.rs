//! How runs are asked for on the command line, and the line that asks for one of them again. They
//! stand together, so that nobody adds an option to the one and forgets the other.

use std::fmt;

use clap::Parser;
use hack_sim::arguments::{list, name_of};

use crate::mutant::Mutant;
use crate::schedule::{Scenario, Settings};

/// Simulates whole servers and nodes in virtual time, one seed after another
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim cluster", disable_version_flag = true)]
pub struct Arguments {
    /// One seed only, with what happened in the end
    #[arg(long)]
    pub seed: Option<u64>,
    /// So many seeds
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
    /// The first seed of a series
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Go on for so many minutes instead, whatever breaks: what runs at night
    #[arg(long)]
    pub minutes: Option<u64>,
    /// Which faults; a series goes through all of them where nothing is said
    #[arg(long)]
    pub scenario: Option<Scenario>,
    /// How long faults go on, in simulated seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Plant a bug
    #[arg(long)]
    pub mutant: Option<Mutant>,
    /// The only faults to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    pub keep_faults: Option<Vec<u32>>,
    /// The only operators' wishes to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    pub keep_ops: Option<Vec<u32>>,
    /// Lines of the trace to show of one run
    #[arg(long, default_value_t = 60)]
    pub lines: usize,
    /// Plant each known bug and say how long it took to find it
    #[arg(long)]
    pub mutants: bool,
    /// Simulated seconds a second, with and without faults, beside what is promised
    #[arg(long)]
    pub speed: bool,
}

impl Arguments {
    /// The run of `seed` that they ask for.
    pub fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            scenario: self.scenario.unwrap_or(Scenario::Storm),
            seconds: self.seconds,
            mutant: self.mutant,
            keep_faults: self.keep_faults.clone(),
            keep_ops: self.keep_ops.clone(),
        }
    }
}

/// The line that replays a run.
#[derive(Debug)]
pub struct Replay<'a>(pub &'a Settings);

impl fmt::Display for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            seed,
            scenario,
            seconds,
            mutant,
            keep_faults,
            keep_ops,
        } = self.0;
        write!(f, "cargo xtask sim cluster --seed {seed}")?;
        if *scenario != Scenario::Storm {
            write!(f, " --scenario {}", name_of(scenario))?;
        }
        if let Some(seconds) = seconds {
            write!(f, " --seconds {seconds}")?;
        }
        if let Some(mutant) = mutant {
            write!(f, " --mutant {}", name_of(mutant))?;
        }
        list(f, "--keep-faults", keep_faults.as_deref())?;
        list(f, "--keep-ops", keep_ops.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};
    use hack_sim::arguments::parse;
    use hack_sim::rng::Rng;

    use super::*;

    /// Lines that are tried: each option is there in half of them.
    const LINES: u64 = 4000;

    fn parsed(line: &str) -> Arguments {
        let arguments = parse(line, "cargo xtask sim ");
        arguments.unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn maybe<T>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        let there = rng.chance(500);
        there.then(|| value(rng))
    }

    fn any_of<T: ValueEnum + Clone>(rng: &mut Rng) -> T {
        let all = T::value_variants();
        all[rng.offset(all.len())].clone()
    }

    fn numbers(rng: &mut Rng) -> Vec<u32> {
        let number = |rng: &mut Rng| u32::try_from(rng.draw() >> 32).expect("half of the bits");
        (0..rng.below(4)).map(|_| number(rng)).collect()
    }

    fn any_settings(rng: &mut Rng) -> Settings {
        Settings {
            seed: rng.draw() >> rng.below(64),
            scenario: any_of(rng),
            seconds: maybe(rng, Rng::draw),
            mutant: maybe(rng, any_of),
            keep_faults: maybe(rng, numbers),
            keep_ops: maybe(rng, numbers),
        }
    }

    #[test]
    fn a_line_asks_for_the_very_run_that_it_was_made_from() {
        for seed in 0..LINES {
            let settings = any_settings(&mut Rng::new(seed, 0));
            let line = Replay(&settings).to_string();
            let arguments = parsed(&line);
            let others = arguments.mutants || arguments.speed;
            assert!(!others, "seed {seed}: {line}");
            let again = arguments.seed.map(|seed| arguments.settings(seed));
            assert_eq!(again, Some(settings), "seed {seed}: {line}");
        }
    }

    #[test]
    fn what_is_as_always_is_not_said() {
        let line = Replay(&Settings::of(7)).to_string();
        assert_eq!(line, "cargo xtask sim cluster --seed 7");
    }

    #[test]
    fn every_option_that_a_run_depends_on_is_in_a_line() {
        // Which runs, and how much is said of them.
        const OF_NO_RUN: [&str; 7] = [
            "seeds", "from", "minutes", "lines", "mutants", "speed", "help",
        ];
        let mut said = String::new();
        for seed in 0..100 {
            let settings = any_settings(&mut Rng::new(seed, 0));
            said.push_str(&Replay(&settings).to_string());
            said.push(' ');
        }
        let said: Vec<&str> = said.split([' ', '=']).collect();
        let mut command = Arguments::command();
        command.build();
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            let in_a_line = said.contains(&format!("--{option}").as_str());
            assert_ne!(in_a_line, OF_NO_RUN.contains(&option), "--{option}");
        }
    }
}
