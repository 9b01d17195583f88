//! `namespace`: what it sends and prints.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const FILE: &str = r#"name        = "dev"
description = "for developers"
capabilities {
  enabled_task_drivers   = ["exec", "docker"]
  disabled_network_modes = ["host"]
}
node_pool_config {
  default = "dev"
  denied  = ["prod-*"]
}
meta {
  owner = "ops"
}
"#;

fn dev() -> Value {
    json!({
        "Name": "dev",
        "Description": "for developers",
        "Quota": "",
        "Capabilities": {
            "EnabledTaskDrivers": ["exec", "docker"],
            "DisabledTaskDrivers": null,
            "EnabledNetworkModes": null,
            "DisabledNetworkModes": ["host"],
        },
        "NodePoolConfiguration": { "Default": "dev", "Allowed": null, "Denied": ["prod-*"] },
        "VariablesBytesMax": 1024,
        "Meta": { "owner": "ops", "tier": "2" },
        "CreateIndex": 7,
        "ModifyIndex": 9,
    })
}

/// The exit code, what is printed, and what was asked.
fn run(
    found: &Value,
    file: &str,
    arguments: &[&str],
) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let canned = |request, status, body: String| Canned {
        request,
        status,
        body,
    };
    let server = FakeServer::start(vec![
        canned("PUT /v1/namespace", 200, json!({ "Index": 9 }).to_string()),
        canned("GET /v1/namespaces", 200, found.to_string()),
        canned("GET /v1/namespace/dev", 200, dev().to_string()),
        canned(
            "GET /v1/namespace/new",
            404,
            "Namespace not found".to_owned(),
        ),
        canned(
            "DELETE /v1/namespace/dev",
            200,
            json!({ "Index": 9 }).to_string(),
        ),
        canned(
            "DELETE /v1/namespace/full",
            400,
            "namespace \"full\" has non-terminal jobs in regions: [global] (1)".to_owned(),
        ),
    ])?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("dev.hcl"), file)?;
    let mut all = vec!["namespace"];
    all.extend(arguments);
    all.extend(["-address", &server.address]);
    let output = drover(folder.path(), &all);
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
        server.asked(),
    ))
}

fn body(asked: &str) -> Value {
    let body = asked.split_once('\n').map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

#[test]
fn apply_sends_the_namespace_of_a_file_in_hcl_or_json() -> std::io::Result<()> {
    let words = "Successfully applied namespace \"dev\"!\n";
    let arguments = ["apply", "-description", "lost", "dev.hcl"];
    let (code, out, err, asked) = run(&json!([]), FILE, &arguments)?;
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    assert!(err.contains("Flags are ignored"), "{err}");
    let expected = json!({
        "Name": "dev",
        "Description": "for developers",
        "Quota": "",
        "Capabilities": {
            "EnabledTaskDrivers": ["exec", "docker"],
            "DisabledTaskDrivers": null,
            "EnabledNetworkModes": null,
            "DisabledNetworkModes": ["host"],
        },
        "NodePoolConfiguration": { "Default": "dev", "Allowed": null, "Denied": ["prod-*"] },
        "VariablesBytesMax": 0,
        "Meta": { "owner": "ops" },
    });
    assert_eq!(body(&asked[0]), expected);
    // As `namespace inspect` wrote it.
    let file = dev().to_string();
    let (code, out, err, asked) = run(&json!([]), &file, &["apply", "-json", "dev.hcl"])?;
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    assert_eq!(body(&asked[0])["Capabilities"], expected["Capabilities"]);
    assert_eq!(body(&asked[0])["VariablesBytesMax"], 1024);
    Ok(())
}

#[test]
fn apply_of_a_name_changes_what_its_flags_say() -> std::io::Result<()> {
    let arguments = ["apply", "-description", "new words", "dev"];
    let (code, _, err, asked) = run(&json!([]), "", &arguments)?;
    assert_eq!(code, 0, "{err}");
    let (sent, known) = (body(&asked[1]), dev());
    assert_eq!(sent["Description"], "new words");
    let kept = [
        "Capabilities",
        "NodePoolConfiguration",
        "VariablesBytesMax",
        "Meta",
    ];
    for field in kept {
        assert_eq!(sent[field], known[field], "{field}");
    }
    let (code, out, err, asked) = run(&json!([]), "", &["apply", "-quota", "q", "new"])?;
    let words = "Successfully applied namespace \"new\"!\n";
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    let sent = body(&asked[1]);
    assert_eq!(
        (&sent["Name"], &sent["Quota"]),
        (&json!("new"), &json!("q"))
    );
    Ok(())
}

#[test]
fn apply_locates_mistakes_and_sends_nothing() -> std::io::Result<()> {
    let wrong = FILE.replace("disabled_network_modes", "disabled_modes");
    let (code, _, err, asked) = run(&json!([]), &wrong, &["apply", "dev.hcl"])?;
    assert_eq!((code, asked.len()), (1, 0));
    assert!(
        err.contains("dev.hcl:5:") && err.contains("disabled_modes"),
        "{err}"
    );
    let (code, _, err, asked) = run(&json!([]), "{\n\"Nmae\": \"x\"}", &["apply", "dev.hcl"])?;
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("`Nmae`") && err.contains("line 2"), "{err}");
    let (code, _, err, asked) = run(&json!([]), "", &["apply", "gone.hcl"])?;
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("no file \"gone.hcl\""), "{err}");
    Ok(())
}

#[test]
fn status_list_and_delete_print_as_nomad_does() -> std::io::Result<()> {
    let status = "Name                 = dev\n\
                  Description          = for developers\n\
                  Quota                = <none>\n\
                  EnabledDrivers       = exec,docker\n\
                  DisabledDrivers      = <none>\n\
                  EnabledNetworkModes  = *\n\
                  DisabledNetworkModes = host\n\
                  VariablesBytesMax    = 1024\n\n\
                  Metadata\n\
                  owner = ops\n\
                  tier  = 2\n\n\
                  Node Pool Configuration\n\
                  Default = dev\n\
                  Denied  = prod-*\n";
    let all = json!([dev()]);
    let (code, out, err, _) = run(&all, "", &["status", "de"])?;
    assert_eq!((code, out.as_str()), (0, status), "{err}");
    let (code, out, err, _) = run(&all, "", &["list"])?;
    let list = "Name  Description\ndev   for developers\n";
    assert_eq!((code, out.as_str()), (0, list), "{err}");
    let (code, out, err, _) = run(&all, "", &["delete", "dev"])?;
    let words = "Successfully deleted namespace \"dev\"!\n";
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    let (code, _, err, _) = run(&all, "", &["delete", "full"])?;
    assert_eq!(code, 1);
    assert!(
        err.contains("has non-terminal jobs in regions: [global] (1)"),
        "{err}"
    );
    let (code, out, _, _) = run(&json!([]), "", &["list"])?;
    assert_eq!((code, out.as_str()), (0, "No namespaces found\n"));
    Ok(())
}

#[test]
fn inspect_prints_json_and_several_matches_are_told() -> std::io::Result<()> {
    let (code, out, err, _) = run(&json!([dev()]), "", &["inspect", "dev"])?;
    let shown: Value = serde_json::from_str(&out)?;
    assert_eq!((code, &shown["ModifyIndex"]), (0, &json!(9)), "{err}");
    let two = json!([{ "Name": "dev-a" }, { "Name": "dev-b" }]);
    let (code, _, err, _) = run(&two, "", &["inspect", "dev"])?;
    assert_eq!(code, 1);
    assert!(err.contains("dev-a") && err.contains("dev-b"), "{err}");
    let (code, _, err, _) = run(&json!([]), "", &["status", "dev"])?;
    assert_eq!(code, 1);
    assert!(
        err.contains("Namespace \"dev\" matched no namespaces"),
        "{err}"
    );
    Ok(())
}
