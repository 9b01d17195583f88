//! The promises about silence that have a number, tried at the size that they are made for: how
//! soon it is noticed, who is taken for silent in bad weather, how long the way back takes.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use protocol_model::reconnect::time_to_return;
use serde_json::{Value, json};

use crate::arguments::{ReplayTrial, name_of};
use crate::mutant::Mutant;
use crate::progress::OneRun;
use crate::run::{Ended, run_telling};
use crate::schedule::{Scenario, Settings};
use crate::time::{MILLI, Nanos, SECOND};

/// The nodes that the promises are made for.
pub const NODES: u32 = 5000;

/// From the last thing that was heard of a node to the command that takes it for silent
/// (reconnect.md, Liveness).
const NOTICED_WITHIN: Nanos = 3 * SECOND;
/// How often a node is heard at least, a third of what it says being lost.
const HEARD_EVERY: Nanos = 500 * MILLI;
/// Nodes from which on their silence is many nodes' at once, and how many share an entry then, on
/// average and at least: an entry takes some milliseconds, in which others fall due.
pub const MANY: u32 = 1000;
const NODES_PER_ENTRY: u64 = 4;
/// A state this large is recounted rarely.
const STATE_CHECK_EVERY: u32 = 4096;

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Trial {
    /// All nodes are cut off at once, and come back at once.
    Outage,
    /// Ten minutes in which 30 % of the packets are lost and others up to 300 ms late.
    Weather,
}

impl Trial {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Outage, Self::Weather];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outage => "trial of an outage",
            Self::Weather => "trial of bad weather",
        }
    }

    /// A run of it.
    pub fn settings(self, nodes: u32, seed: u64) -> Settings {
        let (scenario, seconds) = match self {
            Self::Outage => (Scenario::Outage, 40),
            Self::Weather => (Scenario::Lossy, 600),
        };
        Settings {
            nodes: Some(nodes),
            scenario,
            seconds: Some(seconds),
            state_check_every: STATE_CHECK_EVERY,
            ..Settings::of(seed)
        }
    }

    /// Runs it, and tells how far it is: it takes minutes.
    pub fn run(self, nodes: u32, seed: u64, mutant: Option<Mutant>) -> Tried {
        let settings = Settings {
            mutant,
            ..self.settings(nodes, seed)
        };
        let mut progress = OneRun::new(settings.seconds.unwrap_or(0));
        let ended = run_telling(&settings, &mut |now| progress.told(now));
        self.judged(settings, ended)
    }

    /// A run of it, and which promises it kept.
    pub fn judged(self, settings: Settings, ended: Ended) -> Tried {
        let broken = self.broken(&settings, &ended);
        Tried {
            trial: self,
            settings,
            ended,
            broken,
        }
    }

    /// Which promises a run did not keep.
    pub fn broken(self, settings: &Settings, ended: &Ended) -> Vec<String> {
        let nodes = settings.nodes.unwrap_or(0);
        let mut broken = Vec::new();
        let mut must = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        let figures = ended.figures;
        must(ended.failure.is_none(), "an invariant".to_owned());
        must(ended.rested, "it comes to rest".to_owned());
        let suspected = figures.false_expiries;
        must(suspected == 0, format!("{suspected} false positives"));
        match self {
            Self::Outage => {
                let (noticed, all) = (figures.noticed, u64::from(nodes));
                must(noticed == all, format!("{noticed} of {nodes} were noticed"));
                let took = figures.noticed_max;
                must(took <= NOTICED_WITHIN, format!("noticed in {}", ms(took)));
                let (entries, expired) = (ended.counts.expiries, ended.counts.expired);
                let shared = entries.saturating_mul(NODES_PER_ENTRY) <= expired;
                must(
                    shared || nodes < MANY,
                    format!("{entries} entries for {expired} that fell silent"),
                );
                let took = figures.ready_again_max;
                // All servers answer again, and one attempt may be on its way to nobody still.
                let within = time_to_return(1).as_nanos();
                let back = figures.outages == 1 && took > 0 && u128::from(took) <= within;
                must(back, format!("all ready again in {}", ms(took)));
            }
            Self::Weather => {
                // What is not said at all cannot be taken amiss.
                let span = settings.seconds.unwrap_or(0) * SECOND;
                let least = span / HEARD_EVERY * u64::from(nodes);
                let heard = ended.counts.heartbeats;
                must(heard >= least, format!("{heard} heartbeats, not {least}"));
            }
        }
        broken
    }
}

/// A run, and what became of the promises.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What was tried.
    pub trial: Trial,
    /// How it was run.
    pub settings: Settings,
    /// What became of it.
    pub ended: Ended,
    /// The promises that were not kept.
    pub broken: Vec<String>,
}

impl Tried {
    /// The line that tries it again.
    pub fn replay(&self) -> ReplayTrial {
        ReplayTrial {
            trial: self.trial,
            nodes: self.settings.nodes.unwrap_or(0),
            seed: self.settings.seed,
            mutant: self.settings.mutant,
        }
    }

    /// The same for programs. `took`: CPU time.
    pub fn json(&self, took: Duration) -> Value {
        let figures = self.ended.figures;
        json!({
            "trial": name_of(&self.trial),
            "nodes": self.settings.nodes,
            "broken": self.broken,
            "noticed": figures.noticed,
            "noticed_max_ms": figures.noticed_max / MILLI,
            "false_expiries": figures.false_expiries,
            "ready_again_max_ms": figures.ready_again_max / MILLI,
            "heartbeats": self.ended.counts.heartbeats,
            "simulated_s": self.ended.lasted / SECOND,
            "cpu_s": took.as_secs_f64(),
            "replay": self.replay().to_string(),
        })
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.settings.nodes.unwrap_or(0);
        let what = match self.trial {
            Trial::Outage => "all of them cut off and back at once",
            Trial::Weather => "ten minutes of 30 % loss and 300 ms of jitter",
        };
        write!(f, "{nodes} nodes, {what}: ")?;
        match self.broken.as_slice() {
            [] => writeln!(f, "every promise kept"),
            broken => {
                writeln!(f, "BROKEN: {}", broken.join("; "))?;
                writeln!(f, "  as found:  {}", self.replay())
            }
        }
    }
}

fn ms(span: Nanos) -> String {
    format!("{} ms", span / MILLI)
}
