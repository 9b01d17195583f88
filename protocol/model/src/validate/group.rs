//! Rules of groups.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::group::TaskGroup;
use crate::job::{Job, JobType};
use crate::validate::findings::Findings;
use crate::validate::{
    COUNT_MAX, NAME_LEN_MAX, TASKS_PER_GROUP_MAX, job as job_rules, network, placement, policy,
    service, task, volume,
};

/// The smallest shared disk, in MB.
const EPHEMERAL_DISK_MB_MIN: u64 = 10;

pub(super) fn check(job: &Job, group: &TaskGroup, findings: &mut Findings) {
    check_name(&group.name, findings);
    check_count(job.job_type, group, findings);
    placement::check_constraints(&group.constraints, placement::Level::JobOrGroup, findings);
    if job.job_type == JobType::System {
        job_rules::refuse_scoring(
            !group.affinities.is_empty(),
            !group.spreads.is_empty(),
            findings,
        );
    }
    placement::check_affinities(&group.affinities, findings);
    placement::check_spreads(&group.spreads, findings);
    policy::check_group(job.job_type, group, findings);
    if let Some(disk) = &group.ephemeral_disk
        && disk.size_mb() < EPHEMERAL_DISK_MB_MIN
    {
        findings.refuse_at(
            "ephemeral_disk > size",
            format!(
                "must be at least {EPHEMERAL_DISK_MB_MIN} MB, is {} MB",
                disk.size_mb()
            ),
        );
    }
    network::check_group(group, findings);
    service::check_group(group, findings);
    volume::check_group(job.job_type, group, findings);
    check_max_run_duration(job.job_type, group, findings);
    check_tasks(job, group, findings);
}

/// Names become directory names and parts of environment variables and of URLs.
pub(super) fn check_name(name: &str, findings: &mut Findings) {
    if name.contains(char::is_control) {
        findings.refuse_at("name", format!("{name:?} contains a control character"));
    }
    if name.len() > NAME_LEN_MAX {
        findings.refuse_at("name", format!("is longer than {NAME_LEN_MAX} bytes"));
    }
}

fn check_count(job_type: JobType, group: &TaskGroup, findings: &mut Findings) {
    let count = group.count();
    if job_type.is_per_node() && count > 1 {
        findings.at("count", |findings| {
            findings.refuse_hint(
                format!("is {count}, but a {job_type} job runs once on each node"),
                "leave count out",
            );
        });
    } else if count > COUNT_MAX {
        findings.refuse_at(
            "count",
            format!("is {count}, at most {COUNT_MAX} is allowed"),
        );
    }
    let Some(scaling) = &group.scaling else {
        return;
    };
    findings.at("scaling", |findings| {
        if !matches!(scaling.scaling_type.as_str(), "" | "horizontal") {
            findings.refuse_at(
                "type",
                format!("{:?} is not horizontal", scaling.scaling_type),
            );
        }
        let Some(max) = scaling.max else {
            findings.refuse_at("max", "missing");
            return;
        };
        let min = scaling.min.unwrap_or(count);
        if min > max {
            findings.refuse_at("min", format!("is {min}, more than max ({max})"));
        }
        if count < min {
            findings.refuse(format!(
                "the group's count ({count}) is less than min ({min})"
            ));
        }
        if count > max {
            findings.refuse(format!(
                "the group's count ({count}) is more than max ({max})"
            ));
        }
    });
}

fn check_max_run_duration(job_type: JobType, group: &TaskGroup, findings: &mut Findings) {
    let Some(limit) = group.max_run_duration else {
        return;
    };
    findings.at("max_run_duration", |findings| {
        if !job_type.runs_to_completion() {
            findings.refuse(format!(
                "only for batch and sysbatch jobs, not {job_type} jobs"
            ));
        }
        if limit == Duration::ZERO {
            findings.refuse("must be more than zero");
        }
    });
}

fn check_tasks(job: &Job, group: &TaskGroup, findings: &mut Findings) {
    if group.tasks.is_empty() {
        findings.refuse("the group has no task");
    } else if group.tasks.iter().all(|task| task.hook().is_some()) {
        // An allocation ends with its main tasks: without one it ends before it is healthy.
        findings.refuse_hint(
            format!("Task group {} must have at least one main task", group.name),
            "a main task is one without a lifecycle block",
        );
    }
    if group.tasks.len() > TASKS_PER_GROUP_MAX {
        let count = group.tasks.len();
        findings.refuse(format!(
            "the group has {count} tasks, at most {TASKS_PER_GROUP_MAX} fit"
        ));
        return;
    }
    let leaders: Vec<_> = group
        .tasks
        .iter()
        .filter(|task| task.leader)
        .map(|task| task.name.as_str())
        .collect();
    if leaders.len() > 1 {
        findings.refuse(format!(
            "only one task may be leader, not {}",
            leaders.join(" and ")
        ));
    }
    let mut names = BTreeSet::new();
    for (offset, task) in group.tasks.iter().enumerate() {
        if task.name.is_empty() {
            findings.refuse(format!("task number {} has no name", offset + 1));
        } else if !names.insert(&task.name) {
            findings.refuse(format!("two tasks are named {:?}", task.name));
        }
        findings.at(format!("task {:?}", task.name), |findings| {
            task::check(job.job_type, group, task, findings);
        });
    }
}
