//! The resources of an allocation reach its task: a volume of its number, cores, ports on
//! addresses. The node reports what it has of each.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use protocol_model::{
    AllocatedPort, ClientStatus, Job, NodeNetworkAddress, TaskEventKind, VolumeRequest,
};
use serde_json::json;

use crate::fake_server::Known;
use crate::jobs::{alloc, eventually, is, job, output, report, sh};
use crate::scene::{Scene, can_run};

const NETWORKS: &str = "host_network \"inside\" {\n  cidr = \"127.0.0.0/8\"\n  \
                        reserved_ports = \"81\"\n}\nreservable_cores = \"0\"\n";

/// A daemon that is only starting would be ended by SIGHUP.
async fn begun(scene: &Scene) {
    let synced = |known: &Known| !known.synced.is_empty();
    scene.server.until("a session", synced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reports_its_host_networks_and_reservable_cores() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    begun(&scene).await;
    scene.configure(NETWORKS);
    scene.reload();
    let known = scene
        .server
        .until("the new facts", |known| !known.facts.is_empty())
        .await;
    let Known { facts, .. } = known;
    let node = facts.last().expect("the facts");
    let expected = NodeNetworkAddress {
        family: "ipv4".to_owned(),
        alias: "inside".to_owned(),
        address: "127.0.0.1".to_owned(),
        reserved_ports: "81".to_owned(),
        gateway: String::new(),
    };
    let found: Vec<_> = node.node_resources.addresses("inside").collect();
    assert_eq!(found, [&expected]);
    assert_eq!(node.node_resources.addresses("default").count(), 1);
    assert_eq!(node.host_networks["inside"].cidr, "127.0.0.0/8");
    assert_eq!(node.node_resources.cpu.reservable_cpu_cores, [0]);
    assert_eq!(node.attributes["cpu.reservablecores"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_the_volume_cores_and_ports_of_its_allocation() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let own = scene.directory.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    begun(&scene).await;
    scene.configure(&format!("host_volume \"data[3]\" {{\n  path = {own:?}\n}}"));
    scene.reload();
    eventually(|| scene.log().contains("the configuration was reloaded")).await;
    let script = "echo kept > /data/file; echo $NOMAD_ADDR_http $NOMAD_IP_http $NOMAD_CPU_CORES; \
                  exec sleep 1000";
    let more = json!({"VolumeMounts": [{"Volume": "disk", "Destination": "/data"}]});
    let mut job = Job::clone(&job("placed", "exec", &sh(script), more));
    let request = VolumeRequest {
        volume_type: "host".to_owned(),
        source: "data".to_owned(),
        per_alloc: true,
        ..VolumeRequest::default()
    };
    job.task_groups[0]
        .volumes
        .insert("disk".to_owned(), request);
    let job = Arc::new(job);
    let mut alloc = alloc(&job, 70);
    alloc.name = "placed.group[3]".to_owned();
    let resources = Arc::make_mut(&mut alloc.allocated_resources);
    resources.shared.ports.push(AllocatedPort {
        label: "http".to_owned(),
        value: 8080,
        to: 0,
        host_ip: "127.0.0.2".to_owned(),
    });
    let cpu = &mut resources.tasks.get_mut("main").unwrap().cpu;
    cpu.reserved_cores = vec![0];
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let text = output(&scene, id, |text| !text.is_empty()).await;
    assert_eq!(text, "127.0.0.2:8080 127.0.0.2 0\n");
    eventually(|| std::fs::read_to_string(own.join("file")).is_ok_and(|it| it == "kept\n")).await;
    let pinned = std::fs::read_dir(scene.cgroup_path().join("tasks").join(id.to_string()))
        .unwrap()
        .flatten()
        .find_map(|task| std::fs::read_to_string(task.path().join("cpuset.cpus")).ok());
    if let Some(pinned) = pinned {
        assert_eq!(pinned, "0\n");
        return;
    }
    // Without the controller the task's history says so.
    let message = |known: &Known| {
        let report = report(known, id).filter(|_| is(known, id, ClientStatus::Running))?;
        let events = &report.task_states["main"].events;
        let events = events.iter().filter(|it| it.kind == TaskEventKind::Driver);
        events.map(|it| it.display_message.clone()).next()
    };
    let said = |known: &Known| message(known).is_some();
    let known = scene.server.until("the message", said).await;
    let message = message(&known).unwrap();
    assert!(
        message.contains("reserved cores 0: the task starts on them and may leave them"),
        "{message}"
    );
}
