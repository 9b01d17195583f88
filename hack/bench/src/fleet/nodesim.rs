//! The program with the simulated nodes, as measurements use it.

use std::process::Stdio;

use anyhow::ensure;
use hack_cluster::Cluster;
use serde_json::Value;

use crate::http::wait;

/// Nodes that begin in a second: what is measured begins when all of them are there.
const RATE: &str = "200";
/// The class of nodes that are all that there is, or as good as all.
pub(crate) const CLASS: &str = "sim";

/// Nodes of one process: the same in every run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    /// How many.
    pub(crate) nodes: usize,
    /// What they are called, and how jobs choose them.
    pub(crate) class: &'static str,
    /// What their ids come from.
    pub(crate) seed: u64,
    /// How readily it leaves the processors to others (nice(2)): a real node takes none of them.
    pub(crate) nice: u8,
}

impl Fleet {
    /// `nodes` nodes that are all that there is.
    pub(crate) const fn only(nodes: usize) -> Self {
        Self {
            nodes,
            class: CLASS,
            seed: 7,
            nice: 10,
        }
    }
}

/// Simulated nodes, told by a thread that waits. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Nodesim(hack_cluster::Fleet);

impl Nodesim {
    /// Starts a fleet and waits until all of them are in a session; answers what it said of
    /// that, too.
    ///
    /// # Errors
    /// If some do not get there.
    pub(crate) fn start(servers: &Cluster, fleet: Fleet) -> anyhow::Result<(Self, Value)> {
        let (sim, begun) = Self::begin(servers, fleet, RATE)?;
        ensure!(begun["missing"] == 0, "nodes without a session: {begun}");
        Ok((sim, begun))
    }

    /// The same with `rate` new nodes in a second, whether or not all of them get there.
    ///
    /// # Errors
    /// If nodesim does not start.
    pub(crate) fn begin(
        servers: &Cluster,
        fleet: Fleet,
        rate: &str,
    ) -> anyhow::Result<(Self, Value)> {
        let seed = fleet.seed.to_string();
        let more = ["--rate", rate, "--seed", &seed, "--class", fleet.class];
        let Fleet { nodes, nice, .. } = fleet;
        // How it goes is for those who watch.
        let log = Stdio::inherit();
        let started = hack_cluster::Fleet::start_with(servers, nodes, nice, &more, log);
        let (fleet, begun) = wait(started)?;
        Ok((Self(fleet), begun))
    }

    /// Tells it one line; answers what it says to it.
    ///
    /// # Errors
    /// If it could not be done.
    pub(crate) fn tell(&mut self, command: &str) -> anyhow::Result<Value> {
        wait(self.0.tell(command))
    }

    /// Waits until every node that is not cut off lives; answers what it went through.
    ///
    /// # Errors
    /// If some do not get there.
    pub(crate) fn wait_live(&mut self) -> anyhow::Result<Value> {
        let mut answer = self.tell("live 120")?;
        ensure!(
            answer["missing"] == 0,
            "nodes that found no way back: {answer}"
        );
        Ok(answer["stats"].take())
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.0.id()
    }
}
