//! Processor time, where it counts: whose work an event is, and what it costs.

use super::World;
use crate::cpu::{Begun, Cpu, CpuIx};
use crate::event::{Event, NodeInput, ServerEvent, ServerIx, ToNode, ToServer};
use crate::time::{MICRO, Nanos};

/// The processors of a run in which they count.
#[derive(Debug)]
pub(crate) struct Cpus {
    pub(crate) servers: Vec<Cpu>,
    pub(crate) nodes: Cpu,
}

impl Cpus {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            servers: (0..servers).map(|_| Cpu::default()).collect(),
            nodes: Cpu::default(),
        }
    }

    pub(crate) fn of(&mut self, cpu: CpuIx) -> &mut Cpu {
        match cpu {
            CpuIx::Server(ix) => &mut self.servers[usize::from(ix)],
            CpuIx::Nodes => &mut self.nodes,
        }
    }
}

/// Of a handshake, at a server and at a node.
const HANDSHAKE: Nanos = 3_000 * MICRO;

/// Processor time of a message at its server. A session costs a handshake, a Hello, a report and a
/// watch: [`SESSION_COST`](crate::schedule::storm::SESSION_COST).
fn at_server(message: &ToServer) -> Nanos {
    match message {
        ToServer::Hello(_) | ToServer::SyncPart(_) => 300 * MICRO,
        ToServer::OpenWatch { .. } | ToServer::Facts { .. } | ToServer::Batch(_) => 200 * MICRO,
        ToServer::Heartbeat { .. } => 100 * MICRO,
        ToServer::WatchAck { .. } | ToServer::Closed => 50 * MICRO,
    }
}

/// Processor time of a message at its node.
fn at_node(message: &ToNode) -> Nanos {
    match message {
        ToNode::Welcome(_) | ToNode::Map(_) | ToNode::Delta(_) => 200 * MICRO,
        ToNode::HeartbeatAck { .. }
        | ToNode::SyncAck { .. }
        | ToNode::FactsAck { .. }
        | ToNode::BatchAck(_) => 100 * MICRO,
        ToNode::Refused(_) | ToNode::Busy | ToNode::Ended => 50 * MICRO,
    }
}

/// Processor time of work that does not wait: an entry of the log, another server's report.
const ASIDE: Nanos = 50 * MICRO;
/// A node's timer.
const TIMER: Nanos = 20 * MICRO;

impl World {
    /// An event happens, or waits for a processor first.
    pub(super) fn take_up(&mut self, event: Event) {
        let now = self.now;
        if self.cpus.is_none() {
            return self.happen(event);
        }
        if let Event::Worked { cpu, life } = event {
            let done = self.cpus.as_mut().and_then(|it| it.of(cpu).done(life, now));
            if let Some((event, next)) = done {
                self.work_begins(cpu, next);
                self.happen(event);
            }
            return;
        }
        let Some((cpu, cost)) = self.work_of(&event) else {
            return self.happen(event);
        };
        let Some(cpus) = &mut self.cpus else {
            return;
        };
        match cpus.of(cpu).arrive(event, cost, now) {
            Ok(begun) => self.work_begins(cpu, begun),
            Err(event) => self.happen(event),
        }
    }

    fn work_begins(&mut self, cpu: CpuIx, begun: Option<Begun>) {
        if let Some((at, life)) = begun {
            self.queue.push(at, Event::Worked { cpu, life });
        }
    }

    /// Whose work an event is and what it costs, where it is any that waits in a queue.
    fn work_of(&mut self, event: &Event) -> Option<(CpuIx, Nanos)> {
        match event {
            Event::ToServer { conn, message, .. } => {
                let server = self.net.conn(*conn)?.server;
                Some((CpuIx::Server(server), at_server(message)))
            }
            Event::Server { server, event, .. } => match event {
                ServerEvent::Handshake(_) => Some((CpuIx::Server(*server), HANDSHAKE)),
                ServerEvent::Apply { .. } | ServerEvent::Report { .. } => {
                    self.aside(*server, ASIDE);
                    None
                }
                _ => None,
            },
            Event::ToNode { message, .. } => Some((CpuIx::Nodes, at_node(message))),
            Event::Node { input, .. } => match input {
                NodeInput::Connection { conn: Some(_), .. } => Some((CpuIx::Nodes, HANDSHAKE)),
                NodeInput::Connection { conn: None, .. } => Some((CpuIx::Nodes, 0)),
                _ => None,
            },
            Event::NodeTimer { .. } => Some((CpuIx::Nodes, TIMER)),
            _ => None,
        }
    }

    /// A server does something that does not wait in its queue.
    pub(crate) fn aside(&mut self, server: ServerIx, cost: Nanos) {
        if let Some(cpus) = &mut self.cpus {
            cpus.servers[usize::from(server)].aside(cost);
        }
    }

    pub(super) fn set_share(&mut self, cpu: CpuIx, share: Option<u64>) {
        if let Some(cpus) = &mut self.cpus {
            cpus.of(cpu).set_share(share);
        }
    }

    /// Everything has the processor time that it wants.
    pub(super) fn set_all_free(&mut self) {
        if let Some(cpus) = &mut self.cpus {
            cpus.nodes.set_share(None);
            for cpu in &mut cpus.servers {
                cpu.set_share(None);
            }
        }
    }

    /// The shares of all servers that run, in millionths of a core; `None` = they do not count now.
    pub fn shares(&self) -> Option<u64> {
        let cpus = self.cpus.as_ref()?;
        let runs = |ix: usize| self.servers[ix].runs();
        let shares = cpus.servers.iter().enumerate();
        let of_running = shares.filter(|(ix, _)| runs(*ix));
        of_running.map(|(_, cpu)| cpu.share()).sum()
    }
}
