//! A host: the daemon's core as it is, and around it what outlives a daemon: keeper's runs and the
//! journal's file.
//!
//! | here | on the host |
//! |---|---|
//! | `shell` | the daemon's `shell.rs` |
//! | `link` | the daemon's `session.rs` |
//! | `journal` | the daemon's `journal.rs` |
//! | `keeper`, `leases` | keeper |

pub mod journal;
pub mod keeper;
mod leases;
mod link;
mod shell;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::Lane;
use noded_core::journal::RestoredNode;
use noded_core::key::Attempt;
use noded_core::lanes::Lanes;
use noded_core::task_runner::Boot;
use noded_core::{BootId, Durability, Effect, Moment, NodeCore, Now, RunKey, Settings};
use protocol_model::Node;

use crate::event::{Event, HostEvent, NodeInput, NodeIx, ServerIx};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Side};
use crate::node_ids::facts;
use crate::time::{MILLI, Nanos, SECOND, wall};
use crate::world::World;
use journal::Journal;
use keeper::Keeper;

/// One host.
#[derive(Debug)]
pub struct SimNode {
    /// Whether the host is on.
    pub on: bool,
    /// How often it was started, and when.
    pub boot: u32,
    pub booted_at: Nanos,
    /// How often the daemon was started; its core while it lives.
    pub life: u32,
    pub core: Option<Box<NodeCore>>,
    /// The boot that the daemon last saw.
    seen_boot: u32,
    pub facts: Arc<Node>,
    pub journal: Journal,
    pub keeper: Keeper,
    /// The session's connection, and the one that stands by.
    links: Vec<Link>,
    last_server: Option<ServerIx>,
    held: VecDeque<Held>,
    lanes: Lanes,
    /// Preparations under way that nobody wants any more.
    interrupted: BTreeSet<RunKey>,
    armed: Option<Nanos>,
    pub skew: i64,
    /// Since when nothing keeps the node from reaching a server, as far as faults go.
    pub reachable_since: Option<Nanos>,
    /// Since when, besides, a server has had its session.
    pub in_touch_since: Option<Nanos>,
    /// When that ended last, and since when it had been so.
    pub(crate) was_in_touch: Option<(Nanos, Nanos)>,
    pub unreachable_since: Option<Nanos>,
    /// Since when no server that hears it reaches a leader with a majority.
    pub unconfirmed_since: Option<Nanos>,
    /// Whether a server has told it anything since the daemon started, for a planted bug.
    told: bool,
    /// The boot in which a server has told it something last.
    pub told_in: u32,
    /// What the last sync said, for a planted bug.
    last_sync: Option<Vec<protocol_wire::report::AllocReport>>,
}

/// The connection of an attempt.
#[derive(Clone, Copy, Debug)]
struct Link {
    attempt: Attempt,
    server: ServerIx,
    /// None until it stands.
    conn: Option<ConnId>,
    /// The connection of its first packet, until it stands, where processor time counts.
    dialing: Option<ConnId>,
    epoch: u64,
}

/// An effect that waits for the journal, or behind one that does.
#[derive(Debug)]
struct Held {
    needs: Durability,
    record: u64,
    lane: Lane,
    effect: Effect,
}

impl SimNode {
    fn link(&self, attempt: Attempt) -> Option<Link> {
        self.links
            .iter()
            .find(|link| link.attempt == attempt)
            .copied()
    }

    /// The connection of the session, while it is live.
    pub(crate) fn session_conn(&self) -> Option<ConnId> {
        let session = self.core.as_ref()?.session();
        session.live_epoch()?;
        self.link(session.attempt())?.conn
    }

    /// Forgets a connection that is gone, and says whose it was.
    fn forget_link(&mut self, conn: ConnId) -> Option<Attempt> {
        let place = self.links.iter().position(|link| link.conn == Some(conn))?;
        Some(self.links.remove(place).attempt)
    }

    pub fn new(ix: NodeIx, skew: i64) -> Self {
        Self {
            on: false,
            boot: 0,
            booted_at: 0,
            life: 0,
            core: None,
            seen_boot: 0,
            facts: facts(ix, 0),
            journal: Journal::default(),
            keeper: Keeper::default(),
            links: Vec::new(),
            last_server: None,
            held: VecDeque::new(),
            lanes: Lanes::default(),
            interrupted: BTreeSet::new(),
            armed: None,
            skew,
            reachable_since: None,
            in_touch_since: None,
            was_in_touch: None,
            unreachable_since: None,
            unconfirmed_since: None,
            told: false,
            told_in: 0,
            last_sync: None,
        }
    }

    /// What both of the host's clocks say.
    pub fn now(&self, now: Nanos) -> Now {
        let since_boot = Duration::from_nanos(now - self.booted_at + SECOND);
        Now::new(Moment(since_boot), wall(now, self.skew))
    }

    fn boot_id(&self, ix: NodeIx) -> [u8; 16] {
        let mut id = [9; 16];
        id[..4].copy_from_slice(&ix.to_be_bytes());
        id[4..8].copy_from_slice(&self.boot.to_be_bytes());
        id
    }
}

impl World {
    /// Switches a host on; its daemon starts a little later.
    pub(crate) fn boot(&mut self, ix: NodeIx) {
        let wait = self.rng.between(50 * MILLI, 2 * SECOND);
        let now = self.now;
        let node = &mut self.nodes[ix as usize];
        if node.on {
            return;
        }
        node.on = true;
        node.boot += 1;
        node.booted_at = now;
        let boot = node.boot;
        let event = HostEvent::DaemonStarts;
        self.queue.push(
            now + wait,
            Event::Host {
                node: ix,
                boot,
                event,
            },
        );
        self.note(|| format!("n{ix} boots"));
        self.note_reach();
    }

    /// Switches a host off: everything on it ends, and what was not on the disk may be gone.
    pub(crate) fn power_off(&mut self, ix: NodeIx) {
        if !self.nodes[ix as usize].on {
            return;
        }
        self.kill_daemon(ix);
        let keep = self.rng.draw();
        let node = &mut self.nodes[ix as usize];
        node.on = false;
        node.boot += 1;
        node.keeper = Keeper::default();
        node.journal.crash(keep);
        self.note(|| format!("n{ix} is off"));
        self.note_reach();
    }

    /// kill -9 of a daemon: tasks do not notice.
    pub(crate) fn kill_daemon(&mut self, ix: NodeIx) {
        let now = self.now;
        let node = &mut self.nodes[ix as usize];
        if node.core.take().is_none() {
            return;
        }
        node.life += 1;
        node.held.clear();
        node.lanes = Lanes::default();
        node.interrupted.clear();
        node.armed = None;
        node.last_server = None;
        node.journal.daemon_died();
        node.links.clear();
        let life = self.nodes[ix as usize].life;
        // Nobody says goodbye: servers notice by silence.
        for conn in self
            .net
            .conns_where(|it| it.node == ix && it.node_life < life && it.open[0])
        {
            self.net.leave(conn, Side::Node);
            self.idle_later(conn, now);
        }
        self.note(|| format!("n{ix} daemon is killed"));
        self.note_reach();
    }

    /// A daemon starts: the journal says what was wanted, keeper what runs.
    pub(crate) fn start_daemon(&mut self, ix: NodeIx) {
        let seed = self.rng.bytes();
        let ends = self.mutant == Some(Mutant::ForgetsWatermark);
        let node = &mut self.nodes[ix as usize];
        if !node.on || node.core.is_some() {
            return;
        }
        node.life += 1;
        node.told = false;
        let mut restored: RestoredNode = node.journal.replay();
        if self.mutant == Some(Mutant::StartsAfterReboot) {
            restored.boot = Some(boot_id(node.boot));
        }
        if ends {
            restored.watermark = noded_core::Watermark::default();
        }
        let boot = if node.seen_boot == node.boot || node.seen_boot == 0 {
            Boot::Same
        } else {
            Boot::Another
        };
        node.seen_boot = node.boot;
        let kept = node.keeper.list();
        let mut settings = Settings::new("/data/alloc", seed);
        settings.terminal_allocs_max = 8;
        let core = NodeCore::new(
            settings,
            Arc::clone(&node.facts),
            restored,
            kept,
            boot_id(node.boot),
            node.now(self.now),
        );
        let watermark = core.watermark();
        node.core = Some(Box::new(core));
        self.note(|| format!("n{ix} daemon starts"));
        self.observe(Observation::DaemonStarted {
            node: ix,
            boot,
            watermark,
        });
        let servers = self.servers.len();
        let now = self.nodes[ix as usize].now(self.now);
        if let Some(core) = &mut self.nodes[ix as usize].core {
            core.set_servers(servers, now);
        }
        self.drain(ix);
        self.note_reach();
    }

    /// A host is in another rack from now on; a daemon that lives hears of it.
    pub(crate) fn relabel(&mut self, ix: NodeIx, rack: u32) {
        let node = &mut self.nodes[ix as usize];
        node.facts = facts(ix, rack);
        if let Some(core) = &mut node.core {
            core.set_node(Arc::clone(&node.facts));
        }
        self.note(|| format!("n{ix} is in rack {rack}"));
        self.drain(ix);
    }

    pub(crate) fn on_node_timer(&mut self, ix: NodeIx, life: u32) {
        let at = self.now;
        let node = &mut self.nodes[ix as usize];
        if node.life != life || node.armed.is_none_or(|armed| armed > at) {
            return;
        }
        node.armed = None;
        let now = node.now(at);
        let Some(core) = &mut node.core else {
            return;
        };
        if core.poll_timeout().is_some_and(|due| due <= now.moment) {
            core.on_timeout(now);
        }
        self.drain(ix);
    }

    /// Something of the host for its daemon.
    pub(crate) fn node_input(&mut self, ix: NodeIx, wait: Nanos, input: NodeInput) {
        let life = self.nodes[ix as usize].life;
        self.queue.push(
            self.now + wait,
            Event::Node {
                node: ix,
                life,
                input,
            },
        );
    }

    pub(crate) fn on_node_input(&mut self, ix: NodeIx, life: u32, input: NodeInput) {
        let node = &mut self.nodes[ix as usize];
        if node.life != life || node.core.is_none() {
            return;
        }
        match input {
            NodeInput::Connection { attempt, conn } => self.on_connection(ix, attempt, conn),
            NodeInput::Act(effect) => self.act(ix, *effect),
            NodeInput::LaneDone { lane, event } => {
                if let Some(event) = event {
                    self.feed(ix, *event);
                }
                self.lane_done(ix, &lane);
            }
            NodeInput::Leases(answer) => self.feed(ix, noded_core::Event::Leases(answer)),
            NodeInput::Run { run, event } => {
                self.feed(ix, noded_core::Event::Run { run, event });
            }
            NodeInput::Synced { count, file } => {
                node.journal.on_synced(count, file);
                self.release_held(ix);
            }
            NodeInput::JournalRetry => self.retry_journal(ix),
        }
        self.drain(ix);
    }

    /// Tells the core of an event.
    pub(crate) fn feed(&mut self, ix: NodeIx, event: noded_core::Event) {
        let at = self.now;
        let node = &mut self.nodes[ix as usize];
        let now = node.now(at);
        if let Some(core) = &mut node.core {
            core.on_event(event, now);
        }
    }
}

/// The id of a host's n-th boot.
fn boot_id(boot: u32) -> BootId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&boot.to_le_bytes());
    BootId(id)
}
