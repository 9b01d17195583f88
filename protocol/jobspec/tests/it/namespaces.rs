//! Files of namespaces.

use protocol_jobspec::{Diagnostics, parse_namespace};
use serde_json::{Value as Json, json};

fn read(text: &str) -> Result<Json, Diagnostics> {
    parse_namespace("dev.hcl", text)
}

#[test]
fn a_namespace_file_becomes_the_namespace_of_the_api() {
    let text = r#"
        name                = "dev"
        description         = "for developers"
        quota               = ""
        variables_bytes_max = 1048576

        capabilities {
          enabled_task_drivers   = ["exec", "docker"]
          disabled_task_drivers  = ["raw_exec"]
          enabled_network_modes  = ["bridge", "cni/custom"]
          disabled_network_modes = ["host"]
        }

        node_pool_config {
          default = "dev"
          allowed = ["dev-*"]
        }

        meta {
          owner = "ops"
        }
    "#;
    let expected = json!({
        "Name": "dev",
        "Description": "for developers",
        "Quota": "",
        "VariablesBytesMax": 1_048_576,
        "Capabilities": {
            "EnabledTaskDrivers": ["exec", "docker"],
            "DisabledTaskDrivers": ["raw_exec"],
            "EnabledNetworkModes": ["bridge", "cni/custom"],
            "DisabledNetworkModes": ["host"],
        },
        "NodePoolConfiguration": { "Default": "dev", "Allowed": ["dev-*"] },
        "Meta": { "owner": "ops" },
    });
    assert_eq!(read(text).expect("a namespace"), expected);
    let least = read("name = \"dev\"\nnode_pool_config {\n  allowed = []\n}\n");
    let expected = json!({ "Name": "dev", "NodePoolConfiguration": { "Allowed": [] } });
    assert_eq!(least.expect("a namespace"), expected);
}

#[test]
fn all_mistakes_of_a_namespace_file_are_located() {
    let text = "description = 7\ncapabilites {\n}\nnode_pool_config {\n  allowed = []\n  \
                denied = [\"a\"]\n  pool = \"x\"\n}\n";
    let found = read(text).expect_err("it is wrong");
    let found: Vec<(usize, &str)> = found
        .list()
        .iter()
        .map(|it| (it.line, it.message.as_str()))
        .collect();
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 6, 7], "{found:#?}");
    let words = ["no `name`", "capabilites", "exclude each other", "pool"];
    for ((_, message), words) in found.iter().zip(words) {
        assert!(message.contains(words), "{found:#?}");
    }
    assert_eq!(
        read("name = \n").expect_err("it is wrong").list()[0].line,
        1
    );
}
