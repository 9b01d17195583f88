//! Output of real tasks, through keeper's hands and pump's.

use crate::pump::{limits, owner};
use crate::support::{Conversation, key, place, request, shell};
use noded_keeper::io::retire_streams;
use noded_keeper::protocol::{ExitStatus, Request};

#[test]
fn output_goes_through_fifos_to_log_files() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let _keeper = scene.keeper(&cgroups);
    let _pump = scene.pump("auto");
    let mut noded = scene.connect();
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(10, 1_000_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    noded.start(spawn, &shell("seq 1 20000; echo warning >&2"));
    assert_eq!(noded.exit(&key).status, ExitStatus::Code(0));
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    noded.ask(&Request::Acknowledge { key });
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    assert!(scene.log("web.stdout") == expected.as_bytes());
    assert_eq!(scene.log("web.stderr"), b"warning\n");
}

#[test]
fn output_of_an_acknowledged_task_waits_for_a_pump() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(10, 1_000_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    noded.start(spawn, &shell("echo last words"));
    noded.exit(&key);
    noded.ask(&Request::Acknowledge { key });
    let _pump = scene.pump("auto");
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    assert_eq!(scene.log("web.stdout"), b"last words\n");
}
