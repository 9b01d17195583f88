//! How runs are asked for on the command line, and the lines that ask for one of them again. They
//! stand together, so that nobody adds an option to the one and forgets the other.

use std::fmt;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::mutant::Mutant;
use crate::schedule::{STATE_CHECK_EVERY, Scenario, Settings};
use crate::silence::{self, Trial};

/// Simulates whole clusters, one seed after another
// What stands before a verb would be read and not heeded: it is refused.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask sim",
    disable_version_flag = true,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// One seed only, with what happened in the end
    #[arg(long)]
    pub seed: Option<u64>,
    /// So many seeds
    #[arg(long, default_value_t = 200)]
    pub seeds: u64,
    /// The first seed of a series
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Go on for so many minutes instead, whatever breaks: what runs at night
    #[arg(long)]
    pub minutes: Option<u64>,
    /// How many nodes; the seed decides where nothing is said
    #[arg(long)]
    pub nodes: Option<u32>,
    /// Which faults; a series goes through all of them where nothing is said
    #[arg(long)]
    pub scenario: Option<Scenario>,
    /// How long faults go on, in simulated seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// End a run after so many events
    #[arg(long)]
    pub steps: Option<u64>,
    /// Recount the whole state after every so many commands
    #[arg(long, default_value_t = STATE_CHECK_EVERY)]
    pub check_every: u32,
    /// Plant a bug
    #[arg(long)]
    pub mutant: Option<Mutant>,
    /// The only faults to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    pub keep_faults: Option<Vec<u32>>,
    /// The only operators' wishes to keep, by number
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    pub keep_ops: Option<Vec<u32>>,
    /// Lines of the trace to show of a run
    #[arg(long, default_value_t = 60)]
    pub lines: usize,
}

#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Plant each known bug and say how long it took to find it
    Mutants {
        /// CPU-seconds for each
        #[arg(long, default_value_t = 600)]
        limit: u64,
        /// Only these
        only: Vec<Mutant>,
    },
    /// Simulated seconds a CPU-second: 50 nodes with and without faults, and other sizes; judged
    /// for what the log can do to 50 nodes
    Speed,
    /// What is promised about silence, at the size it is promised for: some minutes
    Silence {
        #[command(flatten)]
        trials: Trials,
        /// One JSON object for each trial, instead
        #[arg(long)]
        json: bool,
    },
}

/// Which trials, and of what.
#[derive(Debug, Clone, Args)]
pub struct Trials {
    /// Their seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How many nodes, instead
    #[arg(long, default_value_t = silence::NODES)]
    pub nodes: u32,
    /// Plant a bug
    #[arg(long)]
    pub mutant: Option<Mutant>,
    /// Only these
    pub only: Vec<Trial>,
}

impl Trials {
    /// Those that are asked for.
    pub fn all(&self) -> impl Iterator<Item = Trial> {
        let asked = |trial: &Trial| self.only.is_empty() || self.only.contains(trial);
        Trial::ALL.into_iter().filter(asked)
    }
}

impl Arguments {
    /// The run of `seed` that they ask for.
    pub fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            nodes: self.nodes,
            scenario: self.scenario.unwrap_or(Scenario::Storm),
            seconds: self.seconds,
            steps: self.steps,
            state_check_every: self.check_every,
            mutant: self.mutant,
            keep_faults: self.keep_faults.clone(),
            keep_ops: self.keep_ops.clone(),
        }
    }
}

/// The line that replays a run, to its end or for so many events.
#[derive(Debug)]
pub struct Replay<'a>(pub &'a Settings, pub Option<u64>);

impl fmt::Display for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            seed,
            nodes,
            scenario,
            seconds,
            steps,
            state_check_every,
            mutant,
            keep_faults,
            keep_ops,
        } = self.0;
        write!(f, "cargo xtask sim --seed {seed}")?;
        if let Some(nodes) = nodes {
            write!(f, " --nodes {nodes}")?;
        }
        if *scenario != Scenario::Storm {
            write!(f, " --scenario {}", name_of(scenario))?;
        }
        if let Some(seconds) = seconds {
            write!(f, " --seconds {seconds}")?;
        }
        if *state_check_every != STATE_CHECK_EVERY {
            write!(f, " --check-every {state_check_every}")?;
        }
        if let Some(mutant) = mutant {
            write!(f, " --mutant {}", name_of(mutant))?;
        }
        list(f, "--keep-faults", keep_faults.as_deref())?;
        list(f, "--keep-ops", keep_ops.as_deref())?;
        if let Some(steps) = self.1.or(*steps) {
            write!(f, " --steps {steps}")?;
        }
        Ok(())
    }
}

/// The line that tries again what a trial tried, and judges it.
#[derive(Debug)]
pub struct ReplayTrial {
    pub trial: Trial,
    pub nodes: u32,
    pub seed: u64,
    pub mutant: Option<Mutant>,
}

impl fmt::Display for ReplayTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trial,
            nodes,
            seed,
            mutant,
        } = self;
        write!(f, "cargo xtask sim silence --seed {seed}")?;
        if *nodes != silence::NODES {
            write!(f, " --nodes {nodes}")?;
        }
        if let Some(mutant) = mutant {
            write!(f, " --mutant {}", name_of(mutant))?;
        }
        write!(f, " {}", name_of(trial))
    }
}

/// What a value is called on the command line.
pub fn name_of(value: &impl ValueEnum) -> String {
    let named = value.to_possible_value();
    named.map_or_else(String::new, |it| it.get_name().to_owned())
}

/// Writes an option that keeps nothing but these.
///
/// # Errors
/// As the formatter's.
pub fn list(f: &mut fmt::Formatter<'_>, name: &str, numbers: Option<&[u32]>) -> fmt::Result {
    let Some(numbers) = numbers else {
        return Ok(());
    };
    if numbers.is_empty() {
        return write!(f, " {name}");
    }
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    write!(f, " {name}={}", numbers.join(","))
}

/// What a line of ours asks for, as its program reads it, which is not told the `first` words.
///
/// # Errors
/// Where it is no such line, or the program would refuse it.
pub fn parse<A: Parser>(line: &str, first: &str) -> anyhow::Result<A> {
    let words = line.trim().strip_prefix(first);
    let words = words.ok_or_else(|| anyhow::anyhow!("no line that replays: {line}"))?;
    Ok(A::try_parse_from(words.split_whitespace())?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::rng::Rng;

    /// Lines that are tried: each option is there in half of them.
    const LINES: u64 = 4000;

    fn parsed(line: &str) -> Arguments {
        parse(line, "cargo xtask ").unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn maybe<T>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        let there = rng.chance(500);
        there.then(|| value(rng))
    }

    fn any_of<T: ValueEnum + Clone>(rng: &mut Rng) -> T {
        let all = T::value_variants();
        all[rng.offset(all.len())].clone()
    }

    fn number(rng: &mut Rng) -> u32 {
        u32::try_from(rng.draw() >> rng.between(32, 64)).expect("half of the bits are gone")
    }

    fn numbers(rng: &mut Rng) -> Vec<u32> {
        (0..rng.below(4)).map(|_| number(rng)).collect()
    }

    fn any_settings(rng: &mut Rng) -> Settings {
        Settings {
            seed: rng.draw() >> rng.below(64),
            nodes: maybe(rng, number),
            scenario: any_of(rng),
            seconds: maybe(rng, Rng::draw),
            steps: maybe(rng, Rng::draw),
            state_check_every: maybe(rng, number).unwrap_or(STATE_CHECK_EVERY),
            mutant: maybe(rng, any_of),
            keep_faults: maybe(rng, numbers),
            keep_ops: maybe(rng, numbers),
        }
    }

    #[test]
    fn a_line_asks_for_the_very_run_that_it_was_made_from() {
        for seed in 0..LINES {
            let mut rng = Rng::new(seed, 0);
            let mut settings = any_settings(&mut rng);
            let steps = maybe(&mut rng, Rng::draw);
            let line = Replay(&settings, steps).to_string();
            settings.steps = steps.or(settings.steps);
            let arguments = parsed(&line);
            assert!(arguments.verb.is_none(), "seed {seed}: {line}");
            let again = arguments.seed.map(|seed| arguments.settings(seed));
            assert_eq!(again, Some(settings), "seed {seed}: {line}");
        }
    }

    #[test]
    fn a_trial_s_line_asks_for_the_very_trial_that_it_was_made_from() {
        for seed in 0..LINES {
            let mut rng = Rng::new(seed, 0);
            let made = ReplayTrial {
                trial: any_of(&mut rng),
                nodes: maybe(&mut rng, number).unwrap_or(silence::NODES),
                seed: rng.draw(),
                mutant: maybe(&mut rng, any_of),
            };
            let line = made.to_string();
            let Some(Verb::Silence { trials, .. }) = parsed(&line).verb else {
                panic!("seed {seed}: {line}");
            };
            assert_eq!(trials.all().collect::<Vec<_>>(), [made.trial], "{line}");
            let again = (trials.nodes, trials.seed, trials.mutant);
            assert_eq!(again, (made.nodes, made.seed, made.mutant), "{line}");
        }
    }

    #[test]
    fn what_is_as_always_is_not_said() {
        let settings = parsed("cargo xtask sim --seed 7").settings(7);
        let line = Replay(&settings, None).to_string();
        assert_eq!(line, "cargo xtask sim --seed 7");
    }

    #[test]
    fn every_option_that_a_run_depends_on_is_in_a_line() {
        // Which runs, and how much is said of them.
        const OF_NO_RUN: [&str; 5] = ["seeds", "from", "minutes", "lines", "help"];
        let mut said = String::new();
        for seed in 0..100 {
            let settings = any_settings(&mut Rng::new(seed, 0));
            said.push_str(&Replay(&settings, None).to_string());
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

    #[test]
    fn an_option_that_a_verb_would_not_heed_is_refused() {
        let before = ["sim", "--from", "3", "silence"];
        Arguments::try_parse_from(before).unwrap_err();
    }
}
