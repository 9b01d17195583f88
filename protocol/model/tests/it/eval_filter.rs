//! Expressions about evaluations: their verdicts are frozen, because they are part of the log.
//!
//! `tests/golden/eval_filter.txt` has one expression per line, behind its verdicts on the three
//! samples below (`+` holds, `-` does not) or the text with which it is refused.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use protocol_model::filter::{EvalFilter, Filter};
use protocol_model::{
    AllocMetric, DeploymentId, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType,
    NodeId, UnixNanos,
};

fn plain() -> Evaluation {
    let job = JobKey::new("default", "web");
    let id = EvalId::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    let trigger = EvalTrigger::JobRegister;
    Evaluation::new(id, &job, JobType::Service, 50, trigger, UnixNanos(7))
}

fn blocked() -> Evaluation {
    Evaluation {
        status: EvalStatus::Blocked,
        triggered_by: EvalTrigger::QueuedAllocs,
        node_id: Some(NodeId::from_u128(0xab)),
        deployment_id: Some(DeploymentId::from_u128(0xd1)),
        next_eval: Some(EvalId::from_u128(2)),
        previous_eval: Some(EvalId::from_u128(3)),
        blocked_eval: Some(EvalId::from_u128(4)),
        failed_tg_allocs: BTreeMap::from([("front".to_owned(), AllocMetric::default())]),
        class_eligibility: BTreeMap::from([("v1:9".to_owned(), true), ("v1:8".to_owned(), false)]),
        escaped_computed_class: true,
        queued_allocations: BTreeMap::from([("front".to_owned(), 3)]),
        snapshot_index: 41,
        create_index: 40,
        modify_index: 18_446_744_073_709_551_615,
        ..plain()
    }
}

fn later() -> Evaluation {
    let mut eval = plain();
    eval.id = EvalId::from_u128(9);
    (eval.namespace, eval.job_id) = ("team".to_owned(), "batch/report".to_owned());
    (eval.job_type, eval.priority) = (JobType::Sysbatch, 100);
    eval.status = EvalStatus::Cancelled;
    eval.status_description = "cancelled: \"a\" newer one".to_owned();
    eval.triggered_by = EvalTrigger::RetryFailedAlloc;
    eval.wait_until = Some(UnixNanos(1_500_000_000));
    eval.create_time = UnixNanos(1_700_000_000_000_000_001);
    eval.quota_limit_reached = "large".to_owned();
    eval.annotate_plan = true;
    eval
}

fn samples() -> [Evaluation; 3] {
    [plain(), blocked(), later()]
}

fn verdicts(expression: &str) -> String {
    match EvalFilter::parse(expression) {
        Err(error) => error.to_string(),
        Ok(filter) => {
            let sign = |eval| if filter.keeps(eval) { '+' } else { '-' };
            samples().iter().map(sign).collect()
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
fn frozen() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/eval_filter.txt");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn expressions_have_the_verdicts_that_were_frozen() {
    let mut lines = 0;
    for line in frozen().lines() {
        let (expected, expression) = line.split_once(" | ").expect("two parts");
        assert_eq!(verdicts(expression), expected, "{expression}");
        lines += 1;
    }
    assert!(lines > 60, "{lines}");
}

#[test]
fn a_compiled_expression_agrees_with_the_one_on_json() {
    for line in frozen().lines() {
        let (_, expression) = line.split_once(" | ").expect("two parts");
        let Ok(compiled) = EvalFilter::parse(expression) else {
            continue;
        };
        let on_json = Filter::parse(expression).expect("an expression");
        for eval in samples() {
            // A member of a map may be absent: whether it is empty is asked in the log only.
            let Ok(known) = on_json.keeps(&eval) else {
                assert!(expression.ends_with("is empty"), "{expression}");
                continue;
            };
            assert_eq!(compiled.keeps(&eval), known, "{expression}: {eval:?}");
        }
    }
}

#[test]
fn every_field_of_an_evaluation_can_be_asked() {
    let shown = serde_json::to_value(plain()).expect("JSON");
    for name in shown.as_object().expect("an object").keys() {
        let asked = ["is empty", "== 1", "== x"].map(|rest| format!("{name} {rest}"));
        let answers = asked.iter().any(|it| EvalFilter::parse(it).is_ok());
        assert!(answers, "{name}");
    }
}

#[test]
fn names_of_states_and_triggers_are_those_of_the_api() {
    use EvalStatus::{Blocked, Cancelled, Complete, Failed, Pending};
    for status in [Blocked, Pending, Complete, Failed, Cancelled] {
        let shown = serde_json::to_value(status).expect("JSON");
        assert_eq!(shown, status.as_str());
    }
    for name in [
        "job-register",
        "job-deregister",
        "periodic-job",
        "node-drain",
        "node-update",
        "alloc-stop",
        "scheduled",
        "rolling-update",
        "deployment-watcher",
        "failed-follow-up",
        "max-plan-attempts",
        "alloc-failure",
        "queued-allocs",
        "preemption",
        "job-scaling",
        "max-disconnect-timeout",
        "reconnect",
    ] {
        let trigger: EvalTrigger = serde_json::from_value(name.into()).expect(name);
        assert_eq!(trigger.as_str(), name);
    }
}

proptest! {
    #[test]
    fn any_expression_that_compiles_agrees_with_json(
        field in prop::sample::select(vec![
            "ID", "JobID", "Status", "Priority", "NodeID", "WaitUntil", "QueuedAllocations",
            "QueuedAllocations.front", "ClassEligibility", "AnnotatePlan", "ModifyIndex", "Type",
        ]),
        operator in prop::sample::select(vec![
            "==", "!=", "contains", "not contains", "matches", "is empty", "is not empty",
        ]),
        value in prop::sample::select(vec![
            "50", "100.0", "web", "\"\"", "true", "blocked", "front", "3", "e", "\"0{8}\"",
        ]),
    ) {
        let value = if operator.ends_with("empty") { "" } else { value };
        let text = format!("{field} {operator} {value}");
        if let Ok(compiled) = EvalFilter::parse(&text) {
            let on_json = Filter::parse(&text).expect("an expression");
            for eval in samples() {
                let Ok(known) = on_json.keeps(&eval) else {
                    prop_assert!(text.starts_with("QueuedAllocations.front is"), "{}", text);
                    continue;
                };
                prop_assert_eq!(compiled.keeps(&eval), known, "{}", text);
            }
        }
    }
}
