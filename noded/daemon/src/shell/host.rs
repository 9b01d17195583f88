//! What the loop makes of a look at its host: facts that changed, a disk that fills up, another
//! configuration.

use std::sync::Arc;

use noded_core::event::AllocEvent;
use noded_core::{DiskRelief, Event};
use protocol_model::Node;

use super::Running;
use crate::config::Config;
use crate::daemon::reconfigured;
use crate::fingerprint::refresh;
use crate::upkeep::DiskUse;

/// Whether the disk is fuller than the operator allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskState {
    /// It is not.
    Roomy,
    /// It is, and something is being removed.
    Full,
    /// It is, and everything on it is needed; that was said.
    Hopeless,
}

impl Running {
    /// The host was looked at again: only what changed is told.
    pub(super) fn looked(&mut self, found: Result<Box<Node>, String>) {
        let facts = &self.shell.session.facts;
        let previous = Arc::clone(&facts.lock());
        let settled = match found {
            Ok(fresh) => refresh::settle(&previous, *fresh, self.held_disk_mib()),
            Err(reason) => {
                tracing::error!(%reason, "this host can no longer run tasks");
                refresh::unfit(&previous, &reason, self.shell.clock.wall())
            }
        };
        if settled == *previous {
            tracing::debug!("the facts are unchanged");
            return;
        }
        let changed = changed_facts(&previous, &settled).join(", ");
        tracing::info!(%changed, "the facts of this host changed");
        self.shell.hands.on_facts(&previous, &settled);
        let settled = Arc::new(settled);
        *facts.lock() = Arc::clone(&settled);
        self.shell.core.set_node(settled);
    }

    /// What live allocations may use of the disk.
    fn held_disk_mib(&self) -> i64 {
        let allocs = self.shell.core.allocs();
        allocs
            .filter(|runner| !runner.all_dead())
            .map(|runner| runner.spec().alloc().allocated_resources.shared.disk_mb)
            .fold(0, i64::saturating_add)
    }

    /// The configuration was read again.
    pub(super) fn reconfigured(&mut self, config: &Config) {
        let now = self.shell.clock.now();
        self.shell.core.reconfigure(reconfigured(config), now);
        self.servers.reconfigure(&config.servers);
        self.shell.core.set_servers(self.servers.count(), now);
    }

    /// The disk was measured: beyond the operator's limit the oldest ended allocation goes, then it
    /// is measured again.
    pub(super) fn disk_measured(&mut self, measured: DiskUse) {
        let DiskUse {
            bytes_percent,
            inodes_percent,
        } = measured;
        if !self.shell.hands.is_too_full(measured) {
            self.disk = DiskState::Roomy;
            return;
        }
        let now = self.shell.clock.now();
        match self.shell.core.on_disk_full(now) {
            DiskRelief::Begun(alloc) => {
                tracing::info!(
                    %alloc, bytes_percent, inodes_percent,
                    "the disk is full: the oldest ended allocation is removed"
                );
                self.disk = DiskState::Full;
            }
            DiskRelief::UnderWay => self.disk = DiskState::Full,
            DiskRelief::NothingToRemove => {
                if self.disk != DiskState::Hopeless {
                    tracing::warn!(
                        bytes_percent,
                        inodes_percent,
                        "the disk is full, and no allocation on it has ended: \
                         make room on it, or give it less to do"
                    );
                }
                self.disk = DiskState::Hopeless;
            }
        }
    }

    /// Room was made while the disk was full: is it enough?
    pub(super) fn notice_room(&self, event: &Event) {
        let made = matches!(
            event,
            Event::Alloc {
                event: AllocEvent::Destroyed,
                ..
            }
        );
        if made && self.disk == DiskState::Full {
            self.shell.measure.notify_one();
        }
    }
}

/// The names of what differs, for the log.
fn changed_facts(before: &Node, after: &Node) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut note = |differs: bool, name: &str| {
        if differs {
            names.push(name.to_owned());
        }
    };
    note(before.name != after.name, "name");
    note(before.datacenter != after.datacenter, "datacenter");
    note(before.node_pool != after.node_pool, "node_pool");
    note(before.node_class != after.node_class, "node_class");
    note(before.meta != after.meta, "meta");
    note(before.drivers != after.drivers, "drivers");
    note(before.host_volumes != after.host_volumes, "host_volumes");
    note(before.node_resources != after.node_resources, "resources");
    note(
        before.reserved_resources != after.reserved_resources,
        "reserved",
    );
    let attributes = before.attributes.keys().chain(after.attributes.keys());
    let mut differing: Vec<String> = attributes
        .filter(|name| before.attributes.get(*name) != after.attributes.get(*name))
        .cloned()
        .collect();
    differing.sort();
    differing.dedup();
    names.extend(differing);
    names
}
