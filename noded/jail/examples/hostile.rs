//! A child that is not confined and misbehaves as its request says. Only for tests of noded: a
//! child that was taken over would do the same.
//!
//! `hostile render < REQUEST`: the template's text is `burn`, `allocate`, `sleep`, `flood`, `torn`,
//! `lines` or `leave`. `hostile fetch < REQUEST` leaves a process that is in another session.

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use noded_jail::confine::limit;
use noded_jail::{Fetch, Progress, Render, Rendering, Report, Verb, Work, frame};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("fetch") {
        return fetch();
    }
    let limits = Render::VERB.limits();
    let content = frame::read(&mut std::io::stdin().lock(), limits.request_bytes);
    let content = content.expect("readable").expect("a request");
    let request: Render = frame::decode(&content).expect("a request");
    let mut progress = Progress::default();
    match request.text.as_str() {
        "burn" => {
            limit(&Verb::Render.limits()).expect("limits");
            loop {
                black_box(0);
            }
        }
        "allocate" => {
            limit(&Verb::Render.limits()).expect("limits");
            black_box(vec![1_u8; 300 * 1024 * 1024]);
        }
        "sleep" => std::thread::sleep(Duration::from_secs(600)),
        "flood" => loop {
            send(&Report::Progress("x".repeat(1024)));
        },
        "torn" => {
            std::io::stdout()
                .write_all(&[9, 0, 0, 0, 1])
                .expect("a reader");
        }
        "lines" => {
            for number in 0..100 {
                progress.send(&format!("line {number}"));
                std::thread::sleep(Duration::from_millis(10));
            }
            send(&Report::Done(Rendering::Rendered("done".to_owned())));
        }
        "leave" => {
            let mut left = Command::new("/bin/sleep");
            let mut left = left.arg("613").spawn().expect("a process");
            send(&Report::Done(Rendering::Rendered("done".to_owned())));
            left.wait().expect("its end");
        }
        other => panic!("unknown misbehaviour {other:?}"),
    }
}

/// Leaves a process that is in another session, and stays where the source says so.
fn fetch() {
    let limits = Verb::Fetch.limits();
    let content = frame::read(&mut std::io::stdin().lock(), limits.request_bytes);
    let content = content.expect("readable").expect("a request");
    let request: Fetch = frame::decode(&content).expect("a request");
    limit(&limits).expect("limits");
    let mut left = Command::new("/usr/bin/setsid");
    let status = left.args(["--fork", "/bin/sleep", "613"]).status();
    assert!(status.expect("a process").success());
    if request.request.source.contains("stay") {
        std::thread::sleep(Duration::from_secs(600));
    }
    send(&Report::Failed("it left a process".to_owned()));
}

fn send(report: &Report<Rendering>) {
    let bytes = frame::encode(report, Verb::Render.limits().answer_bytes).expect("a frame");
    let mut output = std::io::stdout().lock();
    output.write_all(&bytes).expect("a reader");
    output.flush().expect("a reader");
}
