//! Steps about the process itself: what it would inherit, what it may do, what it becomes.

use super::{PlanError, c_string, forbids_new_privileges};
use crate::capability::CapabilitySet;
use crate::plan::Exec;
use crate::seccomp::SeccompProfile;
use crate::spec::{Capabilities, FirstProcess, Identity, Root, SandboxSpec, Terminal};
use crate::step::Step;

/// Where programs are looked for when the environment names no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// First descriptor that a task must not inherit.
const FIRST_PRIVATE_DESCRIPTOR: u32 = 3;

/// What a child would inherit from the keeper, set instead; done while it is still the host's
/// root and sees the host's /proc.
pub(super) fn inherited(spec: &SandboxSpec) -> Result<Vec<Step>, PlanError> {
    let range = |subject, value: i64, min, max| {
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(PlanError::OutOfRange {
                subject,
                value,
                min,
                max,
            })
        }
    };
    range("oom_score_adj", i64::from(spec.oom_score_adj), -1000, 1000)?;
    range("nice", i64::from(spec.nice), -20, 19)?;
    range("umask", i64::from(spec.umask), 0, 0o777)?;

    let mut steps = vec![
        Step::NotDumpable,
        Step::ResetSignalActions,
        Step::NewSession,
        Step::NewSessionKeyring,
        Step::NormalScheduler,
        Step::Nice(spec.nice),
        Step::OomScoreAdjust(spec.oom_score_adj),
        Step::StandardStreams,
    ];
    if !spec.processors.is_empty() {
        steps.push(Step::Processors(spec.processors.clone()));
    }
    if spec.terminal == Terminal::StandardInput {
        steps.push(Step::ControllingTerminal);
    }
    steps.extend(
        spec.resource_limits
            .iter()
            .map(|limit| Step::ResourceLimit {
                resource: limit.resource,
                soft: limit.soft,
                hard: limit.hard,
            }),
    );
    // The modes of what is made below are exact; the task's own mask comes last.
    steps.push(Step::Umask(0));
    Ok(steps)
}

/// What remains of root, in the only order that works: the bounding set needs CAP_SETPCAP, the
/// identity needs CAP_SETUID, and a filter needs either root or no new privileges. Without the
/// latter the filter goes first, while there still is root; it lets the other steps pass.
pub(super) fn powers(spec: &SandboxSpec, first: FirstProcess) -> Result<Vec<Step>, PlanError> {
    let mut steps = Vec::new();
    let filters = match spec.seccomp {
        SeccompProfile::None => None,
        profile @ SeccompProfile::Default => Some(Step::Seccomp(profile.compile()?)),
    };
    let (early_filters, late_filters) = if forbids_new_privileges(spec) {
        (None, filters)
    } else {
        (filters, None)
    };

    steps.extend(early_filters);
    if let Capabilities::Only(keep) = spec.capabilities {
        steps.push(Step::BoundingSet(keep));
    }
    if let Identity::User { uid, gid, groups } = &spec.identity {
        steps.push(Step::SwitchIdentity {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        });
    }
    if let Capabilities::Only(keep) = spec.capabilities {
        steps.push(Step::Capabilities(held(&spec.identity, keep)));
    }
    // After the identity: a directory that the task's user may not enter is the job's error.
    steps.push(Step::WorkingDirectory(super::root::absolute(
        "working directory",
        &spec.working_directory,
    )?));
    if forbids_new_privileges(spec) {
        steps.push(Step::NoNewPrivileges);
    }
    steps.extend(late_filters);
    steps.extend([
        Step::CloseOnExecFrom(FIRST_PRIVATE_DESCRIPTOR),
        Step::Umask(spec.umask),
    ]);
    // While all signals are blocked: the reaper never unblocks them, it waits for them.
    if first == FirstProcess::Reaper {
        steps.push(Step::Reaper);
    }
    steps.push(Step::EmptySignalMask);
    Ok(steps)
}

/// What the program has from the start. An ordinary user has nothing: CAP_DAC_OVERRIDE alone, which
/// is in the default set, would open every file of the host that the task's root shows.
fn held(identity: &Identity, keep: CapabilitySet) -> CapabilitySet {
    match identity {
        Identity::Keeper | Identity::User { uid: 0, .. } => keep,
        Identity::User { .. } => CapabilitySet::EMPTY,
    }
}

/// The program, its arguments and its environment.
pub(super) fn exec(spec: &SandboxSpec) -> Result<Exec, PlanError> {
    if spec.command.is_empty() {
        return Err(PlanError::EmptyCommand);
    }
    let candidates = candidates(spec)
        .iter()
        .map(|path| c_string("command", path.as_bytes()))
        .collect::<Result<_, _>>()?;
    let argv = std::iter::once(&spec.command)
        .chain(&spec.args)
        .map(|argument| c_string("argument", argument.as_bytes()))
        .collect::<Result<_, _>>()?;
    let env = spec
        .env
        .iter()
        .map(|(name, value)| {
            if name.is_empty() || name.contains('=') {
                return Err(PlanError::VariableName { name: name.clone() });
            }
            c_string(
                &format!("environment variable {name}"),
                format!("{name}={value}").as_bytes(),
            )
        })
        .collect::<Result<_, _>>()?;
    Ok(Exec {
        candidates,
        argv,
        env,
    })
}

/// Where a program may be: as it is when it is a path, else the task's `local`, the task's
/// directory, then `PATH`: the order of Nomad's exec drivers.
fn candidates(spec: &SandboxSpec) -> Vec<String> {
    if spec.command.contains('/') {
        return vec![spec.command.clone()];
    }
    let task = match &spec.root {
        Root::Host { layout } => layout.task.to_string_lossy().into_owned(),
        Root::ReadOnlyHostView { .. } => String::new(),
    };
    let path = spec.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let own = [format!("{task}/local"), task];
    own.iter()
        .map(String::as_str)
        .chain(
            path.split(':')
                .filter(|directory| directory.starts_with('/')),
        )
        .map(|directory| format!("{}/{}", directory.trim_end_matches('/'), spec.command))
        .collect()
}
