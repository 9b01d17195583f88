//! An operator's checkpoint takes the place of the state.

use std::time::Duration;

use controlplane_state::command::{NodeSynced, Purge, RootKeyUpsert, Rotation};
use controlplane_state::{
    AclToken, AclTokenKind, ClientTokens, Command, HelloAnswer, ItemResult, Outcome,
    RESTORE_BYTES_MAX, RESTORE_SILENCE, Refusal, SessionEpoch, Signal, State, Table, invariants,
};
use protocol_model::{ClientStatus, EvalTrigger, Incarnation, JobKey, JobType, NodeStatus};

use crate::access;
use crate::harness::{
    Harness, begin_of_restore, has_signal, job, knock, node_id, registration, says,
};

const ANOTHER: Incarnation = Incarnation::from_u128(0xc2);

/// A cluster with two nodes and a running service.
fn cluster() -> Harness {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    cluster.join(2);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
    cluster
}

fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

#[test]
fn what_ended_since_the_snapshot_is_evaluated_when_its_node_reports() {
    for job_type in [JobType::Service, JobType::System] {
        let mut cluster = Harness::new();
        let node = cluster.join(1);
        let web = job("web", job_type);
        let eval = cluster.register(&web);
        let alloc = cluster.place(&web.key(), node);
        cluster.report(node, vec![says(alloc, 1, ClientStatus::Running)]);
        let over = cluster.finished(eval);
        cluster.done(Command::EvalsUpsert { evals: vec![over] });
        let saved = cluster.checkpoint();
        cluster.deregister(&web.key(), Purge::Keep);
        cluster.stop(alloc);
        let ended = says(alloc, 2, ClientStatus::Complete);
        cluster.report(node, vec![ended.clone()]);
        cluster.restore(&saved, ANOTHER, 1 << 20);
        let before = cluster.pending(&web.key());
        let epoch = cluster.welcome(knock(1, 5, SessionEpoch::NONE)).epoch;
        cluster.sync(node, epoch, vec![ended]);
        let after = cluster.pending(&web.key());
        assert!(
            after.contains(&EvalTrigger::AllocStop) && after.len() > before.len(),
            "{job_type:?}: {before:?}, {after:?}"
        );
    }
}

#[test]
fn a_restored_state_has_what_was_saved_and_nothing_else() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    cluster.register(&job("later", JobType::Service));
    cluster.join(3);
    let applied = cluster.restore(&saved, ANOTHER, 100);
    assert_eq!(applied.outcome, Outcome::Done);
    let tables = cluster.tables();
    assert!(tables.job(&key("web")).is_some());
    assert!(tables.job(&key("later")).is_none());
    assert!(tables.node(node_id(3)).is_none());
    assert!(tables.pending_restore().is_none());
    let running = tables.allocs().map(|alloc| alloc.client_status);
    assert_eq!(running.collect::<Vec<_>>(), [ClientStatus::Running]);
}

#[test]
fn a_restore_begins_another_incarnation_and_ends_every_session() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let epoch = cluster.epoch(node_id(1));
    let applied = cluster.restore(&saved, ANOTHER, 1 << 20);
    assert!(has_signal(&applied, |signal| *signal == Signal::IncarnationChanged));
    assert_eq!(cluster.tables().cluster().incarnation, Some(ANOTHER));
    assert_eq!(cluster.tables().cluster().index, applied.index);
    for node in [node_id(1), node_id(2)] {
        assert_eq!(cluster.status(node), NodeStatus::Initializing);
    }
    assert_eq!(
        cluster.tables().answer_hello(&knock(1, 5, epoch)),
        HelloAnswer::Propose
    );
    let alloc = cluster.tables().allocs().next().expect("one").id;
    let late = cluster.report(node_id(1), vec![says(alloc, 9, ClientStatus::Failed)]);
    assert_eq!(late.results, [ItemResult::NotInSession]);
}

#[test]
fn whoever_waits_for_a_change_sees_one() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let seen = cluster.tables().index();
    cluster.restore(&saved, ANOTHER, 1 << 20);
    for table in Table::ALL {
        assert!(cluster.tables().table_index(&[table]) > seen, "{table:?}");
    }
}

/// A cluster's file restored into one that is much younger: its log is shorter than the file's
/// index.
#[test]
fn whoever_waits_for_a_job_or_an_allocation_sees_a_change() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let web = key("web");
    let alloc = cluster.tables().allocs().next().expect("one").id;
    for _ in 0..10 {
        cluster.place(&web, node_id(2));
    }
    cluster.report(node_id(1), vec![says(alloc, 2, ClientStatus::Failed)]);
    let before = cluster.tables();
    let seen = (before.job_allocs_index(&web), before.alloc_index(alloc));
    cluster.restore(&saved, ANOTHER, 100);
    let tables = cluster.tables();
    assert!(tables.job_allocs_index(&web) > seen.0, "{seen:?}");
    assert!(tables.alloc_index(alloc) > seen.1, "{seen:?}");
    assert_eq!(tables.allocs_by_job(&web).count(), 1);
}

#[test]
fn the_index_goes_on_above_both_histories() {
    let mut old = cluster();
    for _ in 0..50 {
        old.register(&job("web", JobType::Service));
    }
    let old_index = old.tables().index();
    let old_epoch = old.epoch(node_id(1));
    let mut young = Harness::new();
    // The ids that it draws are not those of the other.
    for _ in 0..1000 {
        young.draw();
    }
    let now = young.now;
    let applied = young.restore(&old.checkpoint(), ANOTHER, 1 << 20);
    assert_eq!(applied.outcome, Outcome::Done);
    assert_eq!(applied.index, old_index + 1);
    assert_eq!(young.tables().index(), old_index + 1);
    assert!(young.tables().now() > now, "the time is this cluster's");
    assert!(young.tables().now() < old.tables().now());
    // Sessions and reports are above everything that either history knew.
    let epoch = young.welcome(knock(1, 5, old_epoch)).epoch;
    assert!(epoch > old_epoch);
    let alloc = young.tables().allocs().next().expect("one").id;
    young.sync(
        node_id(1),
        epoch,
        vec![says(alloc, 1, ClientStatus::Failed)],
    );
    assert_eq!(young.status(node_id(1)), NodeStatus::Ready);
    assert_eq!(young.alloc(alloc).client_status, ClientStatus::Failed);
    // A later member gets the same by checkpoint, and goes on with the log.
    let mut member = State::restore(young.checkpoint().as_slice()).expect("a state");
    young.register(&job("after", JobType::Service));
    let (index, stamped) = young.log.last().expect("the entry").clone();
    member.apply(index, stamped);
    assert_eq!(
        invariants::difference(young.tables(), member.tables()),
        None
    );
}

#[test]
fn a_node_that_does_not_come_back_is_down_and_its_jobs_are_looked_at() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    cluster.restore(&saved, ANOTHER, 1 << 20);
    assert_eq!(cluster.pending(&key("web")).len(), 1, "the registration's");
    cluster.silent(node_id(1));
    assert_eq!(cluster.status(node_id(1)), NodeStatus::Down);
    assert_eq!(cluster.pending(&key("web")).len(), 2);
}

#[test]
fn a_node_that_was_silent_when_it_was_saved_stays_so() {
    let mut cluster = cluster();
    cluster.silent(node_id(2));
    let saved = cluster.checkpoint();
    cluster.restore(&saved, ANOTHER, 1 << 20);
    assert_eq!(cluster.status(node_id(2)), NodeStatus::Down);
    let epoch = cluster.welcome(knock(2, 5, Default::default())).epoch;
    cluster.sync(node_id(2), epoch, Vec::new());
    assert_eq!(cluster.status(node_id(2)), NodeStatus::Ready);
}

#[test]
fn the_silence_of_a_node_that_was_silent_when_it_was_saved_counts_from_the_restore() {
    let mut cluster = cluster();
    cluster.silent(node_id(2));
    let saved = cluster.checkpoint();
    // It came back, and what it ran went on.
    cluster.pass(Duration::from_secs(3600));
    cluster.restore(&saved, ANOTHER, 1 << 20);
    let tables = cluster.tables();
    let record = tables.node(node_id(2)).expect("the node");
    assert_eq!(
        record.node.status_updated_at,
        tables.now().0 / 1_000_000_000
    );
}

#[test]
fn a_plan_made_before_the_restore_is_void() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let plan = controlplane_state::command::PlanApply {
        snapshot_index: cluster.tables().index(),
        ..Default::default()
    };
    cluster.restore(&saved, ANOTHER, 1 << 20);
    assert_eq!(
        cluster.plan(plan).outcome,
        Outcome::Refused(Refusal::AnotherIncarnation)
    );
}

#[test]
fn a_piece_heard_twice_is_no_news_and_a_gap_is_refused() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    cluster.done(begin_of_restore(ANOTHER, &saved));
    let chunk = |range: std::ops::Range<usize>| Command::RestoreChunk {
        incarnation: ANOTHER,
        offset: range.start as u64,
        bytes: saved[range].to_vec().into(),
    };
    let commit = Command::RestoreCommit {
        incarnation: ANOTHER,
    };
    assert_eq!(cluster.done(chunk(0..10)).outcome, Outcome::Done);
    assert_eq!(cluster.done(chunk(0..10)).outcome, Outcome::NoOp);
    assert_eq!(
        cluster.apply(chunk(20..30)).outcome,
        Outcome::Refused(Refusal::RestoreGap {
            offset: 20,
            expected: 10
        })
    );
    assert!(matches!(
        cluster.apply(commit.clone()).outcome,
        Outcome::Refused(Refusal::RestoreGap { expected: 10, .. })
    ));
    cluster.done(chunk(10..saved.len()));
    assert_eq!(cluster.done(commit.clone()).outcome, Outcome::Done);
    assert_eq!(
        cluster.done(commit).outcome,
        Outcome::NoOp,
        "its answer was lost"
    );
}

#[test]
fn what_is_no_whole_checkpoint_changes_nothing() {
    let saved = cluster().checkpoint();
    let mut flipped = saved.clone();
    flipped[20] ^= 1;
    let newer = [b"DROVERCP".as_slice(), &[0, 0, 0, 9], &[0; 24]].concat();
    let half = saved[..saved.len() / 2].to_vec();
    for (bad, why) in [
        (flipped, "damaged"),
        (newer, "version 9"),
        (half, "ends too early"),
        (b"{}".to_vec(), "ends too early"),
        (vec![b' '; 4096], "not a checkpoint"),
    ] {
        let mut cluster = cluster();
        let Outcome::Refused(Refusal::BadCheckpoint(text)) =
            cluster.restore(&bad, ANOTHER, 1000).outcome
        else {
            panic!("{why}: it was taken");
        };
        assert!(text.contains(why), "{text}");
        assert_ne!(cluster.tables().cluster().incarnation, Some(ANOTHER));
        cluster.done(Command::RestoreDrop {
            incarnation: ANOTHER,
        });
        assert!(cluster.tables().pending_restore().is_none());
    }
}

#[test]
fn one_restore_at_a_time_until_its_sender_falls_silent() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let second = Incarnation::from_u128(0xc3);
    cluster.done(begin_of_restore(ANOTHER, &saved));
    assert!(matches!(
        cluster.apply(begin_of_restore(second, &saved)).outcome,
        Outcome::Refused(Refusal::RestoreInProgress { received: 0, .. })
    ));
    cluster.pass(RESTORE_SILENCE);
    cluster.done(begin_of_restore(second, &saved));
    let late = Command::RestoreChunk {
        incarnation: ANOTHER,
        offset: 0,
        bytes: vec![1].into(),
    };
    assert_eq!(
        cluster.apply(late).outcome,
        Outcome::Refused(Refusal::RestoreUnknown)
    );
}

#[test]
fn a_restore_that_was_given_up_is_dropped_by_whatever_comes_next() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    cluster.done(begin_of_restore(ANOTHER, &saved));
    cluster.pass(RESTORE_SILENCE);
    cluster.done(Command::Barrier);
    assert!(cluster.tables().pending_restore().is_none());
}

#[test]
fn a_file_that_is_too_large_is_refused_before_it_is_sent() {
    let mut cluster = cluster();
    let begin = Command::RestoreBegin {
        incarnation: ANOTHER,
        bytes: RESTORE_BYTES_MAX + 1,
        sha256: Default::default(),
        client_tokens: ClientTokens::Restored,
    };
    assert!(matches!(
        cluster.apply(begin).outcome,
        Outcome::Refused(Refusal::RestoreTooLarge { .. })
    ));
}

#[test]
fn what_ran_when_it_was_saved_and_is_not_reported_is_lost() {
    let mut cluster = cluster();
    let running = cluster.tables().allocs().next().expect("one").id;
    let pending = cluster.place(&key("web"), node_id(1));
    let saved = cluster.checkpoint();
    cluster.restore(&saved, ANOTHER, 1 << 20);
    let epoch = cluster.welcome(knock(1, 5, SessionEpoch(4))).epoch;
    // The node has told the former incarnation that both have ended, and has removed them.
    let synced = NodeSynced {
        node: node_id(1),
        epoch,
        watch_index: 0,
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    let applied = cluster.done(Command::NodeSynced(Box::new(synced)));
    let lost = vec![running];
    let unknown = Vec::new();
    assert_eq!(applied.outcome, Outcome::Synced { lost, unknown });
    assert_eq!(cluster.alloc(running).client_status, ClientStatus::Lost);
    // Nobody knows whether the node was ever told of this one: it is told now.
    assert_eq!(cluster.alloc(pending).client_status, ClientStatus::Pending);
}

#[test]
fn a_node_that_registered_after_the_save_registers_again() {
    let mut cluster = cluster();
    let saved = cluster.checkpoint();
    let node = cluster.join(3);
    let epoch = cluster.epoch(node);
    cluster.restore(&saved, ANOTHER, 1 << 20);
    assert_eq!(
        cluster.hello(knock(3, 5, epoch)).outcome,
        Outcome::Refused(Refusal::NeedsFacts(node))
    );
    cluster.welcome(registration(3));
}

/// A cluster with everything of access control, saved, and restored so.
fn restored_with(client_tokens: ClientTokens) -> Harness {
    let mut cluster = Harness::new();
    access::fill(&mut cluster);
    let bootstrap = Command::AclBootstrap {
        token: AclToken {
            kind: AclTokenKind::Management,
            policies: Vec::new(),
            ..access::token(9)
        },
        reset_index: 0,
    };
    cluster.done(bootstrap);
    let saved = cluster.checkpoint();
    let Command::RestoreBegin {
        incarnation,
        bytes,
        sha256,
        ..
    } = begin_of_restore(ANOTHER, &saved)
    else {
        panic!("no beginning");
    };
    let begin = Command::RestoreBegin {
        incarnation,
        bytes,
        sha256,
        client_tokens,
    };
    cluster.done(begin);
    let offset = 0;
    let bytes = saved.into();
    cluster.done(Command::RestoreChunk {
        incarnation,
        offset,
        bytes,
    });
    cluster.done(Command::RestoreCommit { incarnation });
    cluster
}

#[test]
fn a_restore_without_client_tokens_brings_back_no_revoked_one() {
    let left = |cluster: &Harness| {
        let tokens = cluster.tables().acl_tokens();
        let accessors = tokens.map(|token| token.accessor_id.clone());
        let one_time = cluster.tables().one_time_tokens_by_expiry();
        (accessors.collect::<Vec<_>>(), one_time.count())
    };
    let whole = restored_with(ClientTokens::Restored);
    let all = ["accessor-1", "accessor-2", "accessor-9"].map(str::to_owned);
    assert_eq!(left(&whole), (all.to_vec(), 1));
    let without = restored_with(ClientTokens::LeftOut);
    assert_eq!(left(&without), (vec!["accessor-9".to_owned()], 0));
    let roles = without.tables().acl_roles();
    assert_eq!(roles.count(), 1, "nothing else is left out");
}

#[test]
fn no_number_of_a_root_key_means_another_one_after_a_restore() {
    let mut cluster = Harness::new();
    let saved = cluster.checkpoint();
    let upsert = |number| {
        let key = access::root_key(number);
        Command::from(RootKeyUpsert {
            key,
            replaces: None,
            rotation: Rotation::Plain,
        })
    };
    cluster.done(upsert(1));
    cluster.restore(&saved, ANOTHER, 1000);
    assert!(cluster.tables().active_root_key().is_none());
    cluster.done(upsert(2));
    let key = cluster.tables().active_root_key().expect("a key");
    assert_eq!(key.number, 2);
}
