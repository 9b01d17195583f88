//! A node's whole thread: welcomed, told what to run, reporting, called, restarted, emptied.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, Job, TaskRunState};
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use serde_json::{Value, json};

use crate::fake_server::{Known, PATIENCE, next, text_of, write};
use crate::scene::{Scene, can_run};

pub(crate) const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

pub(crate) fn job(id: &str, driver: &str, config: &Value, more: Value) -> Arc<Job> {
    let mut task = json!({
        "Name": "main",
        "Driver": driver,
        "Config": config,
        "KillTimeout": 2_000_000_000_u64,
        "RestartPolicy": {"Attempts": 0, "Mode": "fail", "Interval": 1_000_000_000_u64, "Delay": 1_000_000_000_u64},
    });
    let Value::Object(more) = more else {
        panic!("no object")
    };
    task.as_object_mut().unwrap().extend(more);
    let job = json!({
        "ID": id, "Name": id, "Namespace": "default", "Type": "service", "Region": "global",
        "TaskGroups": [{"Name": "group", "Count": 1, "Tasks": [task]}],
    });
    Arc::new(serde_json::from_value(job).unwrap())
}

pub(crate) fn alloc(job: &Job, id: u128) -> Allocation {
    let json = json!({
        "ID": AllocId::from_u128(id), "Namespace": "default", "EvalID": uuid::Uuid::nil(),
        "Name": format!("{}.group[0]", job.id), "NodeID": uuid::Uuid::nil(), "JobID": job.id,
        "TaskGroup": "group", "SpecHash": job.spec_hash(),
        "AllocatedResources": {"Tasks": {"main": {
            "Cpu": {"CpuShares": 100}, "Memory": {"MemoryMB": 64}
        }}},
    });
    serde_json::from_value(json).unwrap()
}

pub(crate) fn stopped(mut alloc: Allocation) -> Allocation {
    alloc.desired_status = DesiredStatus::Stop;
    alloc
}

fn report(known: &Known, id: AllocId) -> Option<&AllocReport> {
    known.reports.get(&id)
}

pub(crate) fn is(known: &Known, id: AllocId, status: ClientStatus) -> bool {
    report(known, id).is_some_and(|report| report.client_status == status)
}

/// Polls what no message announces.
pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(PAUSE).await;
        }
    });
    waited.await.expect("it never happened");
}

/// Reads the task's output until it fits.
async fn output(scene: &Scene, id: AllocId, fits: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    let waited = tokio::time::timeout(PATIENCE, async {
        while !fits(&text) {
            tokio::time::sleep(PAUSE).await;
            text = scene.server.logs(id, "main", false).await;
        }
    });
    let in_time = waited.await.is_ok();
    assert!(in_time, "the output never fit: {text:?}");
    text
}

pub(crate) fn sh(script: &str) -> Value {
    json!({"command": "/bin/sh", "args": ["-c", script]})
}

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
    assert_eq!(scene.server.logs(id, "main", true).await, "bad\n");

    scene.server.want(stopped(alloc), &job);
    scene
        .server
        .until("complete", |known| is(known, id, ClientStatus::Complete))
        .await;
    assert_eq!(scene.server.logs(id, "main", false).await, expected);
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
    assert_eq!(scene.server.logs(id, "main", false).await, expected);
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

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_task_sees_its_template_and_can_be_entered() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let more = json!({"Templates": [{
        "EmbeddedTmpl": "echo I am {{ env \"NOMAD_ALLOC_NAME\" }} as $$ of $(id -un)\nexec sleep 1000\n",
        "DestPath": "local/run.sh", "Perms": "755",
    }]});
    let config = json!({"command": "/bin/sh", "args": ["local/run.sh"]});
    let job = job("inside", "exec", &config, more);
    let alloc = alloc(&job, 3);
    let id = alloc.id;
    scene.server.want(alloc.clone(), &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let expected = "I am inside.group[0] as 1 of nobody\n";
    output(&scene, id, |text| text == expected).await;

    let command = [
        "/bin/sh",
        "-c",
        "cat; echo $NOMAD_TASK_DIR; echo no >&2; exit 3",
    ];
    let request = v1::ExecRequest {
        task: "main".to_owned(),
        command: command.map(str::to_owned).to_vec(),
        tty: false,
    };
    let (mut writer, mut reader) = scene.server.open(id, Request::Exec(request)).await;
    let input = |input| v1::ExecInput { input: Some(input) };
    write(
        &mut writer,
        &input(v1::exec_input::Input::Stdin(b"hi\n".to_vec().into())),
    )
    .await;
    write(&mut writer, &input(v1::exec_input::Input::StdinClose(true))).await;
    let (mut out, mut err, mut code) = (Vec::new(), Vec::new(), None);
    loop {
        match next(&mut reader).await.unwrap() {
            Reply::Exec(output) => match output.output.unwrap() {
                v1::exec_output::Output::Stdout(bytes) => out.extend_from_slice(&bytes),
                v1::exec_output::Output::Stderr(bytes) => err.extend_from_slice(&bytes),
                v1::exec_output::Output::ExitCode(exit) => code = Some(exit),
            },
            Reply::Heartbeat(_) => {}
            Reply::End(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(String::from_utf8(out).unwrap(), "hi\n/local\n");
    assert_eq!((err.as_slice(), code), (b"no\n".as_slice(), Some(3)));

    files_and_stats(&scene, id).await;
    scene.server.want(stopped(alloc), &job);
    scene
        .server
        .until("complete", |known| is(known, id, ClientStatus::Complete))
        .await;
}

async fn files_and_stats(scene: &Scene, id: AllocId) {
    let path = "main/local/run.sh".to_owned();
    let stat = Request::FsStat(v1::FsStatRequest { path: path.clone() });
    let info = json_of(scene, id, stat).await;
    assert_eq!(
        (&info["Name"], &info["FileMode"]),
        (&json!("run.sh"), &json!("-rwxr-xr-x"))
    );
    let list = json_of(
        scene,
        id,
        Request::FsList(v1::FsListRequest {
            path: "/".to_owned(),
        }),
    )
    .await;
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["Name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["alloc", "main"]);
    let read = v1::FsReadRequest {
        path,
        offset: 0,
        limit: 9,
        ..v1::FsReadRequest::default()
    };
    let replies = scene.server.call(id, Request::FsRead(read)).await.unwrap();
    assert_eq!(text_of(&replies), "echo I am");
    for (path, status) in [
        ("main/secrets", 403),
        ("../../../etc/passwd", 400),
        ("main/none", 404),
    ] {
        let stat = Request::FsStat(v1::FsStatRequest {
            path: path.to_owned(),
        });
        assert_eq!(
            scene.server.call(id, stat).await.unwrap_err().status,
            status,
            "{path}"
        );
    }
    let stats = json_of(scene, id, Request::Stats(v1::StatsRequest::default())).await;
    assert!(
        stats["Tasks"]["main"]["ResourceUsage"]["MemoryStats"]["RSS"]
            .as_u64()
            .unwrap()
            > 0,
        "{stats}"
    );
    let host = json_of(scene, id, Request::HostStats(v1::HostStatsRequest {})).await;
    assert!(host["Memory"]["Total"].as_u64().unwrap() > 0);
}

async fn json_of(scene: &Scene, id: AllocId, request: Request) -> Value {
    let replies = scene.server.call(id, request).await.unwrap();
    match replies.as_slice() {
        [Reply::Json(json)] => serde_json::from_slice(json).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_fails_with_the_reason() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let cases = [
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
    ];
    for (number, driver, config, more, reason) in cases {
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
    json_of(&scene, id, Request::Restart(v1::RestartRequest::default())).await;
    let twice = |known: &Known| {
        report(known, id).is_some_and(|report| {
            let state = &report.task_states["main"];
            state.restarts == 1 && state.state == TaskRunState::Running
        })
    };
    scene.server.until("running again", twice).await;

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
async fn a_terminal_is_one_and_a_process_goes_with_its_caller() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let job = job("idle", "exec", &sh("exec sleep 1000"), json!({}));
    let alloc = alloc(&job, 40);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let script = "test -t 0 && test -t 1 && stty size; read x; echo got $x";
    let request = Request::Exec(v1::ExecRequest {
        task: "main".to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        tty: true,
    });
    let (mut writer, mut reader) = scene.server.open(id, request).await;
    let input = |input| v1::ExecInput { input: Some(input) };
    let size = v1::TtySize {
        height: 40,
        width: 123,
    };
    write(&mut writer, &input(v1::exec_input::Input::TtySize(size))).await;
    let typed = b"hello\n".to_vec().into();
    write(&mut writer, &input(v1::exec_input::Input::Stdin(typed))).await;
    let mut out = String::new();
    loop {
        match next(&mut reader).await.unwrap() {
            Reply::Exec(output) => match output.output.unwrap() {
                v1::exec_output::Output::Stdout(bytes) => {
                    out.push_str(&String::from_utf8_lossy(&bytes));
                }
                other => assert_eq!(other, v1::exec_output::Output::ExitCode(0)),
            },
            Reply::Heartbeat(_) => {}
            Reply::End(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(out.contains("got hello"), "{out}");

    a_process_goes_with_its_caller(&scene, id).await;
    let nothing = Request::Exec(v1::ExecRequest {
        task: "main".to_owned(),
        command: vec!["/no/such/program".to_owned()],
        tty: false,
    });
    let error = scene.server.call(id, nothing).await.unwrap_err();
    assert!(error.message.contains("/no/such/program"), "{error:?}");
}

async fn a_process_goes_with_its_caller(scene: &Scene, id: AllocId) {
    let inside = scene.cgroup_path().join(format!("tasks/{id}/main"));
    let entered = || {
        std::fs::read_dir(&inside)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("exec-"))
            .count()
    };
    let request = Request::Exec(v1::ExecRequest {
        task: "main".to_owned(),
        command: ["/bin/sleep", "1000"].map(str::to_owned).to_vec(),
        tty: false,
    });
    let (writer, reader) = scene.server.open(id, request).await;
    eventually(|| entered() > 0).await;
    drop((writer, reader));
    eventually(|| entered() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_task_has_the_network_and_the_volume_that_it_asked_for() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let script = "tail -n +3 /proc/net/dev | cut -d: -f1; echo kept > /data/file; exec sleep 1000";
    let more = json!({"VolumeMounts": [{"Volume": "disk", "Destination": "/data"}]});
    let mut job = Job::clone(&job("closed", "exec", &sh(script), more));
    let group = json!({
        "Networks": [{"Mode": "none"}],
        "Volumes": {"disk": {"Name": "disk", "Type": "host", "Source": "shared"}},
    });
    let mut whole = serde_json::to_value(&job.task_groups[0]).unwrap();
    let Value::Object(group) = group else { return };
    whole.as_object_mut().unwrap().extend(group);
    job.task_groups[0] = serde_json::from_value(whole).unwrap();
    let job = Arc::new(job);
    let alloc = alloc(&job, 50);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let kept = scene.directory.path().join("volume/file");
    eventually(|| std::fs::read_to_string(&kept).is_ok_and(|text| text == "kept\n")).await;
    let seen = output(&scene, id, |text| !text.is_empty()).await;
    assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["lo"]);
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
