//! Who was heard, as far as this server knows, and the reporter that tells the leader.
//!
//! Any server may hold a node's session. Every [`REPORT_EVERY`] it tells the leader which of its
//! nodes it heard; the leader's pure `Liveness` decides who is silent. What the leader confirms is
//! told back to the nodes with the next heartbeat's answer, and so is it when the leader confirms
//! nothing for a while: then another server may serve them better.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use controlplane_leader::Reading;
use controlplane_raft::ServerId;
use controlplane_state::SessionEpoch;
use parking_lot::Mutex;
use protocol_model::NodeId;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::Gateway;
use crate::leading::LedFor;

/// How often the leader is told.
pub const REPORT_EVERY: Duration = Duration::from_millis(200);

/// How long the leader may take to confirm a report. A leader that was killed answers nothing, and
/// while its successor is waited for, nodes that are well must not fall silent: the next report
/// says the same again, to whoever leads then.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(500);

/// How long the leader may confirm nothing before this server counts as cut off from it. Longer
/// than an election takes as a rule: a leader that dies must not send every node around. Short
/// beside the time after which the leader takes the nodes for silent.
const CUT_OFF_AFTER: Duration = Duration::from_millis(1_200);

/// The same while nobody is known to lead, or somebody has only begun to: with many sessions an
/// election takes longer, no other server has a leader either, and a node that knocks there in vain
/// loses the time that it needs afterwards. A server that is alone still lets its nodes go before
/// they are taken for silent.
const LEADERLESS_AFTER: Duration = Duration::from_millis(1_800);

/// For how long it is of use that a node was heard: longer than any may be silent.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// One node, heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Which node.
    pub node: NodeId,
    /// In which session.
    pub epoch: SessionEpoch,
    /// When, by this process's clock.
    pub at: Instant,
    /// When the node sent it, by the node's boot clock, nanoseconds; 0 = a Hello, which no lease
    /// counts from.
    pub sent_boottime_ns: u64,
}

impl Heard {
    /// The newest of both: heartbeats overtake each other on their way.
    fn merge(&mut self, other: Self) {
        match other.epoch.cmp(&self.epoch) {
            Ordering::Less => {}
            Ordering::Equal => {
                self.at = self.at.max(other.at);
                self.sent_boottime_ns = self.sent_boottime_ns.max(other.sent_boottime_ns);
            }
            Ordering::Greater => *self = other,
        }
    }
}

/// What a server tells the leader: whom it heard, perhaps nobody.
#[derive(Debug)]
pub struct HeardReport {
    /// Which server.
    pub server: ServerId,
    /// Whether it reads heartbeats at once.
    pub reading: Reading,
    /// Whom it heard since its last report.
    pub heard: Vec<Heard>,
    /// Where the leader's loop answers. Nothing is answered by a loop that ends.
    pub answer: oneshot::Sender<HeardAnswer>,
}

/// What the leader says to a report.
#[derive(Debug)]
pub struct HeardAnswer {
    /// Those of whom it names whose sessions the leader does not watch.
    pub not_watched: Vec<NodeId>,
    /// For how long somebody has led, where the leader says it.
    pub led_for: Option<Duration>,
}

/// What was heard since the last report, and what the leader has confirmed.
#[derive(Debug, Default)]
pub struct HeardLog {
    inner: Mutex<HeardInner>,
    cut_off: AtomicBool,
}

#[derive(Debug, Default)]
struct HeardInner {
    /// Newest per node; bounded by the sessions of the last [`TOLD_WITHIN`].
    fresh: BTreeMap<NodeId, Heard>,
    /// Of one session: boot clocks of another boot are not compared.
    confirmed: BTreeMap<NodeId, (SessionEpoch, u64)>,
    /// When each node was heard last.
    last: BTreeMap<NodeId, Instant>,
}

impl HeardLog {
    /// Notes a heartbeat, or a Hello that a session goes on with.
    pub fn heard(&self, heard: Heard) {
        let mut inner = self.inner.lock();
        inner.last.insert(heard.node, heard.at);
        inner.fresh.entry(heard.node).or_insert(heard).merge(heard);
    }

    /// When a node was last heard here.
    pub(super) fn last(&self, node: NodeId) -> Option<Instant> {
        self.inner.lock().last.get(&node).copied()
    }

    /// The sending time of the newest heartbeat of a node's session that the leader has confirmed;
    /// 0 = none.
    pub fn confirmed(&self, node: NodeId, epoch: SessionEpoch) -> u64 {
        let inner = self.inner.lock();
        let of_session = inner.confirmed.get(&node).filter(|(of, _)| *of == epoch);
        of_session.map_or(0, |(_, sent)| *sent)
    }

    /// Whether the leader has confirmed nothing for a while of what this server heard.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.load(Relaxed)
    }

    fn set_cut_off(&self, cut_off: bool) {
        if self.cut_off.swap(cut_off, Relaxed) != cut_off {
            if cut_off {
                tracing::warn!(
                    "the leader has not confirmed a report; nodes with a session here are told to move \
                     to another server"
                );
            } else {
                tracing::info!("the leader confirms reports again");
            }
        }
    }

    /// Forgets a node whose session ended here. What was heard until then is still told: elsewhere
    /// it may take a while until it is heard again.
    pub fn forget(&self, node: NodeId) {
        let mut inner = self.inner.lock();
        inner.confirmed.remove(&node);
        inner.last.remove(&node);
    }

    fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.inner.lock().fresh)
            .into_values()
            .collect()
    }

    /// The leader watches them, but for some: no lease counts from a heartbeat of a node that it
    /// has given up.
    fn confirm(&self, heard: &[Heard], not_watched: &BTreeSet<NodeId>) {
        let mut inner = self.inner.lock();
        for one in heard {
            if not_watched.contains(&one.node) {
                continue;
            }
            let told = (one.epoch, one.sent_boottime_ns);
            let newest = inner.confirmed.entry(one.node).or_insert(told);
            *newest = told.max(*newest);
        }
    }

    /// What could not be told is told again, with what came meanwhile, unless it says nothing any
    /// more.
    fn put_back(&self, heard: Vec<Heard>) {
        let mut inner = self.inner.lock();
        let fresh = |one: &Heard| one.at.elapsed() < TOLD_WITHIN;
        for one in heard.into_iter().filter(fresh) {
            inner.fresh.entry(one.node).or_insert(one).merge(one);
        }
    }
}

/// Tells the leader who was heard, for as long as the server runs. `own` is the way to the leader's
/// loop of this server; what another leader says of how long it has led is noted in `led_for`.
pub async fn report(gateway: Arc<Gateway>, own: mpsc::Sender<HeardReport>, led_for: LedFor) {
    let mut tick = interval(REPORT_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0_u64;
    let mut confirmed = Instant::now();
    let mut leads = (None, confirmed);
    loop {
        tick.tick().await;
        // That nobody was heard is told, too: it says that this server lives.
        let heard = gateway.heard.take();
        number += 1;
        match report_once(&gateway, &own, number, heard).await {
            Ok(by) => {
                confirmed = Instant::now();
                if let ConfirmedBy::Another { led_for: lasted } = by {
                    led_for.confirmed(lasted, gateway.cluster.voters());
                }
            }
            Err(reason) => tracing::debug!(%reason, "the leader was not told who is alive"),
        }
        let leader = gateway.cluster.leader().map(|leader| leader.id);
        if leader != leads.0 {
            leads = (leader, Instant::now());
        }
        let led = leader.map(|_| leads.1.elapsed());
        gateway
            .heard
            .set_cut_off(is_cut_off(confirmed.elapsed(), led));
    }
}

/// Whether a server is cut off to which nothing was confirmed for `unconfirmed`, where the same
/// leader is known since `led`.
fn is_cut_off(unconfirmed: Duration, led: Option<Duration>) -> bool {
    let by_leader = led.is_some_and(|led| led.min(unconfirmed) >= CUT_OFF_AFTER);
    by_leader || unconfirmed >= LEADERLESS_AFTER
}

/// Which leader confirmed a report.
enum ConfirmedBy {
    Itself,
    Another { led_for: Option<Duration> },
}

/// One report. Fails where nothing is confirmed; what the leader did not get is told again. Answers
/// who confirmed it.
async fn report_once(
    gateway: &Gateway,
    own: &mpsc::Sender<HeardReport>,
    number: u64,
    heard: Vec<Heard>,
) -> Result<ConfirmedBy, String> {
    let leads = gateway.cluster.is_leader();
    let told = if leads {
        tell_own(gateway, own, &heard).await
    } else {
        tell(gateway, number, &heard).await
    };
    match told {
        Ok(answer) => {
            let not_watched = answer.not_watched.into_iter().collect();
            gateway.heard.confirm(&heard, &not_watched);
            Ok(match leads {
                true => ConfirmedBy::Itself,
                false => ConfirmedBy::Another {
                    led_for: answer.led_for,
                },
            })
        }
        Err(reason) => {
            gateway.heard.put_back(heard);
            Err(reason)
        }
    }
}

/// Tells the leader's loop of this server.
async fn tell_own(
    gateway: &Gateway,
    own: &mpsc::Sender<HeardReport>,
    heard: &[Heard],
) -> Result<HeardAnswer, String> {
    let (answer, answered) = oneshot::channel();
    let report = HeardReport {
        server: gateway.cluster.server_id(),
        reading: gateway.reading(Instant::now()),
        heard: heard.to_vec(),
        answer,
    };
    // The loop is the only reader; when it is busy, this report is merged into the next.
    if own.try_send(report).is_err() {
        return Err("the leader's loop is busy".to_owned());
    }
    // Leases count from what is confirmed: one that may have been replaced confirms nothing, since
    // its successor may have given the nodes up.
    if !gateway.cluster.raft().hears_majority() {
        return Err("this leader does not hear a majority".to_owned());
    }
    match timeout(CONFIRMED_WITHIN, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("this server leads no more".to_owned()),
        Err(_) => Err(format!("not confirmed within {CONFIRMED_WITHIN:?}")),
    }
}

/// Tells the leader, which is another server.
async fn tell(gateway: &Gateway, number: u64, heard: &[Heard]) -> Result<HeardAnswer, String> {
    let leader = gateway.cluster.leader().ok_or("no leader is known")?;
    let now = Instant::now();
    let reading = gateway.reading(now);
    let report = v1::LivenessReport {
        server_id: gateway.cluster.server_id().as_u64(),
        report: number,
        late: reading != Reading::InTime,
        crowded: reading == Reading::Crowded,
        heard: heard
            .iter()
            .map(|one| v1::HeardNode {
                node_id: one.node.as_bytes().to_vec().into(),
                epoch: one.epoch.0,
                age_ms: u32::try_from(now.duration_since(one.at).as_millis()).unwrap_or(u32::MAX),
                sent_boottime_ns: one.sent_boottime_ns,
            })
            .collect(),
    };
    let called = gateway.cluster.call(&leader, StreamKind::Forward, &report);
    let Ok(called) = timeout(CONFIRMED_WITHIN, called).await else {
        if let Some(info) = &leader.info {
            gateway.cluster.pool().report_timeout(&info.address);
        }
        return Err(format!("not confirmed within {CONFIRMED_WITHIN:?}"));
    };
    let confirmed: v1::LivenessConfirmed = called.map_err(|error| error.to_string())?;
    if confirmed.report != number {
        return Err("another report was confirmed".to_owned());
    }
    let not_watched = confirmed
        .not_watched
        .iter()
        .map(|id| NodeId::from_slice(id).ok_or_else(|| "a node id is not 16 bytes".to_owned()));
    Ok(HeardAnswer {
        not_watched: not_watched.collect::<Result<_, _>>()?,
        led_for: confirmed.led_for_ms.map(Duration::from_millis),
    })
}

/// Whom another server's report names. Clocks of servers are not compared: ages are.
///
/// # Errors
/// When a node's id is none.
pub fn from_wire(report: &v1::LivenessReport, now: Instant) -> Result<Vec<Heard>, String> {
    report
        .heard
        .iter()
        .map(|one| {
            let node = NodeId::from_slice(&one.node_id).ok_or("a node id is not 16 bytes")?;
            let age = Duration::from_millis(u64::from(one.age_ms));
            Ok(Heard {
                node,
                epoch: SessionEpoch(one.epoch),
                at: now.checked_sub(age).unwrap_or(now),
                sent_boottime_ns: one.sent_boottime_ns,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_cut_off_by_a_leader_that_stays_silent_and_not_by_an_election() {
        let ms = Duration::from_millis;
        let long = Some(ms(60_000));
        assert!(!is_cut_off(ms(1_199), long));
        assert!(is_cut_off(ms(1_200), long));
        // Nobody leads, or somebody has only begun to.
        assert!(!is_cut_off(ms(1_799), None));
        assert!(!is_cut_off(ms(1_799), Some(ms(200))));
        // However that may be, nodes are not kept until they are taken for silent.
        assert!(is_cut_off(ms(1_800), None));
        assert!(is_cut_off(ms(1_800), Some(ms(200))));
    }

    #[test]
    fn of_what_was_heard_of_a_node_the_newest_counts_in_whatever_order_it_came() {
        let log = HeardLog::default();
        let now = Instant::now();
        let heard = |epoch, at: u64, sent_boottime_ns| Heard {
            node: NodeId::from_u128(1),
            epoch: SessionEpoch(epoch),
            at: now + Duration::from_millis(at),
            sent_boottime_ns,
        };
        log.heard(heard(7, 10, 500));
        // Overtaken; then a Hello; then something of the session before.
        log.heard(heard(7, 11, 400));
        log.heard(heard(7, 12, 0));
        log.heard(heard(6, 13, 900));
        // Where a session ends, nothing of this is lost.
        log.forget(NodeId::from_u128(1));
        let told = log.take();
        assert_eq!(told, [heard(7, 12, 500)]);
        log.heard(heard(7, 20, 600));
        log.put_back(told.clone());
        assert_eq!(log.take(), [heard(7, 20, 600)]);
        // Confirmed is what was, even if an older report's answer comes later.
        log.confirm(&[heard(7, 20, 600)], &BTreeSet::new());
        log.confirm(&told, &BTreeSet::new());
        log.confirm(&[heard(6, 13, 900)], &BTreeSet::new());
        assert_eq!(log.confirmed(NodeId::from_u128(1), SessionEpoch(7)), 600);
    }

    #[test]
    fn a_confirmation_that_comes_after_its_session_ended_is_not_the_next_ones() {
        let log = HeardLog::default();
        let (node, before, after) = (NodeId::from_u128(1), SessionEpoch(7), SessionEpoch(9));
        let heard = |epoch, sent_boottime_ns| Heard {
            node,
            epoch,
            at: Instant::now(),
            sent_boottime_ns,
        };
        log.heard(heard(before, 500));
        let told = log.take();
        // The node's host boots meanwhile.
        log.forget(node);
        log.confirm(&told, &BTreeSet::new());
        assert_eq!(log.confirmed(node, after), 0);
        log.confirm(&[heard(after, 3)], &BTreeSet::new());
        assert_eq!(log.confirmed(node, after), 3);
        // The leader has given it up.
        log.confirm(&[heard(after, 4)], &BTreeSet::from([node]));
        assert_eq!(log.confirmed(node, after), 3);
    }
}
