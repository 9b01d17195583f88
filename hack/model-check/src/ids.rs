//! The two nodes, the two jobs: the node that is looked at, and another one that is always well and
//! takes what is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{Digest, computed_class};
use protocol_model::{
    DisconnectStrategy, DriverInfo, Job, JobType, NetworkResource, Node, NodeId, Resources, Task,
    TaskGroup, UpdateStrategy,
};

/// The node that is looked at.
pub(crate) const NODE: NodeId = NodeId::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0001);
/// The one that is always well.
pub(crate) const OTHER: NodeId = NodeId::from_u128(0x0e00_0000_0000_4000_8000_0000_0000_0002);

/// How long the second job tolerates a silent node.
pub(crate) const WINDOW: Duration = Duration::from_secs(3600);

/// The digest of a node's secret.
pub(crate) fn secret_hash(node: NodeId) -> Digest {
    let mut digest = [7; 32];
    digest[..16].copy_from_slice(node.as_bytes());
    Digest(digest)
}

/// What a node says about itself.
pub(crate) fn facts(id: NodeId) -> Node {
    let mut node = Node::new(id, if id == NODE { "n" } else { "other" }, "dc1");
    node.attributes
        .insert("kernel.name".to_owned(), "linux".to_owned());
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        ..DriverInfo::default()
    };
    node.drivers.insert("raw_exec".to_owned(), driver);
    let resources = &mut node.node_resources;
    resources.cpu.cpu_shares = 4000;
    resources.cpu.total_cpu_cores = 4;
    resources.memory.memory_mb = 8192;
    resources.disk.disk_mb = 100 * 1024;
    resources.min_dynamic_port = 20_000;
    resources.max_dynamic_port = 32_000;
    resources.networks.push(NetworkResource {
        device: "eth0".to_owned(),
        ip: format!("10.0.0.{}", id.as_bytes()[15]),
        ..NetworkResource::default()
    });
    node.computed_class = computed_class(&node);
    node
}

/// Two services of one allocation each: the first gives a silent node up, the second tolerates it
/// for [`WINDOW`] and is replaced meanwhile, so that its two have to be sorted out later.
pub(crate) fn jobs() -> [Arc<Job>; 2] {
    ["plain", "tolerant"].map(|name| {
        let mut group = TaskGroup {
            name: "g".to_owned(),
            count: Some(1),
            tasks: vec![task()],
            update: Some(UpdateStrategy {
                max_parallel: Some(0),
                ..UpdateStrategy::default()
            }),
            ..TaskGroup::default()
        };
        group.disconnect = (name == "tolerant").then(|| DisconnectStrategy {
            lost_after: Some(WINDOW),
            replace: Some(true),
            ..DisconnectStrategy::default()
        });
        let mut job = Job {
            id: name.to_owned(),
            name: name.to_owned(),
            job_type: JobType::Service,
            task_groups: vec![group],
            ..Job::default()
        };
        job.canonicalize();
        Arc::new(job)
    })
}

fn task() -> Task {
    Task {
        name: "t".to_owned(),
        driver: "raw_exec".to_owned(),
        config: BTreeMap::from([("command".to_owned(), "/bin/run".into())]),
        resources: Some(Resources {
            cpu: Some(50),
            memory_mb: Some(64),
            ..Resources::default()
        }),
        ..Task::default()
    }
}
