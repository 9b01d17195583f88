//! What invariants may look at.

use controlplane_state::Snapshot;
use protocol_model::reconnect::time_to_return;

use super::{Trace, World};
use crate::counts::Counts;
use crate::event::{NodeIx, ServerIx};
use crate::net::Side;
use crate::node::SimNode;
use crate::schedule::fault::FaultKind;
use crate::time::{MILLI, Nanos, SECOND, nanos};

/// For how long a node and the cluster must have been well for it to be taken for silent wrongly.
const WELL: Nanos = 10 * SECOND;

/// How far two servers' wall clocks are apart at most, where they jump.
const CLOCKS_APART: Nanos = 21 * SECOND;

/// What a node's own disk is to being heard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnDisk {
    /// Nothing: heartbeats do not wait for it.
    Aside,
    /// With its disk away it may owe a report for so long that its session ends.
    Counts,
}

impl World {
    /// The last events, where they were kept.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The one true state.
    pub fn state(&self) -> &controlplane_state::Tables {
        self.log.state.tables()
    }

    /// The same, as one can keep it.
    pub fn newest(&self) -> &Snapshot {
        &self.log.newest
    }

    /// Whether a server takes itself for the leader.
    pub fn believes_to_lead(&self, server: ServerIx) -> bool {
        self.servers[usize::from(server)].believes == Some(server)
    }

    /// A host.
    pub fn node(&self, ix: NodeIx) -> &SimNode {
        &self.nodes[ix as usize]
    }

    /// Every host.
    pub fn nodes(&self) -> &[SimNode] {
        &self.nodes
    }

    /// How much happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether no fault is on, and none was for a while.
    pub fn quiet_for(&self, span: Nanos) -> bool {
        self.faults_on.is_empty() && self.now.saturating_sub(self.disturbed_at) >= span
    }

    /// Whether the only faults of late are of the weather, within what is promised of it, or keep
    /// nobody from hearing this node.
    fn spared_for(&self, ix: NodeIx, span: Nanos, own_disk: OwnDisk) -> bool {
        let since = self.now.saturating_sub(span);
        let calm_enough = !self.calm || self.now.saturating_sub(self.calm_since) >= span;
        let faults = &self.schedule.faults;
        let mut of_late = faults
            .iter()
            .filter(|fault| fault.at <= self.now && fault.at.saturating_add(fault.lasts) >= since);
        let counts = own_disk == OwnDisk::Counts;
        let spares = |kind: FaultKind| kind.spares(ix) && !(counts && kind.is_disk_of(ix));
        calm_enough && of_late.all(|fault| fault.kind.is_promised_weather() || spares(fault.kind))
    }

    /// Whether nothing but promised weather was in the way of a node and of a leader with a
    /// majority for so long: what is wrong with other nodes, and with its own disk, keeps nobody
    /// from being heard.
    pub fn is_heard_for(&self, ix: NodeIx, span: Nanos) -> bool {
        let lasted = |since: Nanos| self.now.saturating_sub(since) > span;
        self.led_for() > span
            && self.node(ix).in_touch_since.is_some_and(lasted)
            && self.spared_for(ix, span, OwnDisk::Aside)
    }

    /// How far two servers' wall clocks may be apart in this run: what ends by them ends this much
    /// later at most.
    pub fn clocks_apart(&self) -> Nanos {
        let mut faults = self.schedule.faults.iter();
        let jumps = faults.any(|fault| matches!(fault.kind, FaultKind::ClockJump { .. }));
        if jumps { CLOCKS_APART } else { 0 }
    }

    /// Whether no fault of this run is about servers, their log or the weather.
    pub fn servers_are_well(&self) -> bool {
        let mut faults = self.schedule.faults.iter();
        faults.all(|fault| fault.kind.is_about_nodes()) && self.minded_for() > 10 * SECOND
    }

    /// The server that everything that went wrong within `span` is about, where there is one, and
    /// it began at one moment: who finds another server needs a while to have a next one ready.
    /// Answers when, too.
    pub fn only_troubled_server(&self, span: Nanos) -> Option<(ServerIx, Nanos)> {
        let since = self.now.saturating_sub(span);
        let mut troubled = None;
        // Nobody takes the place of the only one.
        if self.schedule.servers == 1 {
            return None;
        }
        for fault in &self.schedule.faults {
            let ended = fault.at.saturating_add(fault.lasts);
            if fault.at > self.now || ended < since || self.calm {
                continue;
            }
            let trouble = (fault.kind.only_server()?, fault.at);
            if troubled.is_some_and(|other| other != trouble) {
                return None;
            }
            troubled = Some(trouble);
        }
        troubled
    }

    /// Whether a server had had a node's session for `span` at a moment, and nothing was in the
    /// node's way.
    pub fn was_settled(&self, ix: NodeIx, at: Nanos, span: Nanos) -> bool {
        let node = self.node(ix);
        let still = node.in_touch_since.map(|since| (since, self.now));
        let mut times = still.into_iter().chain(node.was_in_touch);
        times.any(|(since, until)| until >= at && since.saturating_add(span) <= at)
    }

    /// By how much a server that decides lags at most, where some do in this run.
    pub fn lags(&self) -> Nanos {
        let faults = self.schedule.faults.iter();
        let lags = faults.filter_map(|fault| match fault.kind {
            FaultKind::LagServer { lag, .. } => Some(lag),
            _ => None,
        });
        lags.max().unwrap_or(0)
    }

    /// Whether a node's daemon runs, and reaches a server that runs.
    pub fn may_have_session(&self, ix: NodeIx) -> bool {
        let servers = 0..self.schedule.servers;
        self.node(ix).core.is_some() && servers.into_iter().any(|it| self.reaches(ix, it))
    }

    /// Whether a node is in a session, on a connection to a server that runs and that it reaches.
    pub fn has_session(&self, ix: NodeIx) -> bool {
        let conn = self.node(ix).session_conn();
        let conn = conn.and_then(|conn| self.net.conn(conn));
        conn.is_some_and(|it| it.open == [true; 2] && self.reaches(ix, it.server))
    }

    fn reaches(&self, ix: NodeIx, server: ServerIx) -> bool {
        self.servers[usize::from(server)].runs()
            && self.net.passes(ix, server, Side::Node)
            && self.net.passes(ix, server, Side::Server)
    }

    /// Whether a server runs, and is not slow.
    fn server_helps(&self, server: ServerIx) -> bool {
        let it = &self.servers[usize::from(server)];
        it.runs() && it.extra < 50 * MILLI
    }

    /// A node hears that a server has its session.
    pub(crate) fn note_in_touch(&mut self, ix: NodeIx) {
        let now = self.now;
        let node = &mut self.nodes[ix as usize];
        if node.reachable_since.is_some() {
            node.in_touch_since.get_or_insert(now);
        }
    }

    /// Whether a node that is taken for silent now had nothing but the weather in its way, whatever
    /// is wrong with others: one that was cut off for long may wait a while before it asks a server
    /// again.
    pub(crate) fn is_falsely_silent(&self, ix: NodeIx) -> bool {
        let node = self.node(ix);
        let lasts =
            |since: Option<Nanos>, span| since.is_some_and(|at| self.now.saturating_sub(at) > span);
        let returned = nanos(time_to_return(self.servers.len()));
        let well = lasts(node.in_touch_since, WELL) || lasts(node.reachable_since, returned);
        well && self.spared_for(ix, WELL, OwnDisk::Counts) && self.led_for() > WELL
    }

    /// Notes for every node since when nothing is in its way, and since when everything is.
    pub(crate) fn note_reach(&mut self) {
        let servers = self.schedule.servers;
        let now = self.now;
        let leading = self.servers_with_leader();
        for node in 0..self.schedule.nodes {
            let both = |world: &Self, server: ServerIx| {
                world.net.passes(node, server, Side::Node)
                    && world.net.passes(node, server, Side::Server)
            };
            let lives = self.nodes[node as usize].core.is_some();
            let clear =
                lives && (0..servers).all(|server| both(self, server) && self.server_helps(server));
            let hears = |server: &ServerIx| {
                self.servers[usize::from(*server)].runs()
                    && self.net.passes(node, *server, Side::Server)
            };
            let heard = lives && (0..servers).any(|server| hears(&server));
            let confirmed = lives && leading.iter().any(hears);
            let it = &mut self.nodes[node as usize];
            let core = it.core.as_ref();
            let live = core.is_some_and(|core| core.session().live_epoch().is_some());
            it.reachable_since = clear.then(|| it.reachable_since.unwrap_or(now));
            if clear {
                it.in_touch_since = it.in_touch_since.or_else(|| live.then_some(now));
            } else if let Some(since) = it.in_touch_since.take() {
                it.was_in_touch = Some((since, now));
            }
            it.unreachable_since = (!heard).then(|| it.unreachable_since.unwrap_or(now));
            it.unconfirmed_since = (!confirmed).then(|| it.unconfirmed_since.unwrap_or(now));
        }
    }

    /// Servers that reach a leader with a majority.
    fn servers_with_leader(&self) -> Vec<ServerIx> {
        let leader = self.log.leader.filter(|leader| self.has_majority(*leader));
        let Some(leader) = leader else {
            return Vec::new();
        };
        let servers = 0..self.schedule.servers;
        servers
            .filter(|server| self.net.servers_reach(*server, leader))
            .collect()
    }
}
