//! A group with `stop_on_client_after` runs on a lease: see [`crate::node_core::leases`].

use std::time::Duration;

use super::AllocRunner;
use crate::node_core::leases::{LeaseNeed, LeaseTerm};
use crate::outbox::Outbox;

/// Whether keeper ends the allocation by itself when its time is over. Nothing of a group that
/// needs that starts without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lease {
    /// Not that anybody knows.
    Absent,
    /// Keeper holds one.
    Held,
}

impl AllocRunner {
    /// What it asks of its lease: how long it may run on without a word of the control plane.
    pub(crate) fn lease_need(&self) -> LeaseNeed {
        let group = self.spec.group();
        let (Some(window), Some(whole)) = (group.stop_on_client_after(), group.lease_term()) else {
            return LeaseNeed::None;
        };
        if self.all_dead() {
            LeaseNeed::None
        } else if self.state.lease_expired {
            LeaseNeed::RunsOut
        } else {
            LeaseNeed::Open(LeaseTerm { window, whole })
        }
    }

    /// How long it is tolerated on a silent node, while it is not over.
    pub(crate) fn tolerated(&self) -> Option<Duration> {
        let window = self.spec.group().disconnect_window();
        window.filter(|_| !self.all_dead())
    }

    /// Keeper holds its lease.
    pub(crate) fn grant_lease(&mut self) {
        self.lease = Lease::Held;
    }

    /// Whether keeper holds its lease.
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease == Lease::Held
    }

    /// Keeper need not hold its lease any more.
    pub(crate) fn lose_lease(&mut self) {
        self.lease = Lease::Absent;
    }

    /// Whether nothing may start before keeper holds its lease.
    pub(super) fn awaits_lease(&self) -> bool {
        self.lease == Lease::Absent && self.spec.group().stop_on_client_after().is_some()
    }

    /// The control plane did not confirm this node within `stop_on_client_after`.
    pub(crate) fn expire_lease(&mut self, out: &mut Outbox) {
        if !self.state.lease_expired {
            self.state.lease_expired = true;
            self.persist(out);
        }
    }
}
