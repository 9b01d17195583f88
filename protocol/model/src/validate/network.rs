//! Rules of networks and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::group::TaskGroup;
use crate::network::{NetworkMode, NetworkResource, Port};
use crate::validate::NAME_LEN_MAX;
use crate::validate::findings::Findings;

const PORT_MAX: u32 = 65_535;

/// What is taken already, in the group's network and in those of its tasks.
#[derive(Default)]
struct Taken<'a> {
    labels: BTreeSet<&'a str>,
    /// Host network and number, and whose they are.
    numbers: BTreeMap<(&'a str, u32), &'a str>,
}

pub(super) fn check_group(group: &TaskGroup, findings: &mut Findings) {
    let mut taken = Taken::default();
    if group.networks.len() > 1 {
        findings.refuse_hint(
            format!(
                "the group has {} networks, one is allowed",
                group.networks.len()
            ),
            "put all ports into one network block",
        );
    }
    for network in &group.networks {
        findings.at("network", |findings| {
            check_mode(network, findings);
            check_ports(network, &mut taken, findings);
        });
    }
    for task in &group.tasks {
        let networks = task
            .resources
            .as_ref()
            .map_or(&[][..], |resources| &resources.networks);
        if networks.is_empty() {
            continue;
        }
        findings.at(format!("task {:?} > resources", task.name), |findings| {
            if networks.len() > 1 {
                findings.refuse(format!("{} networks, one is allowed", networks.len()));
            }
            for network in networks {
                findings.at("network", |findings| {
                    check_task_network(network, findings);
                    // Labels are a task's own; numbers are the host's.
                    taken.labels.clear();
                    check_ports(network, &mut taken, findings);
                });
            }
        });
    }
}

/// A task's own network is an older form that only knows the host's.
fn check_task_network(network: &NetworkResource, findings: &mut Findings) {
    if !matches!(network.mode(), NetworkMode::Host) {
        findings.at("mode", |findings| {
            findings.refuse_hint(
                format!("{:?} is a network of the whole group", network.mode),
                "move the network block into the group",
            );
        });
    }
}

fn check_mode(network: &NetworkResource, findings: &mut Findings) {
    match network.mode() {
        NetworkMode::Host | NetworkMode::Bridge | NetworkMode::None | NetworkMode::Cni(_) => {}
        NetworkMode::Unknown(mode) => findings.at("mode", |findings| {
            findings.refuse_hint(
                format!("unknown: {mode:?}"),
                "host, bridge, none or cni/NAME",
            );
        }),
    }
    if network.cni.is_some() && !matches!(network.mode(), NetworkMode::Cni(_)) {
        findings.refuse_at("cni", "only for networks of mode cni/NAME");
    }
    if !network.hostname.is_empty()
        && !network.hostname.contains("${")
        && !is_host_name(&network.hostname)
    {
        findings.refuse_at(
            "hostname",
            format!("{:?} is no host name", network.hostname),
        );
    }
    for server in network.dns.iter().flat_map(|dns| &dns.servers) {
        if !server.contains("${") && server.parse::<IpAddr>().is_err() {
            findings.refuse_at("dns > servers", format!("{server:?} is no IP address"));
        }
    }
}

/// RFC 1123: dot-separated labels of 1 to 63 letters, digits and inner hyphens.
fn is_host_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

/// RFC 1123: 1 to 63 letters, digits and inner hyphens.
pub(super) fn is_dns_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn check_ports<'a>(network: &'a NetworkResource, taken: &mut Taken<'a>, findings: &mut Findings) {
    for port in &network.reserved_ports {
        findings.at(format!("port {:?}", port.label), |findings| {
            check_port(port, taken, findings);
            check_fixed_number(port, taken, findings);
        });
    }
    for port in &network.dynamic_ports {
        findings.at(format!("port {:?}", port.label), |findings| {
            check_port(port, taken, findings);
        });
    }
}

fn check_port<'a>(port: &'a Port, taken: &mut Taken<'a>, findings: &mut Findings) {
    let is_label_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if port.label.is_empty() {
        findings.refuse("has no label");
    } else if port.label.len() > NAME_LEN_MAX || !port.label.chars().all(is_label_char) {
        // The label becomes part of a variable's name: NOMAD_PORT_label.
        findings.refuse_hint(
            "is no label for a port",
            format!("up to {NAME_LEN_MAX} letters, digits, underscores and hyphens"),
        );
    } else if !taken.labels.insert(&port.label) {
        findings.refuse("is named twice");
    }
    let to_max = i32::try_from(PORT_MAX).unwrap_or(i32::MAX);
    if !(-1..=to_max).contains(&port.to) {
        findings.refuse_at("to", format!("must be 1 to {PORT_MAX}, is {}", port.to));
    }
}

fn check_fixed_number<'a>(port: &'a Port, taken: &mut Taken<'a>, findings: &mut Findings) {
    if !(1..=PORT_MAX).contains(&port.value) {
        findings.refuse_at(
            "static",
            format!("must be 1 to {PORT_MAX}, is {}", port.value),
        );
        return;
    }
    if port.ignore_collision {
        return;
    }
    let number = (port.host_network(), port.value);
    if let Some(owner) = taken.numbers.insert(number, &port.label) {
        findings.refuse_at(
            "static",
            format!("{} is the port {owner:?} already", port.value),
        );
    }
}
