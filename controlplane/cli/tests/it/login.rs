//! `drover login`, against a server of canned answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover_with, stderr, stdout};

const SECRET: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";

fn canned(request: &'static str, body: &serde_json::Value) -> Canned {
    Canned {
        request,
        status: 200,
        body: body.to_string(),
    }
}

/// The exit code, the output, the error, and what the server was asked.
fn login(methods: &serde_json::Value, arguments: &[&str]) -> (i32, String, String, Vec<String>) {
    let token = json!({ "AccessorID": "a", "SecretID": SECRET, "Name": "JWT-ci", "Type": "client",
        "Policies": ["readers"], "CreateTime": "2026-01-01T00:00:00Z" });
    let server = FakeServer::start(vec![
        canned("GET /v1/acl/auth-methods", methods),
        canned("PUT /v1/acl/login", &token),
    ])
    .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let address = ["login", "-address", &server.address];
    let arguments = [&address[..], arguments].concat();
    let expired = [("NOMAD_TOKEN", "expired")];
    let output = drover_with(&expired, folder.path(), &arguments);
    let code = output.status.code().unwrap_or(-1);
    (code, stdout(&output), stderr(&output), server.asked())
}

#[test]
fn token_of_a_provider_is_exchanged_by_the_named_or_default_method() {
    let methods = json!([
        {"Name": "sso", "Type": "OIDC", "Default": false},
        {"Name": "ci", "Type": "JWT", "Default": true},
    ]);
    for arguments in [
        &["-login-token", "x.y.z"][..],
        &["-method", "ci", "-login-token=x.y.z"],
    ] {
        let (code, out, err, asked) = login(&methods, arguments);
        assert_eq!(code, 0, "{err}");
        assert!(
            out.starts_with("Successfully logged in via JWT and ci\n\n"),
            "{out}"
        );
        assert!(out.contains(SECRET) && out.contains("readers"), "{out}");
        assert!(
            err.contains(&format!("export DROVER_TOKEN={SECRET}")),
            "{err}"
        );
        let sent = r#"{"AuthMethodName":"ci","LoginToken":"x.y.z"}"#;
        assert_eq!(asked[1], format!("PUT /v1/acl/login\n{sent}"));
    }
    let (code, out, err, _) = login(&methods, &["-login-token", "x.y.z", "-json"]);
    let printed: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &printed["SecretID"]), (0, &json!(SECRET)), "{err}");
}

#[test]
fn login_that_cannot_work_exits_1_and_asks_for_no_token() {
    let both = json!([
        {"Name": "sso", "Type": "OIDC"}, {"Name": "ci", "Type": "JWT"}, {"Name": "x", "Type": "X"},
    ]);
    for (methods, arguments, words) in [
        (&json!([]), &[][..], "no default found"),
        (&both, &[], "no default found"),
        (
            &both,
            &["-method", "other"],
            "\"other\" not found in the state store",
        ),
        (
            &both,
            &["-method", "ci"],
            "give the token of the identity provider with -login-token",
        ),
        (
            &both,
            &["-method", "sso", "-login-token", "t"],
            "takes no token",
        ),
        (
            &both,
            &["-method", "x"],
            "unsupported authentication type \"X\"",
        ),
        (
            &both,
            &["-method", "sso", "-oidc-callback-addr", "192.0.2.1:1"],
            "is not on loopback",
        ),
    ] {
        let (code, out, err, asked) = login(methods, arguments);
        assert_eq!(
            (code, out.as_str(), asked.len()),
            (1, "", 1),
            "{words}: {err}"
        );
        assert!(err.contains(words), "{words}: {err}");
    }
}

/// The `host:port` that the redirect of a started login names.
fn callback_address(asked: &[String]) -> Option<String> {
    let begun = asked
        .iter()
        .find(|asked| asked.contains("/oidc/auth-url"))?;
    let (_, behind) = begun.split_once("\"RedirectURI\":\"http://")?;
    let (address, _) = behind.split_once("/oidc/callback\"")?;
    Some(address.to_owned())
}

#[test]
fn login_by_oidc_takes_the_code_of_the_browser_to_the_server() {
    let methods = json!([{"Name": "sso", "Type": "OIDC", "Default": true}]);
    let url = json!({"AuthURL": "https://id.example/auth?state=s-1&x=y"});
    let token = json!({"AccessorID": "a", "SecretID": SECRET, "Name": "OIDC-sso",
        "Type": "management", "CreateTime": "2026-01-01T00:00:00Z"});
    let server = FakeServer::start(vec![
        canned("GET /v1/acl/auth-methods", &methods),
        canned("PUT /v1/acl/oidc/auth-url", &url),
        canned("PUT /v1/acl/oidc/complete-auth", &token),
    ])
    .expect("a server");
    let mut drover = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args([
            "login",
            "-oidc-callback-addr",
            "127.0.0.1:0",
            "-address",
            &server.address,
        ])
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    let mut notes = BufReader::new(drover.stderr.take().expect("a pipe")).lines();
    let shown = notes.find(|line| {
        let line = line.as_ref().expect("a line");
        line.contains("https://id.example/auth?state=s-1")
    });
    assert!(shown.is_some(), "the address is printed");
    let address = callback_address(&server.asked()).expect("a redirect");
    let mut browser = TcpStream::connect(address).expect("it listens");
    let target = "/oidc/callback?code=c%201&state=s-1&iss=https%3A%2F%2Fid.example";
    write!(browser, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut page = String::new();
    browser.read_to_string(&mut page).expect("a page");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let rest: Vec<_> = notes.map(|line| line.expect("a line")).collect();
    let output = drover.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{rest:?}");
    let out = stdout(&output);
    assert!(
        out.starts_with("Successfully logged in via OIDC and sso"),
        "{out}"
    );
    let asked = server.asked();
    let completed = asked.last().expect("a request");
    for part in [
        "\"Code\":\"c 1\"",
        "\"State\":\"s-1\"",
        "\"Iss\":\"https://id.example\"",
    ] {
        assert!(completed.contains(part), "{part}: {completed}");
    }
}
