//! Heartbeats and their answers, which travel alone: in datagrams of the session's connection (RFC
//! 9221). On a stream one lost packet would hold back all that come after it, and a way that loses
//! every third packet would make a node look dead that spoke all the time.

use noded_core::event::SessionEvent;
use protocol_error_chain::chain;
use protocol_wire::kind::{from_datagram, to_datagram};
use protocol_wire::v1;

use super::{Own, convert};

impl Own {
    /// Sends a heartbeat on its own; `false` where the server takes none so.
    pub(super) fn send_alone(&self, heartbeat: &v1::Heartbeat) -> bool {
        if self.connection.max_datagram_size().is_none() {
            return false;
        }
        self.connection
            .send_datagram(to_datagram(heartbeat))
            .is_ok()
    }

    /// Hears the answers, for as long as the connection stands.
    pub(super) async fn hear_alone(&self) -> Result<(), String> {
        loop {
            let datagram = self.connection.read_datagram().await;
            let datagram = datagram.map_err(|error| error.to_string())?;
            let ack: v1::HeartbeatAck = from_datagram(datagram).map_err(|error| chain(&error))?;
            let event = SessionEvent::HeartbeatAck(convert::heartbeat_ack(&ack));
            self.tell(event, Vec::new()).await?;
        }
    }
}
