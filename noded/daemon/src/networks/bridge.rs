//! Networks of mode bridge: who has which address and which ports of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use netns::{AddressPool, Forwarding, Layout, Mapping, RoutedError, Table, TableError};
use noded_core::AllocSpec;
use parking_lot::{Condvar, Mutex, RwLock};
use protocol_error_chain::chain;
use protocol_model::{AllocId, NetworkStatus};

use super::NetworkError;
use super::open::{Availability, SubnetLock};
use super::ports::{mappings, unmappable};

/// The interface inside.
const INTERFACE: &str = "eth0";
/// Addresses that are tried for one allocation before it fails.
const ADDRESSES_TRIED_MAX: usize = 16;
/// How long a port is waited for that an ended allocation is about to give back.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// The bridge networks of a node.
#[derive(Debug)]
pub(crate) struct Bridge {
    layout: Layout,
    table: Table,
    availability: Availability,
    state: Mutex<State>,
    /// Held to read while ports and owners change, to write while the two are compared.
    changes: RwLock<()>,
    released: Condvar,
    forwarding: Forwarding,
    _lock: Option<SubnetLock>,
}

#[derive(Debug)]
struct State {
    /// Whether the host has the table, and forwards: from the first allocation to the last.
    host: HostSide,
    pool: AddressPool,
    owners: BTreeMap<AllocId, Owner>,
    /// Addresses whose allocation let go, until their links are gone.
    leaving: BTreeSet<Ipv4Addr>,
}

/// The part of the host that all networks share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HostSide {
    Absent,
    Present,
}

#[derive(Debug)]
struct Owner {
    address: Ipv4Addr,
    mappings: Vec<Mapping>,
}

impl Bridge {
    /// Bridge networks of `layout`, on a host that can have them or not.
    pub(super) fn new(
        layout: Layout,
        forwarding: Forwarding,
        availability: Availability,
        lock: Option<SubnetLock>,
    ) -> Self {
        let state = State {
            host: HostSide::Absent,
            pool: AddressPool::new(&layout),
            owners: BTreeMap::new(),
            leaving: BTreeSet::new(),
        };
        Self {
            table: Table::new(layout),
            layout,
            state: Mutex::new(state),
            changes: RwLock::new(()),
            released: Condvar::new(),
            availability,
            forwarding,
            _lock: lock,
        }
    }

    /// Whether the host can have them.
    pub(crate) fn availability(&self) -> &Availability {
        &self.availability
    }

    /// See [`super::Networks::prepare`]. The namespace is pinned to `pin`.
    pub(super) fn prepare(
        &self,
        spec: &AllocSpec,
        pin: &Path,
    ) -> Result<NetworkStatus, NetworkError> {
        if let Availability::Missing(reason) = &self.availability {
            let reason = reason.clone();
            return Err(NetworkError::NoBridge { reason });
        }
        if let Some(port) = unmappable(spec) {
            return Err(NetworkError::Family {
                label: port.label.clone(),
                host_ip: port.host_ip.clone(),
            });
        }
        let alloc = spec.id();
        let found = self.found(pin)?;
        let made = || -> Result<Ipv4Addr, NetworkError> {
            let claimed = self.claim(spec, found)?;
            let address = match found {
                Some(_) => claimed,
                None => self.make(spec, claimed, pin)?,
            };
            self.map_ports(alloc, &mappings(spec, address))?;
            Ok(address)
        };
        match made() {
            Ok(address) => Ok(NetworkStatus {
                interface_name: INTERFACE.to_owned(),
                address: address.to_string(),
                ..NetworkStatus::default()
            }),
            // Tasks may live in one that was found: it goes when they have ended.
            Err(error) if found.is_some() => Err(error),
            Err(error) => {
                let undone = self.release(alloc);
                let unpinned = netns::unpin(pin);
                if let (Err(_), _) | (_, Err(_)) = (&undone, &unpinned) {
                    tracing::warn!(%alloc, ?undone, ?unpinned, "a network was not undone");
                }
                Err(error)
            }
        }
    }

    /// Makes the namespace and pins it. An address that something else still has (a namespace that
    /// is going, another node) is passed over. Returns the address.
    fn make(
        &self,
        spec: &AllocSpec,
        claimed: Ipv4Addr,
        pin: &Path,
    ) -> Result<Ipv4Addr, NetworkError> {
        let mut address = claimed;
        for _ in 0..ADDRESSES_TRIED_MAX {
            match netns::create_routed(&self.layout, address) {
                Ok(namespace) => {
                    netns::pin(pin, &namespace).map_err(NetworkError::Pin)?;
                    return Ok(address);
                }
                Err(RoutedError::InUse { .. }) => {
                    let mut state = self.state.lock();
                    state.leaving.insert(address);
                    address = self.take_address(&mut state)?;
                    let mappings = mappings(spec, address);
                    state.owners.insert(spec.id(), Owner { address, mappings });
                }
                Err(error) => return Err(NetworkError::Routed(error)),
            }
        }
        Err(self.no_address())
    }

    fn map_ports(&self, alloc: AllocId, mappings: &[Mapping]) -> Result<(), NetworkError> {
        let added = {
            let _change = self.changes.read();
            self.table.add(mappings)
        };
        match added {
            // The table may have been removed by somebody.
            Err(TableError::Refused { .. }) => self.heal()?,
            added => added.map_err(NetworkError::Table)?,
        }
        // A client that keeps its port would go on talking to the former owner of ours.
        if let Err(error) = netns::forget_flows(mappings) {
            tracing::warn!(%alloc, error = %chain(&error), "flows to former owners of ports stay");
        }
        Ok(())
    }

    fn no_address(&self) -> NetworkError {
        NetworkError::NoAddress {
            subnet: self.layout.subnet().to_string(),
        }
    }

    /// The address in the namespace that is pinned there.
    fn found(&self, pin: &Path) -> Result<Option<Ipv4Addr>, NetworkError> {
        let pinned = netns::open_pinned(pin).map_err(NetworkError::Pin)?;
        let Some(pinned) = pinned else {
            return Ok(None);
        };
        self.address_in(&pinned)
    }

    fn address_in(&self, namespace: &OwnedFd) -> Result<Option<Ipv4Addr>, NetworkError> {
        let listed = netns::within(namespace, netns::list_addresses);
        let listed = listed
            .map_err(NetworkError::Create)?
            .map_err(NetworkError::Links)?;
        let subnet = self.layout.subnet();
        let ours = listed
            .iter()
            .find_map(|address| match address.network.addr() {
                IpAddr::V4(address) if subnet.contains(&address) => Some(address),
                IpAddr::V4(_) | IpAddr::V6(_) => None,
            });
        Ok(ours)
    }

    /// Gives the allocation an address and its ports, in memory.
    fn claim(&self, spec: &AllocSpec, found: Option<Ipv4Addr>) -> Result<Ipv4Addr, NetworkError> {
        let alloc = spec.id();
        let end = Instant::now() + PORT_PATIENCE;
        let mut state = self.state.lock();
        // Ports do not depend on the address; any will do to compare them.
        let wanted = mappings(spec, Ipv4Addr::UNSPECIFIED);
        while let Some((port, owner)) = state.taken(alloc, &wanted) {
            if self.released.wait_until(&mut state, end).timed_out() {
                return Err(NetworkError::PortTaken { port, owner });
            }
        }
        let address = match (found, state.owners.get(&alloc)) {
            (Some(found), _) => {
                state.pool.claim(found);
                found
            }
            (None, Some(owner)) => owner.address,
            (None, None) => self.take_address(&mut state)?,
        };
        let mappings = mappings(spec, address);
        state.owners.insert(alloc, Owner { address, mappings });
        if state.host == HostSide::Absent {
            self.prepare_host()?;
            state.host = HostSide::Present;
        }
        Ok(address)
    }

    fn prepare_host(&self) -> Result<(), NetworkError> {
        self.forward()?;
        self.table.ensure().map_err(NetworkError::Table)
    }

    /// Switches forwarding on, where noded is to do that.
    fn forward(&self) -> Result<(), NetworkError> {
        if self.forwarding == Forwarding::Set {
            let was_off = netns::enable_forwarding().map_err(NetworkError::Forwarding)?;
            if was_off {
                tracing::info!("IP forwarding is on now: networks of mode bridge need it");
            }
        }
        Ok(())
    }

    fn take_address(&self, state: &mut State) -> Result<Ipv4Addr, NetworkError> {
        if !state.leaving.is_empty() {
            let links = netns::list_routed(&self.layout).map_err(NetworkError::Links)?;
            let links: BTreeSet<Ipv4Addr> = links.into_iter().collect();
            let gone: Vec<Ipv4Addr> = state.leaving.difference(&links).copied().collect();
            for address in gone {
                state.leaving.remove(&address);
                state.pool.give_back(address);
            }
        }
        state.pool.take().ok_or_else(|| self.no_address())
    }

    /// Takes the ports of an allocation away; its address is free once its link is gone.
    pub(super) fn release(&self, alloc: AllocId) -> Result<(), NetworkError> {
        let _change = self.changes.read();
        let mappings = match self.state.lock().owners.get(&alloc) {
            Some(owner) => owner.mappings.clone(),
            None => return Ok(()),
        };
        self.table.remove(&mappings).map_err(NetworkError::Table)?;
        let mut state = self.state.lock();
        if let Some(owner) = state.owners.remove(&alloc) {
            state.leaving.insert(owner.address);
        }
        if state.owners.is_empty() && state.host == HostSide::Present {
            self.table.delete().map_err(NetworkError::Table)?;
            state.host = HostSide::Absent;
        }
        self.released.notify_all();
        Ok(())
    }

    /// See [`super::Networks::heal`].
    pub(super) fn heal(&self) -> Result<(), NetworkError> {
        let _alone = self.changes.write();
        let wanted = {
            let state = self.state.lock();
            if state.host == HostSide::Absent {
                return Ok(());
            }
            state.mappings()
        };
        self.forward()?;
        let found = self.table.look().map_err(NetworkError::Table)?;
        let found: Option<BTreeSet<Mapping>> = found.map(|listed| listed.into_iter().collect());
        if found.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let lost = found.map_or(wanted.len(), |found| wanted.difference(&found).count());
        tracing::warn!(
            lost,
            "another program changed the nftables table of mapped ports (a reload of the host's \
             firewall with `flush ruleset` does that); it is made again"
        );
        self.match_table()
    }

    /// See [`super::Networks::take_up`].
    pub(super) fn take_up<'a>(
        &self,
        allocs: impl Iterator<Item = (AllocId, Option<&'a AllocSpec>)>,
        directory: &Path,
    ) {
        let known: BTreeMap<AllocId, Option<&AllocSpec>> = allocs.collect();
        self.take_up_pins(&known, directory);
        if self.availability != Availability::Present {
            return;
        }
        if let Err(error) = self.match_table() {
            tracing::error!(
                error = %chain(&error),
                "the mapped ports of running allocations were not compared with their networks; \
                 some may not answer"
            );
        }
    }

    fn take_up_pins(&self, known: &BTreeMap<AllocId, Option<&AllocSpec>>, directory: &Path) {
        let mut state = self.state.lock();
        let links = netns::list_routed(&self.layout).unwrap_or_else(|error| {
            // An address that is in use is found out when it is tried.
            tracing::warn!(error = %chain(&error), "the links of allocations cannot be listed");
            Vec::new()
        });
        // Their namespaces may be going: no address is given twice.
        for address in links {
            state.pool.claim(address);
            state.leaving.insert(address);
        }
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let id = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let id = id.filter(|id: &AllocId| known.contains_key(id));
            let Some(id) = id else {
                if let Err(error) = netns::unpin(&path) {
                    tracing::warn!(path = %path.display(), error = %chain(&error), "a network that belongs to nobody stays");
                }
                continue;
            };
            match self.found(&path) {
                Ok(Some(address)) => {
                    state.pool.claim(address);
                    state.leaving.remove(&address);
                    let spec = known.get(&id).copied().flatten();
                    let mappings = spec.map_or_else(
                        // Until its specification is here, it keeps the ports that it has.
                        || self.mapped_to(address),
                        |spec| mappings(spec, address),
                    );
                    state.owners.insert(id, Owner { address, mappings });
                }
                // Of mode none.
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(alloc = %id, error = %chain(&error), "a network cannot be looked at");
                }
            }
        }
    }

    /// The ports that the table maps to an address.
    fn mapped_to(&self, address: Ipv4Addr) -> Vec<Mapping> {
        let mut listed = self.table.list().unwrap_or_else(|error| {
            tracing::warn!(%address, error = %chain(&error), "mapped ports cannot be listed");
            Vec::new()
        });
        listed.retain(|mapping| mapping.address == address);
        listed
    }

    /// Makes the table say exactly what the owners have.
    fn match_table(&self) -> Result<(), NetworkError> {
        let mut state = self.state.lock();
        if state.owners.is_empty() {
            return self.table.delete().map_err(NetworkError::Table);
        }
        self.prepare_host()?;
        state.host = HostSide::Present;
        let wanted = state.mappings();
        let listed = self.table.list().map_err(NetworkError::Table)?;
        let listed: BTreeSet<Mapping> = listed.into_iter().collect();
        let surplus: Vec<Mapping> = listed.difference(&wanted).copied().collect();
        let lacking: Vec<Mapping> = wanted.difference(&listed).copied().collect();
        if !surplus.is_empty() {
            self.table.remove(&surplus).map_err(NetworkError::Table)?;
        }
        if !lacking.is_empty() {
            self.table.add(&lacking).map_err(NetworkError::Table)?;
        }
        Ok(())
    }
}

impl State {
    fn mappings(&self) -> BTreeSet<Mapping> {
        let owners = self.owners.values();
        owners
            .flat_map(|owner| owner.mappings.iter().copied())
            .collect()
    }

    /// A wanted port that another allocation has, and which. A port of one address comes before the
    /// same one of every address, so that the two do not collide.
    fn taken(&self, alloc: AllocId, wanted: &[Mapping]) -> Option<(u16, AllocId)> {
        let others = self.owners.iter().filter(|(owner, _)| **owner != alloc);
        others.into_iter().find_map(|(owner, has)| {
            let key = |mapping: &Mapping| (mapping.host, mapping.port);
            let collides = |mapping: &&Mapping| wanted.iter().any(|it| key(it) == key(mapping));
            let mapping = has.mappings.iter().find(collides)?;
            Some((mapping.port, *owner))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_one_address_does_not_collide_with_that_of_every_address() {
        let subnet = "10.1.2.0/24".parse().expect("a subnet");
        let layout = Layout::new(subnet, 1).expect("a layout");
        let bridge = Bridge::new(layout, Forwarding::Check, Availability::Present, None);
        let (owner, other) = (AllocId::from_u128(1), AllocId::from_u128(2));
        let on = |host: Option<[u8; 4]>, port| Mapping {
            host: host.map(Ipv4Addr::from),
            port,
            address: Ipv4Addr::new(10, 1, 2, 3),
            to: port,
        };
        let lan = Some([192, 168, 0, 1]);
        let has = Owner {
            address: Ipv4Addr::new(10, 1, 2, 3),
            mappings: vec![on(None, 80), on(lan, 443)],
        };
        let mut state = bridge.state.lock();
        state.owners.insert(owner, has);
        for (wanted, taken) in [
            (on(None, 80), true),
            (on(lan, 80), false),
            (on(lan, 443), true),
            (on(None, 443), false),
            (on(Some([192, 168, 0, 2]), 443), false),
        ] {
            let found = state.taken(other, &[wanted]);
            assert_eq!(found, taken.then_some((wanted.port, owner)), "{wanted}");
            assert_eq!(state.taken(owner, &[wanted]), None, "its own");
        }
    }
}
