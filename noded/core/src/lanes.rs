//! The order of the effects of allocations: those of one lane one after the other, those of
//! different lanes side by side.
//!
//! ```text
//!   enqueue --> lane idle: begin          lane busy: it waits
//!   done    --> begin what waits, else the lane is idle
//!   CancelPrepare --> the preparation is under way: interrupt it; it waits: it never begins
//!   StopTask, KillTask --> templates are being rendered: interrupt that, and stop then
//!   DestroyAlloc  --> begins when no lane of the allocation's tasks has anything left
//! ```

use std::collections::{BTreeMap, VecDeque};

use protocol_model::AllocId;

use crate::effect::{Effect, Lane};
use crate::key::RunKey;

/// The next thing that a shell does.
#[derive(Clone, PartialEq, Debug)]
pub enum LaneStep {
    /// Begin the effect, and call [`Lanes::done`] with its lane after its answers.
    Begin(Effect),
    /// Interrupt the preparation or the rendering that is under way for the run; it still answers,
    /// and ends its lane's turn.
    Interrupt(RunKey),
    /// The preparation never begins: answer `PrepareFailed` with `Recovery::Cancelled` for it.
    Cancelled(RunKey),
}

/// Lanes with something under way, and what waits in them.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    lanes: BTreeMap<Lane, Queue>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    under_way: Option<Work>,
    waiting: VecDeque<Effect>,
}

/// The effect that is under way in a lane.
#[derive(Clone, Debug)]
enum Work {
    Preparation(RunKey),
    /// Of a run that is alive.
    Rendering(RunKey),
    Other,
}

impl Lanes {
    /// Takes an effect of a [`Lane::Alloc`] or [`Lane::Task`] in.
    pub fn enqueue(&mut self, effect: Effect) -> Option<LaneStep> {
        if let Effect::CancelPrepare { run } = effect {
            return self.cancel(run);
        }
        let lane = effect.lane();
        let queue = self.lanes.entry(lane.clone()).or_default();
        let is_end = matches!(effect, Effect::StopTask { .. } | Effect::KillTask { .. });
        queue.waiting.push_back(effect);
        match &queue.under_way {
            Some(Work::Rendering(run)) if is_end => Some(LaneStep::Interrupt(run.clone())),
            _ => self.begin_next(&lane),
        }
    }

    /// The effect that was under way in a lane is done.
    pub fn done(&mut self, lane: &Lane) -> Vec<LaneStep> {
        let Some(queue) = self.lanes.get_mut(lane) else {
            return Vec::new();
        };
        queue.under_way = None;
        let mut steps: Vec<LaneStep> = self.begin_next(lane).into_iter().collect();
        if let Lane::Task { alloc, .. } = lane {
            // Its removal may have waited for this lane.
            steps.extend(self.begin_next(&Lane::Alloc(*alloc)));
        }
        steps
    }

    fn begin_next(&mut self, lane: &Lane) -> Option<LaneStep> {
        let queue = self.lanes.get(lane)?;
        if queue.under_way.is_some() {
            return None;
        }
        match queue.waiting.front() {
            None => {
                self.lanes.remove(lane);
                return None;
            }
            Some(Effect::DestroyAlloc { alloc }) if self.has_tasks_at_work(*alloc) => return None,
            Some(_) => {}
        }
        let queue = self.lanes.get_mut(lane)?;
        let effect = queue.waiting.pop_front()?;
        queue.under_way = Some(match &effect {
            Effect::PrepareTask(prepare) => Work::Preparation(prepare.run.clone()),
            Effect::FollowTemplates(work) | Effect::RenderTemplates(work) => {
                Work::Rendering(work.run.clone())
            }
            _ => Work::Other,
        });
        Some(LaneStep::Begin(effect))
    }

    /// Lanes of an allocation's tasks are removed when they are idle.
    fn has_tasks_at_work(&self, of: AllocId) -> bool {
        let first = Lane::Task {
            alloc: of,
            task: String::new(),
        };
        let next = self.lanes.range(first..).next();
        matches!(next, Some((Lane::Task { alloc, .. }, _)) if *alloc == of)
    }

    fn cancel(&mut self, run: RunKey) -> Option<LaneStep> {
        let queue = self.lanes.get_mut(&Lane::of_task(&run))?;
        if matches!(&queue.under_way, Some(Work::Preparation(under_way)) if *under_way == run) {
            return Some(LaneStep::Interrupt(run));
        }
        let waits = |effect: &Effect| match effect {
            Effect::PrepareTask(prepare) => prepare.run == run,
            _ => false,
        };
        let place = queue.waiting.iter().position(waits)?;
        queue.waiting.remove(place);
        Some(LaneStep::Cancelled(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RunEpoch;

    const ALLOC: AllocId = AllocId::from_u128(7);

    fn run(task: &str) -> RunKey {
        RunKey::new(ALLOC, task, RunEpoch(1))
    }

    fn kill(task: &str) -> Effect {
        Effect::KillTask { run: run(task) }
    }

    fn release(task: &str) -> Effect {
        Effect::ReleaseRun { run: run(task) }
    }

    fn prepare(task: &str) -> Effect {
        Effect::PrepareTask(Box::new(crate::test_support::prepare_task(run(task))))
    }

    fn cancel(task: &str) -> Effect {
        Effect::CancelPrepare { run: run(task) }
    }

    fn lane(task: &str) -> Lane {
        Lane::of_task(&run(task))
    }

    #[test]
    fn effects_of_one_task_wait_for_each_other_and_not_for_siblings() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.enqueue(kill("a")), Some(LaneStep::Begin(kill("a"))));
        assert_eq!(lanes.enqueue(release("a")), None);
        assert_eq!(lanes.enqueue(kill("b")), Some(LaneStep::Begin(kill("b"))));
        assert_eq!(lanes.done(&lane("a")), [LaneStep::Begin(release("a"))]);
        assert_eq!(lanes.done(&lane("a")), []);
        assert_eq!(lanes.done(&lane("b")), []);
        assert!(lanes.lanes.is_empty());
    }

    #[test]
    fn a_removal_waits_until_all_tasks_are_done() {
        let destroy = || Effect::DestroyAlloc { alloc: ALLOC };
        let mut lanes = Lanes::default();
        lanes.enqueue(release("a"));
        lanes.enqueue(release("b"));
        assert_eq!(lanes.enqueue(destroy()), None);
        assert_eq!(lanes.done(&lane("a")), []);
        assert_eq!(lanes.done(&lane("b")), [LaneStep::Begin(destroy())]);
        assert_eq!(lanes.done(&Lane::Alloc(ALLOC)), []);
        assert!(lanes.lanes.is_empty());
        // Another allocation's tasks are in nobody's way.
        let other = RunKey::new(AllocId::from_u128(8), "a", RunEpoch(1));
        lanes.enqueue(Effect::KillTask { run: other });
        assert_eq!(lanes.enqueue(destroy()), Some(LaneStep::Begin(destroy())));
    }

    #[test]
    fn a_preparation_is_cancelled_wherever_it_is() {
        let mut lanes = Lanes::default();
        // Nothing is known of it: its answer has come.
        assert_eq!(lanes.enqueue(cancel("a")), None);
        // It is under way.
        lanes.enqueue(prepare("a"));
        assert_eq!(
            lanes.enqueue(cancel("a")),
            Some(LaneStep::Interrupt(run("a")))
        );
        assert_eq!(lanes.done(&lane("a")), []);
        // It waits.
        lanes.enqueue(release("a"));
        lanes.enqueue(prepare("a"));
        assert_eq!(
            lanes.enqueue(cancel("a")),
            Some(LaneStep::Cancelled(run("a")))
        );
        assert_eq!(lanes.done(&lane("a")), []);
        lanes = Lanes::default();
        // Another attempt's cancel does not count.
        lanes.enqueue(prepare("a"));
        let earlier = RunKey::new(ALLOC, "a", RunEpoch(0));
        assert_eq!(lanes.enqueue(Effect::CancelPrepare { run: earlier }), None);
    }

    #[test]
    fn an_end_interrupts_the_rendering_before_it() {
        let render = |task| {
            let work = crate::test_support::prepare_task(run(task));
            Effect::RenderTemplates(Box::new(work))
        };
        let mut lanes = Lanes::default();
        lanes.enqueue(render("a"));
        assert_eq!(lanes.enqueue(release("a")), None);
        let interrupt = LaneStep::Interrupt(run("a"));
        assert_eq!(lanes.enqueue(kill("a")), Some(interrupt));
        assert_eq!(lanes.done(&lane("a")), [LaneStep::Begin(release("a"))]);
        assert_eq!(lanes.done(&lane("a")), [LaneStep::Begin(kill("a"))]);
    }
}
