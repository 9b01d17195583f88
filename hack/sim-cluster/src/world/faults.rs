//! What a fault does to the world, and what its end does.

use std::time::Duration;

use controlplane_server::membership::{self, MembershipChange};
use tokio::time::Instant;

use super::World;
use crate::net::{Machine, Weather};
use crate::schedule::SERVERS;
use crate::schedule::fault::{Fault, FaultKind, Way};
use crate::server::Door;

impl World {
    pub(super) async fn begin_fault(&mut self, fault: Fault) {
        let Fault { number, kind, .. } = fault;
        self.eyes.note(|| format!("fault {number}: {kind:?}"));
        if !fault.lasts.is_zero() {
            self.on.insert(number, fault);
        }
        for (from, to) in self.cuts_of(kind) {
            self.network.cut(from, to);
        }
        match kind {
            FaultKind::Cut { .. } | FaultKind::CutOff { .. } | FaultKind::CutFromServers { .. } => {
            }
            FaultKind::Storm { weather } => self.network.set_weather(weather),
            FaultKind::Slow { machine, extra } => self.network.set_slow(machine, extra),
            FaultKind::KillServer { server } => self.end_server(server),
            FaultKind::CutPower { server } => self.cut_power(server),
            FaultKind::CutAllPower => (0..SERVERS).for_each(|server| self.cut_power(server)),
            FaultKind::StepDown => self.step_down(),
            FaultKind::KillDaemon { node } => {
                if let Some(node) = self.node_on(node) {
                    node.kill();
                }
            }
            FaultKind::Reboot { node } => {
                if let Some(node) = self.node_on(node) {
                    node.cut_power();
                }
            }
            FaultKind::SlowDisk { machine, extra } => self.set_disk(machine, extra, None),
            FaultKind::DiskRefuses { machine } => {
                self.set_disk(machine, Duration::ZERO, Some(true));
            }
            FaultKind::DiskTears { server } => {
                let server = &self.servers[usize::from(server)];
                server.platters.behave(|manners| manners.tears_next = true);
            }
            FaultKind::ClockJump { machine, by_ms } => self.jump(machine, by_ms),
        }
    }

    pub(super) async fn end_fault(&mut self, number: u32) {
        let Some(Fault { kind, .. }) = self.on.remove(&number) else {
            return;
        };
        self.eyes.note(|| format!("fault {number} is over"));
        for (from, to) in self.cuts_of(kind) {
            self.network.mend(from, to);
        }
        match kind {
            FaultKind::Cut { .. }
            | FaultKind::CutOff { .. }
            | FaultKind::CutFromServers { .. }
            | FaultKind::StepDown
            | FaultKind::ClockJump { .. } => {}
            FaultKind::Storm { .. } => self.network.set_weather(Weather::CALM),
            FaultKind::Slow { machine, .. } => self.network.set_slow(machine, Duration::ZERO),
            FaultKind::KillServer { server } | FaultKind::CutPower { server } => {
                self.start_again(server).await;
            }
            FaultKind::CutAllPower => {
                for server in 0..SERVERS {
                    self.start_again(server).await;
                }
            }
            FaultKind::KillDaemon { node } | FaultKind::Reboot { node } => {
                if !self.is_held_down(node) {
                    self.start_node(usize::from(node - SERVERS));
                }
            }
            FaultKind::SlowDisk { machine, .. } => self.set_disk(machine, Duration::ZERO, None),
            FaultKind::DiskRefuses { machine } => {
                self.set_disk(machine, Duration::ZERO, Some(false));
            }
            FaultKind::DiskTears { server } => {
                let server = &self.servers[usize::from(server)];
                server.platters.behave(|manners| manners.tears_next = false);
            }
        }
    }

    /// Notes which nodes reach no server: nothing of what they say gets to one that runs.
    pub(super) fn note_reach(&self) {
        let up: Vec<Machine> = self
            .servers
            .iter()
            .filter(|server| server.is_up())
            .map(|server| server.machine)
            .collect();
        let reaches = |node: Machine| up.iter().any(|server| self.network.passes(node, *server));
        let nodes = self.nodes.iter().map(|node| node.machine);
        self.eyes
            .are_cut_off(&nodes.filter(|node| !reaches(*node)).collect());
    }

    /// Whether a fault that is on keeps a machine's process from running.
    pub(super) fn is_held_down(&self, machine: Machine) -> bool {
        self.on.values().any(|fault| match fault.kind {
            FaultKind::KillServer { server } | FaultKind::CutPower { server } => server == machine,
            FaultKind::KillDaemon { node } | FaultKind::Reboot { node } => node == machine,
            FaultKind::CutAllPower => machine < SERVERS,
            _ => false,
        })
    }

    /// Whether a machine's disk refuses or tears just now.
    pub(super) fn has_disk_trouble(&self, server: Machine) -> bool {
        self.on.values().any(|fault| match fault.kind {
            FaultKind::DiskRefuses { machine } => machine == server,
            FaultKind::DiskTears { server: machine } => machine == server,
            _ => false,
        })
    }

    /// The server at a machine, or another one where it is off: operators look for one that works.
    pub(super) fn door_at(&self, machine: Machine) -> Option<Door> {
        let first = self.servers.get(usize::from(machine));
        let mut all = first.into_iter().chain(&self.servers);
        all.find_map(|server| server.door()).cloned()
    }

    async fn start_again(&mut self, server: Machine) {
        if !self.is_held_down(server) {
            self.restarts.remove(&server);
            self.start_server(server).await;
        }
    }

    fn cut_power(&mut self, server: Machine) {
        self.servers[usize::from(server)].platters.cut_power();
        self.end_server(server);
    }

    fn node_on(&mut self, node: Machine) -> Option<&mut crate::node::SimNode> {
        self.nodes.get_mut(usize::from(node.checked_sub(SERVERS)?))
    }

    fn set_disk(&mut self, machine: Machine, slow: Duration, refuses: Option<bool>) {
        if let Some(server) = self.servers.get(usize::from(machine)) {
            server.platters.behave(|manners| match refuses {
                None => manners.slow = slow,
                Some(refuses) => manners.refuses = refuses,
            });
            return;
        }
        let Some(node) = self.node_on(machine) else {
            return;
        };
        match refuses {
            None => node.journal.set_slow(slow),
            Some(refuses) => node.journal.set_refuses(refuses),
        }
    }

    fn jump(&mut self, machine: Machine, by_ms: i64) {
        let nanos = by_ms.saturating_mul(1_000_000);
        match self.servers.get(usize::from(machine)) {
            Some(server) => server.clock.jump(nanos),
            None => {
                if let Some(node) = self.node_on(machine) {
                    node.clock.jump(nanos);
                }
            }
        }
    }

    fn step_down(&self) {
        let mut clusters = self.servers.iter().filter_map(|server| server.cluster());
        let Some(leader) = clusters.find(|cluster| cluster.is_leader()).cloned() else {
            return;
        };
        let asked = Instant::now();
        let eyes = std::sync::Arc::clone(&self.eyes);
        tokio::spawn(async move {
            let done = membership::change(&leader, MembershipChange::TransferAway).await;
            eyes.note(|| format!("the step down of {asked:?} came to {done:?}"));
        });
    }

    /// The directions that a fault cuts.
    fn cuts_of(&self, kind: FaultKind) -> Vec<(Machine, Machine)> {
        let machines = u8::try_from(self.servers.len() + self.nodes.len()).unwrap_or(0);
        let both = |one: Machine, others: std::ops::Range<Machine>| {
            let others = others.filter(move |other| *other != one);
            others.flat_map(move |other| [(one, other), (other, one)])
        };
        match kind {
            FaultKind::Cut { from, to, way } => match way {
                Way::There => vec![(from, to)],
                Way::Both => vec![(from, to), (to, from)],
            },
            FaultKind::CutOff { machine } => both(machine, 0..machines).collect(),
            FaultKind::CutFromServers { server } => both(server, 0..SERVERS).collect(),
            _ => Vec::new(),
        }
    }
}
