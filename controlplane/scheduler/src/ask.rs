//! What a task group asks of a node, and what it is given there.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::{Capacity, Usage};
use protocol_model::{
    AllocatedCpuResources, AllocatedMemoryResources, AllocatedPort, AllocatedResources,
    AllocatedSharedResources, AllocatedTaskResources, EphemeralDisk, NetworkResource, Node, Port,
    Resources, Task, TaskGroup,
};

use crate::ids::Seeded;

/// Everything that is the same on every node: processor time, memory, disk, static ports.
pub(crate) fn fixed(group: &TaskGroup) -> Usage {
    let mut resources = unassigned(group);
    // Whatever number a job gives them, they get another one.
    let of_tasks = resources.tasks.values_mut();
    let networks = of_tasks.flat_map(|task| &mut task.networks);
    for network in networks.chain(&mut resources.shared.networks) {
        network.dynamic_ports.clear();
    }
    Usage::of(&resources)
}

/// How many whole cores the group asks for.
pub(crate) fn cores(group: &TaskGroup) -> u64 {
    let of_tasks = group
        .tasks
        .iter()
        .filter_map(|task| task.resources.as_ref());
    of_tasks.fold(0, |sum, resources| sum.saturating_add(resources.cores()))
}

/// What so many whole cores of `node` come to, in MHz; `None` where it has fewer. No core is kept
/// from others: what is asked for is reserved as processor time.
pub(crate) fn mhz_of_cores(node: &Node, cores: u64) -> Option<i64> {
    let cpu = &node.node_resources.cpu;
    if cores > u64::from(cpu.total_cpu_cores) {
        return None;
    }
    let of_one = cpu.cpu_shares / i64::from(cpu.total_cpu_cores.max(1));
    Some(signed(cores).saturating_mul(of_one))
}

/// How many ports are chosen for the group on each node.
pub(crate) fn dynamic_ports(group: &TaskGroup) -> usize {
    let of_tasks = group
        .tasks
        .iter()
        .filter_map(|task| task.resources.as_ref());
    group
        .networks
        .iter()
        .chain(of_tasks.flat_map(|resources| &resources.networks))
        .map(|network| network.dynamic_ports.len())
        .sum()
}

/// Whether a node has so many free ports among those that are handed out. `used`: what is taken
/// there, the group's static ports included.
pub(crate) fn has_dynamic_ports(capacity: &Capacity, used: &Usage, count: usize) -> bool {
    if count == 0 {
        return true;
    }
    let fixed = &capacity.fixed;
    let range = fixed.min_dynamic_port..=fixed.max_dynamic_port;
    // Most nodes have far more than anybody could have taken.
    let taken_most = fixed.reserved_ports.len() + used.claims.ports.len();
    if range.len() >= taken_most.saturating_add(count) {
        return true;
    }
    let taken: BTreeSet<u16> = fixed
        .reserved_ports
        .iter()
        .chain(used.claims.ports.iter())
        .filter(|port| range.contains(port))
        .collect();
    range.len().saturating_sub(taken.len()) >= count
}

/// What the group is given on `node`: as [`fixed`], with the time of whole cores, and dynamic ports
/// chosen among those that `used` leaves. `None` where there are not enough.
pub(crate) fn resources(
    group: &TaskGroup,
    node: &Node,
    capacity: &Capacity,
    used: &Usage,
    ids: &mut Seeded,
) -> Option<AllocatedResources> {
    let mut resources = unassigned(group);
    for task in &group.tasks {
        let cores = task.resources.as_ref().map_or(0, Resources::cores);
        if cores > 0
            && let Some(given) = resources.tasks.get_mut(&task.name)
        {
            given.cpu.cpu_shares = mhz_of_cores(node, cores)?;
        }
    }
    let mut taken = used.clone();
    taken.add(&fixed(group));
    let mut picker = PortPicker {
        capacity,
        taken: &mut taken,
        ids,
    };
    let host_ip = host_ip(node);
    for network in &mut resources.shared.networks {
        assign(network, &host_ip, &mut picker)?;
    }
    for task in resources.tasks.values_mut() {
        for network in &mut task.networks {
            assign(network, &host_ip, &mut picker)?;
        }
    }
    resources.shared.ports = resources
        .shared
        .networks
        .iter()
        .flat_map(|network| network.ports().map(|port| allocated(port, &host_ip)))
        .collect();
    Some(resources)
}

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

fn assign(network: &mut NetworkResource, host_ip: &str, picker: &mut PortPicker<'_>) -> Option<()> {
    host_ip.clone_into(&mut network.ip);
    for port in &mut network.dynamic_ports {
        port.value = u32::from(picker.pick()?);
        // -1 asks for the port's own number inside the namespace.
        if port.to == -1 {
            port.to = i32::try_from(port.value).unwrap_or_default();
        }
    }
    Some(())
}

fn allocated(port: &Port, host_ip: &str) -> AllocatedPort {
    AllocatedPort {
        label: port.label.clone(),
        value: u16::try_from(port.value).unwrap_or_default(),
        to: u16::try_from(port.to.max(0)).unwrap_or_default(),
        host_ip: host_ip.to_owned(),
    }
}

/// The address that ports are on: the first network's, else the fingerprinted one.
fn host_ip(node: &Node) -> String {
    node.node_resources
        .networks
        .iter()
        .map(|network| &network.ip)
        .find(|ip| !ip.is_empty())
        .or_else(|| node.attributes.get("unique.network.ip-address"))
        .cloned()
        .unwrap_or_else(|| "127.0.0.1".to_owned())
}

/// Chooses dynamic ports: from a random start upwards, so that a port that was just freed is not
/// taken at once by something else.
struct PortPicker<'a> {
    capacity: &'a Capacity,
    taken: &'a mut Usage,
    ids: &'a mut Seeded,
}

impl PortPicker<'_> {
    fn pick(&mut self) -> Option<u16> {
        let fixed = &self.capacity.fixed;
        let (low, high) = (fixed.min_dynamic_port, fixed.max_dynamic_port);
        let range = u32::from(high.checked_sub(low)?) + 1;
        let start = self.ids.below(range);
        let port = (0..range)
            .map(|step| low + u16::try_from((start + step) % range).unwrap_or_default())
            .find(|port| {
                !fixed.reserved_ports.contains(*port) && !self.taken.claims.ports.contains(*port)
            })?;
        let mut claims = (*self.taken.claims).clone();
        claims.ports.insert(port);
        self.taken.claims = claims.into();
        Some(port)
    }
}

/// Resources of a group that is updated in place: everything asked anew, except what depends on the
/// node and the running tasks have: ports, and the time of whole cores.
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
