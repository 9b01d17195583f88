//! The jobs that are measured, submitted and awaited as any program with an HTTP client would.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::http::Http;

/// Hundreds of tasks take a rival that starts a helper process for each a minute or two.
const RUNNING_TIMEOUT: Duration = Duration::from_secs(240);

/// Submits a job of `count` instances that sleep.
///
/// # Errors
/// If it is refused.
pub(super) fn register(http: &Http, id: &str, count: usize) -> anyhow::Result<()> {
    let job = json!({"Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": count,
            "Tasks": [{
                "Name": "sleep", "Driver": "raw_exec",
                "Config": {"command": "/bin/sleep", "args": ["3600"]},
                "Resources": {"CPU": 1, "MemoryMB": 10},
                "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
            }],
            "EphemeralDisk": {"SizeMB": 10},
        }],
    }});
    http.put("/v1/jobs", &job)
        .with_context(|| format!("register {id}"))?;
    Ok(())
}

/// Stops a job and has it forgotten.
///
/// # Errors
/// If that is refused.
pub(super) fn purge(http: &Http, id: &str) -> anyhow::Result<()> {
    http.delete(&format!("/v1/job/{id}?purge=true"))?;
    Ok(())
}

/// Blocks on the job's allocations until `count` of them run.
///
/// # Errors
/// If one fails, or they do not run in time.
pub(super) fn wait_running(http: &Http, id: &str, count: usize) -> anyhow::Result<()> {
    wait_for(http, id, count, "running")
}

/// Blocks on a purged job's allocations until `count` of them have ended, and the cluster is idle.
///
/// # Errors
/// If one fails, or they do not end in time.
pub(super) fn wait_ended(http: &Http, id: &str, count: usize) -> anyhow::Result<()> {
    wait_for(http, id, count, "complete")
}

fn wait_for(http: &Http, id: &str, count: usize, wanted: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + RUNNING_TIMEOUT;
    let mut index = 0;
    loop {
        let path = format!("/v1/job/{id}/allocations?index={index}&wait=5s");
        let answer = http.ask(&path)?;
        let allocs = answer.value;
        let status = |wanted: &str| {
            let is = |alloc: &&Value| alloc["ClientStatus"] == wanted;
            allocs
                .as_array()
                .map_or(0, |allocs| allocs.iter().filter(is).count())
        };
        if status(wanted) >= count {
            return Ok(());
        }
        ensure!(
            status("failed") == 0,
            "an allocation of {id} failed: {allocs}"
        );
        ensure!(
            Instant::now() < deadline,
            "of {count} allocations of {id}, {} are {wanted} after {RUNNING_TIMEOUT:?}",
            status(wanted)
        );
        index = answer.index;
    }
}
