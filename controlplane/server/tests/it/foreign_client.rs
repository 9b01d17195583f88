//! The same API, by a client that is not ours: what it sends is understood, what it reads is what
//! it expects.

use nomad_client_rs::allocation::{
    ListAllocationsOptions, ReadAllocationOptions, RestartAllocationRequest,
};
use nomad_client_rs::deployment::ListDeploymentsOptions;
use nomad_client_rs::job::{
    CreateJobRequest, ListJobAllocationsOptions, ListJobsOptions, ParseJobRequest, ReadJobOptions,
    StopJobOptions,
};
use nomad_client_rs::namespace::{
    CreateNamespaceRequest, ListNamespacesOptions, NamespaceCapabilities, NodePoolConfiguration,
};
use nomad_client_rs::node::{ListNodeAllocationsOptions, ListNodesOptions};
use nomad_client_rs::{ClientError, Config, Connection, NomadClient};

use crate::fake_node::FakeNode;
use crate::world::World;

fn client(world: &World) -> NomadClient {
    let address = format!("http://{}", world.server.http_address());
    let connection = Connection::HttpApi {
        address,
        credential: None,
    };
    NomadClient::new(Config {
        connection,
        ..Config::default()
    })
    .expect("a client")
}

const HCL: &str = r#"
    job "web" {
      meta { owner = "tests" }
      group "web" {
        network {
          port "http" {}
        }
        task "server" {
          driver = "raw_exec"
          config {
            command = "/bin/sleep"
            args    = ["600"]
          }
          env { PORT = "${NOMAD_PORT_http}" }
          resources {
            cpu    = 100
            memory = 64
          }
        }
      }
    }
"#;

#[tokio::test]
async fn a_job_goes_through_its_whole_life() -> Result<(), ClientError> {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let client = client(&world);

    let parse = ParseJobRequest {
        job_hcl: Some(HCL.to_owned()),
        canonicalize: Some(true),
        ..ParseJobRequest::default()
    };
    let job = client.parse_job(&parse).await?;
    assert_eq!(job.id.as_deref(), Some("web"));
    let create = CreateJobRequest {
        job: Some(job),
        ..CreateJobRequest::default()
    };
    let created = client.create_job(&create).await?;
    assert!(created.eval_id.is_some_and(|id| id.len() == 36));
    assert!(created.job_modify_index > Some(0));
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;

    let jobs = client.list_jobs(&ListJobsOptions::default()).await?;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].r#type.as_deref(), Some("service"));
    let summary = jobs[0]
        .job_summary
        .as_ref()
        .and_then(|summary| summary.summary.as_ref());
    assert_eq!(summary.and_then(|groups| groups["web"].starting), Some(1));
    let read = client.read_job("web", &ReadJobOptions::default()).await?;
    assert_eq!(read.version, Some(0));
    assert_eq!(read.task_groups.map(|groups| groups.len()), Some(1));

    let allocs = client
        .list_job_allocations("web", &ListJobAllocationsOptions::default())
        .await?;
    let id = allocs[0].id.clone().expect("an id");
    let all = client
        .list_allocations(&ListAllocationsOptions::default())
        .await?;
    assert_eq!(all[0].id.as_ref(), Some(&id));
    let alloc = client
        .read_allocation(&id, &ReadAllocationOptions::default())
        .await?;
    assert_eq!(alloc.node_id, Some(node.id.to_string()));
    assert_eq!(alloc.job.and_then(|job| job.id).as_deref(), Some("web"));

    let restart = RestartAllocationRequest {
        all_tasks: Some(true),
        ..Default::default()
    };
    client.restart_allocation(&id, &restart).await?;
    assert_eq!(client.list_allocation_files(&id, "/").await?.len(), 1);
    assert_eq!(client.read_allocation_file(&id, "a").await?, "0123456789");
    let stopped = client.stop_allocation(&id).await?;
    assert!(stopped.eval_id.is_some());

    let purge = StopJobOptions {
        purge: Some(true),
        ..StopJobOptions::default()
    };
    assert!(client.stop_job("web", &purge).await?.eval_id.is_some());
    match client.read_job("web", &ReadJobOptions::default()).await {
        Err(ClientError::NomadRejected {
            status: 404,
            message,
        }) => {
            assert_eq!(message, "job not found");
        }
        other => panic!("expected 404, got {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn the_rest_of_the_cluster_is_read() -> Result<(), ClientError> {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let client = client(&world);
    let leader = client.read_leader().await?;
    leader
        .parse::<std::net::SocketAddr>()
        .expect("the leader is an address");
    assert_eq!(client.list_peers().await?.len(), 1);
    let nodes = client.list_nodes(&ListNodesOptions::default()).await?;
    assert_eq!(nodes[0].status.as_deref(), Some("ready"));
    let id = node.id.to_string();
    assert_eq!(client.read_node(&id).await?.id.as_ref(), Some(&id));
    let allocs = client
        .list_node_allocations(&id, &ListNodeAllocationsOptions::default())
        .await?;
    assert!(allocs.is_empty());
    assert!(
        client
            .list_deployments(&ListDeploymentsOptions::default())
            .await?
            .is_empty()
    );
    let capabilities = NamespaceCapabilities {
        disabled_task_drivers: Some(vec!["raw_exec".to_owned()]),
        enabled_network_modes: Some(vec!["bridge".to_owned()]),
        ..NamespaceCapabilities::default()
    };
    let namespace = CreateNamespaceRequest {
        name: "team".to_owned(),
        capabilities: Some(capabilities.clone()),
        node_pool_configuration: Some(NodePoolConfiguration {
            default: Some("default".to_owned()),
            ..NodePoolConfiguration::default()
        }),
        ..CreateNamespaceRequest::default()
    };
    client.create_namespace(&namespace).await?;
    assert_eq!(
        client
            .list_namespaces(&ListNamespacesOptions::default())
            .await?
            .len(),
        2
    );
    let read = client.read_namespace("team").await?;
    assert_eq!(read.name.as_deref(), Some("team"));
    assert_eq!(read.capabilities, Some(capabilities));
    client.delete_namespace("team").await
}
