//! Where a search begins: a node that nobody knows, one that is well, and one that was given up.

use std::sync::Arc;

use clap::ValueEnum;
use controlplane_state::command::{DaemonLife, JoinVerdict, NodeHello, NodeSynced};
use controlplane_state::{Command, Outcome, SessionEpoch};
use noded_core::session::SessionPhase;
use protocol_model::{Eligibility, Incarnation, NodeStatus};

use crate::action::{Action, Cost};
use crate::ids::{OTHER, facts, jobs, secret_hash};
use crate::invariants::Violation;
use crate::leading::Op;
use crate::mutant::Mutant;
use crate::world::World;

/// A beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Root {
    /// The cluster stands, the node's daemon starts for the first time; jobs come later.
    New,
    /// The node is ready, runs an allocation of each job, and has a second connection.
    Live,
    /// The same, and the server of the second connection has applied nothing of what came
    /// after the node was ready.
    Lagging,
    /// The same node, taken for silent and given up: what it runs is replaced, and it is about to
    /// come back.
    Back,
    /// It is welcome again, and its complete report is on its way.
    Reporting,
}

impl Root {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::New,
        Self::Live,
        Self::Lagging,
        Self::Back,
        Self::Reporting,
    ];

    /// The world as it is there.
    ///
    /// # Errors
    /// What breaks on the way, where nothing should.
    pub fn world(self, mutant: Option<Mutant>, faults: u32) -> Result<World, Violation> {
        let mut world = World {
            mutant,
            ..World::default()
        };
        world.found();
        world.op = Some(Op::Stop);
        match self {
            Self::New => {
                world.add_other();
                world.op = Some(Op::Register);
            }
            Self::Live => {
                world.bring_up()?;
                world.catch_all_up();
            }
            Self::Lagging => world.bring_up()?,
            Self::Back => {
                world.bring_up()?;
                world.give_up()?;
            }
            Self::Reporting => {
                world.bring_up()?;
                world.give_up()?;
                world.come_back()?;
            }
        }
        world.faults_left = faults;
        Ok(world)
    }
}

impl World {
    fn command(&mut self, command: Command) -> Outcome {
        let digest = self.log.digest.with("root");
        self.append(command, digest).outcome
    }

    fn found(&mut self) {
        let incarnation = Incarnation::from_u128(1);
        self.command(Command::ClusterInit { incarnation });
        self.catch_all_up();
    }

    /// The other node joins and is ready.
    fn add_other(&mut self) {
        let hello = NodeHello {
            node: OTHER,
            secret_hash: secret_hash(OTHER),
            nonce: [1; 16],
            last_epoch: SessionEpoch::NONE,
            boot_id: [1; 16],
            daemon: DaemonLife::Restarted,
            facts: Some(Arc::new(facts(OTHER))),
            join: JoinVerdict::Allowed,
        };
        if let Outcome::Welcome(welcome) = self.command(Command::NodeHello(Box::new(hello))) {
            self.command(Command::NodeSynced(Box::new(NodeSynced {
                node: OTHER,
                epoch: welcome.epoch,
                watch_index: 0,
                changed: Vec::new(),
                unchanged: Vec::new(),
                facts: None,
            })));
        }
    }

    /// The node joins, gets both jobs, and makes its second connection.
    fn bring_up(&mut self) -> Result<(), Violation> {
        self.start_daemon();
        self.settle()?;
        self.catch_all_up();
        for job in &jobs() {
            self.register(job);
        }
        self.settle()?;
        self.add_other();
        self.command(Command::NodeEligibility {
            node: OTHER,
            eligibility: Eligibility::Eligible,
        });
        self.settle()?;
        while self.conns.len() < 2 {
            self.step(Action::Timer, Cost::Free);
            self.settle_network()?;
        }
        Ok(())
    }

    /// It connects, is greeted, and says what it has.
    fn come_back(&mut self) -> Result<(), Violation> {
        let reports = |world: &Self| {
            let mut conns = world.conns.values();
            world.node_status() == Some(NodeStatus::Initializing)
                && conns.any(|it| !it.to_server.is_empty())
        };
        while !reports(self) {
            let mut free = self.enabled().into_iter();
            let Some((action, cost)) = free.find(|(_, cost)| *cost == Cost::Free) else {
                break;
            };
            self.step(action, cost);
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// No server lags behind.
    fn catch_all_up(&mut self) {
        for ix in 0..self.servers.len() {
            while self.servers[ix].applied < self.log.committed() {
                self.apply_next(ix);
            }
        }
    }

    /// As [`Self::settle`], and on until nothing is left to do.
    fn settle_network(&mut self) -> Result<(), Violation> {
        self.settle()?;
        while let Some((action, cost)) = self
            .enabled()
            .into_iter()
            .find(|(_, cost)| *cost == Cost::Free)
        {
            self.step(action, cost);
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Its connections end, the leader takes it for silent, and what it ran is replaced.
    fn give_up(&mut self) -> Result<(), Violation> {
        let conns: Vec<_> = self
            .conns
            .iter()
            .map(|(conn, link)| (*conn, link.server))
            .collect();
        for (conn, server) in conns {
            self.step(Action::NodeLoses(conn), Cost::Free);
            self.step(Action::ServerLoses(server, conn), Cost::Free);
        }
        // Attempts fail until it is over.
        let mut over = false;
        for _ in 0..200 {
            let phase = self.host.core.as_ref().map(|core| core.session().phase());
            if over && matches!(phase, Some(SessionPhase::Disconnected { .. })) {
                return self.broken.clone().map_or(Ok(()), Err);
            }
            let dead = self.conns.keys().next().copied();
            if let Some(conn) = dead {
                self.step(Action::NodeLoses(conn), Cost::Free);
                continue;
            }
            if !over {
                self.step(Action::Missed, Cost::Free);
                over = true;
                self.work_off();
                continue;
            }
            self.step(Action::Timer, Cost::Free);
        }
        Err(Violation {
            invariant: "the_model",
            what: "the node does not give up".to_owned(),
        })
    }

    /// The control plane goes on while the node is away.
    fn work_off(&mut self) {
        loop {
            let action = if !self.log.pending.is_empty() {
                Action::Commit(0)
            } else if self.due_eval().is_some() {
                Action::Schedule
            } else if self.other_owes() {
                Action::OtherNode
            } else {
                break;
            };
            self.step(action, Cost::Free);
        }
        self.catch_all_up();
    }
}
