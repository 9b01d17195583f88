//! The same reports in the reference's shape: one entry each, in MessagePack, with every field that
//! the reference's client sends of an allocation, task events among them. Fields that it leaves
//! empty are left out here, so its entries are larger than this in truth.

use anyhow::{Context, ensure};
use serde_json::{Map, Value};

use super::storm::JOB;
use hack_cluster::Cluster;

use crate::http::Ask as _;

/// What the reference's client sends of an allocation (Nomad 1.6, `Node.UpdateAlloc`).
const FIELDS: &[&str] = &[
    "ID",
    "Namespace",
    "NodeID",
    "ClientStatus",
    "ClientDescription",
    "TaskStates",
    "DeploymentStatus",
    "NetworkStatus",
];

/// Bytes of one report, on average over `samples` allocations of the storm.
///
/// # Errors
/// If there are none, or the API does not tell.
pub(super) fn measure(servers: &Cluster, samples: usize) -> anyhow::Result<f64> {
    let http = servers.http()?;
    let listed = http.get(&format!("/v1/job/{JOB}/allocations"))?;
    let listed = listed.as_array().context("no list of allocations")?;
    let mut sum = 0;
    let mut count = 0_u32;
    for alloc in listed.iter().take(samples) {
        let id = alloc["ID"].as_str().context("an allocation without id")?;
        let whole = http.get(&format!("/v1/allocation/{id}"))?;
        sum += rmp_serde::to_vec_named(&report(&whole))?.len();
        count += 1;
    }
    ensure!(count > 0, "there are no allocations of {JOB}");
    Ok(f64::from(u32::try_from(sum)?) / f64::from(count))
}

fn report(alloc: &Value) -> Value {
    let sent = FIELDS.iter().filter(|field| !alloc[**field].is_null());
    let sent: Map<String, Value> = sent
        .map(|field| ((*field).to_owned(), alloc[*field].clone()))
        .collect();
    Value::Object(sent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_sent_is_counted() {
        let alloc = json!({"ID": "a", "Job": {"ID": "large"}, "NetworkStatus": null});
        assert_eq!(report(&alloc), json!({"ID": "a"}));
    }
}
