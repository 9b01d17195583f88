//! The host: the daemon's core as it is, and around it what outlives a daemon: keeper's runs and
//! the journal's file. What the daemon does with its host (directories, tasks) is done at once and
//! in order: how that can fail half-way is the matter of `noded-core`'s own tests.

pub(crate) mod journal;
pub(crate) mod keeper;
mod link;
mod shell;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::Lane;
use noded_core::key::Attempt;
use noded_core::{BootId, Durability, Effect, Moment, NodeCore, Now, Settings, Watermark};
use protocol_model::{Node, UnixNanos};

use crate::digest::Digest;
use crate::ids::{NODE, facts};
use crate::mutant::Mutant;
use crate::net::{ConnId, SERVERS, ServerIx};
use crate::world::World;
use journal::Journal;
use keeper::Keeper;

/// The host.
#[derive(Clone, Debug)]
pub struct Host {
    /// The daemon's core while it lives.
    pub core: Option<Box<NodeCore>>,
    pub digest: Digest,
    pub(crate) sent: u64,
    /// How often the daemon was started; how often the host was.
    life: u64,
    boot: u64,
    clock: Duration,
    facts: Rc<Node>,
    pub journal: Journal,
    pub keeper: Keeper,
    links: Vec<Link>,
    newest_conn: u64,
    last_server: Option<ServerIx>,
    held: VecDeque<Held>,
    /// What the host has to tell its daemon.
    local: VecDeque<noded_core::Event>,
    /// What the node has promised, for the invariants.
    pub promised: Promised,
    /// What the last complete report said, for a planted bug.
    last_sync: Option<Vec<protocol_wire::report::AllocReport>>,
}

/// Below what nothing may fall again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promised {
    /// The highest watermark in the file, and the highest that was named in a Hello.
    pub moved: Watermark,
    pub named: Watermark,
    /// The highest session in which the node reported.
    pub reported_in: u64,
}

/// The connection of an attempt.
#[derive(Clone, Copy, Debug)]
struct Link {
    attempt: Attempt,
    server: ServerIx,
    conn: ConnId,
    epoch: u64,
}

/// An effect that waits for the disk, or behind one that does.
#[derive(Clone, Debug)]
struct Held {
    needs: Durability,
    record: usize,
    lane: Lane,
    effect: Effect,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            core: None,
            digest: Digest::default(),
            sent: 0,
            life: 0,
            boot: 1,
            clock: Duration::from_secs(1),
            facts: Rc::new(facts(NODE)),
            journal: Journal::default(),
            keeper: Keeper::default(),
            links: Vec::new(),
            newest_conn: 0,
            last_server: None,
            held: VecDeque::new(),
            local: VecDeque::new(),
            promised: Promised::default(),
            last_sync: None,
        }
    }
}

impl Host {
    pub(crate) fn now(&self) -> Now {
        Now::new(Moment(self.clock), self.wall())
    }

    fn wall(&self) -> UnixNanos {
        let since = i64::try_from(self.clock.as_nanos()).unwrap_or(i64::MAX);
        UnixNanos(1_700_000_000_000_000_000 + since)
    }

    fn boot_id(&self) -> [u8; 16] {
        let mut id = [9; 16];
        id[..8].copy_from_slice(&self.boot.to_le_bytes());
        id
    }
}

impl World {
    /// kill -9 of the daemon: tasks do not notice, and nobody says goodbye.
    pub fn kill_daemon(&mut self) {
        let host = &mut self.host;
        host.digest.note("kill");
        host.core = None;
        host.held.clear();
        host.local.clear();
        host.links.clear();
        host.last_server = None;
        host.journal.daemon_died();
        for link in self.conns.values_mut() {
            link.leave_node();
        }
        self.tidy_conns();
    }

    /// The host loses its power: everything on it ends, and what was not on the disk is gone.
    pub fn power_off(&mut self) {
        self.kill_daemon();
        let host = &mut self.host;
        host.digest.note("power off");
        host.boot += 1;
        host.keeper = Keeper::default();
        host.journal.host_died();
        // What was written and not on the disk may be gone.
        host.promised.moved = host.promised.named;
    }

    /// The daemon starts: the journal says what was wanted, keeper what runs.
    pub fn start_daemon(&mut self) {
        let host = &mut self.host;
        host.digest.note("start");
        host.life += 1;
        host.clock += Duration::from_secs(1);
        let mut restored = host.journal.replay();
        if self.mutant == Some(Mutant::ForgetsWatermark) {
            restored.watermark = Watermark::default();
        }
        let kept = host.keeper.list();
        let seed = Digest::default().with(("daemon", host.life)).seed();
        let settings = Settings::new("/data/alloc", seed);
        let facts = Arc::new(Node::clone(&host.facts));
        let boot = BootId(host.boot_id());
        let now = host.now();
        let mut core = NodeCore::new(settings, facts, restored, kept, boot, now);
        core.set_servers(SERVERS, now);
        let (watermark, epoch) = (core.watermark(), core.session().last_epoch().0);
        host.core = Some(Box::new(core));
        self.watch_restart(watermark, epoch);
        self.turn_host();
    }

    /// A timer of the daemon fires, whatever is on its way meanwhile.
    pub fn fire_timer(&mut self) {
        let host = &mut self.host;
        host.digest.note("timer");
        if let Some(due) = host.core.as_ref().and_then(|core| core.poll_timeout()) {
            host.clock = host.clock.max(due.0);
        }
        self.turn_host();
    }

    /// The disk is done with a sync.
    pub fn disk_synced(&mut self) {
        self.host.digest.note("disk");
        self.host.journal.on_synced();
        self.release_held();
        self.turn_host();
    }
}
