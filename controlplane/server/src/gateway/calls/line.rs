//! The way from a call to the node's connection for calls, one per session.
//!
//! ```text
//!   call --ask--> session loop --CallsWanted--> node
//!     ^                                           |
//!     +--attachment-- CallLine <--attach----------+  second connection
//! ```

use protocol_wire::{CALLS_ON_DEMAND_MIN, PROTOCOL_MAX, v1};
use tokio::sync::{Notify, watch};

use super::places::NodeCalls;

/// The newest protocol version that both this server and the node of this Hello speak.
pub(in crate::gateway) fn negotiated(hello: &v1::Hello) -> u32 {
    hello.protocol_max.min(PROTOCOL_MAX)
}

/// See the top of this file.
#[derive(Debug)]
pub(in crate::gateway) struct CallLine {
    /// The session's version.
    protocol: u32,
    wanted: Notify,
    attached: watch::Sender<Option<NodeCalls>>,
}

impl CallLine {
    /// The line of a session with this protocol version. No connection is attached.
    pub(in crate::gateway) fn new(protocol: u32) -> Self {
        Self {
            protocol,
            wanted: Notify::new(),
            attached: watch::Sender::new(None),
        }
    }

    pub(in crate::gateway) fn protocol(&self) -> u32 {
        self.protocol
    }

    /// Whether the node attaches its connection only after CallsWanted.
    pub(super) fn is_on_demand(&self) -> bool {
        self.protocol >= CALLS_ON_DEMAND_MIN
    }

    /// Wants the connection. Requests that the session has not sent yet count as one.
    pub(super) fn ask(&self) {
        self.wanted.notify_one();
    }

    /// Waits until a call wants the connection. Cancel-safe.
    pub(in crate::gateway) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Takes the node's connection; an earlier one gets no new calls.
    pub(in crate::gateway) fn attach(&self, calls: NodeCalls) {
        self.attached.send_replace(Some(calls));
    }

    /// The connection, if it stands.
    pub(super) fn attached(&self) -> Option<NodeCalls> {
        self.attached.borrow().clone().filter(NodeCalls::stands)
    }

    /// Waits until a connection is attached and stands.
    pub(super) async fn attachment(&self) {
        let stands = |calls: &Option<NodeCalls>| calls.as_ref().is_some_and(NodeCalls::stands);
        // The sender lives as long as `self`.
        let _ = self.attached.subscribe().wait_for(stands).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_session_speaks_the_newest_version_of_both() {
        let with = |protocol_max| {
            negotiated(&v1::Hello {
                protocol_max,
                ..v1::Hello::default()
            })
        };
        assert_eq!([with(1), with(2), with(9)], [1, 2, PROTOCOL_MAX]);
    }

    #[test]
    fn nodes_attach_on_demand_from_protocol_2_on() {
        let on_demand = |protocol| CallLine::new(protocol).is_on_demand();
        assert_eq!([on_demand(1), on_demand(2)], [false, true]);
    }

    #[test]
    fn requests_that_were_not_sent_yet_count_as_one() {
        let line = CallLine::new(2);
        line.ask();
        line.ask();
        assert!(line.wanted().now_or_never().is_some());
        assert!(line.wanted().now_or_never().is_none());
    }
}
