//! A node's whole thread: welcomed, told what to run, reporting, called, restarted, emptied.

use std::path::{Path, PathBuf};

use protocol_model::{AllocId, ClientStatus, TaskRunState};
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use serde_json::{Value, json};

use crate::fake_server::{Known, next};
use crate::jobs::{alloc, errors, eventually, is, job, json_of, output, report, sh, stopped};
use crate::scene::{Scene, can_run};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_is_read_back_and_stops() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let known = scene
        .server
        .until("a sync", |known| known.synced.len() == 1)
        .await;
    let hello = &known.hellos[0];
    assert_eq!(hello.join_token, "let me in");
    let facts: protocol_model::Node =
        serde_json::from_slice(&hello.facts.as_ref().unwrap().json).unwrap();
    assert!(facts.drivers["raw_exec"].healthy);

    let script = "echo out of $NOMAD_JOB_ID; echo bad >&2; pwd; exec sleep 1000";
    let job = job("web", "raw_exec", &sh(script), json!({}));
    let alloc = alloc(&job, 1);
    let id = alloc.id;
    scene.server.want(alloc.clone(), &job);
    let known = scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let state = &report(&known, id).unwrap().task_states["main"];
    assert_eq!(state.state, TaskRunState::Running);
    assert!(known.index <= known.watch_acked || known.watch_acked > 0);

    let directory = scene.alloc_path(id).join("main");
    let expected = format!("out of web\n{}\n", directory.display());
    let follow = v1::LogsRequest {
        task: "main".to_owned(),
        follow: true,
        ..v1::LogsRequest::default()
    };
    let (_writer, mut reader) = scene.server.open(id, Request::Logs(follow)).await;
    let mut followed = String::new();
    while followed.len() < expected.len() {
        match next(&mut reader).await.unwrap() {
            Reply::Chunk(chunk) => followed.push_str(std::str::from_utf8(&chunk.data).unwrap()),
            Reply::Heartbeat(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(followed, expected);
    errors(&scene, id, |text| text == "bad\n").await;

    scene.server.want(stopped(alloc), &job);
    scene
        .server
        .until("complete", |known| is(known, id, ClientStatus::Complete))
        .await;
    output(&scene, id, |text| text == expected).await;
    scene.server.forget(id);
    eventually(|| !scene.alloc_path(id).exists()).await;
    assert!(scene.end_custody().1.contains("noded is running"));
    assert!(scene.stop(), "noded ended badly");
    assert_eq!(scene.end_custody(), (true, String::new()));
    assert!(scene.custodians().is_empty());
    assert!(!scene.cgroup_path().exists());
    assert_eq!(scene.end_custody(), (true, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_outlive_noded_and_no_output_is_lost() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let script = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.05; done; exit 7";
    let job = job("long", "raw_exec", &sh(script), json!({}));
    let alloc = alloc(&job, 2);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let known = scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let started = report(&known, id).unwrap().task_states["main"].started_at;
    for _ in 0..3 {
        let synced = scene.server.known().synced.len();
        scene.kill();
        scene.start();
        scene
            .server
            .until("another sync", |known| known.synced.len() > synced)
            .await;
    }
    let known = scene
        .server
        .until("failed", |known| is(known, id, ClientStatus::Failed))
        .await;
    let state = &report(&known, id).unwrap().task_states["main"];
    assert_eq!(state.started_at, started, "it was started again");
    assert_eq!(state.restarts, 0);
    assert!(
        state.events.iter().any(|event| event.exit_code == 7),
        "{:?}",
        state.events
    );
    let expected: String = (0..40).map(|number| format!("line {number}\n")).collect();
    output(&scene, id, |text| text == expected).await;
    assert!(
        known
            .hellos
            .iter()
            .skip(1)
            .all(|hello| hello.daemon_restarted)
    );
    assert!(
        known
            .synced
            .iter()
            .skip(1)
            .all(|synced| synced.contains(&id))
    );
    eventually(|| scene.mounts().is_empty()).await;
    eventually(|| !scene.cgroup_path().join(format!("tasks/{id}")).exists()).await;
    assert!(scene.stop());
    assert_eq!(scene.end_custody(), (true, String::new()));
    assert!(scene.mounts().is_empty());
}

/// Number, driver, configuration, what else the task says, and what its end has to say.
type Misfit = (u128, &'static str, Value, Value, &'static str);

fn misfits() -> Vec<Misfit> {
    vec![
        (
            10,
            "raw_exec",
            json!({"command": "/no/such/program"}),
            json!({}),
            "/no/such/program",
        ),
        (
            11,
            "raw_exec",
            json!({"command": "true", "image": "x"}),
            json!({}),
            "image",
        ),
        (
            12,
            "exec",
            json!({"command": "true"}),
            json!({"User": "no-such-user"}),
            "no-such-user",
        ),
        (
            13,
            "exec",
            json!({"command": "true"}),
            json!({"User": "root"}),
            "root",
        ),
        (
            14,
            "raw_exec",
            json!({"command": "true"}),
            json!({"Templates": [{"EmbeddedTmpl": "{{ key \"a\" }}", "DestPath": "local/x"}]}),
            "key",
        ),
        (
            15,
            "raw_exec",
            json!({"command": "true"}),
            json!({"Templates": [{"EmbeddedTmpl": "a", "DestPath": "../../../x"}]}),
            "leads out",
        ),
        (
            16,
            "raw_exec",
            json!({"command": "true"}),
            json!({"KillSignal": "SIGNOPE"}),
            "SIGNOPE",
        ),
        (
            17,
            "exec",
            json!({"command": "true"}),
            json!({"Templates": [{"EmbeddedTmpl": "a", "DestPath": "/etc/own.conf"}]}),
            "/etc is mounted over it",
        ),
        (
            18,
            "raw_exec",
            json!({"command": "true", "work_dir": "/no/such/directory"}),
            json!({}),
            "step 10 (working directory: /no/such/directory): No such file",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_fails_with_the_reason() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    for (number, driver, config, more, reason) in misfits() {
        let job = job(&format!("job-{number}"), driver, &config, more);
        let alloc = alloc(&job, number);
        let id = alloc.id;
        scene.server.want(alloc, &job);
        let known = scene
            .server
            .until(reason, |known| is(known, id, ClientStatus::Failed))
            .await;
        let state = &report(&known, id).unwrap().task_states["main"];
        let said = state
            .events
            .iter()
            .any(|event| event.display_message.contains(reason));
        assert!(said, "{reason}: {:#?}", state.events);
    }
}

/// cgroups in one another, more than are followed when one is removed; the outermost first.
fn nested(beneath: &Path) -> Vec<PathBuf> {
    let mut at = beneath.to_owned();
    let mut made = Vec::new();
    for _ in 0..40 {
        at.push("n");
        std::fs::create_dir(&at).unwrap();
        made.push(at.clone());
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_and_signal_reach_the_task_and_mock_tasks_need_no_process() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let script = "trap 'echo got it' HUP; echo ready; while :; do sleep 0.05; done";
    let job_run = job("signals", "raw_exec", &sh(script), json!({}));
    let wanted = alloc(&job_run, 20);
    let id = wanted.id;
    scene.server.want(wanted, &job_run);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    output(&scene, id, |text| text.contains("ready")).await;
    let signal = v1::SignalRequest {
        task: "main".to_owned(),
        signal: "SIGHUP".to_owned(),
    };
    json_of(&scene, id, Request::Signal(signal)).await;
    output(&scene, id, |text| text.contains("got it")).await;
    let [first, second] =
        [1, 2].map(|run| scene.cgroup_path().join(format!("tasks/{id}/main.{run}")));
    let left = nested(&first);
    json_of(&scene, id, Request::Restart(v1::RestartRequest::default())).await;
    let twice = |known: &Known| {
        report(known, id).is_some_and(|report| {
            let state = &report.task_states["main"];
            state.restarts == 1 && state.state == TaskRunState::Running
        })
    };
    scene.server.until("running again", twice).await;
    // What cannot be removed of the run before is in nobody's way.
    assert!(first.exists() && second.exists());
    left.iter()
        .rev()
        .for_each(|left| std::fs::remove_dir(left).unwrap());

    let mock = job(
        "mock",
        "mock_driver",
        &json!({"run_for": "50ms", "exit_code": 0}),
        json!({}),
    );
    let mocked = alloc(&mock, 21);
    let mock_id = mocked.id;
    scene.server.want(mocked, &mock);
    scene
        .server
        .until("the mock ends", |known| {
            report(known, mock_id).is_some_and(|report| {
                report
                    .task_states
                    .get("main")
                    .is_some_and(|task| task.finished_at.is_some() || task.restarts > 0)
            })
        })
        .await;
    let unknown = Request::Stats(v1::StatsRequest::default());
    assert_eq!(
        scene
            .server
            .call(AllocId::from_u128(99), unknown)
            .await
            .unwrap_err()
            .status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_the_death_of_keeper_and_pump() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let script = "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); sleep 0.02; done";
    let job = job("tough", "raw_exec", &sh(script), json!({}));
    let alloc = alloc(&job, 30);
    let id = alloc.id;
    scene.server.want(alloc.clone(), &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let before = scene.custodians();
    assert!(before.len() >= 2, "{before:?}");
    for pid in before {
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let length = scene.server.logs(id, "main", false).await.len();
    output(&scene, id, |text| text.len() >= length + 300).await;
    let known = scene.server.known();
    assert!(
        is(&known, id, ClientStatus::Running),
        "{:?}",
        report(&known, id)
    );
    scene.server.want(stopped(alloc), &job);
    scene
        .server
        .until("it ends", |known| {
            report(known, id).is_some_and(AllocReport::is_terminal)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_what_is_wanted_runs_again() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let script = "echo up; grep -c $NOMAD_SECRETS_DIR /proc/self/mounts; exec sleep 1000";
    let job = job("again", "raw_exec", &sh(script), json!({}));
    let alloc = alloc(&job, 60);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let known = scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let synced = known.synced.len();
    // What is still in a pipe goes with the host.
    output(&scene, id, |text| text == "up\n1\n").await;
    scene.lose_everything_but_the_disk();
    scene.start();
    scene
        .server
        .until("another sync", |known| known.synced.len() > synced)
        .await;
    output(&scene, id, |text| text == "up\n1\nup\n1\n").await;
    scene
        .server
        .until("running again", |known| {
            report(known, id)
                .is_some_and(|report| report.task_states["main"].state == TaskRunState::Running)
        })
        .await;
}
