//! The deployment that is made with a version of a job of several regions.

use controlplane_state::command::Purge;
use protocol_model::{
    Deployment, DeploymentStatus, Job, JobType, Multiregion, MultiregionRegion, UpdateStrategy,
};

use crate::harness::{Harness, job};

fn in_regions(job_type: JobType) -> Job {
    let mut job = job("web", job_type);
    job.multiregion = Some(Multiregion {
        strategy: None,
        regions: vec![MultiregionRegion {
            name: "global".to_owned(),
            ..MultiregionRegion::default()
        }],
    });
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(1),
        ..UpdateStrategy::default()
    });
    job
}

fn deployments(cluster: &Harness) -> Vec<Deployment> {
    let all = cluster.tables().deployments();
    let mut all: Vec<Deployment> = all.map(|it| Deployment::clone(it)).collect();
    all.sort_by_key(|it| it.job_version);
    all
}

#[test]
fn a_version_for_several_regions_has_its_deployment_in_the_same_entry() {
    let mut cluster = Harness::new();
    let mut web = in_regions(JobType::Service);
    cluster.register(&web);
    let stored = cluster.tables().job(&web.key()).expect("the job").clone();
    let [first] = &deployments(&cluster)[..] else {
        panic!("one deployment")
    };
    assert_eq!(first.status, DeploymentStatus::Initializing);
    assert_eq!(first.status_description, Deployment::PENDING_FOR_PEER);
    assert!(first.is_multiregion && first.task_groups.is_empty());
    assert_eq!(first.create_index, stored.create_index);
    assert_eq!(
        (
            first.job_version,
            first.job_create_index,
            first.job_modify_index
        ),
        (0, stored.create_index, stored.modify_index)
    );
    // The same again is no version, another priority is one, a stop needs none.
    cluster.register(&web);
    assert_eq!(deployments(&cluster).len(), 1);
    web.priority = 70;
    cluster.register(&web);
    assert_eq!(deployments(&cluster)[1].job_version, 1);
    cluster.deregister(&web.key(), Purge::Keep);
    assert_eq!(deployments(&cluster).len(), 2);
}

#[test]
fn job_types_without_deployments_get_none_with_their_version() {
    let mut all_at_once = in_regions(JobType::Service);
    let update = all_at_once.task_groups[0].update.as_mut();
    update.expect("it has one").max_parallel = Some(0);
    let batch = in_regions(JobType::Batch);
    for web in [all_at_once, batch, in_regions(JobType::System)] {
        let mut cluster = Harness::new();
        cluster.register(&web);
        assert!(deployments(&cluster).is_empty(), "{}", web.job_type);
    }
}
