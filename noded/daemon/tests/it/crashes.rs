//! noded killed while allocations come, are stopped and are forgotten.

use std::path::Path;

use protocol_model::ClientStatus;
use serde_json::json;

use crate::jobs::{alloc, eventually, is, job, sh, stopped};
use crate::scene::{Scene, can_run};

/// One job of each round runs on, one is stopped, one is forgotten; noded is killed right after it
/// was told, and again on its way up.
const ROUNDS: u128 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn stops_and_removals_survive_kill_9_at_every_step() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let web = job("web", "raw_exec", &sh("exec sleep 1000"), json!({}));
    let of_round = |round: u128| [0, 1, 2].map(|part| alloc(&web, 100 + round * 3 + part));
    for round in 0..ROUNDS {
        for alloc in of_round(round) {
            scene.server.want(alloc, &web);
        }
        let [_, stops, goes] = of_round(round);
        if round % 2 == 0 {
            scene
                .server
                .until("the round runs", |known| {
                    of_round(round)
                        .iter()
                        .all(|alloc| is(known, alloc.id, ClientStatus::Running))
                })
                .await;
        }
        let index = scene.server.known().watch_acked;
        scene.server.want(stopped(stops), &web);
        scene.server.forget(goes.id);
        if round % 2 == 1 {
            scene
                .server
                .until("it heard of the stop", |known| known.watch_acked > index)
                .await;
        }
        scene.kill();
        scene.start();
        eventually(|| scene.log().matches("noded starts").count() as u128 >= 2 * round + 2).await;
        scene.kill();
        scene.start();
        let starts = 2 * round + 3;
        eventually(|| scene.log().matches("noded starts").count() as u128 >= starts).await;
    }
    let all: Vec<_> = (0..ROUNDS).map(of_round).collect();
    scene
        .server
        .until("everything is as it is wanted", |known| {
            all.iter().all(|[runs, stops, _]| {
                is(known, runs.id, ClientStatus::Running)
                    && is(known, stops.id, ClientStatus::Complete)
            })
        })
        .await;
    for [runs, stops, goes] in &all {
        eventually(|| !scene.alloc_path(goes.id).exists()).await;
        let cgroup = |id| scene.cgroup_path().join(format!("tasks/{id}"));
        eventually(|| !cgroup(stops.id).exists()).await;
        eventually(|| !cgroup(goes.id).exists()).await;
        assert!(cgroup(runs.id).exists());
        let report = &scene.server.known().reports[&runs.id];
        assert_eq!(
            report.task_states["main"].restarts, 0,
            "it was not disturbed"
        );
    }
    // Secrets of what runs, and of nothing else.
    eventually(|| scene.mounts().len() == all.len()).await;
}

/// Flips a bit in every specification that the journal holds; returns how many there are.
fn damage_specs(journal: &Path) -> usize {
    const KIND: &[u8] = br#""kind":"spec""#;
    let mut bytes = std::fs::read(journal).unwrap();
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(KIND))
        .collect();
    for at in &places {
        bytes[at + KIND.len() + 20] ^= 1;
    }
    std::fs::write(journal, bytes).unwrap();
    places.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_specification_in_the_journal_is_asked_of_a_server() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let web = job("web", "raw_exec", &sh("exec sleep 1000"), json!({}));
    let wanted = alloc(&web, 200);
    let id = wanted.id;
    scene.server.want(wanted.clone(), &web);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    scene.kill();
    let acked = scene.server.known().watch_acked;
    assert_eq!(damage_specs(&scene.data().join("node/journal")), 1);
    scene.start();
    scene
        .server
        .until("it has the specification", |known| {
            assert!(is(known, id, ClientStatus::Running), "it never fails");
            known.watch_acked > acked
        })
        .await;
    assert!(
        scene
            .log()
            .contains("the journal has lost job specifications")
    );
    assert_eq!(
        scene.server.known().reports[&id].task_states["main"].restarts,
        0
    );
    scene.server.want(stopped(wanted), &web);
    scene
        .server
        .until("stopped", |known| is(known, id, ClientStatus::Complete))
        .await;
    scene.server.forget(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_connection_to_the_only_server_leaves_the_first_alone() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let server = &scene.server;
    server
        .until("its session", |known| {
            known.heartbeats > 3 && known.connections == 1
        })
        .await;
    server.answer_heartbeats(false);
    server
        .until("another connection", |known| known.connections == 2)
        .await;
    assert_eq!(server.standing(), 2);
    server.answer_heartbeats(true);
    let now = server.known().heartbeats;
    server
        .until("it goes on", |known| known.heartbeats > now + 3)
        .await;
}
