//! How imitated tasks end: by themselves, asked, killed, with their lease, with their host.

use std::time::Duration;

use noded_core::RunEpoch;
use protocol_model::UnixNanos;
use tokio::time::{Instant, sleep};

use super::*;

/// The runtime's time, which stands still until everybody waits.
#[derive(Debug)]
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn moment(&self) -> Moment {
        Moment(self.0.elapsed())
    }

    fn wall(&self) -> UnixNanos {
        UnixNanos(0)
    }
}

const AT_ONCE: Script = Script {
    start_after: Duration::ZERO,
    run_for: None,
    exit_code: 0,
    stop_after: Duration::from_secs(10),
};

struct Host {
    tasks: Arc<Tasks>,
    told: mpsc::Receiver<Input>,
    begun: Instant,
}

impl Host {
    fn with(run: &RunKey, script: Script) -> Self {
        let begun = Instant::now();
        let (inputs, told) = mpsc::channel(16);
        let clock = Arc::new(PausedClock(begun));
        let tasks = Arc::new(Tasks::new(inputs, Arc::default(), clock));
        tasks.start(run.clone(), script);
        Self { tasks, told, begun }
    }

    /// How the run ended, and how many milliseconds after it was asked for.
    async fn end(&mut self) -> (Exit, u128) {
        while let Some(input) = self.told.recv().await {
            if let Input::Event(Event::Run {
                event: RunEvent::Exited(exit),
                ..
            }) = input
            {
                return (exit, self.begun.elapsed().as_millis());
            }
        }
        panic!("nobody tells anything any more");
    }
}

fn a_run() -> RunKey {
    RunKey::new(AllocId::from_u128(7), "web", RunEpoch(1))
}

fn lease_of(run: &RunKey, seconds: u64) -> Vec<(AllocId, Moment)> {
    vec![(run.alloc, Moment(Duration::from_secs(seconds)))]
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_asked_to_end_does_so_in_its_own_time() {
    let run = a_run();
    let mut host = Host::with(&run, AT_ONCE);
    sleep(Duration::from_secs(1)).await;
    assert!(host.tasks.stop(run).is_empty());
    let (exit, at) = host.end().await;
    assert_eq!((exit.status, at), (ExitStatus::Code(0), 11_000));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_lease_ends_while_it_is_being_stopped_is_killed_then() {
    let run = a_run();
    let mut host = Host::with(&run, AT_ONCE);
    host.tasks.tend_leases(lease_of(&run, 3), &[]);
    sleep(Duration::from_secs(1)).await;
    assert!(host.tasks.stop(run).is_empty());
    let (exit, at) = host.end().await;
    assert!(exit.lease_expired);
    assert_eq!((exit.status, at), (ExitStatus::Signal(9), 3_000));
    assert_eq!(host.tasks.counts.expired(), BTreeSet::from([a_run().alloc]));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_killed_while_it_is_being_stopped_ends_at_once() {
    let run = a_run();
    let mut host = Host::with(&run, AT_ONCE);
    sleep(Duration::from_secs(1)).await;
    assert!(host.tasks.stop(run.clone()).is_empty());
    sleep(Duration::from_secs(1)).await;
    assert!(host.tasks.kill(run).is_empty());
    let (exit, at) = host.end().await;
    assert_eq!((exit.status, at), (ExitStatus::Signal(9), 2_000));
    assert!(!exit.lease_expired);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_host_without_power_ends_or_is_told() {
    let run = a_run();
    let script = Script {
        run_for: Some(Duration::from_secs(2)),
        ..AT_ONCE
    };
    let mut host = Host::with(&run, script);
    host.tasks.tend_leases(lease_of(&run, 3), &[]);
    sleep(Duration::from_secs(1)).await;
    let started = host.told.try_recv();
    assert!(matches!(
        started,
        Ok(Input::Event(Event::Run {
            event: RunEvent::Started { .. },
            ..
        }))
    ));
    host.tasks.lose_power();
    sleep(Duration::from_secs(10)).await;
    assert!(matches!(
        host.told.try_recv(),
        Err(mpsc::error::TryRecvError::Empty)
    ));
    let counts = &host.tasks.counts;
    assert_eq!(counts.ends.load(Ordering::Relaxed), 0);
    assert!(counts.expired().is_empty());
    assert_eq!(Arc::strong_count(&host.tasks), 1);
}
