//! The connection for calls: the server opens one stream per call on it. Without it there are no
//! logs and no exec; the session lives on.
//!
//! ```text
//!   protocol 1    session live --yield--> attach --> serve --ended, 500 ms--> attach ...
//!   protocol 2    wait for CallsWanted --> attach --> serve --ended--> wait for CallsWanted ...
//!                        ^                   | failed: again every 500 ms
//!                        +--10 s without a newer CallsWanted
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use noded_core::SessionEpoch;
use protocol_error_chain::chain;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Role, StreamKind};
use protocol_wire::{CALLS_ON_DEMAND_MIN, v1};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::{Own, Purpose, Target, connect, open, parse, write};

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// How long one attempt may take: as long as a server's call waits for it.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// How long attempts go on after the newest CallsWanted. A call waits 5 s and repeats CallsWanted
/// meanwhile, so after 10 s no call waits any more.
const WANTED_MAX: Duration = Duration::from_secs(10);

/// The most that is left to others who have no session yet.
const YIELD_MAX: Duration = Duration::from_secs(2);

/// Whether the server wants the connection for calls. Requests that come together count as one.
#[derive(Debug, Default)]
pub(super) struct CallsRequest {
    /// The session's protocol version; 0 before the Welcome.
    protocol: AtomicU32,
    wanted: Notify,
}

impl CallsRequest {
    pub(super) fn on_welcome(&self, protocol: u32) {
        self.protocol.store(protocol, Ordering::Relaxed);
    }

    /// The session's protocol version; 0 before the Welcome.
    pub(super) fn protocol(&self) -> u32 {
        self.protocol.load(Ordering::Relaxed)
    }

    pub(super) fn on_wanted(&self) {
        self.wanted.notify_one();
    }

    fn is_on_demand(&self) -> bool {
        self.protocol() >= CALLS_ON_DEMAND_MIN
    }

    /// Waits for a request that was not taken yet.
    async fn wait(&self) {
        self.wanted.notified().await;
    }

    /// Takes a request, if there is one.
    fn take(&self) -> bool {
        self.wanted.notified().now_or_never().is_some()
    }
}

/// Serves calls of a live session that took `way` to get.
pub(super) async fn serve(own: Own, epoch: SessionEpoch, way: Duration) -> Result<(), String> {
    if own.calls.is_on_demand() {
        serve_on_demand(&own, epoch).await
    } else {
        serve_always(&own, epoch, way).await
    }
}

/// Servers of protocol 1 do not ask. The first attempt waits for `way`: nothing on a quiet cluster,
/// and where all nodes reconnect, those without a session go first.
async fn serve_always(own: &Own, epoch: SessionEpoch, way: Duration) -> Result<(), String> {
    sleep(way.min(YIELD_MAX)).await;
    loop {
        match attach(own, epoch).await {
            Ok(connection) => accept_calls(own, &connection).await,
            Err(reason) => tracing::debug!(%reason, "no connection for calls"),
        }
        sleep(RETRY).await;
    }
}

async fn serve_on_demand(own: &Own, epoch: SessionEpoch) -> Result<(), String> {
    loop {
        own.calls.wait().await;
        let mut wanted_at = Instant::now();
        while wanted_at.elapsed() < WANTED_MAX {
            match attach(own, epoch).await {
                Ok(connection) => {
                    // This connection is the answer to requests that came before it stood.
                    own.calls.take();
                    accept_calls(own, &connection).await;
                    break;
                }
                Err(reason) => tracing::debug!(%reason, "no connection for calls"),
            }
            sleep(RETRY).await;
            if own.calls.take() {
                wanted_at = Instant::now();
            }
        }
    }
}

async fn attach(own: &Own, epoch: SessionEpoch) -> Result<quinn::Connection, String> {
    let attempt = timeout(ATTEMPT_MAX, try_attach(own, epoch)).await;
    attempt.map_err(|_| format!("not attached within {ATTEMPT_MAX:?}"))?
}

async fn try_attach(own: &Own, epoch: SessionEpoch) -> Result<quinn::Connection, String> {
    let context = &own.context;
    let target = Target {
        purpose: Purpose::Calls,
        wish: Wish::new(WishKind::Calls),
    };
    let dialed = connect(context, &own.address, target).await;
    let dialed = dialed.map_err(|broken| broken.reason)?;
    let connection = dialed.connection;
    let (mut writer, mut reader) = open(&connection, StreamKind::Bulk).await?;
    let attach = v1::AttachBulk {
        node_id: context.identity.id.as_bytes().to_vec().into(),
        secret: context.identity.secret.to_vec().into(),
        epoch: epoch.0,
    };
    write(&mut writer, &attach).await?;
    let frame = reader.expect().await.map_err(|error| chain(&error))?;
    let v1::Attached {} = parse(frame)?;
    Ok(connection)
}

/// Until the connection ends: the server closes it when no call has used it for a while.
async fn accept_calls(own: &Own, connection: &quinn::Connection) {
    loop {
        let (send, mut recv) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(reason) => {
                tracing::debug!(%reason, "the connection for calls ended");
                return;
            }
        };
        match StreamKind::read(&mut recv, Role::Server).await {
            Ok(StreamKind::NodeCall) => {
                own.context.outside.accept_call(send, recv);
            }
            Ok(kind) => tracing::debug!(%kind, "stream refused: unknown kind for this role"),
            Err(error) => tracing::debug!(error = %chain(&error), "a stream without a kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_calls_that_come_together_count_as_one() {
        let request = CallsRequest::default();
        assert!(!request.take());
        request.on_wanted();
        request.on_wanted();
        assert!(request.take());
        assert!(!request.take());
    }

    #[test]
    fn calls_are_attached_on_demand_from_protocol_2_on() {
        let request = CallsRequest::default();
        request.on_welcome(1);
        assert!(!request.is_on_demand());
        request.on_welcome(2);
        assert!(request.is_on_demand());
    }
}
