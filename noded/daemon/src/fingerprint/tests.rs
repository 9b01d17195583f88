//! The host that the tests run on.

use protocol_model::NodeId;

use super::*;
use crate::config::ConfigFile;

const CONFIG: &str = r#"
name = "n1"
data_dir = "/"
servers = ["127.0.0.1"]
node_class = "big"
tls {
  ca_file = "a"
  cert_file = "b"
  key_file = "c"
}
driver "raw_exec" {
  enabled = true
}
host_volume "data" {
  path = "/srv"
}
reserved {
  memory = 100
}
"#;

fn looked() -> Option<Fingerprint> {
    looked_with("")
}

fn looked_with(more: &str) -> Option<Fingerprint> {
    let text = format!("{CONFIG}{more}");
    let config = Config::from_file(ConfigFile::parse(&text).unwrap()).unwrap();
    let identity = NodeIdentity {
        id: NodeId::from_u128(1),
        secret: [0; 32],
    };
    let directory = tempfile::tempdir().unwrap();
    let metadata = MetadataStore::open(directory.path(), &config.meta);
    let bridge = Availability::Present;
    match fingerprint(&config, &identity, Engine::Plain, &bridge, &metadata) {
        Ok(found) => Some(found),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn the_facts_that_job_files_ask_for_are_there() {
    let Some(Fingerprint { node, .. }) = looked() else {
        return;
    };
    for name in [
        "kernel.name",
        "kernel.version",
        "cpu.arch",
        "cpu.numcores",
        "cpu.totalcompute",
        "memory.totalbytes",
        "unique.hostname",
        "unique.network.ip-address",
        "unique.storage.bytesfree",
        "nomad.version",
        "drover.version",
        "driver.raw_exec",
        "cgroup.controllers",
        "cgroup.unenforced",
        "drover.cores",
        "drover.limits.enforced",
        "drover.task_pids_max",
        "drover.task_open_files",
        "io_uring",
    ] {
        assert!(node.attributes.contains_key(name), "{name}");
    }
    assert_eq!(node.attributes["kernel.name"], "linux");
    assert!(node.node_resources.cpu.cpu_shares > 0);
    assert!(node.node_resources.memory.memory_mb > 0);
    assert!(node.node_resources.disk.disk_mb > 0);
    assert_eq!(node.node_resources.networks.len(), 1);
    assert_eq!(node.reserved_resources.memory.memory_mb, 100);
    assert!(node.drivers["raw_exec"].healthy);
    assert_eq!(node.host_volumes["data"].path, "/srv");
}

#[test]
fn the_class_forgets_what_is_unique_and_nothing_else() {
    let mut node = Node::new(NodeId::from_u128(1), "a", "dc1");
    set(&mut node, "kernel.name", "linux");
    set(&mut node, "unique.hostname", "a");
    let class = class::of(&node);
    set(&mut node, "unique.hostname", "b");
    node.name = "b".to_owned();
    assert_eq!(class::of(&node), class);
    set(&mut node, "kernel.name", "other");
    assert_ne!(class::of(&node), class);
}

#[test]
fn a_driver_that_the_file_switches_off_is_shown_as_disabled() {
    let Some(Fingerprint { node, .. }) = looked_with("driver \"exec\" {\n enabled = false\n}")
    else {
        return;
    };
    assert!(!node.attributes.contains_key("driver.exec"));
    assert_eq!(node.drivers["exec"].health_description, "disabled");
    assert!(!node.drivers["exec"].healthy && !node.drivers["exec"].detected);
    assert!(node.drivers["raw_exec"].healthy);
    assert!(!node.drivers.contains_key("mock_driver"));
}
