//! Sockets of tasks in custody: what keeper holds outlives noded, and keeper's upgrade.

use crate::support::{Conversation, PATIENCE, Scene, key, place, request, shell, wait_until};
use crate::upgrade::{another_build, build_of_another_time, open_files, upgrade};
use noded_keeper::client::{Connection, HeldSocket, UpgradeError};
use noded_keeper::protocol::{
    AllocAndTask, HELD_PER_PAGE_MAX, Message, PACKET_BYTES_MAX, Refusal, Request, Response,
};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

fn owner(alloc: &str, task: &str) -> AllocAndTask {
    AllocAndTask::new(alloc, task).unwrap()
}

fn path(scene: &Scene, name: &str) -> PathBuf {
    scene.directory.path().join(name)
}

/// Binds as noded does, has it held, and lets go of it: as a noded that is killed.
fn bind_and_hold(scene: &Scene, noded: &mut Connection, owner: &AllocAndTask) -> PathBuf {
    let path = path(scene, owner.task());
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(hold(noded, owner, &listener), Response::Accepted);
    path
}

fn hold(noded: &mut Connection, owner: &AllocAndTask, listener: &UnixListener) -> Response {
    let owner = owner.clone();
    noded.ask_with(&Request::Hold { owner }, &[listener.as_fd()])
}

fn drop_alloc(noded: &mut Connection, alloc: &str) {
    let alloc = alloc.to_owned();
    assert_eq!(noded.ask(&Request::Drop { alloc }), Response::Accepted);
}

fn owners(held: &[HeldSocket]) -> Vec<&str> {
    held.iter().map(|held| held.owner.task()).collect()
}

fn accept(held: HeldSocket) -> UnixStream {
    let listener = UnixListener::from(held.socket);
    listener.set_nonblocking(false).unwrap();
    listener.accept().unwrap().0
}

#[test]
fn connect_waits_while_noded_is_away_and_the_next_one_serves_it() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let path = bind_and_hold(&scene, &mut noded, &owner("a", "web"));
    drop(noded);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut noded = scene.connect();
    // The next noded is killed after it took them.
    assert_eq!(owners(&noded.take_sockets().unwrap()), ["web"]);
    drop(noded);
    let mut noded = scene.connect();
    let held = noded.take_sockets().unwrap().remove(0);
    assert_eq!(held.owner, owner("a", "web"));
    let mut served = accept(held);
    let mut bytes = [0; 5];
    served.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    UnixStream::connect(&path).expect("it stays held");
}

#[test]
fn sockets_close_with_drop_forget_and_another_for_their_task() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let files = open_files(noded.welcome().keeper_pid);
    let web = bind_and_hold(&scene, &mut noded, &owner("a", "web"));
    let other = bind_and_hold(&scene, &mut noded, &owner("b", "other"));
    let replaced = path(&scene, "replaced");
    std::fs::rename(&web, &replaced).unwrap();
    let web = bind_and_hold(&scene, &mut noded, &owner("a", "web"));
    UnixStream::connect(&replaced).expect_err("closed by its successor");
    UnixStream::connect(&web).unwrap();
    drop_alloc(&mut noded, "a");
    UnixStream::connect(&web).expect_err("closed by Drop");
    UnixStream::connect(&other).unwrap();
    let alloc = "b".to_owned();
    assert_eq!(noded.ask(&Request::Forget { alloc }), Response::Accepted);
    UnixStream::connect(&other).expect_err("closed by Forget");
    drop_alloc(&mut noded, "a");
    assert!(noded.take_sockets().unwrap().is_empty());
    let pid = noded.welcome().keeper_pid;
    wait_until("nothing is left open", || open_files(pid) <= files);
}

#[test]
fn other_files_are_refused_and_the_conversation_goes_on() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let files = open_files(noded.welcome().keeper_pid);
    let file = std::fs::File::open("/dev/null").unwrap();
    let hold = Request::Hold {
        owner: owner("a", "web"),
    };
    let refused = noded.ask_with(&hold, &[file.as_fd()]);
    assert!(
        matches!(refused, Response::Refused(Refusal::Socket { .. })),
        "{refused:?}"
    );
    let missing = Refusal::MissingDescriptor { position: 0 };
    assert_eq!(noded.ask(&hold), Response::Refused(missing));
    assert!(noded.take_sockets().unwrap().is_empty());
    assert_eq!(open_files(noded.welcome().keeper_pid), files);
}

#[test]
fn more_sockets_than_a_packet_carries_come_in_pages() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let listener = UnixListener::bind(path(&scene, "all")).unwrap();
    let all: Vec<String> = (0..HELD_PER_PAGE_MAX + 3)
        .map(|number| format!("{number:0180}"))
        .collect();
    for task in &all {
        let held = hold(&mut noded, &owner("a", task), &listener);
        assert_eq!(held, Response::Accepted);
    }
    let held = noded.take_sockets().unwrap();
    assert_eq!(owners(&held), all);
    drop(held);
    // A client that does not read is never the reason for more than its queue.
    for _ in 0..PACKET_BYTES_MAX / 1024 {
        noded.send(&Request::Take { after: None }, &[]).unwrap();
    }
    let mut pages = 0;
    while pages < PACKET_BYTES_MAX / 1024 {
        match noded.recv_within(PATIENCE).unwrap().expect("a page") {
            Message::Response {
                response: Response::Held { owners, more },
                ..
            } => {
                assert_eq!((owners.len(), more), (HELD_PER_PAGE_MAX, true));
                pages += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn sockets_stay_held_over_upgrades_and_a_refused_one() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let web = key("a", "web", 1);
    noded.start(request(&web, &cgroups.task("web")), &shell("sleep 1000"));
    let path = bind_and_hold(&scene, &mut noded, &owner("a", "web"));
    bind_and_hold(&scene, &mut noded, &owner("b", "other"));
    let files = open_files(noded.welcome().keeper_pid);
    let refused = noded.upgrade(&build_of_another_time(&scene)).unwrap_err();
    assert!(
        matches!(
            refused,
            UpgradeError::Refused(Refusal::UpgradeFailed { .. })
        ),
        "{refused:?}"
    );
    let mut waiting = Vec::new();
    for name in ["first", "second"] {
        waiting.push(UnixStream::connect(&path).unwrap());
        upgrade(&mut noded, &another_build(&scene, name));
        let pid = noded.welcome().keeper_pid;
        wait_until("it holds no more than before", || open_files(pid) <= files);
    }
    let held = noded.take_sockets().unwrap();
    assert_eq!(owners(&held), ["web", "other"]);
    let listener = UnixListener::from(held.into_iter().next().unwrap().socket);
    for _ in &waiting {
        listener.accept().unwrap();
    }
    drop(listener);
    drop_alloc(&mut noded, "a");
    UnixStream::connect(&path).expect_err("the new build closes it");
}

#[test]
fn killed_keeper_held_copies_only_and_noded_has_its_own_held_again() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let path = path(&scene, "web");
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(
        hold(&mut noded, &owner("a", "web"), &listener),
        Response::Accepted
    );
    keeper.kill();
    UnixStream::connect(&path).expect("noded listens as before");
    let (_next, mut noded) = scene.serve(&cgroups);
    assert!(noded.take_sockets().unwrap().is_empty());
    assert_eq!(
        hold(&mut noded, &owner("a", "web"), &listener),
        Response::Accepted
    );
    drop(listener);
    UnixStream::connect(&path).expect("the next keeper holds it");
}
