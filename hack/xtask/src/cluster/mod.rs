//! A cluster of real processes on this host, for measurements: servers, one node, mutual TLS.
//!
//! ```text
//! Cluster::start(servers) -> certificates and settings in a folder -> servers -> leader
//!                         -> node -> ready
//! stop                    -> node, keeper, pump, servers; what is left is killed
//! ```
//!
//! The same steps as hack/quickstart, which is a script because it is read as a tour.

pub(crate) mod http;
mod leavings;
pub(crate) mod nomad;
pub(crate) mod process;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use http::Http;
use leavings::{Leavings, RuntimeDir};
use process::{Daemon, processes_naming};

const REGION: &str = "global";
/// Start, election and registration of a node together take a second or two.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    servers: Vec<Server>,
    node: Daemon,
    /// The last to be dropped: it can only be cleared when noded is gone.
    leavings: Leavings,
}

#[derive(Debug)]
struct Server {
    daemon: Daemon,
    http: SocketAddr,
}

/// The ports of a server that is not started yet.
#[derive(Debug, Clone, Copy)]
struct Ports {
    http: u16,
    quic: u16,
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
        std::fs::create_dir_all(folder.join("tls"))?;
        make_certificates(&binaries.join("drover"), &folder.join("tls"))?;
        std::fs::write(
            folder.join("join-token"),
            "a token that lives as long as this cluster",
        )?;
        let ports = (0..server_count)
            .map(|_| free_ports())
            .collect::<Result<Vec<_>, _>>()?;
        let mut servers = Vec::new();
        for (number, own) in ports.iter().enumerate() {
            let name = format!("server-{number}");
            let settings = folder.join(format!("{name}.hcl"));
            std::fs::write(&settings, server_settings(folder, &name, *own, &ports))?;
            let program = binaries.join("controlplane");
            let arguments = ["--config", text(&settings)?];
            let daemon = Daemon::start(&name, &program, &arguments, folder)?;
            let http = SocketAddr::from((Ipv4Addr::LOCALHOST, own.http));
            servers.push(Server { daemon, http });
        }
        wait_until("a leader", &mut servers, |http| {
            Ok(http
                .get("/v1/status/leader")?
                .as_str()
                .is_some_and(|leader| !leader.is_empty()))
        })?;
        let settings = folder.join("node.hcl");
        std::fs::write(&settings, node_settings(folder, &ports))?;
        let arguments = ["--config", text(&settings)?];
        let noded = binaries.join("noded");
        let runtime = RuntimeDir::mount(&folder.join("run"))?;
        let leavings = Leavings::of(noded.clone(), settings.clone(), runtime);
        let node = Daemon::start("node", &noded, &arguments, folder)?;
        let mut cluster = Self {
            folder: folder.to_owned(),
            servers,
            node,
            leavings,
        };
        cluster.wait_for_node()?;
        Ok(cluster)
    }

    /// A connection to the first server.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn http(&self) -> anyhow::Result<Http> {
        let server = self.servers.first().context("a cluster without servers")?;
        Http::connect(server.http)
    }

    /// The process ids of the cluster's daemons, with what each is.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn daemons(&self) -> anyhow::Result<Vec<(u32, &'static str)>> {
        let mut daemons: Vec<(u32, &'static str)> = self
            .servers
            .iter()
            .map(|server| (server.daemon.id(), "controlplane"))
            .collect();
        daemons.push((self.node.id(), "noded"));
        for (pid, arguments) in processes_naming(text(&self.folder)?)? {
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
        for server in &mut self.servers {
            server.daemon.stop()?;
        }
        self.leavings.clear()
    }

    fn wait_for_node(&mut self) -> anyhow::Result<()> {
        let node = &mut self.node;
        wait_until("a ready node", &mut self.servers, |http| {
            node.must_run()?;
            let nodes = http.get("/v1/nodes")?;
            let ready = |node: &Value| node["Status"] == "ready";
            Ok(nodes
                .as_array()
                .is_some_and(|nodes| nodes.iter().any(ready)))
        })
    }
}

/// Asks the first server again and again; a server that ended is an error at once.
fn wait_until(
    what: &str,
    servers: &mut [Server],
    mut holds: impl FnMut(&mut Http) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        for server in &mut *servers {
            server.daemon.must_run()?;
        }
        // While it starts it refuses connections or knows no leader; both mean "not yet".
        let address = servers.first().context("a cluster without servers")?.http;
        let answer = Http::connect(address).and_then(|mut http| holds(&mut http));
        match answer {
            Ok(true) => return Ok(()),
            Ok(false) => ensure!(
                Instant::now() < deadline,
                "{what}: not in {READY_TIMEOUT:?}"
            ),
            Err(error) if Instant::now() >= deadline => return Err(error.context(what.to_owned())),
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn make_certificates(drover: &Path, folder: &Path) -> anyhow::Result<()> {
    for arguments in [
        &["tls", "ca", "create"][..],
        &["tls", "cert", "create", "-server", "-region", REGION],
        &["tls", "cert", "create", "-client", "-region", REGION],
    ] {
        let output = Command::new(drover)
            .args(arguments)
            .current_dir(folder)
            .output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "drover {}: {words}",
            arguments.join(" ")
        );
    }
    Ok(())
}

fn server_settings(folder: &Path, name: &str, own: Ports, all: &[Ports]) -> String {
    let folder = folder.display();
    let others: Vec<String> = all
        .iter()
        .filter(|ports| ports.quic != own.quic)
        .map(|ports| format!("\"127.0.0.1:{}\"", ports.quic))
        .collect();
    format!(
        "name = \"{name}\"\nregion = \"{REGION}\"\ndata_dir = \"{folder}/{name}\"\n\
         ports {{\n  http = {http}\n  quic = {quic}\n}}\n\
         server {{\n  bootstrap_expect = {count}\n  retry_join = [{others}]\n  \
         node_join_token_file = \"{folder}/join-token\"\n}}\n\
         tls {{\n  ca_file = \"{folder}/tls/drover-agent-ca.pem\"\n  \
         cert_file = \"{folder}/tls/{REGION}-server-drover.pem\"\n  \
         key_file = \"{folder}/tls/{REGION}-server-drover-key.pem\"\n}}\n",
        http = own.http,
        quic = own.quic,
        count = all.len(),
        others = others.join(", "),
    )
}

fn node_settings(folder: &Path, servers: &[Ports]) -> String {
    let folder = folder.display();
    let servers: Vec<String> = servers
        .iter()
        .map(|ports| format!("\"127.0.0.1:{}\"", ports.quic))
        .collect();
    format!(
        "name = \"bench\"\nregion = \"{REGION}\"\ndata_dir = \"{folder}/noded\"\n\
         run_dir = \"{folder}/run\"\ncgroup_base = \"{cgroup}\"\nservers = [{}]\njoin_token_file = \"{folder}/join-token\"\n\
         tls {{\n  ca_file = \"{folder}/tls/drover-agent-ca.pem\"\n  \
         cert_file = \"{folder}/tls/{REGION}-client-drover.pem\"\n  \
         key_file = \"{folder}/tls/{REGION}-client-drover-key.pem\"\n}}\n\
         driver \"raw_exec\" {{\n  enabled = true\n}}\n",
        servers.join(", "),
        cgroup = leavings::cgroup_base(),
    )
}

/// Ports that were free a moment ago.
fn free_ports() -> anyhow::Result<Ports> {
    let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let quic = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(Ports { http, quic })
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
