//! Feasibility: may this task group run on this node at all?
//!
//! A question whose answer depends on a node's class alone is asked once per class; questions about
//! properties unique to a node are asked per node. The reasons are kept in words, for `plan` and
//! `alloc status`.

mod distinct;
pub(crate) mod operand;
pub(crate) mod target;

use std::collections::BTreeMap;

use protocol_model::{
    Constraint, IDENTITY_ATTRIBUTE, Job, NetworkMode, NetworkResource, Node, Port, Task, TaskGroup,
    VolumeRequest,
};

pub(crate) use self::distinct::{Alike, Distinct, Ripple, Standing};
use crate::ask;
use crate::scratch::Scratch;

/// Why a node is out of the question, in the words that users know from Nomad.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Reason(pub(crate) String);

/// What was found out about one task group, class by class.
#[derive(Debug)]
pub(crate) struct Feasibility<'a> {
    /// Checked once per class.
    by_class: Vec<Check<'a>>,
    /// Checked on every node.
    by_node: Vec<Check<'a>>,
    /// Checked on every node for every allocation, by its number.
    by_index: Vec<Check<'a>>,
    classes: BTreeMap<String, Option<Reason>>,
}

#[derive(Debug)]
enum Check<'a> {
    Constraint(&'a Constraint),
    Driver(&'a str),
    /// Tokens for the identities of a task.
    Identities,
    Network(&'a str),
    HostNetwork(&'a Port),
    HostVolume {
        name: &'a str,
        writes: bool,
    },
    /// A volume of each allocation's own.
    HostVolumeOf {
        request: &'a VolumeRequest,
        count: u32,
    },
    Devices,
    CsiVolume,
}

impl<'a> Feasibility<'a> {
    /// Collects what a task group asks of its node.
    pub(crate) fn new(job: &'a Job, group: &'a TaskGroup) -> Self {
        let constraints = job
            .constraints
            .iter()
            .chain(&group.constraints)
            .chain(group.tasks.iter().flat_map(|task| &task.constraints))
            .filter(|constraint| !distinct::is_distinct(constraint));
        let (by_node, by_class): (Vec<_>, Vec<_>) = constraints.partition(|constraint| {
            target::escapes_class(&constraint.l_target)
                || target::escapes_class(&constraint.r_target)
        });
        let mut feasibility = Self {
            by_class: by_class.into_iter().map(Check::Constraint).collect(),
            by_node: by_node.into_iter().map(Check::Constraint).collect(),
            by_index: Vec::new(),
            classes: BTreeMap::new(),
        };
        feasibility.add_group(group);
        for task in &group.tasks {
            feasibility.add_task(task);
        }
        feasibility
    }

    fn add_group(&mut self, group: &'a TaskGroup) {
        // Implied: a node of the release before would run the task without its token.
        let shows = |task: &Task| task.shown_identities().next().is_some();
        if group.tasks.iter().any(shows) {
            self.by_class.push(Check::Identities);
        }
        for network in &group.networks {
            if let NetworkMode::Bridge | NetworkMode::Cni(_) = network.mode() {
                self.by_class.push(Check::Network(&network.mode));
            }
            self.add_ports(network);
        }
        for volume in group.volumes.values() {
            if !matches!(volume.volume_type.as_str(), "" | "host") {
                self.by_class.push(Check::CsiVolume);
            } else if volume.per_alloc {
                self.by_index.push(Check::HostVolumeOf {
                    request: volume,
                    count: group.count(),
                });
            } else {
                let check = Check::HostVolume {
                    name: &volume.source,
                    writes: !volume.read_only,
                };
                self.by_class.push(check);
            }
        }
    }

    fn add_ports(&mut self, network: &'a NetworkResource) {
        for port in network.ports() {
            if port.is_on_default() {
                continue;
            }
            let check = Check::HostNetwork(port);
            match target::escapes_class(&port.host_network) {
                true => self.by_node.push(check),
                false => self.by_class.push(check),
            }
        }
    }

    fn add_task(&mut self, task: &'a Task) {
        self.by_class.push(Check::Driver(&task.driver));
        let Some(resources) = &task.resources else {
            return;
        };
        if !resources.devices.is_empty() {
            self.by_class.push(Check::Devices);
        }
        for network in &resources.networks {
            self.add_ports(network);
        }
    }

    /// Whether any question is about single nodes, so that classes do not tell everything.
    pub(crate) fn escapes_class(&self) -> bool {
        !self.by_node.is_empty()
    }

    /// Whether nodes differ by the number of the allocation.
    pub(crate) fn asks_by_index(&self) -> bool {
        !self.by_index.is_empty()
    }

    /// Why `node` is out of the question for the allocation with number `index`, if it is; without
    /// a number, for each of the group's.
    pub(crate) fn check(
        &mut self,
        node: &Node,
        index: Option<u32>,
        scratch: &mut Scratch,
    ) -> Result<(), Reason> {
        let known = self.classes.get(&node.computed_class);
        let of_class = match known {
            // A node without a class (a fixture, an older node) shares its answer with nobody.
            Some(answer) if !node.computed_class.is_empty() => answer.clone(),
            _ => {
                let answer = first_reason(&self.by_class, node, index, scratch);
                self.classes
                    .insert(node.computed_class.clone(), answer.clone());
                answer
            }
        };
        let mut others = self.by_node.iter().chain(&self.by_index);
        let mut of_others = || others.find_map(|check| check.reason(node, index, scratch));
        match of_class.or_else(&mut of_others) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// Every reason why `node` is out of the question, in the order of the questions.
    pub(crate) fn reasons(&self, node: &Node, scratch: &mut Scratch) -> Vec<Reason> {
        let checks = [&self.by_class, &self.by_node, &self.by_index];
        let checks = checks.into_iter().flatten();
        checks
            .filter_map(|check| check.reason(node, None, scratch))
            .collect()
    }

    /// Per class that was looked at, whether it may help.
    pub(crate) fn class_eligibility(&self) -> BTreeMap<String, bool> {
        self.classes
            .iter()
            .filter(|(class, _)| !class.is_empty())
            .map(|(class, reason)| (class.clone(), reason.is_none()))
            .collect()
    }
}

fn first_reason(
    checks: &[Check<'_>],
    node: &Node,
    index: Option<u32>,
    scratch: &mut Scratch,
) -> Option<Reason> {
    let mut checks = checks.iter();
    checks.find_map(|check| check.reason(node, index, scratch))
}

impl Check<'_> {
    fn reason(&self, node: &Node, index: Option<u32>, scratch: &mut Scratch) -> Option<Reason> {
        let failed = |text: String| Some(Reason(text));
        match self {
            Self::Constraint(constraint) => {
                let left = target::resolve(&constraint.l_target, node);
                let right = target::resolve(&constraint.r_target, node);
                if operand::holds(&constraint.operand, &left, &right, scratch) {
                    return None;
                }
                failed(words(constraint))
            }
            Self::Driver(driver) => {
                let known = node.drivers.get(*driver);
                if known.is_some_and(|driver| driver.detected && driver.healthy) {
                    return None;
                }
                failed("missing drivers".to_owned())
            }
            Self::Identities => {
                let value = node.attributes.get(IDENTITY_ATTRIBUTE);
                if value.is_some_and(|value| value == "true") {
                    return None;
                }
                failed(format!(
                    "missing task identities (${{attr.{IDENTITY_ATTRIBUTE}}} = true)"
                ))
            }
            Self::Network(mode) => {
                let attribute = format!("network.mode.{}", mode.replace('/', "."));
                if node
                    .attributes
                    .get(&attribute)
                    .is_some_and(|value| value == "true")
                {
                    return None;
                }
                failed("missing network".to_owned())
            }
            Self::HostNetwork(port) => missing_host_network(port, node),
            Self::HostVolume { name, writes } => volume_reason(node, name, *writes),
            Self::HostVolumeOf { request, count } => {
                let writes = !request.read_only;
                let of = |index| volume_reason(node, &request.source_of(Some(index)), writes);
                match index {
                    Some(index) => of(index),
                    None if (0..*count).any(|index| of(index).is_none()) => None,
                    None => of(0),
                }
            }
            Self::Devices => failed("missing devices".to_owned()),
            Self::CsiVolume => failed("missing CSI plugins".to_owned()),
        }
    }
}

/// Why a port that names a host network cannot be on `node`. Such a network is a name that a node's
/// operator gives to addresses, not a device. (Nomad's texts.)
pub(crate) fn missing_host_network(port: &Port, node: &Node) -> Option<Reason> {
    let (name, port) = (port.host_network(), &port.label);
    let resolved = target::resolve(name, node);
    let text = match resolved.value() {
        None => format!("invalid host network {name:?} template for port {port:?}"),
        Some(_) if !ask::addresses(node, name).is_empty() => return None,
        Some(name) => format!("missing host network {name:?} for port {port:?}"),
    };
    Some(Reason(text))
}

fn volume_reason(node: &Node, name: &str, writes: bool) -> Option<Reason> {
    match node.host_volumes.get(name) {
        Some(volume) if !(volume.read_only && writes) => None,
        _ => Some(Reason("missing compatible host volumes".to_owned())),
    }
}

/// `${attr.kernel.name} = linux`, as filtered nodes are explained.
fn words(constraint: &Constraint) -> String {
    let Constraint {
        l_target,
        r_target,
        operand,
    } = constraint;
    match operand.as_str() {
        "is_set" | "is_not_set" => format!("{l_target} {operand}"),
        _ => format!("{l_target} {operand} {r_target}"),
    }
}
