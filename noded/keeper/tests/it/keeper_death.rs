//! kill -9 of keeper: tasks go on, and the next keeper takes them over.

use crate::pump::{limits, owner};
use crate::support::{
    Conversation, Scene, exits_when, ignores_term, key, place, request, shell, wait_until,
};
use noded_keeper::io::retire_streams;
use noded_keeper::keeper::is_base_used;
use noded_keeper::protocol::{
    ExitCause, ExitStatus, OsSignal, Refusal, Remains, Request, Response, StopMethod, TaskPhase,
};
use std::path::Path;

/// Somebody else reaps an orphan, at once or when it likes: the status is the true one where the
/// kernel remembers it for holders of a pidfd (Linux 6.15). Before, keeper has to be the faster
/// one.
fn is_told(status: ExitStatus, truth: ExitStatus) -> bool {
    status == truth || (!kernel_remembers() && status == ExitStatus::Unknown)
}

fn kernel_remembers() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next().unwrap_or(0), next().unwrap_or(0)) >= (6, 15)
}

#[test]
fn a_new_keeper_finds_the_running_task_and_tells_its_end() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 4);
    let go = scene.directory.path().join("go");
    let script = exits_when(&go, 9);
    let cgroup = cgroups.task("web");
    let pid = noded.start(request(&key, &cgroup), &shell(&script));
    keeper.kill();
    assert!(cgroups.is_populated("web"), "the task goes on");
    let (_next, mut noded) = scene.serve(&cgroups);
    let phase = noded.list().remove(&key);
    assert!(matches!(phase, Some(TaskPhase::Running { pid: told, .. }) if told == pid));
    let stale = noded.spawn(request(&key, &cgroup), &shell("exit 0"));
    assert_eq!(stale, Response::Refused(Refusal::StaleEpoch { highest: 4 }));
    std::fs::write(&go, "").unwrap();
    let exit = noded.exit(&key);
    assert!(is_told(exit.status, ExitStatus::Code(9)), "{exit:?}");
    assert_eq!(exit.cause, ExitCause::OwnAccord);
}

#[test]
fn an_adopted_task_can_be_signalled_and_killed_with_its_tree() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let script = "sleep 1000 & exec sleep 1000";
    noded.start(request(&key, &cgroups.task("web")), &shell(script));
    wait_until("it is a tree", || cgroups.processes("web") == 2);
    keeper.kill();
    let (_next, mut noded) = scene.serve(&cgroups);
    let signal = OsSignal(libc::SIGTERM);
    assert_eq!(noded.stop(&key, 600_000), StopMethod::Signalled);
    let exit = noded.exit(&key);
    let by_signal = ExitStatus::Signal {
        signal,
        core_dumped: false,
    };
    assert!(is_told(exit.status, by_signal), "{exit:?}");
    assert_eq!(exit.remains, Remains::Killed);
    assert!(!cgroups.is_populated("web"));
}

#[test]
fn a_kill_deadline_outlives_the_keeper_that_was_given_it() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let ready = scene.directory.path().join("ready");
    let script = ignores_term(&ready);
    noded.start(request(&key, &cgroups.task("web")), &shell(&script));
    wait_until("the signal is ignored", || ready.exists());
    assert_eq!(noded.stop(&key, 700), StopMethod::Signalled);
    keeper.kill();
    let (_next, mut noded) = scene.serve(&cgroups);
    let phase = noded.list().remove(&key);
    if matches!(phase, Some(TaskPhase::Running { stopping: true, .. })) {
        assert_eq!(noded.exit(&key).cause, ExitCause::KillDeadline);
    } else {
        // A slow machine: the deadline passed before this client came.
        assert!(
            matches!(phase, Some(TaskPhase::Exited(exit)) if exit.cause == ExitCause::KillDeadline)
        );
    }
}

#[test]
fn outcomes_wait_for_acknowledgement_across_keepers() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let (told, unseen) = (key("a", "told", 1), key("a", "unseen", 1));
    noded.start(request(&told, &cgroups.task("told")), &shell("exit 6"));
    let exit = noded.exit(&told);
    noded.start(
        request(&unseen, &cgroups.task("unseen")),
        &shell("sleep 0.3; exit 1"),
    );
    keeper.kill();
    wait_until("the other task ended while no keeper was there", || {
        !cgroups.is_populated("unseen")
    });
    let (keeper, mut noded) = scene.serve(&cgroups);
    assert_eq!(noded.list().remove(&told), Some(TaskPhase::Exited(exit)));
    // At once, or when whoever reaps orphans here has reaped it.
    let mut end = None;
    wait_until("the other end is known", || {
        end = noded.list().remove(&unseen);
        matches!(end, Some(TaskPhase::Exited(_)))
    });
    // Nobody had a pidfd of it, so that it depends on who was the faster one.
    let known = [ExitStatus::Code(1), ExitStatus::Unknown];
    assert!(
        matches!(end, Some(TaskPhase::Exited(exit)) if known.contains(&exit.status)),
        "{end:?}"
    );
    for key in [told.clone(), unseen] {
        assert_eq!(noded.ask(&Request::Acknowledge { key }), Response::Accepted);
    }
    keeper.kill();
    let _third = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    assert!(
        noded.list().is_empty(),
        "what was acknowledged does not come back"
    );
    let again = noded.spawn(request(&told, "told"), &shell("exit 0"));
    assert_eq!(again, Response::Refused(Refusal::StaleEpoch { highest: 1 }));
}

#[test]
fn a_task_whose_main_process_died_unseen_is_cleared_away() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let script = "setsid sleep 1000 & sleep 0.3";
    let pid = noded.start(request(&key, &cgroups.task("web")), &shell(script));
    keeper.kill();
    wait_until("the main process ended", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
            || std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.contains(") Z "))
    });
    assert!(cgroups.is_populated("web"));
    let (_next, mut noded) = scene.serve(&cgroups);
    wait_until("the rest is gone", || !cgroups.is_populated("web"));
    wait_until("the end is known", || {
        matches!(noded.list().remove(&key), Some(TaskPhase::Exited(_)))
    });
}

/// Kills keeper, spoils the record of its running task, and looks at what the next keeper makes of
/// it.
fn spoil_the_record(spoil: impl FnOnce(&Path)) {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 3);
    let script = "setsid sleep 1000 & exec sleep 1000";
    noded.start(request(&key, &cgroups.task("a/web.3")), &shell(script));
    wait_until("it is a tree", || cgroups.processes("a/web.3") == 2);
    keeper.kill();
    spoil(&scene.paths.records_directory().join("a.web.3"));
    let (_next, mut noded) = scene.serve(&cgroups);
    let mut status = None;
    wait_until("its end is known", || {
        if let Some(TaskPhase::Exited(exit)) = noded.list().remove(&key) {
            status = Some(exit.status);
        }
        status.is_some()
    });
    assert_eq!(status, Some(ExitStatus::Unknown));
    assert!(!cgroups.is_populated("a/web.3"));
    let again = noded.spawn(request(&key, "a/web.3"), &shell("exit 0"));
    assert_eq!(again, Response::Refused(Refusal::StaleEpoch { highest: 3 }));
}

#[test]
fn a_run_whose_record_is_gone_is_killed_and_its_end_reported() {
    spoil_the_record(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn a_run_whose_record_is_cut_is_killed_and_its_end_reported() {
    spoil_the_record(|path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
}

#[test]
fn a_run_whose_record_is_overwritten_is_killed_and_its_end_reported() {
    spoil_the_record(|path| std::fs::write(path, [7; 64]).unwrap());
}

#[test]
fn processes_of_no_run_are_killed_and_known_runs_beside_them_stay() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let (lost, stays) = (key("a", "lost", 1), key("a", "stays", 1));
    for (key, cgroup) in [(&lost, "odd/name"), (&stays, "a/stays.1")] {
        let cgroup = cgroups.task(cgroup);
        noded.start(request(key, &cgroup), &shell("exec sleep 1000"));
    }
    keeper.kill();
    std::fs::remove_file(scene.paths.records_directory().join("a.lost.1")).unwrap();
    let (_next, mut noded) = scene.serve(&cgroups);
    wait_until("the orphan is killed", || !cgroups.is_populated("odd/name"));
    let known: Vec<_> = noded.list().into_keys().collect();
    assert_eq!(known, [stays]);
    assert!(cgroups.is_populated("a/stays.1"));
}

#[test]
fn two_keepers_with_one_cgroup_base_leave_each_others_tasks_alone() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let ours = key("a", "web", 1);
    noded.start(
        request(&ours, &cgroups.task("a/web.1")),
        &shell("exec sleep 1000"),
    );
    let other = Scene::new();
    let (_other_keeper, mut other_noded) = other.serve(&cgroups);
    let theirs = key("b", "web", 1);
    other_noded.start(
        request(&theirs, &cgroups.task("b/web.1")),
        &shell("exec sleep 1000"),
    );
    keeper.kill();
    let (_next, mut noded) = scene.serve(&cgroups);
    for (noded, key) in [(&mut noded, &ours), (&mut other_noded, &theirs)] {
        let phase = noded.list().remove(key);
        assert!(
            matches!(phase, Some(TaskPhase::Running { .. })),
            "{phase:?}"
        );
    }
    assert!(is_base_used(&cgroups.path).unwrap());
}

#[test]
fn an_acknowledged_run_with_processes_is_killed_and_not_told_again() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let cgroup = cgroups.task("a/web.1");
    noded.start(request(&key, &cgroup), &shell("exec sleep 1000"));
    noded.put_down(&key);
    keeper.kill();
    let mut survivor = std::process::Command::new("sleep").arg("1000").spawn();
    let survivor = survivor.as_mut().unwrap();
    let members = cgroups.path.join("a/web.1/cgroup.procs");
    std::fs::write(members, survivor.id().to_string()).unwrap();
    let (_next, mut noded) = scene.serve(&cgroups);
    survivor.wait().unwrap();
    assert!(noded.list().is_empty());
}

#[test]
fn output_written_while_keepers_change_is_complete() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let mut keeper = scene.keeper(&cgroups);
    let pump = scene.pump("auto");
    let mut noded = scene.connect();
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(100, 100_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    let go = scene.directory.path().join("go");
    let script = format!(
        "n=0; while [ ! -e {} ]; do n=$((n+1)); echo $n; done; echo end $n",
        go.display()
    );
    noded.start(spawn, &shell(&script));
    for round in 1..4 {
        wait_until("more output is written", || {
            scene.log("web.stdout").len() > round * 20_000
        });
        keeper.kill();
        keeper = scene.keeper(&cgroups);
        noded = scene.connect();
    }
    std::fs::write(&go, "").unwrap();
    noded.exit(&key);
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    let output = String::from_utf8(scene.log("web.stdout")).unwrap();
    let mut count = 0;
    for (number, line) in (1..).zip(output.lines()) {
        if let Some(told) = line.strip_prefix("end ") {
            assert_eq!(told, count.to_string());
            break;
        }
        assert_eq!(line, number.to_string());
        count = number;
    }
    assert!(output.lines().last().unwrap().starts_with("end "));
    drop(pump);
}
