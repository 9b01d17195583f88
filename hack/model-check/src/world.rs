//! The small world: one node, two servers that may hold its session, the log, and what is on its
//! way between them. One [`Action`] is one step; everything else is deterministic.

use std::collections::BTreeMap;

use noded_core::session::SessionPhase;
use protocol_model::NodeStatus;

use crate::action::{Action, Cost};
use crate::digest::Digest;
use crate::invariants::{Known, Violation};
use crate::leading::Op;
use crate::log::{Log, Then};
use crate::mutant::Mutant;
use crate::net::{Conn, ConnId, SERVERS, ServerIx};
use crate::node::Host;
use crate::server::Server;

/// Everything there is.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub mutant: Option<Mutant>,
    pub log: Log,
    pub servers: [Server; SERVERS],
    pub host: Host,
    pub conns: BTreeMap<ConnId, Conn>,
    /// Heartbeats of the session's connection are not answered.
    pub quiet: bool,
    /// How much may still go wrong.
    pub faults_left: u32,
    /// What an operator may still do.
    pub op: Option<Op>,
    pub known: Known,
    pub broken: Option<Violation>,
}

impl World {
    /// What can happen next, in the order in which it happens where nothing goes wrong.
    pub fn enabled(&self) -> Vec<(Action, Cost)> {
        let mut actions = Vec::new();
        let mut add = |action, cost| actions.push((action, cost));
        if self.host.core.is_none() {
            add(Action::Start, Cost::Free);
        }
        for (conn, link) in &self.conns {
            self.add_conn(*conn, link, &mut add);
        }
        for (number, proposal) in self.log.pending.iter().enumerate() {
            add(Action::Commit(number), Cost::Free);
            if !matches!(proposal.then, Then::Nothing) {
                add(Action::Unanswered(number), Cost::Fault);
            }
        }
        for (ix, server) in self.servers.iter().enumerate() {
            // Of a server without connections nobody sees how far it is.
            if !server.conns.is_empty() && server.applied < self.log.committed() {
                add(Action::Apply(ix), Cost::Free);
                for (conn, session) in &server.conns {
                    if session.waits() {
                        add(Action::StopWaiting(ix, *conn), Cost::Fault);
                    }
                }
            }
            if !server.conns.is_empty() {
                add(Action::Restart(ix), Cost::Fault);
            }
        }
        if self.host.journal.syncs() {
            add(Action::DiskSynced, Cost::Free);
        }
        if self.due_eval().is_some() && !self.plan_is_pending() {
            add(Action::Schedule, Cost::Free);
        }
        if self.other_owes() {
            add(Action::OtherNode, Cost::Free);
        }
        if let Some(op) = self.op
            && self.may_do(op)
        {
            add(Action::Operator(op), Cost::Extra);
        }
        let idle = !actions.iter().any(|(_, cost)| *cost == Cost::Free);
        self.add_rest(idle, &mut actions);
        actions.retain(|(_, cost)| *cost != Cost::Fault || self.faults_left > 0);
        actions
    }

    fn add_conn(&self, conn: ConnId, link: &Conn, add: &mut impl FnMut(Action, Cost)) {
        if !link.stands {
            if link.node_open {
                add(Action::Stands(conn), Cost::Free);
                add(Action::NodeLoses(conn), Cost::Fault);
            }
            return;
        }
        for stream in link.to_server.keys() {
            add(Action::ToServer(conn, *stream), Cost::Free);
        }
        for stream in link.to_node.keys() {
            add(Action::ToNode(conn, *stream), Cost::Free);
        }
        // Where the other end is gone already, this one hears of it sooner or later.
        let costs = |other_open| if other_open { Cost::Fault } else { Cost::Free };
        if link.node_open {
            add(Action::NodeLoses(conn), costs(link.server_open));
        }
        if link.server_open {
            add(
                Action::ServerLoses(link.server, conn),
                costs(link.node_open),
            );
        }
    }

    /// Time, the leader's doubts, and what goes wrong on the host.
    fn add_rest(&self, idle: bool, actions: &mut Vec<(Action, Cost)>) {
        let mut add = |action, cost| actions.push((action, cost));
        match self.node_status() {
            Some(NodeStatus::Ready | NodeStatus::Initializing) if !self.leader_doubts() => {
                add(Action::Missed, Cost::Fault);
                if self.node_status() == Some(NodeStatus::Initializing) {
                    add(Action::Overdue, Cost::Fault);
                }
            }
            Some(NodeStatus::Disconnected) if !self.leader_doubts() => {
                add(Action::WindowEnds, Cost::Fault);
            }
            _ => {}
        }
        let Some(core) = &self.host.core else {
            return;
        };
        add(Action::Kill, Cost::Fault);
        add(Action::PowerOff, Cost::Fault);
        if !self.quiet && core.session().live_epoch().is_some() {
            add(Action::Quiet, Cost::Fault);
        }
        if core.poll_timeout().is_some() {
            // A pause before the next attempt is over at any time; other limits only where nothing
            // happens for long, or where somebody was late.
            let pause = matches!(core.session().phase(), SessionPhase::Disconnected { .. });
            if pause || self.quiet {
                add(Action::Timer, Cost::Free);
            } else if idle {
                if !self.at_rest() {
                    add(Action::Timer, Cost::Free);
                }
            } else {
                add(Action::Timer, Cost::Fault);
            }
        }
    }

    /// Does one step.
    pub fn step(&mut self, action: Action, cost: Cost) {
        if cost == Cost::Fault {
            self.faults_left = self.faults_left.saturating_sub(1);
        }
        match action {
            Action::Start => self.start_daemon(),
            Action::Stands(conn) => self.stand(conn),
            Action::ToServer(conn, stream) => self.on_to_server(conn, stream),
            Action::ToNode(conn, stream) => self.on_to_node(conn, stream),
            Action::NodeLoses(conn) => self.node_loses(conn),
            Action::ServerLoses(ix, conn) => {
                self.servers[ix].digest.note(("lost", conn));
                self.forget_conn(ix, conn);
                self.tidy_conns();
            }
            Action::Commit(number) => self.commit(number),
            Action::Unanswered(number) => self.leave_unanswered(number),
            Action::Apply(ix) => self.apply_next(ix),
            Action::StopWaiting(ix, conn) => self.stop_waiting(ix, conn),
            Action::Restart(ix) => self.restart_server(ix),
            Action::DiskSynced => self.disk_synced(),
            Action::Schedule => self.schedule(),
            Action::OtherNode => self.other_reports(),
            Action::Operator(op) => self.operate(op),
            Action::Missed => self.miss(),
            Action::Overdue => self.overdue(),
            Action::WindowEnds => self.end_window(),
            Action::Kill => self.kill_daemon(),
            Action::PowerOff => self.power_off(),
            Action::Quiet => {
                self.host.digest.note("quiet");
                self.quiet = true;
            }
            Action::Timer => self.fire_timer(),
        }
    }

    /// Everything that the rest of a run depends on.
    pub fn digest(&self) -> Digest {
        let mut pending: Vec<(Digest, bool)> = self
            .log
            .pending
            .iter()
            .map(|it| (it.digest, matches!(it.then, Then::Nothing)))
            .collect();
        pending.sort_unstable();
        let conns: Vec<(ConnId, Digest)> = self
            .conns
            .iter()
            .map(|(conn, link)| (*conn, link.digest()))
            .collect();
        let servers = self.servers.each_ref().map(|it| it.digest);
        let rest = (self.quiet, self.faults_left, self.op);
        Digest::default().with((
            self.log.digest,
            pending,
            servers,
            self.host.digest,
            conns,
            rest,
        ))
    }

    /// Forgets connections that both ends have left.
    pub fn tidy_conns(&mut self) {
        self.conns.retain(|_, link| {
            if !link.stands && !link.node_open {
                return false;
            }
            // A server that was never told anything has nothing to forget.
            link.node_open || link.server_open
        });
    }

    /// The servers that have not applied everything yet.
    pub fn behind(&self) -> impl Iterator<Item = ServerIx> + '_ {
        let committed = self.log.committed();
        (0..SERVERS).filter(move |ix| self.servers[*ix].applied < committed)
    }
}
