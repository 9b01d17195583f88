//! Networks of mode bridge on a real node: each allocation has its address, ports of the node lead
//! there, and nothing of them is left or lost when noded is killed.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Net, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, has_root, script};

/// The member of the network that the node is, behind one server.
const NODE: usize = 1;
const ALLOCS: usize = 50;
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Answers every connection with the number of its allocation.
const ANSWERS: &str = "exec python3 -c \"
import os, socket
listening = socket.create_server(('', 8080))
while True:
    connection, _ = listening.accept()
    connection.sendall(os.environ['NOMAD_ALLOC_INDEX'].encode())
    connection.close()
\"";

fn job() -> Value {
    let mut job = script("web", "service", ANSWERS, &json!({}));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(ALLOCS);
    // With the usual 300 MiB each, few machines would have room for all.
    group["EphemeralDisk"] = json!({ "SizeMB": 10 });
    group["Tasks"][0]["LogConfig"] = json!({ "MaxFiles": 1, "MaxFileSizeMB": 5 });
    group["Networks"] = json!([{
        "Mode": "bridge",
        "DynamicPorts": [{ "Label": "http", "To": 8080 }],
    }]);
    job
}

/// The traces of allocations' networks on the host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) links: usize,
    /// Mapped TCP ports.
    pub(crate) mapped: usize,
    pub(crate) pins: usize,
}

impl Census {
    pub(crate) fn of(cluster: &Cluster, node: &Node) -> anyhow::Result<Self> {
        let output = |program: &'static str, arguments: &'static [&'static str]| {
            let ran = cluster
                .net()?
                .inside(NODE, || Command::new(program).args(arguments).output())?;
            anyhow::Ok(String::from_utf8(ran?.stdout)?)
        };
        let links = output("ip", &["-o", "link"])?;
        let rules = output("nft", &["-j", "list", "ruleset"])?;
        let rules: Value = serde_json::from_str(&rules).context("nft's rules")?;
        let maps = rules["nftables"].as_array().into_iter().flatten();
        let elements = maps
            .filter(|entry| entry["map"]["name"] == "any_tcp4")
            .filter_map(|entry| entry["map"]["elem"].as_array());
        let pins = std::fs::read_dir(node.run_dir().join("networks"));
        Ok(Self {
            links: links.lines().filter(|line| line.contains(": dv")).count(),
            mapped: elements.map(Vec::len).sum(),
            pins: pins.into_iter().flatten().count(),
        })
    }
}

/// The running allocations: number -> port of the node.
async fn ports(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, u16>> {
    let query = Query::new().with("resources", "true");
    let allocs = cluster.get("/v1/allocations", &query).await?;
    let running = allocs.as_array().context("a list")?.iter();
    let running = running.filter(|alloc| alloc["ClientStatus"] == "running");
    let port = |alloc: &Value| {
        let name = alloc["Name"].as_str()?;
        let number = name.split_once('[')?.1.trim_end_matches(']');
        let port = alloc["AllocatedResources"]["Shared"]["Ports"][0]["Value"].as_u64()?;
        Some((number.to_owned(), u16::try_from(port).ok()?))
    };
    Ok(running.filter_map(port).collect())
}

/// The answer at a port of the node, asked on the node itself.
fn answer(net: &Net, address: IpAddr, port: u16) -> anyhow::Result<String> {
    net.inside(NODE, || {
        let address = SocketAddr::new(address, port);
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        anyhow::Ok(text)
    })?
}

async fn must_answer(cluster: &Cluster) -> anyhow::Result<()> {
    let net = cluster.net()?;
    let found = ports(cluster).await?;
    for (number, port) in &found {
        for address in [net.address(NODE).into(), IpAddr::from([127, 0, 0, 1])] {
            eventually("an answer", PATIENCE, async || {
                let answer = answer(net, address, *port)?;
                ensure!(answer == *number, "{address}:{port}: {answer}");
                Ok(Some(()))
            })
            .await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bridge_allocations_keep_exactly_their_ports_over_a_killed_noded() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    if Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: needs nft, of the package nftables");
        return Ok(());
    }
    let Some(net) = Net::make(2)? else {
        return Ok(());
    };
    let cluster = Cluster::start_in(Settings::of(1), net).await?;
    let mut node = Node::start(&cluster).await?;
    let client = cluster.client(0)?;
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &job())
        .await?;
    eventually("the first allocations", PATIENCE, async || {
        Ok((ports(&cluster).await?.len() >= 3).then_some(()))
    })
    .await?;
    node.kill()?;
    node.start_again_in(&cluster)?;
    eventually("all allocations", PATIENCE * 3, async || {
        let running = ports(&cluster).await?.len();
        ensure!(running == ALLOCS, "{running} run: {}", node.log_end());
        Ok(Some(()))
    })
    .await?;
    must_answer(&cluster).await?;
    let all = Census {
        links: ALLOCS,
        mapped: ALLOCS,
        pins: ALLOCS,
    };
    assert_eq!(Census::of(&cluster, &node)?, all, "{}", node.log_end());

    // Nothing starts meanwhile: what was there is taken up as it is.
    node.kill()?;
    node.start_again_in(&cluster)?;
    node.wait_ready(&cluster).await?;
    must_answer(&cluster).await?;
    assert_eq!(Census::of(&cluster, &node)?, all, "{}", node.log_end());

    // A reload of the host's firewall takes the node's table with it.
    let flushed = cluster.net()?.inside(NODE, || {
        Command::new("nft").args(["flush", "ruleset"]).status()
    })??;
    ensure!(flushed.success(), "nft: {flushed}");
    must_answer(&cluster).await?;
    assert_eq!(Census::of(&cluster, &node)?, all, "{}", node.log_end());

    client.delete::<Value>("/v1/job/web", &Query::new()).await?;
    eventually("nothing left of the networks", PATIENCE, async || {
        let left = Census::of(&cluster, &node)?;
        ensure!(left == Census::default(), "{left:?}");
        Ok(Some(()))
    })
    .await?;
    node.must_have_no_tasks().await
}
