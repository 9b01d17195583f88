//! From a spawn request to a child: everything is checked and opened before anything is made.

use super::custody::{Now, Tree};
use super::records::{Record, RecordState};
use super::{Handles, Keeper, KeeperError, Watch, now};
use crate::io::{Waiting, open_fifo};
use crate::memfd;
use crate::protocol::{Refusal, SpawnRequest, StdioSource, decode_plan};
use crate::report::tell;
use isolation::{Descriptors, Plan, SpawnError, Spawned};
use protocol_error_chain::chain;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{self, Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Arguments and environment may have 2 MiB (execve(2)); mounts and filters come on top.
const PLAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest that a start may take, whatever was asked.
const START_TIMEOUT_MS_MAX: u64 = 10 * 60 * 1000;

/// A task's standard descriptors, and which of them keeper holds on to.
struct Stdio {
    descriptors: [OwnedFd; 3],
    held: Vec<OwnedFd>,
    fifos: Vec<String>,
}

impl Keeper {
    /// # Errors
    /// Only where keeper itself cannot go on; a refusal is an answer.
    pub(super) fn spawn(
        &mut self,
        request: &SpawnRequest,
        descriptors: &[OwnedFd],
    ) -> Result<Result<(), Refusal>, KeeperError> {
        match self.try_spawn(request, descriptors) {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(KeeperError::ForeignNamespace(error)),
        }
    }

    fn try_spawn(
        &mut self,
        request: &SpawnRequest,
        descriptors: &[OwnedFd],
    ) -> Result<Result<(), Refusal>, SpawnError> {
        let (plan, stdio, cgroup) = match self.prepare(request, descriptors) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let key = &request.key;
        let network = request
            .network
            .and_then(|position| descriptors.get(usize::from(position)));
        let target = request
            .target
            .as_ref()
            .and_then(|target| self.handles.get(target));
        let target = target.and_then(|handles| handles.pidfd.as_ref());
        let [input, output, error] = &stdio.descriptors;
        let mut slots = Descriptors::new(input.as_fd(), output.as_fd(), error.as_fd());
        if let Some(network) = network {
            slots = slots.with_network(network.as_fd());
        }
        if let Some(target) = target {
            slots = slots.with_target(target.as_fd());
        }
        // From here on a crash leaves a record without a process at worst, never a process without
        // a record.
        let record = Record {
            key: key.clone(),
            cgroup: request.cgroup.clone(),
            fifos: stdio.fifos.clone(),
            state: RecordState::Starting,
        };
        if let Err(errno) = self.records.write(&record) {
            return Ok(Err(Refusal::Record {
                errno: errno.raw_os_error(),
            }));
        }
        let oom_kills = cgroup.oom_kills();
        match isolation::spawn(&plan, cgroup.as_fd(), slots) {
            Ok(spawned) => {
                self.register(request, spawned, plan, stdio, oom_kills, now());
                Ok(Ok(()))
            }
            Err(error) => {
                self.remove_record(key);
                match error {
                    SpawnError::LeavePidNamespace(_) => Err(error),
                    other => Ok(Err(Refusal::Spawn {
                        detail: chain(&other),
                    })),
                }
            }
        }
    }

    fn prepare(
        &self,
        request: &SpawnRequest,
        descriptors: &[OwnedFd],
    ) -> Result<(Plan, Stdio, super::cgroup::TaskCgroup), Refusal> {
        self.custody.check_admission(&request.key, now().boot)?;
        if let Some(position) = request.network {
            at(descriptors, position)?;
        }
        if let Some(target) = &request.target {
            self.custody.check_signal(target)?;
        }
        let plan = read_plan(at(descriptors, 0)?.as_fd())?;
        let path = || request.cgroup.clone();
        let refused = |errno: rustix::io::Errno| Refusal::Cgroup {
            path: path(),
            errno: errno.raw_os_error(),
        };
        let cgroup = self.base.task(&request.cgroup).map_err(refused)?;
        if cgroup.tree().map_err(refused)? == Tree::Populated {
            return Err(Refusal::CgroupNotEmpty { path: path() });
        }
        let stdio = self.open_stdio(request, descriptors)?;
        Ok((plan, stdio, cgroup))
    }

    fn open_stdio(
        &self,
        request: &SpawnRequest,
        descriptors: &[OwnedFd],
    ) -> Result<Stdio, Refusal> {
        let (mut held, mut fifos) = (Vec::new(), Vec::new());
        let mut open = |source: &StdioSource| match source {
            StdioSource::Null => {
                fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|errno| fifo_refusal("/dev/null", errno))
            }
            StdioSource::Fifo { name } => {
                let refused = |errno| fifo_refusal(name, errno);
                let directory = self.io_directory.as_fd();
                let fifo = open_fifo(directory, name, Waiting::Blocking).map_err(refused)?;
                // A second description would be the same pipe; a duplicate is enough to hold it.
                held.push(rustix::io::fcntl_dupfd_cloexec(&fifo, 3).map_err(refused)?);
                fifos.push(name.clone());
                Ok(fifo)
            }
            StdioSource::Descriptor { position } => {
                let given = at(descriptors, *position)?;
                rustix::io::fcntl_dupfd_cloexec(given, 3)
                    .map_err(|errno| fifo_refusal("of the packet", errno))
            }
        };
        let descriptors = [
            open(&request.stdin)?,
            open(&request.stdout)?,
            open(&request.stderr)?,
        ];
        Ok(Stdio {
            descriptors,
            held,
            fifos,
        })
    }

    fn register(
        &mut self,
        request: &SpawnRequest,
        spawned: Spawned,
        plan: Plan,
        stdio: Stdio,
        oom_kills_at_start: Option<u64>,
        now: Now,
    ) {
        let Spawned { pidfd, pid, report } = spawned;
        let key = request.key.clone();
        let mut handles = self.new_handles(&key);
        let token = EventData::new_u64(handles.number * 4 + Watch::Report as u64);
        if let Err(errno) = epoll::add(&self.epoll, &report, token, EventFlags::IN) {
            // The start deadline ends what nobody can watch.
            tell!("keeper: {key}: its report cannot be polled: {errno}");
        }
        handles.pidfd = Some(pidfd);
        handles.report = Some(report);
        handles.plan = Some(plan);
        handles.streams = stdio.held;
        handles.oom_kills_at_start = oom_kills_at_start;
        self.handles.insert(key.clone(), handles);
        let raw_pid = pid.as_raw_nonzero().get();
        self.by_pid.insert(raw_pid, key.clone());
        let deadline = now
            .boot
            .plus_millis(request.start_timeout_ms.min(START_TIMEOUT_MS_MAX));
        let effects = self.custody.on_spawned(
            &key,
            request.cgroup.clone(),
            stdio.fifos,
            raw_pid.unsigned_abs(),
            deadline,
        );
        self.execute(effects, now);
    }

    pub(super) fn new_handles(&mut self, key: &crate::protocol::TaskKey) -> Handles {
        let number = self.next_number;
        self.next_number += 1;
        self.by_number.insert(number, key.clone());
        Handles::new(number)
    }
}

fn at(descriptors: &[OwnedFd], position: u8) -> Result<&OwnedFd, Refusal> {
    descriptors
        .get(usize::from(position))
        .ok_or(Refusal::MissingDescriptor { position })
}

/// Reads a plan that nobody can change any more: an unsealed one could be another after it was
/// checked.
fn read_plan(memfd: BorrowedFd<'_>) -> Result<Plan, Refusal> {
    let bad = |detail: String| Refusal::BadPlan { detail };
    let bytes = memfd::read_sealed(memfd, PLAN_BYTES_MAX).map_err(|error| bad(chain(&error)))?;
    decode_plan(&bytes).map_err(|error| bad(chain(&error)))
}

fn fifo_refusal(name: &str, errno: rustix::io::Errno) -> Refusal {
    Refusal::Fifo {
        name: name.to_owned(),
        errno: errno.raw_os_error(),
    }
}
