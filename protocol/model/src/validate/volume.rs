//! Rules of volumes and of where tasks mount them.

use std::collections::BTreeSet;

use crate::group::TaskGroup;
use crate::job::JobType;
use crate::task::Task;
use crate::validate::findings::Findings;
use crate::volume::VolumeRequest;

pub(super) fn check_group(job_type: JobType, group: &TaskGroup, findings: &mut Findings) {
    let canaries = group.update.as_ref().map_or(0, |update| update.canary());
    for (name, volume) in &group.volumes {
        findings.at(format!("volume {name:?}"), |findings| {
            check_volume(volume, findings);
            if volume.per_alloc {
                check_per_alloc(volume, job_type, canaries, findings);
            }
        });
    }
}

fn check_volume(volume: &VolumeRequest, findings: &mut Findings) {
    if volume.source.is_empty() {
        findings.refuse_at("source", "missing");
    }
    match volume.volume_type.as_str() {
        "host" => {
            if volume.mount_options.is_some() {
                findings.refuse_at("mount_options", "only for volumes of type csi");
            }
        }
        "csi" => {
            if volume.attachment_mode.is_empty() {
                findings.refuse_at("attachment_mode", "missing");
            }
            if volume.access_mode.is_empty() {
                findings.refuse_at("access_mode", "missing");
            }
        }
        other => findings.refuse_at("type", format!("must be host or csi, is {other:?}")),
    }
}

/// Nomad's texts. Every allocation of these jobs and every canary would need a number of its own.
fn check_per_alloc(
    volume: &VolumeRequest,
    job_type: JobType,
    canaries: u32,
    findings: &mut Findings,
) {
    if matches!(job_type, JobType::System | JobType::Sysbatch) {
        findings.refuse("volume cannot be per_alloc for system or sysbatch jobs");
    }
    if canaries > 0 {
        findings.refuse("volume cannot be per_alloc when canaries are in use");
    }
    if volume.sticky {
        findings.refuse("volume cannot be per_alloc and sticky");
    }
}

pub(super) fn check_mounts(group: &TaskGroup, task: &Task, findings: &mut Findings) {
    let mut destinations = BTreeSet::new();
    for (offset, mount) in task.volume_mounts.iter().enumerate() {
        findings.at(format!("volume_mount {}", offset + 1), |findings| {
            let volume = mount.volume.as_deref().unwrap_or_default();
            if volume.is_empty() {
                findings.refuse_at("volume", "missing");
            } else if is_resolved_later(volume) {
                // The node knows what it names.
            } else if !group.volumes.contains_key(volume) {
                findings.refuse_at("volume", format!("the group has no volume {volume:?}"));
            }
            let destination = mount.destination.as_deref().unwrap_or_default();
            if destination.is_empty() {
                findings.refuse_at("destination", "missing");
            } else if !destinations.insert(destination) {
                findings.refuse_at("destination", format!("{destination:?} is used twice"));
            }
            let mode = mount.propagation_mode.as_deref().unwrap_or("private");
            let is_known = matches!(mode, "" | "private" | "host-to-task" | "bidirectional");
            if !is_known && !is_resolved_later(mode) {
                findings.at("propagation_mode", |findings| {
                    findings.refuse_hint(
                        format!("unknown: {mode:?}"),
                        "one of private, host-to-task, bidirectional",
                    );
                });
            }
        });
    }
}

fn is_resolved_later(text: &str) -> bool {
    text.contains("${")
}
