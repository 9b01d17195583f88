//! Rules of services and their checks.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::connect::Connect;
use crate::duration::format_go;
use crate::group::TaskGroup;
use crate::network::NetworkMode;
use crate::service::{Service, ServiceCheck};
use crate::validate::findings::Findings;
use crate::validate::network::is_dns_label;

/// The shortest time between checks, and the shortest limit of one.
const CHECK_TIME_MIN: Duration = Duration::from_secs(1);

/// Services of the group and of its tasks: names must differ and all go to one provider.
pub(super) fn check_group(group: &TaskGroup, findings: &mut Findings) {
    let mut providers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for service in &group.services {
        findings.at(segment(service), |findings| {
            check(service, group, Place::Group, findings);
            if !names.insert((&service.name, &service.port_label)) {
                findings.refuse("is defined twice with the same port");
            }
        });
        providers.insert(service.provider.as_str());
    }
    for task in &group.tasks {
        for service in &task.services {
            findings.at(format!("task {:?}", task.name), |findings| {
                findings.at(segment(service), |findings| {
                    check(service, group, Place::Task, findings);
                    if !names.insert((&service.name, &service.port_label)) {
                        findings.refuse("is defined twice with the same port");
                    }
                });
            });
            providers.insert(service.provider.as_str());
        }
    }
    providers.remove("");
    if providers.len() > 1 {
        let list: Vec<_> = providers.into_iter().collect();
        findings.refuse(format!(
            "the services of one group must have one provider, not {}",
            list.join(" and ")
        ));
    }
}

fn segment(service: &Service) -> String {
    format!("service {:?}", service.name)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Group,
    Task,
}

fn check(service: &Service, group: &TaskGroup, place: Place, findings: &mut Findings) {
    // Names with variables can only be judged where the variables are known.
    if !service.name.contains("${") && !is_dns_label(&service.name) {
        findings.refuse_hint(
            "is no name for a service",
            "1 to 63 letters, digits and hyphens, no hyphen at the ends",
        );
    }
    one_of(
        "provider",
        &service.provider,
        &["", "consul", "nomad"],
        findings,
    );
    check_address_mode(&service.address_mode, place, findings);
    one_of(
        "on_update",
        &service.on_update,
        &["", "require_healthy", "ignore_warnings", "ignore"],
        findings,
    );
    if !service.task_name.is_empty() && group.task(&service.task_name).is_none() {
        findings.refuse_at(
            "task",
            format!("the group has no task {:?}", service.task_name),
        );
    }
    check_port_label(&service.port_label, group, findings);
    for check in &service.checks {
        findings.at(format!("check {:?}", check.name), |findings| {
            check_check(check, service, group, place, findings);
        });
    }
    if let Some(connect) = &service.connect {
        findings.at("connect", |findings| {
            check_connect(connect, service, group, findings);
        });
    }
}

fn one_of(field: &str, value: &str, allowed: &[&str], findings: &mut Findings) {
    if !allowed.contains(&value) {
        let list: Vec<_> = allowed
            .iter()
            .copied()
            .filter(|word| !word.is_empty())
            .collect();
        findings.at(field, |findings| {
            findings.refuse_hint(
                format!("unknown: {value:?}"),
                format!("one of {}", list.join(", ")),
            );
        });
    }
}

/// An allocation's network belongs to its group, a driver's network to a task.
fn check_address_mode(mode: &str, place: Place, findings: &mut Findings) {
    let owner = match (place, mode) {
        (Place::Group, "driver") => "task",
        (Place::Task, "alloc" | "alloc_ipv6") => "group",
        _ => {
            let known = ["", "auto", "alloc", "alloc_ipv6", "host", "driver"];
            one_of("address_mode", mode, &known, findings);
            return;
        }
    };
    let message = format!("{mode:?} is only for services of a {owner}");
    findings.refuse_at("address_mode", message);
}

fn check_address_mode_of_check(mode: &str, place: Place, findings: &mut Findings) {
    let message = match (place, mode) {
        (_, "alloc_ipv6") => "\"alloc_ipv6\" is only for services of a group, not for checks",
        (Place::Task, "alloc") => "\"alloc\" is only for checks of a group's service",
        _ => {
            let known = ["", "alloc", "host", "driver"];
            one_of("address_mode", mode, &known, findings);
            return;
        }
    };
    findings.refuse_at("address_mode", message);
}

/// A port is a number, or a label that the group or one of its tasks has.
fn check_port_label(label: &str, group: &TaskGroup, findings: &mut Findings) {
    if label.is_empty() || label.contains("${") {
        return;
    }
    if let Ok(number) = label.parse::<u64>() {
        if !(1..=65_535).contains(&number) {
            findings.refuse_at("port", format!("must be 1 to 65535, is {number}"));
        }
        return;
    }
    let of_tasks = group.tasks.iter().flat_map(|task| &task.resources);
    let mut networks = group
        .networks
        .iter()
        .chain(of_tasks.flat_map(|resources| &resources.networks));
    if !networks.any(|network| network.ports().any(|port| port.label == label)) {
        findings.refuse_at("port", format!("no port is labelled {label:?}"));
    }
}

fn check_check(
    check: &ServiceCheck,
    service: &Service,
    group: &TaskGroup,
    place: Place,
    findings: &mut Findings,
) {
    let kinds: &[&str] = match service.provider.as_str() {
        "nomad" => &["http", "tcp"],
        _ => &["http", "tcp", "grpc", "script"],
    };
    one_of("type", &check.check_type, kinds, findings);
    match check.check_type.as_str() {
        "http" if check.path.is_empty() => findings.refuse_at("path", "missing"),
        "script" if check.command.is_empty() => findings.refuse_at("command", "missing"),
        _ => {}
    }
    for (field, value) in [("interval", check.interval), ("timeout", check.timeout)] {
        if value < CHECK_TIME_MIN {
            findings.refuse_at(
                field,
                format!(
                    "must be at least {}, is {}",
                    format_go(CHECK_TIME_MIN),
                    format_go(value)
                ),
            );
        }
    }
    one_of(
        "protocol",
        &check.protocol,
        &["", "http", "https"],
        findings,
    );
    one_of(
        "initial_status",
        &check.initial_status,
        &["", "passing", "warning", "critical"],
        findings,
    );
    check_address_mode_of_check(&check.address_mode, place, findings);
    check_port_label(&check.port_label, group, findings);
    if !check.task_name.is_empty() && group.task(&check.task_name).is_none() {
        findings.refuse_at(
            "task",
            format!("the group has no task {:?}", check.task_name),
        );
    }
}

fn check_connect(connect: &Connect, service: &Service, group: &TaskGroup, findings: &mut Findings) {
    let kinds = [
        connect.native,
        connect.sidecar_service.is_some(),
        connect.gateway.is_some(),
    ];
    if kinds.into_iter().filter(|kind| *kind).count() != 1 {
        findings.refuse("needs exactly one of native, sidecar_service and gateway");
    }
    if service.provider == "nomad" {
        findings.refuse("only for services of the provider consul");
    }
    let in_namespace = group
        .networks
        .iter()
        .any(|network| matches!(network.mode(), NetworkMode::Bridge | NetworkMode::Cni(_)));
    if connect.sidecar_service.is_some() && !in_namespace {
        findings.refuse_at(
            "sidecar_service",
            "the group needs a network of mode bridge or cni/NAME beside it",
        );
    }
}
