//! `drover acl bootstrap`: with a secret of the operator's, and without one.

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const SECRET: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";

/// The exit code, the output, the error, and what the server was asked.
fn bootstrap(file: Option<&str>) -> (i32, String, String, Vec<String>) {
    let token = json!({ "AccessorID": "a", "SecretID": SECRET, "Name": "Bootstrap Token",
        "Type": "management", "CreateTime": "2026-01-01T00:00:00Z" });
    let server = FakeServer::start(vec![Canned {
        request: "PUT /v1/acl/bootstrap",
        status: 200,
        body: token.to_string(),
    }])
    .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = vec!["acl", "bootstrap", "-address", &server.address];
    if let Some(text) = file {
        std::fs::write(folder.path().join("secret"), text).expect("it is written");
        arguments.push("secret");
    }
    let output = drover(folder.path(), &arguments);
    let code = output.status.code().unwrap_or(-1);
    (code, stdout(&output), stderr(&output), server.asked())
}

#[test]
fn secret_in_a_file_is_sent_without_its_line_end() {
    let (code, out, err, asked) = bootstrap(Some(&format!("{SECRET}\n")));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(SECRET), "{out}");
    let sent = format!("PUT /v1/acl/bootstrap\n{{\"BootstrapSecret\":\"{SECRET}\"}}");
    assert_eq!(asked, [sent]);
}

#[test]
fn without_a_file_the_server_makes_the_secret() {
    let (code, _, err, asked) = bootstrap(None);
    assert_eq!(code, 0, "{err}");
    assert_eq!(asked, ["PUT /v1/acl/bootstrap\n{}"]);
}

#[test]
fn file_without_a_secret_is_refused_before_a_server_is_asked() {
    for text in ["\n", &"x".repeat(2000)] {
        let (code, _, err, asked) = bootstrap(Some(text));
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("secret holds no token"), "{err}");
        assert_eq!(asked, Vec::<String>::new());
    }
}
