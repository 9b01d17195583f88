//! How long deleting evaluations keeps the log's thread busy:
//! `cargo run --release -p controlplane-state --example eval_delete`.
//!
//! Makes evaluations of many jobs, deletes them by a filter
//! in pages whose size is adapted as a server does, and prints the CPU time of one `apply`. The
//! number of evaluations may be given, and a path: then the state is written there as a checkpoint
//! and nothing is deleted.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it measures the pure crate from outside: clocks, arguments and what the kernel counts"
)]

use std::time::{Duration, Instant};

use controlplane_state::command::{EVALS_PAGE_ROWS_MAX, EvalsDelete, EvalsPage};
use controlplane_state::{Command, EvalsDeleted, Outcome, Stamped, State};
use protocol_model::{
    EvalId, EvalStatus, EvalTrigger, Evaluation, Incarnation, JobKey, JobType, UnixNanos,
};

const NOW: UnixNanos = UnixNanos(1_700_000_000_000_000_000);
const EVALS: u32 = 1_000_000;
const JOBS: u32 = 20_000;
/// As the server: the time of one page, and its smallest number of rows.
const PAGE_TIME: Duration = Duration::from_millis(3);
const ROWS_MIN: u32 = 128;

struct Cluster {
    state: State,
    index: u64,
}

impl Cluster {
    fn apply(&mut self, command: Command) -> Outcome {
        self.index += 1;
        let stamped = Stamped {
            now: NOW,
            seed: u128::from(self.index).to_be_bytes(),
            command,
        };
        match self.state.apply(self.index, stamped).outcome {
            Outcome::Refused(refusal) => panic!("refused: {refusal}"),
            outcome => outcome,
        }
    }
}

/// Evaluations as they are left behind by an outage: most pending, their ids without order.
fn generated(evals: u32) -> Cluster {
    let mut cluster = Cluster {
        state: State::new(),
        index: 0,
    };
    let incarnation = Incarnation::from_u128(1);
    cluster.apply(Command::ClusterInit { incarnation });
    let one = |number: u32| {
        let job = format!("service-{}", number.wrapping_mul(2_654_435_761) % JOBS);
        let key = JobKey::new("default", job);
        let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let trigger = EvalTrigger::NodeUpdate;
        let id = EvalId::from_u128(id);
        let mut eval = Evaluation::new(id, &key, JobType::Service, 50, trigger, NOW);
        eval.queued_allocations.insert("group".to_owned(), 1);
        eval.class_eligibility.insert("v1:1234".to_owned(), true);
        if number.is_multiple_of(4) {
            eval.status = EvalStatus::Blocked;
        }
        eval
    };
    for first in (0..evals).step_by(512) {
        let numbers = first..evals.min(first + 512);
        let evals = numbers.map(one).collect();
        cluster.apply(Command::EvalsUpsert { evals });
    }
    cluster
}

/// The processor time that this process has used.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel tells it");
    let nanos = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let evals = arguments
        .next()
        .map_or(EVALS, |it| it.parse().expect("a number"));
    let mut cluster = generated(evals);
    if let Some(path) = arguments.next() {
        let mut file = std::fs::File::create(path).expect("the file");
        let written = cluster.state.snapshot().write_checkpoint(&mut file);
        written.expect("it is written");
        println!("{evals} evaluations written");
        return;
    }
    let mut page = EvalsPage {
        filter: "Status == \"pending\" or Status == \"blocked\"".to_owned(),
        namespace: Some("default".to_owned()),
        after: None,
        up_to: cluster.index,
        rows: 512,
    };
    let (mut cpu, mut wall, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut sum = EvalsDeleted::default();
    let begun = Instant::now();
    loop {
        // Readers hold the state before, as in a server: what is changed is copied first.
        let before = cluster.state.snapshot();
        let (begun, used) = (Instant::now(), cpu_time());
        let command = Command::EvalsDelete(EvalsDelete::Page(page.clone()));
        let Outcome::EvalsDeleted(done) = cluster.apply(command) else {
            panic!("another outcome");
        };
        let took = begun.elapsed();
        cpu.push(cpu_time().saturating_sub(used));
        wall.push(took);
        rows.push(page.rows);
        drop(before);
        sum.deleted += done.deleted;
        sum.open += done.open;
        if done.next.is_none() {
            break;
        }
        page.after = done.next;
        let fitting = u128::from(page.rows) * PAGE_TIME.as_nanos() / took.as_nanos().max(1);
        let fitting = u32::try_from(fitting).unwrap_or(EVALS_PAGE_ROWS_MAX);
        page.rows = fitting.clamp(ROWS_MIN, EVALS_PAGE_ROWS_MAX);
    }
    let whole = begun.elapsed();
    cpu.sort();
    wall.sort();
    rows.sort_unstable();
    let part = |all: &[Duration], percent: usize| all[(all.len() - 1) * percent / 100];
    println!(
        "{} of {evals} evaluations deleted ({} open) in {} entries of {} rows (median), {whole:.2?}",
        sum.deleted,
        sum.open,
        cpu.len(),
        rows[rows.len() / 2],
    );
    println!(
        "one apply: CPU p50 {:.2?}, p99 {:.2?}, max {:.2?}; wall max {:.2?}",
        part(&cpu, 50),
        part(&cpu, 99),
        part(&cpu, 100),
        part(&wall, 100),
    );
}
