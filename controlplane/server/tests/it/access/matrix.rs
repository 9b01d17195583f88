//! Every operation and every capability: the capabilities that open it, as a frozen table. Each
//! request is made by a token that has one capability and nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use protocol_access::{
    NamespaceCapability, NodePoolCapability, OperatorCapability, VariableCapability,
};
use protocol_api::{Endpoint, Method, endpoints};

use super::{policy, token, world};
use crate::routes::path_of;

/// Rules with one right each, by the name of the right.
fn rules() -> Vec<(String, String)> {
    let mut rules = Vec::new();
    let names = NamespaceCapability::ALL.iter().map(|it| it.name());
    for name in names.filter(|name| *name != "deny") {
        let rule = format!("namespace \"default\" {{ capabilities = [\"{name}\"] }}");
        rules.push((name.to_owned(), rule));
    }
    for name in VariableCapability::ALL.iter().map(|it| it.name()) {
        let path = format!("path \"*\" {{ capabilities = [\"{name}\"] }}");
        let rule = format!("namespace \"default\" {{ variables {{ {path} }} }}");
        rules.push((format!("variables {name}"), rule));
    }
    for name in NodePoolCapability::ALL.iter().map(|it| it.name()) {
        let rule = format!("node_pool \"*\" {{ capabilities = [\"{name}\"] }}");
        rules.push((format!("node_pool {name}"), rule));
    }
    for name in OperatorCapability::ALL.iter().map(|it| it.name()) {
        let rule = format!("operator {{ capabilities = [\"{name}\"] }}");
        rules.push((format!("operator {name}"), rule));
    }
    for block in ["node", "agent", "operator", "quota", "plugin"] {
        for level in ["read", "write"] {
            if (block, level) != ("plugin", "write") {
                let rule = format!("{block} {{ policy = \"{level}\" }}");
                rules.push((format!("{block} policy {level}"), rule));
            }
        }
    }
    rules
}

/// The methods of an operation as a client sends them, with the bodies that get past the reader.
fn requests(endpoint: &Endpoint) -> Vec<(&'static str, &'static str)> {
    let body = match endpoint.name {
        "RegisterJob" | "UpdateJob" | "PlanJob" | "ValidateJob" => {
            r#"{"Job":{"ID":"x","Namespace":"default"}}"#
        }
        "JobStatusesOf" => r#"{"Jobs":[{"ID":"x","Namespace":"default"}]}"#,
        "WriteNodePool" => r#"{"Name":"x"}"#,
        "FuzzySearch" => r#"{"Text":"abc","Context":"all"}"#,
        "Search" => r#"{"Prefix":"abc","Context":"all"}"#,
        _ => "{}",
    };
    let methods = endpoint.methods.iter();
    methods
        .map(|method| match method {
            Method::Get => ("GET", ""),
            Method::Put => ("PUT", body),
            Method::Delete => ("DELETE", ""),
        })
        .collect()
}

/// A restore and a bootstrap change the world; an unknown one-time token is refused with 403.
const NOT_ASKED: [&str; 3] = ["RestoreSnapshot", "Bootstrap", "ExchangeOneTimeToken"];

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/access/matrix.txt")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_opened_by_exactly_its_capabilities() {
    let (world, _) = world().await;
    let cluster = world.server.cluster();
    let mut holders = Vec::new();
    for (number, (right, rule)) in rules().into_iter().enumerate() {
        let name = format!("only-{number}");
        policy(cluster, &name, &rule).await;
        holders.push((right, token(cluster, &[&name]).await));
    }
    policy(cluster, "nothing", "").await;
    holders.push(("a token".to_owned(), token(cluster, &["nothing"]).await));
    let mut table = BTreeMap::new();
    for endpoint in endpoints().filter(|it| !NOT_ASKED.contains(&it.name)) {
        for (method, body) in requests(endpoint) {
            let path = path_of(endpoint);
            let mut opened = Vec::new();
            for (right, holder) in &holders {
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nX-Nomad-Token: {}",
                    holder.secret
                );
                let (status, _, answer) = world.raw(&head, body).await;
                if status != 403 {
                    opened.push(right.as_str());
                }
                assert_ne!(status, 500, "{head}: {answer}");
            }
            let text = match opened.len() {
                0 => "management".to_owned(),
                many if many == holders.len() => "all".to_owned(),
                _ => opened.join(", "),
            };
            table.insert(format!("{} {method}", endpoint.name), text);
        }
    }
    let mut text = String::new();
    for (request, opened) in table {
        let _ = writeln!(text, "{request}: {opened}");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden(), &text).expect("is written");
    }
    let frozen = std::fs::read_to_string(golden()).unwrap_or_default();
    for (frozen, found) in frozen.lines().zip(text.lines()) {
        assert_eq!(
            frozen, found,
            "UPDATE_GOLDEN=1 writes the table anew: read the difference"
        );
    }
    assert_eq!(frozen.lines().count(), text.lines().count());
}
