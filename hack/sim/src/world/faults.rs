//! Faults begin and end. They are counted where they overlap; in the end everything is healed.

use super::World;
use crate::event::{Event, NodeIx, ServerIx};
use crate::net::{Conn, Side, Weather};
use crate::schedule::fault::{Fault, FaultKind, Links, Way};
use crate::time::{MILLI, Nanos, SECOND};

impl World {
    pub(super) fn begin_fault(&mut self, number: u32) {
        let Some(fault) = self.schedule.faults.get(number as usize).copied() else {
            return;
        };
        if self.calm {
            return;
        }
        self.counts.faults += 1;
        self.note(|| {
            format!(
                "fault {}: {:?} for {} ms",
                fault.number,
                fault.kind,
                fault.lasts / MILLI
            )
        });
        self.disturbed_at = self.now;
        let fault = self.resolve(number, fault);
        self.apply_fault(fault.kind, true);
        self.faults_on.insert(number);
        self.queue
            .push(self.now + fault.lasts, Event::FaultEnds(number));
        self.note_reach();
    }

    /// Who leads is known only now; whoever it was is healed in the end.
    fn resolve(&mut self, number: u32, fault: Fault) -> Fault {
        let Some(server) = self.log.leader else {
            return fault;
        };
        let kind = match fault.kind {
            FaultKind::CutLeader => FaultKind::CutServer { server },
            FaultKind::KillLeader => FaultKind::KillServer { server },
            _ => return fault,
        };
        if let Some(known) = self.schedule.faults.get_mut(number as usize) {
            known.kind = kind;
        }
        Fault { kind, ..fault }
    }

    pub(super) fn end_fault(&mut self, number: u32) {
        let Some(fault) = self.schedule.faults.get(number as usize).copied() else {
            return;
        };
        if !self.faults_on.remove(&number) {
            return;
        }
        self.note(|| format!("fault {} ends", fault.number));
        self.disturbed_at = self.now;
        self.apply_fault(fault.kind, false);
        if let FaultKind::CutNode { .. } | FaultKind::CutLink { .. } | FaultKind::CutAll =
            fault.kind
        {
            self.flush(fault.lasts);
        }
        if fault.kind == FaultKind::CutAll {
            self.measure_from_here();
        }
        self.note_reach();
    }

    fn apply_fault(&mut self, kind: FaultKind, begins: bool) {
        let servers = self.schedule.servers;
        match kind {
            FaultKind::CutNode { node, way } => {
                for server in 0..servers {
                    self.cut(node, server, way, begins);
                }
                self.idle_where(begins, |it| it.node == node);
            }
            FaultKind::CutLink { node, server } => {
                self.cut(node, server, Way::Both, begins);
                self.idle_where(begins, |it| it.node == node && it.server == server);
            }
            FaultKind::CutAll => {
                for node in 0..self.schedule.nodes {
                    for server in 0..servers {
                        self.cut(node, server, Way::Both, begins);
                    }
                }
                self.idle_where(begins, |_| true);
            }
            FaultKind::CutServer { server } => {
                for other in (0..servers).filter(|other| *other != server) {
                    if begins {
                        self.net.cut_servers(server, other);
                    } else {
                        self.net.heal_servers(server, other);
                    }
                }
                self.look_at_leader();
            }
            FaultKind::KillServer { server } if begins => self.kill_server(server),
            FaultKind::KillServer { server } => self.start_server(server),
            FaultKind::Stall { server } if begins => self.stall_server(server),
            FaultKind::Stall { server } => self.unstall_server(server),
            FaultKind::SlowServer { server, extra } => {
                self.servers[usize::from(server)].extra = if begins { extra } else { 0 };
            }
            FaultKind::LagServer { server, lag } => {
                self.servers[usize::from(server)].lag = if begins { lag } else { 0 };
            }
            // There was no leader.
            FaultKind::CutLeader | FaultKind::KillLeader => {}
            FaultKind::Share { cpu, share } => self.set_share(cpu, begins.then_some(share)),
            FaultKind::SlowLog { extra } => self.log.extra = if begins { extra } else { 0 },
            FaultKind::DropConns { server } if begins => self.drop_conns(server),
            FaultKind::DamageJournal { node } if begins => {
                self.kill_daemon(node);
                let chance = self.rng.draw();
                self.nodes[node as usize].journal.damage(chance);
            }
            FaultKind::DamageJournal { node } => self.daemon_starts_later(node, 5 * MILLI),
            FaultKind::StepDown if begins => self.step_down(),
            FaultKind::KillDaemon { node } if begins => self.kill_daemon(node),
            FaultKind::KillDaemon { node } => self.daemon_starts_later(node, 5 * MILLI),
            FaultKind::Reboot { node } if begins => self.power_off(node),
            FaultKind::Reboot { node } => self.boot(node),
            FaultKind::DiskFull { node } => self.nodes[node as usize].journal.full = begins,
            FaultKind::DiskSlow { node } => {
                let slow = if begins { 3 * SECOND } else { 0 };
                self.nodes[node as usize].journal.slow = slow;
            }
            FaultKind::Storm { weather, links } if begins => self.set_weather(weather, links),
            FaultKind::Storm { links, .. } => self.set_weather(Weather::CALM, links),
            FaultKind::ClockJump { server, by } if begins => {
                self.servers[usize::from(server)].skew = by;
            }
            FaultKind::DropConns { .. } | FaultKind::StepDown | FaultKind::ClockJump { .. } => {}
        }
    }

    fn set_weather(&mut self, weather: Weather, links: Links) {
        self.net.weather = weather;
        if links == Links::All {
            self.net.between_servers = weather;
        }
    }

    fn cut(&mut self, node: NodeIx, server: ServerIx, way: Way, begins: bool) {
        let (to_server, to_node) = match way {
            Way::Both => (true, true),
            Way::ToServer => (true, false),
            Way::ToNode => (false, true),
        };
        for (side, meant) in [(Side::Server, to_server), (Side::Node, to_node)] {
            if !meant {
                continue;
            }
            if begins {
                self.net.cut(node, server, side);
            } else {
                self.net.heal(node, server, side);
            }
        }
    }

    /// What a cut that begins leaves without a sound dies of it, if nothing heals.
    fn idle_where(&mut self, begins: bool, hit: impl Fn(&Conn) -> bool) {
        let hit = if begins {
            self.net.conns_where(hit)
        } else {
            Vec::new()
        };
        let now = self.now;
        for conn in hit {
            self.idle_later(conn, now);
        }
    }

    /// What cuts held back is sent again.
    fn flush(&mut self, waited: Nanos) {
        for conn in self.net.conns_where(|_| true) {
            for (at, event) in self.net.flush(conn, waited, self.now) {
                self.queue.push(at, event);
            }
        }
    }

    /// The safety phase is over: everything is healed, and nothing fails any more.
    pub(super) fn become_calm(&mut self) {
        for number in self.faults_on.clone() {
            self.end_fault(number);
        }
        for server in 0..self.schedule.servers {
            self.start_server(server);
            self.servers[usize::from(server)].extra = 0;
            self.servers[usize::from(server)].lag = 0;
            self.servers[usize::from(server)].skew = 0;
        }
        for node in 0..self.schedule.nodes {
            self.nodes[node as usize].journal.full = false;
            self.nodes[node as usize].journal.slow = 0;
            self.boot(node);
            if self.nodes[node as usize].core.is_none() {
                self.daemon_starts_later(node, 5 * MILLI);
            }
        }
        self.net.weather = Weather::CALM;
        self.net.between_servers = Weather::CALM;
        self.log.extra = 0;
        self.set_all_free();
        self.calm = true;
        self.calm_since = self.now;
        self.disturbed_at = self.now;
        self.look_at_leader();
        self.note_reach();
        self.note(|| "everything is healed".to_owned());
        self.wish_for_the_end();
    }
}
