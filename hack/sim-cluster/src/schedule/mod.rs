//! What a run is made of, as data: its faults and its operators' wishes. All of it follows from the
//! seed, and any part can be left out again to make a failure smaller.

pub mod access;
pub mod fault;
pub mod job;
pub mod op;

use std::time::Duration;

use clap::ValueEnum;
use hack_sim::rng::Rng;
use hack_sim::schedule::jobs::Kind;

use crate::mutant::Mutant;
use fault::Fault;
use op::{Op, OpKind};

/// Servers of every run.
pub const SERVERS: u8 = 3;
/// Nodes of every run: their machines come after the servers'.
pub const NODES: u8 = 5;

/// Streams of chance.
const STREAM_SHAPE: u64 = 1;
const STREAM_FAULTS: u64 = 2;
const STREAM_OPS: u64 = 3;
const STREAM_LEASES: u64 = 4;
const STREAM_ACCESS: u64 = 5;

/// The pause between two rounds of access, in milliseconds: where they are the point, and where
/// they are one thing among others.
const ROUNDS_OFTEN: (u64, u64) = (300, 1_500);
const ROUNDS_SELDOM: (u64, u64) = (3_000, 9_000);

/// How a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Decides everything else.
    pub seed: u64,
    pub scenario: Scenario,
    /// How long faults go on, in seconds; `None` = the seed decides.
    pub seconds: Option<u64>,
    /// A planted bug.
    pub mutant: Option<Mutant>,
    /// The only faults to keep, by their number; `None` = all.
    pub keep_faults: Option<Vec<u32>>,
    /// The only operators' wishes to keep; `None` = all.
    pub keep_ops: Option<Vec<u32>>,
}

impl Settings {
    /// A run of `seed` with everything left to it.
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            scenario: Scenario::Storm,
            seconds: None,
            mutant: None,
            keep_faults: None,
            keep_ops: None,
        }
    }
}

/// Which faults there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// Any, as the seed decides.
    Storm,
    /// None: whatever goes wrong is the product's own doing.
    Calm,
    /// One server at a time is killed, cut off, slow, or has trouble with its disk.
    OneServer,
    /// All servers lose their power at once, again and again.
    Power,
    /// Disks are slow, refuse writes, or tear one.
    Disks,
    /// Any pair of machines is cut off from each other, one way or both.
    Partition,
    /// Daemons are killed and hosts lose their power.
    Nodes,
    /// Leaders change all the time.
    Leaders,
    /// Nodes are cut off and their daemons killed for longer than a group may run unheard. No clock
    /// jumps: that a lease is over is known by a clock.
    Leased,
    /// Servers lag, are cut off from each other and killed, and leaders change, while tokens are
    /// made and taken away.
    Access,
}

impl Scenario {
    /// Whether all nodes are heard all the time, whatever else is wrong.
    pub fn hears_all_nodes(self) -> bool {
        match self {
            Self::Calm | Self::OneServer => true,
            Self::Storm
            | Self::Power
            | Self::Disks
            | Self::Partition
            | Self::Nodes
            | Self::Leaders
            | Self::Leased
            | Self::Access => false,
        }
    }
}

/// What a series of runs goes through, one after the other.
pub const ROUND: [Scenario; 12] = [
    Scenario::Storm,
    Scenario::OneServer,
    Scenario::Storm,
    Scenario::Disks,
    Scenario::Partition,
    Scenario::Storm,
    Scenario::Nodes,
    Scenario::Leaders,
    Scenario::Leased,
    Scenario::Power,
    Scenario::Access,
    Scenario::Calm,
];

/// The scenario of a seed in a series that goes through all of them.
pub fn scenario_of(seed: u64) -> Scenario {
    let offset = usize::try_from(seed % ROUND.len() as u64).unwrap_or(0);
    ROUND[offset]
}

/// Everything that will be done to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When faults end.
    pub safety: Duration,
    pub faults: Vec<Fault>,
    pub ops: Vec<Op>,
    /// The kinds of jobs in this run.
    pub jobs: Vec<Kind>,
    /// Whether access control is on.
    pub access: bool,
}

impl Schedule {
    /// What `settings` ask for.
    pub fn of(settings: &Settings) -> Self {
        let mut shape = Rng::new(settings.seed, STREAM_SHAPE);
        let seconds = shape.between(25, 50);
        let safety = Duration::from_secs(settings.seconds.unwrap_or(seconds));
        let others = [Kind::Window, Kind::Patient, Kind::Batch, Kind::System];
        let mut jobs = vec![Kind::Service];
        jobs.extend(others.into_iter().filter(|_| shape.chance(500)));
        let mut rng = Rng::new(settings.seed, STREAM_FAULTS);
        let mut faults = fault::draw(settings.scenario, safety, &mut shape, &mut rng);
        let clocks_jump = faults.iter().any(Fault::is_of_a_clock);
        let some = Rng::new(settings.seed, STREAM_LEASES).chance(300);
        if settings.scenario == Scenario::Leased || (some && !clocks_jump) {
            jobs.push(Kind::Leased);
        }
        let mut rng = Rng::new(settings.seed, STREAM_OPS);
        let mut ops = op::draw(&jobs, safety, &mut rng);
        let mut rng = Rng::new(settings.seed, STREAM_ACCESS);
        let some = rng.chance(250);
        let access = settings.scenario == Scenario::Access || some;
        if settings.scenario == Scenario::Access {
            // Each round reads.
            ops.retain(|op| op.kind != OpKind::Read);
            op::add_rounds(&mut ops, safety, ROUNDS_OFTEN, &mut rng);
        } else if access {
            op::add_rounds(&mut ops, safety, ROUNDS_SELDOM, &mut rng);
        }
        keep(&mut faults, settings.keep_faults.as_deref(), |it| it.number);
        keep(&mut ops, settings.keep_ops.as_deref(), |it| it.number);
        Self {
            safety,
            faults,
            ops,
            jobs,
            access,
        }
    }
}

fn keep<T>(list: &mut Vec<T>, numbers: Option<&[u32]>, number: impl Fn(&T) -> u32) {
    if let Some(numbers) = numbers {
        list.retain(|it| numbers.contains(&number(it)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_schedule_again_and_parts_of_it_can_be_left_out() {
        for scenario in Scenario::value_variants() {
            let settings = Settings {
                scenario: *scenario,
                ..Settings::of(7)
            };
            let whole = Schedule::of(&settings);
            assert_eq!(whole, Schedule::of(&settings));
            let fewer = Schedule::of(&Settings {
                keep_faults: Some(vec![1]),
                ..settings
            });
            let second = whole.faults.into_iter().filter(|it| it.number == 1);
            assert_eq!(fewer.faults, second.collect::<Vec<_>>());
            assert_eq!(fewer.ops, whole.ops);
        }
    }
}
