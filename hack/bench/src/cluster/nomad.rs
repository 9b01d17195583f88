//! The rival: one Nomad agent, server and client in one process, with its log on the same disk.
//!
//! Whoever has a `nomad` program names it with `--rival`; nothing is fetched. It is asked through
//! the same requests as we are, because our API is the one its users know.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::http::Http;
use super::process::{Daemon, descendants};
use super::text;

/// An agent elects itself and fingerprints its host in about five seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// It leaves helpers and tasks behind when it ends, and mounts. In namespaces of its own they end
/// with the first process there, which ends with ours.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// On a hybrid host it would work in the host's own v1 hierarchies, which nothing here may change;
/// so it sees none.
const WITHOUT_CGROUPS: &str = r#"mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$0" "$@""#;

/// A running agent.
#[derive(Debug)]
pub(crate) struct Nomad {
    agent: Daemon,
    http: SocketAddr,
}

impl Nomad {
    /// Starts `program` with all of its state in `folder`; returns when a job could be submitted.
    ///
    /// # Errors
    /// If it does not start, or has no ready node in a minute; the error has its log.
    pub(crate) fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let ports = free_ports()?;
        let settings = folder.join("agent.hcl");
        std::fs::write(&settings, agent_settings(folder, ports))?;
        let arguments = [
            &NAMESPACES[..],
            &["sh", "-c", WITHOUT_CGROUPS, text(program)?],
            &["agent", "-config", text(&settings)?],
        ]
        .concat();
        let mut nomad = Self {
            agent: Daemon::start("nomad", Path::new("unshare"), &arguments, folder)?,
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0])),
        };
        nomad.wait_ready()?;
        Ok(nomad)
    }

    /// A connection to the agent.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn http(&self) -> anyhow::Result<Http> {
        Http::connect(self.http)
    }

    /// The agent's processes: itself and its helpers, without the tasks.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let own = |(pid, arguments): (u32, Vec<String>)| {
            let is_task = arguments.first().is_some_and(|name| name == "/bin/sleep");
            (!is_task).then_some(pid)
        };
        Ok(descendants(self.agent.id())?
            .into_iter()
            .filter_map(own)
            .collect())
    }

    /// Ends it, its helpers and its tasks.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.agent.stop()
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            self.agent.must_run()?;
            let nodes = Http::connect(self.http).and_then(|mut http| http.get("/v1/nodes"));
            let ready = nodes.is_ok_and(|nodes| {
                nodes
                    .as_array()
                    .is_some_and(|nodes| nodes.iter().any(|node| node["Status"] == "ready"))
            });
            if ready {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the rival has no ready node in {READY_TIMEOUT:?}; its log ends with:\n{}",
                self.agent.log_end()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
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

/// Ports that were free a moment ago.
fn free_ports() -> anyhow::Result<[u16; 3]> {
    let listeners = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
