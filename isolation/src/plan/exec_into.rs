//! One more process inside a running task: `alloc exec`.

use super::{PidNamespace, Plan, PlanError, process};
use crate::spec::{FirstProcess, Namespace, Network, Root, SandboxSpec, Terminal};
use crate::step::{NamespaceSource, Slot, Step};

/// The program to run beside the task's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecInto {
    /// Program, found as the task's own is.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Whether descriptor 0 is a terminal.
    pub terminal: Terminal,
}

/// Plans a process that joins the namespaces of a running task and has the same user, powers,
/// environment and limits. `spec` is what the task was started with. A task in namespaces of its
/// own needs its pidfd in [`Slot::Target`]; the cgroup given to `spawn` is the task's.
///
/// # Errors
/// As [`super::plan`].
pub fn plan_exec_into(spec: &SandboxSpec, request: &ExecInto) -> Result<Plan, PlanError> {
    super::check_namespaces(spec)?;
    let ExecInto {
        command,
        args,
        terminal,
    } = request.clone();
    let spec = &SandboxSpec {
        command,
        args,
        terminal,
        ..spec.clone()
    };
    let has = |kind| spec.namespaces.contains(&kind);

    let mut kinds: Vec<Namespace> = spec
        .namespaces
        .iter()
        .copied()
        .filter(|kind| *kind != Namespace::Pid)
        .collect();
    if spec.network != Network::Host {
        kinds.push(Namespace::Network);
    }
    let mut steps = process::inherited(spec)?;
    let joins = has(Namespace::Pid) || !kinds.is_empty();
    if !kinds.is_empty() {
        // Joining the mount namespace also moves `/` to the task's root.
        let from = NamespaceSource::Slot(Slot::Target);
        steps.push(Step::JoinNamespaces { kinds, from });
    }
    steps.extend(process::powers(spec, FirstProcess::Program)?);
    debug_assert!(
        !matches!(spec.root, Root::ReadOnlyHostView { .. }) || has(Namespace::Mount),
        "checked with the namespaces"
    );

    let mut slots = vec![Slot::Input, Slot::Output, Slot::Error];
    slots.extend(joins.then_some(Slot::Target));
    Ok(Plan {
        version: super::version_of(&steps),
        namespaces: Vec::new(),
        pid_namespace: if has(Namespace::Pid) {
            PidNamespace::Target
        } else {
            PidNamespace::Keeper
        },
        slots,
        steps,
        exec: process::exec(spec)?,
    })
}
