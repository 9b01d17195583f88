//! Policies: the list, one's own, and one with its rules.

use protocol_api::acl::{Policy, PolicyStub};

use crate::render::columns::{Columns, pairs};

/// Policies with their descriptions.
pub(crate) fn list(policies: &[PolicyStub]) -> String {
    if policies.is_empty() {
        return "No policies found".to_owned();
    }
    let mut table = Columns::new(&["Name", "Description"]);
    for policy in policies {
        table.row([policy.name.clone(), policy.description.clone()]);
    }
    table.render()
}

/// Policies with the workloads that they join.
pub(crate) fn own(policies: &[PolicyStub]) -> String {
    if policies.is_empty() {
        return "No policies found".to_owned();
    }
    let mut table = Columns::new(&["Name", "Job ID", "Group Name", "Task Name"]);
    for policy in policies {
        let job_acl = policy.job_acl.clone().unwrap_or_default();
        let cells = [job_acl.job_id, job_acl.group, job_acl.task];
        let cells = cells.map(|cell| match cell.is_empty() {
            true => "<not specified>".to_owned(),
            false => cell,
        });
        table.row(std::iter::once(policy.name.clone()).chain(cells));
    }
    table.render()
}

/// One policy.
pub(crate) fn one(policy: &Policy) -> String {
    let mut text = pairs(&[
        ("Name", policy.name.clone()),
        ("Description", policy.description.clone()),
        ("CreateIndex", policy.create_index.to_string()),
        ("ModifyIndex", policy.modify_index.to_string()),
    ]);
    if let Some(job_acl) = &policy.job_acl {
        let workload = pairs(&[
            ("Namespace", job_acl.namespace.clone()),
            ("JobID", job_acl.job_id.clone()),
            ("Group", job_acl.group.clone()),
            ("Task", job_acl.task.clone()),
        ]);
        text = format!("{text}\nAssociated Workload\n{workload}");
    }
    format!("{text}\nRules\n\n{}", printable(&policy.rules))
}

/// A text of several lines, without characters that steer a terminal.
fn printable(text: &str) -> String {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.chars()
        .map(|c| if steers(c) { ' ' } else { c })
        .collect()
}
