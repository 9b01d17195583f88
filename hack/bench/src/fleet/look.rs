//! What is seen of the cluster from outside: nodes through the API, the log by its index and its
//! files.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::Cluster;
use serde_json::{Value, json};

use crate::http::{Ask as _, Http};

/// How long nodes may take to be ready again.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A node as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: String,
    /// Every change of the status raises it.
    pub(crate) modify_index: u64,
}

/// All nodes by their ids, and the index of the answer.
///
/// # Errors
/// If the server does not answer.
pub(crate) fn nodes(http: &Http, newer_than: u64) -> anyhow::Result<(BTreeMap<String, Seen>, u64)> {
    let path = if newer_than == 0 {
        "/v1/nodes".to_owned()
    } else {
        format!("/v1/nodes?index={newer_than}&wait=5s")
    };
    let answer = http.ask(&path)?;
    let nodes = answer.value.as_array().context("no list of nodes")?.iter();
    let nodes = nodes.map(|node| {
        let seen = Seen {
            status: node["Status"].as_str().unwrap_or_default().to_owned(),
            modify_index: node["ModifyIndex"].as_u64().unwrap_or_default(),
        };
        (node["ID"].as_str().unwrap_or_default().to_owned(), seen)
    });
    Ok((nodes.collect(), answer.index))
}

/// Waits until all `count` nodes are ready; answers how they are seen then.
///
/// # Errors
/// If they are not in a minute.
pub(crate) fn all_ready(servers: &Cluster, count: usize) -> anyhow::Result<BTreeMap<String, Seen>> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let seen = servers.http().and_then(|http| nodes(&http, 0));
        let ready = |seen: &BTreeMap<String, Seen>| {
            seen.values().filter(|node| node.status == "ready").count()
        };
        match seen {
            Ok((seen, _)) if ready(&seen) == count => return Ok(seen),
            Ok((seen, _)) => ensure!(
                Instant::now() < deadline,
                "{} of {count} nodes are ready",
                ready(&seen)
            ),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How many nodes left `ready` between two looks, whether or not they came back.
pub(crate) fn left(
    before: &BTreeMap<String, Seen>,
    after: &BTreeMap<String, Seen>,
    except: &[String],
) -> usize {
    let left = before.iter().filter(|(id, seen)| {
        seen.status == "ready" && !except.contains(id) && after.get(*id) != Some(*seen)
    });
    left.count()
}

/// The last index of the leader's log.
///
/// # Errors
/// If nobody leads.
pub(crate) fn log_index(servers: &Cluster) -> anyhow::Result<u64> {
    let leader = servers.leads()?;
    let own = servers.http_of(leader)?.get("/v1/agent/self")?;
    let index = &own["stats"]["raft"]["last_log_index"];
    let index = index.as_str().and_then(|index| index.parse().ok());
    index.context("no last index of the log")
}

/// Bytes in a server's log: its files are full of zeros beyond them.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn log_bytes(data_dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(data_dir.join("raft/log"))? {
        // It may be removed between the two calls.
        let bytes = std::fs::read(entry?.path()).unwrap_or_default();
        let used = bytes.iter().rposition(|byte| *byte != 0);
        sum += used.map_or(0, |last| last as u64 + 1);
    }
    Ok(sum)
}

/// A service without a process, on any node.
pub(crate) fn service(id: &str, count: usize) -> Value {
    job("service", id, count, &json!({}))
}

/// A job of tasks without a process, on any node; `mock` says how they behave. What ends is over.
pub(crate) fn job(kind: &str, id: &str, count: usize, mock: &Value) -> Value {
    json!({"Job": {
        "ID": id, "Name": id, "Type": kind, "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": count,
            "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
            "Tasks": [{
                "Name": "task", "Driver": "mock_driver", "Config": mock,
                "Resources": {"CPU": 10, "MemoryMB": 10},
                "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
            }],
            "EphemeralDisk": {"SizeMB": 10},
        }],
    }})
}

/// The same job, on nodes of one class only.
pub(crate) fn on_class(mut job: Value, class: &str) -> Value {
    job["Job"]["Constraints"] = json!([{
        "LTarget": "${node.class}", "RTarget": class, "Operand": "=",
    }]);
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: &str, modify_index: u64) -> Seen {
        Seen {
            status: status.to_owned(),
            modify_index,
        }
    }

    #[test]
    fn a_node_that_left_and_came_back_is_counted_and_one_that_was_meant_is_not() {
        let before = BTreeMap::from([
            ("a".to_owned(), seen("ready", 1)),
            ("b".to_owned(), seen("ready", 1)),
            ("c".to_owned(), seen("ready", 1)),
        ]);
        let mut after = before.clone();
        assert_eq!(left(&before, &after, &[]), 0);
        after.insert("a".to_owned(), seen("ready", 2));
        after.insert("b".to_owned(), seen("down", 3));
        assert_eq!(left(&before, &after, &[]), 2);
        assert_eq!(left(&before, &after, &["b".to_owned()]), 1);
        let waiting = BTreeMap::from([("d".to_owned(), seen("down", 1))]);
        assert_eq!(left(&waiting, &after, &[]), 0);
        after.remove("c");
        assert_eq!(left(&before, &after, &["b".to_owned()]), 2);
    }

    #[test]
    fn the_zeros_behind_a_log_are_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("raft/log");
        std::fs::create_dir_all(&log).unwrap();
        std::fs::write(log.join("1.segment"), [1, 0, 2, 0, 0, 0]).unwrap();
        std::fs::write(log.join("2.segment"), [0; 8]).unwrap();
        assert_eq!(log_bytes(folder.path()).unwrap(), 3);
    }
}
