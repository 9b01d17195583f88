//! What a node is answered when it says Hello or that it is alive, or when its session ends.

use std::time::Duration;

use controlplane_state::{Refusal, SessionEpoch, Welcome, WelcomeKind};
use protocol_model::NodeId;
use protocol_transport::FrameWriter;
use protocol_wire::v1;
use tokio::time::Instant;

use super::Gateway;
use super::frames::write;
use crate::cluster::ChangeError;

/// What a node is told to wait before it knocks again, at least.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// And at most: a node waits up to so long before its first attempt, and a new leader gives nodes
/// four seconds.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// What it waits, as a multiple of the slowest change of late: so that what it knocks for is not
/// asked again while it is under way.
const RETRY_PER_CHANGE: u32 = 4;
/// How long urgent updates are held back on the node to be merged: not at all. The node has one
/// urgent batch in flight, and what comes meanwhile gathers behind it, so under load the log's own
/// latency does the merging, as in the coalescer; an idle cluster pays for no timer.
const URGENT_DELAY: Duration = Duration::ZERO;

/// The answer to a node that has a session of this protocol version.
pub(super) fn welcomed(gateway: &Gateway, welcome: &Welcome, protocol: u32) -> v1::Welcome {
    let snapshot = gateway.cluster.snapshot();
    let incarnation = snapshot.cluster().incarnation;
    v1::Welcome {
        epoch: welcome.epoch.0,
        resumed: welcome.kind == WelcomeKind::Resumed,
        protocol,
        applied_urgent_seq: welcome.applied_urgent_seq,
        applied_typical_seq: welcome.applied_typical_seq,
        heartbeat_interval_ms: millis(gateway.liveness_config.heartbeat_interval),
        calm_interval_ms: millis(gateway.liveness_config.calm_interval),
        typical_interval_ms: millis(gateway.coalescer.typical_interval(Instant::now())),
        urgent_delay_ms: millis(URGENT_DELAY),
        retry_interval_ms: millis(retry(gateway)),
        applied: Some(v1::Watermark {
            incarnation: incarnation
                .map(|incarnation| incarnation.as_bytes().to_vec().into())
                .unwrap_or_default(),
            index: snapshot.index(),
        }),
        servers: servers(gateway),
        newcomer: welcome.kind == WelcomeKind::Resumed,
    }
}

/// The answer to a heartbeat of that number.
pub(super) fn heard(
    gateway: &Gateway,
    node: NodeId,
    epoch: SessionEpoch,
    tick: u64,
) -> v1::HeartbeatAck {
    v1::HeartbeatAck {
        tick,
        applied_index: gateway.cluster.snapshot().index(),
        confirmed_sent_boottime_ns: gateway.heard.confirmed(node, epoch),
        typical_interval_ms: millis(gateway.coalescer.typical_interval(Instant::now())),
        cut_off: gateway.heard.is_cut_off(),
        pace_ms: millis(gateway.lateness.pace()),
    }
}

/// A refusal in the words and the reason of the protocol.
#[derive(Debug)]
pub(super) struct Refuse {
    pub(super) reason: v1::RefusedReason,
    pub(super) message: String,
}

impl Refuse {
    pub(super) fn new(reason: v1::RefusedReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// There is no place for another node.
    pub(super) fn overfull(gateway: &Gateway) -> Self {
        let most = gateway.sessions_max;
        let message = format!(
            "this server holds {most} sessions, as many as it may: another server may have room, \
             or add one"
        );
        Self::new(v1::RefusedReason::Overloaded, message)
    }

    pub(super) async fn send(
        self,
        gateway: &Gateway,
        writer: &mut FrameWriter,
    ) -> Result<(), String> {
        let refused = v1::Refused {
            reason: self.reason.into(),
            message: self.message,
            retry_interval_ms: millis(retry(gateway)),
            servers: servers(gateway),
        };
        write(writer, &refused).await?;
        writer.finish().map_err(|error| error.to_string())
    }
}

impl From<ChangeError> for Refuse {
    fn from(error: ChangeError) -> Self {
        use v1::RefusedReason as Reason;
        let reason = match &error {
            ChangeError::Refused(Refusal::WrongSecret(_)) => Reason::WrongSecret,
            ChangeError::Refused(Refusal::NeedsFacts(_)) => Reason::Unregistered,
            ChangeError::Refused(Refusal::JoinDenied(_)) => Reason::JoinToken,
            ChangeError::Refused(Refusal::NotInSession(_)) => Reason::NotInSession,
            // A node cannot make its report smaller, and must not try it again at once.
            ChangeError::TooLarge(_) => Reason::Overloaded,
            ChangeError::Refused(_) => Reason::Malformed,
            _ => Reason::NoLeader,
        };
        Self::new(reason, error.to_string())
    }
}

/// The servers that a node may turn to.
fn servers(gateway: &Gateway) -> Vec<v1::ServerAddress> {
    let status = gateway.cluster.status();
    status
        .membership
        .voters
        .iter()
        .map(|(id, info)| v1::ServerAddress {
            id: id.as_u64(),
            address: info.address.clone(),
        })
        .collect()
}

/// How long a node is to wait before it knocks again.
fn retry(gateway: &Gateway) -> Duration {
    retry_after(gateway.cluster.slowest_change(Instant::now()))
}

/// The same where the slowest change of late took so long.
fn retry_after(slowest: Duration) -> Duration {
    (slowest * RETRY_PER_CHANGE).clamp(RETRY_MIN, RETRY_MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::lone::{Lone, lone};

    #[test]
    fn a_node_waits_four_times_the_slowest_change_before_it_knocks_again() {
        let of = |slowest| retry_after(Duration::from_millis(slowest)).as_millis();
        assert_eq!([of(0), of(125)], [500, 500], "and not less than this");
        assert_eq!([of(126), of(300), of(500)], [504, 1200, 2000]);
        assert_eq!([of(501), of(60_000)], [2000, 2000], "nor more than this");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nodes_are_told_how_slow_the_log_is_when_they_come_and_with_every_heartbeat() {
        let Lone {
            server,
            gateway,
            updates: _updates,
            directory: _directory,
        } = lone().await;
        let (node, epoch) = (NodeId::from_u128(1), SessionEpoch(7));
        let welcome = || {
            let welcome = Welcome {
                epoch,
                kind: WelcomeKind::Resumed,
                applied_urgent_seq: 0,
                applied_typical_seq: 0,
            };
            welcomed(&gateway, &welcome, 1)
        };
        let alive = || heard(&gateway, node, epoch, 3);
        assert_eq!(welcome().typical_interval_ms, 1000);
        assert_eq!(alive().typical_interval_ms, 1000);
        // So slow that it is still the most that is asked, however late this is looked at.
        let _slow = [gateway.cluster.updates(), gateway.cluster.changes()].map(|pace| {
            let a_minute_ago = Instant::now().checked_sub(Duration::from_secs(60));
            pace.begin(a_minute_ago.expect("the host is up for so long"))
        });
        assert_eq!(alive().typical_interval_ms, 10_000);
        let welcome = welcome();
        assert_eq!(welcome.typical_interval_ms, 10_000);
        assert_eq!(welcome.retry_interval_ms, 2000);
        server.shutdown().await;
    }
}
