//! The room that a task group asks of a node, and what it is given there.
//!
//! `ports`: numbers on the node's addresses. `given`: the resources of one allocation.

mod given;
mod ports;

use std::borrow::Cow;
use std::sync::Arc;

use controlplane_state::{Capacity, Claims, Usage, fit};
use protocol_model::canonical::defaults::HOST_NETWORK;
use protocol_model::{Node, Port, Resources, TaskGroup};

pub(crate) use self::given::{in_place, resources};
use self::ports::Free;
pub(crate) use self::ports::addresses;
use crate::feasible;

/// Why a node without a free port of those that are handed out does not fit (Nomad's words).
const NO_DYNAMIC_PORTS: &str = "network: dynamic port selection failed";
/// Why a node with too few free cores does not fit (Nomad's word).
const TOO_FEW_CORES: &str = "cores";

/// A dimension of which a node has too little, in the words of explanations.
pub(crate) type Lack = Cow<'static, str>;

/// Everything that one allocation of a group asks of its node.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    /// The same on every node: processor time, memory, disk, static ports of the default network.
    fixed: Usage,
    /// Whole cores. Their time differs from node to node.
    cores: usize,
    /// Static ports of the default host network.
    statics: Vec<&'a Port>,
    /// Static ports of other host networks, whose addresses differ from node to node.
    named_statics: Vec<&'a Port>,
    /// All ports of other host networks.
    named: Vec<&'a Port>,
    /// The host networks of dynamic ports, in the order in which they are chosen.
    dynamic: Vec<&'a str>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(group: &'a TaskGroup) -> Self {
        let of_tasks = || of_tasks(group).flat_map(|it| &it.networks);
        let of_group = || group.networks.iter();
        let statics = of_group().flat_map(|network| &network.reserved_ports);
        let (mut statics, named_statics): (Vec<&Port>, _) =
            statics.partition(|port| port.is_on_default());
        // The older form: a task's own network is always the default one.
        statics.extend(of_tasks().flat_map(|network| &network.reserved_ports));
        let dynamic = of_group().flat_map(|network| &network.dynamic_ports);
        let dynamic = dynamic.map(Port::host_network);
        let of_tasks = of_tasks().flat_map(|network| &network.dynamic_ports);
        let dynamic = dynamic.chain(of_tasks.map(|_| HOST_NETWORK)).collect();
        let cores = self::of_tasks(group).fold(0, |sum: u64, it| sum.saturating_add(it.cores()));
        Self {
            fixed: given::fixed(group),
            cores: usize::try_from(cores).unwrap_or(usize::MAX),
            statics,
            named_statics,
            named: ports_of(group).filter(|it| !it.is_on_default()).collect(),
            dynamic,
        }
    }

    /// The usage of one allocation on `node`, of which so much is used; dynamic ports are counted,
    /// and not among it.
    ///
    /// # Errors
    /// The dimension that there is too little of.
    pub(crate) fn on(&self, node: &Node, capacity: &Capacity, used: &Usage) -> Result<Usage, Lack> {
        let mut ask = self.amounts(node);
        let cores = self.cores_on(capacity, used)?;
        fit::fits_amounts(capacity, used, &ask).map_err(|dimension| dimension.to_string())?;
        let ports = self.ports_on(node, capacity, &used.claims)?;
        if !(cores.is_empty() && ports.is_empty()) {
            let claims = Arc::make_mut(&mut ask.claims);
            claims.add(&cores);
            claims.add(&ports);
        }
        debug_assert!(fit::fits(capacity, used, &ask).is_ok(), "{ask:?}");
        Ok(ask)
    }

    /// The part of it that has an amount on `node`, with the time of whole cores; of its claims,
    /// those that are the same on every node.
    pub(crate) fn amounts(&self, node: &Node) -> Usage {
        let mut ask = self.fixed.clone();
        ask.cpu = ask.cpu.saturating_add(mhz_of_cores(node, self.cores));
        ask
    }

    /// The cores that it gets: the lowest free ones.
    ///
    /// # Errors
    /// There are fewer.
    pub(crate) fn cores_on(&self, capacity: &Capacity, used: &Usage) -> Result<Claims, Lack> {
        let mut claims = Claims::default();
        if self.cores > 0 {
            claims.cores = free_cores(capacity, used).take(self.cores).collect();
        }
        if claims.cores.len() < self.cores {
            return Err(TOO_FEW_CORES.into());
        }
        Ok(claims)
    }

    /// The claims of static ports that are not the same on every node.
    ///
    /// # Errors
    /// A static port is taken, there are too few dynamic ones, or `node` has no such host network.
    pub(crate) fn ports_on(
        &self,
        node: &Node,
        capacity: &Capacity,
        used: &Claims,
    ) -> Result<Claims, Lack> {
        let fixed = &capacity.fixed;
        for port in &self.statics {
            // Of a job that was not validated, it may be its own twice.
            let twice = self.fixed.claims.ports.repeated() == Some(number(port));
            if twice || fixed.is_taken(used, number(port)) {
                return Err(collision(port));
            }
        }
        let mut missing = self.named.iter();
        let missing = missing.find_map(|port| feasible::missing_host_network(port, node));
        if let Some(reason) = missing {
            return Err(reason.0.into());
        }
        let mut claims = Claims::default();
        if self.named_statics.is_empty() && self.dynamic.is_empty() {
            return Ok(claims);
        }
        let mut free = Free::new(node, capacity, used);
        free.take(&self.fixed.claims);
        for port in &self.named_statics {
            let claim = free.take_static(port.host_network(), number(port));
            claims
                .host_ports
                .insert(claim.ok_or_else(|| collision(port))?);
        }
        if free.has_dynamic(&self.dynamic) {
            Ok(claims)
        } else {
            Err(NO_DYNAMIC_PORTS.into())
        }
    }

    /// All claims of static ports that it may make on `node`: with one host network on several
    /// addresses, those on each of them.
    pub(crate) fn static_ports(&self, node: &Node) -> Claims {
        let mut claims = (*self.fixed.claims).clone();
        for port in &self.named_statics {
            for address in addresses(node, port.host_network()) {
                claims.host_ports.insert((address, number(port)));
            }
        }
        claims
    }
}

fn of_tasks(group: &TaskGroup) -> impl Iterator<Item = &Resources> {
    let tasks = group.tasks.iter();
    tasks.filter_map(|task| task.resources.as_ref())
}

fn ports_of(group: &TaskGroup) -> impl Iterator<Item = &Port> {
    group.networks.iter().flat_map(|network| network.ports())
}

/// Validation lets no other numbers in.
fn number(port: &Port) -> u16 {
    u16::try_from(port.value).unwrap_or_default()
}

fn collision(port: &Port) -> Lack {
    let Port { label, value, .. } = port;
    format!("network: reserved port collision {label}={value}").into()
}

/// The cores of a node that may be reserved and are nobody's, lowest first.
fn free_cores<'u>(capacity: &'u Capacity, used: &'u Usage) -> impl Iterator<Item = u16> + 'u {
    let cores = capacity.fixed.cores.iter();
    cores.filter(|core| !used.claims.cores.contains(*core))
}

/// The processor time of so many whole cores of `node`, in MHz.
fn mhz_of_cores(node: &Node, cores: usize) -> i64 {
    let cpu = &node.node_resources.cpu;
    let of_one = cpu.cpu_shares / i64::from(cpu.total_cpu_cores.max(1));
    i64::try_from(cores)
        .unwrap_or(i64::MAX)
        .saturating_mul(of_one)
}
