//! Counting and deleting evaluations over HTTP, and over a change of leader.

use controlplane_server::Server;
use controlplane_state::{Command, SchedulerConfig};
use protocol_api::evaluations::{
    CountEvaluations, DeleteEvaluations, EvalDeleteRequest, EvalsDeleted,
};
use protocol_client::{Client, ClientError, Query};
use protocol_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, UnixNanos};
use serde_json::json;

use crate::three::{client, cluster};
use crate::world::{PATIENCE, World, refusal, service};

/// So many evaluations, each of a job of its own that is not there: the leader cancels all but one
/// of a job. Every third is blocked, the others have failed. Nothing is scheduled from now on.
async fn make(server: &Server, count: u32) {
    let config = SchedulerConfig {
        pause_eval_broker: true,
        ..SchedulerConfig::default()
    };
    let pause = Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    };
    server.cluster().change(pause).await.expect("paused");
    let numbers: Vec<u32> = (1..=count).collect();
    for part in numbers.chunks(4000) {
        // Open ones first: one that is made over would be taken for a deleted one.
        for status in [EvalStatus::Blocked, EvalStatus::Failed] {
            let evals = part.iter().map(|number| eval(*number, status)).collect();
            let made = server.cluster().change(Command::EvalsUpsert { evals });
            made.await.expect("made");
        }
    }
}

fn eval(number: u32, status: EvalStatus) -> Evaluation {
    let blocks = number.is_multiple_of(3);
    let job = format!("job-{}-{number}", number % 7);
    let key = JobKey::new("default", job);
    let (kind, trigger) = (JobType::Service, EvalTrigger::NodeUpdate);
    let id = EvalId::from_u128(u128::from(number) << 64);
    let mut eval = Evaluation::new(id, &key, kind, 50, trigger, UnixNanos(7));
    eval.status = if blocks { EvalStatus::Blocked } else { status };
    eval
}

async fn delete(client: &Client, request: EvalDeleteRequest) -> Result<EvalsDeleted, ClientError> {
    let query = Query::new();
    let answer = client.call_with(&DeleteEvaluations, &query, &request);
    Ok(answer.await?.value)
}

fn filter(filter: &str) -> EvalDeleteRequest {
    EvalDeleteRequest {
        filter: filter.to_owned(),
        ..EvalDeleteRequest::default()
    }
}

async fn count(client: &Client, filter: &str) -> u64 {
    let query = Query::new().with("filter", filter);
    let answer = client.call(&CountEvaluations, &query).await;
    answer.expect("a count").value.count
}

#[tokio::test]
async fn evaluations_are_counted_and_deleted_by_filter() {
    let world = World::start().await;
    make(&world.server, 30).await;
    let client = &world.client;
    let expression = "JobID matches \"^job-1-\"";
    assert_eq!(count(client, expression).await, 5);
    assert_eq!(count(client, "Status == failed").await, 20);
    let path = format!("/v1/evaluations?filter={expression}");
    let listed = world.get(&path);
    assert_eq!(
        listed.await.expect("a list").as_array().map(Vec::len),
        Some(5)
    );
    let counted = world.get("/v1/evaluations/count?prefix=00000000&namespace=*");
    let counted = counted.await.expect("a count");
    assert_eq!(counted["Count"], 30);
    assert_eq!(counted["KnownLeader"], true);
    let elsewhere = world.get("/v1/evaluations/count?namespace=other").await;
    assert_eq!(elsewhere.expect("a count")["Count"], 0);

    let deleted = delete(client, filter(expression)).await.expect("deleted");
    assert_eq!((deleted.count, deleted.kept, deleted.open), (5, 0, 1));
    assert_eq!(deleted.index, world.server.cluster().snapshot().index());
    assert_eq!(count(client, expression).await, 0);
    assert_eq!(count(client, "Status != x").await, 25);
    // Deleting what is gone deletes nothing.
    let again = delete(client, filter(expression)).await.expect("deleted");
    assert_eq!((again.count, again.kept, again.open), (0, 0, 0));
}

#[tokio::test]
async fn a_deleted_blocked_evaluation_is_not_scheduled_again() {
    let world = World::start().await;
    let body = json!({ "Job": service("web") });
    world.put("/v1/jobs", body).await.expect("registered");
    let blocked = |eval: &Evaluation| eval.status == EvalStatus::Blocked;
    world
        .until(|snapshot| snapshot.evals().any(|eval| blocked(eval)))
        .await;
    let deleted = delete(&world.client, filter("Status == blocked")).await;
    let deleted = deleted.expect("deleted");
    assert_eq!((deleted.count, deleted.open), (1, 1));
    // A node comes: nothing waits for it any more, until the job is evaluated.
    let node = crate::fake_node::FakeNode::join(&world).await;
    assert_eq!(world.server.cluster().snapshot().allocs().count(), 0);
    let evaluate = world.put("/v1/job/web/evaluate", json!({ "JobID": "web" }));
    evaluate.await.expect("evaluated");
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    drop(node);
}

#[tokio::test]
async fn mistakes_in_a_deletion_are_told_in_the_words_that_clients_look_for() {
    let world = World::start().await;
    make(&world.server, 3).await;
    let client = &world.client;
    let id = |number: u128| EvalId::from_u128(number << 64);
    let by_ids = |eval_ids: Vec<EvalId>| EvalDeleteRequest {
        eval_ids,
        filter: String::new(),
    };
    let both = EvalDeleteRequest {
        eval_ids: vec![id(1)],
        ..filter("Status == complete")
    };
    let cases = [
        (both, 400, "evals cannot be deleted by both ID and filter"),
        (
            filter(""),
            400,
            "evals must be deleted by either ID or filter",
        ),
        (
            by_ids(vec![id(1); 7282]),
            400,
            "request includes 7282 evaluation IDs, must be 7281 or fewer",
        ),
        (by_ids(vec![id(1), id(99)]), 404, "eval not found"),
        (
            filter("Nope == 1"),
            400,
            "failed to read filter expression: selector \"Nope\" is not valid: the items of this \
             list have no such field",
        ),
    ];
    for (request, code, words) in cases {
        let answer = delete(client, request).await;
        assert_eq!(refusal(answer), (code, words.to_owned()));
    }
    let (code, words) = refusal(world.get("/v1/evaluations/count?filter=Nope == 1").await);
    assert_eq!(code, 400, "{words}");
    let (code, _) = refusal(world.delete("/v1/evaluations").await);
    assert_eq!(code, 400, "no body");
    assert_eq!(count(client, "Status != x").await, 3, "nothing was deleted");
    let deleted = delete(client, by_ids(vec![id(1), id(2)])).await;
    assert_eq!(deleted.expect("deleted").count, 2);
}

#[tokio::test]
async fn a_list_of_evaluations_is_read_in_pages_from_both_ends() {
    let world = World::start().await;
    make(&world.server, 10).await;
    for reverse in ["false", "true"] {
        let path = format!("/v1/evaluations?reverse={reverse}");
        let whole = world.get(&path);
        let whole = whole.await.expect("a list");
        let mut pages = Vec::new();
        let mut token = String::new();
        loop {
            let path = format!("/v1/evaluations?reverse={reverse}&per_page=3&next_token={token}");
            let page = world.get_whole(&path).await.expect("a page");
            pages.extend(page.value.as_array().expect("a list").clone());
            match page.next_token {
                Some(next) => token = next,
                None => break,
            }
        }
        assert_eq!(json!(pages), whole, "reverse={reverse}");
        assert_eq!(pages.len(), 10);
    }
    let (code, _) = refusal(world.get("/v1/evaluations?next_token=x").await);
    assert_eq!(code, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_continues_when_its_leader_is_lost_between_two_pages() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    let leads = |server: &Server| server.cluster().is_leader();
    let mut leader = None;
    let found = tokio::time::timeout(PATIENCE, async {
        while leader.is_none() {
            leader = servers.iter().position(leads);
            tokio::task::yield_now().await;
        }
    });
    found.await.expect("a leader");
    let leader = servers.swap_remove(leader.expect("one"));
    const COUNT: u32 = 20_000;
    make(&leader, COUNT).await;
    let asked = client(&servers[0]);
    assert_eq!(count(&asked, "Status != x").await, u64::from(COUNT));
    let deleting = tokio::spawn(async move { delete(&asked, filter("Status != x")).await });
    // Some pages are there, and not all of them.
    let mut newest = servers[0].cluster().hub().watch();
    let begun = newest.wait_for(|snapshot| snapshot.evals().count() < COUNT as usize);
    let begun = tokio::time::timeout(PATIENCE, begun).await;
    let left = begun.expect("in time").expect("there").evals().count();
    assert!(left > 0);
    leader.shutdown().await;
    let deleted = tokio::time::timeout(PATIENCE, deleting).await;
    let deleted = deleted.expect("in time").expect("no panic").expect("done");
    assert_eq!((deleted.count, deleted.kept), (u64::from(COUNT), 0));
    assert_eq!(deleted.open, u64::from(COUNT / 3));
    for server in &servers {
        let snapshot = server.cluster().consistent().await.expect("a state");
        assert_eq!(snapshot.evals().count(), 0);
    }
}
