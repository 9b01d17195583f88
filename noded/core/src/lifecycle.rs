//! The lifecycle coordinator: which tasks of a group may run.
//!
//! ```text
//!            all pending   prestart done,     no main      ephemeral        all but
//!                          sidecars run       pending      poststart dead   poststop dead
//!   init ------------> prestart ------> main ------> poststart ------> wait-alloc ------> poststop
//!    ^                    |               |              |                 |
//!    +--------------------+---------------+--------------+-----------------+
//!                             restart of all tasks
//! ```
//!
//! Stages follow from the tasks' states, permissions from the stage: nothing else is stored. Every
//! stage reaches poststop as soon as all other tasks are dead (Nomad's task coordinator).

use protocol_model::{LifecycleHook, Task, TaskRunState};

/// How long a lifecycle task stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stay {
    /// It does its work and ends.
    Ephemeral,
    /// It lives as long as the main tasks.
    Sidecar,
}

/// A task's place in its group's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Before the main tasks.
    Prestart(Stay),
    /// What the group is for.
    Main,
    /// After the main tasks have started.
    Poststart(Stay),
    /// After everything else has ended.
    Poststop,
}

impl Role {
    /// Every role, in the order of a group's life.
    pub const ALL: [Self; 6] = [
        Self::Prestart(Stay::Ephemeral),
        Self::Prestart(Stay::Sidecar),
        Self::Main,
        Self::Poststart(Stay::Ephemeral),
        Self::Poststart(Stay::Sidecar),
        Self::Poststop,
    ];

    /// The role that a task's `lifecycle` block gives it.
    pub fn of(task: &Task) -> Self {
        let stay = match &task.lifecycle {
            Some(lifecycle) if lifecycle.sidecar => Stay::Sidecar,
            _ => Stay::Ephemeral,
        };
        match task.hook() {
            None => Self::Main,
            Some(LifecycleHook::Prestart) => Self::Prestart(stay),
            Some(LifecycleHook::Poststart) => Self::Poststart(stay),
            Some(LifecycleHook::Poststop) => Self::Poststop,
        }
    }

    /// Whether it only accompanies the main tasks.
    pub fn is_sidecar(self) -> bool {
        matches!(
            self,
            Self::Prestart(Stay::Sidecar) | Self::Poststart(Stay::Sidecar)
        )
    }
}

/// Where a group is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Stage {
    /// Nothing may run: tasks are being brought back to their start.
    #[default]
    Init,
    /// Prestart tasks run.
    Prestart,
    /// Main tasks start.
    Main,
    /// Main tasks run, poststart tasks do their work.
    Poststart,
    /// The group does what it is for.
    WaitAlloc,
    /// Everything else has ended.
    Poststop,
}

/// What the coordinator knows of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskFacts {
    /// Its place.
    pub role: Role,
    /// Its state.
    pub state: TaskRunState,
    /// Whether its end was a failure.
    pub failed: bool,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 6] = [
        Self::Init,
        Self::Prestart,
        Self::Main,
        Self::Poststart,
        Self::WaitAlloc,
        Self::Poststop,
    ];

    /// Whether a task of this role may start now.
    pub fn permits(self, role: Role) -> bool {
        match (self, role) {
            (Self::Init, _) => false,
            (Self::Prestart, Role::Prestart(_)) => true,
            (Self::Prestart, Role::Main | Role::Poststart(_) | Role::Poststop) => false,
            (Self::Main, Role::Prestart(Stay::Sidecar) | Role::Main) => true,
            (Self::Main, Role::Prestart(Stay::Ephemeral) | Role::Poststart(_) | Role::Poststop) => {
                false
            }
            (Self::Poststart, Role::Prestart(Stay::Sidecar) | Role::Main | Role::Poststart(_)) => {
                true
            }
            (Self::Poststart, Role::Prestart(Stay::Ephemeral) | Role::Poststop) => false,
            (
                Self::WaitAlloc,
                Role::Prestart(Stay::Sidecar) | Role::Main | Role::Poststart(Stay::Sidecar),
            ) => true,
            (
                Self::WaitAlloc,
                Role::Prestart(Stay::Ephemeral) | Role::Poststart(Stay::Ephemeral) | Role::Poststop,
            ) => false,
            (Self::Poststop, Role::Poststop) => true,
            (Self::Poststop, Role::Prestart(_) | Role::Main | Role::Poststart(_)) => false,
        }
    }

    /// The stage that the tasks' states lead to from this one.
    #[must_use]
    pub fn advance(self, tasks: &[TaskFacts]) -> Self {
        let mut stage = self;
        // Every pass moves forward, so there are at most as many as stages.
        while let Some(next) = stage.next(tasks) {
            stage = next;
        }
        stage
    }

    fn next(self, tasks: &[TaskFacts]) -> Option<Self> {
        let of = |role: Role| tasks.iter().filter(move |task| task.role == role);
        let dead = |task: &TaskFacts| task.state == TaskRunState::Dead;
        if self == Self::Poststop {
            return None;
        }
        let others_dead = tasks
            .iter()
            .all(|task| task.role == Role::Poststop || dead(task));
        if others_dead {
            return Some(Self::Poststop);
        }
        let over = match self {
            Self::Init => tasks.iter().all(|task| task.state == TaskRunState::Pending),
            Self::Prestart => {
                of(Role::Prestart(Stay::Ephemeral)).all(|task| dead(task) && !task.failed)
                    && of(Role::Prestart(Stay::Sidecar))
                        .all(|task| task.state == TaskRunState::Running)
            }
            Self::Main => of(Role::Main).all(|task| task.state != TaskRunState::Pending),
            Self::Poststart => of(Role::Poststart(Stay::Ephemeral)).all(dead),
            Self::WaitAlloc | Self::Poststop => false,
        };
        over.then_some(match self {
            Self::Init => Self::Prestart,
            Self::Prestart => Self::Main,
            Self::Main => Self::Poststart,
            Self::Poststart | Self::WaitAlloc | Self::Poststop => Self::WaitAlloc,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cell of stage x role; a change here changes when users' tasks start.
    const TABLE: &str = "\
                         Init Prestart Main Poststart WaitAlloc Poststop
prestart ephemeral       .    start    .    .         .         .
prestart sidecar         .    start    start start     start     .
main                     .    .        start start     start     .
poststart ephemeral      .    .        .    start     .         .
poststart sidecar        .    .        .    start     start     .
poststop                 .    .        .    .         .         start
";

    #[test]
    fn permissions_are_this_function_of_the_stage() {
        for (line, role) in TABLE.lines().skip(1).zip(Role::ALL) {
            let cells: Vec<&str> = line[25..].split_whitespace().collect();
            assert_eq!(cells.len(), Stage::ALL.len());
            for (cell, stage) in cells.iter().zip(Stage::ALL) {
                assert_eq!(*cell == "start", stage.permits(role), "{stage:?} {role:?}");
            }
        }
    }

    fn facts(role: Role, state: TaskRunState) -> TaskFacts {
        TaskFacts {
            role,
            state,
            failed: false,
        }
    }

    #[test]
    fn a_group_of_every_role_goes_through_every_stage() {
        use TaskRunState::{Dead, Pending, Running};
        let mut tasks: Vec<TaskFacts> =
            Role::ALL.iter().map(|role| facts(*role, Pending)).collect();
        let set = |tasks: &mut Vec<TaskFacts>, offset: usize, state| {
            tasks[offset].state = state;
        };
        let mut stage = Stage::Init.advance(&tasks);
        assert_eq!(stage, Stage::Prestart);
        set(&mut tasks, 1, Running);
        assert_eq!(stage.advance(&tasks), Stage::Prestart);
        set(&mut tasks, 0, Dead);
        stage = stage.advance(&tasks);
        assert_eq!(stage, Stage::Main);
        set(&mut tasks, 2, Running);
        stage = stage.advance(&tasks);
        assert_eq!(stage, Stage::Poststart);
        set(&mut tasks, 3, Dead);
        stage = stage.advance(&tasks);
        assert_eq!(stage, Stage::WaitAlloc);
        for offset in [1, 2, 4] {
            set(&mut tasks, offset, Dead);
        }
        assert_eq!(stage.advance(&tasks), Stage::Poststop);
    }

    #[test]
    fn a_failed_prestart_task_keeps_the_main_tasks_from_starting() {
        let failed = TaskFacts {
            role: Role::Prestart(Stay::Ephemeral),
            state: TaskRunState::Dead,
            failed: true,
        };
        let tasks = [failed, facts(Role::Main, TaskRunState::Pending)];
        assert_eq!(Stage::Prestart.advance(&tasks), Stage::Prestart);
    }

    #[test]
    fn every_stage_reaches_poststop_once_the_others_are_dead() {
        let tasks = [
            facts(Role::Main, TaskRunState::Dead),
            facts(Role::Poststop, TaskRunState::Pending),
        ];
        for stage in Stage::ALL {
            assert_eq!(stage.advance(&tasks), Stage::Poststop);
        }
    }
}
