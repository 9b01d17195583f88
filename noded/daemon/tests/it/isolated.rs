//! Tasks of the `exec` driver: what they see, who may join them, and what they share.

use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, Job, TaskRunState, TaskState};
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use serde_json::{Value, json};

use crate::fake_server::{PATIENCE, next, text_of, write};
use crate::jobs::{alloc, eventually, is, job, json_of, output, report, sh, stopped};
use crate::scene::{Scene, can_run};

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
    assert!(host["Updates"]["Waiting"].is_u64(), "{host}");
    assert!(host["Updates"]["InFlight"].is_u64(), "{host}");
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

    a_process_is_fed_while_it_is_read(&scene, id).await;
    a_process_goes_with_its_caller(&scene, id).await;
    let nothing = Request::Exec(v1::ExecRequest {
        task: "main".to_owned(),
        command: vec!["/no/such/program".to_owned()],
        tty: false,
    });
    let error = scene.server.call(id, nothing).await.unwrap_err();
    assert!(error.message.contains("/no/such/program"), "{error:?}");
}

/// It reads no more before its output is read: more goes through it than all pipes on the way hold.
async fn a_process_is_fed_while_it_is_read(scene: &Scene, id: AllocId) {
    const PIECE: usize = 32 * 1024;
    const PIECES: usize = 128;
    let request = Request::Exec(v1::ExecRequest {
        task: "main".to_owned(),
        command: vec!["/bin/cat".to_owned()],
        tty: false,
    });
    let (mut writer, mut reader) = scene.server.open(id, request).await;
    let input = |input| v1::ExecInput { input: Some(input) };
    let feeding = async {
        for _ in 0..PIECES {
            let piece = vec![b'x'; PIECE].into();
            write(&mut writer, &input(v1::exec_input::Input::Stdin(piece))).await;
        }
        write(&mut writer, &input(v1::exec_input::Input::StdinClose(true))).await;
    };
    let reading = async {
        let mut bytes = 0;
        loop {
            match next(&mut reader).await.unwrap() {
                Reply::Exec(output) => match output.output.unwrap() {
                    v1::exec_output::Output::Stdout(piece) => bytes += piece.len(),
                    other => assert_eq!(other, v1::exec_output::Output::ExitCode(0)),
                },
                Reply::Heartbeat(_) => {}
                Reply::End(_) => return bytes,
                other => panic!("{other:?}"),
            }
        }
    };
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(feeding, reading) });
    let ((), bytes) = both.await.expect("everything came through");
    assert_eq!(bytes, PIECE * PIECES);
}

async fn a_process_goes_with_its_caller(scene: &Scene, id: AllocId) {
    let inside = scene.cgroup_path().join(format!("tasks/{id}/main.1"));
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

/// With a second task, and no network.
fn closed(job: &Job) -> Arc<Job> {
    let mut job = Job::clone(job);
    let group = &mut job.task_groups[0];
    let mut second = group.tasks[0].clone();
    second.name = "second".to_owned();
    group.tasks.push(second);
    group.networks = serde_json::from_value(json!([{"Mode": "none"}])).unwrap();
    Arc::new(job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_another_noded_starts_is_in_the_network_of_the_first() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let script = "readlink /proc/self/ns/net; exec sleep 1000";
    let job = closed(&job("closed", "exec", &sh(script), json!({})));
    let alloc = alloc(&job, 51);
    let id = alloc.id;
    scene.server.want(alloc.clone(), &job);
    let known = scene
        .server
        .until("running", |known| {
            let runs = |state: &TaskState| state.state == TaskRunState::Running;
            report(known, id)
                .is_some_and(|it| it.task_states.len() == 2 && it.task_states.values().all(runs))
        })
        .await;
    let before = output(&scene, id, |text| text.ends_with('\n')).await;
    scene.kill();
    scene.start();
    let synced = known.synced.len();
    scene
        .server
        .until("another sync", |known| known.synced.len() > synced)
        .await;
    // The other one runs on, and its namespace with it: no new one could look the same.
    let restart = v1::RestartRequest {
        task: "main".to_owned(),
        all_tasks: false,
    };
    json_of(&scene, id, Request::Restart(restart)).await;
    let twice = before.repeat(2);
    output(&scene, id, |text| text.len() >= twice.len()).await;
    assert_eq!(scene.server.logs(id, "main", false).await, twice);
    let pins = scene.directory.path().join("run/networks");
    assert!(pins.join(id.to_string()).exists());
    scene.server.want(stopped(alloc), &job);
    scene
        .server
        .until("complete", |known| is(known, id, ClientStatus::Complete))
        .await;
    eventually(|| !pins.join(id.to_string()).exists() && scene.mounts().is_empty()).await;
    assert!(scene.stop());
    assert_eq!(scene.end_custody(), (true, String::new()));
    assert!(!pins.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_hides_the_daemons_files_and_has_the_node_s_limit() {
    if !can_run() {
        return;
    }
    let scene = Scene::on_disk(|data| std::fs::remove_dir(data).unwrap());
    scene
        .server
        .until("a session", |known| !known.synced.is_empty())
        .await;
    let base = scene.directory.path();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(base, open).unwrap();
    for name in ["open", "closed"] {
        std::fs::create_dir(base.join(name)).unwrap();
        std::fs::write(base.join(name).join("file"), name).unwrap();
    }
    let more = format!(
        "chroot_paths = [\"/bin\", \"/etc\", \"/lib\", \"/lib64\", \"/usr\", {base:?}]\n\
         masked_paths = [\"{}\"]\ntask_open_files = 777\n",
        base.join("closed").display(),
    );
    scene.configure(&more);
    scene.reload();
    eventually(|| scene.log().contains("the configuration was reloaded")).await;
    let script = format!(
        "cd {}; cat open/file; echo; wc -c <noded.hcl; ls closed data/alloc data/node run; \
         wc -c <tls/node.pem; ls -A /etc/drover 2>/dev/null; ulimit -Sn; echo end; sleep 1000",
        base.display()
    );
    let job = job("curious", "exec", &sh(&script), json!({}));
    let alloc = alloc(&job, 60);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let text = output(&scene, id, |text| text.ends_with("end\n")).await;
    let expected = "open\n0\nclosed:\n\ndata/alloc:\n\ndata/node:\n\nrun:\n0\n777\nend\n";
    assert_eq!(text, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_ids_of_the_host_are_off_and_the_event_names_the_key() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let config = json!({"command": "/bin/true", "pid_mode": "host"});
    let job = job("peek", "exec", &config, json!({}));
    let alloc = alloc(&job, 61);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let known = scene
        .server
        .until("failed", |known| is(known, id, ClientStatus::Failed))
        .await;
    let states = format!("{:?}", report(&known, id).unwrap().task_states);
    assert!(states.contains("allow_host_pid_mode = true"), "{states}");
}
