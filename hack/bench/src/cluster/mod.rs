//! A cluster of real processes on this host, for measurements: servers, one node, mutual TLS.
//!
//! ```text
//! Cluster::start(servers) -> certificates and settings in a folder -> servers -> leader
//!                         -> node -> ready
//! stop                    -> node, keeper, pump; servers; what is left is killed
//! ```
//!
//! The same steps as hack/quickstart, which is a script because it is read as a tour.

pub(crate) mod http;
mod leavings;
pub(crate) mod node;
pub(crate) mod nomad;
pub(crate) mod own_net;
pub(crate) mod process;
pub(crate) mod servers;

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use http::Http;
use node::Node;
use process::processes_naming;
use servers::Servers;

const REGION: &str = "global";

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    servers: Servers,
    node: Node,
}

impl Cluster {
    /// Starts `server_count` servers and one node, from the binaries in `binaries`, with all state
    /// in `folder`; returns when a job could be submitted.
    ///
    /// # Errors
    /// If a daemon does not start or the cluster is not ready in a minute; the error has the log.
    pub(crate) fn start(
        binaries: &Path,
        folder: &Path,
        server_count: usize,
    ) -> anyhow::Result<Self> {
        let servers = Servers::start(binaries, folder, server_count)?;
        let node = Node::start(binaries, &servers)?;
        let mut cluster = Self { servers, node };
        cluster.wait_for_node()?;
        Ok(cluster)
    }

    /// A connection to the first server.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn http(&self) -> anyhow::Result<Http> {
        self.servers.http()
    }

    /// The process ids of the cluster's daemons, with what each is.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn daemons(&self) -> anyhow::Result<Vec<(u32, &'static str)>> {
        let servers = self.servers.ids().into_iter();
        let mut daemons: Vec<(u32, &'static str)> =
            servers.map(|id| (id, "controlplane")).collect();
        daemons.push((self.node.id(), "noded"));
        for (pid, arguments) in processes_naming(text(self.servers.folder())?)? {
            let is_keeper = arguments
                .first()
                .is_some_and(|name| name.ends_with("noded-keeper"));
            match arguments.get(1).map(String::as_str) {
                Some("keeper") if is_keeper => daemons.push((pid, "keeper")),
                Some("pump") if is_keeper => daemons.push((pid, "pump")),
                _ => {}
            }
        }
        Ok(daemons)
    }

    /// Ends everything that was started, the tasks included, and takes down what they left.
    ///
    /// # Errors
    /// If a process cannot be ended.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.node.stop()?;
        self.servers.stop()
    }

    fn wait_for_node(&mut self) -> anyhow::Result<()> {
        let node = &mut self.node;
        self.servers.wait_until("a ready node", |http| {
            node.must_run()?;
            let nodes = http.get("/v1/nodes")?;
            let ready = |node: &Value| node["Status"] == "ready";
            Ok(nodes
                .as_array()
                .is_some_and(|nodes| nodes.iter().any(ready)))
        })
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
