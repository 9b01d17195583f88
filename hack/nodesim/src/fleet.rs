//! All simulated nodes of a process.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use noded_daemon::identity;
use protocol_transport::{Endpoint, EndpointConfig, Identity, Limits, Role, Secret};
use serde::Serialize;

use crate::args::Args;
use crate::facts::Capacity;
use crate::handshakes::{self, Handshakes};
use crate::net::{Sky, Weather, WiredRuntime, Wires};
use crate::node::{Common, SimNode};
use crate::progress::Stage;
use crate::stats::{Cost, Stages, Stats, Ways, cpu_seconds, rss_kib};
use crate::tasks::Manners;

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often the rate of beginning is kept.
const TURN: Duration = Duration::from_millis(10);
/// How long servers may take to hear that everybody goes.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// Nodes that share a socket. What a thousand nodes are told is more than one socket's reader takes
/// in when all of them have something to do: their packets would be lost where real nodes', each of
/// which has a socket of its own, are not.
const NODES_PER_SOCKET: u32 = 50;

/// See the top of this file.
#[derive(Debug)]
pub struct Fleet {
    common: Arc<Common>,
    wires: Arc<Wires>,
    sky: Arc<Sky>,
    nodes: Vec<SimNode>,
    /// Memory before the first node.
    rss_before_kib: u64,
}

/// A run of a task, and where it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Running {
    /// The node.
    pub node: String,
    /// The allocation.
    pub alloc: String,
    /// The task.
    pub task: String,
    /// The number of the run.
    pub run: u64,
}

impl Fleet {
    /// A fleet without nodes. Needs a tokio runtime.
    ///
    /// # Errors
    /// When a file cannot be used, or the socket not be bound.
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        let identity = Identity::load(&args.ca, &args.cert, &args.key)
            .context("use the certificate of the nodes")?;
        let role = identity.own().role;
        ensure!(
            role == Role::Node,
            "{} is that of a {role}",
            args.cert.display()
        );
        let token = std::fs::read_to_string(&args.join_token_file)
            .with_context(|| format!("read {}", args.join_token_file.display()))?;
        let wires = Arc::new(Wires::default());
        let mut config = EndpointConfig {
            listen: args.bind,
            identity,
            limits: Limits::default(),
        };
        let seed = match args.seed {
            Some(seed) => seed,
            None => u64::from_le_bytes(identity::random()?),
        };
        let sky = Arc::new(Sky::new(seed));
        let mut endpoints = Vec::new();
        for _ in 0..args.nodes.div_ceil(NODES_PER_SOCKET) {
            let runtime = WiredRuntime::new(Arc::clone(&wires), Arc::clone(&sky));
            endpoints.push(Endpoint::bind_on(&config, Arc::new(runtime))?);
            if let port @ 1.. = config.listen.port() {
                let next = port.checked_add(1);
                config
                    .listen
                    .set_port(next.context("there are no more ports")?);
            }
        }
        let common = Common {
            endpoints,
            servers: args.servers.clone(),
            join_token: Secret::new(token.trim()),
            boot: identity::boot_id()?,
            life: identity::random()?,
            seed,
            class: args.class.clone(),
            capacity: Capacity {
                cpu_mhz: args.cpu_mhz,
                memory_mib: args.memory_mib,
            },
            manners: Manners {
                start_delay: args.start_delay(),
                stop_delay: args.stop_delay(),
            },
            journey: Arc::default(),
            counts: Arc::default(),
        };
        Ok(Self {
            common: Arc::new(common),
            wires,
            sky,
            nodes: Vec::new(),
            rss_before_kib: rss_kib(),
        })
    }

    /// Starts nodes until there are `count`, `rate` of them in a second.
    pub async fn grow(&mut self, count: u32, rate: u32) {
        let begun = Instant::now();
        let before = self.nodes.len();
        let mut turn = tokio::time::interval(TURN);
        while self.nodes.len() < count as usize {
            turn.tick().await;
            let due = begun.elapsed().as_secs_f64() * f64::from(rate);
            // One more than none, so that a slow rate begins at once.
            while self.nodes.len() < count as usize
                && ((self.nodes.len() - before) as f64) < due + 1.0
            {
                let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
                self.nodes.push(SimNode::start(&self.common, number));
            }
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Where the first socket is bound.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.common.endpoint_of(0).local_address()
    }

    /// Counts time anew.
    pub fn mark(&self) {
        self.common.journey.mark();
    }

    /// Pulls the cables of these nodes.
    pub fn cut(&self, which: Range<usize>) -> Vec<String> {
        self.mark();
        let cut = self.some(which).map(|node| {
            node.wire.set_cut(true);
            node.id.to_string()
        });
        cut.collect()
    }

    /// Puts all cables back.
    pub fn heal(&self) {
        self.mark();
        for node in &self.nodes {
            node.wire.set_cut(false);
        }
        self.wires.on_mended();
    }

    /// Changes the weather between all nodes and the servers.
    pub fn change_weather(&self, change: impl FnOnce(&mut Weather)) {
        self.sky.change(change);
    }

    /// Makes these nodes believe that their connections ended.
    pub async fn lose_connections(&self, which: Range<usize>) {
        self.mark();
        for node in self.some(which) {
            node.lose_connection().await;
        }
    }

    /// Ends the daemons of these nodes, and when all have ended starts them again.
    pub async fn restart(&mut self, which: Range<usize>) {
        let end = which.end.min(self.nodes.len());
        let chosen = &mut self.nodes[which.start.min(end)..end];
        for node in chosen.iter_mut() {
            node.stop().await;
        }
        self.common.journey.mark();
        for node in chosen.iter_mut() {
            node.start_again(&self.common);
        }
    }

    /// Waits until every node that is not cut off lives, for at most `patience`; answers how many
    /// do not.
    pub async fn wait_live(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        loop {
            let wanted = self.nodes.iter().filter(|node| !node.wire.is_cut());
            let missing = wanted.filter(|node| node.stage() != Stage::Live).count();
            if missing == 0 || Instant::now() >= deadline {
                return missing;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Bare handshakes with the same servers.
    ///
    /// # Errors
    /// See [`handshakes::run`].
    pub async fn handshakes(&self, count: u32, at_once: u32) -> anyhow::Result<Handshakes> {
        let common = &self.common;
        handshakes::run(&common.endpoints, &common.servers, count, at_once).await
    }

    /// The runs of tasks that go on.
    pub fn running(&self) -> Vec<Running> {
        let runs = self.nodes.iter().flat_map(|node| {
            let id = node.id.to_string();
            node.tasks.running().into_iter().map(move |run| Running {
                node: id.clone(),
                alloc: run.alloc.to_string(),
                task: run.task.clone(),
                run: run.epoch.0,
            })
        });
        runs.collect()
    }

    /// Everything that can be counted.
    pub fn stats(&self) -> Stats {
        let nodes = &self.nodes;
        let rss_kib = rss_kib();
        let grown = rss_kib.saturating_sub(self.rss_before_kib) as f64;
        let counts = &self.common.counts;
        let endpoints = self.common.endpoints.iter();
        let connections = endpoints.map(Endpoint::open_connections);
        Stats {
            nodes: nodes.len(),
            cut: nodes.iter().filter(|node| node.wire.is_cut()).count(),
            stages: Stages::of(nodes.iter().map(SimNode::stage)),
            dropped_packets: nodes.iter().map(|node| node.wire.dropped()).sum(),
            weather: self.sky.met(),
            ways: Ways::of(&self.common.journey.travelled()),
            running: nodes.iter().map(|node| node.tasks.running().len()).sum(),
            starts: counts.starts.load(Ordering::Relaxed),
            stops: counts.stops.load(Ordering::Relaxed),
            ends: counts.ends.load(Ordering::Relaxed),
            cost: Cost {
                rss_kib,
                per_node_kib: grown / nodes.len().max(1) as f64,
                cpu_seconds: cpu_seconds(),
                connections: connections.sum(),
            },
        }
    }

    /// Ends all nodes; servers hear of it.
    pub async fn end(self) {
        let Self { common, nodes, .. } = self;
        for mut node in nodes {
            node.stop().await;
        }
        common.endpoints.iter().for_each(Endpoint::close);
        let idle = common.endpoints.iter().map(Endpoint::wait_idle);
        // A server that is gone never hears of it.
        let _ = tokio::time::timeout(GOODBYE_MAX, futures::future::join_all(idle)).await;
    }

    fn some(&self, which: Range<usize>) -> impl Iterator<Item = &SimNode> {
        let nodes = self.nodes.iter().enumerate();
        let chosen = nodes.filter(move |(number, _)| which.contains(number));
        chosen.map(|(_, node)| node)
    }
}
