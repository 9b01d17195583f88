//! Access control with real processes: the command line, three servers, a leader that is killed.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::binaries::Program;
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::{ClientError, Query};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::running::{PATIENCE, has_root, script};

const MANAGER: &str = "11111111-2222-3333-4444-555555555555";
const READERS: &str = "namespace \"default\" {\n  policy = \"read\"\n}\n";
/// Within this time a stream ends whose right is gone.
const STREAM_END_MAX: Duration = Duration::from_secs(5);

/// `drover` against one server of a cluster, with a token.
pub(crate) struct Shell<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) server: usize,
    pub(crate) token: &'a str,
}

impl Shell<'_> {
    pub(crate) fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(Program::Drover.path(None)?);
        let port = self.cluster.ports(self.server).http;
        command
            .args(arguments)
            .current_dir(self.cluster.folder())
            .env("NOMAD_ADDR", format!("http://127.0.0.1:{port}"))
            .env("NOMAD_TOKEN", self.token)
            .stdin(Stdio::null());
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments)?.output()?)
    }

    /// The output of a command that has to work.
    pub(crate) fn works(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The complaint of a command that has to exit with 1.
    fn fails(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.status.code() == Some(1), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }
}

/// A token's value in the JSON that the command line prints.
fn text_of(token: &Value, field: &str) -> anyhow::Result<String> {
    let text = token[field].as_str().context("no such field")?;
    Ok(text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_and_stops_nothing_and_its_log_ends_with_its_token() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(3).with_access_control(MANAGER)).await?;
    let _node = Node::start(&cluster).await?;
    let manager = Shell {
        cluster: &cluster,
        server: 0,
        token: MANAGER,
    };
    std::fs::write(cluster.folder().join("readers.hcl"), READERS)?;
    manager.works(&["acl", "policy", "apply", "readers", "readers.hcl"])?;
    let made = [
        "acl", "token", "create", "-json", "-policy", "readers", "-ttl", "10m",
    ];
    let token: Value = serde_json::from_str(&manager.works(&made)?)?;
    let secret = text_of(&token, "SecretID")?;
    let job = script("web", "service", "echo begun; sleep 1000", &json!({}));
    cluster
        .client(1)?
        .put::<_, Value>("/v1/jobs", &Query::new(), &job)
        .await?;
    let path = "/v1/job/web/allocations";
    let running = eventually("the task", PATIENCE, async || {
        let allocs = cluster.get(path, &Query::new()).await?;
        let runs = allocs[0]["ClientStatus"] == "running";
        Ok(runs.then(|| allocs[0]["ID"].as_str().unwrap_or_default().to_owned()))
    });
    let alloc = running.await?;

    let reader = Shell {
        cluster: &cluster,
        server: 2,
        token: &secret,
    };
    reader.works(&["job", "status", "web"])?;
    let denied = reader.fails(&["job", "stop", "web"])?;
    ensure!(denied.contains("Permission denied"), "{denied}");
    let caller = reader.works(&["acl", "whoami"])?;
    ensure!(caller.contains(&text_of(&token, "AccessorID")?), "{caller}");

    // The rights of `read` hold no logs: a policy of its own gives them.
    let logs = "namespace \"default\" { capabilities = [\"read-logs\", \"read-job\"] }";
    std::fs::write(cluster.folder().join("logs.hcl"), logs)?;
    ensure!(
        reader
            .fails(&["alloc", "logs", &alloc])?
            .contains("Permission denied")
    );
    manager.works(&["acl", "policy", "apply", "readers", "logs.hcl"])?;
    let mut follower = reader
        .command(&["alloc", "logs", "-f", &alloc])?
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    sleep(Duration::from_secs(1)).await;
    ensure!(follower.try_wait()?.is_none(), "the log is not followed");
    manager.works(&["acl", "token", "delete", &text_of(&token, "AccessorID")?])?;
    let ended = eventually("the end of the log", STREAM_END_MAX, async || {
        Ok(follower.try_wait()?)
    });
    let ended = ended.await;
    if ended.is_err() {
        follower.kill()?;
    }
    ended?;
    ensure!(
        reader
            .fails(&["job", "status", "web"])?
            .contains("Permission denied")
    );
    Ok(())
}

/// A token that one server made is known to the others with the next request, and refused by them
/// with the first one after its deletion, while a leader is killed on the way.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_count_at_once_everywhere_while_a_leader_is_killed() -> anyhow::Result<()> {
    const ROUNDS: usize = 120;
    let mut settings = Settings::of(3).with_access_control(MANAGER);
    // The rounds show deleted tokens as fast as they can.
    "limits {\n  budget \"failure\" {\n    requests = 1000000\n  }\n}\n"
        .clone_into(&mut settings.server_lines);
    let mut cluster = Cluster::start(settings).await?;
    let none = Query::new();
    let policy = json!({ "Name": "readers", "Rules": READERS });
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/acl/policy/readers", &none, &policy)
        .await?;
    let wanted = json!({ "Name": "round", "Type": "client", "Policies": ["readers"] });
    for round in 0..ROUNDS {
        if round == ROUNDS / 3 {
            let leader = cluster.leader().await?;
            cluster.kill(leader)?;
        }
        if round == ROUNDS * 2 / 3 {
            let down = (0..3).find(|number| !cluster.is_running(*number));
            cluster.restart(down.context("no server is down")?).await?;
        }
        let running: Vec<usize> = (0..3).filter(|it| cluster.is_running(*it)).collect();
        let maker = cluster.client(running[round % running.len()])?;
        let token = again(async || {
            let made = maker.put::<_, Value>("/v1/acl/token", &none, &wanted).await;
            Ok(made?.value)
        });
        let token = token.await?;
        let secret = Some(text_of(&token, "SecretID")?);
        for server in &running {
            let holder = cluster.client(*server)?.with_token(secret.clone());
            again(async || {
                holder.get::<Value>("/v1/jobs", &none).await?;
                Ok(())
            })
            .await
            .with_context(|| format!("round {round}, server {server}"))?;
        }
        let path = format!("/v1/acl/token/{}", text_of(&token, "AccessorID")?);
        let deleter = cluster.client(running[(round + 1) % running.len()])?;
        again(async || match deleter.delete::<Value>(&path, &none).await {
            // Its first try may have worked.
            Ok(_)
            | Err(ClientError::Status {
                code: 400 | 404, ..
            }) => Ok(()),
            Err(error) => Err(error.into()),
        })
        .await?;
        for server in &running {
            let holder = cluster.client(*server)?.with_token(secret.clone());
            let refused = again(
                async || match holder.get::<Value>("/v1/jobs", &none).await {
                    Ok(_) => Ok(false),
                    Err(ClientError::Status { code: 403, .. }) => Ok(true),
                    Err(error) => Err(error.into()),
                },
            );
            ensure!(
                refused.await?,
                "round {round}: server {server} serves a deleted token"
            );
        }
    }
    Ok(())
}

/// Repeats a request over an election. A refusal (403) is an answer, not a reason to repeat it.
async fn again<T>(request: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        let error = match request().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let refused = matches!(
            error.downcast_ref::<ClientError>(),
            Some(ClientError::Status {
                code: 400..=499,
                ..
            })
        );
        if refused || begun.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(Duration::from_millis(50)).await;
    }
}
