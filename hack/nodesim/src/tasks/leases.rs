//! Leases, as keeper keeps them: at an allocation's deadline it kills what runs of it and starts
//! nothing more, whether a daemon lives or not.

use std::sync::Arc;

use noded_core::Moment;
use protocol_model::AllocId;
use tokio::sync::watch;

use super::{Tasks, Wish};

impl Tasks {
    /// Allocations may run until then (by the clock that says how long the host is up); others need
    /// nobody's word any more.
    pub fn tend_leases(self: &Arc<Self>, extend: Vec<(AllocId, Moment)>, end: &[AllocId]) {
        let mut inner = self.inner.lock();
        for alloc in end {
            inner.leases.remove(alloc);
        }
        for (alloc, until) in extend {
            if let Some(lease) = inner.leases.get(&alloc) {
                lease.send_replace(until);
            } else {
                let (lease, extended) = watch::channel(until);
                inner.leases.insert(alloc, lease);
                tokio::spawn(Arc::clone(self).watch_lease(alloc, extended));
            }
        }
    }

    /// Whether there is a lease of an allocation, over or not.
    pub fn has_lease(&self, alloc: AllocId) -> bool {
        self.inner.lock().leases.contains_key(&alloc)
    }

    /// Whether nothing of an allocation may be started any more.
    pub fn lease_is_over(&self, alloc: AllocId) -> bool {
        let inner = self.inner.lock();
        let lease = inner.leases.get(&alloc);
        lease.is_some_and(|until| *until.borrow() <= self.clock.moment())
    }

    /// Kills at each deadline that was not put off, until nobody's word is needed.
    async fn watch_lease(self: Arc<Self>, alloc: AllocId, mut extended: watch::Receiver<Moment>) {
        loop {
            let until = *extended.borrow_and_update();
            let left = until.since(self.clock.moment());
            tokio::select! {
                changed = extended.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
                () = tokio::time::sleep(left) => self.kill_all_of(alloc),
            }
            if extended.changed().await.is_err() {
                return;
            }
        }
    }

    fn kill_all_of(&self, alloc: AllocId) {
        let inner = self.inner.lock();
        let runs = inner.runs.iter().filter(|(run, _)| run.alloc == alloc);
        for (_, kept) in runs {
            kept.raise(Wish::Expire);
        }
    }
}
