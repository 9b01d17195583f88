//! `operator api`: what it sends and prints.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn server() -> std::io::Result<FakeServer> {
    let canned = |request, status, body: &str| Canned {
        request,
        status,
        body: body.to_owned(),
    };
    FakeServer::start(vec![
        canned("GET /v1/jobs", 200, "[1]"),
        canned("POST /v1/validate/job", 200, "{}"),
        canned("DELETE /v1/job/web", 403, "Permission denied"),
    ])
}

#[test]
fn api_sends_path_query_and_method_and_prints_the_answer() -> std::io::Result<()> {
    let server = server()?;
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str]| {
        let all = [&["operator", "api", "-address", &server.address], arguments].concat();
        drover(folder.path(), &all)
    };
    let output = run(&["-filter=ID == \"a&b\"", "v1/jobs?prefix=a%20b"]);
    assert_eq!(stdout(&output), "[1]", "{}", stderr(&output));
    let asked = "GET /v1/jobs?prefix=a%20b&filter=ID%20%3D%3D%20%22a%26b%22\n";
    assert!(server.asked()[0].starts_with(asked), "{:?}", server.asked());
    let output = run(&["-X", "delete", "/v1/job/web"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("Permission denied"),
        "{}",
        stderr(&output)
    );
    let output = run(&["-H", "nonsense", "/v1/jobs"]);
    assert!(
        stderr(&output).contains("NAME: VALUE"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn api_posts_what_is_piped_to_it() -> std::io::Result<()> {
    let server = server()?;
    let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["operator", "api", "-address", &server.address])
        .arg("/v1/validate/job")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"{\"Job\":1}")?;
    assert_eq!(stdout(&child.wait_with_output()?), "{}");
    let asked = server.asked();
    assert!(asked[0].starts_with("POST /v1/validate/job"), "{asked:?}");
    assert!(asked[0].ends_with("{\"Job\":1}"), "{asked:?}");
    Ok(())
}
