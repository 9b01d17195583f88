//! One call that deletes the evaluations of a restored snapshot, on one server and on three.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream;
use hack_cluster::Cluster;
use protocol_api::evaluations::{DeleteEvaluations, EvalDeleteRequest};
use protocol_client::Query;

use super::{NAME, OVER, filter};
use crate::Bench;
use crate::http::{Ask as _, wait};
use crate::row::Row;

/// The whole call, on one server.
const GOAL_SECONDS: f64 = 10.0;
/// A restore, and a call, of a million evaluations by programs that are not built for speed.
const PATIENCE: Duration = Duration::from_secs(600);
const PIECE_BYTES: usize = 1024 * 1024;
/// The time that one entry of the deletion kept the log of this server busy.
const PAGE_METRIC: &str = "drover.evals_delete_page_seconds";

/// See the top of this file.
///
/// # Errors
/// If a server fails, or an evaluation stays.
pub(super) fn measure(
    bench: &Bench,
    snapshot: &Path,
    evals: u32,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    for (count, servers) in [(1, "one server"), (3, "three servers")] {
        eprintln!("-- {servers}: {evals} evaluations deleted by one call");
        let cluster = wait(Cluster::start(bench.settings(count)))?;
        let leader = cluster.leads()?;
        let client = cluster.client(leader)?.with_patience(PATIENCE);
        let bytes = std::fs::read(snapshot)?;
        let length = bytes.len() as u64;
        let pieces: Vec<_> = bytes
            .chunks(PIECE_BYTES)
            .map(|piece| Ok(piece.to_vec().into()))
            .collect();
        let (path, query) = ("/v1/operator/snapshot", Query::new());
        let restored = client.put_stream(path, &query, length, stream::iter(pieces));
        wait(restored).context("restore the generated snapshot")?;
        let http = cluster.http_of(leader)?;
        let there = http.get("/v1/evaluations/count")?;
        ensure!(there["Count"] == evals, "{evals} are restored: {there}");
        let request = EvalDeleteRequest {
            filter: filter(OVER),
            ..EvalDeleteRequest::default()
        };
        let begun = Instant::now();
        let deleted = wait(client.call_with(&DeleteEvaluations, &query, &request))?.value;
        let whole = begun.elapsed().as_secs_f64();
        ensure!(
            deleted.count == u64::from(evals) && deleted.kept == 0,
            "{evals} are to be deleted: {deleted:?}"
        );
        let metrics = http.get("/v1/metrics")?;
        let longest = metrics["Samples"].as_array().and_then(|all| {
            let page = all.iter().find(|sample| sample["Name"] == PAGE_METRIC)?;
            page["Max"].as_f64()
        });
        let longest = longest.with_context(|| format!("no {PAGE_METRIC}"))?;
        let figure = format!("{evals} evaluations deleted by one call, {servers}");
        let row = Row::new(NAME, figure.clone(), whole, "s");
        rows.push(match count {
            1 => row.at_most(GOAL_SECONDS),
            _ => row,
        });
        let figure = format!("{figure}: longest entry");
        rows.push(Row::new(NAME, figure, longest * 1e3, "ms"));
    }
    Ok(())
}
