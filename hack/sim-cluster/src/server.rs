//! One server of the cluster: a real one, on a machine that can be switched off.
//!
//! ```text
//!   start --> runs --kill, power cut, its own failure--> off --start--> runs
//! ```
//!
//! A process that is killed leaves its tasks behind in a runtime that it shares with everybody.
//! From that moment on they reach neither the network nor the disk, and they are told to end.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use controlplane_server::cluster::Cluster;
use controlplane_server::config::Config;
use controlplane_server::leading::Schedulers;
use controlplane_server::{Ground, PlantedBug, Server, http};
use hack_sim::rng::Rng;
use parking_lot::Mutex;
use protocol_transport::{Endpoint, EndpointConfig, Identity, Limits, Secret};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::disk::Platters;
use crate::keks::{MountedKeks, SimKeks};
use crate::net::{Machine, Network, SERVER_PORT, address_of};
use crate::time::SimClock;

/// What nodes show to be let in.
pub const JOIN_TOKEN: &str = "a simulated cluster's";
/// Entries after which a snapshot is written: few, so that servers that were away for a while are
/// sent one.
const SNAPSHOT_ENTRIES: u64 = 12;

/// A server's machine, and what runs on it.
#[derive(Debug)]
pub struct SimServer {
    pub machine: Machine,
    pub platters: Platters,
    /// Its KEKs. They are on its disk, and no fault of a run takes them.
    pub keks: SimKeks,
    pub clock: Arc<SimClock>,
    network: Network,
    identity: Identity,
    peers: Vec<Machine>,
    rng: Rng,
    access: Access,
    life: Option<Life>,
}

/// What operators reach of a process.
#[derive(Debug, Clone)]
pub struct Door {
    pub cluster: Cluster,
    /// The HTTP API, without TCP.
    pub http: Router,
    /// Closed when the process ends.
    process: watch::Receiver<bool>,
}

impl Door {
    /// Whether the process runs: an answer of one that was killed reaches nobody.
    pub fn is_open(&self) -> bool {
        self.process.has_changed().is_ok()
    }

    /// Ends with the process.
    pub async fn closed(&self) {
        let mut process = self.process.clone();
        while process.changed().await.is_ok() {}
    }
}

/// How a server judges callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub is_on: bool,
    pub planted: Option<PlantedBug>,
}

/// A process.
#[derive(Debug)]
struct Life {
    door: Door,
    endpoint: Endpoint,
    keks: MountedKeks,
    /// Held as long as requests may go on.
    _requests: watch::Sender<bool>,
    /// Keeps the server until it fails.
    keeper: JoinHandle<()>,
    failure: Arc<Mutex<Option<String>>>,
}

/// What a server's machine is made of.
#[derive(Debug)]
pub struct Parts {
    pub machine: Machine,
    /// All servers, this one too.
    pub servers: u8,
    pub network: Network,
    pub identity: Identity,
    pub clock: Arc<SimClock>,
    pub rng: Rng,
    pub access: Access,
}

impl SimServer {
    /// A machine that is off, with an empty disk.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            machine,
            servers,
            network,
            identity,
            clock,
            mut rng,
            access,
        } = parts;
        Self {
            machine,
            platters: Platters::new(Rng::new(rng.draw(), 0)),
            keks: SimKeks::default(),
            clock,
            network,
            identity,
            peers: (0..servers).filter(|peer| *peer != machine).collect(),
            rng,
            access,
            life: None,
        }
    }

    /// Whether a process runs.
    pub fn is_up(&self) -> bool {
        self.life.is_some()
    }

    /// What the process knows; `None` = it is off.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.door().map(|door| &door.cluster)
    }

    /// What operators reach of it; `None` = it is off.
    pub fn door(&self) -> Option<&Door> {
        self.life.as_ref().map(|life| &life.door)
    }

    /// Why the process must end, where it says so.
    pub fn failure(&self) -> Option<String> {
        let life = self.life.as_ref()?;
        let failure = life.failure.lock();
        failure.clone()
    }

    /// Starts a process.
    ///
    /// # Errors
    /// Where it does not start: what it says.
    pub async fn start(&mut self) -> anyhow::Result<()> {
        let address = address_of(self.machine, SERVER_PORT);
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&self.rng.bytes());
        let settings = EndpointConfig {
            listen: address,
            identity: self.identity.clone(),
            limits: Limits::default(),
        };
        let socket = self.network.bind(address);
        let runtime = Arc::new(quinn::TokioRuntime);
        let endpoint = Endpoint::over(&settings, socket, runtime, Some(seed))?;
        let keks = self.keks.mount();
        let ground = Ground {
            identity: self.identity.clone(),
            endpoint: endpoint.clone(),
            disk: Arc::new(self.platters.mount()),
            keks: Arc::new(keks.clone()),
            clock: Arc::clone(&self.clock) as _,
            schedulers: Schedulers::Runtime,
            planted: self.access.planted,
        };
        let (mut server, api) = Server::start_on(self.config()?, &ground).await?;
        let (requests, stopped) = watch::channel(false);
        let door = Door {
            cluster: api.cluster.clone(),
            http: http::router(api, stopped.clone()),
            process: stopped,
        };
        let failure = Arc::new(Mutex::new(None));
        let failed = Arc::clone(&failure);
        let keeper = tokio::spawn(async move {
            let reason = server.failed().await;
            *failed.lock() = Some(reason);
            // Whoever looks after the machine ends the process.
            std::future::pending::<()>().await;
        });
        self.life = Some(Life {
            door,
            endpoint,
            keks,
            _requests: requests,
            keeper,
            failure,
        });
        Ok(())
    }

    /// Kills the process; the machine stays on, and what was written stays.
    pub fn kill(&mut self) {
        self.platters.detach();
        self.end();
    }

    /// Takes the machine's power, and with it what was not synced.
    pub fn cut_power(&mut self) {
        self.platters.cut_power();
        self.end();
    }

    fn end(&mut self) {
        self.network.unplug(self.machine);
        let Some(life) = self.life.take() else {
            return;
        };
        life.keks.detach();
        life.keeper.abort();
        life.endpoint.close();
        tokio::spawn(async move { life.door.cluster.raft().shutdown().await });
    }

    fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::dev(PathBuf::from("/server")).context("the configuration")?;
        config.name = format!("server-{}", self.machine);
        config.bootstrap_expect = u32::try_from(self.peers.len() + 1)?;
        let peers = self.peers.iter();
        config.retry_join = peers
            .map(|peer| address_of(*peer, SERVER_PORT).to_string())
            .collect();
        config.acl_enabled = self.access.is_on;
        config.node_join_token = Some(Secret::new(JOIN_TOKEN));
        config.raft.snapshot_entries = SNAPSHOT_ENTRIES;
        Ok(config)
    }
}
