//! `/v1/scaling`: the policies of all jobs that are not stopped. They are read from the jobs.

use controlplane_state::{Snapshot, Table};
use protocol_api::scaling::{ListScalingPolicies, ReadScalingPolicy, ScalingPolicyStub};
use protocol_model::{Job, ScalingPolicy};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListScalingPolicies => list,
    ReadScalingPolicy => read,
];

async fn list(ask: &Ask) -> Answered {
    let of_job = ask.query.text("job");
    let of_type = ask.query.text("type").unwrap_or("");
    let namespaces = ask.namespaces();
    ask.read(&[Table::Jobs], |snapshot| {
        let wanted = jobs(snapshot).filter(|job| namespaces.contains(&job.namespace));
        let wanted = wanted.filter(|job| of_job.is_none_or(|id| job.id == id));
        let policies = wanted.flat_map(policies);
        let policies = policies.filter(|policy| policy.scaling_type.starts_with(of_type));
        let mut stubs: Vec<_> = policies.map(stub).collect();
        stubs.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(stubs)
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    let id = ask.parameter("id");
    ask.read(&[Table::Jobs], |snapshot| {
        let mut all = jobs(snapshot).flat_map(policies);
        let found = all.find(|policy| policy.id == id);
        let found = found.ok_or_else(|| HttpError::not_found("policy not found"));
        // A caller without rights learns nothing of which policies there are.
        ask.settle(found.as_ref().map_or("*", |policy| &policy.namespace))?;
        found
    })
    .await
}

fn jobs(snapshot: &Snapshot) -> impl Iterator<Item = &Job> {
    let jobs = snapshot.jobs().map(|(_, job)| &**job);
    jobs.filter(|job| !job.stop)
}

/// The policies of a job, with their ids and the job's indexes.
fn policies(job: &Job) -> impl Iterator<Item = ScalingPolicy> {
    let groups = job.task_groups.iter();
    let policies = groups.flat_map(|group| {
        let of_tasks = group.tasks.iter().flat_map(|task| &task.scaling_policies);
        group.scaling.iter().chain(of_tasks)
    });
    policies.map(|policy| {
        let mut policy = policy.clone();
        policy.id = policy.stable_id().to_string();
        policy.namespace.clone_from(&job.namespace);
        policy.create_index = job.create_index;
        policy.modify_index = job.job_modify_index;
        policy
    })
}

fn stub(policy: ScalingPolicy) -> ScalingPolicyStub {
    ScalingPolicyStub {
        id: policy.id,
        enabled: policy.enabled.unwrap_or(true),
        scaling_type: policy.scaling_type,
        target: policy.target,
        create_index: policy.create_index,
        modify_index: policy.modify_index,
    }
}
