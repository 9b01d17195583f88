//! Output and files that a caller reads or follows: heartbeats while nothing comes, and refusals.

use std::time::{Duration, Instant};

use protocol_model::{AllocId, ClientStatus};
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use serde_json::json;

use crate::fake_server::next;
use crate::jobs::{alloc, eventually, is, job, sh};
use crate::scene::{Scene, can_run};

/// A node with one task that prints a line and nothing more.
async fn quiet() -> (Scene, AllocId) {
    let scene = Scene::new();
    let job = job(
        "quiet",
        "raw_exec",
        &sh("echo begun; exec sleep 1000"),
        json!({}),
    );
    let alloc = alloc(&job, 1);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    (scene, id)
}

fn read(path: &str, follow: bool) -> Request {
    Request::FsRead(v1::FsReadRequest {
        path: path.to_owned(),
        follow,
        origin: v1::Origin::End.into(),
        ..v1::FsReadRequest::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_files_without_news_send_a_heartbeat_each_second() {
    if !can_run() {
        return;
    }
    let (scene, id) = quiet().await;
    // A log file is made with its first line.
    let output = scene.alloc_path(id).join("alloc/logs/main.stdout.0");
    eventually(|| std::fs::read(&output).is_ok_and(|bytes| bytes == b"begun\n")).await;
    let logs = Request::Logs(v1::LogsRequest {
        task: "main".to_owned(),
        follow: true,
        origin: v1::Origin::End.into(),
        ..v1::LogsRequest::default()
    });
    for request in [logs, read("alloc/logs/main.stdout.0", true)] {
        let begun = Instant::now();
        let (_writer, mut reader) = scene.server.open(id, request.clone()).await;
        for number in 0..3 {
            let reply = next(&mut reader).await;
            assert!(
                matches!(reply, Some(Reply::Heartbeat(_))),
                "{request:?}: {reply:?}"
            );
            let (least, most) = (number * 1000, number * 1000 + 900);
            let elapsed = begun.elapsed();
            assert!(
                (Duration::from_millis(least)..Duration::from_millis(most)).contains(&elapsed),
                "{request:?}: heartbeat {number} after {elapsed:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_cannot_be_read_are_the_callers_mistake() {
    if !can_run() {
        return;
    }
    let (scene, id) = quiet().await;
    let stat = |path: &str| {
        Request::FsStat(v1::FsStatRequest {
            path: path.to_owned(),
        })
    };
    let list = |path: &str| {
        Request::FsList(v1::FsListRequest {
            path: path.to_owned(),
        })
    };
    let long = "x".repeat(300);
    let status = async |request: Request| {
        let refused = scene.server.call(id, request.clone()).await;
        refused.expect_err(&format!("{request:?}")).status
    };
    for (request, expected) in [
        (stat("\0"), 400),
        (list("alloc/\0"), 400),
        (read("main/local/\0", false), 400),
        (stat(&long), 400),
        (read("main/local/none", true), 400),
        (read("main/local/none", false), 400),
        (read("main/local", false), 400),
        (stat("main/local/none"), 404),
        (list("main/local/none"), 404),
    ] {
        assert_eq!(status(request.clone()).await, expected, "{request:?}");
    }

    let logs = scene.alloc_path(id).join("alloc/logs");
    std::fs::rename(&logs, logs.with_file_name("moved")).unwrap();
    let output = || {
        Request::Logs(v1::LogsRequest {
            task: "main".to_owned(),
            ..v1::LogsRequest::default()
        })
    };
    std::fs::write(&logs, "").unwrap();
    assert_eq!(status(output()).await, 400, "a file");
    std::fs::remove_file(&logs).unwrap();
    std::os::unix::fs::symlink("/etc", &logs).unwrap();
    assert_eq!(status(output()).await, 400, "a link out of the directory");
}
