//! Clients that come, go, take their time, and talk rubbish.

use crate::support::{Conversation, PATIENCE, Scene, key, place, request, shell, wait_until};
use noded_keeper::client::{
    Connection, Launch, LaunchError, Starter, ensure_pump_running, ensure_running,
};
use noded_keeper::protocol::{Message, Refusal, Request, Response, TaskPhase};

#[test]
fn a_client_that_returns_finds_what_it_missed_and_the_newest_client_wins() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut first) = scene.serve(&cgroups);
    let (ended, alive) = (key("a", "ended", 1), key("a", "alive", 9));
    let pid = first.start(
        request(&alive, &cgroups.task("alive")),
        &shell("exec sleep 1000"),
    );
    let spec = shell("exec sleep 0.05; exit 3");
    first.start(request(&ended, &cgroups.task("ended")), &spec);
    drop(first);
    wait_until("the task ended", || !cgroups.is_populated("ended"));
    let mut second = scene.connect();
    let mut third = scene.connect();
    let lost = second.recv_within(PATIENCE);
    assert!(
        matches!(lost, Err(noded_keeper::client::ConnectionError::Closed)),
        "{lost:?}"
    );
    let tasks = third.list();
    assert!(matches!(
        tasks[&alive],
        TaskPhase::Running { pid: told, stopping: false, .. } if told == pid
    ));
    assert!(matches!(tasks[&ended], TaskPhase::Exited(_)));
    assert_eq!(tasks.len(), 2);
    third.ask(&Request::Acknowledge { key: ended });
    assert_eq!(third.list().len(), 1);
}

#[test]
fn a_list_longer_than_a_packet_comes_in_pages() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let cgroup = cgroups.task("all");
    for number in 0..250 {
        let key = key("a", &format!("task{number}"), 1);
        noded.start(request(&key, &cgroup), &shell("exit 0"));
        noded.exit(&key);
    }
    let asked = noded.send(&Request::List, &[]).unwrap();
    let mut pages = Vec::new();
    loop {
        let Some(Message::Response { call, response }) = noded.recv_within(PATIENCE).unwrap()
        else {
            panic!("only pages are expected")
        };
        let Response::Listing { tasks, more } = response else {
            panic!("only pages")
        };
        assert_eq!(call, asked);
        pages.push(tasks.len());
        if !more {
            break;
        }
    }
    assert_eq!(pages, [100, 100, 50]);
}

#[test]
fn rubbish_on_the_socket_ends_that_session_and_nothing_else() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    noded.start(
        request(&key, &cgroups.task("web")),
        &shell("exec sleep 1000"),
    );
    drop(noded);
    // A linear congruential generator: the same rubbish in every run.
    let mut state = 12345_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    for _ in 0..300 {
        let socket = raw_client(&scene);
        for _ in 0..4 {
            let length = random() as usize % 200;
            let mut packet: Vec<u8> = (0..length).map(|_| random().to_le_bytes()[0]).collect();
            if random() % 2 == 0 && !packet.is_empty() {
                packet[0] = 1;
            }
            let _ = rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL);
        }
    }
    let socket = raw_client(&scene);
    let _ = rustix::net::send(&socket, &[1; 100_000], rustix::net::SendFlags::NOSIGNAL);
    let mut noded = scene.connect();
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 1 });
    noded.ask(&Request::Kill { key: key.clone() });
    noded.exit(&key);
}

fn raw_client(scene: &Scene) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let raw = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(scene.paths.socket()).unwrap();
    wait_until("keeper takes connections", || {
        connect(&raw, &address).is_ok()
    });
    raw
}

#[test]
fn a_request_before_the_greeting_is_refused() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let _keeper = scene.keeper(&cgroups);
    let socket = raw_client(&scene);
    use noded_keeper::protocol::{CallId, decode_from_keeper, encode_for_keeper};
    let packet = encode_for_keeper(CallId(4), &Request::Ping).unwrap();
    rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL).unwrap();
    let mut answer = [0; 1000];
    let (length, _) =
        rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap();
    let response = Response::Refused(Refusal::NotGreeted);
    let expected = Message::Response {
        call: CallId(4),
        response,
    };
    assert_eq!(decode_from_keeper(&answer[..length]).unwrap(), expected);
}

#[test]
fn the_client_starts_what_is_missing_and_finds_what_is_there() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let launch = Launch {
        starter: Starter::Client,
        program: env!("CARGO_BIN_EXE_noded-keeper").into(),
        paths: scene.paths.clone(),
        cgroup_base: cgroups.path.clone(),
        supervisor_cgroup: Some(cgroups.path.join("supervisor")),
    };
    let managed = Launch {
        starter: Starter::ServiceManager,
        ..launch.clone()
    };
    let absent = |error| matches!(error, LaunchError::Absent { .. });
    assert!(absent(ensure_running(&managed).unwrap_err()));
    assert!(absent(ensure_pump_running(&managed).unwrap_err()));
    let mut noded = ensure_running(&launch).unwrap();
    let keeper = noded.welcome().keeper_pid;
    assert_eq!(
        ensure_running(&launch).unwrap().welcome().keeper_pid,
        keeper
    );
    noded = ensure_running(&launch).unwrap();
    ensure_pump_running(&launch).unwrap();
    ensure_pump_running(&managed).unwrap();
    let members = std::fs::read_to_string(cgroups.path.join("supervisor/cgroup.procs")).unwrap();
    assert_eq!(
        members.lines().count(),
        2,
        "keeper and one pump: {members:?}"
    );
    assert!(members.lines().any(|pid| pid == keeper.to_string()));
    let stat = std::fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap();
    assert!(stat.contains("(drover-keeper)"));
    let session = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap();
    assert_eq!(
        session,
        keeper.to_string(),
        "keeper leads a session of its own"
    );
    let key = key("a", "web", 1);
    noded.start(
        request(&key, &cgroups.task("web")),
        &shell("exec sleep 1000"),
    );
    let refused = noded.ask(&Request::Shutdown);
    assert_eq!(refused, Response::Refused(Refusal::RunsRemain { runs: 1 }));
    noded.put_down(&key);
    assert_eq!(noded.ask(&Request::Shutdown), Response::Accepted);
    wait_until("keeper ended", || {
        Connection::connect(&scene.paths).is_err()
    });
    assert!(!scene.paths.socket().exists());
}
