//! Every key of the file: it has its effect, and a value of another type is refused by its name.
//! The list of keys comes from the reader itself, so a new key without a row fails here.

use std::collections::BTreeSet;

use netns::Forwarding;

use super::*;

const BASE: [(&str, &str); 3] = [
    ("data_dir", "data_dir = \"/d\""),
    ("servers", "servers = [\"a\"]"),
    (
        "tls",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n}",
    ),
];

/// A key, a file's lines that set it, and what they come to.
type Row = (&'static str, &'static str, fn(&Config) -> bool);

const PLACE: [Row; 11] = [
    ("name", "name = \"n7\"", |it| it.name == "n7"),
    ("region", "region = \"eu\"", |it| it.region.as_str() == "eu"),
    ("datacenter", "datacenter = \"dc7\"", |it| {
        it.datacenter == "dc7"
    }),
    ("node_pool", "node_pool = \"gpu\"", |it| {
        it.node_pool == "gpu"
    }),
    ("node_class", "node_class = \"big\"", |it| {
        it.node_class == "big"
    }),
    ("meta", "meta { rack = \"r7\" }", |it| {
        it.meta.get("rack").is_some_and(|rack| rack == "r7")
    }),
    ("data_dir", "data_dir = \"/d7\"", |it| {
        it.alloc_root() == Path::new("/d7/alloc")
    }),
    ("run_dir", "run_dir = \"/r7\"", |it| {
        it.run_dir == Path::new("/r7")
    }),
    ("cgroup_base", "cgroup_base = \"c7\"", |it| {
        it.cgroup_base == Path::new("c7")
    }),
    ("keeper_binary", "keeper_binary = \"/k7\"", |it| {
        it.keeper_binary == Path::new("/k7")
    }),
    ("jail_binary", "jail_binary = \"/j7\"", |it| {
        it.jail_binary == Path::new("/j7")
    }),
];

const SERVERS: [Row; 6] = [
    ("servers", "servers = [\"b:7\"]", |it| it.servers == ["b:7"]),
    ("join_token", "join_token = \"t7\"", |it| {
        it.join_token.as_ref().is_some_and(|it| it.reveal() == "t7")
    }),
    ("join_token_file", "join_token_file = \"TOKEN\"", |it| {
        it.join_token
            .as_ref()
            .is_some_and(|it| it.reveal() == "from a file")
    }),
    (
        "tls.ca_file",
        "tls {\n ca_file = \"/7\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n}",
        |it| it.tls.ca_file == Path::new("/7"),
    ),
    (
        "tls.cert_file",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/7\"\n key_file = \"/key\"\n}",
        |it| it.tls.cert_file == Path::new("/7"),
    ),
    (
        "tls.key_file",
        "tls {\n ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/7\"\n}",
        |it| it.tls.key_file == Path::new("/7"),
    ),
];

const ROOM: [Row; 14] = [
    ("reserved.cpu", "reserved { cpu = 7 }", |it| {
        it.reserved.cpu == 7
    }),
    ("reserved.memory", "reserved { memory = 7 }", |it| {
        it.reserved.memory == 7
    }),
    ("reserved.disk", "reserved { disk = 7 }", |it| {
        it.reserved.disk == 7
    }),
    (
        "reserved.reserved_ports",
        "reserved { reserved_ports = \"7-9\" }",
        |it| it.reserved.reserved_ports == "7-9",
    ),
    ("min_dynamic_port", "min_dynamic_port = 7", |it| {
        it.dynamic_port_min == 7
    }),
    ("max_dynamic_port", "max_dynamic_port = 30007", |it| {
        it.dynamic_port_max == 30_007
    }),
    ("task_pids_max", "task_pids_max = 77", |it| {
        it.task_pids_max == 77
    }),
    ("task_open_files", "task_open_files = 77", |it| {
        it.task_open_files == 77
    }),
    ("max_kill_timeout", "max_kill_timeout = \"7s\"", |it| {
        it.kill_timeout_max.as_secs() == 7
    }),
    (
        "fingerprint_interval",
        "fingerprint_interval = \"7s\"",
        |it| it.upkeep.fingerprint_interval.as_secs() == 7,
    ),
    ("gc_interval", "gc_interval = \"7s\"", |it| {
        it.upkeep.gc_interval.as_secs() == 7
    }),
    ("gc_max_allocs", "gc_max_allocs = 7", |it| {
        it.upkeep.gc_max_allocs == 7
    }),
    (
        "gc_disk_usage_threshold",
        "gc_disk_usage_threshold = 7",
        |it| it.upkeep.gc_disk_usage_threshold == 7,
    ),
    (
        "gc_inode_usage_threshold",
        "gc_inode_usage_threshold = 7",
        |it| it.upkeep.gc_inode_usage_threshold == 7,
    ),
];

const TASKS: [Row; 20] = [
    (
        "host_volume.path",
        "host_volume \"v\" { path = \"/7\" }",
        |it| {
            it.host_volumes
                .get("v")
                .is_some_and(|it| it.path == Path::new("/7"))
        },
    ),
    (
        "host_volume.read_only",
        "host_volume \"v\" {\n path = \"/7\"\n read_only = true\n}",
        |it| it.host_volumes.get("v").is_some_and(|it| it.read_only),
    ),
    (
        "host_network.cidr",
        "host_network \"n\" { cidr = \"10.0.0.0/8\" }",
        |it| network(it).is_some_and(|it| it.cidr.is_some() && it.interface.is_none()),
    ),
    (
        "host_network.interface",
        "host_network \"n\" { interface = \"eth7\" }",
        |it| network(it).is_some_and(|it| it.interface.as_deref() == Some("eth7")),
    ),
    (
        "host_network.reserved_ports",
        "host_network \"n\" {\n interface = \"eth7\"\n reserved_ports = \"7\"\n}",
        |it| network(it).is_some_and(|it| it.reserved_ports == "7"),
    ),
    ("reservable_cores", "reservable_cores = \"1-7\"", |it| {
        let cores = it.reservable_cores.as_ref();
        cores.is_some_and(|cores| cores.contains(7) && !cores.contains(0))
    }),
    ("task_cpu_hard_limit", "task_cpu_hard_limit = true", |it| {
        it.task_cpu_hard_limit == Switch::On
    }),
    (
        "ephemeral_disk.enforce",
        "ephemeral_disk { enforce = \"off\" }",
        |it| it.upkeep.ephemeral_disk == DiskWatch::Off,
    ),
    ("chroot_paths", "chroot_paths = [\"/7\"]", |it| {
        it.chroot_paths == [Path::new("/7")]
    }),
    ("masked_paths", "masked_paths = [\"/7\"]", |it| {
        it.masked_paths == [Path::new("/7")]
    }),
    (
        "driver.enabled",
        "driver \"exec\" { enabled = false }",
        |it| !it.drivers.is_on("exec") && it.drivers.enabled().is_empty(),
    ),
    (
        "driver.denied_host_uids",
        "driver \"raw_exec\" { denied_host_uids = \"7\" }",
        |it| denied(it, "raw_exec") == (true, false),
    ),
    (
        "driver.denied_host_gids",
        "driver \"exec\" { denied_host_gids = \"7\" }",
        |it| denied(it, "exec") == (false, true),
    ),
    (
        "driver.allow_host_pid_mode",
        "driver \"exec\" { allow_host_pid_mode = true }",
        |it| modes(it) == (Switch::On, Switch::Off),
    ),
    (
        "driver.allow_host_ipc_mode",
        "driver \"exec\" { allow_host_ipc_mode = true }",
        |it| modes(it) == (Switch::Off, Switch::On),
    ),
    (
        "plugin.config.enabled",
        "plugin \"raw_exec\" {\n config { enabled = true }\n}",
        |it| it.drivers.is_on("raw_exec"),
    ),
    (
        "plugin.config.denied_host_uids",
        "plugin \"exec\" {\n config { denied_host_uids = \"7\" }\n}",
        |it| denied(it, "exec") == (true, false),
    ),
    (
        "plugin.config.denied_host_gids",
        "plugin \"exec\" {\n config { denied_host_gids = \"1-7\" }\n}",
        |it| denied(it, "exec") == (false, true),
    ),
    (
        "plugin.config.allow_host_pid_mode",
        "plugin \"exec\" {\n config { allow_host_pid_mode = true }\n}",
        |it| modes(it) == (Switch::On, Switch::Off),
    ),
    (
        "plugin.config.allow_host_ipc_mode",
        "plugin \"exec\" {\n config { allow_host_ipc_mode = true }\n}",
        |it| modes(it) == (Switch::Off, Switch::On),
    ),
];

const LOG: [Row; 2] = [
    ("log_level", "log_level = \"warn\"", |it| {
        it.log_level == "warn"
    }),
    ("log_json", "log_json = true", |it| {
        it.log_json == Switch::On
    }),
];

const TASK_API: [Row; 6] = [
    (
        "task_api.enabled",
        "task_api {\n enabled = false\n}",
        |it| !it.task_api.enabled,
    ),
    ("task_api.peers", "task_api {\n peers = \"user\"\n}", |it| {
        it.task_api.peers == Peers::User
    }),
    (
        "task_api.connections",
        "task_api {\n connections = 7\n}",
        |it| it.task_api.limits.connections == 7,
    ),
    ("task_api.requests", "task_api {\n requests = 7\n}", |it| {
        it.task_api.limits.requests == 7
    }),
    ("task_api.rate", "task_api {\n rate = 7\n}", |it| {
        it.task_api.limits.rate == 7
    }),
    ("task_api.burst", "task_api {\n burst = 7\n}", |it| {
        it.task_api.limits.burst == 7
    }),
];

const NETWORK: [Row; 3] = [
    (
        "network.ipv4_subnet",
        "network {\n ipv4_subnet = \"10.7.0.0/16\"\n}",
        |it| it.network.ipv4_subnet.to_string() == "10.7.0.0/16",
    ),
    (
        "network.forwarding",
        "network {\n forwarding = \"check\"\n}",
        |it| it.network.forwarding == Forwarding::Check,
    ),
    (
        "bridge_network_subnet",
        "bridge_network_subnet = \"10.7.0.0/16\"",
        |it| it.network.ipv4_subnet.to_string() == "10.7.0.0/16",
    ),
];

const ARTIFACT: [Row; 7] = [
    (
        "artifact.http_read_timeout",
        "artifact { http_read_timeout = \"7s\" }",
        |it| it.artifact.limits.http_timeout.as_secs() == 7,
    ),
    (
        "artifact.http_max_size",
        "artifact { http_max_size = \"7kB\" }",
        |it| it.artifact.limits.http_bytes_max == Some(7000),
    ),
    (
        "artifact.git_timeout",
        "artifact { git_timeout = \"7s\" }",
        |it| it.artifact.limits.git_timeout.as_secs() == 7,
    ),
    (
        "artifact.decompression_size_limit",
        "artifact { decompression_size_limit = \"7KiB\" }",
        |it| it.artifact.limits.unpacked_bytes_max == Some(7168),
    ),
    (
        "artifact.decompression_file_count_limit",
        "artifact { decompression_file_count_limit = 7 }",
        |it| it.artifact.limits.unpacked_entries_max == Some(7),
    ),
    (
        "artifact.disable_artifact_inspection",
        "artifact { disable_artifact_inspection = true }",
        |it| it.artifact.links == noded_artifact::Links::Taken,
    ),
    (
        "artifact.set_environment_variables",
        "artifact { set_environment_variables = \"A,B\" }",
        |it| it.artifact.variables == ["A", "B"],
    ),
];

fn rows() -> Vec<Row> {
    [
        &PLACE[..],
        &SERVERS,
        &ROOM,
        &TASKS,
        &NETWORK,
        &TASK_API,
        &ARTIFACT,
        &LOG,
    ]
    .concat()
}

fn network(config: &Config) -> Option<&HostNetworkFilter> {
    config.host_networks.get("n")
}

fn denied(config: &Config, driver: &str) -> (bool, bool) {
    let settings = config.drivers.find(driver).unwrap();
    (
        settings.denied_uids.contains(7),
        settings.denied_gids.contains(7),
    )
}

fn modes(config: &Config) -> (Switch, Switch) {
    let exec = config.drivers.find("exec").unwrap();
    (exec.host_pids, exec.host_ipc)
}

/// A block with one line in it.
type Block = fn(&str) -> String;

/// A file that is complete with these lines.
pub(super) fn with(lines: &str) -> String {
    let rest = BASE.iter().filter(|(key, _)| !lines.starts_with(key));
    let rest: Vec<&str> = rest.map(|(_, text)| *text).collect();
    format!("{}\n{lines}\n", rest.join("\n"))
}

/// What the reader says it would know in a block.
fn keys_in(around: Block) -> Vec<String> {
    let error = parsed(&with(&around("no_such_key = 1"))).unwrap_err();
    let (_, list) = error
        .split_once("expected ")
        .unwrap_or_else(|| panic!("{error}"));
    let names = list.split('`').skip(1).step_by(2);
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn every_key_that_the_reader_knows_has_a_row() {
    let blocks: [(&str, Block); 11] = [
        ("", |key| key.to_owned()),
        ("tls.", |key| format!("tls {{\n {key}\n}}")),
        ("reserved.", |key| format!("reserved {{\n {key}\n}}")),
        ("artifact.", |key| format!("artifact {{\n {key}\n}}")),
        ("network.", |key| format!("network {{\n {key}\n}}")),
        ("task_api.", |key| format!("task_api {{\n {key}\n}}")),
        ("ephemeral_disk.", |key| {
            format!("ephemeral_disk {{\n {key}\n}}")
        }),
        ("driver.", |key| format!("driver \"exec\" {{\n {key}\n}}")),
        ("plugin.config.", |key| {
            format!("plugin \"exec\" {{\n config {{\n {key}\n }}\n}}")
        }),
        ("host_volume.", |key| {
            format!("host_volume \"v\" {{\n {key}\n}}")
        }),
        ("host_network.", |key| {
            format!("host_network \"n\" {{\n {key}\n}}")
        }),
    ];
    // Blocks, which have keys of their own; and the other name of `run_dir`.
    let no_rows = [
        "tls",
        "reserved",
        "network",
        "task_api",
        "artifact",
        "ephemeral_disk",
        "driver",
        "plugin",
        "host_volume",
        "host_network",
        "runtime_dir",
    ];
    let known: BTreeSet<String> = blocks
        .iter()
        .flat_map(|(above, around)| {
            let keys = keys_in(*around);
            assert!(!keys.is_empty(), "{above}");
            keys.into_iter().map(move |key| format!("{above}{key}"))
        })
        .filter(|key| !no_rows.contains(&key.as_str()))
        .collect();
    let tested: BTreeSet<String> = rows().iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(known, tested);
}

#[test]
fn every_key_has_its_effect() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "from a file\n").unwrap();
    let usual = parsed(&with("")).unwrap();
    for (key, lines, has_effect) in rows() {
        let lines = lines.replace("TOKEN", token.to_str().unwrap());
        let config = parsed(&with(&lines)).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(has_effect(&config), "{key}");
        assert!(
            !has_effect(&usual),
            "{key}: the default cannot be told from it"
        );
    }
}

#[test]
fn every_key_refuses_a_value_of_another_type_by_its_name() {
    for (key, lines, _) in rows() {
        let name = key.rsplit('.').next().unwrap();
        let at = lines.find(&format!("{name} ")).unwrap();
        let rest = &lines[at..];
        let end = rest.find(['\n', '}']).unwrap_or(rest.len());
        let wrong = lines.replace(rest[..end].trim(), &format!("{name} = [[true]]"));
        let error = parsed(&with(&wrong)).unwrap_err();
        // A block of a block is named as a whole.
        let named = if key.starts_with("plugin") {
            "config"
        } else {
            name
        };
        assert!(error.contains(named), "{key}: {wrong}: {error}");
    }
}
