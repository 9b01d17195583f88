//! One request to another server, one answer.

use std::time::Duration;

use controlplane_raft::Leader;
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use tokio::time::timeout;

use super::Cluster;

/// How long one forwarded call may take.
const CALL_MAX: Duration = Duration::from_secs(8);
/// The largest frame between servers.
pub const SERVER_FRAME_BYTES_MAX: usize = 17 * 1024 * 1024;

/// Why a call to another server has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// It never left: nothing happened.
    #[error("the call could not be sent: {0}")]
    NotSent(String),
    /// It may have arrived.
    #[error("the call was not answered: {0}")]
    Broken(String),
    /// The answer is not what fits.
    #[error("the answer makes no sense: {0}")]
    Nonsense(String),
}

impl Cluster {
    /// One request to the leader, one answer.
    pub(crate) async fn call<Q: FrameMessage, A: FrameMessage>(
        &self,
        leader: &Leader,
        kind: StreamKind,
        request: &Q,
    ) -> Result<A, CallError> {
        let Some(info) = &leader.info else {
            return Err(CallError::NotSent(
                "the leader's address is not known yet".to_owned(),
            ));
        };
        self.call_address(&info.address, kind, request).await
    }

    /// One request to the server at `address`, one answer.
    pub(crate) async fn call_address<Q: FrameMessage, A: FrameMessage>(
        &self,
        address: &str,
        kind: StreamKind,
        request: &Q,
    ) -> Result<A, CallError> {
        let (send, recv) = self
            .pool
            .open(address, kind)
            .await
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let mut writer = FrameWriter::new(send, SERVER_FRAME_BYTES_MAX);
        let mut reader = FrameReader::new(recv, SERVER_FRAME_BYTES_MAX);
        let exchange = async {
            let (kind, body) = to_frame(request);
            writer
                .write(kind, body)
                .await
                .map_err(|error| CallError::NotSent(error.to_string()))?;
            let frame = reader
                .expect()
                .await
                .map_err(|error| CallError::Broken(error.to_string()))?;
            from_frame(frame.kind, frame.body)
                .map_err(|error| CallError::Nonsense(error.to_string()))
        };
        match timeout(CALL_MAX, exchange).await {
            Ok(answer) => {
                if answer.is_ok() {
                    self.pool.report_success(address);
                }
                answer
            }
            Err(_) => {
                self.pool.report_timeout(address);
                Err(CallError::Broken(format!("no answer within {CALL_MAX:?}")))
            }
        }
    }
}
