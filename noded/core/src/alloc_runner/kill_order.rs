//! Why a group ends, and who of it is killed next.
//!
//! Nomad's order: the lead task first, so that it can still talk to the others; then every task
//! that is no sidecar; sidecars last, for they carry the others' logs and traffic. Poststop tasks
//! are not killed: they begin when the others are dead.

use protocol_model::TaskRunState;

use super::Member;
use crate::lifecycle::Role;
use crate::task_runner::KillCause;

/// The reason to end the group that lies in its tasks' own states.
pub(super) fn cause(members: &[Member]) -> Option<KillCause> {
    let dead = |member: &&Member| member.facts.state == TaskRunState::Dead;
    let others = || {
        members
            .iter()
            .filter(|member| member.facts.role != Role::Poststop)
    };
    let mut live = others().filter(|member| !dead(member)).peekable();
    live.peek()?;
    // Whoever is dead here had no wish to end: a lead task's end is named before a failure.
    if others()
        .filter(dead)
        .any(|member| member.is_lead && !member.facts.failed)
    {
        return Some(KillCause::LeadTaskDead);
    }
    if others().filter(dead).any(|member| member.facts.failed) {
        return Some(KillCause::SiblingFailed);
    }
    live.all(|member| member.facts.role.is_sidecar())
        .then_some(KillCause::MainTasksDead)
}

/// The tasks to kill now; the next ones follow when these are dead.
pub(super) fn next_wave(members: &[Member]) -> Vec<String> {
    let live: Vec<&Member> = members
        .iter()
        .filter(|member| member.facts.role != Role::Poststop)
        .filter(|member| member.facts.state != TaskRunState::Dead)
        .collect();
    let names = |chosen: Vec<&&Member>| chosen.iter().map(|member| member.name.clone()).collect();
    let lead: Vec<&&Member> = live.iter().filter(|member| member.is_lead).collect();
    if !lead.is_empty() {
        return names(lead);
    }
    let others: Vec<&&Member> = live
        .iter()
        .filter(|member| !member.facts.role.is_sidecar())
        .collect();
    if !others.is_empty() {
        return names(others);
    }
    names(live.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::{Stay, TaskFacts};

    fn member(name: &str, role: Role, state: TaskRunState) -> Member {
        let facts = TaskFacts {
            role,
            state,
            failed: false,
        };
        Member {
            name: name.to_owned(),
            is_lead: false,
            restarts: 0,
            facts,
        }
    }

    const SIDECAR: Role = Role::Prestart(Stay::Sidecar);

    #[test]
    fn the_lead_task_goes_first_and_sidecars_last() {
        use TaskRunState::{Dead, Running};
        let mut members = vec![
            member("proxy", SIDECAR, Running),
            member("lead", Role::Main, Running),
            member("main", Role::Main, Running),
            member("after", Role::Poststop, TaskRunState::Pending),
        ];
        members[1].is_lead = true;
        assert_eq!(next_wave(&members), ["lead"]);
        members[1].facts.state = Dead;
        assert_eq!(next_wave(&members), ["main"]);
        members[2].facts.state = Dead;
        assert_eq!(next_wave(&members), ["proxy"]);
        members[0].facts.state = Dead;
        assert!(next_wave(&members).is_empty());
    }

    #[test]
    fn the_end_of_the_lead_a_failure_or_only_sidecars_left_end_the_group() {
        use TaskRunState::{Dead, Pending, Running};
        let mut members = vec![
            member("proxy", SIDECAR, Running),
            member("main", Role::Main, Pending),
            member("init", Role::Prestart(Stay::Ephemeral), Dead),
        ];
        assert_eq!(cause(&members), None);
        members[1].facts.state = Dead;
        assert_eq!(cause(&members), Some(KillCause::MainTasksDead));
        members[1].facts.failed = true;
        assert_eq!(cause(&members), Some(KillCause::SiblingFailed));
        members[1].facts.failed = false;
        members[1].is_lead = true;
        assert_eq!(cause(&members), Some(KillCause::LeadTaskDead));
        members[0].facts.state = Dead;
        assert_eq!(cause(&members), None);
    }
}
