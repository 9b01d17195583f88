//! A cgroup subtree and an allocation directory for one test, gone when it ends.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use isolation::cgroup::{Hierarchy, Patience, TaskCgroup, TaskPath};
use isolation::{
    Descriptors, Identity, Plan, Report, SandboxSpec, Spawned, TaskLayout, plan, read_report, spawn,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// How long a dying cgroup is waited for.
const PATIENCE: Patience = Patience::Milliseconds(5000);

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Fixture {
    hierarchy: Option<Hierarchy>,
    directory: tempfile::TempDir,
}

/// What became of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Standard output and error.
    pub(crate) output: String,
    /// Exit status, or minus the signal.
    pub(crate) status: i32,
    /// The sentence for a failed step.
    pub(crate) failure: Option<String>,
}

impl Fixture {
    /// `None`, with a line that says so, when this is not root.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("drover-test-{}-{number}", std::process::id());
        let hierarchy = Hierarchy::open(base.as_ref()).expect("own cgroup subtree");
        let directory = tempfile::tempdir().expect("allocation directory");
        let fixture = Self {
            hierarchy: Some(hierarchy),
            directory,
        };
        let TaskLayout { shared, task } = fixture.layout();
        for path in [
            shared,
            task.join("local"),
            task.join("secrets"),
            task.join("tmp"),
        ] {
            fs::create_dir_all(&path).expect("directory of the task");
            fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("mode");
        }
        fs::create_dir(task.join("private")).expect("private directory");
        fs::write(task.join("private/token"), "secret").expect("token");
        fs::set_permissions(&task, Permissions::from_mode(0o777)).expect("mode");
        Some(fixture)
    }

    pub(crate) fn layout(&self) -> TaskLayout {
        TaskLayout {
            shared: self.directory.path().join("alloc"),
            task: self.directory.path().join("web"),
        }
    }

    pub(crate) fn hierarchy(&self) -> &Hierarchy {
        self.hierarchy.as_ref().expect("kept until the end")
    }

    pub(crate) fn cgroup(&self, task: &str) -> TaskCgroup {
        let path = TaskPath::new("0e7f", task).expect("names");
        self.hierarchy()
            .create_task(&path)
            .expect("cgroup of the task")
    }

    /// The same after an earlier run in it was killed, whose processes may still be dying.
    pub(crate) fn fresh_cgroup(&self, task: &str) -> TaskCgroup {
        let path = TaskPath::new("0e7f", task).expect("names");
        self.hierarchy()
            .remove_task(&path, PATIENCE)
            .expect("removed");
        self.cgroup(task)
    }

    /// A task of the exec driver as nobody, running a shell script.
    pub(crate) fn exec(&self, script: &str) -> SandboxSpec {
        let nobody = isolation::lookup_identity("nobody").expect("nobody");
        shell(SandboxSpec::exec(self.layout(), nobody, "sh"), script)
    }

    /// The same as root, with the same capabilities.
    pub(crate) fn exec_as_root(&self, script: &str) -> SandboxSpec {
        let root = Identity::User {
            uid: 0,
            gid: 0,
            groups: vec![0],
        };
        SandboxSpec {
            identity: root,
            ..self.exec(script)
        }
    }

    pub(crate) fn raw_exec(&self, script: &str) -> SandboxSpec {
        shell(SandboxSpec::raw_exec(self.layout(), "sh"), script)
    }

    /// Runs a task to its end.
    pub(crate) fn run(&self, spec: &SandboxSpec) -> Outcome {
        let plan = plan(spec).expect("a plan");
        let running = start(&plan, &self.cgroup("web"), None);
        running.finish(&plan)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let Some(hierarchy) = self.hierarchy.take() else {
            return;
        };
        for task in hierarchy.tasks().expect("list of tasks") {
            hierarchy
                .open_task(&task)
                .and_then(|task| task.kill())
                .expect("killed");
        }
        let removed = hierarchy.remove(PATIENCE);
        if !std::thread::panicking() {
            removed.expect("everything is removed");
        }
    }
}

fn shell(spec: SandboxSpec, script: &str) -> SandboxSpec {
    SandboxSpec {
        args: vec!["-c".to_owned(), script.to_owned()],
        ..spec
    }
}

/// A program that was started, with its output.
pub(crate) struct Running {
    pub(crate) spawned: Spawned,
    output: File,
}

/// Starts a plan with its output in a pipe.
pub(crate) fn start(plan: &Plan, cgroup: &TaskCgroup, target: Option<&OwnedFd>) -> Running {
    start_with(plan, cgroup, target.map(AsFd::as_fd), None)
}

/// The same with more descriptors.
pub(crate) fn start_with(
    plan: &Plan,
    cgroup: &TaskCgroup,
    target: Option<BorrowedFd<'_>>,
    network: Option<BorrowedFd<'_>>,
) -> Running {
    let (output, writer) = pipe_with(PipeFlags::CLOEXEC).expect("pipe");
    let null = File::open("/dev/null").expect("null");
    let mut descriptors = Descriptors::new(null.as_fd(), writer.as_fd(), writer.as_fd());
    if let Some(target) = target {
        descriptors = descriptors.with_target(target);
    }
    if let Some(network) = network {
        descriptors = descriptors.with_network(network);
    }
    let spawned = spawn(plan, cgroup.as_fd(), descriptors).expect("a child");
    Running {
        spawned,
        output: File::from(output),
    }
}

impl Running {
    /// Waits until the program runs or a step failed.
    pub(crate) fn report(&self) -> Report {
        poll(
            &mut [PollFd::new(&self.spawned.report, PollFlags::IN)],
            None,
        )
        .expect("poll");
        read_report(&self.spawned.report).expect("report")
    }

    /// Reads output until `text` has come.
    pub(crate) fn await_output(&mut self, text: &str) {
        let mut seen = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(text) {
            let count = self.output.read(&mut byte).expect("output");
            assert_ne!(count, 0, "ended after {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&byte);
        }
    }

    pub(crate) fn finish(mut self, plan: &Plan) -> Outcome {
        let failure = match self.report() {
            Report::Failed(failure) => Some(plan.describe(failure)),
            Report::Running => None,
            Report::Pending => panic!("a readable report is never pending"),
        };
        let mut output = String::new();
        self.output.read_to_string(&mut output).expect("output");
        Outcome {
            output,
            status: self.wait(),
            failure,
        }
    }

    /// Reaps it: the exit status, or minus the signal.
    pub(crate) fn wait(&self) -> i32 {
        let id = WaitId::PidFd(self.spawned.pidfd.as_fd());
        let status = waitid(id, WaitIdOptions::EXITED)
            .expect("wait")
            .expect("a status");
        status
            .exit_status()
            .or_else(|| status.terminating_signal().map(|signal| -signal))
            .expect("exited or killed")
    }
}

impl Outcome {
    /// The line that starts with `key`, without it.
    pub(crate) fn field(&self, key: &str) -> &str {
        self.output
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_else(|| panic!("no {key:?} in {self:?}"))
            .trim()
    }

    /// Output of a program that must have succeeded.
    pub(crate) fn success(&self) -> &str {
        assert_eq!(self.failure, None, "{self:?}");
        assert_eq!(self.status, 0, "{self:?}");
        &self.output
    }
}

/// The host's path of something in the task's directory.
pub(crate) fn below(layout: &TaskLayout, path: &str) -> PathBuf {
    layout.task.join(path)
}
