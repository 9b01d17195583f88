//! The rival: one Nomad agent, server and client in one process, with its log on the same disk.
//!
//! Its program is named with `--rival`; nothing is fetched. It is asked through the same requests
//! as we are, because our API is the one its users know.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use hack_cluster::procfs::descendants;
use hack_cluster::{Daemon, Place, Ports, client_of, eventually};
use protocol_client::Query;
use serde_json::Value;

use crate::http::{Http, wait};

/// An agent elects itself and fingerprints its host in about five seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// It leaves helpers and tasks behind when it ends, and mounts. In namespaces of its own they end
/// with the first process there, which ends with ours.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// On a hybrid host it would work in the host's own v1 hierarchies, which nothing here may change;
/// so it sees none.
const WITHOUT_CGROUPS: &str = r#"mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$0" "$@""#;

/// A running agent. Dropping it ends it, its helpers and its tasks.
#[derive(Debug)]
pub(super) struct Nomad {
    agent: Daemon,
    port: u16,
}

impl Nomad {
    /// Starts `program` with all of its state in `folder`; returns when a job could be submitted.
    ///
    /// # Errors
    /// If it does not start, or has no ready node in a minute; the error has its log.
    pub(super) fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let [one, other] = [Ports::free()?, Ports::free()?];
        let ports = [one.http, one.quic, other.http];
        let settings = folder.join("agent.hcl");
        std::fs::write(&settings, agent_settings(folder, ports))?;
        let log = folder.join("nomad.log");
        let arguments = [
            &NAMESPACES[..],
            &["sh", "-c", WITHOUT_CGROUPS, text(program)?],
            &["agent", "-config", text(&settings)?],
        ]
        .concat();
        let mut nomad = Self {
            agent: Daemon::start(
                "nomad",
                Path::new("unshare"),
                &arguments,
                &log,
                &Place::Here,
            )?,
            port: one.http,
        };
        nomad.wait_ready()?;
        Ok(nomad)
    }

    /// A connection to the agent.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub(super) fn http(&self) -> anyhow::Result<Http> {
        Http::of(client_of(self.port)?)
    }

    /// The agent's processes: itself and its helpers, without the tasks.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let own = |(pid, arguments): (u32, Vec<String>)| {
            let is_task = arguments.first().is_some_and(|name| name == "/bin/sleep");
            (!is_task).then_some(pid)
        };
        Ok(descendants(self.agent.id())?
            .into_iter()
            .filter_map(own)
            .collect())
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let client = client_of(self.port)?;
        let ready = wait(eventually("the rival's node", READY_TIMEOUT, async || {
            self.agent.must_run()?;
            let nodes = client.get::<Vec<Value>>("/v1/nodes", &Query::new()).await?;
            let ready = nodes.value.iter().any(|node| node["Status"] == "ready");
            Ok(ready.then_some(()))
        }));
        ready.with_context(|| self.agent.log_end())
    }
}

fn agent_settings(folder: &Path, [http, rpc, serf]: [u16; 3]) -> String {
    let folder = folder.display();
    format!(
        "name = \"rival\"\ndata_dir = \"{folder}/data\"\nbind_addr = \"127.0.0.1\"\n\
         log_level = \"WARN\"\ndisable_update_check = true\n\
         advertise {{\n  http = \"127.0.0.1\"\n  rpc = \"127.0.0.1\"\n  serf = \"127.0.0.1\"\n}}\n\
         ports {{\n  http = {http}\n  rpc = {rpc}\n  serf = {serf}\n}}\n\
         server {{\n  enabled = true\n  bootstrap_expect = 1\n}}\n\
         client {{\n  enabled = true\n  options = {{\n    \"driver.allowlist\" = \"raw_exec\"\n  \
         }}\n}}\n\
         plugin \"raw_exec\" {{\n  config {{\n    enabled = true\n    no_cgroups = true\n  }}\n}}\n"
    )
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
