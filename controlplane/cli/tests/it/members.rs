//! The servers as their lists show them.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn run(
    words: &[&str],
    request: &'static str,
    status: u16,
    body: Value,
) -> (Option<i32>, String, String) {
    let server = FakeServer::start(vec![Canned {
        request,
        status,
        body: match body {
            Value::String(words) => words,
            body => body.to_string(),
        },
    }]);
    let server = server.expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [words, &["-address", &server.address]].concat();
    let output = drover(folder.path(), &arguments);
    (output.status.code(), stdout(&output), stderr(&output))
}

fn members(leader: &str) -> (Option<i32>, String, String) {
    let answers = json!({ "id": "01", "region": "global", "leader": leader, "build": "0.1.0",
                          "raft_vsn": "3", "dc": "east" });
    let silent = json!({ "id": "02", "region": "global", "leader": "false", "build": "",
                         "raft_vsn": "3" });
    let list = json!({ "ServerDC": "east", "Members": [
        { "Name": "a", "Addr": "10.0.0.1", "Port": 4647, "Status": "alive", "Tags": answers },
        { "Name": "b", "Addr": "10.0.0.2", "Port": 4647, "Status": "failed", "Tags": silent },
    ]});
    run(&["server", "members"], "GET /v1/agent/members", 200, list)
}

#[test]
fn what_is_not_known_of_a_server_is_not_taken_from_another() {
    let (code, out, err) = members("true");
    let shown = "\
Name  Address   Port  Status  Leader  Raft Version  Build  Datacenter  Region
a     10.0.0.1  4647  alive   true    3             0.1.0  east        global
b     10.0.0.2  4647  failed  false   3             N/A    N/A         global
";
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), shown, ""));
}

#[test]
fn that_nobody_leads_is_said() {
    let (code, out, err) = members("false");
    assert_eq!(code, Some(1));
    assert!(out.contains("alive   false"), "they are shown: {out}");
    assert!(err.contains("knows no leader"), "{err}");
    let words = json!("No cluster leader");
    let path = "GET /v1/operator/raft/configuration";
    let (_, _, err) = run(&["operator", "raft", "list-peers"], path, 500, words);
    assert!(err.contains("-stale shows"), "{err}");
}

#[test]
fn nodes_are_listed_by_their_whole_ids_alone_for_scripts() {
    let ids = [1, 2].map(|it| format!("517fc88c-0000-4000-8000-00000000000{it}"));
    let node = |id: &String| {
        json!({ "ID": id, "Name": "n", "Datacenter": "dc1", "Address": "", "NodeClass": "",
                "NodePool": "default", "Version": "0.1.0", "Drain": false,
                "SchedulingEligibility": "eligible", "Status": "ready", "StatusDescription": "",
                "Drivers": {}, "CreateIndex": 4, "ModifyIndex": 5, "Attributes": null })
    };
    let list: Vec<Value> = ids.iter().map(node).collect();
    let words = ["node", "status", "-quiet"];
    let (code, out, err) = run(&words, "GET /v1/nodes", 200, list.into());
    assert_eq!(
        (code, out),
        (Some(0), format!("{}\n{}\n", ids[0], ids[1])),
        "{err}"
    );
}
