//! Limits that tasks live on with: a child killed for want of memory, a disk above its size.

use std::collections::BTreeMap;

use noded_core::alloc_runner::AllocRunner;
use noded_core::event::RunEvent;
use noded_core::task_runner::TaskRunner;
use noded_core::{Event, RunKey};
use protocol_model::{AllocId, TaskEventKind};

use super::Running;

const MIB: u64 = 1024 * 1024;

/// Allocations that were measured, and whether the last measurement was above their size.
#[derive(Debug, Default)]
pub(super) struct EphemeralDisks(BTreeMap<AllocId, bool>);

impl EphemeralDisks {
    /// Whether an allocation is above its size and was not before. `was_reported`: its history has
    /// the event, which counts where this noded has not measured it yet.
    fn is_crossed(&mut self, alloc: AllocId, is_above: bool, was_reported: bool) -> bool {
        let was_above = self.0.insert(alloc, is_above).unwrap_or(was_reported);
        is_above && !was_above
    }
}

impl Running {
    /// The kernel killed a process of each of these runs; one whose main process it was ends, and
    /// keeper reports the reason.
    pub(super) fn killed_for_memory(&mut self, runs: Vec<RunKey>) {
        for run in runs {
            let alloc = self.shell.core.alloc(run.alloc);
            let task = alloc.and_then(|alloc| alloc.tasks().get(&run.task));
            if task.is_some_and(|task| task.has_process() && task.run() == run) {
                let message = "OOM: the kernel killed a process of the task".to_owned();
                self.note(run, TaskEventKind::Driver, message);
            }
        }
    }

    /// One event for each ephemeral disk that grew above its size since it was measured last.
    pub(super) fn disks_measured(&mut self, sizes: &[(AllocId, u64)]) {
        let known = |alloc: &AllocId| sizes.iter().any(|(measured, _)| measured == alloc);
        self.ephemeral_disks.0.retain(|alloc, _| known(alloc));
        for (alloc, bytes) in sizes {
            let Some(runner) = self.shell.core.alloc(*alloc) else {
                continue;
            };
            let Some((run, limit)) = living_run(runner).zip(size_asked(runner)) else {
                continue;
            };
            let is_above = *bytes > limit;
            let disks = &mut self.ephemeral_disks;
            if disks.is_crossed(*alloc, is_above, was_reported(runner)) {
                let (used, limit) = (bytes.div_ceil(MIB), limit / MIB);
                tracing::warn!(
                    %alloc, used_mib = used, size_mib = limit,
                    "ephemeral disk above its size"
                );
                let message = format!(
                    "the allocation uses {used} MiB of disk, and its ephemeral_disk has size = \
                     {limit}; nothing is stopped"
                );
                self.note(run, TaskEventKind::DiskExceeded, message);
            }
        }
    }

    fn note(&mut self, run: RunKey, kind: TaskEventKind, message: String) {
        let event = RunEvent::Message { kind, message };
        let now = self.shell.clock.now();
        self.shell.core.on_event(Event::Run { run, event }, now);
    }
}

/// The disk belongs to all tasks: the first that lives tells.
fn living_run(runner: &AllocRunner) -> Option<RunKey> {
    let mut tasks = runner.spec().group().tasks.iter();
    tasks.find_map(|task| {
        let task = runner.tasks().get(&task.name)?;
        task.has_process().then(|| task.run())
    })
}

/// Bytes; `None` where nothing was asked for.
fn size_asked(runner: &AllocRunner) -> Option<u64> {
    let mib = runner.spec().alloc().allocated_resources.shared.disk_mb;
    let mib = u64::try_from(mib).ok().filter(|mib| *mib > 0)?;
    Some(mib.saturating_mul(MIB))
}

fn was_reported(runner: &AllocRunner) -> bool {
    let is_told = |task: &TaskRunner| {
        let events = &task.state().events;
        events
            .iter()
            .any(|it| it.kind == TaskEventKind::DiskExceeded)
    };
    runner.tasks().values().any(is_told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_above_its_size_is_reported_once_per_crossing() {
        let mut disks = EphemeralDisks::default();
        let alloc = AllocId::from_u128(1);
        let passes = [false, true, true, false, true];
        let crossed = passes.map(|is_above| disks.is_crossed(alloc, is_above, false));
        assert_eq!(crossed, [false, true, false, false, true]);
    }

    #[test]
    fn a_restarted_noded_does_not_repeat_what_the_history_has() {
        let alloc = AllocId::from_u128(1);
        let mut restarted = EphemeralDisks::default();
        assert!(!restarted.is_crossed(alloc, true, true));
        assert!(!restarted.is_crossed(alloc, true, true));
        assert!(!restarted.is_crossed(alloc, false, true));
        assert!(restarted.is_crossed(alloc, true, true), "another crossing");
    }
}
