//! What a leader does at take-over, with deadlines, and with what the log refused.

use std::sync::Arc;

use controlplane_state::Command;
use controlplane_state::command::{AllocChange, Change, EvalsDelete, NodeSynced, PlanApply};
use hack_testkit::{World, allocs, jobs, nodes};
use protocol_model::{
    ClientStatus, Eligibility, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, UnixNanos,
};

use super::*;
use crate::owed_syncs::SYNC_MAX;

fn command_of(effect: Effect) -> Command {
    let Effect::Command(command) = effect;
    command
}

fn at(seconds: u64) -> Now {
    Now {
        monotonic: Duration::from_secs(seconds),
        wall: UnixNanos(i64::try_from(seconds).expect("small") * 1_000_000_000),
    }
}

const SILENCE: Duration = Duration::from_secs(3);
const TAKEOVER_EXTRA: Duration = Duration::from_secs(2);
/// Somebody has led for long enough for every node that is well to be back.
const LONG_LED: Duration = Duration::from_secs(60);

fn config() -> LeaderConfig {
    let keep = Duration::from_secs(3600);
    LeaderConfig {
        silence: SILENCE,
        takeover_extra: TAKEOVER_EXTRA,
        servers: 3,
        gc: GcThresholds {
            evals: keep,
            jobs: keep,
            nodes: keep,
            deployments: keep,
        },
    }
}

fn poll(leader: &mut Leader, world: &World, now: Now) -> Option<Command> {
    let mut ids = || EvalId::from_u128(2);
    leader
        .poll_effect(&world.snapshot(), &mut ids, now)
        .map(command_of)
}

/// Applies a command, and tells the leader.
fn apply(world: &mut World, leader: &mut Leader, command: Command, now: Now) {
    let applied = world.apply(command);
    leader.on_applied(applied.index, &applied.signals, &world.snapshot(), now);
}

#[test]
fn a_new_leader_gives_an_owed_report_all_of_its_time_and_its_own_extra() {
    let mut world = World::new();
    let node = nodes::node(1).id;
    let epoch = world.greet(nodes::node(1));
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(100));
    let due = at(100).plus(SYNC_MAX + TAKEOVER_EXTRA);
    for second in 101..=131 {
        leader.on_heard(node, epoch, Duration::ZERO, at(second));
        assert_eq!(poll(&mut leader, &world, at(second)), None);
    }
    leader.on_heard(node, epoch, Duration::ZERO, due);
    let nodes = vec![(node, epoch)];
    let overdue = Some(Command::SyncDeadline { nodes });
    assert_eq!(poll(&mut leader, &world, due), overdue);
}

/// Nodes try ever more rarely while nobody answers: taking all of them for silent because the
/// servers were away would move every task of the cluster.
#[test]
fn nodes_that_were_without_any_leader_for_long_have_long_to_come_back() {
    let mut world = World::new();
    let node = nodes::node(1).id;
    let epoch = world.greet(nodes::node(1));
    let missed = Some(Command::HeartbeatMissed {
        nodes: vec![(node, epoch)],
    });
    let returned = time_to_return(3);
    for (tenure, extra) in [
        (LONG_LED, TAKEOVER_EXTRA),
        (returned - TAKEOVER_EXTRA, TAKEOVER_EXTRA),
        // The leader before it did not last.
        (returned - Duration::from_secs(9), Duration::from_secs(9)),
        (Duration::ZERO, returned),
    ] {
        let mut leader = Leader::take_over(&world.snapshot(), config(), tenure, at(0));
        let due = at(0).plus(SILENCE + extra);
        let early = at(0).plus(SILENCE + extra - Duration::from_millis(1));
        assert_eq!(poll(&mut leader, &world, early), None, "{tenure:?}");
        assert_eq!(poll(&mut leader, &world, due), missed, "{tenure:?}");
    }
}

#[test]
fn a_session_that_begins_has_time_to_find_a_server_that_serves_it() {
    let mut world = World::new();
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let node = nodes::node(1).id;
    let epoch = world.greet(nodes::node(1));
    // As the entry that begins it tells of a node that was ready.
    let signals = [
        Signal::NodeSessionStarted { node, epoch },
        Signal::NodeStatusChanged {
            node,
            epoch,
            from: NodeStatus::Ready,
            to: NodeStatus::Initializing,
        },
    ];
    let snapshot = world.snapshot();
    leader.on_applied(snapshot.index(), &signals, &snapshot, at(10));
    let due = at(10).plus(SILENCE + TAKEOVER_EXTRA);
    let early = Now {
        monotonic: due.monotonic - Duration::from_millis(1),
        ..due
    };
    assert_eq!(poll(&mut leader, &world, early), None);
    let nodes = vec![(node, epoch)];
    let missed = Some(Command::HeartbeatMissed { nodes });
    assert_eq!(poll(&mut leader, &world, due), missed);
}

#[test]
fn a_node_that_lost_its_session_and_never_knocks_is_down_in_the_end() {
    let mut world = World::new();
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let node = nodes::node(1).id;
    let epoch = world.greet(nodes::node(1));
    let nodes = vec![(node, epoch)];
    let closed = Command::SyncDeadline { nodes };
    apply(&mut world, &mut leader, closed, at(30));
    // Its heartbeats are those of a session that is gone.
    leader.on_heard(node, epoch, Duration::ZERO, at(80));
    let due = at(30).plus(SILENCE + KNOCK_AGAIN_MAX);
    assert_eq!(poll(&mut leader, &world, at(92)), None);
    let nodes = vec![(node, SessionEpoch::NONE)];
    let missed = Command::HeartbeatMissed { nodes };
    assert_eq!(poll(&mut leader, &world, due), Some(missed.clone()));
    apply(&mut world, &mut leader, missed, due);
    let status = world.snapshot().node(node).map(|it| it.node.status);
    assert_eq!(status, Some(NodeStatus::Down));
}

/// What is leased to a node is given away where its expiry is written in the end, however well the
/// node was heard meanwhile.
#[test]
fn no_lease_counts_while_nobody_knows_what_became_of_an_expiry() {
    for written in [false, true] {
        let mut world = World::new();
        let node = world.add_node(nodes::node(1));
        let epoch = world.epoch(node);
        let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
        let hear = |leader: &mut Leader, now| {
            let heard = [(node, epoch, Duration::ZERO)];
            leader.on_report(1, Reading::InTime, heard, now).is_empty()
        };
        let due = at(0).plus(SILENCE + TAKEOVER_EXTRA);
        let nodes = vec![(node, epoch)];
        let missed = Command::HeartbeatMissed { nodes };
        assert_eq!(poll(&mut leader, &world, due), Some(missed.clone()));
        assert!(!hear(&mut leader, due));
        leader.on_failed(&Effect::Command(missed.clone()), due);
        assert!(!hear(&mut leader, due));
        // Whatever follows it in the log tells.
        for _ in 0..2 {
            assert_eq!(poll(&mut leader, &world, due), Some(Command::Barrier));
            leader.on_failed(&Effect::Command(Command::Barrier), due);
            assert!(!hear(&mut leader, due));
        }
        assert_eq!(poll(&mut leader, &world, due), Some(Command::Barrier));
        if written {
            world.expect(missed);
        }
        assert_eq!(poll(&mut leader, &world, due), None);
        assert_eq!(hear(&mut leader, due), !written);
    }
}

#[test]
fn an_evaluation_that_failed_says_what_the_last_attempt_said() {
    let mut world = World::new();
    let eval = world.register(jobs::job(JobType::Service, "web", 1));
    let snapshot = world.snapshot();
    let mut leader = Leader::take_over(&snapshot, config(), LONG_LED, at(0));
    leader.on_applied(5, &[Signal::EvalPending(Arc::new(eval))], &snapshot, at(0));
    for attempt in 1..=3 {
        let now = at(attempt * 100);
        leader.on_timeout(now);
        let delivery = leader.evaluations.dequeue(now).expect("it is handed out");
        leader
            .evaluations
            .note_failure(delivery.eval.id, format!("attempt {attempt} was too large"));
        leader
            .evaluations
            .nack(delivery.eval.id, delivery.token, now);
    }
    let mut ids = || EvalId::from_u128(2);
    let command = leader
        .poll_effect(&snapshot, &mut ids, at(400))
        .map(command_of);
    let Some(Command::EvalsUpsert { evals, .. }) = command else {
        panic!("it is written off: {command:?}")
    };
    assert_eq!(evals[0].status, EvalStatus::Failed);
    let said = &evals[0].status_description;
    assert_eq!(said, "failed in three attempts: attempt 3 was too large");
}

#[test]
fn a_deleted_evaluation_leaves_the_broker_and_the_blocked_ones() {
    let mut world = World::new();
    let pending = world.register(jobs::job(JobType::Service, "web", 1));
    let mut blocked = world.register(jobs::job(JobType::Service, "db", 1));
    blocked.status = EvalStatus::Blocked;
    let evals = vec![blocked.clone()];
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let mut tell = |world: &mut World, command| {
        let applied = world.apply(command);
        let snapshot = world.snapshot();
        leader.on_applied(applied.index, &applied.signals, &snapshot, at(0));
        let stats = leader.evaluations.broker_stats();
        (stats.ready, leader.evaluations.blocked_stats().0)
    };
    assert_eq!(tell(&mut world, Command::EvalsUpsert { evals }), (1, 1));
    let ids = EvalsDelete::Ids(vec![pending.id, blocked.id]);
    assert_eq!(tell(&mut world, Command::EvalsDelete(ids)), (0, 0));
}

fn ready(world: &mut World) -> (NodeId, SessionEpoch) {
    let node = nodes::node(1).id;
    let epoch = world.greet(nodes::node(1));
    world.sync(node, epoch);
    (node, epoch)
}

#[test]
fn an_expiry_that_the_log_did_not_take_is_not_repeated_for_who_was_heard_since() {
    let mut world = World::new();
    let (node, epoch) = ready(&mut world);
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let nodes = vec![(node, epoch)];
    let missed = Command::HeartbeatMissed { nodes };
    assert_eq!(poll(&mut leader, &world, at(5)), Some(missed.clone()));
    leader.on_failed(&Effect::Command(missed.clone()), at(6));
    assert_eq!(poll(&mut leader, &world, at(6)), Some(Command::Barrier));
    assert_eq!(poll(&mut leader, &world, at(6)), None);
    leader.on_heard(node, epoch, Duration::ZERO, at(8));
    assert_eq!(poll(&mut leader, &world, at(10)), None);
    assert_eq!(poll(&mut leader, &world, at(11)), Some(missed));
}

#[test]
fn a_stall_of_the_leader_is_not_taken_for_the_silence_of_nodes() {
    let mut world = World::new();
    let (node, epoch) = ready(&mut world);
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    leader.on_woken(Duration::from_secs(60));
    assert_eq!(poll(&mut leader, &world, at(64)), None);
    let nodes = vec![(node, epoch)];
    let missed = Command::HeartbeatMissed { nodes };
    assert_eq!(poll(&mut leader, &world, at(65)), Some(missed));
}

#[test]
fn an_ordinary_sleep_of_the_leader_gives_nodes_no_time() {
    let mut world = World::new();
    let (node, epoch) = ready(&mut world);
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let sleep = leader.sleep_max().expect("a node is watched");
    for _ in 0..100 {
        leader.on_woken(sleep);
    }
    let nodes = vec![(node, epoch)];
    let missed = Command::HeartbeatMissed { nodes };
    assert_eq!(poll(&mut leader, &world, at(5)), Some(missed));
}

#[test]
fn a_leader_without_a_majority_takes_nobody_for_silent_nor_for_owing_a_report() {
    let mut world = World::new();
    let (node, epoch) = ready(&mut world);
    let owing = world.greet(nodes::node(2));
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let mut now = at(0);
    for _ in 0..200 {
        now = now.plus(Duration::from_millis(500));
        leader.on_unheard(now);
        assert_eq!(poll(&mut leader, &world, now), None);
        let due = leader.poll_timeout().expect("two nodes are watched");
        assert!(due > now.monotonic, "there is nothing to do yet");
    }
    // The majority is back, and one of the two is heard by then.
    leader.on_heard(nodes::node(2).id, owing, Duration::ZERO, now);
    let early = now.plus(SILENCE / 2);
    assert_eq!(poll(&mut leader, &world, early), None);
    leader.on_heard(nodes::node(2).id, owing, Duration::ZERO, early);
    let late = now.plus(SILENCE);
    let nodes = vec![(node, epoch)];
    let missed = Command::HeartbeatMissed { nodes };
    assert_eq!(poll(&mut leader, &world, late), Some(missed));
    let nodes = vec![(nodes::node(2).id, owing)];
    let overdue = Command::SyncDeadline { nodes };
    let later = now.plus(Duration::from_secs(5));
    leader.on_heard(nodes::node(2).id, owing, Duration::ZERO, later);
    assert_eq!(poll(&mut leader, &world, later), Some(overdue));
}

#[test]
fn a_leader_without_a_majority_moves_nothing_for_want_of_a_nodes_word() {
    let mut world = World::new();
    ready(&mut world);
    let job = jobs::job(JobType::Service, "web", 1);
    let key = job.key();
    world.register(job);
    let alloc = allocs::allocation(&world.snapshot(), &key, nodes::node(1).id);
    world.expect(Command::PlanApply(Box::new(PlanApply {
        placed: vec![Arc::new(alloc)],
        ..PlanApply::default()
    })));
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let start = world.now();
    let mut now = at(0);
    let moves = |leader: &mut Leader, now: Now| {
        let wall = start.saturating_add(now.monotonic);
        let command = poll(leader, &world, Now { wall, ..now });
        matches!(command, Some(Command::PendingExpired { .. }))
    };
    for _ in 0..200 {
        now = now.plus(Duration::from_millis(500));
        leader.on_unheard(now);
        assert!(!moves(&mut leader, now));
    }
    let found = (0..200).any(|_| {
        now = now.plus(Duration::from_millis(500));
        moves(&mut leader, now)
    });
    assert!(found, "the majority has been back for a while");
}

/// A leader that gave up on the one evaluation of a state, and the command that says so.
fn given_up() -> (World, Leader, Command) {
    let mut world = World::new();
    let job = jobs::draft(JobType::Service, "web", 1);
    let eval = Evaluation::new(
        EvalId::from_u128(1),
        &JobKey::new("default", "web"),
        job.job_type,
        50,
        EvalTrigger::JobRegister,
        UnixNanos(1),
    );
    let evals = vec![eval];
    world.apply(Command::EvalsUpsert { evals });
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    for attempt in 1..=3 {
        let now = at(attempt * 100);
        leader.on_timeout(now);
        let delivery = leader.evaluations.dequeue(now).expect("it is handed out");
        leader
            .evaluations
            .nack(delivery.eval.id, delivery.token, now);
    }
    let command = poll(&mut leader, &world, at(400)).expect("it is written off");
    (world, leader, command)
}

#[test]
fn a_write_off_that_the_log_did_not_take_is_proposed_again() {
    let (mut world, mut leader, command) = given_up();
    assert_eq!(poll(&mut leader, &world, at(400)), None);
    leader.on_failed(&Effect::Command(command.clone()), at(401));
    assert_eq!(poll(&mut leader, &world, at(401)), Some(command.clone()));
    apply(&mut world, &mut leader, command, at(401));
    let failed = world.snapshot().eval(EvalId::from_u128(1)).cloned();
    assert_eq!(failed.map(|eval| eval.status), Some(EvalStatus::Failed));
    assert_eq!(poll(&mut leader, &world, at(401)), None);
}

#[test]
fn a_write_off_that_the_log_took_after_all_is_not_proposed_again() {
    let (mut world, mut leader, command) = given_up();
    apply(&mut world, &mut leader, command.clone(), at(401));
    leader.on_failed(&Effect::Command(command), at(402));
    assert_eq!(poll(&mut leader, &world, at(402)), None);
}

#[test]
fn of_a_write_off_that_is_refused_everything_else_is_written_off() {
    let mut world = World::new();
    let draft = |number: u128, job: &str| {
        Evaluation::new(
            EvalId::from_u128(number),
            &JobKey::new("default", job),
            JobType::Service,
            50,
            EvalTrigger::JobRegister,
            UnixNanos(1),
        )
    };
    let evals: Vec<_> = (1..=5)
        .map(|number| draft(number, &format!("job-{number}")))
        .collect();
    world.apply(Command::EvalsUpsert { evals });
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    for attempt in 1..=3 {
        let now = at(attempt * 100);
        leader.on_timeout(now);
        while let Some(delivery) = leader.evaluations.dequeue(now) {
            leader
                .evaluations
                .nack(delivery.eval.id, delivery.token, now);
        }
    }
    // Neither the log nor the state takes what has the third one in it.
    let bad = EvalId::from_u128(3);
    let mut next_id = 100;
    let mut proposed = 0;
    loop {
        let mut ids = || {
            next_id += 1;
            EvalId::from_u128(next_id)
        };
        let command = leader
            .poll_effect(&world.snapshot(), &mut ids, at(400))
            .map(command_of);
        let Some(command) = command else {
            break;
        };
        proposed += 1;
        assert!(proposed < 20, "it goes on for ever");
        let Command::EvalsUpsert { evals } = &command else {
            panic!("{command:?}")
        };
        if evals.iter().any(|eval| eval.id == bad) {
            leader.on_refused(&Effect::Command(command.clone()), "it is bad");
        } else {
            apply(&mut world, &mut leader, command, at(400));
        }
    }
    let snapshot = world.snapshot();
    for number in 1..=5 {
        let eval = snapshot.eval(EvalId::from_u128(number)).expect("is there");
        let written_off = eval.status == EvalStatus::Failed;
        assert_eq!(written_off, eval.id != bad, "{eval:?}");
        let follow_up = eval.next_eval.map(|next| snapshot.eval(next).is_some());
        assert_eq!(follow_up, written_off.then_some(true));
    }
}

#[test]
fn room_in_another_pool_or_datacenter_wakes_nobody() {
    let mut world = World::new();
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.datacenters = vec!["dc*".to_owned()];
    job.canonicalize();
    let mut eval = world.register(job);
    eval.status = EvalStatus::Blocked;
    eval.snapshot_index = 1;
    let blocked = Command::EvalsUpsert { evals: vec![eval] };
    apply(&mut world, &mut leader, blocked, at(1));
    // Nodes of classes that the evaluation never saw.
    let mut joins = |number: u8, pool: &str, datacenter: &str| {
        let mut node = nodes::node(number);
        node.node_pool = pool.to_owned();
        node.datacenter = datacenter.to_owned();
        node.computed_class = format!("{pool} {datacenter}");
        let epoch = world.greet(node);
        let synced = NodeSynced {
            node: nodes::node(number).id,
            epoch,
            watch_index: 0,
            changed: Vec::new(),
            unchanged: Vec::new(),
            facts: None,
        };
        let synced = Command::NodeSynced(Box::new(synced));
        apply(&mut world, &mut leader, synced, at(2));
        leader.evaluations.blocked_stats().0
    };
    assert_eq!(joins(1, "gpu", "dc1"), 1);
    assert_eq!(joins(2, "default", "eu"), 1);
    assert_eq!(joins(3, "default", "dc2"), 0);
}

#[test]
fn an_evaluation_that_was_tried_in_vain_waits_for_what_came_after_its_look() {
    let mut world = World::new();
    let node = world.add_node(nodes::node(1));
    world.register(jobs::job(JobType::Service, "web", 1));
    let mut eval = world
        .snapshot()
        .evals()
        .next()
        .expect("one")
        .as_ref()
        .clone();
    eval.status = EvalStatus::Blocked;
    eval.escaped_computed_class = true;
    eval.snapshot_index = world.snapshot().index();
    let evals = vec![eval.clone()];
    world.expect(Command::EvalsUpsert { evals });
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let mut look = |appears_later: bool| {
        let delivery = leader.evaluations.dequeue(at(1)).expect("it is tried");
        eval.snapshot_index = world.snapshot().index();
        if appears_later {
            for eligibility in [Eligibility::Ineligible, Eligibility::Eligible] {
                let command = Command::NodeEligibility { node, eligibility };
                apply(&mut world, &mut leader, command, at(1));
            }
        }
        let (token, snapshot) = (delivery.token, world.snapshot());
        assert!(
            leader
                .evaluations
                .block_again(eval.clone(), token, &snapshot, at(1))
        );
        assert!(
            !leader
                .evaluations
                .block_again(eval.clone(), token, &snapshot, at(1))
        );
        leader.evaluations.blocked_stats().0
    };
    assert_eq!(look(true), 0, "it did not see the room that appeared");
    assert_eq!(look(false), 1);
    assert!(leader.evaluations.dequeue(at(1)).is_none());
}

#[test]
fn the_end_of_what_is_being_stopped_unblocks_who_waits_for_its_room() {
    let mut world = World::new();
    let (node, _) = ready(&mut world);
    let key = world
        .register(jobs::job(JobType::Service, "web", 1))
        .job_key();
    let old = allocs::allocation(&world.snapshot(), &key, node);
    world.expect(Command::PlanApply(Box::new(PlanApply {
        placed: vec![Arc::new(old.clone())],
        ..PlanApply::default()
    })));
    world.report(old.id, ClientStatus::Running);
    let mut leader = Leader::take_over(&world.snapshot(), config(), LONG_LED, at(0));
    let mut blocked = world.register(jobs::job(JobType::Service, "other", 1));
    blocked.status = EvalStatus::Blocked;
    blocked.snapshot_index = world.snapshot().index();
    let blocked = Command::EvalsUpsert {
        evals: vec![blocked],
    };
    apply(&mut world, &mut leader, blocked, at(1));
    let change = Change::Stop {
        description: String::new(),
        client_status: None,
        followup_eval: None,
    };
    let stop = PlanApply {
        changed: vec![AllocChange { id: old.id, change }],
        ..PlanApply::default()
    };
    let stop = Command::PlanApply(Box::new(stop));
    apply(&mut world, &mut leader, stop, at(1));
    assert_eq!(leader.evaluations.blocked_stats().0, 1, "it runs still");
    let ended = world.report(old.id, ClientStatus::Complete);
    leader.on_applied(ended.index, &ended.signals, &world.snapshot(), at(2));
    assert_eq!(leader.evaluations.blocked_stats().0, 0);
}
