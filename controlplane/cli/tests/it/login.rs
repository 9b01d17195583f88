//! `drover login`, against a server of canned answers.

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
