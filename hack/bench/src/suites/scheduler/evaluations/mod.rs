//! Evaluations that an operator deletes by a filter: in memory, where the cost of one entry of the
//! log is seen, and by one call to servers that restored a generated snapshot.

mod in_memory;
mod on_servers;

use anyhow::Context;
use controlplane_state::Command;
use protocol_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, UnixNanos};

use super::NAME;
use crate::Bench;
use crate::row::Row;
use crate::suites::in_memory::InMemory;

/// Whose evaluations they are: neighbours in the table are of different jobs.
const JOBS: u32 = 20_000;
/// Evaluations of one entry while the state is generated.
const ENTRY: u32 = 512;

const OPEN: [EvalStatus; 2] = [EvalStatus::Pending, EvalStatus::Blocked];
/// On servers: they would decide about open ones during the deletion.
const OVER: [EvalStatus; 2] = [EvalStatus::Complete, EvalStatus::Failed];

/// See the top of this file.
///
/// # Errors
/// If not every evaluation is deleted, or a server fails.
pub(super) fn measure(bench: &Bench, evals: u32, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- {evals} evaluations deleted in memory");
    in_memory::measure(generated(evals, OPEN)?, evals, rows)?;
    let snapshot = bench.scratch.join("evaluations.snapshot");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&snapshot)?);
    let written = generated(evals, OVER)?
        .snapshot()
        .write_checkpoint(&mut file);
    written.context("write the generated snapshot")?;
    std::io::Write::flush(&mut file)?;
    on_servers::measure(bench, &snapshot, evals, rows)
}

/// A filter that the generated evaluations match.
fn filter([most, some]: [EvalStatus; 2]) -> String {
    let (most, some) = (most.as_str(), some.as_str());
    format!("Status == \"{most}\" or Status == \"{some}\"")
}

/// Evaluations as an outage leaves them behind: three of four in the first status, ids without
/// order.
fn generated(evals: u32, statuses: [EvalStatus; 2]) -> anyhow::Result<InMemory> {
    let mut cluster = InMemory::new()?;
    let now = cluster.now();
    for first in (0..evals).step_by(ENTRY as usize) {
        let numbers = first..evals.min(first + ENTRY);
        // An evaluation that is over is not new: it is put as an open one first.
        for statuses in [OPEN, statuses] {
            let numbers = numbers.clone();
            let evals = numbers.map(|number| eval(number, statuses, now)).collect();
            cluster.apply(Command::EvalsUpsert { evals })?;
        }
    }
    Ok(cluster)
}

fn eval(number: u32, [most, some]: [EvalStatus; 2], now: UnixNanos) -> Evaluation {
    let job = format!("service-{}", number.wrapping_mul(2_654_435_761) % JOBS);
    let key = JobKey::new("default", job);
    let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let trigger = EvalTrigger::NodeUpdate;
    let id = EvalId::from_u128(id);
    let mut eval = Evaluation::new(id, &key, JobType::Service, 50, trigger, now);
    eval.queued_allocations.insert("group".to_owned(), 1);
    eval.class_eligibility.insert("v1:1234".to_owned(), true);
    eval.status = match number.is_multiple_of(4) {
        true => some,
        false => most,
    };
    eval
}
