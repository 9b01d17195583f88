//! Whole files, and every mistake by name.

mod keys;

use std::path::PathBuf;

use super::*;

const WHOLE: &str = r#"
name       = "n1"
region     = "global"
datacenter = "dc2"
data_dir   = "/var/lib/drover"
run_dir    = "/run/drover-test"
servers    = ["10.0.0.1", "server:5000"]
join_token = "abc"
tls {
  ca_file   = "/etc/ca.pem"
  cert_file = "/etc/cert.pem"
  key_file  = "/etc/key.pem"
}
meta {
  rack = "r1"
}
reserved {
  cpu            = 500
  reserved_ports = "22"
}
driver "raw_exec" {
  enabled = true
}
host_volume "data" {
  path      = "/srv/data"
  read_only = true
}
host_volume "more" {
  path = "/srv/more"
}
"#;

fn parsed(text: &str) -> Result<Config, String> {
    let file = ConfigFile::parse(text).map_err(|error| protocol_error_chain::chain(&error))?;
    Config::from_file(file).map_err(|error| error.to_string())
}

#[test]
fn a_whole_file_is_understood() {
    let config = parsed(WHOLE).unwrap();
    assert_eq!(config.datacenter, "dc2");
    assert_eq!(config.servers, ["10.0.0.1:4647", "server:5000"]);
    let on: Vec<String> = config.drivers.enabled().into_keys().collect();
    assert_eq!(on, ["exec", "raw_exec"]);
    assert_eq!(config.meta["rack"], "r1");
    assert_eq!(config.reserved.cpu, 500);
    assert_eq!(config.host_volumes.len(), 2);
    assert!(config.host_volumes["data"].read_only);
    assert_eq!(config.alloc_root(), PathBuf::from("/var/lib/drover/alloc"));
    assert_eq!(
        (config.dynamic_port_min, config.dynamic_port_max),
        (20_000, 32_000)
    );
    assert!(config.keeper_binary.ends_with("noded-keeper"));
    assert!(config.jail_binary.ends_with("noded-jail"));
    assert_eq!(config.task_pids_max, 4096);
}

#[test]
fn the_join_token_is_not_printed_with_the_configuration() {
    let text = WHOLE.replace("\"abc\"", "\"open sesame\"");
    let config = parsed(&text).unwrap();
    let token = config.join_token.as_ref().map(Secret::reveal);
    assert_eq!(token, Some("open sesame"));
    let file = ConfigFile::parse(&text).unwrap();
    for printed in [format!("{config:?}"), format!("{file:?}")] {
        assert!(printed.contains("dc2") && !printed.contains("sesame"));
    }
}

#[test]
fn the_other_spelling_of_a_driver_works_and_both_together_do_not() {
    let text = WHOLE.replace(
        "driver \"raw_exec\" {\n  enabled = true\n}",
        "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}",
    );
    assert!(parsed(&text).unwrap().drivers.is_on("raw_exec"));
    let both = format!("{WHOLE}\nplugin \"raw_exec\" {{\n config {{\n enabled = true\n }}\n}}\n");
    assert!(parsed(&both).unwrap_err().contains("plugin"));
    let unknown = format!("{WHOLE}\ndriver \"docker\" {{\n enabled = true\n}}\n");
    assert!(parsed(&unknown).unwrap_err().contains("docker"));
}

#[test]
fn raw_exec_is_off_unless_the_file_says_otherwise() {
    let text = WHOLE.replace("enabled = true", "");
    assert!(!parsed(&text).unwrap().drivers.is_on("raw_exec"));
}

#[test]
fn every_mistake_is_named() {
    for (from, to, expected) in [
        ("data_dir   = \"/var/lib/drover\"", "", "data_dir"),
        ("\"/var/lib/drover\"", "\"relative\"", "data_dir"),
        ("[\"10.0.0.1\", \"server:5000\"]", "[]", "servers"),
        ("server:5000", "server:70000", "server:70000"),
        ("name       = \"n1\"", "nmae = \"n1\"", "nmae"),
        (
            "cpu            = 500",
            "cpu = \"much\"",
            "`reserved.cpu`: invalid type",
        ),
        (
            "enabled = true",
            "enable = true",
            "`driver \"raw_exec\".enable`: unknown field",
        ),
        ("path      = \"/srv/data\"", "path = \"data\"", "data"),
        (
            "region     = \"global\"",
            "region = \"no region!\"",
            "region",
        ),
        (
            "name       = \"n1\"",
            "task_pids_max = 3",
            "`task_pids_max`: 3",
        ),
        (
            "name       = \"n1\"",
            "ephemeral_disk { enforce = \"quota\" }",
            "`ephemeral_disk.enforce`: \"quota\" is neither",
        ),
        (
            "name       = \"n1\"",
            "max_kill_timeout = \"25h\"",
            "`max_kill_timeout`: \"25h\"",
        ),
        (
            "join_token = \"abc\"",
            "join_token = \"a\"\njoin_token_file = \"/x\"",
            "join_token",
        ),
    ] {
        is_refused(from, to, expected);
    }
}

#[test]
fn values_that_could_have_no_effect_are_refused_by_their_key() {
    for (from, to, expected) in [
        ("name       = \"n1\"", "name = 5", "`name`: invalid type"),
        (
            "name       = \"n1\"",
            "node_pool = \"all\"",
            "`node_pool`: no node is in the pool \"all\"",
        ),
        (
            "name       = \"n1\"",
            "node_pool = \"a b\"",
            "`node_pool`: \"a b\" is not",
        ),
        (
            "name       = \"n1\"",
            "name = env.NAME",
            "`name`: a configuration holds plain values",
        ),
        (
            "rack = \"r1\"",
            "rack = \"${x}\"",
            "`meta.rack`: a configuration holds plain values",
        ),
        (
            "host_volume \"more\"",
            "host_volume \"data\"",
            "`host_volume \"data\"`: it is given twice",
        ),
        (
            "reserved_ports = \"22\"",
            "reserved_ports = \"22,http\"",
            "`reserved.reserved_ports`: \"http\"",
        ),
        (
            "name       = \"n1\"",
            "task_open_files = 10",
            "`task_open_files`: 10",
        ),
        (
            "enabled = true",
            "denied_host_uids = \"all\"",
            "`driver \"raw_exec\".denied_host_uids`: \"all\"",
        ),
        (
            "enabled = true",
            "allow_host_pid_mode = true",
            "`driver \"raw_exec\".allow_host_pid_mode`: this driver has no such setting",
        ),
        (
            "host_volume \"more\" {",
            "plugin \"raw_exec\" {\n config {}\n}\nhost_volume \"more\" {",
            "`driver \"raw_exec\"`: it is also in a `plugin` block",
        ),
        ("/srv/data", "/etc/drover/x", "is inside /etc/drover"),
        ("/srv/data", "/var/lib/drover/alloc", "which no task sees"),
        (
            "name       = \"n1\"",
            "masked_paths = [\"/srv\"]",
            "`host_volume \"data\"`: /srv/data is inside /srv",
        ),
    ] {
        is_refused(from, to, expected);
    }
}

fn is_refused(from: &str, to: &str, expected: &str) {
    assert!(WHOLE.contains(from), "{from}");
    let error = parsed(&WHOLE.replace(from, to)).unwrap_err();
    assert!(error.contains(expected), "{to}: {error}");
}

#[test]
fn a_log_level_that_would_show_nothing_is_refused() {
    let with = |level: &str| parsed(&format!("log_level = {level:?}\n{WHOLE}"));
    for level in ["warning", "", "info,", "noded_daemon", "quinn=loud"] {
        let error = with(level).unwrap_err();
        assert!(error.contains("log_level"), "{level}: {error}");
        assert!(error.contains("trace, debug, info, warn"), "{error}");
    }
    for level in ["warn", "DEBUG", "debug, quinn=warn,rustls=off"] {
        assert_eq!(with(level).unwrap().log_level, level);
    }
}

#[test]
fn the_file_that_the_documentation_shows_is_one() {
    let page = include_str!("../../../../../docs/configuration.md");
    let shown = page
        .split("```hcl")
        .nth(2)
        .and_then(|rest| rest.split("```").next());
    let file = ConfigFile::parse(shown.expect("a file")).expect("it reads");
    assert_eq!(file.servers.len(), 3);
}

#[test]
fn subnets_that_cannot_be_used_are_named_with_their_key() {
    for (lines, expected) in [
        ("network {\n ipv4_subnet = \"x\"\n}", "network.ipv4_subnet"),
        (
            "bridge_network_subnet = \"10.0.0.0/31\"",
            "bridge_network_subnet",
        ),
        (
            "bridge_network_subnet = \"10.7.0.0/16\"\nnetwork {\n ipv4_subnet = \"10.7.0.0/16\"\n}",
            "bridge_network_subnet",
        ),
        ("network {\n forwarding = \"no\"\n}", "network.forwarding"),
    ] {
        let lines = format!("{}{lines}\n", keys::with(""));
        let error = parsed(&lines).unwrap_err();
        assert!(error.contains(&format!("`{expected}`")), "{error}");
    }
}
