//! Leases as keeper is told of them: until when allocations may run without another word.

use noded_core::Moment;
use noded_core::event::LeasesAnswer;
use noded_keeper::protocol::{BootNanos, Lease};
use protocol_error_chain::chain;
use protocol_model::AllocId;

use crate::keeper_link::{CallError, KeeperHandle};

/// Extends and ends leases, and says what keeper makes of that; `None` = noded ends.
pub(crate) async fn tend(
    keeper: &KeeperHandle,
    extend: Vec<(AllocId, Moment)>,
    end: Vec<AllocId>,
) -> Option<LeasesAnswer> {
    // First: what ends makes room, and is not named again where the rest is refused.
    for alloc in end {
        match keeper.end_lease(alloc.to_string()).await {
            Ok(()) => {}
            Err(CallError::ShuttingDown) => return None,
            // Keeper refuses none. Where nothing of it runs, it ends nothing, and goes with the
            // allocation.
            Err(refused) => {
                let reason = chain(&refused);
                tracing::warn!(%alloc, %reason, "keeper did not end the lease of an allocation");
            }
        }
    }
    let leases: Vec<Lease> = extend
        .into_iter()
        .map(|(alloc, until)| Lease {
            alloc: alloc.to_string(),
            until: BootNanos(until.as_nanos()),
        })
        .collect();
    match keeper.extend_leases(&leases).await {
        Ok(()) => {}
        Err(CallError::ShuttingDown) => return None,
        Err(refused) => {
            let reason = chain(&refused);
            tracing::error!(
                %reason,
                "keeper refused to extend leases: a group with stop_on_client_after does not start, \
                 and stops when its lease expires"
            );
            return Some(LeasesAnswer::Refused);
        }
    }
    Some(LeasesAnswer::Done)
}
