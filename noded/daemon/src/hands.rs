//! What the loop has done on the host, behind an interface: by the executor and keeper here, by an
//! imitation where one process simulates many nodes.

use std::sync::Arc;

use futures::future::BoxFuture;
use noded_core::event::LeasesAnswer;
use noded_core::{Effect, Event, Moment};
use protocol_model::{AllocId, Node};
use tokio_util::sync::CancellationToken;

use crate::executor::Executor;
use crate::fingerprint::{last, runtime};
use crate::leases;
use crate::upkeep::DiskUse;

/// Whoever does what the core asks for beyond sessions and the journal.
pub trait Hands: std::fmt::Debug + Send + Sync {
    /// Does what an effect of an allocation's lane says; answers what is known of it at once. The
    /// next effect of the lane comes after this one's answer. A preparation ends within a second
    /// of its `cancel`.
    fn carry_out(
        self: Arc<Self>,
        effect: Effect,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Vec<Event>>;

    /// Extends and ends leases; `None` = the node ends.
    fn tend_leases(
        &self,
        extend: Vec<(AllocId, Moment)>,
        end: Vec<AllocId>,
    ) -> BoxFuture<'_, Option<LeasesAnswer>>;

    /// The facts of the host changed.
    fn on_facts(&self, before: &Node, now: &Node);

    /// Whether a disk that is so full is fuller than the operator allows.
    fn is_too_full(&self, measured: DiskUse) -> bool;
}

impl Hands for Executor {
    fn carry_out(
        self: Arc<Self>,
        effect: Effect,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Vec<Event>> {
        Box::pin(async move { self.execute(effect, &cancel).await })
    }

    fn tend_leases(
        &self,
        extend: Vec<(AllocId, Moment)>,
        end: Vec<AllocId>,
    ) -> BoxFuture<'_, Option<LeasesAnswer>> {
        Box::pin(leases::tend(&self.keeper, extend, end))
    }

    fn on_facts(&self, before: &Node, now: &Node) {
        self.count_cores(now);
        let config = self.config.now();
        runtime::tell(&config.run_dir, Some(before), now);
        let (directory, facts) = (config.node_dir(), now.clone());
        // Its disk may hang, and heartbeats share this thread.
        tokio::task::spawn_blocking(move || last::save(&directory, &facts));
    }

    fn is_too_full(&self, measured: DiskUse) -> bool {
        let DiskUse {
            bytes_percent,
            inodes_percent,
        } = measured;
        let upkeep = self.config.now().upkeep;
        bytes_percent > upkeep.gc_disk_usage_threshold
            || inodes_percent > upkeep.gc_inode_usage_threshold
    }
}
