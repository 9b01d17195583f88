//! `acl`: what its commands send and print.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, drover_with, stderr, stdout};

const ID: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";
const TIME: &str = "2026-01-01T00:00:00Z";

fn token() -> Value {
    json!({ "AccessorID": "a1", "SecretID": ID, "Name": "ci", "Type": "client", "Global": false,
        "Policies": ["readers", "writers"], "Roles": [{ "ID": "r1", "Name": "ops" }],
        "CreateTime": TIME, "ExpirationTime": "2026-01-01T00:10:00Z", "ExpirationTTL": "10m0s",
        "CreateIndex": 7, "ModifyIndex": 9 })
}

fn policy() -> Value {
    json!({ "Name": "readers", "Description": "", "Rules": "namespace \"default\" {\n}\n",
        "JobACL": { "Namespace": "default", "JobID": "web" }, "CreateIndex": 7, "ModifyIndex": 9 })
}

fn role() -> Value {
    json!({ "ID": "r1", "Name": "ops", "Description": "", "CreateIndex": 7, "ModifyIndex": 9,
        "Policies": [{ "Name": "readers" }, { "Name": "writers" }] })
}

fn method() -> Value {
    json!({ "Name": "ci", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h0m0s",
        "TokenNameFormat": "${auth_method_type}-${auth_method_name}", "Default": false,
        "Config": { "JWKSURL": "https://ci.example/keys", "ClaimMappings": { "a": "b" } },
        "CreateTime": TIME, "ModifyTime": TIME, "CreateIndex": 7, "ModifyIndex": 9 })
}

fn rule() -> Value {
    json!({ "ID": "b1", "Description": "", "AuthMethod": "ci", "Selector": "value.b == \"x\"",
        "BindType": "role", "BindName": "ops", "CreateTime": TIME, "ModifyTime": TIME,
        "CreateIndex": 7, "ModifyIndex": 9 })
}

fn whoami() -> Value {
    json!({ "Kind": "token", "Address": "127.0.0.1", "Via": { "Server": "s1" },
        "Token": { "AccessorID": "a1", "Name": "ci", "Type": "client", "Policies": ["readers"] },
        "Budgets": { "Read": { "Limit": 1000, "Left": 4998 } } })
}

fn server() -> std::io::Result<FakeServer> {
    let canned = |request, body: Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    FakeServer::start(vec![
        canned("GET /v1/acl/policies", json!([policy()])),
        canned("GET /v1/acl/policy/self", json!([policy()])),
        canned("GET /v1/acl/policy/readers", policy()),
        canned("PUT /v1/acl/policy/readers", policy()),
        canned("DELETE /v1/acl/policy/readers", json!({ "Index": 9 })),
        canned("GET /v1/acl/tokens", json!([token()])),
        canned("PUT /v1/acl/token", token()),
        canned("GET /v1/acl/token/self", token()),
        canned("GET /v1/acl/token/a1", token()),
        canned("PUT /v1/acl/token/a1", token()),
        canned("DELETE /v1/acl/token/a1", json!({ "Index": 9 })),
        canned("GET /v1/acl/roles", json!([role()])),
        canned("PUT /v1/acl/role", role()),
        canned("GET /v1/acl/role/r1", role()),
        canned("GET /v1/acl/role/name/ops", role()),
        canned("PUT /v1/acl/role/r1", role()),
        canned("DELETE /v1/acl/role/r1", json!({ "Index": 9 })),
        canned("GET /v1/acl/auth-methods", json!([method()])),
        canned("PUT /v1/acl/auth-method", method()),
        canned("GET /v1/acl/auth-method/ci", method()),
        canned("PUT /v1/acl/auth-method/ci", method()),
        canned("DELETE /v1/acl/auth-method/ci", json!({ "Index": 9 })),
        canned("GET /v1/acl/binding-rules", json!([rule()])),
        canned("PUT /v1/acl/binding-rule", rule()),
        canned("GET /v1/acl/binding-rule/b1", rule()),
        canned("PUT /v1/acl/binding-rule/b1", rule()),
        canned("DELETE /v1/acl/binding-rule/b1", json!({ "Index": 9 })),
        canned("GET /v1/acl/whoami", whoami()),
    ])
}

/// A command's exit code, its output, its errors, and what it asked.
fn run(arguments: &[&str]) -> (i32, String, String, Vec<String>) {
    let server = server().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("rules.hcl", "namespace \"default\" { policy = \"read\" }\n").expect("written");
    let wrong = "namespace \"default\" {\n  capabilities = [\"fly\"]\n}\nnode_poo \"a\" {}\n";
    write("wrong.hcl", wrong).expect("written");
    write("secret", &format!("{ID}\n")).expect("written");
    write(
        "config.json",
        "{\"JWKSURL\": \"u\", \"ExpirationLeeway\": \"-1s\"}",
    )
    .expect("written");
    let mut all = vec!["acl"];
    all.extend(arguments);
    all.extend(["-address", &server.address]);
    // A namespace of the environment is for jobs: no policy may join its workloads by accident.
    let output = drover_with(&[("NOMAD_NAMESPACE", "prod")], folder.path(), &all);
    let code = output.status.code().unwrap_or(-1);
    (code, stdout(&output), stderr(&output), server.asked())
}

fn body(asked: &str) -> Value {
    let body = asked.split_once('\n').map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

/// The output of a command that succeeds.
fn shown(arguments: &[&str]) -> String {
    let (code, out, err, _) = run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

/// The last body of a command that succeeds.
fn sent(arguments: &[&str]) -> Value {
    let (code, _, err, asked) = run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    body(asked.last().expect("a request"))
}

#[test]
fn objects_are_printed_in_nomad_s_columns() {
    let mut text = String::new();
    for line in [
        "policy info readers",
        "policy list",
        "policy self",
        "token info a1",
        "token list",
        "role info r1",
        "role list",
        "auth-method info ci",
        "auth-method list",
        "binding-rule info b1",
        "binding-rule list",
        "whoami",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        text += &format!("$ drover acl {line}\n{}\n", shown(&arguments));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_answer_is_printed_as_json_where_it_is_asked_for() {
    for (arguments, key, value) in [
        (vec!["policy", "info", "readers"], "Name", "readers"),
        (vec!["token", "create", "-policy", "x"], "SecretID", ID),
        (vec!["token", "self"], "SecretID", ID),
        (vec!["token", "update", "a1"], "AccessorID", "a1"),
        (
            vec!["role", "create", "-name", "x", "-policy", "y"],
            "ID",
            "r1",
        ),
        (vec!["role", "update", "r1"], "ID", "r1"),
        (vec!["auth-method", "create", "-name", "x"], "Name", "ci"),
        (vec!["auth-method", "update", "ci"], "Name", "ci"),
        (
            vec!["binding-rule", "create", "-auth-method", "x"],
            "ID",
            "b1",
        ),
        (vec!["binding-rule", "update", "b1"], "ID", "b1"),
        (vec!["whoami"], "Kind", "token"),
    ] {
        let mut arguments = arguments;
        arguments.push("-json");
        let answer: Value = serde_json::from_str(&shown(&arguments)).expect("JSON");
        assert_eq!(answer[key], value, "{arguments:?}");
    }
}

#[test]
fn deletions_and_applications_are_confirmed() {
    for (line, text) in [
        (
            "policy apply readers rules.hcl",
            "Successfully wrote \"readers\" ACL policy!",
        ),
        (
            "policy delete readers",
            "Successfully deleted readers policy!",
        ),
        ("token delete a1", "Token a1 successfully deleted"),
        ("role delete r1", "ACL role r1 successfully deleted"),
        (
            "auth-method delete ci",
            "ACL auth method ci successfully deleted",
        ),
        (
            "binding-rule delete b1",
            "ACL binding rule b1 successfully deleted",
        ),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_eq!(shown(&arguments), format!("{text}\n"));
    }
}

#[test]
fn policy_apply_sends_rules_and_joins_only_what_flags_name() {
    let plain = sent(&[
        "policy",
        "apply",
        "-description",
        "d",
        "readers",
        "rules.hcl",
    ]);
    let rules = "namespace \"default\" { policy = \"read\" }\n";
    let wanted = json!({ "Name": "readers", "Description": "d", "Rules": rules });
    assert_eq!(plain, wanted);
    let flags = [
        "policy",
        "apply",
        "-namespace",
        "default",
        "-job",
        "web",
        "-group",
        "g",
    ];
    let joined = sent(&[&flags[..], &["readers", "rules.hcl"]].concat());
    let wanted = json!({ "Namespace": "default", "JobID": "web", "Group": "g", "Task": "" });
    assert_eq!(joined["JobACL"], wanted);
    let (code, _, err, asked) = run(&["policy", "apply", "-job", "web", "readers", "rules.hcl"]);
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("-job needs -namespace"), "{err}");
}

#[test]
fn token_create_sends_its_flags_and_takes_over_a_secret() {
    let made = sent(&[
        "token",
        "create",
        "-name",
        "n",
        "-policy",
        "p",
        "-policy",
        "q",
        "-role-id",
        "r1",
        "-role-name",
        "ops",
        "-ttl",
        "10m",
        "-global",
    ]);
    let roles = json!([{ "ID": "r1", "Name": "" }, { "ID": "", "Name": "ops" }]);
    let wanted = json!({ "Name": "n", "Type": "client", "Policies": ["p", "q"], "Roles": roles,
        "Global": true, "ExpirationTTL": "10m0s" });
    assert_eq!(made, wanted);
    let uploaded = sent(&[
        "token",
        "create",
        "-policy",
        "p",
        "-accessor",
        "a1",
        "secret",
    ]);
    assert_eq!(
        (&uploaded["AccessorID"], &uploaded["SecretID"]),
        (&json!("a1"), &json!(ID))
    );
    let (code, _, _, asked) = run(&["token", "create", "-policy", "p", "secret"]);
    assert_eq!(
        (code, asked.len()),
        (1, 0),
        "a secret without its accessor id"
    );
    let (code, _, err, _) = run(&["token", "create", "-ttl", "soon"]);
    assert!(code == 1 && err.contains("not a duration"), "{err}");
}

#[test]
fn updates_keep_what_they_do_not_name() {
    let token = sent(&["token", "update", "-name", "n", "a1"]);
    assert_eq!(token["Policies"], json!(["readers", "writers"]));
    assert_eq!(
        (&token["Name"], &token["Roles"][0]["ID"]),
        (&json!("n"), &json!("r1"))
    );
    let role = sent(&["role", "update", "-policy", "more", "r1"]);
    let names = json!([{ "Name": "readers" }, { "Name": "writers" }, { "Name": "more" }]);
    assert_eq!((&role["Name"], &role["Policies"]), (&json!("ops"), &names));
    let role = sent(&[
        "role",
        "update",
        "-no-merge",
        "-name",
        "x",
        "-policy",
        "more",
        "r1",
    ]);
    assert_eq!(role["Policies"], json!([{ "Name": "more" }]));
    let method = sent(&["auth-method", "update", "-default=false", "ci"]);
    assert_eq!(method["Default"], json!(false));
    assert!(method.get("Config").is_none(), "{method}");
    let rule = sent(&["binding-rule", "update", "-bind-name", "x", "b1"]);
    assert_eq!(rule, json!({ "ID": "b1", "BindName": "x" }));
}

#[test]
fn auth_method_config_is_a_text_or_a_file() {
    let create = [
        "auth-method",
        "create",
        "-name",
        "ci",
        "-type",
        "JWT",
        "-max-token-ttl",
        "1h",
    ];
    for config in [
        "{\"JWKSURL\": \"u\", \"ExpirationLeeway\": \"-1s\"}",
        "@config.json",
    ] {
        let method = sent(&[&create[..], &["-default", "-config", config]].concat());
        assert_eq!(method["Config"]["JWKSURL"], "u");
        assert_eq!(method["Config"]["ExpirationLeeway"], "-1s");
        assert_eq!(
            (&method["MaxTokenTTL"], &method["Default"]),
            (&json!("1h0m0s"), &json!(true))
        );
    }
    let (code, _, err, asked) = run(&[&create[..], &["-config", "{\"JWKSURL\": 1}"]].concat());
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("-config is no configuration"), "{err}");
    let (_, _, err, _) = run(&create);
    assert!(err.contains("BoundAudiences is empty"), "{err}");
}

#[test]
fn policy_validate_names_every_mistake_and_asks_no_server() {
    let (code, out, _, asked) = run(&["policy", "validate", "rules.hcl"]);
    assert_eq!((code, out.as_str()), (0, "rules.hcl is a valid policy\n"));
    assert_eq!(asked, Vec::<String>::new());
    let (code, _, err, _) = run(&["policy", "validate", "wrong.hcl"]);
    assert_eq!(code, 1);
    let first = "wrong.hcl:2:19: Invalid namespace capability 'fly'";
    assert!(
        err.contains(first) && err.contains("wrong.hcl:4:1: "),
        "{err}"
    );
}

#[test]
fn role_is_shown_by_its_name() {
    let (_, _, _, asked) = run(&["role", "info", "-by-name", "ops"]);
    assert!(
        asked[0].starts_with("GET /v1/acl/role/name/ops"),
        "{asked:?}"
    );
}

#[test]
fn refusal_is_an_error_with_exit_code_1() {
    let text = "ACL role not found".to_owned();
    let answer = Canned {
        request: "GET /v1/acl/role/x",
        status: 404,
        body: text.clone(),
    };
    let server = FakeServer::start(vec![answer]).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["acl", "role", "info", "x", "-address", &server.address];
    let output = drover(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&text), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("not found: x\nhint: "),
        "{}",
        stderr(&output)
    );
}
