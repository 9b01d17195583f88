//! What keeper starts, and what it refuses to.

use crate::support::{Conversation, key, place, request, shell};
use noded_keeper::client::seal_plan;
use noded_keeper::protocol::{Event, Refusal, Request, Response, StdioSource};
use std::os::fd::AsFd;

#[test]
fn a_program_that_is_not_there_is_a_failed_start_with_the_step_and_the_errno() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let mut spec = shell("");
    spec.command = "/nowhere/program".into();
    assert_eq!(
        noded.spawn(request(&key, &cgroups.task("web")), &spec),
        Response::Accepted
    );
    let Event::SpawnFailed {
        key: failed,
        failure,
    } = noded.event()
    else {
        panic!("the start must fail")
    };
    assert_eq!(failed, key);
    assert_eq!(failure.errno, libc::ENOENT);
    assert!(
        failure.step.contains("/nowhere/program"),
        "{}",
        failure.step
    );
    assert!(failure.step_index.is_some());
}

#[test]
fn run_epochs_fence_late_requests() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let cgroup = cgroups.task("web");
    let fifth = key("a", "web", 5);
    noded.start(request(&fifth, &cgroup), &shell("exec sleep 1000"));
    let other = cgroups.task("other");
    let spec = shell("exit 0");
    for (run_epoch, refusal) in [
        (4, Refusal::StaleEpoch { highest: 5 }),
        (5, Refusal::StaleEpoch { highest: 5 }),
        (6, Refusal::EarlierRunAlive { run_epoch: 5 }),
    ] {
        let answer = noded.spawn(request(&key("a", "web", run_epoch), &other), &spec);
        assert_eq!(answer, Response::Refused(refusal));
    }
    noded.put_down(&fifth);
    let answer = noded.spawn(request(&fifth, &cgroup), &spec);
    assert_eq!(
        answer,
        Response::Refused(Refusal::StaleEpoch { highest: 5 })
    );
    noded.ask(&Request::Forget { alloc: "a".into() });
    noded.start(request(&fifth, &cgroup), &spec);
    noded.exit(&fifth);
}

#[test]
fn requests_that_cannot_be_followed_are_refused_and_change_nothing() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let spec = shell("exit 0");
    let refused = |response| match response {
        Response::Refused(refusal) => refusal,
        other => panic!("must be refused, not {other:?}"),
    };
    let missing = noded.ask(&Request::Spawn(request(&key, "web")));
    assert_eq!(refused(missing), Refusal::MissingDescriptor { position: 0 });
    let no_cgroup = noded.spawn(request(&key, "nowhere"), &spec);
    let path = "nowhere".to_owned();
    assert_eq!(
        refused(no_cgroup),
        Refusal::Cgroup {
            path,
            errno: libc::ENOENT
        }
    );
    let outside = noded.spawn(request(&key, "../"), &spec);
    assert!(matches!(
        refused(outside),
        Refusal::Cgroup {
            errno: libc::EXDEV,
            ..
        }
    ));
    let cgroup = cgroups.task("web");
    let mut no_fifo = request(&key, &cgroup);
    no_fifo.stdout = StdioSource::Fifo {
        name: "../keeper.sock".into(),
    };
    assert!(matches!(
        refused(noded.spawn(no_fifo, &spec)),
        Refusal::Fifo { .. }
    ));
    let unsealed = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let answer = noded.ask_with(&Request::Spawn(request(&key, &cgroup)), &[unsealed.as_fd()]);
    assert!(matches!(refused(answer), Refusal::BadPlan { .. }));
    let mut foreign = isolation::plan(&spec).unwrap();
    foreign.version = isolation::PLAN_VERSIONS.end() + 1;
    let foreign = seal_plan(&foreign).unwrap();
    let answer = noded.ask_with(&Request::Spawn(request(&key, &cgroup)), &[foreign.as_fd()]);
    let Refusal::BadPlan { detail } = refused(answer) else {
        panic!("another refusal");
    };
    assert!(detail.contains("only 1 to 3 are applied"), "{detail}");
    let unknown = noded.ask(&Request::Kill { key: key.clone() });
    assert_eq!(refused(unknown), Refusal::UnknownTask);
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 0 });
    // The refused epoch was not used up.
    noded.start(request(&key, &cgroup), &spec);
    noded.exit(&key);
}
