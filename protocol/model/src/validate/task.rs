//! Rules of tasks.

use std::collections::BTreeSet;

use crate::device::NumaRequest;
use crate::group::TaskGroup;
use crate::identity::{Vault, WorkloadIdentity};
use crate::job::JobType;
use crate::resources::Resources;
use crate::task::Task;
use crate::validate::findings::Findings;
use crate::validate::{NAME_LEN_MAX, group as group_rules, placement, policy, task_files, volume};

/// The least CPU share, in MHz.
const CPU_MHZ_MIN: u64 = 1;
/// The least memory, in MB.
const MEMORY_MB_MIN: u64 = 10;

pub(super) fn check(job_type: JobType, group: &TaskGroup, task: &Task, findings: &mut Findings) {
    check_identity(task, findings);
    placement::check_constraints(&task.constraints, placement::Level::Task, findings);
    if job_type == JobType::System && !task.affinities.is_empty() {
        findings.refuse_at(
            "affinity",
            "a system job runs on every node and prefers none",
        );
    }
    placement::check_affinities(&task.affinities, findings);
    if let Some(resources) = &task.resources {
        findings.at("resources", |findings| check_resources(resources, findings));
    }
    if let Some(restart) = &task.restart_policy
        && Some(restart) != group.restart_policy.as_ref()
    {
        findings.at("restart", |findings| {
            policy::check_task_restart(restart, findings);
        });
    }
    if let Some(lifecycle) = &task.lifecycle {
        findings.at("lifecycle", |findings| {
            if lifecycle.hook.is_empty() {
                findings.refuse_at("hook", "missing");
            } else {
                findings.parse("hook", lifecycle.hook());
            }
        });
    }
    check_logs(group, task, findings);
    check_env(task, findings);
    task_files::check(task, findings);
    volume::check_mounts(group, task, findings);
    check_identities(task, findings);
    if let Some(vault) = &task.vault {
        findings.at("vault", |findings| check_vault(vault, findings));
    }
    check_actions_and_secrets(task, findings);
    check_scaling(task, findings);
}

/// One policy for each resource; job files name the resource, the API the type.
fn check_scaling(task: &Task, findings: &mut Findings) {
    let mut types = BTreeSet::new();
    for (offset, policy) in task.scaling_policies.iter().enumerate() {
        findings.at(format!("scaling {}", offset + 1), |findings| {
            let kind = policy.scaling_type.as_str();
            if !matches!(kind, "vertical_cpu" | "vertical_mem") {
                findings.at("type", |findings| {
                    findings.refuse_hint(
                        format!("{kind:?} is no type of a task's scaling"),
                        "one of vertical_cpu, vertical_mem",
                    );
                });
            } else if !types.insert(kind) {
                findings.refuse(format!("{kind} is scaled already"));
            }
        });
    }
}

fn check_identity(task: &Task, findings: &mut Findings) {
    group_rules::check_name(&task.name, findings);
    // The task's directory has its name.
    if task.name.contains(['/', '\\']) || task.name.starts_with('.') || task.name == "alloc" {
        findings.refuse_at(
            "name",
            format!("{:?} is no name for a directory", task.name),
        );
    }
    if task.driver.is_empty() {
        findings.refuse_at("driver", "missing");
    }
    if task.user.contains('\0') {
        findings.refuse_at("user", "contains a null character");
    }
}

fn check_resources(resources: &Resources, findings: &mut Findings) {
    let (cpu, cores) = (resources.cpu(), resources.cores());
    if cores > 0 && cpu > 0 {
        findings.refuse_hint("cpu and cores exclude each other", "keep one of them");
    }
    if cores == 0 && cpu < CPU_MHZ_MIN {
        findings.refuse_at(
            "cpu",
            format!("must be at least {CPU_MHZ_MIN} MHz, is {cpu}"),
        );
    }
    let memory = resources.memory_mb();
    if memory < MEMORY_MB_MIN {
        findings.refuse_at(
            "memory",
            format!("must be at least {MEMORY_MB_MIN} MB, is {memory}"),
        );
    }
    let memory_max = resources.memory_max_mb.unwrap_or(0);
    if memory_max < -1 {
        findings.refuse_at("memory_max", format!("is {memory_max} MB; -1 is no limit"));
    } else if memory_max > 0 && memory_max.unsigned_abs() < memory {
        findings.refuse_at(
            "memory_max",
            format!("is {memory_max} MB, less than memory ({memory} MB)"),
        );
    }
    for device in &resources.devices {
        findings.at(format!("device {:?}", device.name), |findings| {
            if device.name.is_empty() {
                findings.refuse("has no name");
            }
            if device.count == Some(0) {
                findings.refuse_at("count", "must be at least 1");
            }
            let level = placement::Level::Task;
            placement::check_constraints(&device.constraints, level, findings);
            placement::check_affinities(&device.affinities, findings);
        });
    }
    if let Some(numa) = &resources.numa {
        findings.at("numa", |findings| check_numa(numa, resources, findings));
    }
}

fn check_numa(numa: &NumaRequest, resources: &Resources, findings: &mut Findings) {
    match numa.affinity.as_str() {
        "" | "none" => {}
        "prefer" | "require" if resources.cores() == 0 => {
            findings.refuse("only for tasks that reserve cores");
        }
        "prefer" | "require" => {}
        other => findings.at("affinity", |findings| {
            findings.refuse_hint(
                format!("unknown: {other:?}"),
                "one of none, prefer, require",
            );
        }),
    }
    for name in &numa.devices {
        if !resources.devices.iter().any(|device| device.name == *name) {
            findings.refuse_at("devices", format!("the task asks for no device {name:?}"));
        }
    }
}

fn check_logs(group: &TaskGroup, task: &Task, findings: &mut Findings) {
    let Some(logs) = &task.log_config else { return };
    findings.at("logs", |findings| {
        if logs.enabled == Some(true) && logs.disabled == Some(true) {
            findings.refuse("enabled and disabled contradict each other");
        }
        if logs.max_files() == 0 {
            findings.refuse_at("max_files", "must be at least 1");
        }
        if logs.max_file_size_mb() == 0 {
            findings.refuse_at("max_file_size", "must be at least 1 MB");
        }
        let used = u64::from(logs.max_files()) * u64::from(logs.max_file_size_mb());
        let disk = group.ephemeral_disk.clone().unwrap_or_default().size_mb();
        if !logs.disabled() && used > disk {
            findings.refuse_hint(
                format!("up to {used} MB do not fit on the group's disk of {disk} MB"),
                "keep fewer or smaller files, or ask for more in ephemeral_disk > size",
            );
        }
    });
}

/// What execve(2) cannot carry.
fn check_env(task: &Task, findings: &mut Findings) {
    for (key, value) in &task.env {
        if key.is_empty() || key.contains(['=', '\0']) {
            findings.refuse_at("env", format!("{key:?} is no name for a variable"));
        }
        if value.contains('\0') {
            findings.refuse_at(
                "env",
                format!("the value of {key} contains a null character"),
            );
        }
    }
}

/// Identities of a task, the default one among them: a node keeps a token of each.
const IDENTITIES_MAX: usize = 16;

fn check_identities(task: &Task, findings: &mut Findings) {
    let count = task.identities.len() + usize::from(task.identity.is_some());
    if count > IDENTITIES_MAX {
        findings.refuse_at(
            "identity",
            format!("{count} identities: at most {IDENTITIES_MAX} are allowed"),
        );
    }
    if let Some(identity) = &task.identity {
        findings.at("identity", |findings| check_block(identity, findings));
    }
    for identity in &task.identities {
        findings.at(format!("identity {:?}", identity.name), |findings| {
            // Nomad takes several of one other name.
            if identity.name == "default" {
                findings.refuse("is defined twice");
            }
            check_short_name(&identity.name, findings);
            check_block(identity, findings);
        });
    }
}

fn check_block(identity: &WorkloadIdentity, findings: &mut Findings) {
    let path = identity.filepath.as_str();
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        findings.at("filepath", |findings| {
            findings.refuse_hint(
                format!("{path:?} leaves the directory of the task"),
                "a relative path without \"..\", for example secrets/token.jwt",
            );
        });
    }
    change_mode(&identity.change_mode, &identity.change_signal, findings);
}

fn check_vault(vault: &Vault, findings: &mut Findings) {
    let mode = vault.change_mode.as_deref().unwrap_or_default();
    change_mode(
        mode,
        vault.change_signal.as_deref().unwrap_or_default(),
        findings,
    );
}

/// Credentials know no change mode `script`.
fn change_mode(mode: &str, signal: &str, findings: &mut Findings) {
    match mode {
        "" | "noop" | "restart" => {}
        "signal" if signal.is_empty() => findings.refuse_at("change_signal", "missing"),
        "signal" => {}
        other => findings.at("change_mode", |findings| {
            findings.refuse_hint(
                format!("unknown: {other:?}"),
                "one of noop, restart, signal",
            );
        }),
    }
}

fn check_actions_and_secrets(task: &Task, findings: &mut Findings) {
    let mut names = BTreeSet::new();
    for action in &task.actions {
        findings.at(format!("action {:?}", action.name), |findings| {
            check_short_name(&action.name, findings);
            if action.command.is_empty() {
                findings.refuse_at("command", "missing");
            }
            if !names.insert(&action.name) {
                findings.refuse("is defined twice");
            }
        });
    }
    let mut names = BTreeSet::new();
    for secret in &task.secrets {
        findings.at(format!("secret {:?}", secret.name), |findings| {
            check_short_name(&secret.name, findings);
            for (field, value) in [("provider", &secret.provider), ("path", &secret.path)] {
                if value.is_empty() {
                    findings.refuse_at(field, "missing");
                }
            }
            if !names.insert(&secret.name) {
                findings.refuse("is defined twice");
            }
        });
    }
}

/// Names of identities, actions and secrets become parts of paths and of variables.
fn check_short_name(name: &str, findings: &mut Findings) {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_name_char) {
        findings.refuse_at(
            "name",
            format!("1 to {NAME_LEN_MAX} letters, digits, underscores and hyphens are allowed"),
        );
    }
}
