//! The resources of one allocation on its node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use controlplane_state::{Capacity, Usage};
use protocol_model::canonical::defaults::HOST_NETWORK;
use protocol_model::{
    AllocatedCpuResources, AllocatedMemoryResources, AllocatedPort, AllocatedResources,
    AllocatedSharedResources, AllocatedTaskResources, EphemeralDisk, NetworkResource, Node, Port,
    Resources, Task, TaskGroup,
};

use super::ports::{Free, default_address};
use super::{free_cores, mhz_of_cores, number};
use crate::ids::Seeded;

/// The group's resources on `node`, of which so much is used: with cores and their time, static
/// ports on their addresses, and dynamic ports. `None` where there is too little.
pub(crate) fn resources(
    group: &TaskGroup,
    node: &Node,
    capacity: &Capacity,
    used: &Usage,
    ids: &mut Seeded,
) -> Option<AllocatedResources> {
    let mut resources = unassigned(group);
    let mut cores = free_cores(capacity, used);
    for task in &group.tasks {
        let asked = task.resources.as_ref().map_or(0, Resources::cores);
        if asked > 0
            && let Some(given) = resources.tasks.get_mut(&task.name)
        {
            let asked = usize::try_from(asked).ok()?;
            let own: Vec<u16> = cores.by_ref().take(asked).collect();
            if own.len() < asked {
                return None;
            }
            given.cpu.cpu_shares = mhz_of_cores(node, asked);
            given.cpu.reserved_cores = own;
        }
    }
    let mut assigning = Assigning {
        free: Free::new(node, capacity, &used.claims),
        ids,
        default_ip: default_address(node),
        ports: Vec::new(),
    };
    // No dynamic port may be chosen among the static ones.
    assigning.free.take(&fixed(group).claims);
    for network in &mut resources.shared.networks {
        assigning.shared(network)?;
    }
    for task in resources.tasks.values_mut() {
        for network in &mut task.networks {
            assigning.of_task(network)?;
        }
    }
    resources.shared.ports = assigning.ports;
    Some(resources)
}

/// Ports of one allocation, as they are given.
struct Assigning<'a> {
    free: Free<'a>,
    ids: &'a mut Seeded,
    /// The address that ports of the default host network are shown with.
    default_ip: String,
    /// The group's ports, given so far.
    ports: Vec<AllocatedPort>,
}

impl Assigning<'_> {
    fn shared(&mut self, network: &mut NetworkResource) -> Option<()> {
        self.default_ip.clone_into(&mut network.ip);
        for port in &network.reserved_ports {
            let address = match port.is_on_default() {
                true => None,
                false => Some(self.free.take_static(port.host_network(), number(port))?.0),
            };
            let given = self.allocated(port, address);
            self.ports.push(given);
        }
        for port in &mut network.dynamic_ports {
            let (address, number) = self.free.choose(port.host_network(), self.ids)?;
            set_number(port, number);
            let given = self.allocated(port, address);
            self.ports.push(given);
        }
        Some(())
    }

    /// The older form: a task's own network is always the default one.
    fn of_task(&mut self, network: &mut NetworkResource) -> Option<()> {
        self.default_ip.clone_into(&mut network.ip);
        for port in &mut network.dynamic_ports {
            let (_, number) = self.free.choose(HOST_NETWORK, self.ids)?;
            set_number(port, number);
        }
        Some(())
    }

    fn allocated(&self, port: &Port, address: Option<IpAddr>) -> AllocatedPort {
        AllocatedPort {
            label: port.label.clone(),
            value: number(port),
            to: u16::try_from(port.to.max(0)).unwrap_or_default(),
            host_ip: address.map_or_else(|| self.default_ip.clone(), |it| it.to_string()),
        }
    }
}

fn set_number(port: &mut Port, number: u16) {
    port.value = u32::from(number);
    // -1 asks for the port's own number inside the namespace.
    if port.to == -1 {
        port.to = i32::from(number);
    }
}

/// The room that the group takes of every node alike: processor time, memory, disk, static ports
/// of the default network.
pub(super) fn fixed(group: &TaskGroup) -> Usage {
    let mut resources = unassigned(group);
    let of_tasks = resources.tasks.values_mut();
    let networks = of_tasks.flat_map(|task| &mut task.networks);
    for network in networks.chain(&mut resources.shared.networks) {
        // They get another number than the job gives them.
        network.dynamic_ports.clear();
    }
    for network in &mut resources.shared.networks {
        network.reserved_ports.retain(Port::is_on_default);
    }
    Usage::of(&resources)
}

/// The group's resources without anything that depends on the node.
fn unassigned(group: &TaskGroup) -> AllocatedResources {
    AllocatedResources {
        tasks: group
            .tasks
            .iter()
            .map(|task| (task.name.clone(), of_task(task)))
            .collect(),
        shared: AllocatedSharedResources {
            disk_mb: signed(
                group
                    .ephemeral_disk
                    .as_ref()
                    .map_or(0, EphemeralDisk::size_mb),
            ),
            networks: group.networks.clone(),
            ports: Vec::new(),
        },
    }
}

fn of_task(task: &Task) -> AllocatedTaskResources {
    let Some(asked) = &task.resources else {
        return AllocatedTaskResources::default();
    };
    AllocatedTaskResources {
        cpu: AllocatedCpuResources {
            cpu_shares: signed(asked.cpu.unwrap_or(0)),
            reserved_cores: Vec::new(),
        },
        memory: AllocatedMemoryResources {
            memory_mb: signed(asked.memory_mb.unwrap_or(0)),
            memory_max_mb: asked.memory_max_mb.unwrap_or(0),
        },
        networks: asked.networks.clone(),
        devices: Vec::new(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Resources of a group that is updated in place: everything asked anew, except what depends on the
/// node and the running tasks have: ports, cores and their time.
pub(crate) fn in_place(group: &TaskGroup, old: &AllocatedResources) -> AllocatedResources {
    let mut resources = unassigned(group);
    resources.shared.networks.clone_from(&old.shared.networks);
    resources.shared.ports.clone_from(&old.shared.ports);
    let given: BTreeMap<_, _> = old.tasks.iter().collect();
    for (name, task) in &mut resources.tasks {
        if let Some(old) = given.get(name) {
            task.networks.clone_from(&old.networks);
            // The limit under which the task runs: it was allowed, or not, when it was placed.
            task.memory.memory_max_mb = old.memory.memory_max_mb;
            task.cpu.reserved_cores.clone_from(&old.cpu.reserved_cores);
            let asked = group.task(name).and_then(|task| task.resources.as_ref());
            if asked.is_some_and(|resources| resources.cores() > 0) {
                task.cpu.cpu_shares = old.cpu.cpu_shares;
            }
        }
    }
    resources
}
