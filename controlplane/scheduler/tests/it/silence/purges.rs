//! Nodes that an operator purges: nobody knows them any more, and what they run may run on.

use std::time::Duration;

use controlplane_state::Command;
use hack_testkit::{jobs, nodes};
use protocol_model::{
    Allocation, ClientStatus, DesiredStatus, DisconnectStrategy, EvalTrigger, JobType,
};

use super::leases::{self, GIVEN_UP, WAITED_FOR, count, follower, leased, pass};
use super::{begin_drain, running, silence_first, status, tolerant};
use crate::scene::{Scene, key};

fn purge(scene: &mut Scene, alloc: &Allocation) {
    let node = alloc.node_id;
    scene.world.expect(Command::NodePurge { node });
    scene.settle(&key("web"));
}

#[test]
fn one_on_a_lease_is_replaced_when_nothing_of_it_can_run_any_more_without_anybody_asking() {
    for said in [ClientStatus::Running, ClientStatus::Pending] {
        let (mut scene, alloc) = leases::scene(said);
        purge(&mut scene, &alloc);
        assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{said:?}");
        let due = scene.world.pending(&key("web")).expect("the lease's end");
        assert_eq!(due.triggered_by, EvalTrigger::MaxDisconnectTimeout);
        // A minute, the kill timeout, and five percent of both.
        pass(&mut scene, 84);
        assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{said:?}");
        assert_eq!(count(&scene), 1, "{said:?}");
        pass(&mut scene, 6);
        assert_eq!(status(&scene, alloc.id), GIVEN_UP, "{said:?}");
        assert!(follower(&scene, &alloc).is_some(), "{said:?}");
    }
}

#[test]
fn a_lease_counts_from_the_silence_that_came_before_the_purge() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    purge(&mut scene, &alloc);
    pass(&mut scene, 33);
    assert_eq!(status(&scene, alloc.id), WAITED_FOR);
    pass(&mut scene, 7);
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn a_lease_that_was_extended_by_a_knock_counts_from_the_purge() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
    scene.world.greet(nodes::node(number.expect("ours")));
    pass(&mut scene, 100);
    purge(&mut scene, &alloc);
    pass(&mut scene, 84);
    assert_eq!(status(&scene, alloc.id), WAITED_FOR);
    pass(&mut scene, 6);
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn one_that_was_told_to_stop_is_followed_when_its_lease_is_over() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    begin_drain(&mut scene, alloc.node_id);
    scene.settle(&key("web"));
    purge(&mut scene, &alloc);
    scene.collect();
    pass(&mut scene, 84);
    scene.collect();
    assert_eq!(count(&scene), 1, "nobody runs beside it");
    pass(&mut scene, 6);
    assert!(follower(&scene, &alloc).is_some());
    scene.collect();
    assert_eq!(count(&scene), 1, "its record is of no use any more");
}

#[test]
fn one_whose_job_is_stopped_and_started_again_is_waited_for() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    purge(&mut scene, &alloc);
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    scene.world.register(leased());
    scene.settle(&key("web"));
    pass(&mut scene, 84);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 6);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn one_whose_node_registers_again_within_its_lease_stays() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    purge(&mut scene, &alloc);
    pass(&mut scene, 50);
    super::come_back(&mut scene, &alloc);
    scene.settle(&key("web"));
    pass(&mut scene, 100);
    let stays = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, alloc.id), stays);
    assert_eq!(count(&scene), 1);
}

#[test]
fn who_is_waited_for_as_long_as_it_takes_is_given_up_with_its_node() {
    let never_replaced = |stop_on_client_after| DisconnectStrategy {
        replace: Some(false),
        stop_on_client_after,
        ..DisconnectStrategy::default()
    };
    for (lease, early) in [(None, GIVEN_UP), (Some(60), WAITED_FOR)] {
        for is_silent in [false, true] {
            let mut scene = Scene::new(3);
            let mut job = jobs::draft(JobType::Service, "web", 1);
            job.task_groups[0].disconnect = Some(never_replaced(lease.map(Duration::from_secs)));
            job.canonicalize();
            running(&mut scene, job);
            let alloc = scene.live(&key("web")).into_values().next().expect("one");
            if is_silent {
                silence_first(&mut scene);
                assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{lease:?}");
            }
            purge(&mut scene, &alloc);
            pass(&mut scene, 60);
            assert_eq!(status(&scene, alloc.id), early, "{lease:?} {is_silent}");
            // The lease, the default kill timeout, five percent of both, and the purge.
            pass(&mut scene, 20);
            assert_eq!(status(&scene, alloc.id), GIVEN_UP, "{lease:?} {is_silent}");
            assert!(follower(&scene, &alloc).is_some(), "{lease:?} {is_silent}");
        }
    }
}

#[test]
fn who_was_tolerated_for_a_window_is_given_up_with_its_node() {
    for replace in [true, false] {
        let mut scene = Scene::new(3);
        let mut job = tolerant(JobType::Service, "web", 1);
        job.task_groups[0].disconnect.as_mut().expect("set").replace = Some(replace);
        running(&mut scene, job);
        let silent = silence_first(&mut scene);
        assert_eq!(status(&scene, silent.id), WAITED_FOR);
        purge(&mut scene, &silent);
        assert_eq!(status(&scene, silent.id), GIVEN_UP);
        assert_eq!(scene.live_count(&key("web")), 1);
    }
}
