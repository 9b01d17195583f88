//! The thread that starts children. It lives as long as noded: the kernel sends a child its
//! parent-death signal when the thread that started it ends.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use isolation::cgroup::TaskCgroup;
use isolation::{
    Descriptors, Exec, PLAN_VERSIONS, PidNamespace, Plan, Resource, Slot, Spawned, Step,
};
use noded_jail::{Programs, Verb};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, oneshot};

use super::child::{Child, Ends};
use super::{JailError, JailOpenError, Turn};

/// Starts that wait for the thread; further callers wait for their place.
const WAITING_MAX: usize = super::CHILDREN_MAX;

/// The kernel's first choice when memory is short; tasks have 0.
const OOM_SCORE: i16 = 500;

/// The template engine needs 2 MiB of stack, in an unoptimized build more.
const STACK_BYTES: u64 = 8 * 1024 * 1024;

/// The thread.
#[derive(Debug)]
pub(super) struct Starter {
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
struct Order {
    verb: Verb,
    environment: Vec<CString>,
    answer: oneshot::Sender<Result<(Spawned, Ends), JailError>>,
}

impl Starter {
    pub(super) fn start(program: &Path, cgroup: TaskCgroup) -> Result<Self, JailOpenError> {
        let program = open(program)?;
        let (orders, received) = mpsc::channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("jail".to_owned())
            .spawn(move || serve(received, &program, &cgroup))
            .map_err(JailOpenError::Thread)?;
        Ok(Self { orders })
    }

    /// A new child. It has the turn until it is reaped.
    pub(super) async fn child(
        &self,
        verb: Verb,
        environment: &[(String, String)],
        turn: Turn,
    ) -> Result<Child, JailError> {
        let (answer, answered) = oneshot::channel();
        let environment = environment
            .iter()
            .map(|(name, value)| c_string(&format!("{name}={value}")))
            .collect();
        let order = Order {
            verb,
            environment,
            answer,
        };
        self.orders
            .send(order)
            .await
            .map_err(|_| JailError::ShuttingDown)?;
        let (spawned, ends) = answered.await.map_err(|_| JailError::ShuttingDown)??;
        Child::new(verb, spawned, ends, turn)
    }
}

fn open(path: &Path) -> Result<File, JailOpenError> {
    let failed = |source| JailOpenError::Program {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_file() && about.permissions().mode() & 0o111 != 0 {
        Ok(file)
    } else {
        Err(JailOpenError::NotExecutable {
            path: path.to_owned(),
        })
    }
}

fn serve(mut orders: mpsc::Receiver<Order>, program: &File, cgroup: &TaskCgroup) {
    while let Some(order) = orders.blocking_recv() {
        let Order {
            verb,
            environment,
            answer,
        } = order;
        let started = start(&plan(verb, environment, program), program, cgroup);
        if let Err(Ok((spawned, _ends))) = answer.send(started) {
            // The caller gave up meanwhile: its pipes are closed, and nobody else reaps it.
            super::child::end(&spawned.pidfd);
        }
    }
}

fn start(plan: &Plan, program: &File, cgroup: &TaskCgroup) -> Result<(Spawned, Ends), JailError> {
    let (input, request) = pipe()?;
    let (answer, output) = pipe()?;
    let (messages, error) = pipe()?;
    let descriptors = Descriptors::new(input.as_fd(), output.as_fd(), error.as_fd())
        .with_program(program.as_fd());
    let spawned = isolation::spawn(plan, cgroup.as_fd(), descriptors).map_err(JailError::Start)?;
    let ends = Ends {
        request,
        answer,
        messages,
    };
    Ok((spawned, ends))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), JailError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| JailError::Pipe(Errno::into(errno)))
}

/// Nothing is inherited from noded. The program takes its own rights away.
fn plan(verb: Verb, environment: Vec<CString>, program: &File) -> Plan {
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let words = [c"noded-jail".to_owned(), c_string(verb.name())];
    Plan {
        version: *PLAN_VERSIONS.start(),
        namespaces: Vec::new(),
        pid_namespace: match verb.limits().programs {
            Programs::None => PidNamespace::Keeper,
            Programs::InOwnNamespace => PidNamespace::New,
        },
        slots: vec![Slot::Input, Slot::Output, Slot::Error, Slot::Program],
        steps: vec![
            Step::NotDumpable,
            Step::ResetSignalActions,
            Step::NewSession,
            Step::NewSessionKeyring,
            Step::NormalScheduler,
            Step::Nice(0),
            Step::OomScoreAdjust(OOM_SCORE),
            Step::StandardStreams,
            Step::ResourceLimit {
                resource: Resource::StackBytes,
                soft: Some(STACK_BYTES),
                hard: None,
            },
            Step::WorkingDirectory(c"/".to_owned()),
            Step::CloseOnExecFrom(3),
            Step::Umask(0o077),
            Step::EmptySignalMask,
        ],
        exec: Exec {
            candidates: vec![c_string(&path)],
            argv: words.to_vec(),
            env: environment,
        },
    }
}

/// Our own words have no NUL.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
