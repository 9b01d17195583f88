//! Groups of mode bridge with tasks of every lifecycle: what restarts do again, and what they do
//! not.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Net, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::bridge::Census;
use crate::pages::Pages;
use crate::running::{PATIENCE, Running, has_root};

/// The member of the network that the node is, behind one server.
const NODE: usize = 1;
/// Tells of its start: the time of its rendered file, its artifact, its address.
const TELLS: &str = "
echo \"$NOMAD_TASK_NAME $(stat -c %y local/page) $(cat local/*.txt) \
     $(ip -o -4 addr show eth0 | wc -l)\" >> $NOMAD_ALLOC_DIR/data/starts";

/// A task with a template and an artifact; `after` is what it does then.
fn task(name: &str, lifecycle: &Value, pages: &Pages, after: &str) -> Value {
    json!({
        "Name": name, "Driver": "raw_exec", "Lifecycle": lifecycle,
        "Config": { "command": "/bin/sh", "args": ["-c", format!("{TELLS}\n{after}")] },
        "KillTimeout": 2_000_000_000_u64,
        "Resources": { "CPU": 20, "MemoryMB": 32 },
        "Templates": [{
            "EmbeddedTmpl": "{{ env \"NOMAD_TASK_NAME\" }}", "DestPath": "local/page",
        }],
        "Artifacts": [{
            "GetterSource": pages.url(&format!("{name}.txt")), "RelativeDest": "local/",
        }],
    })
}

/// An artifact for each task, on the loopback of the node.
fn serve(cluster: &Cluster) -> anyhow::Result<Pages> {
    let pages = ["init", "proxy", "main", "announce", "cleanup"].map(|task| {
        let name = format!("{task}.txt");
        (name.clone(), format!("page {name}").into_bytes())
    });
    let net = cluster.net()?;
    let listener = net.inside(NODE, || TcpListener::bind("127.0.0.1:0"))??;
    Pages::serve(listener, pages.into())
}

fn job(pages: &Pages) -> Value {
    let hook = |hook: &str, sidecar: bool| json!({ "Hook": hook, "Sidecar": sidecar });
    let run_on = "exec sleep 1000";
    json!({ "Job": {
        "ID": "stages", "Name": "stages", "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Networks": [{ "Mode": "bridge" }],
            "Tasks": [
                task("init", &hook("prestart", false), pages, ""),
                task("proxy", &hook("prestart", true), pages, run_on),
                task("main", &Value::Null, pages, run_on),
                task("announce", &hook("poststart", false), pages, ""),
                task("cleanup", &hook("poststop", false), pages, ""),
            ],
        }],
    }})
}

/// The starts that tasks told of.
#[derive(Debug, Default)]
struct Starts(Vec<(String, String)>);

impl Starts {
    async fn read(cluster: &Cluster, alloc: &str) -> anyhow::Result<Self> {
        let path = format!("/v1/client/fs/cat/{alloc}");
        let query = Query::new().with("path", "alloc/data/starts");
        let text = cluster.client(0)?.text(&path, &query).await?.value;
        let lines = text.lines().map(|line| {
            let (task, rest) = line.split_once(' ').unwrap_or((line, ""));
            (task.to_owned(), rest.to_owned())
        });
        Ok(Self(lines.collect()))
    }

    /// How often each task started.
    fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (task, _) in &self.0 {
            *counts.entry(task.as_str()).or_default() += 1;
        }
        counts
    }

    /// Each start of a task saw its artifact and the allocation's network; one that did not finish
    /// before saw the same rendered file.
    fn must_be_whole(&self) {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for (task, told) in &self.0 {
            assert!(
                told.ends_with(&format!("page {task}.txt 1")),
                "{task}: {told}"
            );
            let earlier = *first.entry(task).or_insert(told);
            if ["proxy", "main"].contains(&task.as_str()) {
                assert_eq!(earlier, told, "{task}: its file was rendered again");
            }
        }
    }
}

async fn until_started(
    cluster: &Cluster,
    alloc: &str,
    expected: &[(&str, usize)],
) -> anyhow::Result<Starts> {
    let expected: BTreeMap<&str, usize> = expected.iter().copied().collect();
    eventually(&format!("starts {expected:?}"), PATIENCE, async || {
        let starts = Starts::read(cluster, alloc).await?;
        ensure!(starts.counts() == expected, "{starts:?}");
        Ok(Some(starts))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_run_each_hook_as_often_as_their_mode_says() -> anyhow::Result<()> {
    if !has_root() || Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: needs root and nft, of the package nftables");
        return Ok(());
    }
    let Some(net) = Net::make(2)? else {
        return Ok(());
    };
    let cluster = Cluster::start_in(Settings::of(1), net).await?;
    let mut node = Node::start(&cluster).await?;
    let pages = serve(&cluster)?;
    let running = Running::start(&cluster, &job(&pages)).await?;
    let alloc = running.alloc.clone();
    let path = format!("/v1/client/allocation/{alloc}/restart");
    let restart = async |body: Value| {
        let client = cluster.client(0)?;
        let restarted = client.put::<_, Value>(&path, &Query::new(), &body).await;
        anyhow::Ok(restarted?)
    };
    let begun = [("init", 1), ("proxy", 1), ("main", 1), ("announce", 1)];
    until_started(&cluster, &alloc, &begun).await?;

    restart(json!({ "TaskName": "main" })).await?;
    let one = [("init", 1), ("proxy", 1), ("main", 2), ("announce", 1)];
    until_started(&cluster, &alloc, &one).await?;

    restart(json!({})).await?;
    let live = [("init", 1), ("proxy", 2), ("main", 3), ("announce", 1)];
    until_started(&cluster, &alloc, &live).await?;

    restart(json!({ "AllTasks": true })).await?;
    let all = [("init", 2), ("proxy", 3), ("main", 4), ("announce", 2)];
    until_started(&cluster, &alloc, &all).await?;

    // Neither finished nor running tasks start again.
    node.kill()?;
    node.start_again_in(&cluster)?;
    node.wait_ready(&cluster).await?;
    let network = Census {
        links: 1,
        mapped: 0,
        pins: 1,
    };
    assert_eq!(Census::of(&cluster, &node)?, network, "{}", node.log_end());

    running.stop(&node).await?;
    let ended = [&all[..], &[("cleanup", 1)]].concat();
    let starts = until_started(&cluster, &alloc, &ended).await?;
    // The network was there until the poststop task had ended, too.
    starts.must_be_whole();
    let fetched: Vec<usize> = pages.asked().into_values().collect();
    assert_eq!(
        fetched,
        [1; 5],
        "artifacts are fetched once: {:?}",
        pages.asked()
    );
    eventually("nothing left of the network", PATIENCE, async || {
        let left = Census::of(&cluster, &node)?;
        ensure!(left == Census::default(), "{left:?}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preparation_that_hangs_delays_neither_its_siblings_nor_its_stop() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let Some(net) = Net::make(2)? else {
        return Ok(());
    };
    let cluster = Cluster::start_in(Settings::of(1), net).await?;
    let node = Node::start(&cluster).await?;
    let pages = serve(&cluster)?;
    let mut job = job(&pages);
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Networks"] = json!([]);
    let run_on = "exec sleep 1000";
    let hanging = task("endless", &Value::Null, &pages, run_on);
    let quick = "echo quick > $NOMAD_ALLOC_DIR/data/quick; exec sleep 1000";
    let quick = json!({
        "Name": "quick", "Driver": "raw_exec",
        "Config": { "command": "/bin/sh", "args": ["-c", quick] },
        "KillTimeout": 2_000_000_000_u64, "Resources": { "CPU": 20, "MemoryMB": 32 },
    });
    group["Tasks"] = json!([hanging, quick]);
    let running = Running::start(&cluster, &job).await?;
    let state = async |task: &str| {
        let alloc = running.read().await?;
        let state = &alloc["TaskStates"][task];
        anyhow::Ok((state["State"].clone(), state["Events"].clone()))
    };
    eventually(
        "the sibling, and the endless download",
        PATIENCE,
        async || {
            let (quick, (hanging, events)) = (state("quick").await?.0, state("endless").await?);
            let downloads = pages.asked().len();
            ensure!(
                quick == "running" && downloads == 1,
                "{quick} {hanging} {events}"
            );
            ensure!(hanging == "pending", "{hanging}");
            Ok(Some(()))
        },
    )
    .await?;
    // Far less than the download's own limit.
    running.stop(&node).await?;
    let (hanging, events) = state("endless").await?;
    assert_eq!(hanging, "dead", "{events}");
    let kinds: Vec<&str> = events
        .as_array()
        .context("events")?
        .iter()
        .filter_map(|event| event["Type"].as_str())
        .collect();
    assert_eq!(kinds.last(), Some(&"Killed"), "{kinds:?}");
    assert!(!kinds.contains(&"Failed Artifact Download"), "{kinds:?}");
    Ok(())
}
