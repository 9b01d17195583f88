//! `node meta`: what it sends and prints.

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const NODE: &str = "0e000000-0000-4000-8000-000000000001";

fn server() -> std::io::Result<FakeServer> {
    let canned = |request, body: serde_json::Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    let meta = json!({
        "Meta": { "rack": "r2", "zone": "z" },
        "Dynamic": { "empty": "", "gone": null, "rack": "r2" },
        "Static": { "gone": "x", "rack": "r1", "zone": "z" },
    });
    let id = NODE.parse().expect("an id");
    let node = json!([protocol_model::Node::new(id, "n1", "dc1").stub()]);
    FakeServer::start(vec![
        canned("GET /v1/nodes", node),
        canned("GET /v1/client/metadata", meta.clone()),
        canned("PUT /v1/client/metadata", meta),
    ])
}

/// The exit code, what is printed, and what was asked.
fn run(arguments: &[&str]) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let server = server()?;
    let folder = tempfile::tempdir()?;
    let address = format!("-address={}", server.address);
    let mut all = vec!["node", "meta", arguments[0], address.as_str()];
    all.extend(&arguments[1..]);
    let output = drover(folder.path(), &all);
    let code = output.status.code().unwrap_or(-1);
    Ok((code, stdout(&output), stderr(&output), server.asked()))
}

#[test]
fn metadata_is_shown_with_its_parts() -> std::io::Result<()> {
    let (code, printed, words, asked) = run(&["read", "-node-id", "0e000000"])?;
    assert_eq!(code, 0, "{words}");
    let expected = "All Meta\nrack = r2\nzone = z\n\nDynamic Meta\nempty = <none>\ngone  = \
                    <unset>\nrack  = r2\n\nStatic Meta\ngone = x\nrack = r1\nzone = z\n";
    assert_eq!(printed, expected);
    let last = asked.last().expect("asked");
    assert_eq!(
        last.lines().next(),
        Some(format!("GET /v1/client/metadata?node_id={NODE}").as_str())
    );
    let (_, printed, _, asked) = run(&["read", "-json"])?;
    let shown: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(shown["Dynamic"]["gone"], json!(null));
    assert_eq!(asked.len(), 1, "no node is looked up: {asked:?}");
    Ok(())
}

#[test]
fn keys_are_set_and_unset_in_one_request() -> std::io::Result<()> {
    let flags = ["-node-id=0e000000", "-unset", "testing,,rack"];
    let pairs = ["ready=1", "role=a=b", "rack=r3", "bare"];
    let arguments: Vec<&str> = ["apply"]
        .iter()
        .chain(&flags)
        .chain(&pairs)
        .copied()
        .collect();
    let (code, printed, words, asked) = run(&arguments)?;
    assert_eq!((code, printed.as_str()), (0, ""), "{words}");
    let (_, body) = asked
        .last()
        .expect("asked")
        .split_once('\n')
        .expect("a body");
    let sent: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let meta = json!({ "bare": "", "rack": null, "ready": "1", "role": "a=b", "testing": null });
    assert_eq!(sent, json!({ "NodeID": NODE, "Meta": meta }));
    Ok(())
}

#[test]
fn apply_without_a_key_is_refused_unasked() -> std::io::Result<()> {
    let (code, _, words, asked) = run(&["apply", "-unset", ","])?;
    assert_ne!(code, 0);
    assert!(words.contains("at least 1 key=value pair"), "{words}");
    assert!(asked.is_empty());
    Ok(())
}
