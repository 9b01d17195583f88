//! A real node beside servers on this host: noded, with keeper, pump and the tasks that they have.

use std::path::Path;

use super::leavings::{self, Leavings, RuntimeDir};
use super::process::Daemon;
use super::servers::Servers;
use super::{REGION, text};

/// What jobs choose it by, where there are others beside it.
pub(crate) const CLASS: &str = "real";

/// A running node; there can be one of a process, as its cgroup is named after that.
#[derive(Debug)]
pub(crate) struct Node {
    daemon: Daemon,
    /// The last to be dropped: it can only be cleared when noded is gone.
    leavings: Leavings,
}

impl Node {
    /// Starts it, from the binaries in `binaries`, with all state in the folder of the servers; it
    /// may not have joined them yet.
    ///
    /// # Errors
    /// If it cannot be started, for which it needs root.
    pub(crate) fn start(binaries: &Path, servers: &Servers) -> anyhow::Result<Self> {
        let folder = servers.folder();
        let settings = folder.join("node.hcl");
        std::fs::write(&settings, node_settings(folder, &servers.quic_addresses()))?;
        let arguments = ["--config", text(&settings)?];
        let noded = binaries.join("noded");
        let runtime = RuntimeDir::mount(&folder.join("run"))?;
        let leavings = Leavings::of(noded.clone(), settings.clone(), runtime);
        let daemon = Daemon::start("node", &noded, &arguments, folder)?;
        Ok(Self { daemon, leavings })
    }

    /// The process id of noded.
    pub(crate) fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// An error with the end of its log if noded is no longer running.
    ///
    /// # Errors
    /// If it ended.
    pub(crate) fn must_run(&mut self) -> anyhow::Result<()> {
        self.daemon.must_run()
    }

    /// Ends noded, keeper, pump and the tasks, and takes down what they left.
    ///
    /// # Errors
    /// If something does not go.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.daemon.stop()?;
        self.leavings.clear()
    }
}

fn node_settings(folder: &Path, servers: &[String]) -> String {
    let folder = folder.display();
    let servers: Vec<String> = servers
        .iter()
        .map(|address| format!("\"{address}\""))
        .collect();
    format!(
        "name = \"bench\"\nregion = \"{REGION}\"\nnode_class = \"{CLASS}\"\n\
         data_dir = \"{folder}/noded\"\nrun_dir = \"{folder}/run\"\n\
         cgroup_base = \"{cgroup}\"\nservers = [{servers}]\n\
         join_token_file = \"{folder}/join-token\"\n\
         tls {{\n  ca_file = \"{folder}/tls/drover-agent-ca.pem\"\n  \
         cert_file = \"{folder}/tls/{REGION}-client-drover.pem\"\n  \
         key_file = \"{folder}/tls/{REGION}-client-drover-key.pem\"\n}}\n\
         driver \"raw_exec\" {{\n  enabled = true\n}}\n",
        cgroup = leavings::cgroup_base(),
        servers = servers.join(", "),
    )
}
