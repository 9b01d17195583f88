//! What the binary is told on its command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, value_parser};

/// Nodes of one process: two connections each.
pub const NODES_MAX: i64 = 20_000;

/// Simulates nodes with real sessions. Commands come on standard input, one a line; each is
/// answered with one JSON object a line. The end of the input ends the nodes.
#[derive(Debug, Clone, Parser)]
#[command(name = "nodesim")]
pub struct Args {
    /// QUIC addresses of the servers, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    pub servers: Vec<String>,
    /// How many nodes.
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(1..=NODES_MAX))]
    pub nodes: u32,
    /// How many nodes begin in a second.
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..))]
    pub rate: u32,
    /// The certificate authority of the cluster, PEM.
    #[arg(long)]
    pub ca: PathBuf,
    /// The certificate of all nodes, PEM.
    #[arg(long)]
    pub cert: PathBuf,
    /// Its key, PEM.
    #[arg(long)]
    pub key: PathBuf,
    /// A file with the token that new nodes show.
    #[arg(long)]
    pub join_token_file: PathBuf,
    /// Where the UDP sockets are bound: the first at this port, the others after it; at any where
    /// it is 0.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub bind: SocketAddr,
    /// Ids and chance come from this number: the same nodes come back with the same one.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The class of all nodes, by which jobs may choose them; it is in their names, too.
    #[arg(long, default_value = "sim")]
    pub class: String,
    /// How long an imitated task takes to start, in milliseconds.
    #[arg(long, default_value_t = 2)]
    pub start_delay_ms: u64,
    /// How long an imitated task takes to end when it is asked to, in milliseconds.
    #[arg(long, default_value_t = 2)]
    pub stop_delay_ms: u64,
    /// CPU of each node, in MHz.
    #[arg(long, default_value_t = 4000)]
    pub cpu_mhz: u32,
    /// Memory of each node, in MiB.
    #[arg(long, default_value_t = 8192)]
    pub memory_mib: u32,
}

impl Args {
    /// How long an imitated task takes to start.
    pub fn start_delay(&self) -> Duration {
        Duration::from_millis(self.start_delay_ms)
    }

    /// How long an imitated task takes to end when it is asked to.
    pub fn stop_delay(&self) -> Duration {
        Duration::from_millis(self.stop_delay_ms)
    }
}
