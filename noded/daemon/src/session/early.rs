//! The first thing said in an attempt: a Hello, with the connection's first packet where the server
//! has seen us before. Nothing else goes before the handshake is over (0-RTT, RFC 8446 section 8):
//! a Hello may be replayed, since its nonce stays the same until a session is live.

use noded_core::effect::{Hello, SessionMessage};
use protocol_error_chain::chain;
use protocol_transport::{Early, EarlyWords, FrameReader, FrameWriter, StreamKind};
use protocol_wire::v1;

use super::{Outbound, Own, open, write};

impl Own {
    /// Opens the session's stream. Answers what is to be said on it first, unless that was said.
    pub(super) async fn begin(
        &self,
        first: Outbound,
        early: Option<Early>,
    ) -> Result<(FrameWriter, FrameReader, Option<Outbound>), String> {
        if let Some(early) = early {
            if let Outbound::Message(SessionMessage::Hello(hello)) = &first {
                let (writer, reader) = self.greet_early(hello, early).await?;
                return Ok((writer, reader, None));
            }
            settle(early).await?;
        }
        let (writer, reader) = open(&self.connection, StreamKind::NodeSession).await?;
        Ok((writer, reader, Some(first)))
    }

    async fn greet_early(
        &self,
        hello: &Hello,
        early: Early,
    ) -> Result<(FrameWriter, FrameReader), String> {
        let hello = self.hello(hello)?;
        let said = self.say(&hello).await;
        match settle(early).await? {
            EarlyWords::Taken => said,
            EarlyWords::NotTaken => self.say(&hello).await,
        }
    }

    async fn say(&self, hello: &v1::Hello) -> Result<(FrameWriter, FrameReader), String> {
        let (mut writer, reader) = open(&self.connection, StreamKind::NodeSession).await?;
        write(&mut writer, hello).await?;
        Ok((writer, reader))
    }
}

async fn settle(early: Early) -> Result<EarlyWords, String> {
    early.settle().await.map_err(|error| chain(&error))
}
