//! The cost of a quiet node at its server: processor time and memory, beside the cost of the same
//! datagrams at a UDP socket and at bare QUIC connections.

use std::time::Duration;

use hack_cluster::Cluster;
use hack_cluster::procfs::{cpu, resident_kib};

use super::echo::{Way, cost};
use super::{NAME, count};
use crate::Bench;
use crate::fleet::nodesim::{Fleet, Nodesim};
use crate::http::wait;
use crate::row::Row;

const NODES: usize = 1_000;
/// Until every node is calm: 80 heartbeats of 125 ms, and its server asks for no pace any more.
const CALM: Duration = Duration::from_secs(40);
const MEASURED: Duration = Duration::from_secs(20);
/// Heartbeats of a calm node in a second.
const HEARTBEATS: f64 = 2.0;
/// Of the server's processor time, for each node and second.
const GOAL_MICROS: f64 = 80.0;
/// Of the server's memory, for each node.
const GOAL_KIB: f64 = 64.0;

/// Measures one server and its nodes.
///
/// # Errors
/// If a program does not start, or not all nodes get a session.
pub(super) fn run(bench: &Bench, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- {NODES} nodes at rest");
    let servers = wait(Cluster::start(bench.settings(1)))?;
    let server = servers.id(0)?;
    let without = resident_kib(server)?;
    let (nodes_at_rest, _) = Nodesim::start(&servers, Fleet::only(NODES))?;
    std::thread::sleep(CALM);
    let before = cpu(server)?;
    std::thread::sleep(MEASURED);
    let spent = cpu(server)?.saturating_sub(before);
    let nodes = count(NODES as u64)?;
    let each = spent.as_secs_f64() * 1e6 / nodes / MEASURED.as_secs_f64();
    let with = resident_kib(server)?;
    drop((nodes_at_rest, servers));
    let [socket, quic] = [cost(Way::Socket)?, cost(Way::Quic)?].map(|it| it.as_secs_f64() * 1e6);
    let figure = |what: &str| format!("a quiet node's server, {what}");
    rows.extend([
        Row {
            floor_value: Some(socket * HEARTBEATS),
            ..Row::new(NAME, figure("processor time each second"), each, "us").at_most(GOAL_MICROS)
        },
        Row {
            floor_value: Some(socket),
            ..Row::new(
                NAME,
                figure("processor time of a heartbeat"),
                each / HEARTBEATS,
                "us",
            )
        },
        Row {
            floor_value: Some(socket),
            ..Row::new(NAME, "an echo of its bytes by bare QUIC", quic, "us")
        },
        Row::new(
            NAME,
            figure("memory"),
            count(with.saturating_sub(without))? / nodes,
            "KiB",
        )
        .at_most(GOAL_KIB),
    ]);
    Ok(())
}
