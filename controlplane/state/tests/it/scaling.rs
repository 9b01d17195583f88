//! Scaling of groups and tags of versions.

use std::sync::Arc;

use controlplane_state::command::{JobRegister, JobScale, JobTag, Purge, TagChange};
use controlplane_state::{Command, Outcome, Refusal, ScaleRefusal, State};
use protocol_model::{Job, JobType, SCALING_EVENTS_MAX, ScalingEvent};

use crate::harness::{Harness, job};

fn scale(cluster: &Harness, web: &Job, count: u32) -> Command {
    let current = cluster.tables().job(&web.key()).expect("the job");
    let mut scaled = Job::clone(current);
    scaled.task_groups[0].count = Some(count);
    Command::JobScale(Box::new(JobScale {
        key: web.key(),
        group: scaled.task_groups[0].name.clone(),
        event: ScalingEvent {
            count: Some(i64::from(count)),
            ..ScalingEvent::default()
        },
        register: Some(JobRegister {
            spec: scaled.spec_hash(),
            enforce_index: Some(current.job_modify_index),
            job: Arc::new(scaled),
            eval: None,
            submission: None,
        }),
    }))
}

fn apply_tag(web: &Job, name: &str, version: Option<u64>) -> Command {
    let description = String::new();
    let change = TagChange::Apply {
        version,
        description,
    };
    let (key, name) = (web.key(), name.to_owned());
    Command::JobTag(JobTag { key, name, change })
}

#[test]
fn a_scale_from_another_version_is_refused() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let (first, second) = (scale(&cluster, &web, 3), scale(&cluster, &web, 4));
    cluster.done(first);
    let refused = cluster.apply(second).outcome;
    assert!(
        matches!(refused, Outcome::Refused(Refusal::JobModified { .. })),
        "{refused:?}"
    );
    let events = cluster.tables().scaling_events(&web.key()).expect("events");
    let kept: Vec<_> = events.values().flatten().map(|event| event.count).collect();
    assert_eq!(kept, [Some(3)]);
}

#[test]
fn events_outlive_versions_and_checkpoints_and_are_bounded() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    cluster.register(&web);
    for count in 2..30 {
        let command = scale(&cluster, &web, count);
        cluster.done(command);
    }
    let restored = State::restore(cluster.checkpoint().as_slice()).expect("a state");
    let events = restored
        .tables()
        .scaling_events(&web.key())
        .expect("events");
    let events = events.values().next().expect("a group");
    assert_eq!(events.len(), SCALING_EVENTS_MAX);
    assert_eq!((events[0].count, events[0].previous_count), (Some(29), 28));
    // They end with their job.
    cluster.deregister(&web.key(), Purge::Forget);
    cluster.register(&web);
    let events = cluster.tables().scaling_events(&web.key());
    assert_eq!(events.map(|it| it.len()), Some(0));
}

#[test]
fn a_group_that_is_not_there_is_not_scaled() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let note = JobScale {
        key: web.key(),
        group: "other".to_owned(),
        event: ScalingEvent::default(),
        register: None,
    };
    let refused = cluster.apply(Command::JobScale(Box::new(note))).outcome;
    let wanted = ScaleRefusal::UnknownGroup("other".to_owned());
    assert_eq!(refused, Outcome::Refused(Refusal::Scale(wanted)));
}

#[test]
fn a_tag_is_on_one_version_and_not_on_later_ones() {
    let mut cluster = Harness::new();
    let mut web = job("web", JobType::Service);
    cluster.register(&web);
    let applied = cluster.done(apply_tag(&web, "t", None));
    // The tag is no change of what is wanted: what waits for room goes on waiting.
    assert_eq!(applied.signals, []);
    cluster.done(apply_tag(&web, "t", Some(0)));
    web.priority = 70;
    cluster.register(&web);
    cluster.deregister(&web.key(), Purge::Keep);
    let tables = cluster.tables();
    let tagged: Vec<u64> = tables
        .job_versions(&web.key())
        .filter(|job| job.version_tag.is_some())
        .map(|job| job.version)
        .collect();
    assert_eq!(tagged, [0]);
    let refused = cluster.apply(apply_tag(&web, "t", Some(1))).outcome;
    let (key, name) = (web.key(), "t".to_owned());
    assert_eq!(refused, Outcome::Refused(Refusal::TagTaken { key, name }));
    assert!(!cluster.tables().job_is_collectable(&web.key()));
}
