//! The public halves of the root keys, for nodes that verify tokens.

use controlplane_state::Table;
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;

use super::super::Gateway;
use super::super::streams::OwnStream;
use super::{QueryFailure, check_session};

/// Answers once the root keys have changed above `known_index`. Index 0 is answered at once, also
/// where there is no key yet.
pub(super) async fn wait(
    gateway: &Gateway,
    own: &OwnStream,
    known_index: u64,
) -> Result<Reply, QueryFailure> {
    let mut changes = gateway.cluster.hub().root_keys();
    let incarnation = gateway.cluster.snapshot().cluster().incarnation;
    loop {
        changes.mark_unchanged();
        let snapshot = gateway.cluster.snapshot();
        check_session(&snapshot, own)?;
        let index = snapshot.table_index(&[Table::RootKeys]);
        let is_restored = snapshot.cluster().incarnation != incarnation;
        if index > known_index || known_index == 0 || is_restored {
            return Ok(Reply::Keys(v1::PublicKeys {
                index,
                jwks: crate::keyring::jwks(&snapshot).into(),
                issuer: gateway.issuer.clone().unwrap_or_default(),
            }));
        }
        drop(snapshot);
        if changes.changed().await.is_err() {
            return Err((503, "the server is shutting down".to_owned()));
        }
    }
}
