//! Restart modes and hooks: how often each task prepares what.

use std::collections::BTreeMap;

use protocol_model::{AllocId, Artifact, Job, Task, TaskLifecycle, Template};

use super::fake_host::FakeHost;
use crate::alloc_runner::RestartScope;
use crate::effect::{Rendering, TaskHook};
use crate::event::ExitStatus;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

const ALLOC: AllocId = AllocId::from_u128(1);
const ONCE: [TaskHook; 2] = [TaskHook::TaskDirectory, TaskHook::Artifacts];
const ALWAYS: [TaskHook; 4] = [
    TaskHook::Validate,
    TaskHook::Logs,
    TaskHook::Api,
    TaskHook::Templates,
];

fn staged(name: &str, lifecycle: Option<(&str, bool)>) -> Task {
    Task {
        lifecycle: lifecycle.map(|(hook, sidecar)| TaskLifecycle {
            hook: hook.to_owned(),
            sidecar,
        }),
        artifacts: vec![Artifact::default()],
        templates: vec![Template::default()],
        ..task(name)
    }
}

fn group() -> Job {
    let tasks = vec![
        staged("init", Some(("prestart", false))),
        staged("proxy", Some(("prestart", true))),
        staged("main", None),
        staged("announce", Some(("poststart", false))),
        staged("cleanup", Some(("poststop", false))),
    ];
    job_with_tasks("web", tasks)
}

/// A host on which all but the poststop task have run, and those that end by themselves have.
fn begun() -> FakeHost {
    let mut host = FakeHost::with_jobs(vec![group()]);
    finish(&mut host, &["init", "announce"]);
    host
}

fn finish(host: &mut FakeHost, tasks: &[&str]) {
    for task in tasks {
        host.exit(&host.live_run(task), ExitStatus::Code(0));
        host.deliver();
    }
}

/// How often each task was prepared since the last call, which is checked to be only what every
/// attempt does.
fn prepared_again(host: &mut FakeHost) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for prepared in std::mem::take(&mut host.prepared) {
        let task = prepared.run.task;
        assert_eq!(prepared.hooks, ALWAYS, "{task}");
        assert!(prepared.artifacts.is_empty(), "{task}");
        // A task that had finished begins anew.
        let expected = match task.as_str() {
            "init" | "announce" => Rendering::Anew,
            _ => Rendering::Kept,
        };
        assert_eq!(prepared.templates[0].rendering, expected, "{task}");
        *counts.entry(task).or_default() += 1;
    }
    counts
}

fn each(tasks: &[&str]) -> BTreeMap<String, usize> {
    tasks.iter().map(|task| ((*task).to_owned(), 1)).collect()
}

#[test]
fn a_first_attempt_runs_every_hook_of_its_task() {
    let mut host = begun();
    host.stop(ALLOC);
    host.deliver();
    let first = std::mem::take(&mut host.prepared);
    let tasks: Vec<&str> = first.iter().map(|it| it.run.task.as_str()).collect();
    assert_eq!(tasks, ["init", "proxy", "main", "announce", "cleanup"]);
    for prepared in &first {
        let all = ONCE.iter().chain(&ALWAYS);
        let lacking: Vec<&TaskHook> = all.filter(|it| !prepared.hooks.contains(it)).collect();
        assert!(lacking.is_empty(), "{}: {lacking:?}", prepared.run);
        assert_eq!(prepared.artifacts.len(), 1, "{}", prepared.run);
    }
}

#[test]
fn every_restart_mode_repeats_only_the_hooks_of_an_attempt() {
    let main = RestartScope::Task("main".to_owned());
    for (scope, ends, again) in [
        (main, vec![], each(&["main"])),
        (RestartScope::Running, vec![], each(&["proxy", "main"])),
        (
            RestartScope::All,
            vec!["init", "announce"],
            each(&["init", "proxy", "main", "announce"]),
        ),
    ] {
        let mut host = begun();
        host.prepared.clear();
        let restarted = host.core.restart(ALLOC, scope.clone(), at(host.now));
        assert_eq!(restarted, Ok(()), "{scope:?}");
        host.deliver();
        finish(&mut host, &ends);
        assert_eq!(prepared_again(&mut host), again, "{scope:?}");
        let networks = host.log.iter().filter(|line| *line == "directory").count();
        assert_eq!(networks, 1, "{scope:?}: what all tasks share stays");
        assert!(!host.log.contains(&"retire".to_owned()), "{scope:?}");
    }
}

#[test]
fn another_daemon_fetches_nothing_again() {
    let mut host = begun();
    host.prepared.clear();
    host.restart_daemon(Boot::Same);
    host.deliver();
    assert_eq!(prepared_again(&mut host), each(&[]), "everything goes on");
    host.core
        .restart(ALLOC, RestartScope::Running, at(host.now))
        .expect("it runs");
    host.deliver();
    let prepared = std::mem::take(&mut host.prepared);
    let tasks: Vec<&str> = prepared.iter().map(|it| it.run.task.as_str()).collect();
    assert_eq!(tasks, ["main", "proxy"]);
    for prepared in prepared {
        assert_eq!(prepared.templates[0].rendering, Rendering::Kept);
        assert!(prepared.artifacts.is_empty(), "{}", prepared.run);
    }
}
