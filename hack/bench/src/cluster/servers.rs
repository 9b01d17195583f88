//! The servers of a cluster: started, killed and started again, one by one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::http::Http;
use super::process::Daemon;
use super::{REGION, text};

/// Start, election and registration of a node together take a second or two.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Servers that form a cluster, and what nodes need to join it.
#[derive(Debug)]
pub(crate) struct Servers {
    folder: PathBuf,
    program: PathBuf,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    name: String,
    settings: PathBuf,
    ports: Ports,
    /// `None` while it is killed.
    daemon: Option<Daemon>,
}

/// The ports of a server that is not started yet.
#[derive(Debug, Clone, Copy)]
struct Ports {
    http: u16,
    quic: u16,
}

impl Servers {
    /// Starts `count` servers from the binaries in `binaries`, with all state in `folder`; returns
    /// when they have a leader.
    ///
    /// # Errors
    /// If one does not start or nobody leads in a minute; the error has the log.
    pub(crate) fn start(binaries: &Path, folder: &Path, count: usize) -> anyhow::Result<Self> {
        Self::start_with(binaries, folder, count, "")
    }

    /// As [`Self::start`], with a line for the block `server` of every server.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_with(
        binaries: &Path,
        folder: &Path,
        count: usize,
        more: &str,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder.join("tls"))?;
        make_certificates(&binaries.join("drover"), &folder.join("tls"))?;
        std::fs::write(
            folder.join("join-token"),
            "a token that lives as long as this cluster",
        )?;
        let ports = (0..count)
            .map(|_| free_ports())
            .collect::<Result<Vec<_>, _>>()?;
        let mut servers = Self {
            folder: folder.to_owned(),
            program: binaries.join("controlplane"),
            servers: Vec::new(),
        };
        for (number, own) in ports.iter().enumerate() {
            let name = format!("server-{number}");
            let settings = folder.join(format!("{name}.hcl"));
            std::fs::write(
                &settings,
                server_settings(folder, &name, *own, &ports, more),
            )?;
            servers.servers.push(Server {
                name,
                settings,
                ports: *own,
                daemon: None,
            });
            servers.spawn(number)?;
        }
        servers.wait_until("a leader", |http| {
            Ok(http
                .get("/v1/status/leader")?
                .as_str()
                .is_some_and(|leader| !leader.is_empty()))
        })?;
        Ok(servers)
    }

    /// How many servers there are, running or not.
    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// The folder that holds everything of this cluster.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a server keeps its state.
    pub(crate) fn data_dir(&self, number: usize) -> PathBuf {
        self.folder.join(&self.servers[number].name)
    }

    /// A connection to the first server that runs.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn http(&self) -> anyhow::Result<Http> {
        let running = self.servers.iter().position(|it| it.daemon.is_some());
        self.http_of(running.context("a cluster without servers")?)
    }

    /// A connection to one server.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn http_of(&self, number: usize) -> anyhow::Result<Http> {
        let port = self.servers[number].ports.http;
        Http::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Where nodes find the servers.
    pub(crate) fn quic_addresses(&self) -> Vec<String> {
        let servers = self.servers.iter();
        servers
            .map(|server| format!("127.0.0.1:{}", server.ports.quic))
            .collect()
    }

    /// The UDP port of a server: everything that servers say to each other goes from one's to
    /// another's.
    pub(crate) fn quic_port(&self, number: usize) -> u16 {
        self.servers[number].ports.quic
    }

    /// Whether a server was started and not killed.
    pub(crate) fn is_running(&self, number: usize) -> bool {
        self.servers[number].daemon.is_some()
    }

    /// The authority, the certificate and the key of a node.
    pub(crate) fn node_files(&self) -> [PathBuf; 3] {
        let tls = self.folder.join("tls");
        [
            tls.join("drover-agent-ca.pem"),
            tls.join(format!("{REGION}-client-drover.pem")),
            tls.join(format!("{REGION}-client-drover-key.pem")),
        ]
    }

    /// The process ids of the servers that run.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let running = self.servers.iter().filter_map(|it| it.daemon.as_ref());
        running.map(Daemon::id).collect()
    }

    /// The server that says itself that it leads, if one does.
    pub(crate) fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|number| {
            self.is_running(*number)
                && self
                    .http_of(*number)
                    .and_then(|mut http| http.get("/v1/agent/self"))
                    .is_ok_and(|own| own["stats"]["raft"]["state"] == "Leader")
        })
    }

    /// `kill -9` of one server. Returns when it is gone.
    pub(crate) fn kill(&mut self, number: usize) {
        self.servers[number].daemon = None;
    }

    /// Starts a server that is down; it may not answer yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn spawn(&mut self, number: usize) -> anyhow::Result<()> {
        let server = &mut self.servers[number];
        let arguments = ["--config", text(&server.settings)?];
        let daemon = Daemon::start(&server.name, &self.program, &arguments, &self.folder)?;
        server.daemon = Some(daemon);
        Ok(())
    }

    /// Asks the first server again and again; a server that ended is an error at once.
    ///
    /// # Errors
    /// If it does not hold in a minute, or a server ended.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Http) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            self.must_run()?;
            // While it starts it refuses connections or knows no leader; both mean "not yet".
            let answer = self.http().and_then(|mut http| holds(&mut http));
            match answer {
                Ok(true) => return Ok(()),
                Ok(false) => ensure!(
                    Instant::now() < deadline,
                    "{what}: not in {READY_TIMEOUT:?}"
                ),
                Err(error) if Instant::now() >= deadline => {
                    return Err(error.context(what.to_owned()));
                }
                Err(_) => {}
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// An error with the end of its log if a server ended by itself.
    ///
    /// # Errors
    /// If one did.
    pub(crate) fn must_run(&mut self) -> anyhow::Result<()> {
        let mut running = self.servers.iter_mut().filter_map(|it| it.daemon.as_mut());
        running.try_for_each(Daemon::must_run)
    }

    /// Ends all servers.
    ///
    /// # Errors
    /// If a process cannot be ended.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let mut running = self.servers.iter_mut().filter_map(|it| it.daemon.as_mut());
        running.try_for_each(Daemon::stop)
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

fn server_settings(folder: &Path, name: &str, own: Ports, all: &[Ports], more: &str) -> String {
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
         node_join_token_file = \"{folder}/join-token\"\n  {more}\n}}\n\
         tls {{\n  ca_file = \"{folder}/tls/drover-agent-ca.pem\"\n  \
         cert_file = \"{folder}/tls/{REGION}-server-drover.pem\"\n  \
         key_file = \"{folder}/tls/{REGION}-server-drover-key.pem\"\n}}\n",
        http = own.http,
        quic = own.quic,
        count = all.len(),
        others = others.join(", "),
    )
}

/// Ports that were free a moment ago.
fn free_ports() -> anyhow::Result<Ports> {
    let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let quic = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(Ports { http, quic })
}
