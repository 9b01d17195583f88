//! How much happened: what tells a run that proves something from one in which nothing happened.

use std::fmt;

/// Counters of one run, or of many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub faults: u64,
    pub elections: u64,
    pub commands: u64,
    pub sessions: u64,
    pub resumes: u64,
    pub repeats: u64,
    pub syncs: u64,
    pub refusals: u64,
    pub disconnects: u64,
    pub watches_broken: u64,
    pub heartbeats: u64,
    pub expiries: u64,
    pub expired: u64,
    pub update_entries: u64,
    pub reports: u64,
    pub plans: u64,
    pub scheduled: u64,
    pub starts: u64,
    pub ends: u64,
    pub refused_runs: u64,
    pub ops_acknowledged: u64,
    pub ops_unknown: u64,
    pub handshakes: u64,
    pub handshakes_in_vain: u64,
    pub turned_away: u64,
}

impl Counts {
    fn rows(&mut self) -> [(&'static str, &mut u64); 25] {
        [
            ("faults", &mut self.faults),
            ("elections", &mut self.elections),
            ("log entries", &mut self.commands),
            ("sessions made", &mut self.sessions),
            ("resumed", &mut self.resumes),
            ("repeated", &mut self.repeats),
            ("syncs", &mut self.syncs),
            ("refusals", &mut self.refusals),
            ("left by nodes", &mut self.disconnects),
            ("watches broken", &mut self.watches_broken),
            ("heartbeats", &mut self.heartbeats),
            ("expiry entries", &mut self.expiries),
            ("nodes expired", &mut self.expired),
            ("update entries", &mut self.update_entries),
            ("reports", &mut self.reports),
            ("plans", &mut self.plans),
            ("scheduled", &mut self.scheduled),
            ("task starts", &mut self.starts),
            ("task ends", &mut self.ends),
            ("runs refused", &mut self.refused_runs),
            ("wishes acknowledged", &mut self.ops_acknowledged),
            ("wishes unknown", &mut self.ops_unknown),
            ("handshakes", &mut self.handshakes),
            ("handshakes in vain", &mut self.handshakes_in_vain),
            ("turned away", &mut self.turned_away),
        ]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for ((_, own), (_, more)) in self.rows().into_iter().zip(other.rows()) {
            *own += *more;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        for (name, count) in copy.rows() {
            writeln!(f, "  {count:>12}  {name}")?;
        }
        Ok(())
    }
}
