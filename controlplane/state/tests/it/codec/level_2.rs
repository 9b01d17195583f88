//! Commands of level 2, every field set. One function per file of commands.

use super::*;
use controlplane_state::command::ChildJob;

pub(super) fn children() -> Vec<(&'static str, Command)> {
    let mut cluster = Harness::new();
    let mut child = job("work/dispatch-nightly-1700000000-0123abcd", JobType::Batch);
    child.parent_id = "work".to_owned();
    child.dispatched = true;
    child.dispatch_idempotency_token = "t".to_owned();
    child.payload = Some("AghoaQ==".to_owned());
    let mut eval = cluster.eval_of(&child);
    eval.id = EvalId::from_u128(0xe1);
    let child = ChildJob {
        job: Arc::new(child),
        spec: protocol_model::SpecHash([5; 32]),
        parent_index: 4,
        eval: Some(eval),
    };
    vec![("job_dispatch", Command::JobDispatch(child))]
}
