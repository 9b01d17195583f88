//! When two jobs are the same specification.

use protocol_model::{JobStatus, SpecHash, UnixNanos, VersionTag};
use serde_json::json;

use crate::fixtures::{job, service};

#[test]
fn what_the_control_plane_fills_in_is_not_part_of_it() {
    let before = service(json!({}), json!({"Scaling": {"Max": 4}}), json!({}));
    let mut after = before.clone();
    after.status = JobStatus::Running;
    "since today".clone_into(&mut after.status_description);
    (after.stable, after.stop) = (true, true);
    (after.version, after.submit_time) = (7, UnixNanos(99));
    (
        after.create_index,
        after.modify_index,
        after.job_modify_index,
    ) = (1, 2, 3);
    after.version_tag = Some(VersionTag::default());
    after.task_groups[0]
        .scaling
        .as_mut()
        .expect("given")
        .modify_index = 5;
    assert_eq!(before.spec_hash(), after.spec_hash());
}

#[test]
fn what_runs_is_part_of_it() {
    let base = service(json!({}), json!({}), json!({}));
    let others = [
        service(json!({"Priority": 51}), json!({}), json!({})),
        service(json!({"Meta": {"a": "b"}}), json!({}), json!({})),
        service(json!({}), json!({"Count": 2}), json!({})),
        service(
            json!({}),
            json!({}),
            json!({"Config": {"command": "/bin/false"}}),
        ),
        service(json!({}), json!({}), json!({"KillTimeout": "6s"})),
    ];
    for other in &others {
        assert_ne!(base.spec_hash(), other.spec_hash(), "{other:?}");
    }
}

#[test]
fn what_is_left_out_is_the_same_as_its_default() {
    let group = json!({"Name": "web", "Tasks": [{"Name": "server", "Driver": "exec"}]});
    let short = job(json!({"ID": "example", "TaskGroups": [group]}));
    let mut full = short.clone();
    full.canonicalize();
    assert_ne!(short, full);
    assert_eq!(short.spec_hash(), full.spec_hash());
}

#[test]
fn it_does_not_change_from_build_to_build() {
    // Nodes and servers of different builds compare it: a change here is a change of the protocol.
    let frozen = "7d120ca4b4fba300e2145e7d5c48c500be758e336845645e3da19c154bc43958";
    let job = service(json!({}), json!({}), json!({"Env": {"B": "2", "A": "1"}}));
    assert_eq!(Ok(job.spec_hash()), frozen.parse::<SpecHash>());
}
