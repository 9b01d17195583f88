//! Servers that form one cluster on this host.
//!
//! ```text
//!   start --> N running --kill | terminate--> one down --restart--> N running
//!                 |                                                     |
//!                 +--add_server--> N + 1            --empty--> a directory like a new one
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, ensure};
use protocol_client::{Address, Client, Query, TlsFiles};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::binaries::Program;
use crate::certificates::Certificates;
use crate::net::{Net, Relay};
use crate::ports::Ports;
use crate::process::{Daemon, Place, log_end};
use crate::settings::Settings;
use crate::wait::eventually;

/// What a node of a test shows to be let in.
pub(crate) const JOIN_TOKEN: &str = "let me in";
/// Set it to look at the logs of a test afterwards.
const KEEP_VARIABLE: &str = "DROVER_E2E_KEEP";
/// Starting, electing, catching up: seconds, on a host where much else is going on a few more.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server promises to end within ten seconds.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Clusters that run at a time. Most of their time is spent waiting; more than two would make
/// elections late on two cores.
const CLUSTERS: u32 = 2;
static TURNS: Semaphore = Semaphore::const_new(CLUSTERS as usize);

/// A running cluster. Dropping it kills its servers and removes its files.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    pub(crate) settings: Settings,
    pub(crate) certificates: Certificates,
    /// `controlplane`.
    program: PathBuf,
    /// Servers are its first members, nodes the others.
    net: Option<Net>,
    /// After the servers: they must be gone when their files go.
    folder: TempDir,
    _turn: SemaphorePermit<'static>,
}

#[derive(Debug)]
struct Server {
    name: String,
    ports: Ports,
    /// Where it is reached on QUIC, and on HTTP from here.
    address: IpAddr,
    relay: Option<Relay>,
    daemon: Option<Daemon>,
}

impl Cluster {
    /// Starts servers and waits until all of them know a leader.
    ///
    /// # Errors
    /// When one does not start, or they elect nobody.
    pub async fn start(settings: Settings) -> anyhow::Result<Self> {
        Self::start_on(settings, None).await
    }

    /// The same on a network of our own, whose first members are the servers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_in(settings: Settings, net: Net) -> anyhow::Result<Self> {
        Self::start_on(settings, Some(net)).await
    }

    async fn start_on(settings: Settings, net: Option<Net>) -> anyhow::Result<Self> {
        let turns = if settings.alone { CLUSTERS } else { 1 };
        let turn = TURNS.acquire_many(turns).await?;
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("drover-e2e-");
        let mut folder = match &settings.state_in {
            Some(state_in) => folder.tempdir_in(state_in)?,
            None => folder.tempdir()?,
        };
        if std::env::var_os(KEEP_VARIABLE).is_some() {
            folder.disable_cleanup(true);
            eprintln!("kept: {}", folder.path().display());
        }
        let count = settings.servers;
        let places: Vec<IpAddr> = match &net {
            Some(net) => (0..count).map(|it| net.address(it).into()).collect(),
            None => Vec::new(),
        };
        let certificates = Certificates::make(&folder.path().join("tls"), &places)?;
        let mut cluster = Self {
            servers: Vec::new(),
            program: Program::Controlplane.path(settings.programs.as_deref())?,
            settings,
            certificates,
            net,
            folder,
            _turn: turn,
        };
        for _ in 0..count {
            cluster.push_server()?;
        }
        let all = cluster.quic_addresses();
        for number in 0..count {
            let expect = format!("  bootstrap_expect = {count}\n");
            cluster.write_settings(number, &expect, &all)?;
            cluster.spawn(number)?;
        }
        for number in 0..count {
            cluster.wait_ready(number).await?;
        }
        if let Some(secret) = &cluster.settings.manager {
            let body = json!({ "BootstrapSecret": secret });
            let client = cluster.servers[0].client()?;
            let path = "/v1/acl/bootstrap";
            let made = client.put::<_, Value>(path, &Query::new(), &body).await;
            made.context("bootstrap access control")?;
        }
        Ok(cluster)
    }

    /// How many servers there are, running or not.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The folder that holds everything of this cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The ports of a server.
    pub fn ports(&self, number: usize) -> Ports {
        self.servers[number].ports
    }

    /// Whether a server was started and not ended.
    pub fn is_running(&self, number: usize) -> bool {
        self.servers[number].daemon.is_some()
    }

    /// The process id of a server.
    ///
    /// # Errors
    /// When it does not run.
    pub fn id(&self, number: usize) -> anyhow::Result<u32> {
        let daemon = self.servers[number].daemon.as_ref();
        Ok(daemon.context("the server is down")?.id())
    }

    /// A client of one server, with a connection of its own.
    ///
    /// # Errors
    /// Never for plain HTTP.
    pub fn client(&self, number: usize) -> anyhow::Result<Client> {
        let client = self.servers[number].client()?;
        Ok(client.with_token(self.settings.manager.clone()))
    }

    /// `kill -9` of one server. Returns when it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        let daemon = self.servers[number].daemon.take();
        daemon.context("the server is down already")?.kill()
    }

    /// SIGTERM to one server; answers how it ended.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub async fn terminate(&mut self, number: usize) -> anyhow::Result<ExitStatus> {
        let server = &mut self.servers[number];
        let daemon = server.daemon.as_mut().context("the server is down")?;
        let status = daemon.terminate(END_PATIENCE).await?;
        server.daemon = None;
        Ok(status)
    }

    /// Starts a server again that is down, and waits until it knows a leader.
    ///
    /// # Errors
    /// When it runs, or does not become ready.
    pub async fn restart(&mut self, number: usize) -> anyhow::Result<()> {
        self.spawn(number)?;
        self.wait_ready(number).await
    }

    /// Removes what a server that is down had on disk.
    ///
    /// # Errors
    /// When it runs, or the files cannot be removed.
    pub fn empty(&self, number: usize) -> anyhow::Result<()> {
        ensure!(self.servers[number].daemon.is_none(), "the server runs");
        Ok(std::fs::remove_dir_all(self.data_dir(number))?)
    }

    /// Adds a server with an empty directory that knows the others' addresses only; answers its
    /// number. It may still be joining.
    ///
    /// # Errors
    /// When it does not start.
    pub fn add_server(&mut self) -> anyhow::Result<usize> {
        ensure!(self.net.is_none(), "all servers of a network start at once");
        let known = self.quic_addresses();
        let number = self.servers.len();
        self.push_server()?;
        self.write_settings(number, "", &known)?;
        self.spawn(number)?;
        Ok(number)
    }

    /// Fails if a server that should run has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        let mut running = self
            .servers
            .iter_mut()
            .filter_map(|server| server.daemon.as_mut());
        running.try_for_each(Daemon::must_run)
    }

    /// Waits for the server that leads, and says so itself.
    ///
    /// # Errors
    /// When nobody does in time.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        eventually("a leader", PATIENCE, async || Ok(self.leader_now().await)).await
    }

    /// The server that says itself that it leads, if one does now.
    pub async fn leader_now(&self) -> Option<usize> {
        for number in (0..self.len()).filter(|number| self.is_running(*number)) {
            let own = self.agent(number).await;
            if own.is_ok_and(|own| own["stats"]["raft"]["state"] == "Leader") {
                return Some(number);
            }
        }
        None
    }

    /// What a server says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn agent(&self, number: usize) -> anyhow::Result<Value> {
        let client = self.client(number)?;
        Ok(client.get("/v1/agent/self", &Query::new()).await?.value)
    }

    /// The id that a server has in the log.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn server_id(&self, number: usize) -> anyhow::Result<String> {
        let own = self.agent(number).await?;
        let id = own["member"]["Tags"]["id"].as_str();
        Ok(id.context("a server without an id")?.to_owned())
    }

    /// Waits until a server answers and knows a leader.
    ///
    /// # Errors
    /// When it does not in time, or ends.
    pub async fn wait_ready(&mut self, number: usize) -> anyhow::Result<()> {
        let Self { servers, .. } = self;
        let client = servers[number].client()?;
        let Server { name, daemon, .. } = &mut servers[number];
        let what = format!("a leader that {name} knows");
        let ready = eventually(&what, PATIENCE, async || {
            let running = daemon.as_mut().context("the server is down")?;
            running.must_run()?;
            let answer = client
                .get::<String>("/v1/status/leader", &Query::new())
                .await?;
            Ok((!answer.value.is_empty()).then_some(()))
        });
        let ready = ready.await;
        let log = daemon.as_ref().map(Daemon::log_end).unwrap_or_default();
        ready.with_context(|| log)
    }

    /// Where a server keeps its state.
    pub fn data_dir(&self, number: usize) -> PathBuf {
        self.folder().join(&self.servers[number].name)
    }

    /// What a server has written to its log so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn log(&self, number: usize) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.file(number, "log"))?)
    }

    /// The last lines of it, whether the server runs or not, for an error.
    pub fn log_end(&self, number: usize) -> String {
        log_end(&self.file(number, "log"))
    }

    fn file(&self, number: usize, suffix: &str) -> PathBuf {
        let name = &self.servers[number].name;
        self.folder().join(format!("{name}.{suffix}"))
    }

    /// Starts a server that is down; it is not ready yet when this returns.
    ///
    /// # Errors
    /// When it runs, or cannot be started.
    pub fn spawn(&mut self, number: usize) -> anyhow::Result<()> {
        let (settings, log) = (self.file(number, "hcl"), self.file(number, "log"));
        let settings = settings.to_str().context("a path that is no UTF-8")?;
        let server = &mut self.servers[number];
        ensure!(server.daemon.is_none(), "{} runs already", server.name);
        let arguments = ["--config", settings];
        let place = match &self.net {
            Some(net) => Place::Member(net, number),
            None => Place::Here,
        };
        let daemon = Daemon::start(&server.name, &self.program, &arguments, &log, &place)?;
        server.daemon = Some(daemon);
        Ok(())
    }

    /// The network of our own, where there is one.
    ///
    /// # Errors
    /// Where there is none.
    pub fn net(&self) -> anyhow::Result<&Net> {
        self.net.as_ref().context("no network of its own")
    }

    /// Where a node of this number is: behind the servers.
    pub(crate) fn place_of_node(&self, number: usize) -> Place<'_> {
        match &self.net {
            Some(net) => Place::Member(net, self.settings.servers + number),
            None => Place::Here,
        }
    }

    /// Where servers listen for servers and nodes.
    pub fn quic_addresses(&self) -> Vec<SocketAddr> {
        let servers = self.servers.iter();
        servers
            .map(|it| SocketAddr::new(it.address, it.ports.quic))
            .collect()
    }

    fn push_server(&mut self) -> anyhow::Result<()> {
        let number = self.servers.len();
        let ports = Ports::free()?;
        let relay = match &self.net {
            Some(net) => Some(Relay::start(net.member(number)?, ports.http)?),
            None => None,
        };
        self.servers.push(Server {
            name: format!("server-{number}"),
            ports,
            address: match &self.net {
                Some(net) => net.address(number).into(),
                None => Ipv4Addr::LOCALHOST.into(),
            },
            relay,
            daemon: None,
        });
        Ok(())
    }

    fn write_settings(
        &self,
        number: usize,
        block: &str,
        known: &[SocketAddr],
    ) -> anyhow::Result<()> {
        let Server {
            name,
            ports,
            address,
            ..
        } = &self.servers[number];
        let own = SocketAddr::new(*address, ports.quic);
        let others = known.iter().filter(|other| **other != own);
        let others: Vec<String> = others.map(|other| format!("\"{other}\"")).collect();
        let text = format!(
            "name = \"{name}\"\ndata_dir = \"{data}\"\nbind_addr = \"{address}\"\n\
             ports {{\n  http = {http}\n  quic = {quic}\n}}\n\
             server {{\n{block}  retry_join = [{others}]\n  node_join_token = \"{JOIN_TOKEN}\"\n\
             heartbeat_silence = \"{silence}\"\n{more}}}\n{lines}{acl}{tls}",
            silence = self.settings.silence,
            lines = self.settings.server_lines,
            acl = match self.settings.manager {
                Some(_) => "acl { enabled = true }\n",
                None => "",
            },
            data = self.data_dir(number).display(),
            http = ports.http,
            quic = ports.quic,
            others = others.join(", "),
            more = self.settings.server_block,
            tls = self.certificates.block("server"),
        );
        std::fs::write(self.file(number, "hcl"), text).context("cannot write the settings")
    }
}

impl Server {
    fn client(&self) -> anyhow::Result<Client> {
        let relayed = self.relay.as_ref().map(|relay| relay.port);
        client_of(relayed.unwrap_or(self.ports.http))
    }
}

/// A client of whatever listens for plain HTTP on a port of this host.
///
/// # Errors
/// Never for plain HTTP.
pub fn client_of(port: u16) -> anyhow::Result<Client> {
    let address: Address = format!("http://127.0.0.1:{port}").parse()?;
    Ok(Client::new(address, &TlsFiles::default())?)
}
