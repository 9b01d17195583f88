//! The second connection: the server opens one stream per call on it. It is made again as long as
//! the session lives; that it is away costs logs and exec, never the session.

use std::time::Duration;

use noded_core::SessionEpoch;
use protocol_error_chain::chain;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Role, StreamKind};
use protocol_wire::v1;

use super::{Own, Purpose, Target, connect, open, parse, write};

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// The most that is left to others who have no session yet.
const YIELD_MAX: Duration = Duration::from_secs(2);

/// Serves calls of a live session that took `way` to get. For as long this waits: nothing on a
/// quiet cluster, and where everybody comes back at once, those who are no nodes yet go first.
pub(super) async fn serve(own: Own, epoch: SessionEpoch, way: Duration) -> Result<(), String> {
    tokio::time::sleep(way.min(YIELD_MAX)).await;
    loop {
        if let Err(reason) = attach(&own, epoch).await {
            tracing::debug!(%reason, "the connection for calls ended");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn attach(own: &Own, epoch: SessionEpoch) -> Result<(), String> {
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
    loop {
        let (send, mut recv) = connection
            .accept_bi()
            .await
            .map_err(|error| error.to_string())?;
        match StreamKind::read(&mut recv, Role::Server).await {
            Ok(StreamKind::NodeCall) => {
                context.outside.accept_call(send, recv);
            }
            Ok(kind) => tracing::debug!(%kind, "stream refused: unknown kind for this role"),
            Err(error) => tracing::debug!(error = %chain(&error), "a stream without a kind"),
        }
    }
}
