//! What a run measured of the promises that have a number: how soon silence is noticed, how often a
//! node that is well is taken for silent, how long it takes until all are back after an outage.

use std::fmt;

use crate::time::{MILLI, Nanos};

/// Figures of one run, or the worst of many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Nodes that nobody could hear and that were taken for silent, and the longest that took.
    pub noticed: u64,
    pub noticed_max: Nanos,
    /// The same while servers, their log and the weather were well.
    pub noticed_well_max: Nanos,
    /// Nodes that were taken for silent although nothing but the weather was in their way.
    pub false_expiries: u64,
    /// Outages of all nodes at once, and the longest until all were ready again.
    pub outages: u64,
    pub ready_again_max: Nanos,
    /// Times in which nodes waited for a session where processor time counts, and the longest.
    pub storms: u64,
    pub storm_max: Nanos,
    /// Nodes that were taken for silent while they waited for a session there.
    pub waiting_expiries: u64,
}

impl Figures {
    /// Takes in those of another run.
    pub fn add(&mut self, other: &Self) {
        let Self {
            noticed,
            noticed_max,
            noticed_well_max,
            false_expiries,
            outages,
            ready_again_max,
            storms,
            storm_max,
            waiting_expiries,
        } = other;
        self.noticed += noticed;
        self.noticed_max = self.noticed_max.max(*noticed_max);
        self.noticed_well_max = self.noticed_well_max.max(*noticed_well_max);
        self.false_expiries += false_expiries;
        self.outages += outages;
        self.ready_again_max = self.ready_again_max.max(*ready_again_max);
        self.storms += storms;
        self.waiting_expiries += waiting_expiries;
        self.storm_max = self.storm_max.max(*storm_max);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            noticed,
            noticed_max,
            noticed_well_max,
            false_expiries,
            outages,
            ready_again_max,
            storms,
            storm_max,
            waiting_expiries,
        } = *self;
        writeln!(
            f,
            "silence: noticed {noticed} times, within {} ms ({} ms while servers were well); \
             {false_expiries} false positives",
            noticed_max / MILLI,
            noticed_well_max / MILLI,
        )?;
        if outages > 0 {
            let took = ready_again_max / MILLI;
            writeln!(f, "outages: {outages}, all ready again within {took} ms")?;
        }
        if storms > 0 {
            let took = storm_max / MILLI;
            writeln!(
                f,
                "storms: {storms}, all nodes live again within {took} ms; {waiting_expiries} nodes \
                 expired while they waited for a session"
            )?;
        }
        Ok(())
    }
}
