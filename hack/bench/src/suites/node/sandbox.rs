//! The sandbox of a task of driver `exec`, as noded plans it: a root of its own with parts of the
//! host in it, six new namespaces, no capabilities, the default seccomp filter.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use isolation::{Network, Plan, SandboxSpec, TaskLayout, lookup_identity};

use crate::programs::Program;

/// The program inside the task's root.
const PROGRAM: &str = "local/program";

/// One sandbox, used for many starts.
#[derive(Debug)]
pub(super) struct Sandbox {
    spec: SandboxSpec,
}

impl Sandbox {
    /// Makes the directories of a task in `folder`, with the program in it.
    ///
    /// # Errors
    /// A directory cannot be made, or the host has no user nobody.
    pub(super) fn make(folder: &Path, program: Program) -> anyhow::Result<Self> {
        let layout = TaskLayout {
            shared: folder.join("alloc"),
            task: folder.join("task"),
        };
        let below = |name: &str| layout.task.join(name);
        let all = [
            layout.shared.clone(),
            below("local"),
            below("secrets"),
            below("tmp"),
        ];
        for path in all.iter().chain([&layout.task]) {
            std::fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))?;
            std::fs::set_permissions(path, Permissions::from_mode(0o777))?;
        }
        program.write(&below(PROGRAM))?;
        let mut spec = SandboxSpec::exec(layout, lookup_identity("nobody")?, PROGRAM);
        spec.network = Network::Descriptor;
        spec.hostname = Some("bench".to_owned());
        Ok(Self { spec })
    }

    /// The plan of one start. noded makes it for each start, so its time is part of a figure.
    ///
    /// # Errors
    /// The specification is no sandbox.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        Ok(isolation::plan(&self.spec)?)
    }

    /// Host paths that the task sees.
    pub(super) fn host_paths() -> Vec<PathBuf> {
        isolation::default_host_view()
    }
}
