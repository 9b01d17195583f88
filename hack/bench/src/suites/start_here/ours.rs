//! Our side: servers and one real node.

use hack_cluster::{Cluster, Helper, Node};

use crate::Bench;
use crate::http::{Ask as _, Http, wait};

/// A running cluster. Dropping it ends everything that was started, the tasks included.
pub(super) struct Ours {
    /// The first to be dropped: its state is in the cluster's folder.
    node: Node,
    servers: Cluster,
}

impl Ours {
    /// Starts `server_count` servers and one node; returns when a job could be submitted.
    ///
    /// # Errors
    /// If a daemon does not start or the cluster is not ready in time; the error has the log.
    pub(super) fn start(bench: &Bench, server_count: usize) -> anyhow::Result<Self> {
        let servers = wait(Cluster::start(bench.settings(server_count)))?;
        let node = wait(Node::start(&servers))?;
        Ok(Self { node, servers })
    }

    /// A connection to the first server.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub(super) fn http(&self) -> anyhow::Result<Http> {
        self.servers.http()
    }

    /// The process ids of the cluster's daemons, with what each is.
    ///
    /// # Errors
    /// If one has ended, or `/proc` cannot be read.
    pub(super) fn daemons(&self) -> anyhow::Result<Vec<(u32, &'static str)>> {
        let mut daemons = Vec::new();
        for number in 0..self.servers.len() {
            daemons.push((self.servers.id(number)?, "controlplane"));
        }
        daemons.push((self.node.id()?, "noded"));
        for (helper, name) in [(Helper::Keeper, "keeper"), (Helper::Pump, "pump")] {
            let found = self.node.helper(helper)?;
            daemons.extend(found.map(|pid| (pid.cast_unsigned(), name)));
        }
        Ok(daemons)
    }
}
