//! Everything that may happen to a node, in any order.

use std::time::Duration;

use proptest::prelude::*;
use protocol_model::{AllocId, Job, Task};

use super::crashes::durable;
use super::fake_host::{FakeHost, Luck, Manners};
use crate::alloc_runner::{RestartScope, SignalScope};
use crate::event::ExitStatus;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

#[derive(Clone, Copy, Debug)]
enum Action {
    Wait(u64),
    Step(u8),
    Exit(usize, i32),
    Stop(u128),
    Purge(u128),
    Restart(u128, u8),
    Signal(u128),
    Crash,
    Reboot,
    HostCrash,
    Cut,
    Online(bool),
    Luck(Luck),
    Manners(Manners),
}

fn action() -> impl Strategy<Value = Action> {
    let luck = prop_oneof![
        4 => Just(Luck::Good), 1 => Just(Luck::PrepareFails), 1 => Just(Luck::StartFails)
    ];
    prop_oneof![
        4 => (0..4_000_u64).prop_map(Action::Wait),
        8 => (1..6_u8).prop_map(Action::Step),
        3 => (0..4_usize, 0..2_i32).prop_map(|(offset, code)| Action::Exit(offset, code)),
        1 => (1..5_u128).prop_map(Action::Stop),
        1 => (1..5_u128).prop_map(Action::Purge),
        2 => (1..5_u128, 0..3_u8).prop_map(|(number, scope)| Action::Restart(number, scope)),
        1 => (1..5_u128).prop_map(Action::Signal),
        2 => Just(Action::Crash),
        1 => Just(Action::Reboot),
        1 => Just(Action::HostCrash),
        1 => Just(Action::Cut),
        1 => any::<bool>().prop_map(Action::Online),
        1 => luck.prop_map(Action::Luck),
        1 => prop_oneof![Just(Manners::Ends), Just(Manners::Ignores)].prop_map(Action::Manners),
    ]
}

fn jobs() -> Vec<Job> {
    let hook = |name: &str, hook: &str, sidecar| Task {
        lifecycle: Some(protocol_model::TaskLifecycle {
            hook: hook.to_owned(),
            sidecar,
        }),
        ..durable(name, 2)
    };
    let lead = Task {
        leader: true,
        ..durable("lead", 1)
    };
    let mut batch = job_with_tasks("once", vec![lead, durable("other", 2)]);
    batch.job_type = protocol_model::JobType::Batch;
    let delayed = Task {
        shutdown_delay: Duration::from_secs(1),
        ..durable("main", 2)
    };
    let staged = vec![
        hook("init", "prestart", false),
        hook("proxy", "prestart", true),
        delayed,
        hook("announce", "poststart", false),
        hook("cleanup", "poststop", false),
    ];
    vec![
        batch,
        job_with_tasks("staged", staged),
        job_with_tasks("plain", vec![task("main")]),
    ]
}

fn apply(host: &mut FakeHost, action: Action) {
    let now = at(host.now);
    match action {
        Action::Wait(millis) => host.run_for(millis),
        Action::Step(count) => {
            for _ in 0..count {
                host.step();
            }
        }
        Action::Exit(offset, code) => {
            if let Some(run) = host.live_runs().get(offset) {
                host.exit(run, ExitStatus::Code(code));
            }
        }
        Action::Stop(number) => host.stop(AllocId::from_u128(number)),
        Action::Purge(number) => host.purge(AllocId::from_u128(number)),
        Action::Restart(number, scope) => {
            let scope = match scope {
                0 => RestartScope::Running,
                1 => RestartScope::Task("main".to_owned()),
                _ => RestartScope::All,
            };
            // A refusal is an answer too.
            let _ = host.core.restart(AllocId::from_u128(number), scope, now);
            host.drain();
        }
        Action::Signal(number) => {
            let id = AllocId::from_u128(number);
            let _ = host.core.signal(id, SignalScope::Running, "SIGHUP", now);
            host.drain();
        }
        Action::Crash => host.restart_daemon(Boot::Same),
        Action::Reboot => host.restart_daemon(Boot::Another),
        Action::HostCrash => host.crash(),
        Action::Cut => host.disconnect(),
        Action::Online(online) => {
            if !online {
                host.disconnect();
            }
            host.online = online;
        }
        Action::Luck(luck) => host.luck = luck,
        Action::Manners(manners) => host.manners = manners,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever happens: no task runs twice at once, nothing is asked for what is dead, every stop
    /// ends, everything that is not wanted any more goes, and the control plane knows it. The fake
    /// host checks the first two at every effect.
    #[test]
    fn whatever_happens_stops_end_and_nothing_runs_twice(
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let mut host = FakeHost::new();
        for job in jobs() {
            host.submit(job);
        }
        let plain = job_with_tasks("plain", vec![task("main")]);
        host.submit_after(plain, 4, AllocId::from_u128(3));
        for action in actions {
            apply(&mut host, action);
        }
        // The world becomes kind, and everything is stopped.
        host.online = true;
        host.luck = Luck::Good;
        for number in 1..5 {
            host.stop(AllocId::from_u128(number));
        }
        host.run_for(120_000);
        // Poststop tasks have their say before the end.
        for _ in 0..4 {
            for run in host.live_runs().into_iter().filter(|run| run.task == "cleanup") {
                host.exit(&run, ExitStatus::Code(0));
            }
            host.run_for(10_000);
        }
        prop_assert_eq!(host.live_runs(), Vec::new());
        let wanted: Vec<AllocId> = host.desired.keys().copied().collect();
        for id in wanted {
            let status = host.core.alloc_status(id).map(|it| it.client_status);
            if let Some(status) = status {
                prop_assert!(status.is_terminal(), "{} is {:?}", id, status);
                let recorded = host.recorded.get(&id).map(|report| report.client_status);
                prop_assert_eq!(recorded, Some(status));
            }
            host.purge(id);
        }
        host.run_for(20_000);
        prop_assert_eq!(host.core.allocs().count(), 0);
        prop_assert!(host.runs.is_empty(), "{:?}", host.runs);
        prop_assert_eq!(host.acked_index, host.index);
    }
}
