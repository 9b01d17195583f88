//! Answers that a task waits for or follows end when its right ends: with its policy, with its
//! allocation, and with its key, at every server.

use std::time::Duration;

use controlplane_state::command::AclPolicies;
use protocol_client::{ByteStream, ClientError, Query};
use protocol_model::ClientStatus;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::tokens::{join_rules, report};
use super::*;
use crate::fake_answers::ENDLESS;
use crate::three;
use crate::world::refusal;

/// A query that waits has begun to after this time.
const BEGUN: Duration = Duration::from_millis(300);
const READS: (&str, &str) = (
    "reads",
    "namespace \"default\" { capabilities = [\"list-jobs\", \"read-job\", \"read-fs\"] }",
);

/// A task's allocation in a cluster of three servers.
struct Scene {
    servers: Vec<Server>,
    node: FakeNode,
    alloc: AllocId,
    token: String,
    _root: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let servers = three::cluster_with(root.path(), |config| {
            config.acl_enabled = true;
            config.liveness.silence = Duration::from_secs(3600);
        })
        .await;
        let client = three::client(&servers[0]);
        let (node, alloc) = placed_at(&servers[0], root.path(), &client).await;
        let token = token(&node, alloc, "default").await;
        join_rules(&servers[0], READS, ["default", "web", "web", "server"]).await;
        Self {
            servers,
            node,
            alloc,
            token,
            _root: root,
        }
    }

    fn client(&self, server: usize) -> Client {
        three::client(&self.servers[server]).with_token(Some(self.token.clone()))
    }

    /// A query at each server that waits for a change.
    async fn waiting(&self, path: &'static str) -> Vec<JoinHandle<Result<(), ClientError>>> {
        let ask = |server| {
            let client = self.client(server);
            let query = Query::new().with("index", "1000000000").with("wait", "60s");
            tokio::spawn(async move {
                client.get::<Value>(path, &query).await?;
                Ok(())
            })
        };
        let waiting: Vec<_> = (0..3).map(ask).collect();
        tokio::time::sleep(BEGUN).await;
        assert!(waiting.iter().all(|it| !it.is_finished()), "they wait");
        waiting
    }

    /// A followed file at each server, of which a part has come.
    async fn following(&self) -> Vec<ByteStream> {
        let path = format!("/v1/client/fs/cat/{}", self.alloc);
        let query = Query::new().with("path", ENDLESS);
        let mut following = Vec::new();
        for server in 0..3 {
            let opened = timeout(PATIENCE, self.client(server).stream(&path, &query)).await;
            let mut stream = opened.expect("in time").expect("a stream");
            stream.next().await.expect("a part").expect("not the end");
            following.push(stream);
        }
        following
    }

    async fn delete_policy(&self) {
        let names = vec![READS.0.to_owned()];
        let command = AclPolicies::Delete { names };
        let changed = self.servers[1].cluster().change(command.into()).await;
        changed.expect("deleted");
    }

    async fn replace_root_key(&self) {
        let manager = crate::access::token(self.servers[1].cluster(), &[]).await;
        replace_root_key(&manager.of(&three::client(&self.servers[1]))).await;
    }

    async fn end(&self) {
        report(&self.node, self.alloc, ClientStatus::Complete).await;
    }
}

async fn are_refused(waiting: Vec<JoinHandle<Result<(), ClientError>>>) {
    for query in waiting {
        let ended = timeout(PATIENCE, query).await.expect("it ends");
        assert_eq!(refusal(ended.expect("no panic")).0, 403);
    }
}

async fn end_in_time(following: Vec<ByteStream>) {
    for mut stream in following {
        let read = async { while let Some(Ok(_)) = stream.next().await.transpose() {} };
        timeout(PATIENCE, read).await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_queries_of_a_task_end_with_its_policy() {
    let scene = Scene::start().await;
    let waiting = scene.waiting("/v1/jobs").await;
    scene.delete_policy().await;
    are_refused(waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_queries_of_a_task_end_with_its_allocation() {
    let scene = Scene::start().await;
    let jobs = scene.waiting("/v1/jobs").await;
    // Its own path, which it reads without a policy.
    let own = scene.waiting("/v1/var/nomad/jobs/web").await;
    scene.end().await;
    are_refused(jobs).await;
    are_refused(own).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_queries_of_a_task_end_with_its_root_key() {
    let scene = Scene::start().await;
    let own = scene.waiting("/v1/var/nomad/jobs/web").await;
    scene.replace_root_key().await;
    are_refused(own).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_files_of_a_task_end_with_its_policy() {
    let scene = Scene::start().await;
    let following = scene.following().await;
    scene.delete_policy().await;
    end_in_time(following).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_files_of_a_task_end_with_its_allocation() {
    let scene = Scene::start().await;
    let following = scene.following().await;
    scene.end().await;
    end_in_time(following).await;
}
