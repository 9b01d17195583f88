//! Every order of events to a depth: depth first, deeper and deeper, so that the first violation
//! that is found has a shortest way to it. A state that was gone on from with as many steps left is
//! not gone on from again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use crate::action::Action;
use crate::digest::Digest;
use crate::invariants::Violation;
use crate::world::World;

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps from the root.
    pub depth: u8,
    /// Faults on one way.
    pub faults: u32,
    /// Whether a way to rest is looked for from every state of the last level.
    pub to_rest: bool,
    /// No deeper level is begun after this.
    pub limit: Option<Duration>,
}

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// The depth that was completed.
    pub depth: u8,
    pub states: u64,
    pub transitions: u64,
    /// States of the last level that were followed to rest.
    pub rested: u64,
    pub took: Duration,
    pub found: Option<Found>,
}

/// A violation and a shortest way to it.
#[derive(Clone, Debug)]
pub struct Found {
    pub violation: Violation,
    pub trace: Vec<Action>,
}

/// Digests are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

struct Search {
    /// Per state, with how many steps left it was gone on from.
    seen: HashMap<Digest, u8, BuildHasherDefault<AsIs>>,
    to_rest: bool,
    /// From where rest is known to come.
    settles: HashSet<Digest, BuildHasherDefault<AsIs>>,
    transitions: u64,
    rested: u64,
    trace: Vec<Action>,
}

/// Looks at every order of events from `root`, deeper and deeper.
pub fn explore(world: &World, bounds: Bounds) -> Explored {
    let begun = Instant::now();
    let mut explored = Explored::default();
    // Shallow levels cost next to nothing, and the last one is all that is counted.
    for depth in 1..=bounds.depth {
        let mut search = Search {
            seen: HashMap::default(),
            to_rest: bounds.to_rest,
            settles: HashSet::default(),
            transitions: 0,
            rested: 0,
            trace: Vec::new(),
        };
        let found = search.visit(world, depth).err();
        explored.depth = depth;
        explored.states = search.seen.len() as u64;
        explored.transitions = search.transitions;
        explored.rested = search.rested;
        explored.took = begun.elapsed();
        if let Some(violation) = found {
            let trace = search.trace;
            explored.found = Some(Found { violation, trace });
            break;
        }
        if bounds.limit.is_some_and(|limit| begun.elapsed() >= limit) {
            break;
        }
    }
    explored
}

impl Search {
    fn visit(&mut self, world: &World, left: u8) -> Result<(), Violation> {
        if let Some(violation) = &world.broken {
            return Err(violation.clone());
        }
        let seen = self.seen.entry(world.digest()).or_insert(u8::MAX);
        if *seen != u8::MAX && *seen >= left {
            return Ok(());
        }
        *seen = left;
        if left == 0 {
            if self.to_rest {
                self.rested += 1;
                self.settle(world.clone())?;
            }
            return Ok(());
        }
        for (action, cost) in world.enabled() {
            self.transitions += 1;
            self.trace.push(action);
            let mut next = world.clone();
            next.step(action, cost);
            self.visit(&next, left - 1)?;
            self.trace.pop();
        }
        Ok(())
    }

    /// Follows a state to rest. Ways to it that differ only in who went first meet soon.
    fn settle(&mut self, mut world: World) -> Result<(), Violation> {
        let mut way = Vec::new();
        let settles = &self.settles;
        world.settle_past(|world| {
            let digest = world.digest();
            way.push(digest);
            settles.contains(&digest)
        })?;
        self.settles.extend(way);
        Ok(())
    }
}
