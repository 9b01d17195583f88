//! Rules of the job itself.

use std::collections::BTreeSet;

use crate::canonical::defaults;
use crate::job::{Job, JobType, JobUi};
use crate::multiregion::{Multiregion, MultiregionRegion, MultiregionStrategy};
use crate::parameterized::ParameterizedJobConfig;
use crate::validate::findings::Findings;
use crate::validate::{
    CHILD_ID_LEN_MAX, GROUPS_MAX, NAME_LEN_MAX, UI_DESCRIPTION_LEN_MAX, group, periodic, placement,
};

pub(super) fn check(job: &Job, findings: &mut Findings) {
    check_identity(job, findings);
    if !(1..=100).contains(&job.priority) {
        findings.refuse_at("priority", format!("must be 1 to 100, is {}", job.priority));
    }
    if job.datacenters.iter().any(String::is_empty) {
        findings.refuse_at("datacenters", "a datacenter's name is empty");
    }
    if job.datacenters.is_empty() {
        findings.at("datacenters", |findings| {
            findings.refuse_hint(
                "no datacenter",
                format!("[{:?}] is all", defaults::DATACENTERS),
            );
        });
    }
    placement::check_constraints(&job.constraints, placement::Level::JobOrGroup, findings);
    if job.job_type == JobType::System {
        refuse_scoring(
            !job.affinities.is_empty(),
            !job.spreads.is_empty(),
            findings,
        );
    }
    placement::check_affinities(&job.affinities, findings);
    placement::check_spreads(&job.spreads, findings);
    if let Some(ui) = &job.ui {
        findings.at("ui", |findings| check_ui(ui, findings));
    }
    if let Some(multiregion) = &job.multiregion {
        findings.at("multiregion", |findings| {
            check_multiregion(multiregion, job.job_type, findings);
        });
    }
    if let Some(config) = &job.periodic {
        findings.at("periodic", |findings| {
            periodic::check(job.job_type, config, findings);
        });
    }
    if let Some(parameterized) = &job.parameterized_job {
        findings.at("parameterized", |findings| {
            check_parameterized(job.job_type, parameterized, findings);
        });
    }
    check_groups(job, findings);
}

fn check_multiregion(multiregion: &Multiregion, job_type: JobType, findings: &mut Findings) {
    let mut names = BTreeSet::new();
    for MultiregionRegion { name, .. } in &multiregion.regions {
        if name.is_empty() {
            findings.refuse_at("region", "a region's name is empty");
        } else if !names.insert(name) {
            findings.refuse_at("region", format!("{name:?} is listed twice"));
        }
    }
    let Some(strategy) = &multiregion.strategy else {
        return;
    };
    findings.at("strategy", |findings| {
        if !matches!(&*strategy.on_failure, "" | "fail_all" | "fail_local") {
            findings.at("on_failure", |findings| {
                findings.refuse_hint(
                    format!("{:?} is no reaction to a failure", strategy.on_failure),
                    "\"fail_all\", \"fail_local\", or none",
                );
            });
        }
        if job_type == JobType::Batch && *strategy != MultiregionStrategy::default() {
            findings.refuse("a batch job has no deployments: its regions do not wait");
        }
    });
}

fn check_identity(job: &Job, findings: &mut Findings) {
    let id_len_max = if job.parent_id.is_empty() {
        NAME_LEN_MAX
    } else {
        CHILD_ID_LEN_MAX
    };
    findings.at("id", |findings| {
        if job.id.is_empty() {
            findings.refuse("missing");
        }
        if job.id.contains(char::is_whitespace) {
            findings.refuse(format!("{:?} contains a space", job.id));
        }
        if job.id.contains(char::is_control) {
            findings.refuse(format!("{:?} contains a control character", job.id));
        }
        if job.id.len() > id_len_max {
            findings.refuse(format!("is longer than {id_len_max} bytes"));
        }
    });
    findings.at("name", |findings| {
        if job.name.contains(char::is_control) {
            findings.refuse(format!("{:?} contains a control character", job.name));
        }
        if job.name.len() > id_len_max {
            findings.refuse(format!("is longer than {id_len_max} bytes"));
        }
    });
    let is_namespace_char = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if job.namespace.len() > NAME_LEN_MAX || !job.namespace.chars().all(is_namespace_char) {
        findings.at("namespace", |findings| {
            findings.refuse_hint(
                format!("{:?} is no name for a namespace", job.namespace),
                format!("up to {NAME_LEN_MAX} letters, digits and hyphens"),
            );
        });
    }
}

fn check_ui(ui: &JobUi, findings: &mut Findings) {
    let len = ui.description.len();
    if len > UI_DESCRIPTION_LEN_MAX {
        findings.refuse_at(
            "description",
            format!("has {len} bytes, at most {UI_DESCRIPTION_LEN_MAX} are allowed"),
        );
    }
}

/// Jobs that run on every node have no choice to score.
pub(super) fn refuse_scoring(affinities: bool, spreads: bool, findings: &mut Findings) {
    if affinities {
        findings.refuse_at(
            "affinity",
            "a system job runs on every node and prefers none",
        );
    }
    if spreads {
        findings.refuse_at(
            "spread",
            "a system job runs on every node and is not spread",
        );
    }
}

fn check_parameterized(
    job_type: JobType,
    parameterized: &ParameterizedJobConfig,
    findings: &mut Findings,
) {
    if !job_type.runs_to_completion() {
        findings.refuse(format!(
            "only batch and sysbatch jobs are parameterized, not {job_type} jobs"
        ));
    }
    findings.parse("payload", parameterized.payload());
    let required: BTreeSet<_> = parameterized.meta_required.iter().collect();
    let optional: BTreeSet<_> = parameterized.meta_optional.iter().collect();
    for key in required.intersection(&optional) {
        findings.refuse(format!(
            "the key {key:?} is both in meta_required and in meta_optional"
        ));
    }
    let counts = [
        (
            "meta_required",
            required.len(),
            parameterized.meta_required.len(),
        ),
        (
            "meta_optional",
            optional.len(),
            parameterized.meta_optional.len(),
        ),
    ];
    for (list, distinct, total) in counts {
        if distinct != total {
            findings.refuse_at(list, "a key is named twice");
        }
    }
}

fn check_groups(job: &Job, findings: &mut Findings) {
    if job.task_groups.is_empty() {
        findings.refuse_hint("the job has no group", "add a group with at least one task");
    }
    if job.task_groups.len() > GROUPS_MAX {
        let count = job.task_groups.len();
        findings.refuse(format!(
            "the job has {count} groups, at most {GROUPS_MAX} are allowed"
        ));
        return;
    }
    let mut names = BTreeSet::new();
    for (offset, group) in job.task_groups.iter().enumerate() {
        if group.name.is_empty() {
            findings.refuse(format!("group number {} has no name", offset + 1));
        } else if !names.insert(&group.name) {
            findings.refuse(format!("two groups are named {:?}", group.name));
        }
        findings.at(format!("group {:?}", group.name), |findings| {
            group::check(job, group, findings);
        });
    }
}
