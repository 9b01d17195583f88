//! What an operator, by name, has destroyed.

use protocol_model::{AllocId, ClientStatus, JobType};

use super::fake_host::FakeHost;
use crate::NotCollected;
use crate::event::ExitStatus;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

#[test]
fn one_allocation_is_collected_once_its_end_is_recorded_and_no_other() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut job = job_with_tasks("once", vec![task("main")]);
        job.job_type = JobType::Batch;
        ids.push(host.submit(job));
        host.run_for(100);
    }
    let [one, other] = ids[..] else {
        unreachable!("two were submitted")
    };
    let collect = |host: &mut FakeHost, alloc| host.core.collect_alloc(alloc, at(host.now));
    assert_eq!(collect(&mut host, one), Err(NotCollected::NotEnded(one)));

    // Only the node knows of the ends.
    host.disconnect();
    host.online = false;
    for id in [one, other] {
        let run = host.live_runs().into_iter().find(|run| run.alloc == id);
        host.exit(&run.expect("it runs"), ExitStatus::Code(0));
    }
    host.run_for(2_000);
    assert_eq!(collect(&mut host, one), Err(NotCollected::NotRecorded(one)));
    assert!(host.core.alloc(one).is_some());

    host.online = true;
    host.run_for(60_000);
    assert_eq!(host.recorded(2), Some(ClientStatus::Complete));
    assert_eq!(collect(&mut host, one), Ok(()));
    assert_eq!(collect(&mut host, one), Ok(()), "it is being destroyed");
    host.deliver();
    assert_eq!(collect(&mut host, one), Err(NotCollected::Unknown(one)));
    assert!(host.core.alloc(other).is_some());
    let running = AllocId::from_u128(1);
    assert_eq!(
        collect(&mut host, running),
        Err(NotCollected::NotEnded(running))
    );
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn a_new_daemon_that_is_cut_off_knows_which_ends_are_recorded() {
    let mut host = FakeHost::new();
    let mut job = job_with_tasks("once", vec![task("main")]);
    job.job_type = JobType::Batch;
    let id = host.submit(job);
    host.run_for(3_000);
    host.exit(&host.live_run("main"), ExitStatus::Code(0));
    host.run_for(3_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    host.online = false;
    for boot in [Boot::Same, Boot::Another] {
        host.restart_daemon(boot);
        host.run_for(3_000);
    }
    assert_eq!(host.core.collect_alloc(id, at(host.now)), Ok(()));
    host.deliver();
    assert!(host.core.alloc(id).is_none());
}
