//! `alloc logs`: how much of the end is shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const ID: &str = "abc10000-0000-4000-8000-000000000001";
const ALLOC: &str = "GET /v1/allocation/abc10000-0000-4000-8000-000000000001";
const LOGS: &str = "GET /v1/client/fs/logs/abc10000-0000-4000-8000-000000000001";

/// A piece of the output, in the file of this number.
fn frame(file: u32, offset: usize, data: &str) -> String {
    let name = format!("server.stdout.{file}");
    json!({ "Data": STANDARD.encode(data), "File": name, "Offset": offset }).to_string()
}

/// What `alloc logs` shows of these answers, and what it asked.
fn logs(flags: &[&str], answers: &[String]) -> std::io::Result<(String, Vec<String>)> {
    let alloc = json!({
        "ID": ID, "EvalID": ID, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": ID, "JobID": "web", "TaskGroup": "web", "TaskStates": { "server": {} },
    });
    let mut canned = vec![Canned {
        request: ALLOC,
        status: 200,
        body: alloc.to_string(),
    }];
    canned.extend(answers.iter().map(|body| Canned {
        request: LOGS,
        status: 200,
        body: body.clone(),
    }));
    let server = FakeServer::start(canned)?;
    let folder = tempfile::tempdir()?;
    let arguments = [
        &["alloc", "logs", "-address", &server.address],
        flags,
        &[ID],
    ]
    .concat();
    let output = drover(folder.path(), &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let asked = server.asked().into_iter();
    let asked = asked.filter(|line| line.starts_with(LOGS)).collect();
    Ok((stdout(&output), asked))
}

#[test]
fn what_is_followed_begins_with_exactly_the_lines_that_were_asked_for() -> std::io::Result<()> {
    let end = [frame(0, 0, "one\ntwo\n"), frame(1, 0, "three\nfour\n")].concat();
    // Another line came meanwhile, in the same piece as the last one before, and one comes later.
    let follow = [
        frame(0, 0, "one\ntwo\n"),
        "{}".to_owned(),
        frame(1, 0, "three\n"),
        frame(1, 6, "four\nfive\n"),
        frame(2, 0, "six\n"),
    ];
    let (shown, asked) = logs(&["-f", "-n", "3"], &[end, follow.concat()])?;
    assert_eq!(shown, "two\nthree\nfour\nfive\nsix\n");
    assert!(asked[1].contains("follow=true"), "{asked:?}");
    Ok(())
}

#[test]
fn output_that_begins_later_is_followed_from_its_beginning() -> std::io::Result<()> {
    let (shown, _) = logs(&["-f", "-tail"], &[String::new(), frame(0, 0, "one\n")])?;
    assert_eq!(shown, "one\n");
    Ok(())
}

#[test]
fn long_lines_are_as_many_as_short_ones() -> std::io::Result<()> {
    let line = "x".repeat(600);
    let all = format!("first\n{line}1\n{line}2\n");
    let first = all.len() - 1024;
    let answers = [frame(0, first, &all[first..]), frame(0, 0, &all)];
    let (shown, asked) = logs(&["-n", "2"], &answers)?;
    assert_eq!(shown, format!("{line}1\n{line}2\n"));
    assert!(asked[0].contains("offset=1024"), "{asked:?}");
    assert!(asked[1].contains("offset=4096"), "{asked:?}");
    Ok(())
}
