//! `node pool`: what it sends and prints.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const POOL: &str = r#"node_pool "prod" {
  description = "Node pool for production workloads."
  meta {
    env = "prod"
  }
  scheduler_config {
    scheduler_algorithm = "spread"
  }
}
"#;

fn pool(name: &str) -> Value {
    json!({
        "Name": name,
        "Description": "Node pool for production workloads.",
        "Meta": { "env": "prod", "owner": "ops" },
        "SchedulerConfiguration": {
            "SchedulerAlgorithm": "spread",
            "MemoryOversubscriptionEnabled": true,
        },
        "CreateIndex": 7,
        "ModifyIndex": 9,
    })
}

fn server() -> std::io::Result<FakeServer> {
    let canned = |request, body: Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    FakeServer::start(vec![
        canned("PUT /v1/node/pools", json!({ "Index": 9 })),
        canned("GET /v1/node/pools", json!([pool("prod")])),
        canned("GET /v1/node/pool/prod/nodes", json!([])),
        canned("GET /v1/node/pool/prod/jobs", json!([])),
        canned("GET /v1/node/pool/prod", pool("prod")),
        canned("DELETE /v1/node/pool/prod", json!({ "Index": 9 })),
    ])
}

/// The exit code, what is printed, and what was asked.
fn run(file: &str, arguments: &[&str]) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let server = server()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("pool.hcl"), file)?;
    let mut all = vec!["node", "pool"];
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
fn apply_sends_the_pool_of_a_file_in_hcl_or_json() -> std::io::Result<()> {
    let (code, out, err, asked) = run(POOL, &["apply", "pool.hcl"])?;
    let words = "Successfully applied node pool \"prod\"!\n";
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    let sent = body(&asked[0]);
    assert_eq!(
        (&sent["Name"], &sent["Meta"]),
        (&json!("prod"), &json!({ "env": "prod" }))
    );
    assert_eq!(
        sent["SchedulerConfiguration"]["SchedulerAlgorithm"],
        "spread"
    );
    let file = pool("prod").to_string();
    let (code, out, err, asked) = run(&file, &["apply", "-json", "pool.hcl"])?;
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    let scheduler = &body(&asked[0])["SchedulerConfiguration"];
    assert_eq!(scheduler["MemoryOversubscriptionEnabled"], true);
    Ok(())
}

#[test]
fn apply_locates_mistakes_and_sends_nothing() -> std::io::Result<()> {
    let wrong = POOL.replace("spread", "best");
    let (code, _, err, asked) = run(&wrong, &["apply", "pool.hcl"])?;
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("pool.hcl:7:") && err.contains("best"), "{err}");
    let (code, _, err, asked) = run("{\n\"Nmae\": \"x\"}", &["apply", "pool.hcl"])?;
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("`Nmae`") && err.contains("line 2"), "{err}");
    Ok(())
}

#[test]
fn info_list_and_delete_print_as_nomad_does() -> std::io::Result<()> {
    let info = "Name        = prod\n\
                Description = Node pool for production workloads.\n\n\
                Metadata\n\
                env   = prod\n\
                owner = ops\n\n\
                Scheduler Configuration\n\
                Scheduler Algorithm             = spread\n\
                Memory Oversubscription Enabled = true\n";
    let (code, out, err, _) = run("", &["info", "pr"])?;
    assert_eq!((code, out.as_str()), (0, info), "{err}");
    let list = "Name  Description\nprod  Node pool for production workloads.\n";
    let (code, out, err, _) = run("", &["list"])?;
    assert_eq!((code, out.as_str()), (0, list), "{err}");
    let (code, out, err, _) = run("", &["delete", "prod"])?;
    let words = "Successfully deleted node pool \"prod\"!\n";
    assert_eq!((code, out.as_str()), (0, words), "{err}");
    let (_, out, _, _) = run("", &["info", "-json", "prod"])?;
    let shown: Value = serde_json::from_str(&out)?;
    assert_eq!(shown["ModifyIndex"], 9);
    Ok(())
}

#[test]
fn jobs_and_nodes_ask_with_filter_and_page() -> std::io::Result<()> {
    for (list, words) in [("nodes", "No nodes registered\n"), ("jobs", "No jobs\n")] {
        let arguments = [list, "-filter", "Name == \"x\"", "-per-page", "2", "prod"];
        let (code, out, err, asked) = run("", &arguments)?;
        assert_eq!((code, out.as_str()), (0, words), "{err}");
        let asked = &asked[1];
        let path = format!("GET /v1/node/pool/prod/{list}?");
        assert!(asked.starts_with(&path), "{asked}");
        assert!(
            asked.contains("filter=") && asked.contains("per_page=2"),
            "{asked}"
        );
    }
    Ok(())
}

#[test]
fn init_writes_an_example_once() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let output = drover(folder.path(), &["node", "pool", "init"]);
    let words = "Example node pool specification written to pool.nomad.hcl\n";
    assert_eq!(stdout(&output), words);
    let again = drover(folder.path(), &["node", "pool", "init"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        stderr(&again).contains("already exists"),
        "{}",
        stderr(&again)
    );
    let quiet = drover(
        folder.path(),
        &["node", "pool", "init", "-quiet", "-out", "json"],
    );
    assert_eq!(stdout(&quiet), "");
    let text = std::fs::read_to_string(folder.path().join("pool.nomad.json"))?;
    let shown: Value = serde_json::from_str(&text)?;
    assert_eq!(shown["Name"], "example");
    Ok(())
}
