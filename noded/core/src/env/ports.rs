//! The variables that tell a task its ports: `NOMAD_PORT_http` and its relatives.
//!
//! `PORT` and `ADDR` are what the task binds (inside its network namespace, where it has one),
//! `HOST_*` what others reach. With host networking both are the same.

use std::collections::BTreeMap;

use protocol_model::{AllocatedPort, Allocation, variable_name};

/// The variables of every port of the allocation, and of the task's own (the older form).
pub(super) fn variables(alloc: &Allocation, task: &str) -> BTreeMap<String, String> {
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
    }
    variables
}

fn add(variables: &mut BTreeMap<String, String>, port: &AllocatedPort) {
    let AllocatedPort {
        label,
        value,
        to,
        host_ip,
    } = port;
    let label = variable_name(label);
    let inside = if *to > 0 { *to } else { *value };
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

/// `ip:port`, with brackets around an IPv6 address.
fn address(ip: &str, port: u16) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}
