//! The environment of a task, against what users of Nomad expect to find.

use std::sync::Arc;

use protocol_model::{
    AllocId, AllocatedPort, AllocatedTaskResources, DispatchPayload, Node, NodeId, Template,
    VolumeMount,
};

use super::*;
use crate::alloc_resources::AllocResources;
use crate::effect::Rendering;
use crate::test_support::{alloc_of, job_with_tasks, task};

fn world_of(task: Task, check: impl FnOnce(&TaskWorld<'_>)) {
    let mut job = job_with_tasks("web", vec![task]);
    job.meta
        .insert("owner".to_owned(), "${node.datacenter}-team".to_owned());
    job.task_groups[0]
        .meta
        .insert("my-key".to_owned(), "group".to_owned());
    job.parent_id = "parent".to_owned();
    let mut alloc = alloc_of(&job, AllocId::from_u128(7));
    let mut given = AllocatedTaskResources::default();
    given.memory.memory_mb = 256;
    given.memory.memory_max_mb = 512;
    given.cpu.cpu_shares = 500;
    given.cpu.reserved_cores = vec![2, 3];
    let resources = Arc::make_mut(&mut alloc.allocated_resources);
    resources.tasks.insert("main".to_owned(), given);
    resources.shared.ports = vec![
        AllocatedPort {
            label: "http".into(),
            value: 20_001,
            to: 0,
            host_ip: "10.0.0.7".into(),
        },
        AllocatedPort {
            label: "db-x".into(),
            value: 20_002,
            to: 5432,
            host_ip: "fe80::1".into(),
        },
    ];
    let spec = Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("the group exists"));
    let mut node = Node::new(NodeId::from_u128(9), "host-1", "dc1");
    node.attributes
        .insert("kernel.name".to_owned(), "linux".to_owned());
    node.meta.insert("rack".to_owned(), "r7".to_owned());
    let mut settings = Settings::new("/data/alloc", [0; 16]);
    settings.parent_cgroup = "drover".to_owned();
    let resources = AllocResources::default();
    let ctx = RunContext {
        settings: &settings,
        node: &node,
        spec: &spec,
        resources: &resources,
    };
    let task = spec.task("main").expect("the task exists");
    check(&TaskWorld::new(ctx, task));
}

#[test]
fn tasks_find_what_they_look_for_in_their_environment() {
    let mut main = task("main");
    main.driver = "exec".to_owned();
    main.env.insert(
        "GREETING".to_owned(),
        "${meta.rack} ${NOMAD_PORT_http}".to_owned(),
    );
    main.env.insert("NOMAD_DC".to_owned(), "mine".to_owned());
    world_of(main, |world| {
        let id = AllocId::from_u128(7);
        for (name, value) in [
            ("NOMAD_ALLOC_ID", id.to_string().as_str()),
            ("NOMAD_SHORT_ALLOC_ID", "00000000"),
            ("NOMAD_ALLOC_NAME", "web.group[0]"),
            ("NOMAD_ALLOC_INDEX", "0"),
            ("NOMAD_TASK_NAME", "main"),
            ("NOMAD_UNIX_ADDR", "unix:///secrets/api.sock"),
            ("NOMAD_GROUP_NAME", "group"),
            ("NOMAD_JOB_ID", "web"),
            ("NOMAD_NAMESPACE", "default"),
            ("NOMAD_REGION", "global"),
            ("NOMAD_ALLOC_DIR", "/alloc"),
            ("NOMAD_TASK_DIR", "/local"),
            ("NOMAD_SECRETS_DIR", "/secrets"),
            ("NOMAD_MEMORY_LIMIT", "256"),
            ("NOMAD_CPU_LIMIT", "500"),
            ("NOMAD_CPU_CORES", "2-3"),
            ("NOMAD_PORT_http", "20001"),
            ("NOMAD_ADDR_http", "10.0.0.7:20001"),
            ("NOMAD_IP_http", "10.0.0.7"),
            ("NOMAD_HOST_PORT_http", "20001"),
            ("NOMAD_PORT_db_x", "5432"),
            ("NOMAD_ALLOC_PORT_db_x", "5432"),
            ("NOMAD_HOST_PORT_db_x", "20002"),
            ("NOMAD_HOST_ADDR_db_x", "[fe80::1]:20002"),
            ("NOMAD_META_owner", "dc1-team"),
            ("NOMAD_META_OWNER", "dc1-team"),
            ("NOMAD_META_my_key", "group"),
            ("GREETING", "r7 20001"),
            ("NOMAD_DC", "mine"),
        ] {
            assert_eq!(
                world.environment().get(name).map(String::as_str),
                Some(value),
                "{name}"
            );
        }
    });
}

#[test]
fn templates_find_the_node_s_values_in_their_environment() {
    world_of(crate::test_support::task("main"), |world| {
        let environment = world.clone().into_template_environment();
        for name in [
            "node.unique.id",
            "node.unique.name",
            "node.datacenter",
            "node.region",
        ] {
            assert_eq!(environment.get(name).cloned(), world.lookup(name), "{name}");
        }
        for (name, value) in [("attr.kernel.name", "linux"), ("meta.rack", "r7")] {
            assert_eq!(
                environment.get(name).map(String::as_str),
                Some(value),
                "{name}"
            );
        }
        assert!(!world.environment().contains_key("node.datacenter"));
    });
}

#[test]
fn a_task_without_a_root_of_its_own_sees_host_paths() {
    world_of(task("main"), |world| {
        let id = AllocId::from_u128(7);
        let expected = format!("/data/alloc/{id}/main/local");
        assert_eq!(world.environment().get("NOMAD_TASK_DIR"), Some(&expected));
    });
}

#[test]
fn configuration_templates_and_payload_are_resolved() {
    let mut main = task("main");
    main.driver = "exec".to_owned();
    main.config.insert(
        "command".to_owned(),
        "${attr.kernel.name}-${env.HOME_X}".into(),
    );
    main.templates = vec![Template {
        dest_path: Some("${NOMAD_TASK_DIR}/a.conf".to_owned()),
        ..Template::default()
    }];
    main.dispatch_payload = Some(DispatchPayload {
        file: "in.json".to_owned(),
    });
    world_of(main, |world| {
        let config = world.resolve_config(&world.task.config);
        assert_eq!(config["command"], "linux-${env.HOME_X}");
        let base = format!("/data/alloc/{}/main/local", AllocId::from_u128(7));
        assert_eq!(
            world.templates(|_| Rendering::Anew)[0].destination,
            format!("{base}/a.conf")
        );
        assert_eq!(
            world.dispatch_payload_file(),
            Some(format!("{base}/in.json"))
        );
    });
}

#[test]
fn names_are_found_as_written_and_as_the_environment_spells_them() {
    let mut main = task("main");
    main.env.insert("my-own".to_owned(), "own".to_owned());
    main.env
        .insert("ADDRESS".to_owned(), "${NOMAD_ADDR_db-x}".to_owned());
    let texts = serde_json::json!([
        "${NOMAD_PORT_db-x} ${NOMAD_PORT_db_x} ${env.NOMAD_PORT_db-x}",
        "${NOMAD_META_my-key} ${NOMAD_META_my_key} ${NOMAD_META_MY.KEY}",
        "${my-own} ${my_own} ${env[\"my-own\"]}",
        "${meta[\"rack\"]} ${attr[\"kernel.name\"]} ${node.meta.rack} ${ node.datacenter }",
    ]);
    main.config.insert("args".to_owned(), texts);
    world_of(main, |world| {
        assert_eq!(world.environment()["ADDRESS"], "[fe80::1]:20002");
        let config = world.resolve_config(&world.task.config);
        let expected = serde_json::json!([
            "5432 5432 5432",
            "group group group",
            "own ${my_own} own",
            "r7 linux r7 dc1",
        ]);
        assert_eq!(config["args"], expected);
        let elsewhere = "${meta[\"rack\"]} ${ meta.rack } ${meta.rack} ${NOMAD_PORT_db-x}";
        let resolved = "${meta[\"rack\"]} ${ meta.rack } r7 5432";
        assert_eq!(world.resolve(elsewhere), resolved);
    });
}

/// The documented names, without those of services, bridges, tokens and plugins, which this release
/// does not have; `*` = each port's label.
const DOCUMENTED: &str = "ALLOC_DIR TASK_DIR SECRETS_DIR MEMORY_LIMIT MEMORY_MAX_LIMIT CPU_LIMIT \
    CPU_CORES ALLOC_ID SHORT_ALLOC_ID ALLOC_NAME ALLOC_INDEX TASK_NAME GROUP_NAME JOB_ID JOB_NAME \
    JOB_PARENT_ID DC REGION NAMESPACE PARENT_CGROUP UNIX_ADDR ADDR_* IP_* PORT_* HOST_ADDR_* \
    HOST_IP_* HOST_PORT_* ALLOC_PORT_* META_owner META_OWNER META_my_key META_MY_KEY";

#[test]
fn every_documented_variable_is_there_and_no_other() {
    let mut expected: Vec<String> = Vec::new();
    for name in DOCUMENTED.split_whitespace() {
        for label in ["http", "db_x"] {
            let name = format!("NOMAD_{}", name.replace('*', label));
            if !expected.contains(&name) {
                expected.push(name);
            }
        }
    }
    expected.sort();
    let mut main = task("main");
    main.driver = "exec".to_owned();
    world_of(main, |world| {
        let names = world.environment().keys();
        let names: Vec<&String> = names.filter(|name| name.starts_with("NOMAD_")).collect();
        assert_eq!(names, expected.iter().collect::<Vec<_>>());
        for (name, value) in [
            ("NOMAD_JOB_NAME", "web"),
            ("NOMAD_JOB_PARENT_ID", "parent"),
            ("NOMAD_PARENT_CGROUP", "drover"),
            ("NOMAD_DC", "dc1"),
            ("NOMAD_MEMORY_MAX_LIMIT", "512"),
            ("NOMAD_HOST_IP_http", "10.0.0.7"),
        ] {
            assert_eq!(world.environment()[name], value, "{name}");
        }
    });
}

#[test]
fn cores_are_listed_as_the_kernel_does() {
    for (cores, expected) in [
        (&[][..], ""),
        (&[7], "7"),
        (&[3, 1, 2], "1-3"),
        (&[0, 1, 3, 5, 6], "0-1,3,5-6"),
    ] {
        assert_eq!(super::core_list(cores), expected);
    }
}

#[test]
fn volume_mounts_are_interpolated() {
    let mut main = task("main");
    main.meta
        .insert("mode".to_owned(), "host-to-task".to_owned());
    main.volume_mounts = vec![VolumeMount {
        volume: Some("${meta.rack}-data".to_owned()),
        destination: Some("/srv/${NOMAD_ALLOC_INDEX}".to_owned()),
        propagation_mode: Some("${NOMAD_META_mode}".to_owned()),
        ..VolumeMount::default()
    }];
    world_of(main, |world| {
        let mounts = world.volume_mounts();
        let [mount] = mounts.as_slice() else {
            panic!("{mounts:?}");
        };
        assert_eq!(mount.volume.as_deref(), Some("r7-data"));
        assert_eq!(mount.destination.as_deref(), Some("/srv/0"));
        assert_eq!(mount.propagation_mode.as_deref(), Some("host-to-task"));
        assert_eq!(mount.read_only, None);
    });
}

#[test]
fn a_task_is_told_its_socket_where_its_path_can_be_connected_to() {
    let address = |driver: &str, alloc_root: &str, task_api: bool| {
        let mut main = task("main");
        main.driver = driver.to_owned();
        let job = job_with_tasks("web", vec![main]);
        let alloc = alloc_of(&job, AllocId::from_u128(7));
        let spec = Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("the group exists"));
        let mut settings = Settings::new(alloc_root, [0; 16]);
        settings.task_api = task_api;
        let ctx = RunContext {
            settings: &settings,
            node: &Node::new(NodeId::from_u128(9), "host-1", "dc1"),
            spec: &spec,
            resources: &AllocResources::default(),
        };
        let world = TaskWorld::new(ctx, spec.task("main").expect("the task exists"));
        world.environment().get("NOMAD_UNIX_ADDR").cloned()
    };
    // The rest of a path on the host has 59 bytes: two slashes, id, `main`, `secrets`, `api.sock`.
    let (fits, too_long) = (
        "/".to_owned() + &"r".repeat(47),
        "/".to_owned() + &"r".repeat(48),
    );
    let on_host = address("raw_exec", &fits, true).expect("it fits");
    assert_eq!(on_host.len(), "unix://".len() + 107);
    assert_eq!(address("raw_exec", &too_long, true), None);
    let in_own_root = address("exec", &too_long, true);
    assert_eq!(in_own_root.as_deref(), Some("unix:///secrets/api.sock"));
    assert_eq!(address("exec", "/d", false), None);
    assert_eq!(address("mock", "/d", true), None);
}
