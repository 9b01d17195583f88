//! Host volumes of which each allocation has its own, from the job file to the directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, has_root, script};

const MISSING: &str = "missing compatible host volumes";

fn job(count: u32) -> Value {
    let text = "echo $NOMAD_ALLOC_INDEX >>/data/numbers; exec sleep 600";
    let mut job = script("db", "service", text, &json!({}));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(count);
    group["Volumes"] = json!({
        "disk": { "Name": "disk", "Type": "host", "Source": "data", "PerAlloc": true },
    });
    group["Tasks"][0]["Driver"] = json!("exec");
    group["Tasks"][0]["VolumeMounts"] = json!([{ "Volume": "disk", "Destination": "/data" }]);
    job
}

/// The volumes `data[0]` to `data[2]`, each a directory below `folder`.
fn volumes(folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for number in 0..3 {
        let path = folder.join(number.to_string());
        std::fs::create_dir(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        text += &format!("host_volume \"data[{number}]\" {{\n  path = {path:?}\n}}\n");
    }
    Ok(text)
}

/// Waits until the volumes hold what the allocations that mounted them wrote.
async fn holds(folder: &Path, expected: [&str; 3]) -> anyhow::Result<()> {
    eventually("the numbers in the volumes", PATIENCE, async || {
        let read =
            |number: usize| std::fs::read_to_string(folder.join(format!("{number}/numbers")));
        let found = [0, 1, 2].map(|number| read(number).unwrap_or_default());
        ensure!(found == expected, "{found:?}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_allocation_and_its_replacement_mount_the_volume_of_its_number() -> anyhow::Result<()>
{
    if !has_root() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    node.reload(&volumes(folder.path())?)?;
    eventually("the volumes", PATIENCE, async || {
        let volumes = node.read(&cluster).await?["HostVolumes"].clone();
        Ok((volumes.as_object().map_or(0, serde_json::Map::len) == 3).then_some(()))
    })
    .await?;
    let (client, query) = (cluster.client(0)?, Query::new());
    client.put::<_, Value>("/v1/jobs", &query, &job(3)).await?;
    holds(folder.path(), ["0\n", "1\n", "2\n"]).await?;

    let allocs = cluster.get("/v1/job/db/allocations", &query).await?;
    let allocs = allocs.as_array().context("a list")?;
    let second = allocs.iter().find(|alloc| alloc["Name"] == "db.group[1]");
    let second = second.and_then(|alloc| alloc["ID"].as_str());
    let path = format!("/v1/allocation/{}/stop", second.context("number 1")?);
    client.put::<_, Value>(&path, &query, &json!({})).await?;
    holds(folder.path(), ["0\n", "1\n1\n", "2\n"]).await?;

    // No node has a volume for a fourth.
    client.put::<_, Value>("/v1/jobs", &query, &job(4)).await?;
    eventually("the reason", PATIENCE, async || {
        let evals = cluster.get("/v1/job/db/evaluations", &query).await?;
        let evals = evals.as_array().context("a list")?;
        let missing = |eval: &Value| {
            let failed = &eval["FailedTGAllocs"]["group"]["ConstraintFiltered"];
            failed[MISSING] == 1
        };
        Ok(evals.iter().any(missing).then_some(()))
    })
    .await?;
    holds(folder.path(), ["0\n", "1\n1\n", "2\n"]).await
}
