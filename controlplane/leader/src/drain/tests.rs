//! The leader's part of drains: pace, deadlines, limits, and a leader that just took over.

use std::sync::Arc;

use controlplane_state::Outcome;
use controlplane_state::command::{AllocChange, Change, PlanApply};
use hack_testkit::{World, allocs, jobs, nodes};
use protocol_model::{AllocId, ClientStatus, DrainSpec, Eligibility, JobType, NodeStatus};

use super::*;

fn now(world: &World) -> Now {
    let wall = world.now();
    Now {
        monotonic: Duration::from_nanos(u64::try_from(wall.0).expect("after 1970")),
        wall,
    }
}

/// So many running allocations of a job, all on node 1; node 2 is empty.
fn scene(job_type: JobType, count: u32) -> (World, NodeId, Vec<AllocId>) {
    let mut world = World::new();
    let node = world.add_node(nodes::node(1));
    world.add_node(nodes::node(2));
    let job = jobs::job(job_type, "web", count);
    world.register(job.clone());
    let ids = (0..count).map(|_| {
        let alloc = allocs::allocation(&world.snapshot(), &job.key(), node);
        let id = alloc.id;
        world.expect(Command::PlanApply(Box::new(PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        })));
        world.report_health(id, true);
        id
    });
    let ids = ids.collect();
    (world, node, ids)
}

fn stop(world: &mut World, id: AllocId) {
    let stop = Change::Stop {
        description: String::new(),
        client_status: None,
        followup_eval: None,
    };
    world.expect(Command::PlanApply(Box::new(PlanApply {
        changed: vec![AllocChange { id, change: stop }],
        ..PlanApply::default()
    })));
    world.report(id, ClientStatus::Complete);
}

/// The proposals of a leader that just took over, one command after the other.
fn look(world: &mut World) -> Vec<Command> {
    let mut drains = Drains::of(&world.snapshot(), now(world));
    let mut found = Vec::new();
    while let Some(command) = drains.poll_command(&world.snapshot(), now(world)) {
        found.push(command);
    }
    found
}

fn marked(commands: &[Command]) -> Vec<(AllocId, DrainMark)> {
    let mut found = Vec::new();
    for command in commands {
        if let Command::AllocsMigrate { nodes } = command {
            found.extend(nodes.iter().flat_map(|it| it.marks.iter().copied()));
        }
    }
    found
}

fn carry_out(world: &mut World, commands: Vec<Command>) {
    for command in commands {
        let outcome = world.expect(command);
        assert!(matches!(outcome, Outcome::Evaluated(_)), "{outcome:?}");
    }
}

#[test]
fn allocs_leave_one_at_a_time_each_after_a_healthy_successor() {
    let (mut world, node, ids) = scene(JobType::Service, 3);
    world.drain(node, 0);
    let commands = look(&mut world);
    assert_eq!(marked(&commands), [(ids[0], DrainMark::Migrate)]);
    carry_out(&mut world, commands);
    assert!(look(&mut world).is_empty(), "it has not left yet");
    stop(&mut world, ids[0]);
    let job = jobs::job(JobType::Service, "web", 3).key();
    let successor = allocs::allocation(&world.snapshot(), &job, nodes::node(2).id);
    let id = successor.id;
    world.expect(Command::PlanApply(Box::new(PlanApply {
        placed: vec![Arc::new(successor)],
        ..PlanApply::default()
    })));
    world.report(id, ClientStatus::Running);
    assert!(
        look(&mut world).is_empty(),
        "its successor is not judged yet"
    );
    world.report_health(id, true);
    assert_eq!(marked(&look(&mut world)).len(), 1);
}

#[test]
fn unhealthy_allocs_leave_at_once() {
    let (mut world, node, ids) = scene(JobType::Service, 3);
    world.report_health(ids[1], false);
    world.drain(node, 0);
    let marks = marked(&look(&mut world));
    assert_eq!(marks, [(ids[1], DrainMark::Migrate)], "and no healthy one");
}

#[test]
fn max_parallel_of_zero_keeps_allocs_until_the_deadline() {
    let (mut world, node, ids) = scene(JobType::Service, 2);
    let mut job = jobs::job(JobType::Service, "web", 2);
    job.task_groups[0]
        .migrate
        .as_mut()
        .expect("one")
        .max_parallel = Some(0);
    world.register(job);
    world.drain(node, 10_000_000_000);
    assert!(look(&mut world).is_empty());
    let due = Drains::of(&world.snapshot(), now(&world));
    assert!(due.poll_timeout().is_some());
    world.wait(Duration::from_secs(10));
    let marks = marked(&look(&mut world));
    assert_eq!(marks.len(), ids.len());
    assert!(marks.iter().all(|(_, mark)| *mark == DrainMark::ForceStop));
}

#[test]
fn a_deadline_is_looked_at_when_it_comes() {
    let (mut world, node, _) = scene(JobType::Batch, 1);
    world.drain(node, 10_000_000_000);
    let mut drains = Drains::of(&world.snapshot(), now(&world));
    assert_eq!(drains.poll_command(&world.snapshot(), now(&world)), None);
    let due = drains.poll_timeout().expect("the deadline");
    let wait = due.checked_sub(now(&world).monotonic).expect("later");
    assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10));
    world.wait(wait);
    let found = drains.poll_command(&world.snapshot(), now(&world));
    assert_eq!(marked(found.as_slice())[0].1, DrainMark::End);
}

#[test]
fn a_drain_is_complete_once_everything_has_left() {
    let (mut world, node, ids) = scene(JobType::Service, 1);
    world.drain(node, 0);
    let commands = look(&mut world);
    carry_out(&mut world, commands);
    stop(&mut world, ids[0]);
    let commands = look(&mut world);
    assert!(matches!(
        commands.as_slice(),
        [Command::NodeDrainComplete { .. }]
    ));
    carry_out(&mut world, commands);
    assert!(look(&mut world).is_empty());
    assert!(!world.snapshot().node(node).expect("known").node.drain);
}

#[test]
fn a_leader_that_is_told_looks_again_and_one_without_drains_never() {
    let (mut world, node, ids) = scene(JobType::Service, 2);
    let mut drains = Drains::of(&world.snapshot(), now(&world));
    assert_eq!(drains.poll_timeout(), None);
    let spec = DrainSpec::default();
    let tell = |drains: &mut Drains, world: &World, signals: &[Signal]| {
        let snapshot = world.snapshot();
        let applied = Applied {
            index: 1,
            signals,
            snapshot: &snapshot,
        };
        drains.on_applied(applied, now(world));
    };
    world.set_drain(node, Some(spec), Eligibility::Ineligible);
    tell(&mut drains, &world, &[Signal::NodeChanged(node)]);
    let found = drains.poll_command(&world.snapshot(), now(&world));
    assert_eq!(marked(found.as_slice()).len(), 1);
    world.expect(found.expect("one"));
    // The state did not change: nothing is found again.
    world.wait(LOOK_EVERY);
    assert_eq!(drains.poll_command(&world.snapshot(), now(&world)), None);
    assert_eq!(drains.poll_timeout(), None);
    let reported = world.report(ids[1], ClientStatus::Complete);
    tell(&mut drains, &world, &reported.signals);
    assert!(drains.poll_timeout().is_some());
    world.set_drain(node, None, Eligibility::Eligible);
    tell(&mut drains, &world, &[Signal::NodeChanged(node)]);
    assert_eq!(drains.poll_timeout(), None);
}

#[test]
fn marks_of_many_allocations_take_several_entries() {
    let mut world = World::new();
    let mut node = nodes::node(1);
    node.node_resources.cpu.cpu_shares = 1_000_000;
    node.node_resources.memory.memory_mb = 1_000_000;
    node.node_resources.disk.disk_mb = 10_000_000;
    let node = world.add_node(node);
    let count = u32::try_from(MARKS_MAX).expect("few") + 1;
    let job = jobs::job(JobType::Batch, "web", count);
    world.register(job.clone());
    let snapshot = world.snapshot();
    let placed = (0..count).map(|number| {
        let mut alloc = allocs::allocation(&snapshot, &job.key(), node);
        alloc.id = AllocId::from_u128(u128::from(number) + 1);
        Arc::new(alloc)
    });
    world.expect(Command::PlanApply(Box::new(PlanApply {
        placed: placed.collect(),
        ..PlanApply::default()
    })));
    world.drain(node, -1);
    let commands = look(&mut world);
    assert_eq!(marked(&commands).len(), MARKS_MAX);
    carry_out(&mut world, commands);
    assert_eq!(marked(&look(&mut world)).len(), 1);
}

#[test]
fn a_drain_marks_no_alloc_of_a_silent_node() {
    let (mut world, node, _) = scene(JobType::Service, 1);
    world.drain(node, -1);
    world.silence(node);
    assert!(look(&mut world).is_empty());
}

/// In the place of one of three there is a healthy one on node 2.
fn move_to_second(world: &mut World, old: AllocId) -> AllocId {
    stop(world, old);
    let job = jobs::job(JobType::Service, "web", 3).key();
    let alloc = allocs::allocation(&world.snapshot(), &job, nodes::node(2).id);
    let id = alloc.id;
    world.expect(Command::PlanApply(Box::new(PlanApply {
        placed: vec![Arc::new(alloc)],
        ..PlanApply::default()
    })));
    world.report_health(id, true);
    id
}

#[test]
fn allocs_stopped_at_a_deadline_take_the_turns_of_others() {
    let (mut world, node, ids) = scene(JobType::Service, 3);
    let forced = move_to_second(&mut world, ids[2]);
    world.drain(node, 0);
    world.drain(nodes::node(2).id, -1);
    let commands = look(&mut world);
    carry_out(&mut world, commands);
    let snapshot = world.snapshot();
    let asked = snapshot
        .allocs()
        .filter(|it| it.desired_transition.should_migrate());
    let asked: Vec<AllocId> = asked.map(|alloc| alloc.id).collect();
    assert_eq!(asked, [forced]);
}

#[test]
fn healthy_allocs_of_a_silent_node_count_when_it_is_back() {
    let (mut world, node, ids) = scene(JobType::Service, 3);
    move_to_second(&mut world, ids[2]);
    let other = nodes::node(2);
    world.silence(other.id);
    world.drain(node, 0);
    assert_eq!(marked(&look(&mut world)), []);
    let mut drains = Drains::of(&world.snapshot(), now(&world));
    assert_eq!(drains.poll_command(&world.snapshot(), now(&world)), None);
    let epoch = world.greet(other.clone());
    world.sync(other.id, epoch);
    world.wait(LOOK_EVERY);
    let snapshot = world.snapshot();
    let signals = [Signal::NodeStatusChanged {
        node: other.id,
        epoch,
        from: NodeStatus::Initializing,
        to: NodeStatus::Ready,
    }];
    let applied = Applied {
        index: 1,
        signals: &signals,
        snapshot: &snapshot,
    };
    drains.on_applied(applied, now(&world));
    let found = drains.poll_command(&snapshot, now(&world));
    assert_eq!(marked(found.as_slice()).len(), 1);
}
