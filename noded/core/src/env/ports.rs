//! The variables that tell a task its ports: `NOMAD_PORT_http` and its relatives.
//!
//! `PORT` and `ALLOC_*` are what the task binds (inside its network namespace, where it has one),
//! `HOST_*`, `IP` and `ADDR` what others reach. With host networking both are the same, and there
//! is no `ALLOC_IP`, `ALLOC_ADDR` and `ALLOC_INTERFACE`.

use std::collections::BTreeMap;

use protocol_model::{AllocatedPort, Allocation, NetworkStatus, variable_name};

/// The variables of every port of the allocation, and of the task's own (the older form).
pub(super) fn variables(
    alloc: &Allocation,
    task: &str,
    network: Option<&NetworkStatus>,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    if let Some(given) = alloc.allocated_resources.tasks.get(task) {
        for network in &given.networks {
            for port in network.ports() {
                let Ok(value) = u16::try_from(port.value) else {
                    continue;
                };
                let to = u16::try_from(port.to).unwrap_or(0);
                let host_ip = network.ip.clone();
                let port = AllocatedPort {
                    label: port.label.clone(),
                    value,
                    to,
                    host_ip,
                };
                add(&mut variables, &port);
            }
        }
    }
    for port in &alloc.allocated_resources.shared.ports {
        add(&mut variables, port);
        if let Some(network) = network {
            add_inside(&mut variables, port, network);
        }
    }
    variables
}

fn add(variables: &mut BTreeMap<String, String>, port: &AllocatedPort) {
    let AllocatedPort {
        label,
        value,
        to: _,
        host_ip,
    } = port;
    let label = variable_name(label);
    let inside = inside(port);
    let mut set = |kind: &str, text: String| {
        variables.insert(format!("NOMAD_{kind}_{label}"), text);
    };
    set("PORT", inside.to_string());
    set("ALLOC_PORT", inside.to_string());
    set("HOST_PORT", value.to_string());
    set("IP", host_ip.clone());
    set("HOST_IP", host_ip.clone());
    set("ADDR", address(host_ip, *value));
    set("HOST_ADDR", address(host_ip, *value));
}

/// The variables of a port as it is seen in the allocation's own network.
fn add_inside(
    variables: &mut BTreeMap<String, String>,
    port: &AllocatedPort,
    network: &NetworkStatus,
) {
    let label = variable_name(&port.label);
    let mut set = |kind: &str, text: String| {
        variables.insert(format!("NOMAD_ALLOC_{kind}_{label}"), text);
    };
    let address = match network.address.as_str() {
        "" => &network.address_ipv6,
        address => address,
    };
    set("INTERFACE", network.interface_name.clone());
    set("IP", address.to_owned());
    set("ADDR", self::address(address, inside(port)));
}

/// The number inside: 0 is the one outside.
fn inside(port: &AllocatedPort) -> u16 {
    match port.to {
        0 => port.value,
        to => to,
    }
}

/// `ip:port`, with brackets around an IPv6 address.
fn address(ip: &str, port: u16) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}
