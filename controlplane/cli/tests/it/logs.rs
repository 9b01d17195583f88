//! `alloc logs`: how much of the end is shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const ID: &str = "abc10000-0000-4000-8000-000000000001";
const ALLOC: &str = "GET /v1/allocation/abc10000-0000-4000-8000-000000000001";
const STAT: &str = "GET /v1/client/fs/stat/abc10000-0000-4000-8000-000000000001";
const READ: &str = "GET /v1/client/fs/readat/abc10000-0000-4000-8000-000000000001";
const LOGS: &str = "GET /v1/client/fs/logs/abc10000-0000-4000-8000-000000000001";

/// A piece of the output, in the file of this number.
fn frame(file: u32, offset: usize, data: &str) -> String {
    let name = format!("server.stdout.{file}");
    json!({ "Data": STANDARD.encode(data), "File": name, "Offset": offset }).to_string()
}

/// What `alloc logs` shows of these answers, and what it asked.
fn logs(flags: &[&str], answers: &[String]) -> std::io::Result<(String, Vec<String>)> {
    let answers = answers.iter().map(|body| (LOGS, body.clone()));
    shown(&[&["alloc", "logs"], flags, &[ID]].concat(), answers, LOGS)
}

/// What a command shows of these answers, and what it asked of one path.
fn shown(
    words: &[&str],
    answers: impl Iterator<Item = (&'static str, String)>,
    of: &str,
) -> std::io::Result<(String, Vec<String>)> {
    let alloc = json!({
        "ID": ID, "EvalID": ID, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": ID, "JobID": "web", "TaskGroup": "web", "TaskStates": { "server": {} },
    });
    let mut canned = vec![Canned {
        request: ALLOC,
        status: 200,
        body: alloc.to_string(),
    }];
    canned.extend(answers.map(|(request, body)| Canned {
        request,
        status: 200,
        body,
    }));
    let server = FakeServer::start(canned)?;
    let folder = tempfile::tempdir()?;
    let arguments = [words, &["-address", &server.address]].concat();
    let output = drover(folder.path(), &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let asked = server.asked().into_iter();
    let asked = asked.filter(|line| line.starts_with(of)).collect();
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

#[test]
fn long_lines_of_a_file_are_as_many_as_short_ones() -> std::io::Result<()> {
    let line = "x".repeat(600);
    let all = format!("first\n{line}1\n{line}2\n");
    let last = all[all.len() - 1024..].to_owned();
    let info = json!({ "IsDir": false, "Size": all.len() }).to_string();
    let answers = [(STAT, info), (READ, last), (READ, all.clone())];
    let words = ["alloc", "fs", "-tail", "-n", "2", ID, "a.txt"];
    let (shown, asked) = shown(&words, answers.into_iter(), READ)?;
    assert_eq!(shown, format!("{line}1\n{line}2\n"));
    let offset = format!("offset={}", all.len() - 1024);
    assert!(asked[0].contains(&offset), "{asked:?}");
    assert!(asked[1].contains("offset=0"), "{asked:?}");
    Ok(())
}
