//! Deployments: what a job and the deployment itself show of one.

use protocol_model::{Deployment, Job};

use super::columns::{Columns, pairs};
use super::word;
use crate::find::{Length, shown};
use crate::session::Clock;

/// A deployment's head, as the job and the deployment itself show it.
pub(crate) fn head(deployment: &Deployment, length: Length) -> String {
    pairs(&[
        ("ID", shown(&deployment.id.to_string(), length)),
        ("Status", word(&deployment.status)),
        ("Description", deployment.status_description.clone()),
    ])
}

/// The regions that a deployment is one part of; nothing where it is the whole. Of other regions
/// nothing is known: this release does not reach them.
pub(crate) fn regions(deployment: &Deployment, job: &Job, length: Length) -> Option<String> {
    if !deployment.is_multiregion {
        return None;
    }
    let mut table = Columns::new(&["Region", "ID", "Status"]);
    for region in job.regions() {
        let (id, status) = if region.name == job.region {
            let id = shown(&deployment.id.to_string(), length);
            (id, word(&deployment.status))
        } else {
            ("N/A".to_owned(), "not reached".to_owned())
        };
        table.row([region.name.clone(), id, status]);
    }
    Some(table.render())
}

/// A deployment's groups. What no group has is no column: reverting, canaries, a deadline.
pub(crate) fn groups(deployment: &Deployment, clock: &Clock) -> String {
    let all = &deployment.task_groups;
    let reverts = all.values().any(|group| group.auto_revert);
    let canaries = all.values().any(|group| group.desired_canaries > 0);
    let deadline = all.values().any(|group| !group.progress_deadline.is_zero());
    let mut heading = vec!["Task Group"];
    heading.extend(reverts.then_some("Auto Revert"));
    heading.extend(canaries.then_some("Promoted"));
    heading.push("Desired");
    heading.extend(canaries.then_some("Canaries"));
    heading.extend(["Placed", "Healthy", "Unhealthy"]);
    heading.extend(deadline.then_some("Progress Deadline"));
    let mut table = Columns::new(&heading);
    for (name, group) in all {
        let of_canaries = |text: String| match group.desired_canaries {
            0 => "N/A".to_owned(),
            _ => text,
        };
        let mut cells = vec![name.clone()];
        cells.extend(reverts.then(|| group.auto_revert.to_string()));
        cells.extend(canaries.then(|| of_canaries(group.promoted.to_string())));
        cells.push(group.desired_total.to_string());
        let count = group.desired_canaries.to_string();
        cells.extend(canaries.then(|| of_canaries(count)));
        cells.extend([
            group.placed_allocs.to_string(),
            group.healthy_allocs.to_string(),
            group.unhealthy_allocs.to_string(),
        ]);
        cells.extend(deadline.then(|| clock.date_of(group.require_progress_by)));
        table.row(cells);
    }
    table.render()
}
